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
	if place(math.MaxFloat32) != lastFloat || place(float32(math.Copysign(0, -1))) != 0 {
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

// ways by name, for tests that take each in turn.
func waysOf(n Noise) map[string]way {
	g := grid{n.Step, float64(n.Std)}
	return map[string]way{"fused": fused{n.Std}, "rounded": rounded{n.Std}, "grid": g, "unrounded": unrounded{g}}
}

// The search finds the draws that a walk over all of them finds.
func TestLeast(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	n := Noise{Std: 3.0123, Step: 0x1p-23}
	for name, w := range waysOf(n) {
		for range 2000 {
			sum := float32(random.NormFloat64() * math.Ldexp(1, random.IntN(30)-20))
			k := w.near(sum+n.Std*float32(random.NormFloat64()), sum) + int64(random.IntN(1000))
			y := w.result(k, sum)
			for w.result(k-1, sum) == y {
				k--
			}
			if got := least(w, y, sum); got != k {
				t.Fatalf("%s: the least draw that makes %v of %v is %d, want %d", name, y, sum, got, k)
			}
			if _, ok := logMass(w, Exactly(y), sum); !ok {
				t.Fatalf("%s: %v comes of %v and is said not to", name, y, sum)
			}
		}
		// Nothing beyond the largest draw, and no endless search for it.
		if _, ok := logMass(w, Exactly(3*14), 0); ok {
			t.Errorf("%s: 14 deviations are said to be drawn", name)
		}
		if got := least(w, math.MaxFloat32, -math.MaxFloat32); got < 0 {
			t.Errorf("%s: the largest float is made by draw %d", name, got)
		}
	}
}

// The masses of all floats that come of a sum are those of the normal distribution.
func TestMass(t *testing.T) {
	n := Noise{Std: 1.7, Step: 0x1p-6}
	const sum = 0.3
	for name, w := range waysOf(n) {
		total := 0.0
		low, high := float32(2), float32(2.5) // in which all ways make few enough floats
		for y := low; y < high; y = math.Nextafter32(y, 9) {
			if x, ok := logMass(w, Exactly(y), sum); ok {
				total += math.Exp(x) / math.Sqrt(2*math.Pi)
			}
		}
		cut := func(y float64) float64 { return math.Erf((y - sum) / (1.7 * math.Sqrt2)) }
		want := (cut(2.5) - cut(2)) / 2
		// The grid has 32 steps here, each with the density at its middle; its ends may be off by a step.
		if off := math.Abs(total/want - 1); off > 1.0/30 || (w == fused{n.Std} || w == rounded{n.Std}) && off > 1e-5 {
			t.Errorf("%s: mass %v, want %v", name, total, want)
		}
	}
}

// draws of each way from either sum. Where a way leaves floats out, one sum is certain and the right one; on the grid
// the ratio is that of the Gaussian, but for the rounding of the sums, which moves it by less than 1e-4 here: 500
// coordinates of at most half a step of 2⁻²³/3 deviations each, times normals of less than 6.
func TestLogRatio(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	n := Noise{Std: 3.0123, Step: 0x1p-23}
	const width = 500
	for name, w := range waysOf(n) {
		for trial := range 40 {
			var sums [2][]float32
			var seen []Range
			for range width {
				a := float32(random.NormFloat64() / 40)
				b := a + float32(random.NormFloat64()/400)
				sums[0], sums[1] = append(sums[0], a), append(sums[1], b)
				from := [2]float32{a, b}[trial%2]
				// The draw whose normal is nearest to a true one.
				k := w.near(float32(float64(from)+float64(n.Std)*random.NormFloat64()), from)
				seen = append(seen, Exactly(w.result(k, from)))
			}
			got, want := n.LogRatio(seen, sums), n.gaussian(seen, sums)
			if name != "grid" {
				want = []float64{-Certain, Certain}[trial%2]
			}
			if math.Abs(got-want) > 1e-4 {
				t.Errorf("%s, sum %d: log ratio %v, want %v", name, trial%2, got, want)
			}
			if name == "grid" { // and without knowing the grid, by real numbers
				if got := (Noise{Std: n.Std}).LogRatio(seen, sums); got != want {
					t.Errorf("without a grid: log ratio %v, want %v", got, want)
				}
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
