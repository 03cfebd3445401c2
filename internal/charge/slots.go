package charge

import (
	"fmt"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/dpoptim/batches"
)

// Slots charges a schedule of which every release is planned, in blocks that the ledger reserves first and settles after
// the checkpoint.
type Slots struct {
	Terms Terms
	Block int    // slots that are reserved at a time
	First uint64 // noise position of the first step, which is behind the count
	Until int    // the slot at which this process stops: that behind the schedule, or behind a slice of it
	// Late charges when the release is ready to be made, for a method that makes one: a process that died before begins again.
	Late bool

	at          position
	first, last int // slots of the block
	reserved    bool
}

func (c *Slots) Slot() int       { return c.at.slot }
func (c *Slots) Update() int     { return c.at.step + 1 }
func (c *Slots) Left() float64   { return c.at.left(c.Terms.Steps) }
func (c *Slots) Stopped() error  { return c.Terms.Stop() }
func (c *Slots) More() bool      { return c.at.slot < c.Until }
func (c *Slots) Count() uint64   { return 1 }
func (c *Slots) SoFar() *float64 { return nil }

func (c *Slots) Progress() (done, of int) { return c.at.slot, c.Until }

func (c *Slots) Begin() error {
	if c.Late {
		return nil
	}
	return c.reserve()
}

// reserve reserves a block where the last one is done. A seeded run replays what its ledger already charges.
func (c *Slots) reserve() error {
	at := c.at.slot
	if at < c.last {
		return nil
	}
	n := min(c.Block, c.Until-at)
	c.reserved = false
	if lost := c.Terms.Ledger.Charged() - at; lost > 0 {
		n = min(n, lost)
	} else {
		first, err := c.Terms.Ledger.Reserve(n)
		if err != nil {
			return err
		}
		if first != at {
			return fmt.Errorf("the ledger reserved from slot %d, the run stands at %d; resume the run", first, at)
		}
		c.reserved = true
	}
	c.first, c.last = at, at+n
	return nil
}

// Batch numbers what is drawn by its slot.
func (c *Slots) Batch(q dpoptim.Question, skip bool, dst []int32) ([]int32, uint64) {
	n := batches.Position(c.at.slot, q.Turn())
	if !skip {
		dst = c.Terms.Sampler.Batch(n, dst)
	}
	return dst, n + c.First
}

// Admit has nothing to charge where the slot was charged.
func (c *Slots) Admit(...accountant.Mechanism) error {
	if c.Late {
		if err := c.Stopped(); err != nil {
			return err
		}
		if err := c.reserve(); err != nil {
			return err
		}
	}
	return c.Terms.Release(c.at.slot)
}

func (c *Slots) End(updates int, f dpoptim.Finisher) (bool, error) {
	c.at.slot++
	c.at.step += updates
	if f != nil && f.Finished() {
		return true, c.rest()
	}
	return c.at.slot == c.last, nil
}

// rest charges what a method leaves of the schedule.
func (c *Slots) rest() (err error) {
	l := c.Terms.Ledger
	if c.reserved {
		err = l.Settle(c.last - c.first)
	}
	c.first, c.last, c.at.slot = l.Charged(), c.Until, c.Until
	if c.reserved = err == nil && c.first < c.last; c.reserved {
		_, err = l.Reserve(c.last - c.first)
	}
	return err
}

// Save settles the block after the checkpoint, and takes steps back that were not made.
func (c *Slots) Save(write func() error) error {
	if err := write(); err != nil || !c.reserved {
		return err
	}
	c.reserved, c.last = false, c.at.slot
	return c.Terms.Ledger.Settle(c.at.slot - c.first)
}

func (c *Slots) Spent() dpoptim.Spent { return dpoptim.Spent{} }

// Resume goes on in fresh slots where noise is fresh.
func (c *Slots) Resume(slot, step int, _ dpoptim.Spent) (warning string, err error) {
	charged := c.Terms.Ledger.Charged()
	if slot > charged {
		return "", c.Terms.errAhead()
	}
	c.at = position{slot: slot, step: step}
	lost := charged - slot
	if lost == 0 || c.Terms.Seeded {
		return "", nil
	}
	c.at.slot = charged
	return fmt.Sprintf("an earlier process ended without saving; %d charged steps of the schedule are lost and fewer updates will run", lost), nil
}
