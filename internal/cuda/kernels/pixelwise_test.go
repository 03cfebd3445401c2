package kernels

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/privgrad/privgrad/internal/ir"
)

// twin runs kernels of values in pixels beside those of planes. Where they compute the same they agree to the bit, but that values in pixels are
// rounded once to their precision.
type twin struct {
	*machine
	k Math
	b Batch
	s size
}

func newTwin(t *testing.T, k Math, s size) *twin {
	m := newMachine(t)
	return &twin{m, k, m.batch(s), s}
}

// eachTwin takes both precisions through a few batches.
func eachTwin(t *testing.T, f func(w *twin, rng *rand.Rand, name string)) {
	for _, k := range maths[1:] {
		for _, s := range []size{{2, 3}, {0, 1}, {3, 3}} {
			f(newTwin(t, k, s), rand.New(rand.NewPCG(58, uint64(s.live))), fmt.Sprint(k, ", ", s))
		}
	}
}

// value is x of all examples in either layout, rounded. Dead examples are NaN, and so are all channels of theirs.
func (w *twin) value(shape []int, x []float32) (planes, pixels Ptr) {
	x = slices.Clone(x)
	for i := range x {
		x[i] = w.k.nearest(x[i])
	}
	spoil(x, w.s.live, w.s.capacity)
	return w.floats(x), w.elements(w.laidInPixels(shape, x))
}

func (w *twin) random(rng *rand.Rand, shape []int) (planes, pixels Ptr) {
	return w.value(shape, normals(rng, w.s.capacity*ir.Size(shape)))
}

// before is what lies where kernels write: with it in planes, in all channels of pixels, or in those that exist of live examples.
func (w *twin) before(shape []int, v float32, all bool) (planes, pixels Ptr) {
	v = w.k.nearest(v)
	if n := w.s.capacity * Pixels.Elements(shape); all {
		return w.floats(fill(w.s.capacity*ir.Size(shape), v)), w.elements(fill(n, v))
	}
	x := fill(w.s.capacity*ir.Size(shape), v)
	y := w.laidInPixels(shape, x)
	for i := w.s.live * Pixels.Elements(shape); i < len(y); i++ {
		y[i] = v
	}
	return w.floats(x), w.elements(y)
}

func (w *twin) laidInPixels(shape []int, x []float32) []float32 {
	n, c := area(shape)
	y := make([]float32, len(x)/(n*c)*n*padded(c))
	for i := range y {
		if e, p, channel := i/(n*padded(c)), i/padded(c)%n, i%padded(c); channel < c {
			y[i] = x[(e*c+channel)*n+p]
		} else if e >= w.s.live {
			y[i] = nan32
		}
	}
	return y
}

func (w *twin) elements(x []float32) Ptr {
	if w.k.ElementBytes(Pixels) == 4 {
		return w.floats(x)
	}
	b := make([]byte, 0, 2*len(x))
	for _, v := range x {
		b = binary.LittleEndian.AppendUint16(b, uint16(math.Float32bits(v)>>16))
	}
	return w.bytes(b)
}

func (w *twin) readElements(p Ptr, n int) []float32 {
	w.t.Helper()
	if w.k.ElementBytes(Pixels) == 4 {
		return w.read(p, n)
	}
	b, x := w.copyOut(p, 2*n), make([]float32, n)
	for i := range x {
		x[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(b[2*i:])) << 16)
	}
	return x
}

// live are the values of live examples in the order of planes. It wants zeros in channels that do not exist, and dead examples as before.
func (w *twin) live(what string, shape []int, pixels Ptr, before float32) []float32 {
	w.t.Helper()
	n, c := area(shape)
	all := w.readElements(pixels, w.s.capacity*n*padded(c))
	x := make([]float32, w.s.live*n*c)
	for i, v := range all {
		e, p, channel := i/(n*padded(c)), i/padded(c)%n, i%padded(c)
		switch {
		case e >= w.s.live && v != w.k.nearest(before):
			w.t.Fatalf("%s: dead example %d has %v", what, e, v)
		case e < w.s.live && channel < c:
			x[(e*c+channel)*n+p] = v
		case e < w.s.live && v != 0:
			w.t.Fatalf("%s: pixel %d of example %d has %v in channel %d of %d", what, p, e, v, channel, c)
		}
	}
	return x
}

// agree compares a value with one in planes.
func (w *twin) agree(what string, shape []int, planes, pixels Ptr, before float32) {
	w.t.Helper()
	want := w.read(planes, w.s.live*ir.Size(shape))
	for i := range want {
		want[i] = w.k.nearest(want[i])
	}
	same(w.t, what, w.live(what, shape, pixels, before), want)
}

// both runs launches into what neither may leave as it is, and with add into what is added to.
func (w *twin) both(what string, shape []int, add bool, f func(y Ptr) Launch, g func(y Ptr) Launch) {
	w.t.Helper()
	before := float32(untouched)
	if add {
		before = 0.75
	}
	planes, pixels := w.before(shape, before, !add)
	w.launch(f(planes))
	w.launch(g(pixels))
	w.agree(fmt.Sprint(what, ", added ", add), shape, planes, pixels, before)
}

var pixelShapes = [][]int{{3, 5, 4}, {8, 3, 3}, {17, 2, 5}, {24, 4, 4}, {13}, {40}}

var halves = []bool{false, true}

func must(t *testing.T) func(Launch, error) Launch {
	return func(l Launch, err error) Launch {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
}

func TestPixelwise(t *testing.T) {
	eachTwin(t, func(w *twin, rng *rand.Rand, name string) {
		for _, shape := range pixelShapes {
			x, xs := w.random(rng, shape)
			d, ds := w.random(rng, shape)
			name, n := fmt.Sprint(name, ", ", shape, ": "), ir.Size(shape)
			for _, kind := range []ir.Kind{ir.ReLU, ir.LeakyReLU, ir.Tanh, ir.Sigmoid} {
				op := &ir.Op{Kind: kind, Shape: shape, Out: shape, Slope: 0.1}
				w.both(name+kind.String(), shape, false, func(y Ptr) Launch { return must(t)(Activation(w.b, op, x, y)) },
					func(y Ptr) Launch { return must(t)(w.k.Activation(w.b, op, xs, y)) })
				for _, add := range halves {
					w.both(name+kind.String()+" back", shape, add, func(dx Ptr) Launch { return must(t)(ActivationGrad(w.b, op, x, d, dx, add)) },
						func(dx Ptr) Launch { return must(t)(w.k.ActivationGrad(w.b, op, xs, ds, dx, add)) })
				}
			}
			op := &ir.Op{Kind: ir.Add, Shape: shape, Out: shape}
			w.both(name+"gelu", shape, false, func(y Ptr) Launch { return GELU(w.b, n, x, y) }, func(y Ptr) Launch { return w.k.GELU(w.b, op, xs, y) })
			w.both(name+"add", shape, false, func(y Ptr) Launch { return Add(w.b, op, x, d, y) }, func(y Ptr) Launch { return w.k.Add(w.b, op, noActivation, xs, ds, y) })
			for _, add := range halves {
				w.both(name+"gelu back", shape, add, func(dx Ptr) Launch { return GELUGrad(w.b, n, x, d, dx, add) },
					func(dx Ptr) Launch { return w.k.GELUGrad(w.b, op, xs, ds, dx, add) })
				w.both(name+"add back", shape, add, func(dx Ptr) Launch { return AddGrad(w.b, op, d, dx, add) },
					func(dx Ptr) Launch { return w.k.AddGrad(w.b, op, ds, dx, add) })
			}
		}
	})
	for _, kind := range []ir.Kind{ir.Dense, ir.Add} {
		if _, err := maths[1].Activation(Batch{}, vectorOp(kind, 1), 0, 0); err == nil {
			t.Errorf("%s is taken for an activation", kind)
		}
		if _, err := maths[1].ActivationGrad(Batch{}, vectorOp(kind, 1), 0, 0, 0, false); err == nil {
			t.Errorf("%s is taken for an activation", kind)
		}
	}
}

// Numbers that are none, and ties, are what they are in planes.
func TestPixelwiseSpecialNumbers(t *testing.T) {
	inf := float32(math.Inf(1))
	x := []float32{0, float32(math.Copysign(0, -1)), inf, -inf, nan32, math.MaxFloat32, 0x1p-149, -0x1p-126, 1 + 0x1p-11, -1 - 0x1p-8, 3.3e38}
	for _, k := range maths[1:] {
		w, shape := newTwin(t, k, size{1, 1}), []int{len(x)}
		planes, pixels := w.value(shape, x)
		for _, kind := range []ir.Kind{ir.ReLU, ir.LeakyReLU, ir.Tanh, ir.Sigmoid} {
			op := &ir.Op{Kind: kind, Shape: shape, Out: shape, Slope: 0.1}
			w.both(fmt.Sprint(k, ": ", kind), shape, false, func(y Ptr) Launch { return must(t)(Activation(w.b, op, planes, y)) },
				func(y Ptr) Launch { return must(t)(w.k.Activation(w.b, op, pixels, y)) })
		}
	}
}

// What a tile is, and more: channels in several of them, pixels in units and not, and images of one channel.
var turnShapes = append([][]int{{1, 1, 3}, {3, 16, 17}, {33, 8, 9}, {64, 1, 66}, {7, 16, 18}, {2, 1, 1}}, pixelShapes...)

func TestTurns(t *testing.T) {
	eachTwin(t, func(w *twin, rng *rand.Rand, name string) {
		for _, shape := range turnShapes {
			n, name := ir.Size(shape), fmt.Sprint(name, ", ", shape)
			x := spoil(normals(rng, w.s.capacity*n), w.s.live, w.s.capacity)
			if w.s.live == 3 {
				x[n] = nan32 // stays in its example
			}
			at := w.floats(x)
			for _, add := range halves {
				op := &ir.Op{Kind: ir.Add, Shape: shape, Out: shape}
				w.both(name+" to pixels", shape, add, func(y Ptr) Launch { return AddGrad(w.b, op, at, y, add) },
					func(y Ptr) Launch { return w.k.ToPixels(w.b, shape, at, y, add) })
				planes, pixels := w.random(rng, shape)
				want, got := w.floats(fill(w.s.capacity*n, 0.7)), w.floats(fill(w.s.capacity*n, 0.7))
				w.launch(AddGrad(w.b, op, planes, want, add))
				w.launch(w.k.FromPixels(w.b, shape, pixels, got, add))
				same(t, name+" from pixels", w.read(got, w.s.capacity*n), w.read(want, w.s.capacity*n))
				if len(shape) == 1 {
					continue
				}
				flat := []int{n}
				values, vector := w.random(rng, flat)
				w.both(name+" flat, back", shape, add, func(y Ptr) Launch { return AddGrad(w.b, op, values, y, add) },
					func(y Ptr) Launch { return w.k.FlatGrad(w.b, shape, vector, y, add) })
				if !add {
					w.both(name+" flat", flat, false, func(y Ptr) Launch { return AddGrad(w.b, op, planes, y, false) },
						func(y Ptr) Launch { return w.k.Flat(w.b, shape, pixels, y) })
				}
			}
		}
	})
}

// A ReLU behind an addition changes nothing but what is below zero.
func TestAddActivated(t *testing.T) {
	rng := rand.New(rand.NewPCG(58, 9))
	for _, k := range maths[1:] {
		op := &ir.Op{Kind: ir.Add, Shape: []int{11, 3, 2}, Out: []int{11, 3, 2}}
		m, n := newMachine(t), 2*66
		x, d := m.pixels(k, op.Out, normals(rng, n)), m.pixels(k, op.Out, normals(rng, n))
		y, active := m.pixels(k, op.Out, fill(n, untouched)), m.pixels(k, op.Out, fill(n, untouched))
		b := m.batch(size{2, 2})
		m.launch(k.Add(b, op, noActivation, x, d, y))
		m.launch(k.Add(b, op, ir.ReLU, x, d, active))
		want := m.readPixels(k, op.Out, y, 2)
		for i := range want {
			want[i] = max(want[i], 0)
		}
		same(t, "the sum behind a ReLU", m.readPixels(k, op.Out, active, 2), want)
	}
}
