// Package verdict judges whether error rates of a guess contradict a claim of (ε, δ).
package verdict

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/mathext"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/internal/usage"
)

// Claim is what the configuration promises: δ at every ε.
type Claim struct {
	Epsilon float64 // at the configured δ
	Delta   float64
	Curve   []Point
}

// Point is one (ε, δ) that the claim implies, with e^ε and e^−ε.
type Point struct{ Delta, Up, Down float64 }

// curvePoints is how many ε of a claim are looked at. Each by itself bounds the
// error rates, so few of them only make the audit milder.
const curvePoints = 32

// NewClaim asks the accountant about events.
func NewClaim(events []accountant.Event, o accountant.Options) (*Claim, error) {
	at, err := accountant.Account(events, o)
	if err != nil {
		return nil, usage.Wrap(err)
	}
	if math.IsInf(at.Epsilon, 0) {
		return nil, usage.Errorf("the claimed ε is infinite, so there is nothing to refute; give more noise")
	}
	delta := o.Delta
	o.Delta = 0
	return ClaimOf(at.Epsilon, delta, func(epsilon float64) (float64, error) {
		o.Epsilon = &epsilon
		r, err := accountant.Account(events, o)
		return r.Delta, usage.Wrap(err)
	})
}

// ClaimOf is ε at δ, and what else follows at every smaller ε.
func ClaimOf(epsilon, delta float64, at func(epsilon float64) (delta float64, err error)) (*Claim, error) {
	k := &Claim{Epsilon: epsilon, Delta: delta}
	for i := range curvePoints {
		e := epsilon * float64(i) / (curvePoints - 1)
		d, err := at(e)
		if err != nil {
			return nil, err
		}
		k.Curve = append(k.Curve, Point{min(d, 1), math.Exp(e), math.Exp(-e)})
	}
	return k, nil
}

// LeastFNR is the least false negative rate that the claim allows a test of a
// false positive rate: the largest over its (ε, δ) of max(1 − δ − e^ε·FPR,
// e^−ε·(1 − δ − FPR), 0). It does not rise with the false positive rate.
func (k *Claim) LeastFNR(fpr float64) float64 {
	least := 0.0
	for _, p := range k.Curve {
		least = max(least, 1-p.Delta-p.Up*fpr, p.Down*(1-p.Delta-fpr))
	}
	return least
}

// epsilonFrom is the least ε that error rates leave at a δ.
func epsilonFrom(delta, fpr, fnr float64) float64 {
	ratio := max((1-delta-fpr)/fnr, (1-delta-fnr)/fpr)
	if !(ratio > 1) { // rates that guessing has, or worse
		return 0
	}
	return math.Log(ratio)
}

// Tail is the probability with which a Clopper–Pearson limit errs on its side.
const Tail = 0.001

// upperLimit is the Clopper–Pearson upper limit of a probability of which k in
// n trials came out, of confidence 1 − Tail (Clopper and Pearson 1934).
func upperLimit(k, n int) float64 {
	if k >= n {
		return 1
	}
	return mathext.InvRegIncBeta(float64(k+1), float64(n-k), 1-Tail)
}

// lowerLimit is the same from below.
func lowerLimit(k, n int) float64 { return 1 - upperLimit(n-k, n) }

// Design is how many runs of each world choose the threshold, and how many
// others are counted. Tables hold what every count of errors leads to.
type Design struct {
	Choose, Count int
	upper         []float64 // limit by number of errors
	spread        []float64 // standard error of the rate, by number of errors
	allowed       []float64 // least FNR at the limit, by number of false positives
	loss          []float64 // how much less that is a standard error further
}

// NewDesign splits runs: a quarter chooses the threshold.
func NewDesign(runs int, k *Claim) *Design {
	d := &Design{Choose: max(runs/8, 1)}
	d.Count = max(runs/2-d.Choose, 1)
	n := float64(d.Count)
	for i := range d.Count + 1 {
		rate := (float64(i) + 0.5) / (n + 1)
		d.upper = append(d.upper, upperLimit(i, d.Count))
		d.spread = append(d.spread, math.Sqrt(rate*(1-rate)/n))
		d.allowed = append(d.allowed, k.LeastFNR(d.upper[i]))
		d.loss = append(d.loss, d.allowed[i]-k.LeastFNR(d.upper[i]+d.spread[i]))
	}
	return d
}

func (d *Design) Runs() int { return 2 * (d.Choose + d.Count) }

// Threshold looks for the one of the best score, on runs that are used for
// nothing else. The score is of the numbers of errors to expect among the counted
// runs. A run above the threshold is taken for one of the second world.
func (d *Design) Threshold(without, with []float64, score func(falsePositives, falseNegatives int) float64) float64 {
	a, b := slices.Sorted(slices.Values(without)), slices.Sorted(slices.Values(with))
	all := slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(a), b...))))
	best, most := all[0], math.Inf(-1)
	i, j := 0, 0 // how many of a and b are at or below the threshold
	for n, x := range all[:max(len(all)-1, 1)] {
		for i < len(a) && a[i] <= x {
			i++
		}
		for j < len(b) && b[j] <= x {
			j++
		}
		if s := score(d.expect(len(a)-i, len(a)), d.expect(j, len(b))); s > most {
			if most = s; n+1 < len(all) {
				best = x + (all[n+1]-x)/2
			}
		}
	}
	return best
}

// Margin is by how many standard errors the limits fall below the claim: the
// score from which the counted runs are most likely to convict.
func (d *Design) Margin(falsePositives, falseNegatives int) float64 {
	return (d.allowed[falsePositives] - d.upper[falseNegatives]) / (d.loss[falsePositives] + d.spread[falseNegatives])
}

// expect is how many errors to expect among the counted runs after k of n.
func (d *Design) expect(k, n int) int {
	return min(int(math.Round((float64(k)+0.5)/(float64(n)+1)*float64(d.Count))), d.Count)
}

// Convicts says whether errors among the counted runs refute the claim. If it
// holds, they do so with probability 2·Tail at most: either limit errs, or the
// true rates lie below the claim's curve.
func (d *Design) Convicts(falsePositives, falseNegatives int) bool {
	return d.upper[falseNegatives] < d.allowed[falsePositives]
}

// Rate is a share of runs with its limits.
type Rate struct{ Rate, Lower, Upper float64 }

func newRate(k, n int) Rate { return Rate{float64(k) / float64(n), lowerLimit(k, n), upperLimit(k, n)} }

// Verdict is what the counted runs show. The lower bound on ε has a threshold of
// its own: where one is told best from the claim's curve, at whatever δ, is
// seldom where most can be said at the configured δ.
type Verdict struct {
	FPR, FNR  Rate
	Allowed   float64 // least FNR under the claim
	Convicted bool
	Epsilon   float64 // lower bound at the claim's δ
}

// Judge takes the statistics of all runs, the thresholds' first.
func (d *Design) Judge(stats [2][]float64, k *Claim) Verdict {
	choose := func(score func(int, int) float64) (fp, fn int) {
		t := d.Threshold(stats[0][:d.Choose], stats[1][:d.Choose], score)
		return d.errors(stats, t)
	}
	bound := func(falsePositives, falseNegatives int) float64 {
		return epsilonFrom(k.Delta, d.upper[falsePositives], d.upper[falseNegatives])
	}
	epsilon := bound(choose(bound))
	fp, fn := choose(d.Margin)
	return Verdict{newRate(fp, d.Count), newRate(fn, d.Count), d.allowed[fp], d.Convicts(fp, fn), epsilon}
}

// errors counts those of a threshold.
func (d *Design) errors(stats [2][]float64, threshold float64) (falsePositives, falseNegatives int) {
	for i := d.Choose; i < d.Choose+d.Count; i++ {
		if stats[0][i] > threshold {
			falsePositives++
		}
		if !(stats[1][i] > threshold) {
			falseNegatives++
		}
	}
	return falsePositives, falseNegatives
}
