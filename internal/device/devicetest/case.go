package devicetest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/reference"
	"github.com/privgrad/privgrad/internal/half"
	"github.com/privgrad/privgrad/internal/ir"
)

// Margin is how far every row of a Case stays from each point where rounding
// could change a gradient by more than rounding.
const Margin = 1e-4

// Case is a program with parameters and a table for it.
type Case struct {
	Program  *ir.Program
	Params   []float32
	Rows     device.Rows
	Features device.Bytes

	other     device.Features // in the place of Features, if any
	precision device.Precision
}

// table is the case's values.
func (c *Case) table() device.Features {
	if c.other != nil {
		return c.other
	}
	return c.Features
}

// in is the case with floats or halves, which stand for themselves.
func (c *Case) in(f device.Features) *Case {
	d := *c
	d.other, d.Rows.Gather = f, nil
	return &d
}

// values is what a row's features stand for.
func (c *Case) values(row int) []float64 {
	x := make([]float64, c.Rows.Width)
	for i := range x {
		switch at := row*c.Rows.Width + i; f := c.table().(type) {
		case device.Floats:
			x[i] = float64(f[at])
		case device.Halves:
			x[i] = float64(half.ToFloat32(f[at]))
		case device.Bytes:
			x[i] = c.scaled(f[at])
		}
	}
	return x
}

// scaled is what a byte stands for: this is the definition of ir.Scaled, by hand.
func (c *Case) scaled(b uint8) float64 {
	for _, m := range c.Rows.Gather {
		if m.Kind == ir.Scaled {
			return float64(float32(b)*m.Scale + m.Offset)
		}
	}
	return float64(b)
}

// scaleBy is another scaling of the case's bytes.
func (c *Case) scaleBy(scale, offset float32) { c.Rows.Gather = scaledBy(scale, offset) }

func scaledBy(scale, offset float32) ir.Gather { return ir.Gather{ir.ScaledBy(scale, offset)} }

// newCase is NewCase in the precision of a device.
func newCase(t testing.TB, d device.Device, p *ir.Program, rows int, seed uint64) *Case {
	t.Helper()
	c := NewCase(t, p, rows, seed)
	c.precision = precision(d)
	return c
}

// NewCase draws parameters and rows, all with accepted targets and none within
// Margin of a kink. The seed fixes every bit.
func NewCase(t testing.TB, p *ir.Program, rows int, seed uint64) *Case {
	t.Helper()
	type what struct {
		program string
		rows    int
		seed    uint64
	}
	// Looking for kinks takes long, and many tests use the same cases.
	key := what{fmt.Sprintf("%+v", *p), rows, seed}
	known, ok := cases.Load(key)
	if !ok {
		known, _ = cases.LoadOrStore(key, drawCase(t, p, rows, seed))
	}
	c := *known.(*Case)
	c.Program = p
	c.Params, c.Features, c.Rows.Targets = slices.Clone(c.Params), slices.Clone(c.Features), slices.Clone(c.Rows.Targets)
	return &c
}

// cases are those that were drawn.
var cases sync.Map

// Alike draws parameters as NewCase does, and rows that a network of any size can take: bright images, most of them of one class, so that
// gradients point the same way and their sum is about as long as all of them together. It looks for no kinks: of so many values some lie
// at one.
func Alike(t testing.TB, p *ir.Program, rows int, seed uint64) *Case {
	t.Helper()
	rnd := rand.New(rand.NewPCG(seed, 1))
	c := drawParams(t, p, rnd)
	for range rows {
		features := make([]uint8, c.Rows.Width)
		for i := range features {
			features[i] = uint8(128 + rnd.UintN(128))
		}
		label := target(rnd, p)
		if rnd.IntN(4) > 0 {
			label = 0
		}
		c.add(features, label)
	}
	return c
}

// drawParams gives a case without rows.
func drawParams(t testing.TB, p *ir.Program, rnd *rand.Rand) *Case {
	t.Helper()
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	c := &Case{Program: p, Params: make([]float32, p.NumParams())}
	for _, op := range p.Ops {
		if op.Weight == ir.None {
			continue
		}
		_, fanIn, _ := op.Columns()
		fill := func(q int, std float64) {
			copy(c.Params[p.Params[q].Offset:], normals(rnd, p.Params[q].Size(), std))
		}
		nearOne := func(q int) {
			fill(q, 0.3)
			for i := range p.Params[q].Size() {
				c.Params[p.Params[q].Offset+i]++
			}
		}
		if fill(op.Weight, 1.2/math.Sqrt(float64(fanIn))); op.Kind == ir.GroupNorm || op.Kind == ir.LayerNorm {
			nearOne(op.Weight)
		}
		if op.Bias != ir.None {
			fill(op.Bias, 0.3)
		}
		for _, q := range op.Given {
			nearOne(q)
		}
		if op.Function == ir.Standardize { // the first channel is below the floor
			first := c.Params[p.Params[op.Weight].Offset:][:fanIn]
			for i := range first {
				first[i] *= 1e-3
			}
		}
	}
	// Inputs in [−2, 2) that float32 holds exactly, whatever fuses.
	c.Rows = device.Rows{Width: ir.Size(p.Shape), Gather: scaledBy(1.0/64, -2)}
	return c
}

func drawCase(t testing.TB, p *ir.Program, rows int, seed uint64) *Case {
	t.Helper()
	rnd := rand.New(rand.NewPCG(seed, 1))
	c := drawParams(t, p, rnd)
	for tries := 0; c.Rows.Count < rows; tries++ {
		if tries > 100*rows {
			t.Fatalf("%s: hardly a row is far from every kink", p.Name)
		}
		features := make([]uint8, c.Rows.Width)
		for i := range features {
			features[i] = uint8(rnd.UintN(256))
		}
		c.add(features, target(rnd, p))
		if c.Kink(c.Rows.Count-1) != "" {
			c.Rows.Count--
			c.Rows.Targets = c.Rows.Targets[:c.Rows.Count]
			c.Features = c.Features[:c.Rows.Count*c.Rows.Width]
		}
	}
	return c
}

// normals draws numbers of a standard deviation.
func normals(rnd *rand.Rand, n int, std float64) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(std * rnd.NormFloat64())
	}
	return x
}

// target draws one that the program's loss accepts.
func target(rnd *rand.Rand, p *ir.Program) float32 {
	switch p.Loss {
	case ir.SoftmaxCrossEntropy:
		return float32(rnd.IntN(p.Outputs()))
	case ir.Huber:
		return float32(2 * rnd.NormFloat64())
	default:
		return float32(2*rnd.IntN(2) - 1)
	}
}

func (c *Case) add(features []uint8, target float32) {
	c.Rows.Count++
	c.Features = append(c.Features, features...)
	c.Rows.Targets = append(c.Rows.Targets, target)
}

// with is the case with more rows of constant bytes.
func (c *Case) with(b uint8, targets ...float32) *Case {
	d := *c
	d.Features, d.Rows.Targets = slices.Clone(c.Features), slices.Clone(c.Rows.Targets)
	for _, target := range targets {
		d.add(slices.Repeat([]uint8{b}, d.Rows.Width), target)
	}
	return &d
}

// Kink names the op at which row lies within Margin of a kink in any precision: a ReLU's zero, a
// max pool's tie (but for those between zeros of a ReLU, which are zeros in
// every precision), the hinge's corner, a tie between predictions.
func (c *Case) Kink(row int) string {
	p := c.Program
	x := c.values(row)
	for i := range device.Precisions() {
		if kink := c.kink(row, reference.Values(p, widen(c.Params), x, device.Precision(i))); kink != "" {
			return kink
		}
	}
	return ""
}

func (c *Case) kink(row int, values [][]float64) string {
	p := c.Program
	need := p.NeedsGrad()
	for i := range p.Ops {
		op := &p.Ops[i]
		x := values[op.In[0]]
		switch {
		case op.Kind == ir.ReLU, op.Kind == ir.LeakyReLU:
			for _, v := range x {
				if math.Abs(v) < Margin {
					return op.Name
				}
			}
		case op.Kind == ir.MaxPool && need[op.In[0]]:
			rectified := op.In[0] > 0 && p.Ops[op.In[0]-1].Kind == ir.ReLU
			for o := range ir.Size(op.Out) {
				first, second := topTwo(op, x, o)
				if first-second < Margin && !(rectified && first == 0) {
					return op.Name
				}
			}
		}
	}
	z := values[p.Logits()]
	switch p.Loss {
	case ir.SoftmaxCrossEntropy:
		first, second := math.Inf(-1), math.Inf(-1)
		for _, v := range z {
			first, second = max(first, v), max(second, min(first, v))
		}
		if first-second < Margin {
			return "the prediction"
		}
	case ir.Hinge, ir.HuberHinge, ir.Logistic:
		if math.Abs(z[0]) < Margin || math.Abs(1-float64(c.Rows.Targets[row])*z[0]) < Margin {
			return "the margin"
		}
	}
	return ""
}

// topTwo gives the two largest elements of window o of a pool.
func topTwo(op *ir.Op, x []float64, o int) (first, second float64) {
	first, second = math.Inf(-1), math.Inf(-1)
	win, h, w := op.Window, op.Shape[1], op.Shape[2]
	c, oy, ox := o/(op.Out[1]*op.Out[2]), o/op.Out[2]%op.Out[1], o%op.Out[2]
	for ky := range win.H {
		for kx := range win.W {
			y, xx := oy*win.StrideH-win.PadTop+ky, ox*win.StrideW-win.PadLeft+kx
			if y >= 0 && y < h && xx >= 0 && xx < w {
				v := x[(c*h+y)*w+xx]
				first, second = max(first, v), max(second, min(first, v))
			}
		}
	}
	return first, second
}

func widen(x []float32) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = float64(v)
	}
	return y
}

// All names every row in order.
func (c *Case) All() []int32 {
	rows := make([]int32, c.Rows.Count)
	for i := range rows {
		rows[i] = int32(i)
	}
	return rows
}

// Norm is the Euclidean norm.
func Norm(x []float32) float64 {
	s := 0.0
	for _, v := range x {
		s += float64(v) * float64(v)
	}
	return math.Sqrt(s)
}

// Tolerance of a sum, relative to the norm of the exact one.
const Tolerance = 2e-5

// tolerance is Tolerance in a device's precision. Gradients of weights have two factors cut off, each by less than 2^-10 of it in tf32,
// 2^-7 in bf16, where a strategy does not form them otherwise; and as much again is for values that fall on either side of what is
// rounded, from which on the reference's differ.
func tolerance(d device.Device) float64 { return toleranceIn(precision(d)) }

func toleranceIn(p device.Precision) float64 {
	switch p {
	case device.TF32:
		return 4 * 0x1p-10
	case device.BF16:
		return 4 * 0x1p-7
	}
	return Tolerance
}

// Near fails unless got differs from want by at most tolerance·‖want‖.
func Near(t testing.TB, got, want []float32, tolerance float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("has %d values, want %d", len(got), len(want))
	}
	worst := 0
	for i := range got {
		if math.Abs(float64(got[i]-want[i])) > math.Abs(float64(got[worst]-want[worst])) {
			worst = i
		}
	}
	// Written so that NaN fails.
	if d := off(got, want); !(d <= tolerance) {
		t.Errorf("is off by %.3g of its norm %.6g; worst value %d: %v, want %v", d, Norm(want), worst, got[worst], want[worst])
	}
}

// off is ‖got − want‖/‖want‖.
func off(got, want []float32) float64 {
	diff := make([]float32, len(got))
	for i := range got {
		diff[i] = got[i] - want[i]
	}
	d := Norm(diff)
	if d == 0 {
		return 0
	}
	return d / Norm(want)
}

// Same fails unless got and want have the same bits.
func Same(t testing.TB, got, want []float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("has %d values, want %d", len(got), len(want))
	}
	for i := range got {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Errorf("value %d is %v, want the bits of %v", i, got[i], want[i])
			return
		}
	}
}

func scaled(x []float32, a float64) []float32 {
	y := make([]float32, len(x))
	for i, v := range x {
		y[i] = float32(a * float64(v))
	}
	return y
}

func minus(x, y []float32) []float32 {
	z := make([]float32, len(x))
	for i := range z {
		z[i] = x[i] - y[i]
	}
	return z
}
