package budget

import (
	"crypto/sha256"
	"encoding/hex"
	"math"
	"strings"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/internal/papers"
	"github.com/privgrad/privgrad/internal/plan"
	"github.com/privgrad/privgrad/internal/usage"
)

// A Bill is what is known of a run's cost, all of it public.
type Bill struct {
	Data, Neighbouring, Unit string
	Settings                 string // SHA-256 of what a resumed run may not change
	Events                   []accountant.Event
	Epsilon, Delta           float64

	releases  string
	selection *accountant.Selection // in the place of events, where the best of several runs is released
}

// Tuned makes the bill of a tuning of the bill of any of its trials: for its whole price, with the digest of its record.
func (b Bill) Tuned(s accountant.Selection, settings string, epsilon float64) *Bill {
	b.Events, b.selection, b.Settings, b.Epsilon, b.releases = nil, &s, settings, epsilon, settings
	return &b
}

// Of makes the bill of a run, or says why it cannot be counted.
func Of(p *plan.Plan) (*Bill, error) {
	g := &p.Guarantee
	if !g.Guarantee {
		return nil, usage.Errorf("--budget counts runs with a guarantee, and this one has none: %s", strings.Join(g.NoGuarantee, "; "))
	}
	text, err := p.Config.Identity()
	if err != nil {
		return nil, err
	}
	unit := g.PrivacyUnit
	if p.Config.ByUser() {
		unit = p.Config.PrivacyUnit.Identity()
	}
	sum := sha256.Sum256(text)
	b := &Bill{Data: p.Config.Data, Neighbouring: *g.Neighbouring, Unit: unit, Settings: hex.EncodeToString(sum[:]), Epsilon: *g.Epsilon, Delta: *g.Delta}
	if !p.Traits.Pure { // whose ε is all that a divergence would say
		if b.Events, err = p.Events(); err != nil {
			return nil, err
		}
	}
	b.releases, err = digest(struct {
		Events         []accountant.Event
		Epsilon, Delta float64
	}{b.Events, b.Epsilon, b.Delta})
	return b, err
}

// divergence is the run's at an order, if that is known.
func (b *Bill) divergence(order float64, n accountant.Neighbouring) (float64, bool) {
	curve := func() (accountant.Curve, error) { return accountant.NewCurve(b.Events, n, []float64{order}) }
	switch {
	case b.selection != nil:
		curve = func() (accountant.Curve, error) { return b.selection.Curve(n, []float64{order}) }
	case len(b.Events) == 0:
		return 0, false
	}
	c, err := curve()
	if err != nil || !(c.RDP[0] >= 0) || math.IsInf(c.RDP[0], 0) {
		return 0, false
	}
	return c.RDP[0], true
}

// New is a budget that later runs spend as their results suggest. Order 0 takes accountant.GaussianOrder.
func New(data, neighbouring, unit string, epsilon, delta, order float64) (*File, error) {
	if !(delta > 0 && delta < 1) {
		return nil, usage.Errorf("delta %v: must be in (0, 1), and well below one over the number of records", delta)
	}
	if order == 0 {
		order = accountant.GaussianOrder(epsilon, delta/halves)
	}
	if _, err := accountant.NewFilter(epsilon, delta/halves, accountant.Neighbouring(neighbouring), order); err != nil {
		return nil, usage.Wrap(err)
	}
	return &File{Data: data, Neighbouring: neighbouring, Unit: unit, Epsilon: epsilon, Delta: delta, Order: &order}, nil
}

// Together is a budget for the runs of some plans alone. Their noise is fixed, so that they are priced as one.
func Together(data, neighbouring, unit string, epsilon, delta float64, names []string, plans []*plan.Plan) (*File, error) {
	f := &File{Data: data, Neighbouring: neighbouring, Unit: unit, Epsilon: epsilon, Delta: delta, Joint: new(0.0)}
	var events []accountant.Event
	var epsilons []float64
	rest := delta // for the composition of the events
	for i, p := range plans {
		b, err := Of(p)
		if err != nil {
			return nil, usage.Errorf("%s: %w", names[i], err)
		}
		if err := f.fits("for "+names[i], b); err != nil {
			return nil, err
		}
		if events = append(events, b.Events...); len(b.Events) == 0 {
			epsilons, rest = append(epsilons, b.Epsilon), math.Nextafter(rest-b.Delta, -1)
		}
		f.Declared = append(f.Declared, Declared{Name: names[i], Settings: b.Settings, Releases: b.releases})
	}
	if len(events) > 0 && !(rest > 0) {
		return nil, papers.Refuse("--delta %v does not cover the δ of runs that are known by ε and δ alone: raise it, or give these runs a smaller delta", delta)
	}
	joint, err := compose(events, accountant.Neighbouring(neighbouring), rest)
	if err != nil {
		return nil, err
	}
	if *f.Joint = sum(epsilons); len(events) > 0 {
		*f.Joint = up(*f.Joint + joint)
	}
	if !(*f.Joint <= epsilon) {
		return nil, papers.Refuse("the runs cost ε = %.4g together at δ = %v, and the budget has %v: lower their epsilon, or declare fewer", *f.Joint, delta, epsilon)
	}
	return f, nil
}

// compose is the smallest ε of all events together that an accountant shows.
func compose(events []accountant.Event, n accountant.Neighbouring, delta float64) (best float64, err error) {
	if len(events) == 0 {
		return 0, nil
	}
	for _, name := range []string{accountant.PLD, accountant.RDP} {
		got, err := accountant.Account(events, accountant.Options{Accountant: name, Neighbouring: n, Delta: delta})
		if err == nil || name == accountant.RDP {
			return got.Epsilon, usage.Wrap(err)
		}
	}
	return best, nil
}
