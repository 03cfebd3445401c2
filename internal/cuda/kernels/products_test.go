package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/privgrad/privgrad/internal/ir"
)

// laidOut puts weights into memory as products take them.
func (m *machine) laidOut(k Math, op *ir.Op, t Turn, w Ptr) Ptr {
	m.t.Helper()
	to := m.alloc(WeightElements(op, t) * k.ElementBytes(Pixels))
	m.launch(k.Weights(op, t, w, to))
	return to
}

// productCases are convolutions of any geometry, and with tails: in pixels, lines, terms of a stage; and dense layers.
func productCases(rng *rand.Rand) []convShape {
	cases := slices.Concat(convCases[:9], someConvs(rng), []convShape{
		{size{2, 3}, 3, 9, 7, 24, ir.Square(3, 1, 1), true},
		{size{2, 2}, 40, 5, 5, 72, ir.Square(3, 2, 1), true},  // phases, and tiles of 128 lines
		{size{2, 2}, 72, 6, 6, 40, ir.Square(1, 2, 0), false}, // phases of which three read nothing
		{size{2, 3}, 16, 8, 8, 136, ir.Square(3, 1, 1), true}, // a tile of lines and eight more
		{size{1, 1}, 8, 7, 7, 8, ir.Square(5, 1, 2), true},
		{size{3, 5}, 100, 1, 1, 70, ir.Square(1, 1, 0), true},
		{size{200, 201}, 24, 1, 1, 130, ir.Square(1, 1, 0), true}, // more than one tile of pixels
	})
	return slices.DeleteFunc(cases, func(c convShape) bool { return c.window.H*c.window.W > mostTaps })
}

func TestProductsInPixels(t *testing.T) {
	rng := rand.New(rand.NewPCG(58, 1))
	for _, k := range pixelMaths {
		for _, d := range productCases(rng) {
			op := imageOp(ir.Conv, d.channels, d.h, d.w, d.out, d.window, d.bias)
			if d.h == 1 && d.w == 1 && d.window.H == 1 {
				op = denseOp(d.channels, d.out, d.bias)
			}
			t.Run(fmt.Sprintf("%s, %v, %v to %v, %+v", k, d.size, op.Shape, op.Out, d.window), func(t *testing.T) {
				productsOf(t, rng, k, d, op)
			})
		}
	}
}

// productsOf compares forward products and input gradients with sums in float64. The input is what a ReLU gave.
func productsOf(t *testing.T, rng *rand.Rand, k Math, d convShape, op *ir.Op) {
	m := newMachine(t)
	in, out, live, all := ir.Size(op.Shape), ir.Size(op.Out), d.live, d.capacity
	x, dy := spoil(normals(rng, all*in), live, all), spoil(normals(rng, all*out), live, all)
	for i := range x {
		x[i] = max(x[i], 0)
	}
	weights, bias := normals(rng, ir.Size(image(op).Out[:1])*taskTerms(op)), normals(rng, d.out)
	b, w, atBias := m.batch(d.size), m.floats(weights), Ptr(0)
	if d.bias {
		atBias = m.floats(bias)
	} else {
		clear(bias)
	}
	atX, atDy := m.pixels(k, op.Shape, x), m.pixels(k, op.Out, dy)
	y, active := m.pixels(k, op.Out, fill(all*out, untouched)), m.pixels(k, op.Out, fill(all*out, untouched))
	dx, sum, through := m.pixels(k, op.Shape, fill(all*in, untouched)), m.pixels(k, op.Shape, fill(all*in, untouched)), m.pixels(k, op.Shape, fill(all*in, untouched))
	laid := m.laidOut(k, op, Filters, w)
	m.launch(k.Forward(b, op, noActivation, atX, laid, atBias, y))
	m.launch(k.Forward(b, op, ir.ReLU, atX, laid, atBias, active))
	laid = m.laidOut(k, op, Channels, w)
	m.launch(k.InputGrad(b, op, atDy, laid, dx, false, 0))
	m.launch(k.InputGrad(b, op, atDy, laid, sum, true, 0))
	m.launch(k.InputGrad(b, op, atDy, laid, through, false, atX))

	wantY, wantX := make([]truth, live*out), make([]truth, live*in)
	positions := out / d.out
	for e := range live {
		for o := range out {
			wantY[e*out+o].add(float64(bias[o/positions]))
		}
		taps(image(op), func(o, i, j int) {
			wantY[e*out+o].add(float64(k.nearest(x[e*in+i])), float64(k.nearest(weights[j])))
			wantX[e*in+i].add(float64(k.nearest(dy[e*out+o])), float64(k.nearest(weights[j])))
		})
	}
	chain := func(channels int) int { return k.chain(padded(channels)*image(op).Window.H*image(op).Window.W) + 1 }
	got := m.readPixels(k, op.Out, y, all)
	nearly(t, "y", k, got[:live*out], wantY, chain(image(op).Shape[0]))
	for i, v := range m.readPixels(k, op.Out, active, all)[:live*out] {
		if v != max(got[i], 0) {
			t.Fatalf("value %d is %v behind the ReLU, %v before it", i, v, got[i])
		}
	}
	same(t, "dead y", got[live*out:], fill((all-live)*out, k.nearest(untouched)))
	back := m.readPixels(k, op.Shape, dx, all)
	nearly(t, "dx", k, back[:live*in], wantX, chain(d.out))
	for i, v := range m.readPixels(k, op.Shape, through, all)[:live*in] {
		if want := back[i]; x[i] > 0 && v != want || x[i] == 0 && v != 0 {
			t.Fatalf("value %d is %v through a ReLU that gave %v, %v without it", i, v, x[i], want)
		}
	}
	for i := range wantX {
		wantX[i].add(float64(k.nearest(untouched)))
	}
	nearly(t, "dx added", k, m.readPixels(k, op.Shape, sum, all)[:live*in], wantX, chain(d.out)+1)
	same(t, "dead dx", back[live*in:], fill((all-live)*in, k.nearest(untouched)))
}

// taskTerms is how many weights a filter has.
func taskTerms(op *ir.Op) int {
	_, terms, _ := image(op).Columns()
	return terms
}

// Weights lie as Forward and InputGrad read them, with zeros where there are none: what is beside them may be infinite.
func TestWeightsInLines(t *testing.T) {
	rng := rand.New(rand.NewPCG(58, 5))
	for _, k := range pixelMaths {
		for _, op := range []*ir.Op{denseOp(20, 130, false), denseOp(300, 3, false), imageOp(ir.Conv, 3, 5, 5, 12, ir.Square(3, 1, 1), false)} {
			out, in, taps := weightShape(op)
			for _, turn := range []Turn{Filters, Channels} {
				m := newMachine(t)
				w := normals(rng, out*in*taps)
				w[0] = float32(math.Inf(1))
				lines, terms, from := out, in, func(line, term int) int { return line*in + term }
				if turn == Channels {
					lines, terms, from = in, out, func(line, term int) int { return term*in + line }
				}
				all := WeightElements(op, turn)
				want := make([]float32, all)
				for i := range want {
					line, tap, term := i/padded(terms)/taps, i/padded(terms)%taps, i%padded(terms)
					if line < lines && term < terms {
						want[i] = k.nearest(w[from(line, term)*taps+tap])
					}
				}
				same(t, fmt.Sprintf("%s, %d to %d, %d taps, %d: weights", k, in, out, taps, turn), m.readPixels(k, []int{all}, m.laidOut(k, op, turn, m.floats(w)), 1), want)
			}
		}
	}
}

// An example that is not finite stays alone.
func TestProductsKeepExamplesApart(t *testing.T) {
	rng := rand.New(rand.NewPCG(58, 2))
	for _, k := range pixelMaths {
		op := imageOp(ir.Conv, 12, 4, 4, 20, ir.Square(3, 1, 1), true)
		in, out := ir.Size(op.Shape), ir.Size(op.Out)
		run := func(x []float32) []float32 {
			m := newMachine(t)
			y := m.pixels(k, op.Out, fill(3*out, untouched))
			rng := rand.New(rand.NewPCG(58, 3))
			w := m.laidOut(k, op, Filters, m.floats(normals(rng, 20*12*9)))
			m.launch(k.Forward(m.batch(size{3, 3}), op, noActivation, m.pixels(k, op.Shape, x), w, m.floats(normals(rng, 20)), y))
			return m.readPixels(k, op.Out, y, 3)
		}
		x := normals(rng, 3*in)
		want := run(x)
		for i := in; i < 2*in; i++ {
			x[i] = nan32
		}
		got := run(x)
		same(t, "the first", got[:out], want[:out])
		same(t, "the last", got[2*out:], want[2*out:])
		same(t, "the one that is not finite", got[out:2*out], fill(out, nan32))
	}
}

// Every tile gives the same bits.
func TestTilesOfSums(t *testing.T) {
	rng := rand.New(rand.NewPCG(58, 4))
	for _, k := range pixelMaths {
		op := imageOp(ir.Conv, 24, 5, 6, 40, ir.Square(3, 1, 1), true)
		x, w, bias := normals(rng, 5*ir.Size(op.Shape)), normals(rng, 40*24*9), normals(rng, 40)
		var first []float32
		for _, tile := range sumsTiles {
			m := newMachine(t)
			y := m.pixels(k, op.Out, fill(5*ir.Size(op.Out), untouched))
			l := k.Forward(m.batch(size{5, 5}), op, noActivation, m.pixels(k, op.Shape, x), m.laidOut(k, op, Filters, m.floats(w)), m.floats(bias), y)
			l.Name, l.Shared = fmt.Sprintf("forward_%dx%d", tile.rows, tile.lines), tile.shared()
			l.Grid = [3]int{ceil(5*30, tile.rows), ceil(40, tile.lines), 1}
			m.launch(l)
			got := m.readPixels(k, op.Out, y, 5)
			if first == nil {
				first = got
			}
			same(t, l.Name, got, first)
		}
	}
}
