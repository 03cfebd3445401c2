package outputs_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/reference"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/outputs"
	"github.com/privgrad/privgrad/internal/plan"
	"github.com/privgrad/privgrad/internal/tables"
	"github.com/privgrad/privgrad/nn"
)

// The area is the share of pairs in the right order, counted one by one, with halves for equal scores. Targets are those of
// margins, and records that count as zero are in no pair.
func TestAreaCountsPairs(t *testing.T) {
	p := *line(t)
	p.Loss = ir.Logistic
	random := rand.New(rand.NewPCG(1, 1))
	for trial := range 50 {
		n := 2 + random.IntN(40)
		values, targets := make([]float32, n), make([]float32, n)
		for i := range values {
			values[i], targets[i] = float32(random.IntN(6)), float32(2*random.IntN(2)-1)
		}
		values[0], targets[0], targets[1] = float32(math.NaN()), 1, float32(math.NaN())
		pairs, right := 0., 0.
		for i := range n {
			for j := range n {
				if i > 1 && j > 1 && targets[i] > 0 && targets[j] < 0 {
					pairs++
					switch {
					case values[i] > values[j]:
						right++
					case values[i] == values[j]:
						right += 0.5
					}
				}
			}
		}
		f, err := outputs.Measure(outputs.New(&p, []float32{1, 0}), points(values, targets), datasets.Bounds{}, 2)
		if err != nil {
			t.Fatal(err)
		}
		if pairs == 0 {
			if f.AUC != nil {
				t.Errorf("trial %d: %v of one class", trial, *f.AUC)
			}
			continue
		}
		if !same(f.AUC, right/pairs) {
			t.Errorf("trial %d: got %v, want %v", trial, f.AUC, right/pairs)
		}
	}
}

// Of a network with a logit for each of two classes, the score is how much larger that of the second is.
func TestAreaOfTwoLogits(t *testing.T) {
	network, err := plan.BuildNetwork("mlp-small", nn.Options{Classes: 2, Seed: 3})
	if err != nil {
		t.Fatal(err)
	}
	const records = 12
	p, random := network.Program, rand.New(rand.NewPCG(2, 2))
	width := ir.Size(p.Shape)
	values, targets := make(device.Floats, records*width), make([]float32, records)
	for i := range values {
		values[i] = random.Float32()
	}
	for i := range targets {
		targets[i] = float32(i % 2)
	}
	r := tables.Records{Rows: device.Rows{Count: records, Width: width, Targets: targets}, Values: values}
	table, err := reference.Load(r.Rows, r.Values)
	if err != nil {
		t.Fatal(err)
	}
	n := outputs.New(p, network.Params())
	right := 0.
	for i := 1; i < records; i += 2 {
		for j := 0; j < records; j += 2 {
			if a, b := n.Of(table, i), n.Of(table, j); a[1]-a[0] > b[1]-b[0] {
				right++
			}
		}
	}
	f, err := outputs.Measure(n, r, datasets.Bounds{}, 1)
	if err != nil || !same(f.AUC, right/(records*records/4)) {
		t.Errorf("got %v, want %v; %v", f.AUC, right/(records*records/4), err)
	}
}

// There is no area of a network that diverged, of one that takes very long, or of values that are not at hand.
func TestNoArea(t *testing.T) {
	p := *line(t)
	p.Loss = ir.Logistic
	two := points([]float32{1, 2}, []float32{-1, 1})
	diverged := outputs.New(&p, []float32{float32(math.NaN()), 0})
	if f, err := outputs.Measure(diverged, two, datasets.Bounds{}, 1); err != nil || f != (outputs.Figures{}) {
		t.Errorf("diverged: %+v, %v", f, err)
	}
	if f, err := outputs.Measure(outputs.New(&p, []float32{1, 0}), tables.Records{Rows: two.Rows}, datasets.Bounds{}, 1); err != nil || f != (outputs.Figures{}) {
		t.Errorf("records that a device alone has: %+v, %v", f, err)
	}
	long := two
	long.Rows.Count = 1 << 40
	if f, err := outputs.Measure(outputs.New(&p, []float32{1, 0}), long, datasets.Bounds{}, 1); err != nil || f != (outputs.Figures{}) {
		t.Errorf("of very many records: %+v, %v", f, err)
	}
	if measure, err := outputs.Measurer(&p, long, datasets.Bounds{}, 1, nil); measure != nil || err != nil {
		t.Errorf("a run measures very many records: %v", err)
	}
}

func TestBalanced(t *testing.T) {
	for _, x := range []struct {
		name      string
		confusion [][]int
		want      float64 // NaN: none
	}{
		{"one rare class", [][]int{{90, 0}, {10, 0}}, 0.5},
		{"both in part", [][]int{{3, 1}, {1, 1}}, (0.75 + 0.5) / 2},
		{"a class without records", [][]int{{3, 1}, {0, 0}}, math.NaN()},
		{"three classes", [][]int{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}, math.NaN()},
		{"a regression", nil, math.NaN()},
	} {
		if got := outputs.Balanced(x.confusion); !same(got, x.want) && (got != nil || x.want == x.want) {
			t.Errorf("%s: got %v, want %v", x.name, got, x.want)
		}
	}
}
