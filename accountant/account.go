package accountant

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/privgrad/privgrad/internal/usage"
)

// The accountants by name.
const (
	// PLD composes privacy loss distributions: the tightest for a fixed schedule.
	PLD = "pld"
	// RDP minimises a Rényi bound over the default orders.
	RDP = "rdp"
	// PRV composes by another discretisation, as a cross-check of PLD.
	PRV = "prv"
	// ZCDP is zero-concentrated privacy, without sampling.
	ZCDP = "zcdp"
	// GDP is the exact trade-off of Gaussians, without sampling.
	GDP = "gdp"
	// CTCDP is truncated concentrated privacy of fixed-size batches.
	CTCDP = "ctcdp"
	// Paper is RDP's curve with the papers' own conversion, to reproduce
	// their figures.
	Paper = "paper"
)

// A method is an accountant. It refuses the events that it has no bound for.
type method struct {
	name        string
	solve       func(events []Event, o Options) (Result, error)
	epsilonOnly bool // it does not solve for δ
	pairs       bool // it composes dominating pairs, so that a surcharge goes on top
	// groups are the relations under which it bounds what several records at once do to a Poisson batch of Gaussians.
	// Where it is not nil, it bounds that without sampling under both.
	groups []Neighbouring
	// risk bounds attacks; nil: its ε says all that it knows of them.
	risk func(events []Event, o Options) (*Risk, error)
	// slack is how far below its target a calibration may end, relative to
	// it: what a search by this method's figures can resolve.
	slack float64
	why   string // its figures are no guarantee; empty: they are
}

// methods are in the order in which help lists them.
func methods() []method {
	return []method{pldMethod, rdpMethod, prvMethod, zcdpMethod, gdpMethod, ctcdpMethod, paperMethod}
}

// Names lists the accountants.
func Names() (names []string) {
	for _, m := range methods() {
		names = append(names, m.name)
	}
	return names
}

func methodOf(name string) (method, error) {
	all := methods()
	if i := slices.IndexFunc(all, func(m method) bool { return m.name == name }); i >= 0 {
		return all[i], nil
	}
	return method{}, usage.Unknown("accountant", name, Names())
}

// Options of an account.
type Options struct {
	Accountant   string
	Neighbouring Neighbouring
	Delta        float64  // in (0, 1), or 0 with Epsilon
	Epsilon      *float64 // given: solve for δ
	Order        float64  // above 1: also report the total Rényi divergence at this order
	// Group is how many records are added together or removed together, under replace-one replaced. 0 is 1.
	Group int
}

// result is what solves for x.
func (o Options) result(x float64) Result {
	if o.Epsilon != nil {
		return Result{Epsilon: *o.Epsilon, Delta: x}
	}
	return Result{Epsilon: x, Delta: o.Delta}
}

// An Interval holds the true value of what was solved for.
type Interval struct{ Lower, Upper float64 }

// MarshalJSON writes lower and upper; an infinite end is null.
func (i Interval) MarshalJSON() ([]byte, error) {
	ends := map[string]*float64{"lower": &i.Lower, "upper": &i.Upper}
	for name, x := range ends {
		if math.IsInf(*x, 0) {
			ends[name] = nil
		}
	}
	return json.Marshal(ends)
}

// Result of an account.
type Result struct {
	Epsilon, Delta float64
	Accountant     string
	Neighbouring   Neighbouring
	Order          float64   // Rényi accountants: the order that gave the result; else 0
	OrderAtEdge    bool      // the list of orders ended there: a wider one might do better
	Interval       *Interval // PLD and PRV: its upper end is the result
	Estimate       *float64  // PRV: the value without the allowance for its errors
	RDP            *float64
	GroupMethod    GroupMethod
	// NotAGuarantee says why the figure is none; empty for a guarantee.
	NotAGuarantee string
}

// NoGuarantee says why an accountant's figures are no guarantee; empty: they are.
func NoGuarantee(accountant string) string {
	m, err := methodOf(accountant)
	if err != nil {
		return err.Error()
	}
	return m.why
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
	m, err := methodOf(o.Accountant)
	if err != nil {
		return Result{}, err
	}
	noNoise, err := check(events, o.Neighbouring)
	if err != nil {
		return Result{}, err
	}
	if err := o.checkGroup(); err != nil {
		return Result{}, err
	}
	r := o.result(math.Inf(1)) // without noise
	switch {
	case o.Epsilon == nil:
		err = checkDelta(o.Delta)
	case o.Delta != 0:
		err = fmt.Errorf("epsilon %v and delta %v are both given: give the one to solve the other for", *o.Epsilon, o.Delta)
	case !(*o.Epsilon >= 0) || math.IsInf(*o.Epsilon, 0):
		err = fmt.Errorf("epsilon %v: must be a finite number, 0 or more", *o.Epsilon)
	case m.epsilonOnly:
		err = fmt.Errorf("accountant %s does not solve for delta: use %s or %s", m.name, PLD, RDP)
	default:
		r.Delta = 1
	}
	if err == nil && !noNoise {
		r, err = solved.of(events, o, m.group)
	}
	if err != nil {
		return Result{}, err
	}
	if math.IsNaN(r.Epsilon) || math.IsNaN(r.Delta) {
		return Result{}, fmt.Errorf("accountant %s cannot bound these events in floating point: use %s", m.name, RDP)
	}
	r.Accountant, r.Neighbouring, r.NotAGuarantee, r.GroupMethod = m.name, o.Neighbouring, m.why, m.groupMethod(events, o)
	if noNoise {
		r.NotAGuarantee = "some release has no noise: its divergence is infinite"
	}
	if o.Order != 0 {
		one, err := o.curve(events, []float64{o.Order})
		if err != nil {
			return Result{}, err
		}
		r.RDP = &one.RDP[0]
	}
	return r, nil
}

// check validates events and says whether one of them has no noise.
func check(events []Event, n Neighbouring) (noNoise bool, err error) {
	if len(events) == 0 {
		return false, errors.New("there is no event to account for")
	}
	if err := n.validate(); err != nil {
		return false, err
	}
	for i, e := range events {
		if err := errors.Join(e.Validate(), e.states(n)); err != nil {
			return false, fmt.Errorf("event %d: %w", i+1, err)
		}
		for _, m := range e.Mechanisms {
			if g, ok := m.(Gaussian); ok && math.IsInf(1/(g.NoiseMultiplier*g.NoiseMultiplier), 1) {
				noNoise = true
			}
		}
	}
	return noNoise, nil
}
