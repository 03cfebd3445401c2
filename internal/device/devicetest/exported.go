package devicetest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/perexample"
)

// GoldenFile are records of a network that PyTorch exported, and the gradient of each, by itself, that torch.func found in float64
// (scripts/onnx_golden.py). Parameters and pixels are exact in float32. No unit is nearer to the kink of ReLU than the file's "kink" times the
// root mean square of its layer's.
type GoldenFile struct {
	*Case
	gradients [][]digest // of each record, by tensor
}

// NewGoldenFile are those of folder dir. The program and its parameters are made by lower of the model that dir has under the name that it gives to
// lower.
func NewGoldenFile(t testing.TB, dir string, lower func(path string) (*ir.Program, []float32)) *GoldenFile {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "gradients.json"))
	must(t, err)
	var golden struct {
		File      string
		Records   []int
		Targets   []float32
		Names     []string
		Gradients [][]digest
	}
	must(t, json.Unmarshal(text, &golden))
	p, params := lower(filepath.Join(dir, golden.File))
	if len(golden.Names) != len(p.Params) || len(golden.Gradients) != len(golden.Records) {
		t.Fatalf("PyTorch has %d tensors, the program %d", len(golden.Names), len(p.Params))
	}
	named := 0
	for i, q := range p.Params { // those that the exporter did not compute have the names that PyTorch gives them
		if q.Node == golden.Names[i] {
			named++
		} else if strings.Contains(q.Node, ".weight") {
			t.Errorf("parameter %d is %s, in PyTorch %s", i, q.Node, golden.Names[i])
		}
	}
	if named < len(p.Params)/4 {
		t.Errorf("%d of %d parameters have their names in PyTorch", named, len(p.Params))
	}
	g := &GoldenFile{
		Case: &Case{Program: p, Params: params, Rows: device.Rows{
			Count: len(golden.Records), Width: ir.Size(p.Shape), Gather: scaledBy(1.0/64, -2), Targets: golden.Targets,
		}},
		gradients: golden.Gradients,
	}
	for _, number := range golden.Records {
		for j := range g.Rows.Width {
			g.Features = append(g.Features, PatternPixel(number, j))
		}
	}
	return g
}

// Record checks a record's gradient.
func (g *GoldenFile) Record(t testing.TB, record int, got []float64, tolerance float64) {
	t.Helper()
	checkDigests(t, g.Program, fmt.Sprintf("record %d", record), got, g.gradients[record], tolerance)
}

// On checks a device, whose sums are float32, under a strategy: each record by itself, clipped at a norm that no record has.
func (g *GoldenFile) On(t testing.TB, d device.Device, strategy perexample.Strategy, tolerance float64) {
	t.Helper()
	const long = 1e6
	s, err := perexample.Private(g.Program, perexample.Options{Strategy: strategy, Clipping: ir.Flat})
	must(t, err)
	x := Open(t, d, s, g.Case, g.Rows.Count)
	for i := range g.Rows.Count {
		g.Record(t, i, widen(x.Of(t, []int32{int32(i)}, long)), tolerance)
	}
}
