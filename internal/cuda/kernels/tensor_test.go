package kernels

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ir"
)

var maths = []Math{Math(device.Float32), Math(device.TF32), Math(device.BF16)}

func (m Math) String() string { return device.Precision(m).String() }

// nearest is what forward and input gradients multiply in place of x.
func (m Math) nearest(x float32) float32 {
	b := math.Float32bits(x)
	switch {
	case m.plain() || x != x:
		return x
	case device.Precision(m) == device.TF32:
		return math.Float32frombits((b + 0x1000) &^ 0x1fff) // ties away from zero
	}
	return math.Float32frombits((b + 0x7fff + b>>16&1) &^ 0xffff) // ties to even
}

// cut is what gradients of weights multiply in place of x.
func (m Math) cut(x float32) float32 {
	return math.Float32frombits(math.Float32bits(x) &^ [...]uint32{0, 0x1fff, 0xffff}[m])
}

// chain is how many roundings a term of a forward product passes.
func (m Math) chain(terms int) int {
	if m.plain() {
		return terms
	}
	return chainRoundings(ceil(terms, m.terms()) * m.terms())
}

func TestRoundingOfFactors(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 11))
	for _, c := range []struct {
		m                    Math
		digits, nearest, cut float64
	}{{maths[0], 24, 0, 0}, {maths[1], 11, 0x1p-11, 0x1p-10}, {maths[2], 8, 0x1p-8, 0x1p-7}} {
		for range 10000 {
			x := float32(rng.NormFloat64())
			near, cut := float64(c.m.nearest(x)), float64(c.m.cut(x))
			for _, y := range []float64{near, cut} {
				if f, _ := math.Frexp(y); f*math.Exp2(c.digits) != math.Trunc(f*math.Exp2(c.digits)) {
					t.Fatalf("%s: %v of %v has more than %v digits", c.m, y, x, c.digits)
				}
			}
			if a := math.Abs(float64(x)); math.Abs(near-float64(x)) > c.nearest*a || math.Abs(cut) > a || math.Abs(cut) < a*(1-c.cut) {
				t.Fatalf("%s: %v becomes %v, or is cut off to %v", c.m, x, near, cut)
			}
		}
	}
}

// share is Σ f·δ⊗x of one example alone, as DenseSum releases it, and its norm in float64.
func share(t *testing.T, x, dy []float32, f float32) ([]float64, float64) {
	t.Helper()
	dev := newMachine(t)
	sum := dev.doubles(make([]float64, len(x)*len(dy)))
	dev.launch(DenseSum(dev.batch(size{1, 1}), denseOp(len(x), len(dy), false), dev.floats(x), dev.floats(dy), dev.floats([]float32{f}), sum, 0))
	got, squares := dev.readDoubles(sum, len(x)*len(dy)), 0.0
	for _, v := range got {
		squares += v * v
	}
	return got, math.Sqrt(squares)
}

// One example's contribution is not longer than f times what NormGhost measures, whatever its numbers are: also where rounding
// to nearest would make all of them larger, and next to overflow.
func TestDenseShareIsNotLonger(t *testing.T) {
	rng := rand.New(rand.NewPCG(12, 12))
	{
		for try := range 12 {
			x, dy := normals(rng, 40), normals(rng, 20)
			switch try {
			case 0: // just above half a place of either precision
				x, dy = fill(40, 1+0x1.1p-11), fill(20, 1+0x1.1p-11)
			case 1:
				x, dy = fill(40, 1+0x1.1p-8), fill(20, -1-0x1.1p-8)
			case 2:
				x = fill(40, math.MaxFloat32)
				dy = fill(20, 0x1p-40)
			}
			dev := newMachine(t)
			norm2 := dev.doubles([]float64{0})
			dev.launch(NormGhost(dev.batch(size{1, 1}), denseOp(40, 20, false), dev.floats(x), dev.floats(dy), norm2))
			norm := math.Sqrt(dev.readDoubles(norm2, 1)[0])
			f := float32(1 / norm)
			if try%2 == 0 {
				f = 1
			}
			// f·δ rounds, and the float64 norm; factors have a margin of four units for both.
			if _, got := share(t, x, dy, f); !(got <= float64(f)*norm*(1+2*unit)) {
				t.Errorf("%d: the share has the norm %v, %v is promised", try, got, float64(f)*norm)
			}
		}
	}
}

// What automatic clipping scales up beyond float32 is left out.
func TestDenseSumLeavesOutWhatOverflows(t *testing.T) {
	got, _ := share(t, []float32{0, 0x1p-100}, []float32{0x1p127, 1}, 3)
	for i, want := range []float64{0, 0, 0, 3 * 0x1p-100} {
		if got[i] != want {
			t.Errorf("value %d is %v, want %v", i, got[i], want)
		}
	}
}

// An example's gradient after norm_gram is within the bound that the norm has, where it cancels and where rounding to nearest
// would not: columns and dy just above half a place, dy of alternating sign.
func TestGramBoundsWhatIsSummed(t *testing.T) {
	const positions = 16 * 16
	rng := rand.New(rand.NewPCG(13, 13))
	{
		op := imageOp(ir.Conv, 2, 16, 16, 3, ir.Square(1, 1, 0), true)
		const n = positions
		for try, f := range []func(i int) (x, dy float32){
			func(i int) (float32, float32) { return 1 + 0x1.1p-11, (1 + 0x1.1p-11) * float32(1-i%2*2) },
			func(i int) (float32, float32) { return 1 + 0x1.1p-8, (1 + 0x1.1p-8) * float32(1-i%2*2) },
			func(i int) (float32, float32) { // cancels in exact arithmetic, in no order of float32
				w := float32(1 + 56*0x1p-23)
				if i >= n*7/8 {
					w *= -7
				}
				return 1, w
			},
			func(i int) (float32, float32) { // cancels before dy is cut off, not after
				w := float32(1 + 0x1p-12)
				if i%2 == 1 {
					w = -1
				}
				if i%4 == 2 {
					w = 1 - 0x1p-12
				}
				return 1, w
			},
			func(i int) (float32, float32) { return float32(rng.NormFloat64()), float32(rng.NormFloat64()) },
		} {
			x, dy := make([]float32, op.Shape[0]*positions), make([]float32, op.Out[0]*positions)
			for i := range x {
				x[i], _ = f(i)
			}
			for o := range op.Out[0] {
				for i := range n {
					_, dy[o*positions+i] = f(i)
				}
			}
			dev := newMachine(t)
			b, px, pd := dev.batch(size{1, 1}), dev.floats(x), dev.floats(dy)
			bound, norm2 := dev.doubles([]float64{0}), dev.doubles(make([]float64, ConvNorms(op)))
			dev.launch(NormGram(b, op, px, pd, bound))
			dev.launch(ConvNorm(b, op, px, pd, norm2))
			promised, got := math.Sqrt(dev.readDoubles(bound, 1)[0]), 0.0
			for _, n := range dev.readDoubles(norm2, ConvNorms(op)) {
				got += n
			}
			got = math.Sqrt(got)
			if !(got <= promised) {
				t.Errorf("%d: the gradient has the norm %v, the bound is %v", try, got, promised)
			}
		}
	}
}
