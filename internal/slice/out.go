package slice

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/privgrad/privgrad/accountant/ledger"
	"github.com/privgrad/privgrad/internal/charge"
	"github.com/privgrad/privgrad/internal/durable"
	"github.com/privgrad/privgrad/internal/plan"
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/internal/written"
)

// An Outgoing is a slice that has gone out.
type Outgoing struct {
	Run       string `json:"run"`
	Folder    string `json:"folder"`
	Number    int    `json:"slice"`
	First     int    `json:"first_step"` // from 1
	Last      int    `json:"last_step"`
	Committed int    `json:"committed_schedule"`
	Charged   int    `json:"charged"` // steps of the run, with those of the slice
	// NotPrivate says why ε is no guarantee, if it is none.
	NotPrivate string `json:"not_private,omitempty"`
}

// Out charges the next slots of the run and writes a folder that may use them; folder "" is one beside the run. The run must have stopped.
func (h *Home) Out(slots int, folder string) (*Outgoing, error) {
	defer h.close()
	if err := h.open(); err != nil {
		return nil, err
	}
	if _, err := h.finish(); err != nil {
		return nil, err
	}
	if s := h.outside(); s != nil {
		return nil, h.errOut(s)
	}
	if err := h.sliceable(); err != nil {
		return nil, err
	}
	stored, err := h.dir.ReadStored()
	if err != nil {
		return nil, err
	}
	header, charged := h.ledger.Header(), h.ledger.Charged()
	left := header.Committed - charged
	switch {
	case stored.RunID != header.RunID || stored.Slot > charged:
		return nil, usage.Errorf("%s: checkpoint and ledger do not go together: restore the matching pair", h.Dir)
	case stored.Stopped != "":
		return nil, usage.Errorf("the run in %s has ended before it finished: %s", h.Dir, stored.Stopped)
	case left == 0:
		return nil, usage.Errorf("all %d steps of %s are charged: finish it by `privgrad resume %[2]s`", header.Committed, h.Dir)
	case slots < 1 || slots > left:
		return nil, usage.Errorf("slots %d: %s has %d steps left of %d; give a number of these", slots, h.Dir, left, header.Committed)
	}
	line := rundir.SliceLine{Event: rundir.SliceOut, Number: len(h.slices) + 1, First: charged, Slots: slots, Step: stored.Step}
	if line.Slice, err = newID(); err != nil {
		return nil, err
	}
	if line.State, err = h.dir.Digest(rundir.StateFile); err != nil {
		return nil, err
	}
	if folder == "" {
		folder = folderOf(h.Dir, line.Number)
	}
	if err := h.write(line, folder); err != nil {
		return nil, err
	}
	return &Outgoing{Run: h.Dir, Folder: folder, Number: line.Number, First: charged + 1, Last: charged + slots, Committed: header.Committed, Charged: charged + slots, NotPrivate: plan.Label(&h.config)}, nil
}

// sliceable refuses runs that are not paid for by slots of a schedule, and what must not leave home.
func (h *Home) sliceable() error {
	c := &h.config
	switch {
	case !c.Private() || c.NoiseMultiplier != nil && *c.NoiseMultiplier == 0:
		return usage.Errorf("%s is without noise, so nothing of it is charged: copy its directory to the other machine, resume it there, and copy it back", h.Dir)
	case c.Traits().Once:
		return usage.Errorf("optimizer %s makes its model in one go, which no slice can do a part of: train it on one machine", c.Optimizer)
	case h.ledger.Header().Committed == charge.Units:
		return usage.Errorf("optimizer %s of %s chooses its noise as it goes, so its steps cannot be charged in advance: move the whole directory, and resume it in one place alone", c.Optimizer, h.Dir)
	case c.Canaries > 0:
		return usage.Errorf("%s has canaries, whose coins no slice gets: train it on one machine, or without --canaries", h.Dir)
	case c.PrivateDiagnostics:
		return usage.Errorf("%s writes private diagnostics, which a slice would leave on the other machine: train without --private-diagnostics", h.Dir)
	}
	return nil
}

// write makes the folder. What is large is copied first, so that a full disk costs nothing; then the slots are charged, and only
// then there is a folder that may use them.
func (h *Home) write(line rundir.SliceLine, folder string) (err error) {
	place := written.Path(folder)
	if _, err := os.Lstat(place); err == nil {
		return usage.Errorf("to %s: it exists already: name a new folder", folder)
	}
	temp := filepath.Join(filepath.Dir(place), ".privgrad-slice-"+line.Slice)
	if err := os.Mkdir(temp, 0o755); err != nil {
		return usage.Errorf("to %s: the folder cannot be made (%w): name another", folder, usage.Cause(err))
	}
	defer func() {
		if err != nil {
			os.RemoveAll(temp)
		}
	}()
	in := rundir.Dir(temp)
	for _, step := range []struct {
		name  string
		write func() error
	}{
		{"copy", func() error { return h.dir.CopyState(in) }},
		{"measurement", func() error { return h.copyLast(in, line.Step) }},
		{"charge", func() error { _, err := h.ledger.Reserve(line.Slots); return err }},
		{"note", func() error { return h.dir.NoteSlice(rundir.Slices, line) }},
		{"ledger", func() error { return h.newLedger(in, line) }},
		{"slice", func() error { return in.NoteSlice(rundir.Slice, line) }},
		{"folder", func() error { return durable.Rename(temp, place) }},
	} {
		if err := h.do(step.name, step.write); err != nil {
			return h.late(line, err)
		}
	}
	return nil
}

// late says what an error leaves behind.
func (h *Home) late(line rundir.SliceLine, err error) error {
	if h.ledger.Charged() == line.First {
		return err
	}
	return fmt.Errorf("%w; %s of %s are charged and have no folder: give them up by `privgrad slice in %[3]s --lost`, or, if that finds no slice, go on", err, span(line), h.Dir)
}

// copyLast copies the last evaluation: figures of ε never fall from one to the next.
func (h *Home) copyLast(to rundir.Dir, step int) error {
	all, err := measurements(h.dir, step)
	if err != nil || len(all) == 0 {
		return err
	}
	return to.Write(rundir.Metrics, append(all[len(all)-1].line, '\n'))
}

// newLedger makes that of the folder: what came before is charged, and the slots of the slice are all that is left.
func (h *Home) newLedger(in rundir.Dir, line rundir.SliceLine) error {
	header := h.ledger.Header()
	header.Committed = line.First + line.Slots
	l, err := ledger.Open(in.Path(rundir.Ledger), header)
	if err != nil {
		return err
	}
	if line.First > 0 {
		if _, err = l.Reserve(line.First); err == nil {
			err = l.Settle(line.First)
		}
	}
	return errors.Join(err, l.Close())
}
