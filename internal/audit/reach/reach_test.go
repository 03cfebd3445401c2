package reach

import (
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// The order of the floats has no gaps, and its ends are the largest ones.
func TestPlaces(t *testing.T) {
	for _, x := range []float32{0, math.SmallestNonzeroFloat32, 1, -1, 0.1, -3e38, math.MaxFloat32, -math.MaxFloat32} {
		k := place(x)
		if number(k) != x || place(math.Nextafter32(x, float32(math.Inf(1)))) != k+1 || place(math.Nextafter32(x, float32(math.Inf(-1)))) != k-1 {
			t.Errorf("%v has place %d, which is that of %v, between %v and %v", x, k, number(k), number(k-1), number(k+1))
		}
	}
	if place(math.MaxFloat32) != (normals{}).last() || place(float32(math.Copysign(0, -1))) != 0 {
		t.Errorf("places %d and %d", place(math.MaxFloat32), place(float32(math.Copysign(0, -1))))
	}
}

// One rounding, also where float64 would round to a tie first.
func TestRoundsOnce(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	check := func(a, b float64) {
		wide := new(big.Float).SetPrec(2200).SetFloat64(a)
		if want, _ := wide.Add(wide, new(big.Float).SetFloat64(b)).Float32(); round(a, b) != want {
			t.Errorf("%v + %v is %v, want %v", a, b, round(a, b), want)
		}
	}
	for _, sign := range []float64{1, -1} {
		for _, tiny := range []float64{0x1p-60, -0x1p-60, 0x1p-200, 0} {
			check(sign*(1+0x1p-24), tiny)
			check(sign*(1+3*0x1p-24), tiny)
			check(sign*(1+0x1p-24), sign*0x1p-53)
		}
	}
	for range 20_000 {
		check(random.NormFloat64(), math.Ldexp(random.NormFloat64(), random.IntN(80)-60))
	}
}

var names = []string{"fused", "multiplied and added", "grid", "beside the grid", "beside the grid, twice", "added"}

// The search finds the draws that a walk over all of them finds.
func TestLeast(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	n := Noise{Std: 3.0123, Step: 0x1p-23}
	for i, w := range n.ways() {
		for range 2000 {
			sum := float32(random.NormFloat64() * math.Ldexp(1, random.IntN(30)-20))
			k := w.near(w.std*random.NormFloat64()) + int64(random.IntN(1000))
			made := func(k int64) float32 { return w.add(w.noise(k), float64(sum)) }
			y := made(k)
			if _, ok := w.logMass(Exactly(y), sum); !ok {
				t.Fatalf("%s: %v comes of %v and is said not to", names[i], y, sum)
			}
			for n := 0; n < 10_000 && made(k-1) == y; n++ {
				k--
			}
			if got := w.least(y, sum); got != k && made(k-1) != y {
				t.Fatalf("%s: the least draw that makes %v of %v is %d, want %d", names[i], y, sum, got, k)
			}
		}
		// Nothing beyond the largest draw, and no endless search for it.
		if _, ok := w.logMass(Exactly(14*n.Std), 0); ok {
			t.Errorf("%s: 14 deviations are said to be drawn", names[i])
		}
		if got := w.least(math.MaxFloat32, -math.MaxFloat32); got < 0 {
			t.Errorf("%s: the largest float is made by draw %d", names[i], got)
		}
	}
}

// The masses of all floats that come of a sum are those of the normal distribution.
func TestMass(t *testing.T) {
	n := Noise{Std: 1.7, Step: 0x1p-6}
	const sum = 0.3
	cut := func(y float64) float64 { return math.Erf((y - sum) / (1.7 * math.Sqrt2)) }
	want := (cut(2.0625) - cut(2)) / 2
	for i, w := range n.ways() {
		// The grid has four steps here, whose ends may lie half a step off; floats are within 1e-5 of each other's place.
		off := 1e-5
		if _, ok := w.draws.(grid); ok {
			off = 1.0 / 4
		}
		total := 0.0
		for y := float32(2); y < 2.0625; y = math.Nextafter32(y, 9) {
			if x, ok := w.logMass(Exactly(y), sum); ok {
				total += math.Exp(x) / math.Sqrt(2*math.Pi)
			}
		}
		if math.Abs(total/want-1) > off {
			t.Errorf("%s: mass %v, want %v", names[i], total, want)
		}
	}
}

// Draws of each way from either sum. Where a way leaves floats out, one sum is certain and the right one; on the grid
// the ratio is that of the Gaussian. There the sums are rounded by at most half a step, 2⁻²⁴: that moves the ratio of
// 500 coordinates, each within 6 deviations, by less than 500·6·2⁻²³/3 = 1.2e-4.
func TestLogRatio(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	n := Noise{Std: 3.0123, Step: 0x1p-23}
	const width = 500
	for i, w := range n.ways() {
		for trial := range 40 {
			var sums [2][]float32
			var seen []Range
			for range width {
				a := float32(random.NormFloat64() / 40)
				b := a + float32(random.NormFloat64()/400)
				sums[0], sums[1] = append(sums[0], a), append(sums[1], b)
				noise := w.noise(w.near(w.std * random.NormFloat64()))
				seen = append(seen, Exactly(w.add(noise, float64([2]float32{a, b}[trial%2]))))
			}
			got, want := n.LogRatio(seen, sums), n.gaussian(seen, sums)
			if names[i] != "grid" {
				want = []float64{-Certain, Certain}[trial%2]
			}
			if math.Abs(got-want) > 1.2e-4 {
				t.Errorf("%s, sum %d: log ratio %v, want %v", names[i], trial%2, got, want)
			}
		}
	}
	nan := float32(math.NaN())
	if x := n.LogRatio([]Range{Exactly(nan)}, [2][]float32{{0}, {1}}); !math.IsNaN(x) {
		t.Errorf("of no number the log ratio is %v", x)
	}
}

// Ranges hold the arguments that lead to a value, and no others.
func TestInvert(t *testing.T) {
	f := func(x float32) float32 { return float32(0.01*x) + 0.7 }
	all := func(dst, y []float32) error {
		for i, x := range y {
			dst[i] = f(x)
		}
		return nil
	}
	args := []float32{0, 1, -1, 0.001, -70, 1e-30, 12345.678}
	seen := make([]float32, len(args))
	if err := all(seen, args); err != nil {
		t.Fatal(err)
	}
	ranges, err := Invert(all, seen)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range ranges {
		if !(r.Low <= args[i] && args[i] <= r.High) || f(r.Low) != seen[i] || f(r.High) != seen[i] ||
			f(math.Nextafter32(r.Low, -1e30)) == seen[i] || f(math.Nextafter32(r.High, 1e30)) == seen[i] {
			t.Errorf("%v comes of %v to %v, and of %v", seen[i], r.Low, r.High, args[i])
		}
	}
	none, err := Invert(func(dst, y []float32) error {
		for i, x := range y {
			dst[i] = float32(math.Floor(float64(x)))
		}
		return nil
	}, []float32{0.5})
	if err != nil || none[0].Low <= none[0].High {
		t.Errorf("0.5 is made by %v, %v", none, err)
	}
	broken := errors.New("broken")
	if _, err := Invert(func(_, _ []float32) error { return broken }, seen); !errors.Is(err, broken) {
		t.Errorf("a function that fails: %v", err)
	}
}
