package trained

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/internal/rundir"
)

// saved is a cnn-mnist as a run writes it, with images and the logits that Predict gives: paths.
func saved(t *testing.T) (model, images, logits string) {
	t.Helper()
	m := named(t, "cnn-mnist", "tanh", [3]int{1, 28, 28}, rundir.Symmetric, nil)
	dir := t.TempDir()
	model, images, logits = filepath.Join(dir, "model.safetensors"), filepath.Join(dir, "x.npy"), filepath.Join(dir, "z.npy")
	check(t, rundir.WriteModel(model, m.network.Program, m.params, "", map[string]string{"format": "pt", "model": "cnn-mnist", "input": m.reading}))
	records := m.records()
	predictions, err := m.Predict(records)
	check(t, err)
	var z []float64
	for _, p := range predictions {
		z = append(z, p.Logits...)
	}
	npy(t, images, "|u1", records.Bytes, len(predictions), 1, 28, 28)
	npy(t, logits, "<f8", z, len(predictions), 10)
	return model, images, logits
}

// near fails where what a script printed is more than most.
func near(t *testing.T, printed string, most float64) {
	t.Helper()
	if far, err := strconv.ParseFloat(strings.TrimSpace(printed), 64); err != nil || !(far <= most) {
		t.Errorf("logits are %s off, at most %v", printed, most)
	}
}

// A network written anew, by numpy in float64 from a file's bytes, is the one that Predict runs in float64.
// Pixels are scaled in float32: two roundings of 2⁻²⁴, which weights and layers multiply by some hundreds.
func TestLayoutByNumpy(t *testing.T) {
	model, images, logits := saved(t)
	near(t, python(t, "numpy", "testdata/check_layout.py", model, images, logits), 1e-4)
}

// The loader of the documentation loads a model into PyTorch, in float32.
func TestPyTorchLoader(t *testing.T) {
	page, err := os.ReadFile("../docs/guides/use-a-model.md")
	check(t, err)
	loader := regexp.MustCompile("(?s)```python\n(import sys.*?)```").FindSubmatch(page)
	if loader == nil {
		t.Fatal("docs/guides/use-a-model.md has no loader")
	}
	script := filepath.Join(t.TempDir(), "loader.py")
	check(t, os.WriteFile(script, append(loader[1], `
import numpy, torch
images, logits = (torch.from_numpy(numpy.load(path)) for path in sys.argv[2:])
print((predict(images) - logits).abs().max().item())
`...), 0o644))
	model, images, logits := saved(t)
	near(t, python(t, "numpy, safetensors, torch", script, model, images, logits), 1e-4)
}
