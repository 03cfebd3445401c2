package engine

import (
	"fmt"
	"slices"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/dpoptim/mechanism"
	"github.com/privgrad/privgrad/internal/usage"
)

// Each mechanism of a run draws in a counter range of its own.
const (
	gradientNoise = 0
	lossNoise     = 1
	countNoise    = 2
	searchNoise   = 3
	normNoise     = 4
	tiltNoise     = 5
	recordsNoise  = 6
)

// declared is a question that the method may ask.
type declared struct {
	ask     dpoptim.Ask
	release dpoptim.Release // as planned; of an Adaptive budget the first
	sum     mechanism.Mechanism
	next    int // the first slot in which a committed schedule has it again
}

// declare takes in what the method says that it will ask.
func (e *Engine) declare() error {
	e.declared = map[dpoptim.Question]*declared{}
	for _, a := range e.c.Declaration.Asks {
		d := &declared{ask: a}
		d.ask.Every = max(a.Every, 1)
		var err error
		switch {
		case a.Release != nil:
			d.release, err = a.Release(e.c.Facts.Planned)
		case a.At != nil && e.c.Facts.Planned > 0: // else without noise, as audits want it
			d.release, err = a.At(0)
		}
		if err != nil {
			return err
		}
		traits := e.c.Method.Traits()
		if traits.Private && (e.c.Facts.Planned > 0 || traits.Pure) && Silent(d.release.Noise) {
			return fmt.Errorf("optimizer %s declares a %s without noise", traits.Name, a.Question)
		}
		if d.release.Bound == 0 {
			d.release.Bound = e.c.Facts.Clip
		}
		e.declared[a.Question] = d
	}
	return nil
}

// Silent reports whether a release has no noise.
func Silent(m accountant.Mechanism) bool {
	search, ok := m.(accountant.NoisyBTLS)
	return m == nil || ok && search.ThresholdScale == 0
}

// release is the declared one or, of runs whose releases a filter admits, what is asked for.
func (e *Engine) release(q dpoptim.Question, r *dpoptim.Release) (dpoptim.Release, error) {
	d, ok := e.declared[q]
	name := e.c.Method.Traits().Name
	switch {
	case !ok:
		return dpoptim.Release{}, fmt.Errorf("optimizer %s asks for a %s, which it has not declared; nothing was released", name, q)
	case r == nil && d.ask.At != nil && e.c.Facts.Planned > 0:
		return d.ask.At(e.Slot())
	case r == nil:
		return d.release, nil
	case !e.Filtered():
		return dpoptim.Release{}, fmt.Errorf("optimizer %s asks for a %s with noise of its own, and has declared it as planned; nothing was released", name, q)
	case Silent(r.Noise) != Silent(d.release.Noise):
		return dpoptim.Release{}, fmt.Errorf("optimizer %s asks for a %s with %v as its noise, and has declared %v; nothing was released", name, q, r.Noise, d.release.Noise)
	}
	return *r, nil
}

// admit has what is asked of one batch paid for, before its noise exists. What a
// committed schedule has paid for is asked in the declared steps, once in each.
func (e *Engine) admit(q dpoptim.Question, asked ...accountant.Mechanism) error {
	d := e.declared[q]
	asked = slices.DeleteFunc(asked, func(m accountant.Mechanism) bool { return m == nil })
	if slot := e.Slot(); !e.Filtered() && len(asked) > 0 {
		sum, name := e.declared[dpoptim.Gradients], e.c.Method.Traits().Name
		switch {
		case slot%d.ask.Every != 0 || slot < d.next:
			return fmt.Errorf("optimizer %s asks for a %s in step %d of the schedule more often than it has declared; nothing was released", name, q, slot+1)
		case d.ask.Batch != dpoptim.Own && (sum == nil || sum.next <= slot):
			return fmt.Errorf("optimizer %s asks for a %s of the batch of a sum that it has not asked for in step %d of the schedule; nothing was released", name, q, slot+1)
		}
		d.next = slot + 1
	}
	if e.Filtered() && d.ask.Batch == dpoptim.OfSum {
		for _, m := range asked {
			if !slices.Contains(e.paid, m) {
				return fmt.Errorf("optimizer %s asks %v of a batch that has not paid for it; nothing was released", e.c.Method.Traits().Name, m)
			}
		}
		e.paid = nil
		return nil
	}
	return e.c.Supply.Admit(asked...)
}

// unfit refuses a release whose noise is not of the question's kind.
func (e *Engine) unfit(q dpoptim.Question, r dpoptim.Release) error {
	return fmt.Errorf("optimizer %s declares a %s with %v as its noise, which it cannot have", e.c.Method.Traits().Name, q, r.Noise)
}

// gradientMechanism releases sums of gradients, in the arithmetic of the net.
func (e *Engine) gradientMechanism(asked *dpoptim.Release) (mechanism.Mechanism, error) {
	d := e.declared[dpoptim.Gradients]
	if asked == nil && d != nil && d.sum != nil {
		return d.sum, nil
	}
	r, err := e.release(dpoptim.Gradients, asked)
	if err != nil {
		return nil, err
	}
	m, err := e.sumMechanism(dpoptim.Gradients, r, e.c.Facts.Params, gradientNoise)
	if asked == nil && err == nil && d.ask.At == nil {
		d.sum = m
	}
	return m, err
}

// sumMechanism releases sums of gradients, or of losses, which add up without rounding
// whatever the arithmetic of gradients.
func (e *Engine) sumMechanism(q dpoptim.Question, r dpoptim.Release, values int, tensor uint32) (mechanism.Mechanism, error) {
	if r.Noise == nil {
		return mechanism.NewUnprotected(r.Bound, e.c.Noise), nil
	}
	g, ok := r.Noise.(accountant.Gaussian)
	if !ok {
		return nil, e.unfit(q, r)
	}
	rounding, parts := 0.0, 1
	if q == dpoptim.Gradients {
		if e.c.Options.Exact {
			m, err := mechanism.NewExact(g.NoiseMultiplier, r.Bound, e.c.Noise, tensor)
			return m, usage.Wrap(err)
		}
		rounding, parts = e.net.Rounding(e.c.Rows), e.net.Parts()
	}
	m, err := mechanism.NewGaussian(g.NoiseMultiplier, r.Bound, rounding, values, parts, e.c.Noise, tensor)
	return m, usage.Wrap(err)
}

// searchMechanism tells the first candidate whose losses have fallen enough.
func (e *Engine) searchMechanism(asked *dpoptim.Release) (*mechanism.NoisyBTLS, error) {
	r, err := e.release(dpoptim.Searches, asked)
	if err != nil {
		return nil, err
	}
	search, ok := r.Noise.(accountant.NoisyBTLS)
	d, _ := e.declared[dpoptim.Searches].release.Noise.(accountant.NoisyBTLS)
	switch {
	case Silent(r.Noise):
		return mechanism.NewUnprotectedSearch(r.Bound, d.Queries, e.c.Noise, searchNoise), nil
	case !ok:
		return nil, e.unfit(dpoptim.Searches, r)
	case search.Noise != d.Noise || search.Queries != d.Queries || search.MaxTrials != d.MaxTrials: // another shape than was recorded
		return nil, fmt.Errorf("optimizer %s asks for a search of %v noise, %s queries and %d trials, and has declared %v, %s and %d; nothing was released",
			e.c.Method.Traits().Name, search.Noise, search.Queries, search.MaxTrials, d.Noise, d.Queries, d.MaxTrials)
	}
	m, err := mechanism.NewNoisyBTLS(search, r.Bound, e.c.Noise, searchNoise)
	return m, usage.Wrap(err)
}

// minimumMechanism tells the candidate of least loss.
func (e *Engine) minimumMechanism(asked *dpoptim.Release) (*mechanism.NoisyMin, error) {
	r, err := e.release(dpoptim.Minima, asked)
	if err != nil {
		return nil, err
	}
	pure, ok := r.Noise.(accountant.Pure)
	switch {
	case r.Noise == nil:
		return mechanism.NewUnprotectedMin(r.Bound, e.c.Noise, searchNoise), nil
	case !ok:
		return nil, e.unfit(dpoptim.Minima, r)
	}
	m, err := mechanism.NewNoisyMin(pure.Epsilon, r.Bound, e.c.Noise, searchNoise)
	return m, usage.Wrap(err)
}
