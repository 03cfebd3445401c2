package rundir

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/privgrad/privgrad/internal/safetensors"
	"github.com/privgrad/privgrad/internal/usage"
)

// Checkpoint is a run between two updates: released values only. It holds no
// key, no position of the sampler and nothing of the batch.
type Checkpoint struct {
	RunID  string
	Step   int     // updates applied
	Slot   int     // slots of the committed schedule used or lost
	Clip   float64 // of the next step where it moves, else 0
	Method string  // its state as JSON, else empty
	Params []float32
	States [][]float32
	// Average is that of the parameters, nil where none is kept.
	Average []float32
	// Assumptions are those of every process of the run up to this one; nil in a
	// checkpoint from before they were kept.
	Assumptions []string
	// Counted is the noisy count of usable records with which the run began; nil where none was made.
	Counted *float64
	// Stopped is why the run has ended for good without having finished; empty where it goes on.
	Stopped string
	Front   string // digest of the front end; empty where there is none
	Label   string // what must stand beside it; nothing reads it back
	Heard   []byte // what released sums have to do with canaries; nil where there are none
}

// tensorAverage is the name of a checkpoint's average of the parameters.
const tensorAverage = "average"

// WriteCheckpoint replaces the last one.
func (d Dir) WriteCheckpoint(c *Checkpoint) error {
	tensors := []safetensors.Tensor{{Name: "parameters", Shape: []int{len(c.Params)}, Data: c.Params}}
	for i, s := range c.States {
		tensors = append(tensors, safetensors.Tensor{Name: "optimizer." + strconv.Itoa(i), Shape: []int{len(s)}, Data: s})
	}
	if c.Average != nil {
		tensors = append(tensors, safetensors.Tensor{Name: tensorAverage, Shape: []int{len(c.Average)}, Data: c.Average})
	}
	if err := os.MkdirAll(filepath.Dir(d.State()), 0o755); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	meta := labelled(c.Label, map[string]string{
		"run": c.RunID, "step": strconv.Itoa(c.Step), "slot": strconv.Itoa(c.Slot),
		"assumptions": strings.Join(c.Assumptions, " "),
	})
	if c.Clip != 0 {
		meta["clip"] = strconv.FormatFloat(c.Clip, 'g', -1, 64)
	}
	if c.Counted != nil {
		meta["counted_records"] = strconv.FormatFloat(*c.Counted, 'g', -1, 64)
	}
	if c.Stopped != "" {
		meta["stopped"] = c.Stopped
	}
	if c.Front != "" {
		meta[FeaturesDigest] = c.Front
	}
	if c.Method != "" {
		meta["search"] = c.Method
	}
	if c.Heard != nil {
		meta[heard] = base64.StdEncoding.EncodeToString(c.Heard)
	}
	return d.WriteTo(StateFile, func(w io.Writer) error { return safetensors.Write(w, tensors, meta) })
}

// Progress is how many updates the checkpoint was written after, and why the run has ended for good, if it has; known is
// false where there is none that can be read.
func (d Dir) Progress() (steps int, stopped string, known bool) {
	f, err := d.open(StateFile)
	if err != nil {
		return 0, "", false
	}
	defer f.Close()
	meta, err := safetensors.Metadata(f, mostModel)
	if err == nil {
		steps, err = strconv.Atoi(meta["step"])
	}
	return steps, meta["stopped"], err == nil
}

// unreadable says what to do about a checkpoint that a run cannot go on from.
func unreadable(path string, err error) error {
	if errors.Is(err, ErrNotFinite) {
		return usage.Errorf("checkpoint %s cannot be gone on from: %w; the run diverged, or the file is damaged: start a new run with a smaller --lr, or restore the file", path, err)
	}
	return usage.Errorf("checkpoint %s cannot be read: %w; restore the file, or start a new run in another directory", path, err)
}

// ReadCheckpoint gives nil where there is none. The widths are those of the method's vectors, in
// values a parameter.
func (d Dir) ReadCheckpoint(params int, widths []int) (*Checkpoint, error) {
	values := 0
	for _, w := range widths {
		values += w
	}
	path := d.State()
	f, err := d.open(StateFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	tensors, meta, err := safetensors.Read(f, int64(params)*4*int64(values+2)+1<<20)
	if err != nil {
		return nil, unreadable(path, err)
	}
	c := &Checkpoint{RunID: meta["run"], Method: meta["search"], Stopped: meta["stopped"], Front: meta[FeaturesDigest]}
	var e1, e2, e3, e4, e5 error
	c.Step, e1 = strconv.Atoi(meta["step"])
	c.Slot, e2 = strconv.Atoi(meta["slot"])
	if text, ok := meta["clip"]; ok {
		c.Clip, e3 = strconv.ParseFloat(text, 64)
	}
	if text, ok := meta["counted_records"]; ok {
		var counted float64
		counted, e4 = strconv.ParseFloat(text, 64)
		c.Counted = &counted
	}
	if text, ok := meta[heard]; ok {
		c.Heard, e5 = base64.StdEncoding.DecodeString(text)
	}
	if text, ok := meta["assumptions"]; ok {
		c.Assumptions = append([]string{}, strings.Fields(text)...)
	}
	average := slices.IndexFunc(tensors, func(t safetensors.Tensor) bool { return t.Name == tensorAverage })
	if average >= 0 {
		c.Average = tensors[average].Data
		tensors = slices.Delete(tensors, average, average+1)
	}
	if errors.Join(e1, e2, e3, e4, e5) != nil || c.Step < 0 || c.Slot < 0 || len(tensors) != len(widths)+1 || c.Average != nil && len(c.Average) != params {
		return nil, usage.Errorf("checkpoint %s is not one of this run's; restore the file, or start a new run in another directory", path)
	}
	for i, t := range tensors {
		width := 1
		if i > 0 {
			width = widths[i-1]
		}
		if len(t.Data) != width*params {
			return nil, usage.Errorf("checkpoint %s holds %d values in %s, the model has %d; restore the file, or start a new run in another directory", path, len(t.Data), t.Name, width*params)
		}
		if i == 0 {
			c.Params = t.Data
		} else {
			c.States = append(c.States, t.Data)
		}
	}
	return c, nil
}
