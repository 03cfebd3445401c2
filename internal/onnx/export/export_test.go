package export

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/reference"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/onnx"
	"github.com/privgrad/privgrad/internal/onnx/onnxtest"
)

// A network makes a program, with random parameters.
type network struct {
	p      ir.Program
	params []float32
	random *rand.Rand
}

// layer adds an op behind the last value, or behind others, with parameters of the shapes given: weight, bias, those of its function.
func (n *network) layer(op ir.Op, shapes ...[]int) {
	op.Weight, op.Bias = ir.None, ir.None
	for i, s := range shapes {
		q := len(n.p.Params)
		switch {
		case s == nil:
			continue
		case i == 0:
			op.Weight = q
		case i == 1:
			op.Bias = q
		default:
			op.Given = append(op.Given, q)
		}
		n.p.Params = append(n.p.Params, ir.Param{Name: string(rune('a' + q)), Shape: s, Offset: len(n.params)})
		for range ir.Size(s) {
			n.params = append(n.params, float32(n.random.NormFloat64()))
		}
	}
	if op.In == nil {
		op.In = []ir.Value{n.p.Logits()}
	}
	if op.Shape == nil {
		op.Shape = n.p.Shape
		if last := op.In[0]; last > 0 {
			op.Shape = n.p.Ops[last-1].Out
		}
	}
	if op.Out == nil {
		op.Out = op.Shape
	}
	n.p.Ops = append(n.p.Ops, op)
}

func networks() map[string]*network {
	all := map[string]*network{}
	begin := func(name string, shape ...int) *network {
		all[name] = &network{p: ir.Program{Name: name, Shape: shape}, random: rand.New(rand.NewPCG(1, uint64(len(all))))}
		return all[name]
	}
	n := begin("normalized image", 2, 5, 4)
	n.layer(ir.Op{Kind: ir.Conv, Out: []int{3, 5, 4}, Window: ir.Square(3, 1, 1), Function: ir.Standardize}, []int{3, 2, 3, 3}, []int{3}, []int{3})
	n.layer(ir.Op{Kind: ir.LayerNorm, Epsilon: 1e-5}, []int{4}, []int{4})
	n.layer(ir.Op{Kind: ir.GELU})
	n.layer(ir.Op{Kind: ir.Conv, Out: []int{2, 3, 2}, Window: ir.Square(3, 1, 0), Function: ir.Standardize}, []int{2, 3, 3, 3}, nil, []int{2})
	n.layer(ir.Op{Kind: ir.Dense, Out: []int{6}}, []int{6, 12})
	n.layer(ir.Op{Kind: ir.LayerNorm, Epsilon: 1e-3}, []int{6})

	n = begin("an upright column", 1, 4, 1)
	n.layer(ir.Op{Kind: ir.Deskew})
	n = begin("an upright row", 2, 1, 4)
	n.layer(ir.Op{Kind: ir.Deskew})

	n = begin("maps", 2, 4, 6)
	n.layer(ir.Op{Kind: ir.Deskew})
	n.layer(ir.Op{Kind: ir.Reflect, Out: []int{2, 7, 9}, Window: ir.Window{PadTop: 2, PadBottom: 1, PadRight: 3}})
	n.layer(ir.Op{Kind: ir.Planes, Out: []int{8, 4, 3}, Window: ir.Window{H: 1, W: 3, StrideH: 2, StrideW: 3, DilationH: 1, DilationW: 1}}, []int{4, 1, 1, 3})
	n.layer(ir.Op{Kind: ir.Modulus, Groups: 2, Out: []int{4, 4, 3}})
	n.layer(ir.Op{Kind: ir.Concat, In: []ir.Value{3, 4}, Groups: 4, Shape: []int{12, 4, 3}})
	n.layer(ir.Op{Kind: ir.Affine}, []int{12, 1, 1}, []int{3})
	n.layer(ir.Op{Kind: ir.Affine}, []int{4, 1})
	n.layer(ir.Op{Kind: ir.Affine}, nil, []int{1})
	n.layer(ir.Op{Kind: ir.Contrast, Out: []int{1, 3, 2}, Window: ir.Square(2, 1, 0), Epsilon: .1})
	n.layer(ir.Op{Kind: ir.Pick, In: []ir.Value{8}, Out: []int{2, 3, 2}, Index: []int32{7, 1, 100, 3, 3, 3, 143, 0, 1, 2, 9, 8}})
	n.layer(ir.Op{Kind: ir.Divide, In: []ir.Value{10, 9}})
	n.layer(ir.Op{Kind: ir.Concat, In: []ir.Value{11, 9}, Groups: 1, Shape: []int{18}})
	n.layer(ir.Op{Kind: ir.Unit, Norm: 5})
	return all
}

// What a graph gives is what the program gives, for several examples: they are the batch.
func TestGraphsAgree(t *testing.T) {
	for name, n := range networks() {
		if err := n.p.ValidateMap(); err != nil {
			t.Fatal(err)
		}
		g := onnx.New(name)
		out, err := Program(g, &n.p, n.params, g.Input("x", onnx.Float32, n.p.Shape...))
		if err != nil {
			t.Fatal(err)
		}
		g.Output("y", out, n.p.Ops[len(n.p.Ops)-1].Out...)
		var file bytes.Buffer
		if err := g.Write(&file, "test", "", nil); err != nil {
			t.Fatal(err)
		}
		size, examples := ir.Size(n.p.Shape), 3
		var x, want []float64
		for range size * examples {
			x = append(x, n.random.Float64())
		}
		for i := range examples {
			want = append(want, reference.Values(&n.p, convert[float64](n.params), x[i*size:(i+1)*size], device.Float32)[n.p.Logits()]...)
		}
		_, _, got, err := onnxtest.Run(file.Bytes(), x)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != len(want) {
			t.Fatalf("%s: %d values, want %d", name, len(got), len(want))
		}
		// Both compute in float64, but constants that the graph makes are float32: of 2⁻²⁴ each, of sums of some ten terms.
		for i := range got {
			if !(math.Abs(got[i]-want[i]) <= 1e-5) {
				t.Errorf("%s: value %d is %v, want %v", name, i, got[i], want[i])
			}
		}
	}
}

// Every kind of op has a row.
func TestAllKindsAreWritten(t *testing.T) {
	for k := ir.Kind(0); !strings.HasPrefix(k.String(), "kind "); k++ {
		if operations[k] == nil {
			t.Errorf("%s is not written", k)
		}
	}
}

// numbers are all of a program's that a mistake could change, in copies.
func numbers(p *ir.Program) (all []*int) {
	of := func(list *[]int) {
		*list = slices.Clone(*list)
		for i := range *list {
			all = append(all, &(*list)[i])
		}
	}
	p.Ops, p.Params = slices.Clone(p.Ops), slices.Clone(p.Params)
	of(&p.Shape)
	for i := range p.Params {
		of(&p.Params[i].Shape)
	}
	for i := range p.Ops {
		op := &p.Ops[i]
		of(&op.Shape)
		of(&op.Out)
		of(&op.Given)
		w := &op.Window
		all = append(all, &op.Groups, &op.Weight, &op.Bias, &w.H, &w.W, &w.StrideH, &w.StrideW, &w.PadTop, &w.PadBottom, &w.PadLeft, &w.PadRight, &w.DilationH, &w.DilationW)
	}
	return all
}

// Programs with wrong numbers are refused, or run and are written: nothing panics.
func TestWrongNumbers(t *testing.T) {
	wrong := []int{math.MinInt, -2, -1, 0, 1, 2, 3, 1 << 31, 1 << 32, 1 << 62, math.MaxInt}
	random, valid := rand.New(rand.NewPCG(3, 1)), 0
	for name, n := range networks() {
		for range 5000 {
			p := n.p
			all := numbers(&p)
			for range 1 + random.IntN(2) {
				*all[random.IntN(len(all))] = wrong[random.IntN(len(wrong))]
			}
			offset, most := 0, 0
			for i := range p.Params {
				p.Params[i].Offset = offset
				offset += p.Params[i].Size()
			}
			p.Validate()
			if p.ValidateMap() != nil {
				continue
			}
			for v := range len(p.Ops) + 1 {
				most = max(most, p.ValueSize(ir.Value(v)))
			}
			if valid++; most+offset > 1<<16 {
				continue // too many to compute here
			}
			params := make([]float32, offset)
			reference.Values(&p, convert[float64](params), make([]float64, ir.Size(p.Shape)), device.Float32)
			g := onnx.New(name)
			if _, err := Program(g, &p, params, g.Input("x", onnx.Float32, p.Shape...)); err != nil {
				t.Error(err)
			}
		}
	}
	if valid < 100 {
		t.Errorf("only %d programs are valid", valid)
	}
}
