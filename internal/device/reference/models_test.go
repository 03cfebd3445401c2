package reference_test

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/devicetest"
	"github.com/privgrad/privgrad/internal/device/reference"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/nn"
	"github.com/privgrad/privgrad/perexample"
)

// TestNamedModelsAgree compares a record's logits and its gradient in named residual models with those that PyTorch found in
// float64 by the scripts of bench/compare (scripts/models_golden.py, where JAX agreed). Of a tensor's gradient the file has the length and two
// weighted sums of its elements, with weights of at most 1.
//
// An element is a sum of at most 2,304 products, so that a layer adds roundings of less than 1e-12 of the largest; kernels
// and normalizations hand errors on with factors that are a few at most, in 16 layers. As in TestPyTorchAgrees each element may be 1e-10
// of the length off, and a weighted sum of n of them √n times that.
func TestNamedModelsAgree(t *testing.T) { namedModelAgrees(t, "resnet-small") }

func TestLongWideModelAgrees(t *testing.T) { namedModelAgrees(t, "wrn-16-4") }

func namedModelAgrees(t *testing.T, name string) {
	text, err := os.ReadFile("testdata/models.json")
	check(t, err)
	var golden map[string]struct {
		Logits    []float64
		Gradients [][3]float64
	}
	check(t, json.Unmarshal(text, &golden))
	want := golden[name]
	m, err := nn.Build(name, nn.Options{})
	check(t, err)
	net, err := m.Lower()
	check(t, err)
	p := net.Program
	s, err := perexample.Plain(p)
	check(t, err)
	if len(want.Gradients) != len(p.Params) {
		t.Fatalf("PyTorch has %d tensors, the program %d", len(want.Gradients), len(p.Params))
	}

	params := patternParams(p)
	pixels := make([]uint8, p.ValueSize(ir.Input))
	for i := range pixels {
		pixels[i] = devicetest.PatternPixel(0, i)
	}
	table, err := reference.Load(device.Rows{
		Count: 1, Width: len(pixels), Gather: ir.Gather{ir.ScaledBy(1.0/64, -2)}, Targets: []float32{3},
	}, device.Bytes(pixels))
	check(t, err)
	close64(t, "logits", reference.Values(p, params, table.Row(0), device.Float32)[p.Logits()], want.Logits)
	g := reference.Gradient(s, params, table, 0)
	for k, q := range p.Params {
		got := [3]float64{}
		for i, v := range g[q.Offset:][:q.Size()] {
			got[0] += v * v
			got[1] += v * devicetest.Direction(1000+2*k, i)
			got[2] += v * devicetest.Direction(1001+2*k, i)
		}
		got[0] = math.Sqrt(got[0])
		for i, v := range want.Gradients[k] {
			if d := math.Abs(got[i] - v); !(d <= 1e-10*want.Gradients[k][0]*math.Sqrt(float64(q.Size()))) || v == 0 {
				t.Errorf("figure %d of %s is %v, in PyTorch %v", i, q.Name, got[i], v)
			}
		}
	}
}

// patternParams are a program's parameters, which the script has too.
func patternParams(p *ir.Program) []float64 {
	var params []float64
	for _, v := range devicetest.PatternParams(p) {
		params = append(params, float64(v))
	}
	return params
}
