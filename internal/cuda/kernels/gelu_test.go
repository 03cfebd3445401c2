package kernels

import (
	"math"
	"math/rand/v2"
	"testing"
)

// normalTail is Φ(−a) for a >= 0, in float64: below a = 15 the argument's rounding moves it by less than 2⁻⁴⁴ of it.
func normalTail(a float64) float64 { return math.Erfc(a/math.Sqrt2) / 2 }

func normalDensity(a float64) float64 { return math.Exp(-a*a/2) / math.Sqrt(2*math.Pi) }

// geluTruth is x·Φ(x), its derivative, and the sizes of the derivative's two terms, of finite x.
func geluTruth(x float64) (y, slope, size float64) {
	a := math.Abs(x)
	tail, bell := normalTail(a), a*normalDensity(a)
	if x < 0 {
		return -a * tail, tail - bell, tail + bell
	}
	return a * (1 - tail), 1 - tail + bell, 1 - tail + bell
}

// geluInputs are numbers of all sizes, more of them where Φ is neither 0 nor 1, and of those where a search of all float32 found the largest errors.
func geluInputs() []float32 {
	x := []float32{math.MaxFloat32, -math.MaxFloat32, 0x1p-149, -0x1p-149, 0x1p-126, -0x1p-126, 15, -15, 15.000001, -15.000001, 14.2, 1e-5, -1e10}
	for e := -149; e < 128; e++ {
		for i := range 8 {
			v := float32(math.Ldexp(1+float64(i)/8+0.003, e))
			x = append(x, v, -v)
		}
	}
	for v := float32(-15.01); v < 15; v += 0.0017 {
		x = append(x, v)
	}
	for _, v := range []float32{2.78361, 0.0150868, 0.0348421, 0.7517915} { // the last is where the derivative has its zero
		b := math.Float32bits(v)
		for i := b - 64; i <= b+64; i++ {
			x = append(x, math.Float32frombits(i), -math.Float32frombits(i))
		}
	}
	return x
}

func TestGELU(t *testing.T) {
	x := geluInputs()
	n := len(x)
	m := newMachine(t)
	b, at, y, slope := m.batch(size{1, 1}), m.floats(x), m.floats(fill(n, untouched)), m.floats(fill(n, untouched))
	m.launch(GELU(b, n, at, y))
	m.launch(GELUGrad(b, n, at, m.floats(fill(n, 1)), slope, false))
	gotY, gotSlope := m.read(y, n), m.read(slope, n)
	var worst, worstSlope struct{ ulps, at float64 }
	for i, v := range x {
		wantY, wantSlope, size := geluTruth(float64(v))
		if d := math.Abs(float64(gotY[i])-wantY) / ulp(wantY); !(d <= worst.ulps) {
			worst.ulps, worst.at = d, float64(v)
		}
		if d := math.Abs(float64(gotSlope[i])-wantSlope) / ulp(size); !(d <= worstSlope.ulps) {
			worstSlope.ulps, worstSlope.at = d, float64(v)
		}
	}
	t.Logf("of %d: GELU errs by %.2f units in the last place, at %v, its derivative by %.2f, at %v", n, worst.ulps, worst.at, worstSlope.ulps, worstSlope.at)
	if !(worst.ulps <= GELUError) {
		t.Errorf("GELU errs by %.2f units in the last place at %v, more than %v", worst.ulps, worst.at, GELUError)
	}
	if !(worstSlope.ulps <= GELUGradError) {
		t.Errorf("its derivative errs by %.2f units in the last place at %v, more than %v", worstSlope.ulps, worstSlope.at, GELUGradError)
	}
}

func TestGELUOfSpecialNumbers(t *testing.T) {
	inf, negative := float32(math.Inf(1)), float32(math.Copysign(0, -1))
	x := []float32{0, negative, inf, -inf, nan32, -nan32}
	m := newMachine(t)
	b, at, y, slope := m.batch(size{1, 1}), m.floats(x), m.floats(fill(len(x), untouched)), m.floats(fill(len(x), untouched))
	m.launch(GELU(b, len(x), at, y))
	m.launch(GELUGrad(b, len(x), at, m.floats(fill(len(x), 1)), slope, false))
	got := m.read(y, len(x))
	same(t, "GELU", got, []float32{0, negative, inf, 0, nan32, nan32})
	for i, want := range []uint32{0, 1 << 31} {
		if math.Float32bits(got[i]) != want {
			t.Errorf("GELU of %v has the bits %#x", x[i], math.Float32bits(got[i]))
		}
	}
	same(t, "derivative", m.read(slope, len(x)), []float32{0.5, 0.5, 1, 0, nan32, nan32})
}

func TestGELUOfBatches(t *testing.T) {
	rng := rand.New(rand.NewPCG(17, 17))
	const n, before = 103, 0.5
	for _, s := range []size{{5, 7}, {0, 2}, {3, 3}} {
		x, dy := spoil(normals(rng, s.capacity*n), s.live, s.capacity), spoil(normals(rng, s.capacity*n), s.live, s.capacity)
		m := newMachine(t)
		b, xAt, dyAt := m.batch(s), m.floats(x), m.floats(dy)
		y, dx, sum := m.floats(fill(s.capacity*n, untouched)), m.floats(fill(s.capacity*n, untouched)), m.floats(fill(s.capacity*n, before))
		m.launch(GELU(b, n, xAt, y))
		m.launch(GELUGrad(b, n, xAt, dyAt, dx, false))
		m.launch(GELUGrad(b, n, xAt, dyAt, sum, true))
		live := s.live * n
		gotY, gotX, gotSum := m.read(y, s.capacity*n), m.read(dx, s.capacity*n), m.read(sum, s.capacity*n)
		for i := range live {
			want, slope, size := geluTruth(float64(x[i]))
			within(t, "y", gotY[i], want, GELUError*ulp(want))
			// The derivative's error, times dy, and the rounding of the product; then that of the sum.
			d := float64(dy[i]) * slope
			bound := math.Abs(float64(dy[i]))*GELUGradError*ulp(size)*(1+unit) + unit*math.Abs(d)
			within(t, "dx", gotX[i], d, bound)
			within(t, "dx added", gotSum[i], before+d, bound+unit*(math.Abs(before+d)+bound))
		}
		dead := s.capacity*n - live
		same(t, "dead y", gotY[live:], fill(dead, untouched))
		same(t, "dead dx", gotX[live:], fill(dead, untouched))
		same(t, "dead dx that is added to", gotSum[live:], fill(dead, before))
	}
}

func within(t *testing.T, what string, got float32, want, bound float64) {
	t.Helper()
	if d := math.Abs(float64(got) - want); !(d <= bound) {
		t.Fatalf("%s is %v, want %v within %.3g", what, got, want, bound)
	}
}
