package train

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/internal/cpu"
	"github.com/privgrad/privgrad/internal/device/reference"
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/perexample"
)

// A run with exact noise learns, guarantees without assumptions, and says in its
// files with which strategy.
func TestExactRun(t *testing.T) {
	for _, strategy := range []perexample.Strategy{perexample.Auto, perexample.Materialise, perexample.Microbatch} {
		c := small()
		c.Noise, c.Strategy, c.Momentum = dpoptim.Exact, string(strategy), 0.5
		// Twenty times less noise than a step: 80 test records of two classes told
		// apart by bands of pixels leave no room for chance.
		c.NoiseMultiplier, c.TrainLossNoise, c.Steps = ptr(0.2), ptr(1.0), ptr(40)
		t.Chdir(t.TempDir())
		r := finished(t, c, Options{Sources: sources(made(1, 400)), Out: "run"})
		if !r.Guarantee || r.Assumptions == nil || len(r.Assumptions) != 0 {
			t.Errorf("%s: guarantee %v because %v, assuming %v", strategy, r.Guarantee, r.NoGuarantee, r.Assumptions)
		}
		if *r.TestAccuracy < 0.95 || r.TrainLoss == nil || math.Abs(*r.TrainLoss) > 1.5 {
			t.Errorf("%s: accuracy %v, training loss %v", strategy, *r.TestAccuracy, r.TrainLoss)
		}
		want := strategy
		if strategy == perexample.Auto {
			want = perexample.Materialise
		}
		if s := string(read(t, "run", rundir.Config)); !strings.Contains(s, "strategy: "+string(want)+"\n") || !strings.Contains(s, "noise: exact\n") {
			t.Errorf("strategy %s is written as\n%s", strategy, s)
		}
		if s := string(read(t, "run", rundir.Result)); !strings.Contains(s, `"assumptions": []`) {
			t.Errorf("%s: the result does not say that nothing is assumed:\n%s", strategy, s)
		}
	}
}

// What a run releases are whole numbers of steps of the grid that docs/proofs/exact-noise.md says, as far as
// a float32 can tell, on every device, and not of twice as many.
func TestReleasesLieOnTheGrid(t *testing.T) {
	fast, err := cpu.Open(2)
	check(t, err)
	// Of gradients clipped at 1.7, and of losses clipped at 3.
	for noise, gradient := range map[string]float64{dpoptim.Exact: 0x1p-20, dpoptim.Secure: 0x1p-23} {
		for _, inner := range []*transcript{{Device: fast}, {Device: reference.Open()}} {
			c := small()
			c.Noise, c.Clip, c.TrainLossNoise = noise, 1.7, ptr(2.0)
			if _, err := Run(context.Background(), c, Options{Sources: sources(made(1, 400)), Out: t.TempDir(), Device: inner}); err != nil {
				t.Fatal(err)
			}
			on, off, odd := 0, 0, 0
			for _, released := range inner.released {
				step := gradient
				if len(released) == 1 {
					step = 0x1p-22
				}
				for _, v := range released {
					switch k := math.Abs(float64(v)) / step; {
					case k >= 1<<23: // a float32 is coarser
					case k != math.Trunc(k):
						off++
					default:
						on++
						odd += int(k) % 2
					}
				}
			}
			if on < 500 || off > 0 || math.Abs(float64(odd)/float64(on)-0.5) > 0.15 {
				t.Errorf("%s on %s: %d released values on the grid, %d of them odd, %d off it", noise, inner.Info().Name, on, odd, off)
			}
		}
	}
}
