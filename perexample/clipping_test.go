package perexample_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/perexample"
)

func TestClippingRules(t *testing.T) {
	want := map[perexample.Clipping]ir.Clipping{"flat": ir.Flat, "per-layer": ir.PerLayer, "automatic": ir.Automatic, "adaptive": ir.Flat}
	for _, c := range perexample.Clippings() {
		if got, err := c.Rule(); err != nil || got != want[c] {
			t.Errorf("%s is %v, %v", c, got, err)
		}
		delete(want, c)
	}
	if len(want) > 0 {
		t.Errorf("not listed: %v", want)
	}
	for _, c := range []perexample.Clipping{"", "Flat", "unclipped"} {
		if got, err := c.Rule(); err == nil || got != ir.Unclipped || !strings.Contains(err.Error(), "choose one of flat, per-layer, automatic, adaptive") {
			t.Errorf("clipping %q is %v, %v", c, got, err)
		}
	}
}

func TestAdaptiveNext(t *testing.T) {
	a := perexample.Adaptive{Quantile: 0.3, Floor: 0.01, Ceiling: 100}
	for _, test := range []struct{ clip, count, batch, want float64 }{
		{2, 0, 50, 2 * math.Exp(-0.2*0.2)},        // half of them within, more than asked for
		{2, -10, 50, 2},                           // 0.3 of them within
		{2, -25, 50, 2 * math.Exp(0.2*0.3)},       // none
		{2, 25, 50, 2 * math.Exp(-0.2*0.7)},       // all
		{2, 100, 50, 2 * math.Exp(-0.2*2.2)},      // noise may say more than all
		{2, -100, 50, 2 * math.Exp(0.2*1.8)},      // or less than none
		{0.011, 25, 50, 0.01},                     // the floor
		{99, -25, 50, 100},                        // the ceiling
		{2, 1e30, 1e-6, 0.01},                     // no noise is too large
		{2, -1e30, 1e-6, 100},                     //
		{0.01, -10.5, 50, 0.01 * math.Exp(0.002)}, // back up from the floor
	} {
		if got := a.Next(test.clip, test.count, test.batch); !(math.Abs(got-test.want) <= 1e-12*test.want) {
			t.Errorf("C = %v with count %v of %v becomes %v, want %v", test.clip, test.count, test.batch, got, test.want)
		}
	}
}

// From far below and far above, C comes to the asked quantile of norms that do
// not change.
func TestAdaptiveFindsTheQuantile(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	const n, batch = 100_000, 1000
	norms := make([]float64, n)
	for i := range norms {
		norms[i] = math.Exp(rnd.NormFloat64()) // log-normal: C moves on a scale on which they are normal
	}
	sorted := slices.Sorted(slices.Values(norms))
	for _, quantile := range []float64{0.1, 0.5, 0.9} {
		want := sorted[int(quantile*n)]
		for _, clip := range []float64{1e-3, 1e3} {
			a := perexample.Adaptive{Quantile: quantile, Floor: 1e-6, Ceiling: 1e6}
			mean, last := 0.0, 100
			for step := range 500 {
				count := perexample.CountDeviation(batch) * rnd.NormFloat64()
				for range batch {
					if norms[rnd.IntN(n)] <= clip {
						count += 0.5
					} else {
						count -= 0.5
					}
				}
				if clip = a.Next(clip, count, batch); step >= 500-last {
					mean += math.Log(clip) / float64(last)
				}
			}
			// Each step's error is 0.2·0.05 on the log; pulled back by 0.2 times
			// the density, at least 0.175, it stays within 0.04, and its mean of
			// 100 correlated steps well within 0.1.
			if math.Abs(mean-math.Log(want)) > 0.1 {
				t.Errorf("from C = %v: quantile %v at %v, want %v", clip, quantile, math.Exp(mean), want)
			}
		}
	}
}

func TestAdaptiveRefuses(t *testing.T) {
	good := perexample.Adaptive{Quantile: 0.5, Floor: 0.1, Ceiling: 10}
	if err := good.Validate(1); err != nil {
		t.Fatal(err)
	}
	one := perexample.Adaptive{Quantile: 0.5, Floor: 1, Ceiling: 1}
	if err := one.Validate(1); err != nil {
		t.Errorf("a fixed C is refused: %v", err)
	}
	for _, test := range []struct {
		change func(*perexample.Adaptive)
		clip   float64
		want   string
	}{
		{func(a *perexample.Adaptive) { a.Quantile = 0 }, 1, "clip quantile 0: must be in (0, 1)"},
		{func(a *perexample.Adaptive) { a.Quantile = 1 }, 1, "clip quantile 1"},
		{func(a *perexample.Adaptive) { a.Quantile = math.NaN() }, 1, "clip quantile NaN"},
		{func(a *perexample.Adaptive) { a.Floor = 0 }, 1, "clip floor 0"},
		{func(a *perexample.Adaptive) { a.Floor = math.NaN() }, 1, "clip floor NaN"},
		{func(a *perexample.Adaptive) { a.Floor = 20 }, 1, "clip ceiling 10: must be a finite number, at least the clip floor of 20"},
		{func(a *perexample.Adaptive) { a.Ceiling = math.Inf(1) }, 1, "clip ceiling +Inf"},
		{func(a *perexample.Adaptive) { a.Ceiling = math.NaN() }, 1, "clip ceiling NaN"},
		{func(*perexample.Adaptive) {}, 0.05, "clip norm 0.05: adaptive clipping keeps it in [0.1, 10]"},
		{func(*perexample.Adaptive) {}, 11, "clip norm 11"},
		{func(*perexample.Adaptive) {}, math.NaN(), "clip norm NaN"},
	} {
		a := good
		test.change(&a)
		if err := a.Validate(test.clip); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v at %v: %v, want %q", a, test.clip, err, test.want)
		}
	}
}
