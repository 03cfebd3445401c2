package slice

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"

	"github.com/privgrad/privgrad/accountant/ledger"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/internal/plan"
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/internal/usage"
)

// An Incoming is a slice that was taken in, or given up.
type Incoming struct {
	Run       string `json:"run"`
	Number    int    `json:"slice"`
	Lost      bool   `json:"lost"`
	Updates   int    `json:"updates"` // that came with it
	Step      int    `json:"step"`    // of the run, from now on
	Skipped   int    `json:"skipped"` // steps of the slice that are charged and were not made
	Returned  int    `json:"returned"`
	Committed int    `json:"committed_schedule"`
	Charged   int    `json:"charged"` // steps of the run
	// NotPrivate says why ε is no guarantee, if it is none.
	NotPrivate string `json:"not_private,omitempty"`
}

// A returned folder, read and checked by itself.
type returned struct {
	dir     rundir.Dir
	line    rundir.SliceLine // with which it went out
	end     *rundir.SliceLine
	stored  *rundir.Stored
	digest  string
	charged int // slots, by its ledger
}

// read reads a folder that comes back.
func read(folder string) (*returned, error) {
	f := &returned{dir: rundir.Dir(folder)}
	lines, err := f.dir.SliceLines(rundir.Slice)
	if err != nil {
		return nil, err
	}
	if len(lines) == 0 || lines[0].Event != rundir.SliceOut {
		return nil, usage.Errorf("%s is no slice: name the folder that `privgrad slice out` wrote, as it came back", folder)
	}
	f.line = lines[0]
	started := false
	for i, l := range lines[1:] {
		started = started || l.Event == rundir.SliceStart
		if l.Event == rundir.SliceEnd {
			f.end = &lines[1+i]
		}
	}
	if !started {
		return nil, usage.Errorf("%s was not started: it may be the folder as it went out, and not as it came back. Start it by `privgrad resume %[1]s` where it is to run, and take that folder in", folder)
	}
	state, header, err := ledger.Read(f.dir.Path(rundir.Ledger))
	if err != nil {
		return nil, usage.Wrap(err)
	}
	if f.stored, err = f.dir.ReadStored(); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(f.stored.Bytes)
	f.digest, f.charged = hex.EncodeToString(sum[:]), state.Reserved
	whole := header.Committed == f.line.First+f.line.Slots && f.stored.RunID == header.RunID && f.stored.Slot <= state.Reserved
	if e := f.end; !whole || e != nil && (e.State != f.digest || e.First != f.stored.Slot || e.First > state.Reserved) {
		return nil, usage.Errorf("the files of %s do not go together, as if they were fetched at different moments: fetch the folder again; or give the slice up by `privgrad slice in RUN --lost`", folder)
	}
	return f, nil
}

// used is how many slots may have noise, nil where all may: a process may go on from a folder that does not say that it has ended.
func (f *returned) used() *int {
	if f.end == nil {
		return nil
	}
	used := max(f.end.First, f.charged, f.line.First) - f.line.First
	return &used
}

// In takes a slice back into the run.
func (h *Home) In(folder string) (*Incoming, error) {
	defer h.close()
	f, err := read(folder)
	if err != nil {
		return nil, err
	}
	if err := h.open(); err != nil {
		return nil, err
	}
	finished, err := h.finish()
	if err != nil {
		return nil, err
	}
	s := h.named(f.line.Slice)
	if s == nil {
		return nil, usage.Errorf("%s is no slice of %s: name the run that it was made of", folder, h.Dir)
	}
	if finished != nil && finished.Slice == s.Slice { // a process before has died behind the checkpoint
		return h.incoming(s)
	}
	switch s.last {
	case rundir.SliceIn:
		return nil, usage.Errorf("slice %d of %s was taken in already, and no slice is taken in twice: remove %s", s.Number, h.Dir, folder)
	case rundir.SliceLost:
		return nil, usage.Errorf("slice %d of %s was given up, and the run may have gone on without it: its steps stay charged; remove %s", s.Number, h.Dir, folder)
	}
	before, err := h.dir.ReadStored()
	if err != nil {
		return nil, err
	}
	if err := h.fits(s, f, before); err != nil {
		return nil, err
	}
	if err := h.disarm(s); err != nil {
		return nil, err
	}
	if err := h.take(s, f); err != nil {
		return nil, err
	}
	return h.incoming(s)
}

func (h *Home) named(id string) *Slice {
	for _, s := range h.slices {
		if s.Slice == id {
			return s
		}
	}
	return nil
}

// fits checks that a folder goes on from where the run stands.
func (h *Home) fits(s *Slice, f *returned, before *rundir.Stored) error {
	sum := sha256.Sum256(before.Bytes)
	header := h.ledger.Header()
	same := f.line.First == s.First && f.line.Slots == s.Slots && f.line.State == s.State && f.stored.RunID == header.RunID
	switch {
	case hex.EncodeToString(sum[:]) != s.State:
		return usage.Errorf("%s has gone on since slice %d went out, so that the slice no longer fits: give it up by `privgrad slice in %[1]s --lost`", h.Dir, s.Number)
	case !same || f.stored.Slot < before.Slot || f.stored.Slot > s.First+s.Slots || f.stored.Step < before.Step ||
		f.stored.Step-before.Step > f.stored.Slot-before.Slot || !f.stored.Alike(before):
		return usage.Errorf("%s is not what slice %d of %s leaves: fetch the folder again, or give the slice up by `privgrad slice in %[3]s --lost`", f.dir, s.Number, h.Dir)
	case s.First+s.Slots > h.ledger.Charged():
		return usage.Errorf("the ledger of %s has not charged slice %d: it is older than the slice; restore the matching ledger.db", h.Dir, s.Number)
	}
	return nil
}

// take makes the state of a folder that of the run. Its checkpoint is the point from which it is in; all before is undone by a
// run that goes on without it, and finish ends all behind.
func (h *Home) take(s *Slice, f *returned) error {
	metrics, err := h.merged(f, s.Step)
	if err != nil {
		return err
	}
	taking := rundir.SliceLine{Slice: s.Slice, Event: rundir.SliceTaking, State: f.digest, Used: f.used()}
	if err := h.note(taking); err != nil {
		return err
	}
	if err := h.do("metrics", func() error { return h.dir.Write(rundir.Metrics, metrics) }); err != nil {
		return err
	}
	if err := h.do("checkpoint", func() error { return h.dir.Restore(f.stored) }); err != nil {
		return err
	}
	if err := h.read(); err != nil {
		return err
	}
	_, err = h.finish()
	return err
}

// disarm has the folder that stayed at home, of which a copy went out, never be started: this is the one copy that can be found.
func (h *Home) disarm(s *Slice) error {
	d := rundir.Dir(folderOf(h.Dir, s.Number))
	lines, err := d.SliceLines(rundir.Slice)
	if err != nil || len(lines) != 1 || lines[0].Slice != s.Slice {
		return nil // none, or none that could be started
	}
	return h.do("leftover", func() error {
		return d.NoteSlice(rundir.Slice, rundir.SliceLine{Slice: s.Slice, Event: rundir.SliceStart})
	})
}

// Lost gives up the slice that is out. Its slots stay charged.
func (h *Home) Lost() (*Incoming, error) {
	defer h.close()
	if err := h.open(); err != nil {
		return nil, err
	}
	finished, err := h.finish()
	if err != nil {
		return nil, err
	}
	if finished != nil { // it was in but for its note
		return h.incoming(finished)
	}
	s := h.outside()
	if s == nil {
		return nil, usage.Errorf("no slice of %s is out: continue the run by `privgrad resume %[1]s`", h.Dir)
	}
	if err := h.disarm(s); err != nil {
		return nil, err
	}
	if err := h.note(rundir.SliceLine{Slice: s.Slice, Event: rundir.SliceLost}); err != nil {
		return nil, err
	}
	in, err := h.incoming(s)
	if err == nil {
		in.Lost = true
	}
	return in, err
}

// incoming says where the run stands.
func (h *Home) incoming(s *Slice) (*Incoming, error) {
	now, err := h.dir.ReadStored()
	if err != nil {
		return nil, err
	}
	charged := h.ledger.Charged()
	in := &Incoming{
		Run: h.Dir, Number: s.Number, Updates: now.Step - s.Step, Step: now.Step, Skipped: max(charged-max(now.Slot, s.First), 0),
		Returned: s.First + s.Slots - charged, Committed: h.ledger.Header().Committed, Charged: charged, NotPrivate: plan.Label(&h.config),
	}
	if h.config.Noise == dpoptim.Seeded {
		in.Skipped = 0 // they are made again, with the same noise
	}
	return in, nil
}

// A measured line is one of the metrics, with its step.
type measured struct {
	Step int `json:"step"`
	line []byte
}

// measurements are the metrics of a directory up to a step.
func measurements(dir rundir.Dir, step int) (all []measured, err error) {
	b, err := os.ReadFile(dir.Path(rundir.Metrics))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for line := range bytes.Lines(b[:bytes.LastIndexByte(b, '\n')+1]) {
		var m measured
		if json.Unmarshal(line, &m) == nil && m.Step <= step {
			m.line = bytes.TrimSuffix(line, []byte("\n"))
			all = append(all, m)
		}
	}
	return all, nil
}

// merged are the metrics of the run up to a step, and those of the folder that its checkpoint covers. The folder began with the
// last of the run, if there was one.
func (h *Home) merged(f *returned, step int) (out []byte, err error) {
	here, err := measurements(h.dir, step)
	if err != nil {
		return nil, err
	}
	there, err := measurements(f.dir, f.stored.Step)
	if err != nil {
		return nil, err
	}
	if len(here) > 0 && len(there) > 0 {
		there = there[1:]
	}
	for _, m := range append(here, there...) {
		out = append(append(out, m.line...), '\n')
	}
	return out, nil
}
