package train

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/internal/durable"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/safetensors"
	"github.com/privgrad/privgrad/internal/usage"
)

// The files of a run directory.
const (
	fileConfig      = "config.yaml"
	fileLedger      = "ledger.db"
	fileMetrics     = "metrics.jsonl"
	fileResult      = "result.json"
	fileModel       = "model.safetensors"
	fileAverage     = "model-average.safetensors"
	filePicture     = "accuracy.png"
	dirCheckpoint   = "checkpoint"
	fileState       = "state.safetensors"
	suffixPrivate   = ".private"
	fileDiagnostics = "diagnostics.jsonl"
)

// checkpoint is a run between two updates: released values only. It holds no
// key, no position of the sampler and nothing of the batch.
type checkpoint struct {
	runID  string
	step   int     // updates applied
	slot   int     // slots of the committed schedule used or lost
	clip   float64 // of the next step where it moves, else 0
	more   string  // state of a line search or a schedule, else empty
	params []float32
	state  [][]float32
	// average is that of the parameters, nil where none is kept.
	average []float32
	// assumptions are those of every process of the run up to this one; nil in a
	// checkpoint from before they were kept.
	assumptions []string
	label       string // what must stand beside it; nothing reads it back
}

// tensorAverage is the name of a checkpoint's average of the parameters.
const tensorAverage = "average"

func statePath(dir string) string { return filepath.Join(dir, dirCheckpoint, fileState) }

func (c *checkpoint) write(dir string) error {
	tensors := []safetensors.Tensor{{Name: "parameters", Shape: []int{len(c.params)}, Data: c.params}}
	for i, s := range c.state {
		tensors = append(tensors, safetensors.Tensor{Name: "optimizer." + strconv.Itoa(i), Shape: []int{len(s)}, Data: s})
	}
	if c.average != nil {
		tensors = append(tensors, safetensors.Tensor{Name: tensorAverage, Shape: []int{len(c.average)}, Data: c.average})
	}
	if err := os.MkdirAll(filepath.Join(dir, dirCheckpoint), 0o755); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	meta := labelled(c.label, map[string]string{
		"run": c.runID, "step": strconv.Itoa(c.step), "slot": strconv.Itoa(c.slot),
		"assumptions": strings.Join(c.assumptions, " "),
	})
	if c.clip != 0 {
		meta["clip"] = strconv.FormatFloat(c.clip, 'g', -1, 64)
	}
	if c.more != "" {
		meta["search"] = c.more
	}
	return durable.WriteFile(statePath(dir), func(w io.Writer) error { return safetensors.Write(w, tensors, meta) })
}

// readCheckpoint gives nil where there is none.
func readCheckpoint(dir string, params int, states []dpoptim.State) (*checkpoint, error) {
	values := 0
	for _, s := range states {
		values += s.Width
	}
	path := statePath(dir)
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	tensors, meta, err := safetensors.Read(f, int64(params)*4*int64(values+2)+1<<20)
	if err != nil {
		return nil, usage.Errorf("checkpoint %s cannot be read: %w; restore the file, or start a new run in another directory", path, err)
	}
	c := &checkpoint{runID: meta["run"], more: meta["search"]}
	var e1, e2, e3 error
	c.step, e1 = strconv.Atoi(meta["step"])
	c.slot, e2 = strconv.Atoi(meta["slot"])
	if text, ok := meta["clip"]; ok {
		c.clip, e3 = strconv.ParseFloat(text, 64)
	}
	if text, ok := meta["assumptions"]; ok {
		c.assumptions = append([]string{}, strings.Fields(text)...)
	}
	average := slices.IndexFunc(tensors, func(t safetensors.Tensor) bool { return t.Name == tensorAverage })
	if average >= 0 {
		c.average = tensors[average].Data
		tensors = slices.Delete(tensors, average, average+1)
	}
	if e1 != nil || e2 != nil || e3 != nil || c.step < 0 || c.slot < c.step || len(tensors) != len(states)+1 || c.average != nil && len(c.average) != params {
		return nil, usage.Errorf("checkpoint %s is not one of this run's; restore the file, or start a new run in another directory", path)
	}
	for i, t := range tensors {
		width := 1
		if i > 0 {
			width = states[i-1].Width
		}
		if len(t.Data) != width*params {
			return nil, usage.Errorf("checkpoint %s holds %d values in %s, the model has %d; restore the file, or start a new run in another directory", path, len(t.Data), t.Name, width*params)
		}
		if i == 0 {
			c.params = t.Data
		} else {
			c.state = append(c.state, t.Data)
		}
	}
	return c, nil
}

// labelled puts Config.label into the metadata of a tensor file.
func labelled(label string, meta map[string]string) map[string]string {
	if label != "" {
		meta["noise"] = label
	}
	return meta
}

// writeModel writes parameters in PyTorch's layout.
func writeModel(path string, p *ir.Program, params []float32, label string) error {
	var tensors []safetensors.Tensor
	for _, q := range p.Params {
		tensors = append(tensors, safetensors.Tensor{Name: q.Name, Shape: q.Shape, Data: params[q.Offset:][:q.Size()]})
	}
	return durable.WriteFile(path, func(w io.Writer) error { return safetensors.Write(w, tensors, labelled(label, map[string]string{})) })
}

// readModel reads parameters that must be exactly the program's.
func readModel(path string, p *ir.Program) ([]float32, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, usage.Errorf("model file: %w: give a safetensors file of %s", err, p.Name)
	}
	defer f.Close()
	tensors, _, err := safetensors.Read(f, int64(p.NumParams())*4+1<<20)
	if err != nil {
		return nil, usage.Errorf("model file %s: %w", path, err)
	}
	flat := make([]float32, p.NumParams())
	if len(tensors) != len(p.Params) {
		return nil, usage.Errorf("model file %s holds %d tensors, %s has %d", path, len(tensors), p.Name, len(p.Params))
	}
	for _, q := range p.Params {
		i := slices.IndexFunc(tensors, func(t safetensors.Tensor) bool { return t.Name == q.Name })
		if i < 0 {
			return nil, usage.Errorf("model file %s has no tensor %s, which %s needs", path, q.Name, p.Name)
		}
		if !slices.Equal(tensors[i].Shape, q.Shape) {
			return nil, usage.Errorf("model file %s: tensor %s has shape %v, %s needs %v", path, q.Name, tensors[i].Shape, p.Name, q.Shape)
		}
		copy(flat[q.Offset:], tensors[i].Data)
	}
	return flat, nil
}
