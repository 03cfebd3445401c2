// Package onerun audits a run that has finished, by the canaries that took part in it.
//
// An adversary guesses from the run's releases, for each canary, whether it took part. The claim says with which probability a guess is right at most
// (accountant.Risk.Advantage). Noise and draws are independent of each other, and a canary is heard in parameters of its own. So guesses are
// independent, too, and the number of right ones is at most a binomial one. docs/proofs/one-run.md proves this.
package onerun

import (
	"math"

	"gonum.org/v1/gonum/mathext"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/internal/canary"
	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/internal/plan"
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/internal/usage"
)

// Confidence is of a conviction, and of the lower bound on ε: correct code is convicted once in 1,000 audits at most, as another run would cost privacy
// again.
const Confidence = 0.999

// A Result is what the canaries of a run show. It follows from released values, public records and coins: none of it is about a training record.
type Result struct {
	Run          string  `json:"run"`
	Canaries     int     `json:"canaries"`
	Partaking    int     `json:"canaries_in_the_data"`
	Right        int     `json:"right_guesses"`
	Refuting     int     `json:"right_guesses_that_refute"`
	Chance       float64 `json:"right_guess_at_most"` // probability of a right guess, by the claim
	Epsilon      float64 `json:"epsilon"`             // that is claimed
	Delta        float64 `json:"delta"`
	EpsilonLower float64 `json:"epsilon_lower"`
	Confidence   float64 `json:"confidence"`
	Convicted    bool    `json:"convicted"`
	Power        float64 `json:"power_against_half_noise"`
	Signal       float64 `json:"signal"`  // how long gradients of canaries are that were heard, in clip norms and on average
	PValue       float64 `json:"p_value"` // probability of so many right guesses or more, at most, if the claim holds
	Accountant   string  `json:"accountant"`
	NotPrivate   string  `json:"not_private,omitempty"`
}

// stored is what of result.json an audit reads.
type stored struct {
	PublicN    int      `json:"public_n"`
	Parameters int      `json:"parameters"`
	Classes    []string `json:"classes"`
	Steps      int      `json:"steps"`
}

// Audit reads the run in a directory. It needs the coins beside the directory, and no data.
func Audit(dir string) (*Result, error) {
	d := rundir.Dir(dir)
	var c config.Config
	if err := config.Read(d.Path(rundir.Config), &c); err != nil {
		return nil, err
	}
	if c.Canaries == 0 {
		return nil, usage.Errorf("the run in %s has no canaries: train one with --canaries 1000, or leave out the directory to audit a configuration by many runs", dir)
	}
	var done stored
	finished, err := d.ReadResult(&done)
	if err != nil {
		return nil, err
	}
	if !finished {
		return nil, usage.Errorf("the run in %s has not finished: go on with it by `privgrad train -c %s --out %[1]s --resume`, and audit it then", dir, d.Path(rundir.Config))
	}
	p, err := plan.Reprice(c, done.PublicN, done.Parameters, len(done.Classes))
	if err != nil {
		return nil, err
	}
	if !(p.Sigma > 0) {
		return nil, usage.Errorf("the run in %s has no noise, so it claims nothing that could be refuted", dir)
	}
	coins, err := d.ReadCoins(c.Canaries)
	if err == nil && coins == nil {
		err = usage.Errorf("%s is missing, which says which canaries took part: without it the run cannot be audited", d.CoinsPath())
	}
	if err != nil {
		return nil, err
	}
	heard, err := d.ReadHeard()
	if err != nil {
		return nil, err
	}
	all := canary.Read(heard, c.Canaries)
	if all == nil {
		return nil, usage.Errorf("%s does not say what was heard of %d canaries: restore it", d.State(), c.Canaries)
	}
	r, err := judge(p, all.Guess(canary.Threshold(p.SamplingRate, c.Clip, done.Steps), coins), all.Signal/float64(max(done.Steps, 1)))
	if r != nil {
		r.Run = dir
		for _, partakes := range coins {
			if partakes {
				r.Partaking++
			}
		}
	}
	return r, err
}

// judge compares right guesses with the claim of a plan. signal is how long a canary's gradient was.
func judge(p *plan.Plan, right int, signal float64) (*Result, error) {
	own, err := claim(p, 1)
	if err != nil {
		return nil, err
	}
	n := p.Config.Canaries
	r := &Result{
		Canaries: n, Right: right, Refuting: refuting(n, own.chance), Chance: own.chance, Epsilon: own.epsilon, Delta: *p.Config.Delta,
		Confidence: Confidence, Accountant: p.Config.Accountant, NotPrivate: plan.Label(&p.Config),
	}
	r.Convicted = right >= r.Refuting
	r.PValue = atLeast(n, right, own.chance)
	r.Signal, r.Power = signal, atLeast(n, r.Refuting, canary.Chance(p.SamplingRate, p.Steps, p.Sigma/2, signal))
	r.EpsilonLower, err = lower(p, own, r)
	return r, err
}

// A promise is an ε, and the probability of a right guess that goes with it.
type promise struct{ epsilon, chance float64 }

// claim is what the run promises with noise of so many times its own.
func claim(p *plan.Plan, times float64) (promise, error) {
	q := p.Price
	q.Sigma *= times
	events, err := q.Events()
	if err != nil {
		return promise{}, err
	}
	o := accountant.Options{Accountant: p.Config.Accountant, Neighbouring: accountant.AddRemove, Delta: *p.Config.Delta}
	at, err := accountant.Account(events, o)
	if err != nil {
		return promise{}, err
	}
	risk, err := accountant.RiskOf(events, o)
	if err != nil || risk == nil {
		return promise{at.Epsilon, 1}, err
	}
	return promise{at.Epsilon, (1 + min(risk.Advantage, 1)) / 2}, nil
}

// atLeast is the probability that so many of n independent guesses are right, or more.
func atLeast(n, right int, chance float64) float64 {
	switch {
	case right > n:
		return 0
	case right <= 0 || chance >= 1:
		return 1
	case chance <= 0:
		return 0
	}
	return mathext.RegIncBeta(float64(right), float64(n-right+1), chance)
}

// refuting is the least number of right guesses that is too rare for their probability; n + 1 where none is.
func refuting(n int, chance float64) int {
	for right := range n + 1 {
		if atLeast(n, right, chance) <= 1-Confidence {
			return right
		}
	}
	return n + 1
}

// lower is the largest ε that the guesses refute, among those of the same run with more or less noise; 0 where they refute none. Two noises that are
// tried in the end differ by 1 percent.
func lower(p *plan.Plan, own promise, r *Result) (float64, error) {
	const most, near = 64., 1.01
	refuted := func(k promise) bool { return atLeast(r.Canaries, r.Right, k.chance) <= 1-Confidence }
	low, high := 1/most, most // factors of the noise: the ε of high is refuted
	k, err := claim(p, high)
	if err != nil || !refuted(k) {
		return 0, err
	}
	best := k.epsilon
	if low = 1; refuted(own) {
		low, high, best = 1/most, 1, own.epsilon
	}
	for high/low > near {
		middle := math.Sqrt(low * high)
		if k, err = claim(p, middle); err != nil {
			return 0, err
		}
		if refuted(k) {
			high, best = middle, k.epsilon
		} else {
			low = middle
		}
	}
	return best, nil
}
