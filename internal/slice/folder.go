package slice

import (
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/internal/usage"
)

// A Folder is a slice where it runs. A nil one is a whole run.
type Folder struct {
	dir  rundir.Dir
	line rundir.SliceLine
}

// Open gives the slice that a directory is; nil where it is none. One that was started before is refused: steps of it may have been made
// with noise that no second process draws.
func Open(dir string) (*Folder, error) {
	d := rundir.Dir(dir)
	if !d.IsSlice() {
		return nil, nil
	}
	lines, err := d.SliceLines(rundir.Slice)
	switch {
	case err != nil:
		return nil, err
	case len(lines) == 0 || lines[0].Event != rundir.SliceOut:
		return nil, usage.Errorf("%s is damaged: copy the slice there again, or give it up by `privgrad slice in RUN --lost`", d.Path(rundir.Slice))
	case len(lines) > 1:
		return nil, usage.Errorf("the slice in %s was started before, here or as a copy, and a slice starts once: take it back by `privgrad slice in RUN %[1]s`, as far as it came", dir)
	}
	return &Folder{d, lines[0]}, nil
}

// End is the slot behind the last one that the slice may use; of a whole run, that of its schedule.
func (f *Folder) End(committed int) int {
	if f == nil {
		return committed
	}
	return f.line.First + f.line.Slots
}

// Start has on the disk that a process is about to use the slots. The process has the lock of the ledger.
func (f *Folder) Start() error {
	if again, err := Open(string(f.dir)); err != nil || again == nil {
		return err // another process was quicker
	}
	return f.dir.NoteSlice(rundir.Slice, rundir.SliceLine{Slice: f.line.Slice, Event: rundir.SliceStart})
}

// Close has on the disk that the process has ended in good order at a slot, so that the slots behind will have no noise.
func (f *Folder) Close(slot int) error {
	digest, err := f.dir.Digest(rundir.StateFile)
	if err != nil {
		return err
	}
	return f.dir.NoteSlice(rundir.Slice, rundir.SliceLine{Slice: f.line.Slice, Event: rundir.SliceEnd, First: slot, State: digest})
}

// Slots are how many the slice has, and how many of them lie before a slot.
func (f *Folder) Slots(slot int) (done, of int) { return max(slot-f.line.First, 0), f.line.Slots }
