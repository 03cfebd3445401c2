package charge

import (
	"math"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/internal/usage"
)

// Shares charges shares of a budget, from which a filter admits each release.
type Shares struct {
	Terms  Terms
	Budget accountant.Budget
	// Event is what is asked of one batch.
	Event func(asked ...accountant.Mechanism) accountant.Event

	at       position
	reserved int // units not yet settled, the first of them being
	first    int
	made     int // steps of this process
}

// Units is what the ledger of such a run counts: its slots are equal shares of the budget.
const Units = 1 << 40

// Ahead are the units that a crash may lose.
const Ahead = Units / 100

// used are the units that the releases have spent, rounded up.
func (c *Shares) used() int { return min(int(math.Ceil((1-c.Budget.Left())*Units)), Units) }

func (c *Shares) Slot() int      { return c.at.slot }
func (c *Shares) Update() int    { return c.at.step + 1 }
func (c *Shares) Left() float64  { return c.Budget.Left() }
func (c *Shares) Stopped() error { return c.Terms.Stop() }
func (c *Shares) More() bool     { return c.at.step < c.Terms.Most }
func (c *Shares) Begin() error   { return nil }

// Progress is in shares of the budget.
func (c *Shares) Progress() (done, of int) { return int(1000 * (1 - c.Budget.Left())), 1000 }

func (c *Shares) SoFar() *float64 { return new(c.Budget.SoFar()) }

func (c *Shares) Count() uint64 {
	c.at.draws++
	return c.at.draws
}

// Batch numbers what is drawn in the order of the questions.
func (c *Shares) Batch(_ dpoptim.Question, skip bool, dst []int32) ([]int32, uint64) {
	return c.at.draw(c.Terms.Sampler, skip, dst)
}

// Admit has a release admitted, and its price on the disk, before it is made.
func (c *Shares) Admit(asked ...accountant.Mechanism) error {
	if err := c.Terms.pause(); err != nil {
		return err
	}
	if len(asked) > 0 { // else the budget has been asked
		if err := c.Budget.Ask(c.Event(asked...)); err != nil {
			return err
		}
	}
	if used := max(c.used(), 1); used > c.Terms.Ledger.Charged() { // of any release something
		if err := c.settle(); err != nil {
			return err
		}
		// Ahead, since a sync to the disk takes longer than a step.
		first := c.Terms.Ledger.Charged()
		ahead := min(used-first+Ahead, Units-first)
		if _, err := c.Terms.Ledger.Reserve(ahead); err != nil {
			return err
		}
		c.reserved, c.first = ahead, first
	}
	return c.Terms.Release(c.at.slot)
}

func (c *Shares) End(updates int, _ dpoptim.Finisher) (bool, error) {
	c.at.slot += updates
	c.at.step += updates
	c.made++
	return c.made%c.Terms.SaveEvery() == 0, nil
}

// settle keeps of what is reserved what was spent.
func (c *Shares) settle() error {
	if c.reserved == 0 {
		return nil
	}
	used := min(max(c.used(), 1)-c.first, c.reserved)
	c.reserved = 0
	return c.Terms.Ledger.Settle(max(used, 0))
}

// Save settles before the checkpoint.
func (c *Shares) Save(write func() error) error {
	if err := c.settle(); err != nil {
		return err
	}
	return write()
}

func (c *Shares) Spent() dpoptim.Spent {
	s := dpoptim.Spent{Draws: c.at.draws, Spent: c.Budget.Spent()}
	if f, ok := c.Budget.(*accountant.Filter); ok {
		s.Order = f.Order()
	}
	return s
}

// Resume spends what the checkpoint tells of, and what the ledger charges. A seeded run replays the latter.
func (c *Shares) Resume(slot, step int, s dpoptim.Spent) (warning string, err error) {
	c.at = position{slot, step, s.Draws}
	begun := c.used() // the price of the count is spent in a new budget, before the ledger has it
	if f, ok := c.Budget.(*accountant.Filter); ok && f.Order() != s.Order {
		return "", usage.Errorf("%s: the checkpoint's budget was spent at order %v, this program spends at %v; go on with the program that began, or start a new run in another directory", c.Terms.Out, s.Order, f.Order())
	}
	if err := c.Budget.Restore(s.Spent); err != nil {
		return "", usage.Errorf("%s: the checkpoint's budget cannot be read: %w; restore the file, or start a new run in another directory", c.Terms.Out, err)
	}
	charged := c.Terms.Ledger.Charged()
	// A share that was read from a ledger is rounded up by less than a unit.
	if c.used() > max(begun, charged+1) {
		return "", c.Terms.errAhead()
	}
	if c.Terms.Seeded || charged <= c.used() {
		return "", nil
	}
	c.Budget.SpentBefore(float64(charged) / Units)
	return "an earlier process ended without saving; what it spent of the budget stays spent", nil
}
