package train

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/internal/usage"
)

// Runs whose releases follow from earlier ones: an online filter admits each.

// filterState is where such a run stands, as its checkpoint holds it.
type filterState struct {
	Draws uint64    `json:"draws,omitempty"` // batches and noise positions taken
	Spent []float64 `json:"spent,omitempty"` // of the budget
	Order float64   `json:"order,omitempty"` // at which a filter spends
}

// draw gives the next noise position, and the number of the batch that may go
// with it.
func (s *filterState) draw() (batch, draw uint64) {
	s.Draws++
	return s.Draws - 1, s.Draws
}

// save notes what was spent.
func (s *filterState) save(b accountant.Budget) {
	if b == nil {
		return
	}
	s.Spent = b.Spent()
	if f, ok := b.(*accountant.Filter); ok {
		s.Order = f.Order()
	}
}

// restoreBudget spends what a checkpoint tells of.
func (r *run) restoreBudget(s filterState) error {
	if r.budget == nil {
		return nil
	}
	if f, ok := r.budget.(*accountant.Filter); ok && f.Order() != s.Order {
		return usage.Errorf("%s: the checkpoint's budget was spent at order %v, this program spends at %v; go on with the program that began, or start a new run in another directory", r.options.Out, s.Order, f.Order())
	}
	if err := r.budget.Restore(s.Spent); err != nil {
		return usage.Errorf("%s: the checkpoint's budget cannot be read: %w; restore the file, or start a new run in another directory", r.options.Out, err)
	}
	// A share that was read from a ledger is rounded up by less than a unit.
	if units(1-r.budget.Left()) > r.ledger.Charged()+1 {
		return usage.Errorf("%s: the checkpoint is ahead of the ledger, which an older copy must have replaced; restore the ledger, or start a new run in another directory", r.options.Out)
	}
	return nil
}

// asBudget leaves a refusal what it is, and calls any other error bad usage.
func asBudget(err error) error {
	if errors.Is(err, accountant.ErrBudget) {
		return err
	}
	return usage.Wrap(err)
}

// budgetUnits is what the ledger of such a run counts: its slots are equal
// shares of the budget.
const budgetUnits = 1 << 40

// units are a share of the budget as the ledger counts it, rounded up.
func units(share float64) int { return min(int(math.Ceil(share*budgetUnits)), budgetUnits) }

// ask has a release admitted, and its price on the disk, before it is made.
func (r *run) ask(e accountant.Event) error {
	if r.stopped != nil && r.stopped() != nil {
		return r.stopped()
	}
	if r.budget != nil {
		if err := r.budget.Ask(e); err != nil {
			return err
		}
		if units(1-r.budget.Left()) > r.ledger.Charged() {
			if err := r.settle(); err != nil {
				return err
			}
			// Ahead, since a sync to the disk takes longer than a step.
			first := r.ledger.Charged()
			ahead := min(units(1-r.budget.Left())-first+budgetUnits/reservedShare, budgetUnits-first)
			if _, err := r.ledger.Reserve(ahead); err != nil {
				return err
			}
			r.reserved, r.first = ahead, first
		}
	}
	return r.releases()
}

// reservedShare of the budget is what a crash may lose.
const reservedShare = 100

// settle keeps of what is reserved what was spent.
func (r *run) settle() error {
	if r.reserved == 0 {
		return nil
	}
	used := min(max(units(1-r.budget.Left())-r.first, 0), r.reserved)
	r.reserved = 0
	return r.ledger.Settle(used)
}

// iterate is one update with its releases, each of which it asks for.
func (r *run) iterate() error {
	if r.protection != nil {
		return r.protectedStep()
	}
	o, s := &oracle{run: r}, &r.searcher.state
	eta, err := r.plan.Config.Search.rule().Iterate(s.Adaptive, o)
	if err == nil {
		s.Eta = eta
	}
	return err
}

// trainFiltered runs an optimizer whose budgets adapt, until the filter refuses
// a release or the steps that bound the run are made.
func (r *run) trainFiltered(ctx context.Context) error {
	p := r.plan
	const progress = 1000 // shares of the budget, or of the steps without noise
	if r.options.Progress != nil {
		r.options.Progress.Start(progress)
		defer r.options.Progress.Finish()
	}
	// A seeded run replays what its ledger already charges; any other finds it spent.
	if charged := r.ledger.Charged(); r.budget != nil && p.Config.Noise != noiseSeeded && charged > units(1-r.budget.Left()) {
		r.options.Log.Warn("an earlier process ended without saving; what it spent of the budget stays spent")
		r.budget.SpentBefore(float64(charged) / budgetUnits)
	}
	r.stopped = ctx.Err
	if p.Config.Noise == noiseSeeded {
		r.stopped = func() error { return nil } // it resumes exactly, which only whole steps do
	}
	for r.step < p.bound && ctx.Err() == nil {
		err := r.iterate()
		if err != nil && r.stopped() != nil {
			break // between two releases
		}
		if errors.Is(err, accountant.ErrBudget) {
			if r.step == 0 && r.searcher != nil {
				r.options.Log.Warn("the budget was spent on searches that failed before a first step was made; a larger --search-iterations divides it into more tries")
			}
			return r.save()
		}
		if err != nil {
			return fmt.Errorf("step %d: %w", r.step+1, err)
		}
		r.step++
		r.slot++
		r.ran++
		if p.evaluates(r.step) {
			if err := r.evaluate(nil); err != nil {
				return err
			}
		}
		if r.ran%r.checkpointEvery() == 0 {
			if err := r.save(); err != nil {
				return err
			}
		}
		if r.options.Progress != nil {
			done := progress * r.step / p.bound
			if r.budget != nil {
				done = int(progress * (1 - r.budget.Left()))
			}
			var accuracy *float64
			if r.last != nil {
				accuracy = r.last.TestAccuracy
			}
			r.options.Progress.Step(done, r.epsilonSoFar(0), accuracy)
		}
	}
	if err := r.save(); err != nil {
		return err
	}
	if r.step < p.bound {
		return fmt.Errorf("%w after %d steps and saved; continue with the same flags and --resume --out %s", ErrInterrupted, r.step, r.options.Out)
	}
	return nil
}

// checkpointEvery is how many steps a crash may lose; what they spent stays spent. The
// larger the state, the more, so that writing it takes a small part of the time.
func (r *run) checkpointEvery() int {
	const steps, values = 10, 4 << 20
	all := len(r.params)
	for _, s := range r.state {
		all += len(s)
	}
	return steps * (1 + all/values)
}

// epsilonSoFar is the ε of what was released: of the first n slots of a
// committed schedule, or of what a filter admitted.
func (r *run) epsilonSoFar(n int) *float64 {
	if r.budget != nil {
		return finite(r.budget.SoFar())
	}
	return r.plan.epsilonAt(n)
}
