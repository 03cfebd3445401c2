package train

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/privgrad/privgrad/accountant/ledger"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/dpoptim/batches"
	"github.com/privgrad/privgrad/internal/charge"
	"github.com/privgrad/privgrad/internal/price"
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/internal/slice"
	"github.com/privgrad/privgrad/internal/usage"
)

// adapts reports whether a filter admits the run's noise. The slots of the ledger are then shares of a budget.
func (r *run) adapts() bool { return r.plan.Filtered() && r.plan.Sigma > 0 }

func (r *run) openLedger() error {
	h := ledger.Header{Fingerprint: r.plan.Fingerprint, Committed: r.plan.Steps}
	if r.adapts() {
		h.Committed = charge.Units
	}
	var err error
	if r.slice, err = slice.Open(r.options.Out); err != nil {
		return err
	}
	h.Committed = r.slice.End(h.Committed)
	if h.RunID = r.options.RunID; r.dir().Has(rundir.Ledger) {
		h.RunID = "" // that of the ledger
	} else if h.RunID == "" {
		if h.RunID, err = ledger.NewRunID(); err != nil {
			return err
		}
	}
	r.ledger, err = ledger.Open(r.dir().Path(rundir.Ledger), h)
	if errors.Is(err, ledger.ErrMismatch) {
		return usage.Wrap(r.plan.Config.Changed(r.dir(), err, ledger.ErrMismatch))
	}
	if errors.Is(err, ledger.ErrInUse) || errors.Is(err, ledger.ErrCorrupt) {
		return usage.Wrap(err)
	}
	if err != nil {
		return err
	}
	r.runID = r.ledger.Header().RunID
	return slice.GoOn(r.options.Out, r.ledger)
}

// newCharge is what pays for the run, by what its method declares.
func (r *run) newCharge(ctx context.Context, sampler batches.Sampler) (charge.Charge, error) {
	p, o := r.plan, &r.options
	once := p.Traits.Once
	t := charge.Terms{
		Out: o.Out, Ledger: r.ledger, Sampler: sampler, Steps: p.Steps, Most: p.MostSteps, Seeded: p.Config.Noise == dpoptim.Seeded,
		Release: o.onRelease, SaveEvery: r.saveEvery,
		Stop: func() error {
			switch {
			case !r.stopping(ctx):
				return nil
			case once && !r.free():
				return fmt.Errorf("%w before the release; nothing was charged, and nothing is kept of the work: begin again by %s", ErrInterrupted, r.goOn())
			}
			return ErrInterrupted
		},
	}
	if t.Release == nil {
		t.Release = func(int) error { return nil }
	}
	switch {
	case r.adapts():
		b, err := p.NewBudget()
		return &charge.Shares{Terms: t, Budget: b, Event: p.BatchEvent}, err
	case p.Filtered() || r.free():
		return &charge.Free{Terms: t, Once: r.free()}, nil
	}
	s := &charge.Slots{Terms: t, Block: cmp.Or(o.block, p.Block), First: 1, Until: r.slice.End(p.Steps), Late: once}
	if p.Count != nil {
		s.First = 2
	}
	return s, nil
}

// step counts the updates that were made.
func (r *run) step() int { return r.charge.Update() - 1 }

// free reports whether the model is made in one go and without privacy: nothing of it is charged.
func (r *run) free() bool { return r.plan.Traits.Once && !r.plan.Config.Private() }

// saveEvery is how many steps a crash may lose where a budget adapts; what they spent stays spent. The
// larger the state, the more, so that writing it takes a small part of the time.
func (r *run) saveEvery() int {
	const steps, values = 10, 4 << 20
	return steps * (1 + r.model.Values()/values)
}

// epsilon is that of what was released, or of the first slots of a schedule.
func (r *run) epsilon(slots int) *float64 {
	if spent := r.charge.SoFar(); spent != nil {
		return price.Finite(*spent)
	}
	return r.plan.EpsilonAt(slots)
}
