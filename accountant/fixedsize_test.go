package accountant

import (
	"math"
	"math/rand/v2"
	"testing"
)

// anySubsets are a few events of subsets of a fixed size.
func anySubsets(r *rand.Rand) (events []Event) {
	for range 1 + r.IntN(3) {
		var asked []Mechanism
		for range 1 + r.IntN(2) {
			asked = append(asked, Gaussian{math.Exp(2 * r.Float64())})
		}
		q, count := math.Exp(-1-5*r.Float64()), int(math.Exp(7*r.Float64()))
		events = append(events, SubsetBatch(q, count, asked...))
	}
	return events
}

// The certified ε of subsets, before it is cut to Rényi's, is never above Rényi's, and never below
// what one direction of replacement gives away, whose pair is that of a Poisson batch.
func subsetsAgainstRenyi(t *testing.T, schedules int) {
	r := rand.New(rand.NewPCG(21, 2))
	for range schedules {
		events, delta := anySubsets(r), math.Pow(10, -3-5*r.Float64())
		o := Options{Accountant: PLD, Neighbouring: ReplaceOne, Delta: delta}
		steps, err := lossSteps(events, 1)
		must(t, err)
		got, err := o.ends(steps, true)
		must(t, err)
		renyi := account(t, RDP, ReplaceOne, delta, events...).Epsilon
		var direction []Event
		for _, e := range events {
			e.Sampling, e.Mechanisms = Poisson, nil
			for _, m := range events[len(direction)].Mechanisms {
				e.Mechanisms = append(e.Mechanisms, Gaussian{m.(Gaussian).NoiseMultiplier / 2})
			}
			direction = append(direction, e)
		}
		least := account(t, PLD, AddRemove, delta, direction...).Interval.Lower
		if !(got.Upper <= renyi) || !(got.Upper >= least) || !(got.Lower <= got.Upper) {
			t.Errorf("%+v at δ = %.3g: ε in %v, Rényi's bound is %v, one direction gives %v", events, delta, got, renyi, least)
		}
	}
}

func TestSubsetsAgainstRenyi(t *testing.T)     { subsetsAgainstRenyi(t, 6) }
func TestLongSubsetsAgainstRenyi(t *testing.T) { subsetsAgainstRenyi(t, 100) }

// Random round private SGD (Zhang et al. 2017) takes one of n records in each of up to n² rounds.
// Its theorem 4 asks for σ = √(ln(3n/δ)·ln(2/δ))·2L/ε.
func roundsOfOneRecord(t *testing.T, n int, printed, needed float64) {
	const epsilon, delta = 1, 1e-3
	if got := math.Sqrt(math.Log(3*float64(n)/delta)*math.Log(2/delta)) / epsilon; math.Abs(got-printed) > 0.005 {
		t.Errorf("n = %d: theorem 4 asks for %v, want %v", n, got, printed)
	}
	at := func(sigma float64) *Interval { // σ/(2L) is half of σ/L
		return account(t, PLD, ReplaceOne, delta, SubsetBatch(1/float64(n), n*n, Gaussian{2 * sigma})).Interval
	}
	if enough, less := at(needed), at(needed-0.02); !(enough.Upper <= epsilon && less.Lower > epsilon) {
		t.Errorf("n = %d: %v costs ε in %v, and 0.02 less %v", n, needed, *enough, *less)
	}
}

func TestNoiseOfRandomRounds(t *testing.T)     { roundsOfOneRecord(t, 100, 9.79, 2.98) }
func TestLongNoiseOfRandomRounds(t *testing.T) { roundsOfOneRecord(t, 1000, 10.65, 2.99) }
