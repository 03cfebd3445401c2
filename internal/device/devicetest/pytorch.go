package devicetest

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"math"
	"testing"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/perexample"
)

//go:embed testdata/views.json
var viewsByPyTorch []byte

// GoldenViews are records of a named model in several views, and what PyTorch's torch.func found of them in float64
// (scripts/views_golden.py, which makes the views by itself). Parameters and pixels are exact in float32. No unit is nearer to the kink of
// ReLU than the file's "kink" times the root mean square of its layer's.
type GoldenViews struct {
	*Case
	Views   int // of each record
	Augment ir.Gather
	Words   []uint32 // of all records, a record's one after the other
	Clip    float64  // exact in float32; one record is shorter

	norms   []float64
	records [][]digest // of each record's mean gradient, by tensor
	sum     []digest   // of their clipped sum
}

// digest has of a tensor its length, two sums weighted by directions, and elements of its whole length.
type digest [3 + 5]float64

// NewGoldenViews are those of a program that nn.Build and Lower made, by the model's name.
func NewGoldenViews(t testing.TB, model string, p *ir.Program) *GoldenViews {
	t.Helper()
	var file struct {
		Targets []float32
		Words   [][]uint32
		Models  map[string]struct {
			Images  []int // what their patterns are of
			Clip    float64
			Norms   []float64
			Records [][]digest
			Sum     []digest
		}
	}
	must(t, json.Unmarshal(viewsByPyTorch, &file))
	m, ok := file.Models[model]
	if !ok || len(m.Sum) != len(p.Params) {
		t.Fatalf("PyTorch has %d tensors of %s, the program %d", len(m.Sum), model, len(p.Params))
	}
	g := &GoldenViews{
		Case: &Case{Program: p, Params: PatternParams(p), Rows: device.Rows{
			Count: len(file.Targets), Width: ir.Size(p.Shape), Gather: scaledBy(1.0/64, -2), Targets: file.Targets,
		}},
		Views: len(file.Words[0]), Augment: ir.Gather{{Kind: ir.Flip}, {Kind: ir.Crop, Margin: 4}}, Clip: m.Clip,
		norms: m.Norms, records: m.Records, sum: m.Sum,
	}
	for i, w := range file.Words {
		g.Words = append(g.Words, w...)
		for j := range g.Rows.Width {
			g.Features = append(g.Features, PatternPixel(m.Images[i], j))
		}
	}
	return g
}

// Schedule has the views under a strategy, clipped flat.
func (g *GoldenViews) Schedule(t testing.TB, strategy perexample.Strategy) *ir.Schedule {
	t.Helper()
	return viewed(t, g.Program, strategy, ir.Flat, g.Views, g.Augment)
}

// Long is a norm that clips no record.
func (g *GoldenViews) Long() float64 { return 2 * (g.norms[0] + g.norms[1] + g.norms[2]) }

// WordsOf are those of one record.
func (g *GoldenViews) WordsOf(record int) []uint32 { return g.Words[record*g.Views:][:g.Views] }

// Record checks a record's mean gradient.
func (g *GoldenViews) Record(t testing.TB, record int, got []float64, tolerance float64) {
	t.Helper()
	if n := norm64(got); !(math.Abs(n-g.norms[record]) <= tolerance*g.norms[record]) {
		t.Errorf("record %d: the mean gradient has the norm %v, in PyTorch %v", record, n, g.norms[record])
	}
	checkDigests(t, g.Program, fmt.Sprintf("record %d", record), got, g.records[record], tolerance)
}

// Sum checks the sum of all records, clipped at Clip.
func (g *GoldenViews) Sum(t testing.TB, got []float64, tolerance float64) {
	t.Helper()
	checkDigests(t, g.Program, "the clipped sum", got, g.sum, tolerance)
}

// checkDigests allows each tensor an error that is as long as a part of the tensor: so its length and each element are off by no more than that. A
// sum that is weighted by independent weights of mean zero within -1 and 1 is off by more than 7 times the error's length with
// a probability below 2·exp(-49/2) (Hoeffding), which is 10⁻⁷ for all sums of the file; the weights are fixed.
func checkDigests(t testing.TB, p *ir.Program, what string, got []float64, want []digest, tolerance float64) {
	t.Helper()
	for k, q := range p.Params {
		x := got[q.Offset:][:q.Size()]
		d := digestOf(x, k)
		most := tolerance * want[k][0]
		for i := range d {
			allowed := most
			if i == 1 || i == 2 {
				allowed *= 7
			}
			if off := math.Abs(d[i] - want[k][i]); !(off <= allowed) || want[k][0] == 0 {
				t.Errorf("%s: figure %d of %s is %v, in PyTorch %v; off by %.3g of the tensor's length", what, i, q.Name, d[i], want[k][i], off/want[k][0])
			}
		}
	}
}

func digestOf(x []float64, tensor int) (d digest) {
	d[0] = norm64(x)
	for i, v := range x {
		d[1] += v * Direction(1000+2*tensor, i)
		d[2] += v * Direction(1001+2*tensor, i)
	}
	for i := range d[3:] {
		d[3+i] = x[(2*i+1)*len(x)/(2*len(d[3:]))]
	}
	return d
}

// On checks a device, whose sums are float32, under a strategy.
func (g *GoldenViews) On(t testing.TB, d device.Device, strategy perexample.Strategy, tolerance float64) {
	t.Helper()
	x := Open(t, d, g.Schedule(t, strategy), g.Case, g.Rows.Count)
	for i := range g.Rows.Count {
		g.Record(t, i, widen(x.ofViews(t, []int32{int32(i)}, g.WordsOf(i), g.Views, g.Long())), tolerance)
	}
	g.Sum(t, widen(x.ofViews(t, g.All(), g.Words, g.Views, g.Clip)), tolerance)
}
