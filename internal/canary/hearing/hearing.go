// Package hearing is what a run does for its canaries: it draws their coins, puts them among the records, and keeps what releases have to do with
// them.
package hearing

import (
	"slices"

	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/internal/canary"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/engine"
	"github.com/privgrad/privgrad/internal/plan"
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/internal/snapshot"
	"github.com/privgrad/privgrad/internal/stream"
	"github.com/privgrad/privgrad/internal/tables"
	"github.com/privgrad/privgrad/internal/usage"
)

// A Hearing is of one run; nil where the run has no canaries.
type Hearing struct {
	canaries         *canary.Canaries
	heard            *canary.Heard
	params, released []float32 // of the network with canaries: those before the next step, and the last sum
	out              string
}

// Open puts the training records onto a device, and the canaries of the run behind them. A run that has begun reads the coins that it has drawn. One that
// has charged nothing yet draws them, whatever lies there: another run may have left it.
func Open(p *plan.Plan, d rundir.Dir, begun bool, r tables.Reader, on device.Device) (h *Hearing, records tables.Records, err error) {
	if k := p.Config.Canaries; k > 0 {
		toss := tossed
		if begun {
			toss = kept
		}
		coins, err := toss(p, d)
		if err != nil {
			return nil, records, err
		}
		c := p.Canaries(coins)
		r.Canaries = &tables.Canaries{Columns: k, Record: c.Record, Value: float32(c.Value), Targets: c.Targets()}
		h = &Hearing{canaries: c, out: string(d)}
	}
	records, err = r.Records(on, p.Set.Train)
	return h, records, err
}

// tossed are new coins, which are on the disk.
func tossed(p *plan.Plan, d rundir.Dir) ([]bool, error) {
	key, err := stream.NewKey()
	if err != nil {
		return nil, err
	}
	if p.Config.Noise == dpoptim.Seeded {
		key = stream.KeyFromSeed(p.Config.Seed, "canaries")
	}
	coins, err := canary.Toss(key, p.Config.Canaries)
	if err != nil {
		return nil, err
	}
	return coins, d.KeepCoins(coins)
}

// kept are the coins of a run that has begun.
func kept(p *plan.Plan, d rundir.Dir) ([]bool, error) {
	coins, err := d.ReadCoins(p.Config.Canaries)
	if err == nil && coins == nil {
		err = usage.Errorf("%s is gone, which says which canaries take part in the run: restore it, or start a new run in another directory", d.CoinsPath())
	}
	return coins, err
}

// Partaking is how many canaries are among the records.
func (h *Hearing) Partaking() (n int64) {
	if h == nil {
		return 0
	}
	for _, partakes := range h.canaries.Coins {
		if partakes {
			n++
		}
	}
	return n
}

// Begin goes on from a checkpoint, nil for none, and from its parameters.
func (h *Hearing) Begin(from *rundir.Checkpoint, params []float32) error {
	if h == nil {
		return nil
	}
	n := len(h.canaries.Coins)
	if h.heard = canary.Silence(n); from != nil {
		h.heard = canary.Read(from.Heard, n)
	}
	if h.heard == nil {
		return snapshot.Foreign(h.out)
	}
	h.params, h.released = slices.Clone(params), make([]float32, len(params))
	return nil
}

// Hear takes in the last step. Then it puts the parameters of the canaries' own inputs back to zero, at which they began: what was released about them is
// heard, and not learned from. So a canary's outputs are those of the network, and its gradient does not fall as the canary is learned.
func (h *Hearing) Hear(e *engine.Engine) error {
	if h == nil {
		return nil
	}
	if err := e.Released(h.released); err != nil {
		return err
	}
	h.canaries.Hear(h.heard, h.params, h.released)
	if err := e.ReadParams(h.params); err != nil {
		return err
	}
	clear(h.params[h.canaries.Network.NumParams():])
	return e.SetParams(h.params)
}

// Bytes are what was heard, for a checkpoint; nil where nothing is.
func (h *Hearing) Bytes() []byte {
	if h == nil {
		return nil
	}
	return h.heard.Bytes()
}
