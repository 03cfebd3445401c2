package charge

import (
	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim"
)

// Free charges nothing, for runs without noise.
type Free struct {
	Terms Terms
	Once  bool // the model is made in one go, and a process that died begins again

	at   position
	made int // steps of this process
}

func (c *Free) Slot() int            { return c.at.slot }
func (c *Free) Update() int          { return c.at.step + 1 }
func (c *Free) Left() float64        { return c.at.left(c.Terms.Steps) }
func (c *Free) Stopped() error       { return c.Terms.Stop() }
func (c *Free) Begin() error         { return nil }
func (c *Free) Count() uint64        { return 0 } // there is none
func (c *Free) SoFar() *float64      { return nil }
func (c *Free) Spent() dpoptim.Spent { return dpoptim.Spent{Draws: c.at.draws} }

func (c *Free) Save(write func() error) error { return write() }

func (c *Free) More() bool {
	if c.Once {
		return c.made == 0 && c.at.step == 0
	}
	return c.at.step < c.Terms.Most
}

func (c *Free) Progress() (done, of int) {
	of = 1000
	if c.Once {
		of = 1
	}
	return of * c.at.step / c.Terms.Most, of
}

// Batch numbers what is drawn in the order of the questions.
func (c *Free) Batch(_ dpoptim.Question, skip bool, dst []int32) ([]int32, uint64) {
	return c.at.draw(c.Terms.Sampler, skip, dst)
}

// Admit also stops a method that makes its model in one go and does not ask for itself.
func (c *Free) Admit(...accountant.Mechanism) error {
	if c.Once {
		return c.Stopped()
	}
	if err := c.Terms.pause(); err != nil {
		return err
	}
	return c.Terms.Release(c.at.slot)
}

func (c *Free) End(updates int, _ dpoptim.Finisher) (bool, error) {
	if c.at.step += updates; !c.Once {
		c.at.slot += updates
	}
	c.made++
	return c.Once || c.made%c.Terms.SaveEvery() == 0, nil
}

func (c *Free) Resume(slot, step int, s dpoptim.Spent) (string, error) {
	c.at = position{slot, step, s.Draws}
	return "", nil
}
