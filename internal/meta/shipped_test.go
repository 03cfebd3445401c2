package meta

import (
	"math"
	"slices"
	"testing"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim/l2p"
)

// evaluated runs a protector on tasks that the seed draws.
func evaluated(t *testing.T, p *l2p.Protector, plan Plan, f Family, epsilon float64, tasks int, seed uint64) []ending {
	t.Helper()
	n, err := plan.Noise(epsilon)
	if err != nil {
		t.Fatal(err)
	}
	return evaluate(ruleOf(p), plan, f, n, tasks, seed, 2)
}

// descent is DP-SGD as a protector: steps of a rate, with the planned noise.
func descent(rate float64) *l2p.Protector {
	return &l2p.Protector{Card: l2p.Card{Name: "dp-sgd", Scale: rate, Projector: l2p.Part{Kind: l2p.Identity}, Scheduler: l2p.Part{Kind: l2p.Constant}}}
}

// The shipped protector of quadratics against DP-SGD, on 100 held-out problems at the
// same budget: with the rate and the number of steps that are best on 100 others. The
// interval of the median covers it at least 95 times in 100, by the order statistics
// 40 and 61 of 100 (binomial).
func TestShippedQuadratic(t *testing.T) {
	p, err := l2p.Find("quadratic")
	if err != nil {
		t.Fatal(err)
	}
	f := Quadratics{Records: 60}
	plan := Plan{Steps: p.Card.Steps, Rate: 1, Clip: 1, Delta: 1e-8, Neighbouring: accountant.AddRemove, Accountant: accountant.RDP}
	run := func(p *l2p.Protector, plan Plan, epsilon float64, seed uint64) ([]float64, float64) {
		t.Helper()
		var losses []float64
		mean := 0.0
		for _, r := range evaluated(t, p, plan, f, epsilon, 100, seed) {
			losses = append(losses, r.loss)
			mean += r.loss / 100
		}
		return losses, mean
	}
	for _, epsilon := range []float64{0.05, 0.2} {
		best, steps, rate := math.Inf(1), 0, 0.0
		for _, n := range []int{1, 3, 10, 20, 40, 60} {
			tried := plan
			tried.Steps = n
			for r := 0.003; r < 2; r *= 1.5 {
				if _, mean := run(descent(r), tried, epsilon, 11); mean < best {
					best, steps, rate = mean, n, r
				}
			}
		}
		tuned := plan
		tuned.Steps = steps
		theirs, theirMean := run(descent(rate), tuned, epsilon, 12)
		ours, mean := run(p, plan, epsilon, 12)
		for i := range ours {
			ours[i] -= theirs[i]
		}
		slices.Sort(ours)
		t.Logf("ε %v: DP-SGD with %d steps of rate %.3g %.3f, L2P %.3f, median difference %.3f [%.3f, %.3f]", epsilon, steps, rate, theirMean, mean, (ours[49]+ours[50])/2, ours[39], ours[60])
		if !(ours[60] < 0) {
			t.Errorf("ε %v: the median of L2P − DP-SGD is in [%v, %v]", epsilon, ours[39], ours[60])
		}
	}
}
