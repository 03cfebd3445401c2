package cpu_test

import (
	"strings"
	"testing"

	"github.com/privgrad/privgrad/internal/device/devicetest"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/nn"
	"github.com/privgrad/privgrad/perexample"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// TestViewsAgree compares a wide residual network's gradients over views, and their clipped sum, with those that PyTorch found in float64.
//
// Roundings of 2⁻²⁴ reach 2.4e-5 of a tensor: that was the most with parameters moved at random by up to 3e-7 of theirs, ten times, for other
// orders of sums. 1e-4 is four times that. The records of the file keep units from the kinks of ReLU: one that falls on the other side
// makes some 1e-3.
func TestViewsAgree(t *testing.T) { viewsAgree(t, perexample.Auto) }

func TestLongViewsAgree(t *testing.T) {
	viewsAgree(t, perexample.Materialise, perexample.Ghost, perexample.Bookkeeping, perexample.Microbatch)
}

func viewsAgree(t *testing.T, strategies ...perexample.Strategy) {
	const name = "wrn-16-4"
	m, err := nn.Build(name, nn.Options{})
	check(t, err)
	net, err := m.Lower()
	check(t, err)
	g := devicetest.NewGoldenViews(t, name, net.Program)
	for _, s := range strategies {
		t.Run(string(s), func(t *testing.T) { g.On(t, open(t, 2), s, 1e-4) })
	}
}

// TestOwnGraphViews has a user's own graph: nodes of Gorgonia and layers of nn, of images that are not square.
func TestOwnGraphViews(t *testing.T) {
	g := G.NewGraph()
	x := G.NewTensor(g, tensor.Float32, 4, G.WithShape(1, 2, 7, 6), G.WithName("x"))
	w := G.NewTensor(g, tensor.Float32, 4, G.WithShape(4, 2, 3, 3), G.WithName("edges"), G.WithInit(G.GlorotU(1)))
	h := must(t)(G.Conv2d(x, w, tensor.Shape{3, 3}, []int{1, 1}, []int{2, 1}, []int{1, 1}))
	h = must(t)(G.Tanh(h))
	logits := must(t)(nn.Apply(h, nn.GroupNorm("norm", 2), nn.Flatten, nn.Dense("hidden", 5, nn.Glorot(2)), nn.GELU, nn.Dense("out", 3, nn.Glorot(3))))
	net, err := nn.Lower(logits, nn.WithName("mine"))
	check(t, err)
	devicetest.ViewSums(t, open(t, 2), net.Program)

	rows := G.NewMatrix(G.NewGraph(), tensor.Float32, G.WithShape(1, 84), G.WithName("x"))
	net, err = nn.Lower(must(t)(nn.Apply(rows, nn.Dense("out", 3, nn.Glorot(4)))))
	check(t, err)
	flip := ir.Gather{{Kind: ir.Flip}}
	if _, err := perexample.Private(net.Program, perexample.Options{Strategy: perexample.Auto, Clipping: ir.Flat, Views: 3, Augment: flip}); err == nil || !strings.Contains(err.Error(), "needs images") {
		t.Errorf("views of records that are no images: %v", err)
	}
}

func must(t *testing.T) func(*G.Node, error) *G.Node {
	return func(n *G.Node, err error) *G.Node {
		t.Helper()
		check(t, err)
		return n
	}
}
