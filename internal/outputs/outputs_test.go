package outputs_test

import (
	"errors"
	"math"
	"testing"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/outputs"
	"github.com/privgrad/privgrad/internal/plan"
	"github.com/privgrad/privgrad/internal/tables"
	"github.com/privgrad/privgrad/nn"
)

// line is a regression z = w·x + b.
func line(t *testing.T) *ir.Program {
	t.Helper()
	network, err := plan.BuildNetwork("huber-regression", nn.Options{Input: [3]int{1, 1, 1}, Activation: "relu", Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	return network.Program
}

// points are records with one value and a target each.
func points(values, targets []float32) tables.Records {
	return tables.Records{Rows: device.Rows{Count: len(values), Width: 1, Targets: targets}, Values: device.Floats(values)}
}

func same(got *float64, want float64) bool {
	return got != nil && math.Abs(*got-want) < 1e-12
}

// Errors are those of a definition by hand, in the units of the label, and leave out records that count as zero.
func TestErrors(t *testing.T) {
	p := line(t)
	nan := float32(math.NaN())
	r := points([]float32{0, 0.5, 1, nan, 0.25}, []float32{0.25, 0.5, 0.5, 0, nan})
	network := outputs.New(p, []float32{1, 0}) // z = x: the errors are −0.25, 0 and 0.5
	for _, x := range []struct {
		bounds datasets.Bounds
		width  float64
	}{{datasets.Bounds{}, 1}, {datasets.Bounds{-20, 300}, 320}} {
		e, err := outputs.Measure(network, r, x.bounds, 2)
		if err != nil {
			t.Fatal(err)
		}
		squares, mean := 0.0625+0.25, 1.25/3
		variance := (0.25-mean)*(0.25-mean) + 2*(0.5-mean)*(0.5-mean)
		if !same(e.RMSE, x.width*math.Sqrt(squares/3)) || !same(e.MAE, x.width*0.25) || !same(e.R2, 1-squares/variance) {
			t.Errorf("bounds %v: %v %v %v", x.bounds, *e.RMSE, *e.MAE, *e.R2)
		}
	}
}

// There are no errors without records, of a network that diverged, and of one with classes; and no R² of equal labels.
func TestNoErrors(t *testing.T) {
	p := line(t)
	classes := *p
	classes.Loss = ir.Logistic
	for name, x := range map[string]struct {
		network outputs.Network
		records tables.Records
	}{
		"no record": {outputs.New(p, []float32{1, 0}), points([]float32{}, []float32{})},
		"diverged":  {outputs.New(p, []float32{float32(math.Inf(1)), 0}), points([]float32{1}, []float32{1})},
		"classes":   {outputs.New(&classes, []float32{1, 0}), points([]float32{1}, []float32{1})},
	} {
		if e, err := outputs.Measure(x.network, x.records, datasets.Bounds{}, 1); err != nil || e != (outputs.Figures{}) {
			t.Errorf("%s: %+v, %v", name, e, err)
		}
	}
	e, err := outputs.Measure(outputs.New(p, []float32{1, 0}), points([]float32{0, 1}, []float32{0.5, 0.5}), datasets.Bounds{}, 1)
	if err != nil || !same(e.RMSE, 0.5) || e.R2 != nil {
		t.Errorf("of equal labels: %+v, %v", e, err)
	}
}

// A run measures with the parameters as they are, and not where that would take long.
func TestMeasurer(t *testing.T) {
	p, r := line(t), points([]float32{0, 1}, []float32{0, 1})
	at := []float32{1, 0}
	measure, err := outputs.Measurer(p, r, datasets.Bounds{}, 1, func(params []float32) error { copy(params, at); return nil })
	if err != nil {
		t.Fatal(err)
	}
	for _, bias := range []float32{0, 0.5} {
		at[1] = bias
		if e, err := measure(); err != nil || !same(e.RMSE, float64(bias)) {
			t.Errorf("bias %v: %+v, %v", bias, e, err)
		}
	}
	broken := errors.New("no device")
	measure, err = outputs.Measurer(p, r, datasets.Bounds{}, 1, func([]float32) error { return broken })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := measure(); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	large := r
	large.Rows.Count = 1 << 40
	if measure, err := outputs.Measurer(p, large, datasets.Bounds{}, 1, nil); measure != nil || err != nil {
		t.Errorf("of very many records: %v", err)
	}
}

// Of errors the first record's is told, and a panic is one.
func TestEach(t *testing.T) {
	done := make([]bool, 50)
	if err := outputs.Each(3, len(done), func(i int) error { done[i] = true; return nil }); err != nil {
		t.Error(err)
	}
	for i, ok := range done {
		if !ok {
			t.Errorf("%d was left out", i)
		}
	}
	first := errors.New("7")
	err := outputs.Each(0, 50, func(i int) error {
		switch i {
		case 7:
			return first
		case 9:
			panic("nine")
		}
		return nil
	})
	if !errors.Is(err, first) {
		t.Errorf("got %v", err)
	}
	if err := outputs.Each(1, 1, func(int) error { panic("one") }); err == nil {
		t.Error("a panic is no error")
	}
}
