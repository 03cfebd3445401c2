package charge

import (
	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim"
)

// Free charges nothing, for runs without noise.
type Free struct {
	Terms Terms
	Once  bool // the model is made in one go, and a process that died begins again

	at   Position
	made int // steps of this process
}

func (c *Free) At() Position         { return c.at }
func (c *Free) Slot() int            { return c.at.Slot }
func (c *Free) Update() int          { return c.at.update() }
func (c *Free) Left() float64        { return c.at.left(c.Terms.Steps) }
func (c *Free) Stopped() error       { return c.Terms.Stop() }
func (c *Free) Begin() error         { return nil }
func (c *Free) Count() uint64        { return 0 } // there is none
func (c *Free) SoFar() *float64      { return nil }
func (c *Free) Spent() dpoptim.Spent { return dpoptim.Spent{Draws: c.at.Draws} }

func (c *Free) Save(write func() error) error { return write() }

func (c *Free) More() bool {
	if c.Once {
		return c.made == 0 && c.at.Step == 0
	}
	return c.at.Step < c.Terms.Most
}

func (c *Free) Progress() (done, of int) {
	of = 1000
	if c.Once {
		of = 1
	}
	return of * c.at.Step / c.Terms.Most, of
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
	return c.Terms.Release(c.at.Slot)
}

func (c *Free) End(updates int, _ bool) (bool, error) {
	if c.at.Step += updates; !c.Once {
		c.at.Slot += updates
	}
	c.made++
	return c.Once || c.made%c.Terms.SaveEvery() == 0, nil
}

func (c *Free) Resume(at Position, s dpoptim.Spent) (string, error) {
	c.at = Position{at.Slot, at.Step, s.Draws}
	return "", nil
}
