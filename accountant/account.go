package accountant

import (
	"errors"
	"fmt"
	"math"
	"strings"
)

// An accountant by name.
const (
	// RDP minimises a Rényi bound over the default orders.
	RDP = "rdp"
	// Paper is RDP's curve with the papers' own conversion, to reproduce
	// their figures.
	Paper = "paper"
)

// Names lists the accountants.
func Names() []string { return []string{RDP, Paper} }

// ConversionOf is how an accountant turns its curve into ε.
func ConversionOf(name string) (Conversion, error) {
	switch name {
	case RDP:
		return Tight, nil
	case Paper:
		return Proposition1, nil
	}
	return nil, fmt.Errorf("unknown accountant %q: choose one of %s", name, strings.Join(Names(), ", "))
}

// Options of an account.
type Options struct {
	Accountant   string
	Neighbouring Neighbouring
	Delta        float64  // in (0, 1), or 0 with Epsilon
	Epsilon      *float64 // given: solve for δ
	Order        float64  // above 1: also report the total at this order
}

// Result of an account.
type Result struct {
	Epsilon, Delta float64
	Accountant     string
	Neighbouring   Neighbouring
	Order          float64 // the order that gave the result
	OrderAtEdge    bool    // the list of orders ended there: a wider one might do better
	RDP            *float64
	// NotAGuarantee says why the figure is none; empty for a guarantee.
	NotAGuarantee string
}

// WhyNotPaper is what every figure of the paper accountant carries.
const WhyNotPaper = "paper accounting: it follows the papers' own arithmetic to reproduce their figures"

func checkDelta(delta float64) error {
	if !(delta > 0) || delta >= 1 {
		return fmt.Errorf("delta %v: must be in (0, 1)", delta)
	}
	return nil
}

// Account gives ε at δ, or δ at ε, of a list of events.
func Account(events []Event, o Options) (Result, error) {
	convert, err := ConversionOf(o.Accountant)
	if err != nil {
		return Result{}, err
	}
	if len(events) == 0 {
		return Result{}, errors.New("there is no event to account for")
	}
	c, err := NewCurve(events, o.Neighbouring, nil)
	if err != nil {
		return Result{}, err
	}
	r := Result{Delta: o.Delta, Accountant: o.Accountant, Neighbouring: o.Neighbouring}
	var at int
	switch {
	case o.Epsilon == nil:
		if err := checkDelta(o.Delta); err != nil {
			return Result{}, err
		}
		r.Epsilon, at = c.Epsilon(o.Delta, convert)
	case o.Delta != 0:
		return Result{}, fmt.Errorf("epsilon %v and delta %v are both given: give the one to solve the other for", *o.Epsilon, o.Delta)
	case !(*o.Epsilon >= 0) || math.IsInf(*o.Epsilon, 0):
		return Result{}, fmt.Errorf("epsilon %v: must be a finite number, 0 or more", *o.Epsilon)
	case o.Accountant != RDP:
		return Result{}, fmt.Errorf("accountant %s does not solve for delta: use rdp", o.Accountant)
	default:
		r.Epsilon = *o.Epsilon
		r.Delta, at = c.Delta(r.Epsilon)
	}
	r.Order = c.Orders[at]
	// An ε of 0 cannot be bettered, nor an infinite divergence by other orders.
	open := !math.IsInf(c.RDP[at], 1) && (o.Epsilon != nil || r.Epsilon > 0)
	r.OrderAtEdge = open && (at == 0 || at == len(c.Orders)-1)
	switch {
	case math.IsInf(c.RDP[at], 1):
		r.NotAGuarantee = "some release has no noise: its divergence is infinite"
	case o.Accountant == Paper:
		r.NotAGuarantee = WhyNotPaper
	}
	if o.Order != 0 {
		one, err := NewCurve(events, o.Neighbouring, []float64{o.Order})
		if err != nil {
			return Result{}, err
		}
		r.RDP = &one.RDP[0]
	}
	return r, nil
}

// Schedule is DP-SGD's: steps Poisson batches at one rate, each asked for one
// Gaussian sum and for what stands in WithSum.
type Schedule struct {
	SamplingRate float64
	Steps        int
	Neighbouring Neighbouring
	Accountant   string
	Delta        float64
	WithSum      []Mechanism // what each step asks of its batch beside the sum
	Besides      []Event     // what the same run releases apart from the steps
}

// Step is count of the schedule's steps at a noise multiplier of the sum: one
// event, since what is asked of one batch is amplified together.
func (s Schedule) Step(sigma float64, count int) Event {
	return PoissonBatch(s.SamplingRate, count, append([]Mechanism{Gaussian{sigma}}, s.WithSum...)...)
}

func (s Schedule) epsilon(sigma float64) (float64, error) {
	events := append([]Event{s.Step(sigma, s.Steps)}, s.Besides...)
	r, err := Account(events, Options{Accountant: s.Accountant, Neighbouring: s.Neighbouring, Delta: s.Delta})
	return r.Epsilon, err
}

// slack is how far below its target a calibration may end, relative to it.
const slack = 1e-6

// ErrBudget says that no choice meets an otherwise proper target: the budget
// does not allow what was asked.
var ErrBudget = errors.New("the privacy budget does not allow it")

func checkTarget(epsilon float64) error {
	if !(epsilon > 0) || math.IsInf(epsilon, 0) {
		return fmt.Errorf("epsilon %v: the target must be a finite number above 0", epsilon)
	}
	return nil
}

// Calibrate finds the smallest noise multiplier whose ε does not exceed the
// target: never above it, and within 1e-4 relative below.
func (s Schedule) Calibrate(epsilon float64) (sigma, reached float64, err error) {
	if err := checkTarget(epsilon); err != nil {
		return 0, 0, err
	}
	const least, most = 1e-3, 1e9
	hi := 1.0
	for {
		if reached, err = s.epsilon(hi); err != nil {
			return 0, 0, err
		}
		if reached <= epsilon {
			break
		}
		if hi *= 2; hi > most {
			return 0, 0, fmt.Errorf("no noise multiplier up to %g reaches epsilon %v at delta %v over %d steps at sampling rate %v: accountant %s gives no less than %.4g there; raise epsilon or delta: %w", most, epsilon, s.Delta, s.Steps, s.SamplingRate, s.Accountant, reached, ErrBudget)
		}
	}
	lo := hi / 2
	for lo > least {
		e, err := s.epsilon(lo)
		if err != nil {
			return 0, 0, err
		}
		if e > epsilon {
			break
		}
		hi, reached, lo = lo, e, lo/2
	}
	if lo <= least {
		return 0, 0, fmt.Errorf("epsilon %v is met with almost no noise (multiplier below %g): lower epsilon", epsilon, 2*least)
	}
	for range 200 {
		if reached >= epsilon*(1-slack) || hi-lo < 1e-12*hi {
			break
		}
		mid := (lo + hi) / 2
		e, err := s.epsilon(mid)
		if err != nil {
			return 0, 0, err
		}
		if e <= epsilon {
			hi, reached = mid, e
		} else {
			lo = mid
		}
	}
	return hi, reached, nil
}

// CalibrateSteps finds the largest number of steps whose ε does not exceed the
// target, for a noise multiplier; s.Steps is ignored.
func (s Schedule) CalibrateSteps(epsilon, sigma float64) (steps int, reached float64, err error) {
	if err := checkTarget(epsilon); err != nil {
		return 0, 0, err
	}
	convert, err := ConversionOf(s.Accountant)
	if err != nil {
		return 0, 0, err
	}
	if err := checkDelta(s.Delta); err != nil {
		return 0, 0, err
	}
	one, err := NewCurve([]Event{s.Step(sigma, 1)}, s.Neighbouring, nil)
	if err != nil {
		return 0, 0, err
	}
	besides, err := NewCurve(s.Besides, s.Neighbouring, nil)
	if err != nil {
		return 0, 0, err
	}
	at := func(n int) float64 {
		e, _ := besides.Plus(one, n).Epsilon(s.Delta, convert)
		return e
	}
	if e := at(0); e > epsilon {
		return 0, 0, fmt.Errorf("epsilon %v is below what accountant %s gives at delta %v before the first step, %.4g: raise epsilon or delta: %w", epsilon, s.Accountant, s.Delta, e, ErrBudget)
	}
	if at(1) > epsilon {
		return 0, 0, fmt.Errorf("epsilon %v does not pay for one step at noise multiplier %v and sampling rate %v: raise epsilon or the noise: %w", epsilon, sigma, s.SamplingRate, ErrBudget)
	}
	const most = 1 << 30
	hi := 2
	for at(hi) <= epsilon {
		if hi *= 2; hi > most {
			return 0, 0, fmt.Errorf("epsilon %v pays for more than %d steps at noise multiplier %v: lower the noise", epsilon, most, sigma)
		}
	}
	lo := hi / 2 // affordable, hi is not
	for hi-lo > 1 {
		if mid := lo + (hi-lo)/2; at(mid) <= epsilon {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo, at(lo), nil
}

// CalibrateSamplingRate finds the largest sampling rate whose ε does not
// exceed the target, for a noise multiplier; s.SamplingRate is ignored.
func (s Schedule) CalibrateSamplingRate(epsilon, sigma float64) (rate, reached float64, err error) {
	if err := checkTarget(epsilon); err != nil {
		return 0, 0, err
	}
	at := func(q float64) (float64, error) {
		t := s
		t.SamplingRate = q
		return t.epsilon(sigma)
	}
	if reached, err = at(1); err != nil {
		return 0, 0, err
	}
	if reached <= epsilon {
		return 1, reached, nil
	}
	const least = 1e-12
	lo, hi := least, 1.0
	if reached, err = at(lo); err != nil {
		return 0, 0, err
	}
	if reached > epsilon {
		return 0, 0, fmt.Errorf("no sampling rate reaches epsilon %v at delta %v over %d steps with noise multiplier %v: accountant %s gives no less than %.4g there; raise epsilon, delta or the noise: %w", epsilon, s.Delta, s.Steps, sigma, s.Accountant, reached, ErrBudget)
	}
	for range 200 {
		if reached >= epsilon*(1-slack) || hi-lo < 1e-12*hi {
			break
		}
		mid := math.Sqrt(lo * hi)
		e, err := at(mid)
		if err != nil {
			return 0, 0, err
		}
		if e <= epsilon {
			lo, reached = mid, e
		} else {
			hi = mid
		}
	}
	return lo, reached, nil
}
