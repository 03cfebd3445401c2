package accountant

import (
	"fmt"
	"math"
)

// A surcharge is what objective perturbations cost beside the Gaussian releases that stand in
// their places: where those make a composition (ε, δ')-private, δ(ε) ≤ times·δ'(ε−loss).
type surcharge struct {
	loss, times float64
	with        []Event // the composition with the Gaussians

	// Of a single one also δ(ε) ≤ tight·δ'(ε−loss) + rest·δ''(ε−early), δ'' of the composition without it.
	single             bool
	tight, rest, early float64
	without            []Event
}

// newSurcharge is that of a list of events; nil if nothing of it has one.
func newSurcharge(events []Event, n Neighbouring) (*surcharge, error) {
	s, count := &surcharge{times: 1}, 0
	for i, e := range events {
		with, without := e, e
		with.Mechanisms, without.Mechanisms = nil, nil
		for _, m := range e.Mechanisms {
			p, ok := m.(ObjectivePerturbation)
			if !ok {
				with.Mechanisms, without.Mechanisms = append(with.Mechanisms, m), append(without.Mechanisms, m)
				continue
			}
			if e.rate() < 1 {
				return nil, fmt.Errorf("event %d: mechanism %s has no dominating pair on a sampled batch: use %s", i+1, p.Name(), RDP)
			}
			count += e.Count
			s.add(p, n.distance(), float64(e.Count))
			with.Mechanisms = append(with.Mechanisms, p.gaussian())
			if p.OutputMultiplier > 0 {
				without.Mechanisms = append(without.Mechanisms, Gaussian{p.OutputMultiplier})
			}
		}
		s.with = append(s.with, with)
		if len(without.Mechanisms) > 0 {
			s.without = append(s.without, without)
		}
	}
	if count == 0 {
		return nil, nil
	}
	s.single = count == 1
	return s, nil
}

// add takes in so many copies of one.
func (s *surcharge) add(p ObjectivePerturbation, distance, copies float64) {
	mu, loss := distance/p.NoiseMultiplier, math.Log1p(p.Curvature)
	s.tight = p.sides(distance) * (1 + p.Curvature)
	s.rest, s.early = max(0, 1-s.tight/2), loss+mu*mu/2
	s.loss += copies * loss
	s.times *= math.Pow(max(2, s.tight), copies)
}

// account solves for what o asks, objective perturbations included.
func (m method) account(events []Event, o Options) (Result, error) {
	if !m.pairs {
		return m.solve(events, o)
	}
	s, err := newSurcharge(events, o.Neighbouring)
	switch {
	case err != nil:
		return Result{}, err
	case s == nil:
		return m.solve(events, o)
	}
	var x float64
	if o.Epsilon != nil {
		x, err = s.delta(m, o)
	} else {
		x, err = s.epsilon(m, o)
	}
	r := o.result(x)
	if m.name == PLD {
		r.Interval = &Interval{0, x}
	}
	return r, err
}

// at is δ of a list of Gaussians and the like at ε.
func (m method) at(events []Event, o Options, epsilon float64) (float64, error) {
	if len(events) == 0 {
		return 0, nil
	}
	o.Delta, o.Epsilon = 0, &epsilon
	r, err := m.solve(events, o)
	return r.Delta, err
}

// delta bounds δ at o's ε.
func (s *surcharge) delta(m method, o Options) (float64, error) {
	at := max(*o.Epsilon, s.loss)
	d, err := m.at(s.with, o, at-s.loss)
	if err != nil {
		return 0, err
	}
	best := min(1, s.times*d)
	if s.single && at >= s.early {
		rest, err := m.at(s.without, o, at-s.early)
		if err != nil {
			return 0, err
		}
		best = min(best, s.tight*d+s.rest*rest)
	}
	// δ is convex in e^ε, and 1 where that is 0.
	return math.Exp(*o.Epsilon-at)*best - math.Expm1(*o.Epsilon-at), nil
}

// epsilon bounds ε at o's δ.
func (s *surcharge) epsilon(m method, o Options) (float64, error) {
	at := func(share float64) (float64, error) {
		p := o
		p.Delta *= share
		r, err := m.solve(s.with, p)
		return s.loss + r.Epsilon, err
	}
	epsilon, err := at(1 / s.times)
	if err != nil || !s.single {
		return epsilon, err
	}
	const reserve = 1e-6 // of δ, for the second term
	closer, err := at((1 - reserve) / s.tight)
	if err != nil || closer < s.early {
		return epsilon, err
	}
	rest, err := m.at(s.without, o, closer-s.early)
	if err == nil && s.rest*rest <= reserve*o.Delta {
		epsilon = min(epsilon, closer)
	}
	return epsilon, err
}

// attack is the risk of a list; where it has a surcharge, from its (ε, δ) at many ε.
func (m method) attack(events []Event, o Options) (r *Risk, err error) {
	if !m.pairs {
		return m.risk(events, o)
	}
	s, err := newSurcharge(events, o.Neighbouring)
	switch {
	case err != nil:
		return nil, err
	case s == nil:
		return m.risk(events, o)
	}
	r = riskBelow(riskGrid(), func(epsilon float64) float64 {
		o.Epsilon = &epsilon
		delta, failed := s.delta(m, o)
		if failed != nil {
			err = failed
			return 1
		}
		return delta
	})
	return r, err
}
