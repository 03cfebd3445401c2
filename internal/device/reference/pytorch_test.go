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
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// TestPyTorchAgrees compares the logits and each record's gradient of a network of one's own with those that PyTorch found,
// in float64 both (scripts/nn_golden.py, which has the same network). The parameters and the inputs are exact in float32.
//
// Each of the five layers adds at most some hundred roundings of 2⁻⁵³, and the largest factor by which one hands an
// error on is the hundredfold of a kernel below the floor: 1e-10 of the largest element is a thousand times that. The
// digits of the file err by 1e-13.
func TestPyTorchAgrees(t *testing.T) {
	text, err := os.ReadFile("testdata/pytorch.json")
	check(t, err)
	var golden struct {
		Pixels            []int
		Targets           []float32
		Logits            []float64
		Params, Gradients map[string][]float64
	}
	check(t, json.Unmarshal(text, &golden))

	x := G.NewTensor(G.NewGraph(), tensor.Float32, 4, G.WithShape(1, 2, 5, 5), G.WithName("x"))
	init := nn.He(1)
	logits := must(t)(nn.Apply(x,
		nn.StandardConv("a", 4, 3, 1, 1, init), nn.GroupNorm("b", 2), nn.GELU, nn.LayerNorm("c"), nn.AvgPool(2, 2),
		nn.Flatten, nn.Dense("d", 5, init), nn.LayerNorm("e"), nn.GELU, nn.Dense("f", 3, init)))
	net, err := nn.Lower(logits)
	check(t, err)
	p := net.Program
	s, err := perexample.Plain(p)
	check(t, err)

	c := &devicetest.Case{Program: p, Params: net.Params(), Rows: device.Rows{
		Count: len(golden.Targets), Width: p.ValueSize(0), Gather: ir.Gather{ir.ScaledBy(1.0/64, -2)}, Targets: golden.Targets,
	}}
	for _, b := range golden.Pixels {
		c.Features = append(c.Features, uint8(b))
	}
	table, err := reference.Load(c.Rows, c.Features)
	check(t, err)
	if len(golden.Params) != len(p.Params) {
		t.Fatalf("PyTorch has %d parameters, the program %d", len(golden.Params), len(p.Params))
	}
	params := make([]float64, p.NumParams())
	for _, q := range p.Params {
		if n := copy(params[q.Offset:][:q.Size()], golden.Params[q.Name]); n != q.Size() {
			t.Fatalf("PyTorch has %d elements of %s, the program %d", n, q.Name, q.Size())
		}
	}
	for row := range c.Rows.Count {
		outputs := p.Outputs()
		values := reference.Values(p, params, table.Row(int32(row)), device.Float32)
		close64(t, "logits", values[p.Logits()], golden.Logits[row*outputs:][:outputs])
		g := reference.Gradient(s, params, table, int32(row))
		for _, q := range p.Params {
			close64(t, q.Name, g[q.Offset:][:q.Size()], golden.Gradients[q.Name][row*q.Size():][:q.Size()])
		}
	}
}

// close64 wants no element to differ by more than 1e-10 of the largest.
func close64(t *testing.T, what string, got, want []float64) {
	t.Helper()
	largest := 0.0
	for _, v := range want {
		largest = max(largest, math.Abs(v))
	}
	if largest == 0 {
		t.Errorf("%s: PyTorch finds nothing but zeros", what)
	}
	for i, v := range want {
		if d := math.Abs(got[i] - v); !(d <= 1e-10*largest) {
			t.Errorf("%s: element %d is %v, in PyTorch %v", what, i, got[i], v)
		}
	}
}
