// Package charge has the releases of a run paid for on disk before they are made. It knows where the run stands, and
// how long it goes on.
package charge

import (
	"errors"

	"github.com/privgrad/privgrad/accountant/ledger"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/dpoptim/batches"
	"github.com/privgrad/privgrad/internal/engine"
	"github.com/privgrad/privgrad/internal/usage"
)

// A Charge pays for the steps of a run: by the Slots of a schedule, or by Shares of a budget. A run that owes nothing is
// Free.
type Charge interface {
	engine.Supply
	More() bool // whether a step is left
	// Begin is called before a step and End behind it, with the updates that it made. A Finisher may end the schedule; it
	// may be nil. End says whether to save now.
	Begin() error
	End(updates int, f dpoptim.Finisher) (save bool, err error)
	// Save has a checkpoint written, and settles what was reserved.
	Save(write func() error) error
	// Resume goes on from a checkpoint. It gives up what an earlier process charged and did not save, and says so.
	Resume(slot, step int, spent dpoptim.Spent) (warning string, err error)
	Spent() dpoptim.Spent
	// Count is the noise position of the count before the first step.
	Count() uint64
	// SoFar is the ε that a budget has spent; nil where ε follows from the slots.
	SoFar() *float64
	Progress() (done, of int)
}

// position is where a run stands.
type position struct {
	slot  int    // of the schedule, used or lost; updates where there is no schedule
	step  int    // updates that were made
	draws uint64 // batches and noise positions taken, where they are numbered in the order of the questions
}

// left is the share of so many steps that is left behind the next one.
func (p position) left(steps int) float64 { return 1 - float64(p.step+1)/float64(steps) }

// draw takes a noise position, and a batch where one is drawn.
func (p *position) draw(s batches.Sampler, skip bool, dst []int32) ([]int32, uint64) {
	if !skip {
		dst = s.Batch(p.draws, dst)
	}
	p.draws++
	return dst, p.draws
}

// Terms are what a charge has of its run.
type Terms struct {
	Out     string // the run's directory, for messages
	Ledger  *ledger.Ledger
	Sampler batches.Sampler
	Steps   int  // of the schedule
	Most    int  // steps where nothing is committed to
	Seeded  bool // noise is the same when a step is made again, so that one that was charged may be
	// Stop says why the run is to end now; nil: it goes on.
	Stop func() error
	// Release is told of the slot before noise is drawn.
	Release func(slot int) error
	// SaveEvery is how many steps may be lost to a crash, where no block of slots says so.
	SaveEvery func() int
}

// ErrStopped ends a step of a run that is to end between two releases.
var ErrStopped = errors.New("stopped between two releases")

// pause is ErrStopped where the run is to end. A seeded run resumes exactly, which only whole steps do.
func (t *Terms) pause() error {
	if !t.Seeded && t.Stop() != nil {
		return ErrStopped
	}
	return nil
}

// errAhead is for a checkpoint of more than the ledger has charged.
func (t *Terms) errAhead() error {
	return usage.Errorf("cannot resume %s: its ledger is older than its checkpoint, so the budget spent is unknown; restore the matching ledger.db, or start a new run with another --out", t.Out)
}
