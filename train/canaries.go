package train

import (
	"slices"

	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/internal/canary"
	"github.com/privgrad/privgrad/internal/engine"
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/internal/snapshot"
	"github.com/privgrad/privgrad/internal/stream"
	"github.com/privgrad/privgrad/internal/tables"
	"github.com/privgrad/privgrad/internal/usage"
)

// canaries are made-up records of the run, and what its releases have to do with them; nil: there are none.
type canaries struct {
	*canary.Canaries
	heard            canary.Products
	params, released []float32 // of the network with canaries: those before the next step, and the last sum
	out              string
}

// openCanaries draws coins, or reads those that an earlier process has drawn.
func (r *run) openCanaries() (*canaries, error) {
	p := r.plan
	k := p.Config.Canaries
	if k == 0 {
		return nil, nil
	}
	coins, err := r.dir().Coins(k, func() ([]bool, error) {
		if r.ledger.Charged() > 0 {
			return nil, usage.Errorf("%s is gone, which says which canaries take part in the run: restore it, or start a new run in another directory", r.dir().CoinsPath())
		}
		key, err := stream.NewKey()
		if p.Config.Noise == dpoptim.Seeded {
			key = stream.KeyFromSeed(p.Config.Seed, "canaries")
		}
		if err != nil {
			return nil, err
		}
		return canary.Toss(key, k)
	})
	return &canaries{Canaries: p.Canaries(coins), out: r.options.Out}, err
}

// join has a reader add the canaries to the records that are trained on.
func (c *canaries) join(r tables.Reader) tables.Reader {
	if c != nil {
		r.Canaries = &tables.Canaries{Columns: len(c.Coins), Value: float32(c.Value), Targets: c.Targets()}
	}
	return r
}

// partaking is how many of them are among the records.
func (c *canaries) partaking() (n int64) {
	for i := 0; c != nil && i < len(c.Coins); i++ {
		if c.Coins[i] {
			n++
		}
	}
	return n
}

// begin goes on from a checkpoint, nil for none, and from its parameters.
func (c *canaries) begin(from *rundir.Checkpoint, params []float32) error {
	if c == nil {
		return nil
	}
	if c.heard = make(canary.Products, len(c.Coins)); from != nil {
		c.heard = canary.Read(from.Heard, len(c.Coins))
	}
	if c.heard == nil {
		return snapshot.Foreign(c.out)
	}
	c.params, c.released = slices.Clone(params), make([]float32, len(params))
	return nil
}

// hear takes in the last step.
func (c *canaries) hear(e *engine.Engine) error {
	if c == nil {
		return nil
	}
	if err := e.Released(c.released); err != nil {
		return err
	}
	c.Hear(c.heard, c.params, c.released)
	return e.ReadParams(c.params)
}
