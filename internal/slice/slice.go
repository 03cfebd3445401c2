// Package slice lends a part of a run's schedule to another machine, and takes back what became of it.
//
// The ledger of the run charges the slots of a slice before its folder exists, and they stay charged whatever comes back:
// only a folder that says that it has ended, so that no process goes on from it, gives back those that it did not use. A folder
// has a ledger of its own that admits its slots alone, and starts once. A run goes on when its slice was taken in
// or is lost, and takes in each slice once. What no file can show is that a folder was copied before it was
// started: then the copy's noise is charged for nowhere.
package slice

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"path/filepath"

	"github.com/privgrad/privgrad/accountant/ledger"
	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/internal/usage"
)

// A Slice is some slots of a run's schedule, [First, First+Slots).
type Slice struct {
	rundir.SliceLine        // with which it went out
	last             string // the last event
	taking           *rundir.SliceLine
}

func (s *Slice) out() bool { return s.last == rundir.SliceOut || s.last == rundir.SliceTaking }

// span names the steps of a slice as people count them.
func span(l rundir.SliceLine) string {
	return fmt.Sprintf("steps %d to %d", l.First+1, l.First+l.Slots)
}

// fold gives the slices of a run, in the order in which they went out.
func fold(lines []rundir.SliceLine) (all []*Slice) {
	byID := map[string]*Slice{}
	for _, l := range lines {
		s := byID[l.Slice]
		if l.Event == rundir.SliceOut {
			s = &Slice{SliceLine: l}
			byID[l.Slice] = s
			all = append(all, s)
		}
		if s == nil {
			continue
		}
		if s.last = l.Event; l.Event == rundir.SliceTaking {
			s.taking = &l
		}
	}
	return all
}

// A Home is a run that slices go out of and come back to. Its methods hold the lock of its ledger.
type Home struct {
	Dir string
	// Point is called before each thing that is written, with its name; an error ends the work there, as a crash would. It is for
	// tests; nil: none.
	Point func(name string) error

	dir    rundir.Dir
	config config.Config
	ledger *ledger.Ledger
	slices []*Slice
}

// do writes one thing.
func (h *Home) do(name string, write func() error) error {
	if h.Point != nil {
		if err := h.Point(name); err != nil {
			return err
		}
	}
	return write()
}

// open reads the run and locks it.
func (h *Home) open() error {
	h.dir = rundir.Dir(h.Dir)
	switch {
	case h.dir.IsSlice():
		return usage.Errorf("%s is itself a slice: name the run that it was made of", h.Dir)
	case !h.dir.Has(rundir.Config) || !h.dir.Has(rundir.Ledger):
		return usage.Errorf("%s holds no run to slice: it has no %s or no %s; begin a run by `privgrad train --out`, and interrupt it", h.Dir, rundir.Config, rundir.Ledger)
	case h.dir.IsFile(rundir.Result):
		return usage.Errorf("the run in %s has finished: there is no step left for a slice", h.Dir)
	}
	if err := config.Read(h.dir.Path(rundir.Config), &h.config); err != nil {
		return err
	}
	path := h.dir.Path(rundir.Ledger)
	_, header, err := ledger.Read(path)
	if err == nil {
		h.ledger, err = ledger.Open(path, header)
	}
	if err != nil {
		return usage.Wrap(err)
	}
	return h.read()
}

func (h *Home) read() error {
	lines, err := h.dir.SliceLines(rundir.Slices)
	h.slices = fold(lines)
	return err
}

func (h *Home) close() {
	if h.ledger != nil {
		h.ledger.Close()
	}
}

// outside is the slice that is out; nil where none is.
func (h *Home) outside() *Slice {
	if n := len(h.slices); n > 0 && h.slices[n-1].out() {
		return h.slices[n-1]
	}
	return nil
}

// finish ends a taking that has come as far as the checkpoint: from then on the slice is in. It gives the slice, nil where there
// was nothing to end.
func (h *Home) finish() (*Slice, error) {
	s := h.outside()
	if s == nil || s.taking == nil {
		return nil, nil
	}
	digest, err := h.dir.Digest(rundir.StateFile)
	if err != nil || digest != s.taking.State {
		return nil, err
	}
	stored, err := h.dir.ReadStored()
	if err != nil {
		return nil, err
	}
	if err := h.do("model", func() error { return h.dir.Remodel(stored) }); err != nil {
		return nil, err
	}
	if used := s.taking.Used; used != nil && h.ledger.Adopt(s.First, s.Slots) {
		if err := h.do("settle", func() error { return h.ledger.Settle(*used) }); err != nil {
			return nil, err
		}
	}
	if err := h.note(rundir.SliceLine{Slice: s.Slice, Event: rundir.SliceIn}); err != nil {
		return nil, err
	}
	return s, h.read()
}

func (h *Home) note(l rundir.SliceLine) error {
	return h.do("note "+l.Event, func() error { return h.dir.NoteSlice(rundir.Slices, l) })
}

// errOut refuses to do anything else with a run while a slice of it is out.
func (h *Home) errOut(s *Slice) error {
	return usage.Errorf("slice %d of %s, %s, is out: take it back by `privgrad slice in %[2]s FOLDER`, or, if it never comes back, give it up by "+
		"`privgrad slice in %[2]s --lost`: its steps then stay charged, and the run makes that many fewer", s.Number, h.Dir, span(s.SliceLine))
}

// GoOn lets a run go on whose ledger is open: not while a slice is out. Where a crash came between, it ends the taking of one.
func GoOn(dir string, l *ledger.Ledger) error {
	if d := rundir.Dir(dir); d.IsSlice() || !d.Has(rundir.Slices) {
		return nil
	}
	h := &Home{Dir: dir, dir: rundir.Dir(dir), ledger: l}
	if err := h.read(); err != nil {
		return err
	}
	if _, err := h.finish(); err != nil {
		return err
	}
	if s := h.outside(); s != nil {
		return h.errOut(s)
	}
	return nil
}

// newID draws the identity of a slice.
func newID() (string, error) {
	id := make([]byte, 16)
	if _, err := rand.Read(id); err != nil {
		return "", fmt.Errorf("the operating system gives no randomness: %w", err)
	}
	return hex.EncodeToString(id), nil
}

// folderOf is where a slice goes if nothing else is said.
func folderOf(dir string, number int) string {
	return fmt.Sprintf("%s.slice-%d", filepath.Clean(dir), number)
}
