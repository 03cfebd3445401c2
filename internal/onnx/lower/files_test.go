package lower

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/devicetest"
	"github.com/privgrad/privgrad/internal/device/reference"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/onnx/file"
)

// found is what the program that made a network finds for some records (scripts/onnx_files.py).
type found struct {
	Records               []int
	Shape                 []int
	Logits, Probabilities [][]float64
}

func readFile(t testing.TB, path string) (*file.Model, found) {
	t.Helper()
	m, err := file.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(strings.TrimSuffix(path, ".onnx") + ".json")
	if err != nil {
		t.Fatal(err)
	}
	var f found
	if err := json.Unmarshal(b, &f); err != nil {
		t.Fatal(err)
	}
	return m, f
}

// recordOf has the values that the script gives a record.
func recordOf(number, size int) []float64 {
	x := make([]float64, size)
	for i := range x {
		x[i] = float64(devicetest.PatternPixel(number, i))/64 - 2
	}
	return x
}

// tolerance is a part of the largest output. All sums are in float64, here and in PyTorch, and parameters are the same float32. Without norms
// in weights only the epsilon of norms differs, which files hold in float32: it is 2⁻²⁵ of 1e-5 off at most, where variances are above
// 1e-2, so that 20 norms are 20 · 2⁻²⁵ · 1e-3 / 2 = 3e-10 off. Where a norm is in the weights of the convolution before it, in 20 of
// them, each weight was rounded three times, to 2⁻²⁴: 20 · 3 · 2⁻²⁴ = 4e-6 if all roundings have one direction, and twice that for
// outputs that are differences. Keras and scikit-learn compute probabilities in float32: 4 layers with sums of at most 100 terms are off by
// 4 · 100 · 2⁻²⁴ = 2e-5 at most.
func tolerance(name string) float64 {
	switch {
	case strings.Contains(name, "batch"):
		return 8e-6
	case strings.HasPrefix(name, "keras"), strings.HasPrefix(name, "sklearn"):
		return 2e-5
	}
	return 1e-9
}

// normOf is what a file of a batch norm that is not folded needs.
func normOf(name string) BatchNorm {
	if strings.Contains(name, "kept") {
		return Frozen
	}
	return NoBatchNorm
}

// Files of other programs become networks that find what those programs find.
func TestFilesOfOthers(t *testing.T) { filesOfOthers(t, "testdata", 19) }

// The same at full width, in the folder that PRIVGRAD_ONNX_FILES names (.ci/long).
func TestLongFilesOfOthers(t *testing.T) {
	dir := os.Getenv("PRIVGRAD_ONNX_FILES")
	if dir == "" {
		t.Skip("PRIVGRAD_ONNX_FILES names no folder with files that scripts/onnx_files.py --full wrote")
	}
	filesOfOthers(t, dir, 1)
}

func filesOfOthers(t *testing.T, dir string, least int) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.onnx"))
	if err != nil || len(paths) < least {
		t.Fatalf("%d files: %v", len(paths), err)
	}
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".onnx")
		t.Run(name, func(t *testing.T) {
			m, f := readFile(t, path)
			if strings.HasPrefix(name, "mobile") {
				refusedMobile(t, m)
				return
			}
			if normOf(name) == Frozen {
				refusedNorms(t, m)
			}
			n, err := Lower(m, Choices{Weights: OfFile, BatchNorm: normOf(name)})
			if err != nil {
				t.Fatal(err)
			}
			sameOutputs(t, n, f, tolerance(name))
			freshOf(t, m, n)
		})
	}
}

func sameOutputs(t *testing.T, n *Network, f found, tolerance float64) {
	t.Helper()
	if !slices.Equal(n.Program.Shape, f.Shape) {
		t.Errorf("records have the shape %v, want %v", n.Program.Shape, f.Shape)
	}
	params := widened(n.Params)
	for i, number := range f.Records {
		values := reference.Values(n.Program, params, recordOf(number, ir.Size(f.Shape)), device.Float32)
		got := values[n.Program.Logits()]
		want := f.Probabilities
		if want != nil {
			got = probabilities(got)
		} else {
			want = f.Logits
		}
		if len(got) != len(want[i]) {
			t.Fatalf("%d outputs, want %d", len(got), len(want[i]))
		}
		largest := 0.
		for _, v := range want[i] {
			largest = max(largest, math.Abs(v))
		}
		for k := range got {
			if off := math.Abs(got[k] - want[i][k]); !(off <= tolerance*largest) {
				t.Errorf("record %d: output %d is %v, want %v: off by %.2g of the largest", i, k, got[k], want[i][k], off/largest)
			}
		}
	}
}

// probabilities are those of both classes for one output.
func probabilities(logits []float64) []float64 {
	if len(logits) == 1 {
		p := 1 / (1 + math.Exp(-logits[0]))
		return []float64{1 - p, p}
	}
	p, sum := make([]float64, len(logits)), 0.
	for i, v := range logits {
		p[i] = math.Exp(v - slices.Max(logits))
		sum += p[i]
	}
	for i := range p {
		p[i] /= sum
	}
	return p
}

// freshOf lowers a file without its weights: none of them is left.
func freshOf(t *testing.T, m *file.Model, with *Network) {
	t.Helper()
	norm := NoBatchNorm
	for i := range m.Graph.Nodes {
		if m.Graph.Nodes[i].Kind == "BatchNormalization" {
			norm = Grouped
		}
	}
	n, err := Lower(m, Choices{BatchNorm: norm, Seed: 7})
	if err != nil {
		t.Errorf("with fresh weights: %v", err)
		return
	}
	of := map[string][]float32{}
	for _, p := range with.Program.Params {
		of[p.Node] = with.Params[p.Offset:][:p.Size()]
	}
	compared := 0
	for _, p := range n.Program.Params {
		fresh, read := n.Params[p.Offset:][:p.Size()], of[p.Node]
		for i := range min(len(fresh), len(read)) {
			if fresh[i] == read[i] && fresh[i] != 0 && fresh[i] != 1 {
				t.Errorf("%s has number %d of the file", p.Name, i)
			}
			compared++
		}
	}
	if compared == 0 {
		t.Error("no weight was compared")
	}
}

func refusedNorms(t *testing.T, m *file.Model) {
	t.Helper()
	var all Refusals
	if _, err := Lower(m, Choices{Weights: OfFile}); !errors.As(err, &all) {
		t.Fatalf("without a word on batch norms: %v", err)
	}
	if len(all) != 20 || all[0].Op != "BatchNormalization" {
		t.Errorf("%d refusals: %v", len(all), all)
	}
}

// refusedMobile wants each convolution of a channel by itself refused by name.
func refusedMobile(t *testing.T, m *file.Model) {
	t.Helper()
	var all Refusals
	if _, err := Lower(m, Choices{Weights: OfFile}); !errors.As(err, &all) {
		t.Fatalf("was not refused: %v", err)
	}
	convolutions := 0
	for _, r := range all {
		if r.Op == "Conv" && strings.Contains(r.Reason, "group") {
			convolutions++
		}
		if r.Node == "" || r.Do == "" {
			t.Errorf("a refusal says no node, or not what to do: %v", r)
		}
	}
	if convolutions != 3 {
		t.Errorf("%d convolutions are refused for their groups, want 3: %v", convolutions, all)
	}
}

// Operations of other sets have names of the standard one, and mean something else.
func TestOtherSets(t *testing.T) {
	m, _ := readFile(t, "testdata/cnn-script.onnx")
	m.Opsets["com.example"] = 1
	for i := range m.Graph.Nodes {
		if m.Graph.Nodes[i].Kind == "Tanh" {
			m.Graph.Nodes[i].Domain = "com.example"
		}
	}
	refused(t, "a set that nobody knows", m, Choices{}, "com.example.Tanh", "no operation that is known")
}
