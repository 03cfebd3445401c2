package rundir

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"

	"github.com/privgrad/privgrad/internal/durable"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/safetensors"
	"github.com/privgrad/privgrad/internal/usage"
)

// Unfinished refuses to read a run that does not have a file yet.
func (d Dir) Unfinished(file string) error {
	if d.IsSlice() {
		return usage.Errorf("%s is a slice of a run, and has no %s: take it back by `privgrad slice in RUN %[1]s`, then name the run", string(d), file)
	}
	if _, stopped, _ := d.Progress(); stopped != "" {
		return usage.Errorf("the run in %s has ended before it finished: %s", string(d), stopped)
	}
	return usage.Errorf("the run in %s has not finished, for it has no %s: continue it by `privgrad resume %[1]s`, or by the program of your own that began it", string(d), file)
}

// labelled puts a run's label into the metadata of a tensor file.
func labelled(label string, meta map[string]string) map[string]string {
	if meta == nil {
		meta = map[string]string{}
	}
	if label != "" {
		meta["noise"] = label
	}
	return meta
}

// WriteModel writes parameters in PyTorch's layout, and what is to be known of them.
func WriteModel(path string, p *ir.Program, params []float32, label string, meta map[string]string) error {
	var tensors []safetensors.Tensor
	for _, q := range p.Params {
		tensors = append(tensors, safetensors.Tensor{Name: q.Name, Shape: q.Shape, Data: params[q.Offset:][:q.Size()]})
	}
	return durable.WriteFile(path, func(w io.Writer) error { return safetensors.Write(w, tensors, labelled(label, maps.Clone(meta))) })
}

// Keys in the metadata of a model: what one needs to use it without its data. The digest of the front
// end is in that of a checkpoint, too.
const (
	FeaturesDigest = "features_digest"
	Shape          = "shape"        // of an example: channels x rows x columns
	Input          = "input"        // what becomes of a value x before the network or the front end reads it
	Classes        = "classes"      // their names, a JSON list; null of a regression
	Schema         = "schema"       // of a table of one's own, JSON
	LabelBounds    = "label_bounds" // of a regression with bounds, a JSON list of two: an output z stands for low + z·(high − low)
	NetworkDigest  = "network_digest"
	Normalize      = "normalize"    // of a network from a file: mean and standard deviation of what it reads
	FeatureNorm    = "feature_norm" // of what the network reads, at most: longer rows are scaled down; "none"
)

// What Input may be.
const (
	Symmetric = "x/127.5-1" // bytes
	Fraction  = "x/255"     // bytes
	AsIs      = "x"         // floating-point values
)

// mostModel is more than any network's file, in bytes.
const mostModel = 16 << 30

// ReadTensors reads a model file, whatever network it is of, and what is said of it.
func ReadTensors(path string) ([]safetensors.Tensor, map[string]string, error) {
	f, err := os.Open(path)
	if d := Dir(filepath.Dir(path)); errors.Is(err, fs.ErrNotExist) && filepath.Base(path) == Model && d.Has(Config) {
		return nil, nil, d.Unfinished(Model)
	}
	if err != nil {
		return nil, nil, usage.Errorf("model file %s cannot be read (%w): give a safetensors file, such as a run's %s", path, usage.Cause(err), Model)
	}
	defer f.Close()
	if i, err := f.Stat(); err == nil && i.IsDir() {
		return nil, nil, usage.Errorf("model file %s is a folder: give a safetensors file, such as a run's %s", path, Model)
	}
	tensors, facts, err := safetensors.Read(f, mostModel)
	return tensors, facts, unusable(path, err)
}

// ErrNotFinite is wrapped by errors of files with values that are not finite.
var ErrNotFinite = safetensors.ErrNotFinite

// unusable says what to do about a model file that could not be read; nil stays nil.
func unusable(path string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, safetensors.ErrOther):
		return usage.Errorf("model file %s: %w", path, err)
	case errors.Is(err, safetensors.ErrNotFinite):
		return usage.Errorf("model file %s cannot be used (%w): training has diverged, the values are too large for float32, or the file is damaged; give other weights", path, err)
	}
	return usage.Errorf("model file %s cannot be used (%w): give a whole safetensors file; if this one is damaged, put back a copy of it", path, err)
}

// ReadFacts reads what is said of the model of a file, and none of its values.
func ReadFacts(path string) (map[string]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, usage.Errorf("model file %s cannot be read (%w): restore it", path, usage.Cause(err))
	}
	defer f.Close()
	facts, err := safetensors.Metadata(f, mostModel)
	return facts, unusable(path, err)
}

// ReadModel reads parameters that must be exactly the program's, and what is said of them.
func ReadModel(path string, p *ir.Program) (params []float32, facts map[string]string, err error) {
	tensors, facts, err := ReadTensors(path)
	if err != nil {
		return nil, nil, err
	}
	params, err = Flat(path, tensors, p)
	return params, facts, err
}

// Flat are the tensors of a file, which must be exactly the program's, as its parameters.
func Flat(path string, tensors []safetensors.Tensor, p *ir.Program) ([]float32, error) {
	m := match(tensors, p.Params)
	if err := m.fault(true); err != nil {
		return nil, usage.Errorf("model file %s is of another network than %s: %w; restore the file", path, p.Name, err)
	}
	flat := make([]float32, p.NumParams())
	m.copyTo(flat)
	return flat, nil
}
