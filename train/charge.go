package train

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/dpoptim/batches"
	"github.com/privgrad/privgrad/internal/engine"
	"github.com/privgrad/privgrad/internal/price"
	"github.com/privgrad/privgrad/internal/usage"
)

// A charge has a run's releases paid for on disk before they are made, and says how
// long the run goes on.
type charge interface {
	engine.Supply
	more() bool
	paused() bool // between two steps
	// counting is the noise position of the count before the first step.
	counting() uint64
	// begin is called before a step, end behind it, with the updates that it made; it
	// says whether to save now.
	begin() error
	end(updates int) (save bool, err error)
	// saving and saved are called around the writing of a checkpoint.
	saving() error
	saved() error
	// progress is how far the run is, of total.
	progress() (done int, epsilon *float64)
	total() int
	// epsilon is that of what was released, or of the first slots of a schedule.
	epsilon(slots int) *float64
	evaluates() bool // whether an evaluation follows the last step
	interrupted() error
	spent() dpoptim.Spent
	restore(dpoptim.Spent) error
	// writeOff gives up what an earlier process charged and did not save, and says so.
	writeOff() (warning string)
}

// charge is the run's, by what its method declares.
func (r *run) newCharge(ctx context.Context) (charge, error) {
	common := position{r, ctx}
	switch {
	case r.plan.Declaration.Budget.Filtered():
		c := &filtered{position: common}
		if r.plan.Sigma == 0 {
			return c, nil
		}
		var err error
		c.budget, err = r.plan.NewBudget()
		return c, err
	case r.plan.Method.Traits().Once && !r.plan.Config.Private():
		return &uncharged{filtered: filtered{position: common}}, nil
	}
	if r.plan.Method.Traits().Once {
		return &single{committed{position: common}}, nil
	}
	return &committed{position: common}, nil
}

// position is where a run stands.
type position struct {
	run *run
	ctx context.Context
}

// Slot is the step's place in the schedule, Update the number of the update to come.
func (p position) Slot() int   { return p.run.slot }
func (p position) Update() int { return p.run.step + 1 }

// Stopped is ErrInterrupted once the run is to stop.
func (p position) Stopped() error {
	if p.run.stopping(p.ctx) {
		return ErrInterrupted
	}
	return nil
}

func (p position) paused() bool { return p.run.stopping(p.ctx) }

// releases says that noise is about to be drawn, for tests.
func (p position) releases() error {
	if p.run.options.onRelease == nil {
		return nil
	}
	return p.run.options.onRelease(p.run.slot)
}

// Left is the share of the steps that is left.
func (p position) Left() float64 {
	return 1 - float64(p.run.step+1)/float64(p.run.plan.Steps)
}

// committed charges the slots of a schedule of which every release is planned, in blocks that
// the ledger reserves first and settles after the checkpoint.
type committed struct {
	position
	first, last int // slots of the block
	reserved    bool
}

func (c *committed) more() bool { return c.run.slot < c.run.plan.Steps }

// begin reserves a block, where the last one is done. A seeded run replays what its
// ledger already charges.
func (c *committed) begin() error {
	r := c.run
	if r.slot < c.last {
		return nil
	}
	n := min(r.block(), r.plan.Steps-r.slot)
	c.reserved = false
	if lost := r.ledger.Charged() - r.slot; lost > 0 {
		n = min(n, lost)
	} else {
		first, err := r.ledger.Reserve(n)
		if err != nil {
			return err
		}
		if first != r.slot {
			return fmt.Errorf("the ledger reserved from slot %d, the run stands at %d; resume the run", first, r.slot)
		}
		c.reserved = true
	}
	c.first, c.last = r.slot, r.slot+n
	return nil
}

func (r *run) block() int {
	if r.options.block > 0 {
		return r.options.block
	}
	return r.plan.Block
}

func (c *committed) end(updates int) (bool, error) {
	c.run.slot++
	c.run.step += updates
	if f, ok := c.run.engine.Steps.(dpoptim.Finisher); ok && f.Finished() {
		return true, c.rest()
	}
	return c.run.slot == c.last, nil
}

// rest charges what a method leaves of the schedule.
func (c *committed) rest() (err error) {
	r := c.run
	if c.reserved {
		err = r.ledger.Settle(c.last - c.first)
	}
	c.first, c.last, r.slot = r.ledger.Charged(), r.plan.Steps, r.plan.Steps
	if c.reserved = err == nil && c.first < c.last; c.reserved {
		_, err = r.ledger.Reserve(c.last - c.first)
	}
	return err
}

func (c *committed) saving() error { return nil }

// saved settles the block, and takes steps back that were not made.
func (c *committed) saved() error {
	if !c.reserved {
		return nil
	}
	c.reserved, c.last = false, c.run.slot
	return c.run.ledger.Settle(c.run.slot - c.first)
}

func (c *committed) counting() uint64 { return 1 }

// Batch numbers what is drawn by its slot; noise positions count from 1, or behind the count.
func (c *committed) Batch(q dpoptim.Question, skip bool, dst []int32) ([]int32, uint64) {
	n := batches.Position(c.run.slot, q.Turn())
	draw := n + 1
	if c.run.plan.Count != nil {
		draw++
	}
	if skip {
		return dst, draw
	}
	return c.run.sampler.Batch(n, dst), draw
}

// Admit has nothing to charge: the slot was.
func (c *committed) Admit(...accountant.Mechanism) error { return c.releases() }

// progress has ε as of the last evaluation: accounting for every step would take longer than the steps.
func (c *committed) progress() (int, *float64) {
	if last := c.run.last; last != nil {
		return c.run.slot, last.EpsilonSoFar
	}
	return c.run.slot, nil
}

func (c *committed) total() int                 { return c.run.plan.Steps }
func (c *committed) epsilon(slots int) *float64 { return c.run.plan.EpsilonAt(slots) }
func (c *committed) evaluates() bool            { return c.run.plan.Evaluates(c.run.slot) }

func (c *committed) interrupted() error {
	return fmt.Errorf("%w after %d of %d steps and saved; continue by %s", ErrInterrupted, c.run.step, c.run.plan.Steps, c.run.goOn())
}

func (c *committed) spent() dpoptim.Spent        { return dpoptim.Spent{} }
func (c *committed) restore(dpoptim.Spent) error { return nil }

func (c *committed) writeOff() string {
	r, charged := c.run, c.run.ledger.Charged()
	if r.slot >= charged || r.plan.Config.Noise == dpoptim.Seeded {
		return ""
	}
	// Fresh noise goes on in fresh slots.
	lost := charged - r.slot
	r.slot = charged
	return fmt.Sprintf("an earlier process ended without saving; %d charged steps of the schedule are lost and fewer updates will run", lost)
}

// single charges the one release of a method that makes no more, when it has what it
// will release: a process that died before begins again.
type single struct{ committed }

func (c *single) begin() error { return nil }

// Admit has the release on the disk before its noise exists.
func (c *single) Admit(...accountant.Mechanism) error {
	if err := c.Stopped(); err != nil {
		return err
	}
	if err := c.committed.begin(); err != nil {
		return err
	}
	return c.releases()
}

// Stopped ends a method that works for long.
func (c *single) Stopped() error {
	if c.ctx.Err() != nil {
		return fmt.Errorf("%w before the release; nothing was charged, and nothing is kept of the work: begin again by %s", ErrInterrupted, c.run.goOn())
	}
	return nil
}

// filtered charges shares of a budget, from which a filter admits each release.
type filtered struct {
	position
	budget   accountant.Budget // nil without noise
	draws    uint64            // batches and noise positions taken
	reserved int               // units not yet settled, the first of them being
	first    int
	made     int // steps of this process
}

// budgetUnits is what the ledger of such a run counts: its slots are equal
// shares of the budget.
const budgetUnits = 1 << 40

// units are a share of the budget as the ledger counts it, rounded up.
func units(share float64) int { return min(int(math.Ceil(share*budgetUnits)), budgetUnits) }

// reservedShare of the budget is what a crash may lose.
const reservedShare = 100

func (c *filtered) more() bool   { return c.run.step < c.run.plan.MostSteps }
func (c *filtered) begin() error { return nil }

func (c *filtered) end(updates int) (bool, error) {
	c.run.slot += updates
	c.run.step += updates
	c.made++
	return c.made%c.run.checkpointEvery() == 0, nil
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

// saving keeps of what is reserved what was spent.
func (c *filtered) saving() error {
	if c.reserved == 0 {
		return nil
	}
	used := min(max(c.used()-c.first, 0), c.reserved)
	c.reserved = 0
	return c.run.ledger.Settle(used)
}

func (c *filtered) saved() error { return nil }

// used is what the releases have spent, as the ledger counts it: of any release something.
func (c *filtered) used() int { return max(units(1-c.budget.Left()), 1) }

func (c *filtered) counting() uint64 {
	c.draws++
	return c.draws
}

// Batch numbers what is drawn in the order of the questions.
func (c *filtered) Batch(_ dpoptim.Question, skip bool, dst []int32) ([]int32, uint64) {
	c.draws++
	if skip {
		return dst, c.draws
	}
	return c.run.sampler.Batch(c.draws-1, dst), c.draws
}

// errStopped ends a step of a run that was interrupted between two releases.
var errStopped = errors.New("stopped between two releases")

// Admit has a release admitted, and its price on the disk, before it is made. A seeded run
// resumes exactly, which only whole steps do.
func (c *filtered) Admit(asked ...accountant.Mechanism) error {
	if c.run.plan.Config.Noise != dpoptim.Seeded && c.run.stopping(c.ctx) {
		return errStopped
	}
	if c.budget != nil {
		if len(asked) > 0 { // else the budget has been asked
			if err := c.budget.Ask(c.run.plan.BatchEvent(asked...)); err != nil {
				return err
			}
		}
		if used := c.used(); used > c.run.ledger.Charged() {
			if err := c.saving(); err != nil {
				return err
			}
			// Ahead, since a sync to the disk takes longer than a step.
			first := c.run.ledger.Charged()
			ahead := min(used-first+budgetUnits/reservedShare, budgetUnits-first)
			if _, err := c.run.ledger.Reserve(ahead); err != nil {
				return err
			}
			c.reserved, c.first = ahead, first
		}
	}
	return c.releases()
}

// Left is the share of the budget that is left; of the steps, without noise.
func (c *filtered) Left() float64 {
	if c.budget == nil {
		return c.position.Left()
	}
	return c.budget.Left()
}

func (c *filtered) progress() (int, *float64) {
	done := c.total() * c.run.step / c.run.plan.MostSteps
	if c.budget != nil {
		done = int(float64(c.total()) * (1 - c.budget.Left()))
	}
	return done, c.epsilon(0)
}

// total is in shares of the budget, or of the steps without noise.
func (c *filtered) total() int { return 1000 }

func (c *filtered) epsilon(slots int) *float64 {
	if c.budget != nil {
		return price.Finite(c.budget.SoFar())
	}
	return c.run.plan.EpsilonAt(slots)
}

func (c *filtered) evaluates() bool { return c.run.plan.Evaluates(c.run.step) }

func (c *filtered) interrupted() error {
	return fmt.Errorf("%w after %d steps and saved; continue by %s", ErrInterrupted, c.run.step, c.run.goOn())
}

func (c *filtered) spent() dpoptim.Spent {
	s := dpoptim.Spent{Draws: c.draws}
	if c.budget != nil {
		s.Spent = c.budget.Spent()
	}
	if f, ok := c.budget.(*accountant.Filter); ok {
		s.Order = f.Order()
	}
	return s
}

// restore spends what a checkpoint tells of.
func (c *filtered) restore(s dpoptim.Spent) error {
	c.draws = s.Draws
	if c.budget == nil {
		return nil
	}
	out := c.run.options.Out
	begun := units(1 - c.budget.Left()) // the price of the count is spent in a new budget, before the ledger has it
	if f, ok := c.budget.(*accountant.Filter); ok && f.Order() != s.Order {
		return usage.Errorf("%s: the checkpoint's budget was spent at order %v, this program spends at %v; go on with the program that began, or start a new run in another directory", out, s.Order, f.Order())
	}
	if err := c.budget.Restore(s.Spent); err != nil {
		return usage.Errorf("%s: the checkpoint's budget cannot be read: %w; restore the file, or start a new run in another directory", out, err)
	}
	// A share that was read from a ledger is rounded up by less than a unit.
	if units(1-c.budget.Left()) > max(begun, c.run.ledger.Charged()+1) {
		return errAhead(out)
	}
	return nil
}

// errAhead is for a checkpoint of more than the ledger has charged.
func errAhead(out string) error {
	return usage.Errorf("cannot resume %s: its ledger is older than its checkpoint, so the budget spent is unknown; restore the matching ledger.db, or start a new run with another --out", out)
}

// lost spends what the ledger charges; a seeded run replays it.
func (c *filtered) writeOff() string {
	charged := c.run.ledger.Charged()
	if c.budget == nil || c.run.plan.Config.Noise == dpoptim.Seeded || charged <= units(1-c.budget.Left()) {
		return ""
	}
	c.budget.SpentBefore(float64(charged) / budgetUnits)
	return "an earlier process ended without saving; what it spent of the budget stays spent"
}

// uncharged is for a method without privacy that makes its model in one go: a process that
// died begins again.
type uncharged struct {
	filtered
	done bool
}

// paused is what Stopped says in the middle of the work.
func (c *uncharged) paused() bool { return false }

func (c *uncharged) more() bool { return !c.done && c.run.step == 0 && c.run.slot == 0 }

func (c *uncharged) end(updates int) (bool, error) {
	c.run.step, c.done = updates, true
	return true, nil
}

// Admit stops a method that does not ask for itself.
func (c *uncharged) Admit(...accountant.Mechanism) error { return c.Stopped() }

func (c *uncharged) total() int      { return 1 }
func (c *uncharged) evaluates() bool { return false }
