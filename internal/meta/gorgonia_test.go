package meta

import (
	"fmt"
	"math/rand/v2"
	"testing"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/privgrad/privgrad/internal/device"
)

// graph is an LSTM over n parameters in Gorgonia's ops, for two steps, with Gorgonia's own gradient.
type graph struct {
	t *testing.T
	g *G.ExprGraph
}

func (b graph) must(n *G.Node, err error) *G.Node {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
	return n
}

func (b graph) matrix(name string, rows, cols int, data []float64) *G.Node {
	v := tensor.New(tensor.WithShape(rows, cols), tensor.WithBacking(append([]float64(nil), data...)))
	return G.NewMatrix(b.g, tensor.Float64, G.WithShape(rows, cols), G.WithName(name), G.WithValue(v))
}

func (b graph) mul(x, y *G.Node) *G.Node  { return b.must(G.Mul(x, y)) }
func (b graph) each(x, y *G.Node) *G.Node { return b.must(G.HadamardProd(x, y)) }
func (b graph) add(x ...*G.Node) *G.Node {
	total := x[0]
	for _, y := range x[1:] {
		total = b.must(G.Add(total, y))
	}
	return total
}

// The outputs' weighted sum and its gradient with respect to every weight, against
// an LSTM and its derivative that Gorgonia makes. Sums of a few dozen terms.
func TestGorgonia(t *testing.T) {
	shape := device.LSTM{Layers: 2, Hidden: 3, Context: 3}
	const n, steps = 4, 2
	r := rand.New(rand.NewPCG(8, 8))
	weights := normals(r, shape.Weights(), 0.6)
	w := newNetwork(shape, weights)
	before, toY := normals(r, shape.States()*n, 0.5), normals(r, n, 1)
	var xs, contexts [steps][]float64
	for i := range steps {
		xs[i], contexts[i] = normals(r, n, 1), normals(r, shape.Context, 1)
	}

	b := graph{t, G.NewGraph()}
	ones := make([]float64, n)
	fill(ones, 1)
	row := b.matrix("ones", 1, n, ones)
	gates := []string{"input", "forget", "cell", "output"}
	type part struct {
		node *G.Node
		at   int // in the weights
	}
	var parts []part
	weight := func(name string, rows, cols, at int) *G.Node {
		node := b.matrix(name, rows, cols, weights[at:at+rows*cols])
		parts = append(parts, part{node, at})
		return node
	}
	h := shape.Hidden
	var own, last, bias [2][4]*G.Node
	at := 0
	for k := range shape.Layers {
		in := shape.Inputs(k)
		for i, gate := range gates {
			own[k][i] = weight(fmt.Sprint("own", k, gate), h, in, at+i*h*in)
			last[k][i] = weight(fmt.Sprint("last", k, gate), h, h, at+4*h*in+i*h*h)
			bias[k][i] = weight(fmt.Sprint("bias", k, gate), h, 1, at+4*h*in+4*h*h+i*h)
		}
		at += shape.LayerWeights(k)
	}
	out, outBias := weight("out", 1, h, at), weight("outbias", 1, 1, at+h)
	var hidden, cells [2]*G.Node
	for k := range shape.Layers {
		hidden[k] = b.matrix(fmt.Sprint("h", k), h, n, w.hidden(before, k, n))
		cells[k] = b.matrix(fmt.Sprint("c", k), h, n, w.cells(before, k, n))
	}
	var total *G.Node
	seed := b.matrix("seed", n, 1, toY)
	for s := range steps {
		read := append([]float64(nil), xs[s]...)
		for _, v := range contexts[s] {
			for range n {
				read = append(read, v)
			}
		}
		below := b.matrix(fmt.Sprint("x", s), 1+shape.Context, n, read)
		for k := range shape.Layers {
			var g [4]*G.Node
			for i := range gates {
				pre := b.add(b.mul(own[k][i], below), b.mul(last[k][i], hidden[k]), b.mul(bias[k][i], row))
				if i == 2 {
					g[i] = b.must(G.Tanh(pre))
				} else {
					g[i] = b.must(G.Sigmoid(pre))
				}
			}
			cells[k] = b.add(b.each(g[1], cells[k]), b.each(g[0], g[2]))
			hidden[k] = b.each(g[3], b.must(G.Tanh(cells[k])))
			below = hidden[k]
		}
		y := b.add(b.mul(out, below), b.mul(outBias, row))
		loss := b.must(G.Sum(b.mul(y, seed)))
		if total == nil {
			total = loss
		} else {
			total = b.add(total, loss)
		}
	}
	var nodes G.Nodes
	for _, p := range parts {
		nodes = append(nodes, p.node)
	}
	if _, err := G.Grad(total, nodes...); err != nil {
		t.Fatal(err)
	}
	vm := G.NewTapeMachine(b.g, G.BindDualValues(nodes...))
	defer vm.Close()
	if err := vm.RunAll(); err != nil {
		t.Fatal(err)
	}

	var passes []*pass
	state, y, value := before, make([]float64, n), 0.0
	for s := range steps {
		passes = append(passes, w.forward(xs[s], contexts[s], state, y))
		state = passes[s].state
		value += dot(y, toY)
	}
	near(t, "value", value, total.Value().Data().(float64), 1e-12)
	grad, down := make([]float64, shape.Weights()), make([]float64, shape.States()*n)
	for s := steps - 1; s >= 0; s-- {
		w.backward(passes[s], xs[s], toY, down, make([]float64, n), make([]float64, shape.Context), newNetwork(shape, grad))
	}
	for _, p := range parts {
		v, err := p.node.Grad()
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range tensor.Tensor(v.(*tensor.Dense)).Data().([]float64) {
			near(t, fmt.Sprintf("%s %d", p.node.Name(), i), grad[p.at+i], want, 1e-11)
		}
	}
}
