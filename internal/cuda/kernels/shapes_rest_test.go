package kernels

import (
	"math"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/exact"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/stream"
)

// The way of everything else than products through TestRealShapes.

// pool has windows without ties.
func (o *wideOp) pool() {
	w, pixels, area := o.op.Window, o.op.Shape[1]*o.op.Shape[2], float64(o.op.Window.H*o.op.Window.W)
	maximum := o.op.Kind == ir.MaxPool
	forward, backward := AvgPool(o.b, o.op, o.x.Ptr, o.y.Ptr), AvgPoolGrad(o.b, o.op, o.dy.Ptr, o.dx.Ptr, false)
	if maximum {
		forward, backward = MaxPool(o.b, o.op, o.x.Ptr, o.y.Ptr), MaxPoolGrad(o.b, o.op, o.x.Ptr, o.dy.Ptr, o.dx.Ptr, false)
	}
	// window gives the largest value of a window, the pixel that has it, and the sum of all.
	window := func(b, channel, p int) (largest float64, at int, sum total) {
		largest = math.Inf(-1)
		for k := range w.H * w.W {
			i := tap(o.op, p, k/w.W, k%w.W)
			if i < 0 {
				continue
			}
			x := o.x.at(b*o.in + channel*pixels + i)
			sum.add(x / area)
			if x > largest {
				largest, at = x, i
			}
		}
		return largest, at, sum
	}
	positions := o.op.Out[1] * o.op.Out[2]
	o.check(forward, result{place: o.y, name: "y", row: o.values, bound: o.bound(w.H * w.W), want: func(b, e int) total {
		largest, _, sum := window(b, e/positions, e%positions)
		if maximum {
			return total{sum: largest}
		}
		return sum
	}})
	o.check(backward, result{place: o.dx, name: "dx", row: o.in, bound: o.bound(w.H * w.W), want: func(b, e int) (t total) {
		channel, pixel := e/pixels, e%pixels
		for i := range positions * w.H * w.W {
			p, k := i/(w.H*w.W), i%(w.H*w.W)
			if tap(o.op, p, k/w.W, k%w.W) != pixel {
				continue
			}
			dy := o.dy.at(b*o.values + channel*positions + p)
			if !maximum {
				t.add(dy / area)
			} else if _, at, _ := window(b, channel, p); at == pixel {
				t.add(dy)
			}
		}
		return t
	}})
}

// groupNorm has gradients of moments that nobody has computed: what memory holds there. Bounds are those of TestGroupNorm.
func (o *wideOp) groupNorm(keptAt, stride int) {
	channels := o.op.Shape[0]
	positions, size := o.in/channels, o.in/o.op.Groups
	weight, bias, moments := o.floats(channels), o.floats(channels), o.floats(o.b.Capacity*MomentBytes(o.op)/4)
	own := o.floats(o.b.Capacity * MomentBytes(o.op) / 4)
	o.check(GroupNorm(o.b, o.op, o.x.Ptr, weight.Ptr, bias.Ptr, o.y.Ptr, own.Ptr), result{place: o.y, name: "y", row: o.in, bound: 0x1p-20,
		want: func(b, e int) (t total) {
			group := make([]float32, size)
			for i := range group {
				group[i] = float32(o.x.at(b*o.in + e/size*size + i))
			}
			one := &ir.Op{Groups: 1, Epsilon: o.op.Epsilon}
			y, _ := normalized(one, group)
			t.add(y[e%size] * weight.at(e/positions))
			t.add(bias.at(e / positions))
			return t
		}})
	// hat is the normalized input of element e of example b, and the scale of its group.
	hat := func(b, e int) (x, scale float64) {
		at := 2 * (b*o.op.Groups + e/size)
		scale = moments.double(at + 1)
		return (o.x.at(b*o.in+e) - moments.double(at)) * scale, scale
	}
	o.check(GroupNormBackward(o.b, o.op, NormBack{X: o.x.Ptr, Dy: o.dy.Ptr, Weight: weight.Ptr, Moments: moments.Ptr, Dx: o.dx.Ptr}), result{place: o.dx, name: "dx", row: o.in, bound: 0x1p-20,
		want: func(b, e int) (t total) {
			var mean, slope float64
			for i := e / size * size; i < (e/size+1)*size; i++ {
				x, _ := hat(b, i)
				g := o.dy.at(b*o.in+i) * weight.at(i/positions) / float64(size)
				mean, slope = mean+g, slope+g*x
			}
			x, scale := hat(b, e)
			t.add(o.dy.at(b*o.in+e) * weight.at(e/positions) * scale)
			t.add(-mean * scale)
			t.add(-x * slope * scale)
			return t
		}})
	kept, norm2 := o.floats(o.b.Capacity*stride), o.zeros(2*o.b.Capacity)
	o.check(GroupNormStore(o.b, o.op, o.x.Ptr, o.dy.Ptr, moments.Ptr, kept.Ptr+Ptr(4*keptAt), stride, norm2.Ptr),
		result{place: kept, name: "kept", row: stride, skip: keptAt, bound: 24 * unit, want: func(b, e int) (t total) {
			for p := range positions {
				i := e%channels*positions + p
				dy := o.dy.at(b*o.in + i)
				if x, _ := hat(b, i); e < channels {
					dy *= x
				}
				t.add(dy)
			}
			return t
		}})
}

// gram bounds norms by Gram matrices.
func (o *wideOp) gram() {
	norm2 := o.zeros(2 * o.b.Capacity)
	omega, gamma := GramRounding(o.op)
	const bound = 1e-6
	o.ends(NormGram(o.b, o.op, o.x.Ptr, o.dy.Ptr, norm2.Ptr), result{place: norm2, name: "norm", double: true, row: 1, bound: bound,
		want: func(b, _ int) (t total) {
			var squares, both float64
			for e := range o.out * (o.k + 1) {
				g := o.gradient(b, e).sum
				squares += g * g
			}
			for p := range o.positions {
				a, d := 1.0, 0.0
				for k := range o.k {
					x := o.column(b, k, p)
					a += x * x
				}
				for f := range o.out {
					y := o.dy.at(b*o.values + f*o.positions + p)
					d += y * y
				}
				both += math.Sqrt(a * d)
			}
			norm := math.Sqrt(squares+omega*both*both) + gamma*both
			t.add(norm * norm)
			return t
		}})
}

// norms are those of dense ops, by themselves and in the launch of the factors.
func (s *wide) norms(ops []*wideOp) {
	if len(ops) > MostGhosts {
		ops = ops[:MostGhosts]
	}
	var ghosts []Ghost
	var results []result
	square := func(o *wideOp, b int) (t total) {
		x, d := 1.0, 0.0
		for i := range o.k {
			x += o.x.at(b*o.k+i) * o.x.at(b*o.k+i)
		}
		for f := range o.out {
			d += o.dy.at(b*o.out+f) * o.dy.at(b*o.out+f)
		}
		t.add(x * d)
		return t
	}
	for _, o := range ops {
		norm2 := s.zeros(2 * s.b.Capacity)
		ghosts = append(ghosts, Ghost{Op: o.op, X: o.x.Ptr, Dy: o.dy.Ptr, Norm2: norm2.Ptr})
		results = append(results, result{place: norm2, name: "norm", double: true, row: 1, bound: 1e-12, want: func(b, _ int) total { return square(o, b) }})
	}
	s.check(NormGhosts(s.b, ghosts...), results...)

	// A run's bound is 1. Targets are classes that there are.
	const parts = 3
	var norm2 *place
	norm2 = s.place(2*parts*s.b.Capacity, func(i int) uint32 {
		return uint32(math.Float64bits(math.Abs(float64(contentAt(norm2.Ptr+uint64(i/2))))) >> (32 * (i % 2)))
	})
	targets, factors := s.zeros(s.b.Capacity), s.floats(s.b.Capacity)
	s.check(Factors(s.b, ir.Flat, 1, parts, norm2.Ptr, ir.SoftmaxCrossEntropy, 10, targets.Ptr, factors.Ptr, 0, ghosts...),
		result{place: factors, name: "factors", row: 1, bound: 1e-5, want: func(b, _ int) (t total) {
			sum := 0.0
			for i := range parts {
				sum += norm2.double(i*s.b.Capacity + b)
			}
			for _, o := range ops {
				sum += square(o, b).sum
			}
			t.add(min(1, 1/math.Sqrt(sum)))
			return t
		}})
}

// combine adds kept gradients up.
func (s *wide) combine(stride int) {
	if stride == 0 {
		return
	}
	kept, factors, sum := s.floats(s.b.Capacity*stride), s.floats(s.b.Capacity), s.floats(2*stride)
	s.check(Combine(s.b, factors.Ptr, kept.Ptr, stride, stride, sum.Ptr), result{place: sum, name: "sum", double: true, row: 1, bound: s.bound(ExampleBlock),
		want: func(e, _ int) (t total) {
			t.add(sum.double(e))
			for b := range s.b.Capacity {
				if f := factors.at(b); f > 0 {
					t.add(f * kept.at(b*stride+e))
				}
			}
			return t
		}})
}

// release is of all parameters.
func (s *wide) release(n int) {
	noise, err := stream.New(stream.ChaCha20, stream.KeyFromSeed(4, "kernels"))
	if err != nil {
		s.t.Fatal(err)
	}
	words, err := noise.KeyWords()
	if err != nil {
		s.t.Fatal(err)
	}
	table := exact.Words()
	run := s.place(RunBytes/4, func(i int) uint32 {
		switch i {
		case RunScalars/4 + int(device.NoiseStd):
			return math.Float32bits(0x1p-2)
		case RunScalars/4 + int(device.NoiseStep):
			return math.Float32bits(0x1p-26)
		}
		return 0
	})
	key := s.place(len(words), func(i int) uint32 { return words[i] })
	rows := s.place(2*len(table), func(i int) uint32 { return uint32(table[i/2] >> (32 * (i % 2))) })
	dst, sum := s.floats(n), s.floats(2*n)
	sampler, err := exact.New(0x1p24, noise, 3)
	if err != nil {
		s.t.Fatal(err)
	}
	z := Noise{Key: key.Ptr, Table: rows.Ptr, Tensor: 3, Std: device.NoiseStd, Step: device.NoiseStep}
	s.check(Release(run.Ptr, dst.Ptr, sum.Ptr, n, z),
		result{place: dst, name: "released", row: 1, want: func(i, _ int) total {
			x := []float64{sum.double(i)}
			sampler.Release64(x, x, 0x1p-26, 0, i)
			return total{sum: float64(float32(x[0]))}
		}},
		result{place: sum, name: "sum", double: true, row: 1, want: func(int, int) (t total) { return t }})
}
