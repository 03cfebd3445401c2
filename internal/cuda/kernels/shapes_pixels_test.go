package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ir"
)

// Real shapes in pixels, in tf32: the code of bf16 is the same but for its elements.

// value is room for examples of a shape in pixels, full of numbers of the precision; channels that do not exist are zero.
func (s *wide) value(shape []int) *place {
	_, channels := area(shape)
	var p *place
	p = s.place(s.b.Capacity*Pixels.Elements(shape), func(i int) uint32 {
		if i%padded(channels) >= channels {
			return 0
		}
		return math.Float32bits(s.math.nearest(contentAt(p.Ptr + uint64(4*i))))
	})
	return p
}

// pixelOp is an op with places for its values in pixels.
type pixelOp struct {
	*wide
	op                                   *ir.Op
	in, out, taps                        int
	x, y, dy, dx, w, bias, forward, back *place
}

// addPixels makes weights that are laid out without the kernels that do it.
func (s *wide) addPixels(op *ir.Op) *pixelOp {
	op = image(op)
	o := &pixelOp{wide: s, op: op, in: op.Shape[0], out: op.Out[0], taps: op.Window.H * op.Window.W}
	o.x, o.y, o.dy, o.dx = s.value(op.Shape), s.value(op.Out), s.value(op.Out), s.value(op.Shape)
	o.w, o.bias = s.floats(o.out*o.in*o.taps), s.floats(o.out)
	weight := func(f, c, tap int) uint32 {
		if f >= o.out || c >= o.in {
			return 0
		}
		return math.Float32bits(s.math.nearest(float32(o.w.at((f*o.in+c)*o.taps + tap))))
	}
	o.forward = s.place(WeightElements(op, Filters), func(i int) uint32 {
		n := padded(o.in)
		return weight(i/n/o.taps, i%n, i/n%o.taps)
	})
	o.back = s.place(WeightElements(op, Channels), func(i int) uint32 {
		n := padded(o.out)
		return weight(i%n, i/n/o.taps, i/n%o.taps)
	})
	return o
}

// productBound is of chains of tensor cores, whose terms are cut off, and of rounding to tf32, beside the sum of magnitudes.
func productBound(terms int) float64 { return float64(terms)*0x1p-22 + 0x1p-10 }

func (o *pixelOp) products() {
	var none Ptr
	pixels, _ := area(o.op.Out)
	o.edges(o.math.Forward(o.b, o.op, noActivation, o.x.Ptr, o.forward.Ptr, o.bias.Ptr, o.y.Ptr),
		result{place: o.y, name: "y", row: pixels * padded(o.out), bound: productBound(o.in * o.taps), want: func(b, e int) (t total) {
			p, f := e/padded(o.out), e%padded(o.out)
			if f >= o.out {
				return t
			}
			for i := range o.in * o.taps {
				c, k := i/o.taps, i%o.taps
				if at := tap(o.op, p, k/o.op.Window.W, k%o.op.Window.W); at >= 0 {
					t.add(float64(o.math.nearest(float32(o.w.at((f*o.in+c)*o.taps+k)))) * o.x.at((b*o.op.Shape[1]*o.op.Shape[2]+at)*padded(o.in)+c))
				}
			}
			t.add(o.bias.at(f))
			return t
		}})
	all := o.op.Shape[1] * o.op.Shape[2]
	o.edges(o.math.InputGrad(o.b, o.op, o.dy.Ptr, o.back.Ptr, o.dx.Ptr, false, none),
		result{place: o.dx, name: "dx", row: all * padded(o.in), bound: productBound(o.out * o.taps), want: func(b, e int) (t total) {
			at, c := e/padded(o.in), e%padded(o.in)
			if c >= o.in {
				return t
			}
			for i := range o.taps * pixels {
				p, k := i/o.taps, i%o.taps
				if tap(o.op, p, k/o.op.Window.W, k%o.op.Window.W) != at {
					continue
				}
				for f := range o.out {
					t.add(float64(o.math.nearest(float32(o.w.at((f*o.in+c)*o.taps+k)))) * o.dy.at((b*pixels+p)*padded(o.out)+f))
				}
			}
			return t
		}})
}

// gradient is element e of example b's: weights, then the bias.
func (o *pixelOp) gradient(b, e int) (t total) {
	pixels, _ := area(o.op.Out)
	for p := range pixels {
		f := e / (o.in * o.taps)
		if e >= o.out*o.in*o.taps {
			t.add(o.dy.at((b*pixels+p)*padded(o.out) + e - o.out*o.in*o.taps))
			continue
		}
		c, k := e/o.taps%o.in, e%o.taps
		if at := tap(o.op, p, k/o.op.Window.W, k%o.op.Window.W); at >= 0 {
			t.add(o.dy.at((b*pixels+p)*padded(o.out)+f) * o.x.at((b*o.op.Shape[1]*o.op.Shape[2]+at)*padded(o.in)+c))
		}
	}
	return t
}

// gradients keeps gradients; sums compute the same.
func (o *pixelOp) gradients() {
	size := o.out * (o.in*o.taps + 1)
	if size > MaxElements/o.b.Capacity {
		return // they would never be kept together
	}
	kept, norms := o.floats(o.b.Capacity*size), o.zeros(2*o.b.Capacity*o.math.GradientNorms(o.op))
	op := *o.op
	op.Bias = 0
	o.edges(o.math.GradientStore(o.b, &op, o.x.Ptr, o.dy.Ptr, kept.Ptr, size, norms.Ptr),
		result{place: kept, name: "kept", row: size, bound: float64(ir.Size(o.op.Out)/o.out) * 0x1p-22, want: o.gradient})
}

// edges runs the first block of a launch, the last and one between.
func (o *pixelOp) edges(l Launch, r result) {
	o.t.Helper()
	all := l.Grid[0] * l.Grid[1] * l.Grid[2]
	o.ends(l, r)
	o.wrote(l, rand.New(rand.NewPCG(uint64(all), 6)).IntN(all), []result{r})
}

// TestRealPixels takes the largest layers of a small model through some blocks, TestLongRealPixels those of all large ones.
func TestRealPixels(t *testing.T) { realPixels(t, "cifar-small", 250) }

func TestLongRealPixels(t *testing.T) {
	for _, model := range []string{"cifar-paper", "wrn-16-4", "resnet-small"} {
		for _, capacity := range []int{250, 4096} {
			t.Run(fmt.Sprint(model, " ", capacity), func(t *testing.T) { realPixels(t, model, capacity) })
		}
	}
}

func realPixels(t *testing.T, model string, capacity int) {
	m, seen := Math(device.TF32), map[string]bool{}
	p := lowered(t, model)
	for i := range p.Ops {
		op := &p.Ops[i]
		alike := fmt.Sprint(op.Kind, op.Shape, op.Out, op.Window)
		if !Products(op) || seen[alike] || Pixels.Elements(op.Shape) > MaxElements/capacity || Pixels.Elements(op.Out) > MaxElements/capacity {
			continue
		}
		seen[alike] = true
		o := newWide(t, m, capacity).addPixels(op)
		o.products()
		if op.Kind == ir.Conv {
			o.gradients()
		}
	}
}
