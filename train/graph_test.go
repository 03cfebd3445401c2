package train

import (
	"context"
	"math"
	"path/filepath"
	"testing"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/internal/cpu"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/engine"
	"github.com/privgrad/privgrad/internal/tables"
	"github.com/privgrad/privgrad/nn"
	"github.com/privgrad/privgrad/perexample"
)

// A user's own graph trains without touching the project, and Gorgonia's tape
// machine then runs the trained model: its mean loss and accuracy on the test
// data are the run's own.
func TestGorgoniaRunsTheTrainedGraph(t *testing.T) {
	set := made(1, 400)
	n := len(set.Test.Labels)
	g := G.NewGraph()
	x := G.NewTensor(g, tensor.Float32, 4, G.WithShape(n, 1, 8, 8), G.WithName("x"))
	logits, err := nn.Apply(x,
		nn.Conv("edges", 5, 3, 1, 1, nn.Glorot(1)), nn.Tanh, nn.MaxPool(2, 2), nn.Flatten,
		nn.Dense("hidden", 12, nn.Glorot(2)), nn.ReLU, nn.Dense("out", 4, nn.Glorot(3)))
	check(t, err)
	network, err := nn.Lower(logits, nn.WithName("mine"))
	check(t, err)
	before := network.Params()
	c := small()
	c.Classes, c.Model, c.Batch, c.Steps = nil, "", ptr(100.0), ptr(60)
	r := finished(t, c, Options{Sources: sources(set), Out: filepath.Join(t.TempDir(), "run"), Network: network})
	if r.Model != "mine" || !r.Guarantee || *r.TestAccuracy < 0.6 {
		t.Errorf("model %s, guarantee %v, accuracy %v", r.Model, r.Guarantee, *r.TestAccuracy)
	}
	moved := 0.0
	for i, w := range network.Params() {
		moved = math.Max(moved, math.Abs(float64(w-before[i])))
	}
	if moved == 0 {
		t.Fatal("training did not reach the graph's nodes")
	}

	pixels := make([]float32, len(set.Test.Features))
	for i, b := range set.Test.Features {
		pixels[i] = float32(b)/127.5 - 1
	}
	check(t, G.Let(x, tensor.New(tensor.WithShape(n, 1, 8, 8), tensor.WithBacking(pixels))))
	m := G.NewTapeMachine(g)
	defer m.Close()
	check(t, m.RunAll())
	out := logits.Value().Data().([]float32)
	loss, correct := 0.0, 0
	for i, label := range set.Test.Labels {
		z := out[4*i : 4*i+4]
		best, sum := 0, 0.0
		for k, v := range z {
			sum += math.Exp(float64(v))
			if v > z[best] {
				best = k
			}
		}
		loss += math.Log(sum) - float64(z[label])
		if i < 20 {
			for k, v := range z {
				if got, want := ours(t, network, set.Test, i, uint8(k)), math.Log(sum)-float64(v); math.Abs(got-want) > 1e-5 {
					t.Errorf("row %d, class %d: loss %v, Gorgonia's logits give %v", i, k, got, want)
				}
			}
		}
		if best == int(label) {
			correct++
		}
	}
	if got := loss / float64(n); math.Abs(got-*r.TestLoss) > 1e-5 {
		t.Errorf("Gorgonia's mean loss is %v, the run's %v", got, *r.TestLoss)
	}
	if got := float64(correct) / float64(n); got != *r.TestAccuracy {
		t.Errorf("Gorgonia's accuracy is %v, the run's %v", got, *r.TestAccuracy)
	}
}

// ours is the CPU device's loss of one row if its label were the given one;
// over all labels that is the row's logits up to a shift.
func ours(t *testing.T, network *nn.Network, im datasets.Split, i int, label uint8) float64 {
	t.Helper()
	s, err := perexample.Plain(network.Program)
	check(t, err)
	d, err := cpu.Open(1)
	check(t, err)
	net, err := d.Compile(s, device.Options{Capacity: 1})
	check(t, err)
	defer net.Close()
	check(t, net.Write(net.Params(), network.Params()))
	size := len(im.Features) / len(im.Labels)
	one := datasets.Split{Shape: im.Shape, Features: im.Features[i*size : (i+1)*size], Labels: []uint8{label}}
	data, err := tables.Reader{Loss: network.Program.Loss, Classes: network.Program.Outputs()}.Load(d, one)
	check(t, err)
	score, err := engine.Scorer(net, net.Params(), data)
	check(t, err)
	got, err := score()
	check(t, err)
	return got.Loss
}

func TestOwnGraphMustFitTheData(t *testing.T) {
	set := made(1, 400)
	g := G.NewGraph()
	x := G.NewTensor(g, tensor.Float32, 2, G.WithShape(1, 64), G.WithName("x"))
	logits, err := nn.Apply(x, nn.Dense("out", 3, nn.Glorot(1)))
	check(t, err)
	network, err := nn.Lower(logits)
	check(t, err)
	c := small()
	c.Classes, c.Model = nil, ""
	_, err = Run(context.Background(), c, Options{Sources: sources(set), Out: filepath.Join(t.TempDir(), "run"), Network: network})
	if err == nil {
		t.Fatal("three logits were trained on four classes")
	}
	want := "network graph with loss softmax-cross-entropy tells 3 classes apart, made has 4: keep some of its classes"
	if err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
}
