package rundir

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/privgrad/privgrad/internal/durable"
	"github.com/privgrad/privgrad/internal/safetensors"
	"github.com/privgrad/privgrad/internal/usage"
)

// IsSlice says whether the directory is a slice of a run, which may make some of its steps.
func (d Dir) IsSlice() bool {
	_, err := os.Stat(d.Path(Slice))
	return err == nil
}

// What a SliceLine says of a slice. A run notes Out, Taking, In and Lost; the folder of the slice notes Out, Start and End.
const (
	SliceOut    = "out"    // slots were charged, and the folder that may use them is written
	SliceStart  = "start"  // a process is about to make its steps
	SliceEnd    = "end"    // and has ended in good order: no other goes on from the folder
	SliceTaking = "taking" // the run is about to get the checkpoint that the line names
	SliceIn     = "in"     // and has it
	SliceLost   = "lost"   // its slots stay charged, and nothing of it will be taken in
)

// A SliceLine is a line of Slices or Slice. All of it is public.
type SliceLine struct {
	Slice  string `json:"slice"` // 128 random bits, in hex
	Event  string `json:"event"`
	Number int    `json:"number,omitempty"` // of the run's slices, from 1
	First  int    `json:"first,omitempty"`  // slot of the schedule; of an end, the one behind the last that was used
	Slots  int    `json:"slots,omitempty"`
	Step   int    `json:"step,omitempty"`  // updates of the run before it
	State  string `json:"state,omitempty"` // SHA-256 of the checkpoint: that of the run, of the end, or that is taken
	Used   *int   `json:"used,omitempty"`  // slots of First and behind that may have noise; nil where all may
}

// SliceLines reads Slices or Slice; a last line that a crash cut is none.
func (d Dir) SliceLines(name string) (all []SliceLine, err error) {
	b, err := os.ReadFile(d.Path(name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	b = b[:bytes.LastIndexByte(b, '\n')+1]
	for line := range bytes.Lines(b) {
		b = b[len(line):]
		var l SliceLine
		if len(b) == 0 && bytes.IndexByte(line, 0) >= 0 {
			break // as durable.OpenLog has it
		}
		if json.Unmarshal(line, &l) != nil || l.Slice == "" {
			return nil, usage.Errorf("%s is damaged: put an intact copy back", d.Path(name))
		}
		all = append(all, l)
	}
	return all, nil
}

// NoteSlice adds a line to Slices or Slice, and has it on the disk.
func (d Dir) NoteSlice(name string, l SliceLine) error {
	log, err := durable.OpenLog(d.Path(name))
	if err != nil {
		return err
	}
	b, err := json.Marshal(l)
	if err == nil {
		err = log.Append(b)
	}
	return errors.Join(err, log.Close())
}

// A Stored is a checkpoint as it is stored, read without the network that it is of.
type Stored struct {
	Bytes      []byte // of the whole file
	RunID      string
	Step, Slot int
	Stopped    string
	tensors    []safetensors.Tensor
}

// ReadStored reads the checkpoint. Values that are not finite are an error.
func (d Dir) ReadStored() (*Stored, error) {
	f, err := d.open(StateFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, usage.Errorf("%s has no checkpoint to go on from: continue the run by `privgrad resume %[1]s`", string(d))
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, mostModel))
	if err != nil {
		return nil, err
	}
	s := &Stored{Bytes: b}
	tensors, meta, err := safetensors.Read(bytes.NewReader(b), mostModel)
	if err != nil {
		return nil, unreadable(d.State(), err)
	}
	s.tensors, s.RunID, s.Stopped = tensors, meta["run"], meta["stopped"]
	_, err = fmt.Sscan(meta["step"]+" "+meta["slot"], &s.Step, &s.Slot)
	if err != nil || s.Step < 0 || s.Slot < 0 || len(tensors) == 0 {
		return nil, usage.Errorf("checkpoint %s is not one of a run: restore the file", d.State())
	}
	return s, nil
}

// Alike says whether two checkpoints are of one network and method.
func (s *Stored) Alike(t *Stored) bool {
	return slices.EqualFunc(s.tensors, t.tensors, func(a, b safetensors.Tensor) bool { return a.Name == b.Name && slices.Equal(a.Shape, b.Shape) })
}

// Restore makes a checkpoint that was read that of the run.
func (d Dir) Restore(s *Stored) error { return d.Write(StateFile, s.Bytes) }

// Remodel gives the model and the average that are there the values of the checkpoint. One that does not fit stays as it is: the run
// writes it anew.
func (d Dir) Remodel(s *Stored) error {
	for file, name := range map[string]string{Model: s.tensors[0].Name, Average: tensorAverage} {
		i := slices.IndexFunc(s.tensors, func(t safetensors.Tensor) bool { return t.Name == name })
		if i < 0 || !d.IsFile(file) {
			continue
		}
		tensors, facts, err := ReadTensors(d.Path(file))
		if err != nil || !share(tensors, s.tensors[i].Data) {
			continue
		}
		if err := d.WriteTo(file, func(w io.Writer) error { return safetensors.Write(w, tensors, facts) }); err != nil {
			return err
		}
	}
	return nil
}

// share gives tensors their part each of values, which are in the same order; false where these are more or fewer.
func share(tensors []safetensors.Tensor, values []float32) bool {
	for i := range tensors {
		n := len(tensors[i].Data)
		if n > len(values) {
			return false
		}
		tensors[i].Data, values = values[:n], values[n:]
	}
	return len(values) == 0
}

// CopyState copies the checkpoint, and what else a process needs to go on, into the folder of a slice.
func (d Dir) CopyState(to Dir) error {
	if err := os.MkdirAll(to.Path(Checkpoints), 0o755); err != nil {
		return err
	}
	for _, name := range []string{Config, Begun, StateFile, Features, Network, Frozen} {
		f, err := d.open(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		write := func(w io.Writer) error { _, err := io.Copy(w, f); return err }
		if slices.Contains(large, name) {
			err = to.writeParts(name, write)
		} else {
			err = to.WriteTo(name, write)
		}
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	return nil
}
