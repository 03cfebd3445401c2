package rundir

import (
	"io"
	"maps"
	"os"
	"slices"

	"github.com/privgrad/privgrad/internal/durable"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/safetensors"
	"github.com/privgrad/privgrad/internal/usage"
)

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

// FeaturesDigest is the key, in the metadata of a model and of a checkpoint, of the digest of the
// front end that it is behind.
const FeaturesDigest = "features_digest"

// ReadModel reads parameters that must be exactly the program's, and what is said of them.
func ReadModel(path string, p *ir.Program) (params []float32, facts map[string]string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, usage.Errorf("model file: %w: give a safetensors file of %s", err, p.Name)
	}
	defer f.Close()
	tensors, facts, err := safetensors.Read(f, int64(p.NumParams())*4+1<<20)
	if err != nil {
		return nil, nil, usage.Errorf("model file %s: %w", path, err)
	}
	flat := make([]float32, p.NumParams())
	if len(tensors) != len(p.Params) {
		return nil, nil, usage.Errorf("model file %s holds %d tensors, %s has %d", path, len(tensors), p.Name, len(p.Params))
	}
	for _, q := range p.Params {
		i := slices.IndexFunc(tensors, func(t safetensors.Tensor) bool { return t.Name == q.Name })
		if i < 0 {
			return nil, nil, usage.Errorf("model file %s has no tensor %s, which %s needs", path, q.Name, p.Name)
		}
		if !slices.Equal(tensors[i].Shape, q.Shape) {
			return nil, nil, usage.Errorf("model file %s: tensor %s has shape %v, %s needs %v", path, q.Name, tensors[i].Shape, p.Name, q.Shape)
		}
		copy(flat[q.Offset:], tensors[i].Data)
	}
	return flat, facts, nil
}
