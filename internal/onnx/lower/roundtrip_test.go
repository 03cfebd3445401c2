package lower

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/devicetest"
	"github.com/privgrad/privgrad/internal/device/reference"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/onnx"
	"github.com/privgrad/privgrad/internal/onnx/export"
	"github.com/privgrad/privgrad/internal/onnx/file"
	"github.com/privgrad/privgrad/nn"
)

// exported writes a program and reads the file.
func exported(t *testing.T, p *ir.Program, params []float32) *file.Model {
	t.Helper()
	g := onnx.New(p.Name)
	out, err := export.Program(g, p, params, g.Input("x", onnx.Float32, p.Shape...))
	if err != nil {
		t.Fatal(err)
	}
	g.Output("y", out, p.Outputs())
	var b bytes.Buffer
	if err := g.Write(&b, "test", "", nil); err != nil {
		t.Fatal(err)
	}
	m, err := file.Decode(b.Bytes(), "")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// logits are a network's of one record.
func logits(p *ir.Program, params []float32, x []float64) []float64 {
	return reference.Values(p, widened(params), x, device.Float32)[p.Logits()]
}

func widened(list []float32) []float64 {
	out := make([]float64, len(list))
	for i, v := range list {
		out[i] = float64(v)
	}
	return out
}

func randoms(r *rand.Rand, n int) []float64 {
	list := make([]float64, n)
	for i := range list {
		list[i] = r.NormFloat64()
	}
	return list
}

// agree compares two networks on records. Both compute in float64 from the same float32 parameters; those that were multiplied
// or folded have a rounding of 2⁻²⁴ each, of sums of some hundred terms.
func agree(t *testing.T, what string, p *ir.Program, params []float32, q *ir.Program, other []float32) {
	t.Helper()
	r := rand.New(rand.NewPCG(5, 6))
	for range 3 {
		x := randoms(r, ir.Size(p.Shape))
		want, got := logits(p, params, x), logits(q, other, x)
		if len(got) != len(want) {
			t.Fatalf("%s: %d logits, want %d", what, len(got), len(want))
		}
		for i := range want {
			if !(math.Abs(got[i]-want[i]) <= 1e-5*max(1, math.Abs(want[i]))) {
				t.Errorf("%s: logit %d is %v, want %v", what, i, got[i], want[i])
				return
			}
		}
	}
}

// alike compares two programs but for names: of dense layers and of what works on each element, only the sizes count.
func alike(t *testing.T, p, q *ir.Program) {
	t.Helper()
	if len(p.Ops) != len(q.Ops) || len(p.Params) != len(q.Params) {
		t.Fatalf("%s: %d ops and %d parameters, want %d and %d:\n%v\n%v", p.Name, len(q.Ops), len(q.Params), len(p.Ops), len(p.Params), p, q)
	}
	for i := range p.Ops {
		a, b := p.Ops[i], q.Ops[i]
		if a.Function != ir.Identity { // the file has what the function makes
			a.Function, a.Given = ir.Identity, nil
			a.Weight, a.Bias = b.Weight, b.Bias
		}
		a.Name, b.Name = "", ""
		switch a.Kind {
		case ir.Dense, ir.ReLU, ir.LeakyReLU, ir.Tanh, ir.Sigmoid, ir.GELU, ir.Add, ir.LayerNorm, ir.GroupNorm:
			a.Shape, b.Shape = []int{ir.Size(a.Shape)}, []int{ir.Size(b.Shape)}
			a.Out, b.Out = []int{ir.Size(a.Out)}, []int{ir.Size(b.Out)}
		}
		a.Slope, b.Slope = 0, 0
		a.Epsilon, b.Epsilon = float64(float32(a.Epsilon)), float64(float32(b.Epsilon))
		if x, y := fmt.Sprintf("%+v", a), fmt.Sprintf("%+v", b); x != y {
			t.Errorf("%s: op %d is\n%s, want\n%s", p.Name, i, y, x)
		}
	}
	for i := range p.Params {
		if x, y := fmt.Sprint(p.Params[i].Shape), fmt.Sprint(q.Params[i].Shape); x != y {
			t.Errorf("%s: parameter %d has shape %s, want %s", p.Name, i, y, x)
		}
	}
}

// What is exported comes back as the network that it was.
func TestRoundTrip(t *testing.T) {
	for _, p := range devicetest.Programs() {
		r := rand.New(rand.NewPCG(3, 4))
		params := make([]float32, p.NumParams())
		for i := range params {
			params[i] = float32(r.NormFloat64())
		}
		n, err := Lower(exported(t, p, params), Choices{Weights: OfFile})
		if err != nil {
			t.Errorf("%s: %v", p.Name, err)
			continue
		}
		if !standardized(p) {
			alike(t, p, n.Program)
		}
		agree(t, p.Name, p, params, n.Program, n.Params)
	}
}

// standardized networks have parameters that no file has.
func standardized(p *ir.Program) bool {
	for i := range p.Ops {
		if p.Ops[i].Function != ir.Identity {
			return true
		}
	}
	return false
}

// The networks of package nn come back from files, with its names of parameters.
func TestNamedModels(t *testing.T) {
	for _, c := range []struct{ name, activation string }{{"mlp-small", "sigmoid"}, {"cnn-mnist", "tanh"}, {"mnist-tf", "gelu"}, {"cifar-small", "relu"}, {"resnet-small", ""}, {"logistic", ""}} {
		o := nn.Options{Seed: 4, Activation: c.activation}
		if c.name == "logistic" {
			o.Input = [3]int{1, 1, 20}
		}
		m, err := nn.Build(c.name, o)
		if err != nil {
			t.Fatal(err)
		}
		net, err := m.Lower()
		if err != nil {
			t.Fatal(err)
		}
		n := lowered(t, exported(t, net.Program, net.Params()), Choices{Weights: OfFile})
		alike(t, net.Program, n.Program)
		agree(t, c.name, net.Program, net.Params(), n.Program, n.Params)
		for i, q := range net.Program.Params {
			if n.Program.Params[i].Name != q.Name {
				t.Errorf("%s: parameter %d is %s, want %s", c.name, i, n.Program.Params[i].Name, q.Name)
			}
		}
		if n.Program.Loss != net.Program.Loss {
			t.Errorf("%s: loss %s, want %s", c.name, n.Program.Loss, net.Program.Loss)
		}
	}
}
