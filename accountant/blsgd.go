package accountant

import (
	"errors"
	"fmt"
	"math"
	"strings"
)

// Batches says how private line search draws what it asks.
type Batches string

const (
	// Fresh draws a batch of its own for every gradient and every line search:
	// each is amplified by itself, and retries need no cap.
	Fresh Batches = "fresh"
	// Shared asks the gradient and up to a fixed number of line searches of one
	// batch: composed first, all of them charged even if unused, amplified once.
	Shared Batches = "shared"
	// PaperBatches asks both of one batch and amplifies each by itself, as
	// Chen and Lee 2020 do (algorithm 2, lines 7 and 11). Not a guarantee.
	PaperBatches Batches = "paper"
)

// LineSearch is the schedule of DP-BLSGD at fixed noise: Steps iterations, each
// one Gradient and up to Searches line searches.
type LineSearch struct {
	Batches      Batches
	SamplingRate float64
	Steps        int
	Gradient     Gaussian
	Search       NoisyBTLS
	Searches     int // an iteration's at most
}

// Events are what the schedule costs under Fresh and Shared.
func (l LineSearch) Events() ([]Event, error) {
	if l.Steps < 1 || l.Searches < 1 {
		return nil, fmt.Errorf("%d steps of %d line searches: must be 1 or more", l.Steps, l.Searches)
	}
	switch l.Batches {
	case Fresh:
		return []Event{
			PoissonBatch(l.SamplingRate, l.Steps, l.Gradient),
			PoissonBatch(l.SamplingRate, l.Steps*l.Searches, l.Search),
		}, nil
	case Shared:
		asked := []Mechanism{l.Gradient}
		for range l.Searches {
			asked = append(asked, l.Search)
		}
		return []Event{PoissonBatch(l.SamplingRate, l.Steps, asked...)}, nil
	case PaperBatches:
		return nil, errors.New("batches paper: amplifying what is asked of one batch separately has no events that are a guarantee; use PaperEpsilon")
	}
	return nil, fmt.Errorf("batches %q: choose one of %s", l.Batches, strings.Join([]string{string(Fresh), string(Shared), string(PaperBatches)}, ", "))
}

// PaperEpsilon is the ε that Chen and Lee 2020 state for the schedule under
// add-remove: gradient and line searches amplified separately by lemma 4, the
// line search priced by theorem 2 or 3, and proposition 1 at integer orders up
// to 63. It is NOT A GUARANTEE: the batch is one, and neither theorem holds.
func (l LineSearch) PaperEpsilon(delta float64) (Result, error) {
	if err := checkDelta(delta); err != nil {
		return Result{}, err
	}
	for _, e := range []Event{PoissonBatch(l.SamplingRate, l.Steps, l.Gradient), PoissonBatch(l.SamplingRate, l.Steps*l.Searches, l.Search)} {
		if err := e.Validate(); err != nil {
			return Result{}, err
		}
	}
	s := l.Search.search()
	claimed := s.Theorem3RDP
	if l.Search.Noise == BTLSLaplace {
		claimed = s.Theorem2RDP
	}
	mu := 1 / l.Gradient.NoiseMultiplier
	gradient := batch{q: l.SamplingRate, bounds: []bound{{rdp: func(a float64) (float64, error) { return a * mu * mu / 2, nil }}}}
	search := batch{q: l.SamplingRate, bounds: []bound{{rdp: func(a float64) (float64, error) { return claimed(a), nil }}}}
	r := Result{Epsilon: math.Inf(1), Delta: delta, Accountant: Paper, Neighbouring: AddRemove, NotAGuarantee: WhyNotPaper}
	for a := 2.0; a < 64; a++ {
		g, err := gradient.rdp(a, (*batch).poisson)
		if err != nil {
			return Result{}, err
		}
		b, err := search.rdp(a, (*batch).poisson)
		if err != nil {
			return Result{}, err
		}
		total := float64(l.Steps) * (g + float64(l.Searches)*b)
		if e := Proposition1(total, a, delta); e < r.Epsilon {
			r.Epsilon, r.Order = e, a
		}
	}
	return r, nil
}
