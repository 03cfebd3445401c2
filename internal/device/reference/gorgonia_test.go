package reference_test

import (
	"math"
	"math/rand/v2"
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

// TestGorgoniaAgrees compares the plain sum of a batch of two with the
// gradients that Gorgonia's own tape machine finds, in float32.
func TestGorgoniaAgrees(t *testing.T) {
	gorgoniaAgrees(t, []model{
		{"mlp-mnist", "relu"}, {"mlp-fmnist", "relu"}, {"mlp-fmnist", "tanh"}, {"cnn-mnist", "relu"}, {"cnn-mnist", "tanh"},
		{"logistic", ""}, {"svm", ""},
	})
}

// TestLongGorgoniaAgrees takes the large models.
func TestLongGorgoniaAgrees(t *testing.T) {
	gorgoniaAgrees(t, []model{{"cifar-small", "tanh"}, {"cifar-paper", "tanh"}})
}

type model struct{ model, activation string }

func gorgoniaAgrees(t *testing.T, models []model) {
	for _, test := range models {
		t.Run(test.model+" "+test.activation, func(t *testing.T) {
			const batch = 2
			m, err := nn.Build(test.model, nn.Options{Batch: batch, Input: info(t, test.model).Input, Activation: test.activation, Seed: 3})
			check(t, err)
			net, err := m.Lower()
			check(t, err)
			p := net.Program
			c := &devicetest.Case{Program: p, Params: net.Params(), Rows: device.Rows{
				Count: batch, Width: ir.Size(p.Shape), Gather: ir.Gather{ir.ScaledBy(1.0/64, -2)}, Targets: []float32{3, 8},
			}}
			if p.Loss != ir.SoftmaxCrossEntropy {
				c.Rows.Targets = []float32{-1, -1} // at zero weights, opposite targets cancel in the bias
			}
			rnd := rand.New(rand.NewPCG(22, 3))
			for range batch * c.Rows.Width {
				c.Features = append(c.Features, uint8(rnd.UintN(256)))
			}
			zeroFree(t, c)
			s, err := perexample.Plain(p)
			check(t, err)
			sum := devicetest.Open(t, reference.Open(), s, c, batch).Of(t, c.All(), 0)
			want := gorgonia(t, m, c)
			for _, q := range p.Params {
				got, leaf := sum[q.Offset:][:q.Size()], want[q.Node]
				if len(q.Shape) == 2 {
					leaf = transposed(leaf, q.Shape[1], q.Shape[0])
				}
				if devicetest.Norm(leaf) == 0 {
					t.Errorf("%s has no gradient", q.Name)
				}
				t.Run(q.Name, func(t *testing.T) { devicetest.Near(t, got, leaf, 1e-4) })
			}
		})
	}
}

// info describes a model; a linear one takes small images here.
func info(t *testing.T, model string) nn.Info {
	for _, i := range nn.Names() {
		if i.Name == model {
			if i.Input == [3]int{} {
				i.Input = [3]int{1, 6, 7}
			}
			return i
		}
	}
	t.Fatalf("no model %s", model)
	return nn.Info{}
}

// zeroFree fails where a ReLU sees exactly 0: Gorgonia's derivative there is 1.
func zeroFree(t *testing.T, c *devicetest.Case) {
	params := make([]float64, len(c.Params))
	for i, x := range c.Params {
		params[i] = float64(x)
	}
	for row := range c.Rows.Count {
		x := make([]float64, c.Rows.Width)
		for i, b := range c.Features[row*c.Rows.Width:][:c.Rows.Width] {
			x[i] = float64(b)/64 - 2
		}
		values := reference.Values(c.Program, params, x, device.Float32)
		for _, op := range c.Program.Ops {
			if op.Kind != ir.ReLU {
				continue
			}
			for _, v := range values[op.In[0]] {
				if math.Abs(v) < 1e-6 {
					t.Fatalf("%s sees a zero", op.Name)
				}
			}
		}
	}
}

// gorgonia gives the gradient of the batch's summed cross-entropy at every
// parameter, by node name.
func gorgonia(t *testing.T, m *nn.Model, c *devicetest.Case) map[string][]float32 {
	t.Helper()
	classes := c.Program.Outputs()
	truth := make([]float32, c.Rows.Count*classes)
	for row, target := range c.Rows.Targets {
		if c.Program.Loss == ir.SoftmaxCrossEntropy {
			truth[row*classes+int(target)] = 1
		} else {
			truth[row] = target
		}
	}
	x := make([]float32, len(c.Features))
	for i, b := range c.Features {
		x[i] = float32(b)*c.Rows.Gather[0].Scale + c.Rows.Gather[0].Offset
	}
	check(t, G.Let(m.Input, tensor.New(tensor.WithShape(m.Input.Shape()...), tensor.WithBacking(x))))
	oneHot := G.NewMatrix(m.Graph, tensor.Float32, G.WithShape(c.Rows.Count, classes), G.WithName("truth"),
		G.WithValue(tensor.New(tensor.WithShape(c.Rows.Count, classes), tensor.WithBacking(truth))))
	var cost *G.Node
	switch c.Program.Loss {
	case ir.Logistic:
		cost = must(t)(G.Sum(must(t)(G.Softplus(must(t)(G.Neg(must(t)(G.HadamardProd(m.Logits, oneHot))))))))
	case ir.Hinge:
		one := G.NewConstant(float32(1))
		cost = must(t)(G.Sum(must(t)(G.Rectify(must(t)(G.Sub(one, must(t)(G.HadamardProd(m.Logits, oneHot))))))))
	default:
		cost = must(t)(G.SoftMax(m.Logits))
		cost = must(t)(G.Neg(must(t)(G.Sum(must(t)(G.HadamardProd(must(t)(G.Log(cost)), oneHot))))))
	}

	var leaves G.Nodes
	for _, q := range c.Program.Params {
		found := m.Graph.ByName(q.Node)
		if len(found) != 1 {
			t.Fatalf("the graph has %d nodes named %s", len(found), q.Node)
		}
		leaves = append(leaves, found[0])
	}
	if _, err := G.Grad(cost, leaves...); err != nil {
		t.Fatal(err)
	}
	machine := G.NewTapeMachine(m.Graph, G.BindDualValues(leaves...))
	check(t, machine.RunAll())
	grads := map[string][]float32{}
	for _, leaf := range leaves {
		v, err := leaf.Grad()
		check(t, err)
		grads[leaf.Name()] = v.Data().([]float32)
	}
	check(t, machine.Close())
	return grads
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func must(t *testing.T) func(*G.Node, error) *G.Node {
	return func(n *G.Node, err error) *G.Node {
		t.Helper()
		check(t, err)
		return n
	}
}

// transposed reads a rows×cols matrix by columns.
func transposed(x []float32, rows, cols int) []float32 {
	y := make([]float32, len(x))
	for i := range rows {
		for j := range cols {
			y[j*rows+i] = x[i*cols+j]
		}
	}
	return y
}
