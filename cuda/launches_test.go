package cuda

import (
	"testing"

	"github.com/privgrad/privgrad/internal/cuda/kernels"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/devicetest"
	"github.com/privgrad/privgrad/internal/device/record"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/perexample"
)

// model is one of package nn's.
func model(name string) *ir.Program {
	ce := ir.SoftmaxCrossEntropy
	switch name {
	case "cnn-mnist":
		return devicetest.LeNet(name, 28, 6, 16, 256, 128)
	case "mlp-mnist":
		b := devicetest.NewBuilder(name, ce, 1, 28, 28)
		b.Dense(b.Act(ir.ReLU, b.Dense(ir.Input, 1000, true)), 10, true)
		return b.Program()
	case "mnist-tf":
		b := devicetest.NewBuilder(name, ce, 1, 28, 28)
		x := b.Pool(ir.MaxPool, b.Act(ir.ReLU, b.Conv(ir.Input, 16, ir.Square(8, 2, 3), true)), ir.Square(2, 1, 0))
		x = b.Pool(ir.MaxPool, b.Act(ir.ReLU, b.Conv(x, 32, ir.Square(4, 2, 0), true)), ir.Square(2, 1, 0))
		b.Dense(b.Act(ir.ReLU, b.Dense(x, 32, true)), 10, true)
		return b.Program()
	}
	c, d := []int{32, 32, 64, 64, 128, 128}, []int{128}
	if name == "cifar-paper" {
		c, d = []int{32, 64, 128, 128, 256, 256}, []int{1024, 512}
	}
	b := devicetest.NewBuilder(name, ce, 3, 32, 32)
	x := ir.Input
	for i, n := range c {
		x = b.Act(ir.ReLU, b.Conv(x, n, ir.Square(3, 1, 1), true))
		if i%2 == 1 {
			x = b.Pool(ir.MaxPool, x, ir.Square(2, 2, 0))
		}
	}
	for _, n := range d {
		x = b.Act(ir.ReLU, b.Dense(x, n, true))
	}
	b.Dense(x, 10, true)
	return b.Program()
}

// TestLaunches counts what a private step takes: small networks are bound by it. docs/internals/gpu.md has the table. A plain step of a
// network that is all trunk and dense layers takes no more.
func TestLaunches(t *testing.T) {
	for name, launches := range map[string][2]int{"mlp-mnist": {6, 6}, "cnn-mnist": {11, 11}, "mnist-tf": {9, 9}, "cifar-small": {32, 57}, "cifar-paper": {35, 65}} {
		for precision, want := range launches {
			s, err := perexample.Private(model(name), perexample.Options{Strategy: perexample.Auto, Clipping: ir.Flat, Costs: costs(132), Batch: 300})
			if err != nil {
				t.Fatal(err)
			}
			countLaunches(t, s, device.Precision(precision), want)
		}
		if s, err := perexample.Plain(model(name)); err != nil {
			t.Error(err)
		} else if launches[0] <= 11 {
			countLaunches(t, s, device.Float32, launches[0])
		}
	}
}

func countLaunches(t *testing.T, s *ir.Schedule, p device.Precision, want int) {
	n := &net{Net: record.New(s, device.Options{Capacity: 300, Precision: p}, nil), vectors: []kernels.Ptr{1}}
	if err := n.arena.layOut(s, n.Options, 99<<10, false); err != nil {
		t.Fatal(err)
	}
	l := &list{net: n, step: noStep}
	l.clippedSum(1, 0, &table{})
	if l.err != nil {
		t.Fatal(l.err)
	}
	for _, w := range l.work {
		if name := w.launch.Name; (w.step == noStep) != (name == "" || name == "gather") { // zeroing has no name
			t.Errorf("%s counts for step %d", name, w.step)
		}
	}
	if got := len(l.work); got != want {
		t.Errorf("%s in %s: %d launches, want %d", s.Program.Name, p, got, want)
		for _, w := range l.work {
			t.Logf("%s %v", w.launch.Name, w.launch.Grid)
		}
	}
}
