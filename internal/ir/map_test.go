package ir

import (
	"math"
	"testing"
)

// mapped has an op of every kind without a gradient.
func mapped() *Program {
	image, square := []int{2, 4, 4}, Square(2, 1, 0)
	p := &Program{Name: "mapped", Shape: image}
	for _, q := range []Param{{Name: "filters", Shape: []int{4, 1, 2, 2}}, {Name: "columns", Shape: []int{4}}, {Name: "planes", Shape: []int{2, 1, 1}}} {
		q.Offset = p.NumParams()
		p.Params = append(p.Params, q)
	}
	add := func(op Op, weight, bias int) {
		op.Name, op.Weight, op.Bias = "a", weight, bias
		p.Ops = append(p.Ops, op)
	}
	add(Op{Kind: Reflect, In: []Value{0}, Shape: image, Out: []int{2, 5, 5}, Window: Window{PadTop: 1, PadRight: 1}}, None, None)
	add(Op{Kind: Planes, In: []Value{1}, Shape: []int{2, 5, 5}, Out: []int{8, 4, 4}, Window: square}, 0, None)
	add(Op{Kind: Modulus, In: []Value{2}, Shape: []int{8, 4, 4}, Out: []int{4, 4, 4}, Groups: 2}, None, None)
	add(Op{Kind: Concat, In: []Value{0, 3}, Shape: []int{6, 4, 4}, Out: []int{6, 4, 4}, Groups: 2}, None, None)
	add(Op{Kind: Pick, In: []Value{4}, Shape: []int{96}, Out: []int{2, 4, 4}, Index: make([]int32, 32)}, None, None)
	add(Op{Kind: Affine, In: []Value{5}, Shape: image, Out: image}, 1, 2)
	add(Op{Kind: Contrast, In: []Value{6}, Shape: image, Out: []int{1, 3, 3}, Window: square, Epsilon: 1}, None, None)
	add(Op{Kind: Divide, In: []Value{7, 7}, Shape: []int{1, 3, 3}, Out: []int{1, 3, 3}}, None, None)
	add(Op{Kind: Deskew, In: []Value{8}, Shape: []int{1, 3, 3}, Out: []int{1, 3, 3}}, None, None)
	add(Op{Kind: Unit, In: []Value{9}, Shape: []int{9}, Out: []int{9}, Norm: 3}, None, None)
	return p
}

func TestMapsAreValid(t *testing.T) {
	p := mapped()
	if err := p.ValidateMap(); err != nil {
		t.Fatal(err)
	}
	for i := range p.Ops {
		if op := &p.Ops[i]; len(op.Ways()) > 0 || op.FLOPs() < 1 {
			t.Errorf("%s has gradients by %v and costs %d", op.Kind, op.Ways(), op.FLOPs())
		}
	}
	wantError(t, p.Validate(), "op 1 (planes a) has no gradient, and parameters lie in or before it")
}

// A map before all parameters of a network is part of what it trains on; behind one it is refused.
func TestNetworksWithMaps(t *testing.T) {
	p := small()
	p.Ops[1] = Op{Kind: Unit, Name: "norm", In: []Value{1}, Shape: []int{2, 4, 4}, Out: []int{2, 4, 4}, Weight: None, Bias: None, Norm: 1}
	wantError(t, p.Validate(), "program small: op 1 (unit norm) has no gradient, and parameters lie in or before it; train none of them: use it in a front end")

	p = small()
	unit := Op{Kind: Unit, Name: "norm", In: []Value{0}, Shape: []int{36}, Out: []int{36}, Weight: None, Bias: None, Norm: 1}
	p.Ops = append([]Op{unit}, p.Ops...)
	for i := range p.Ops[1:] {
		p.Ops[i+1].In = []Value{Value(i + 1)}
	}
	if err := p.Validate(); err != nil {
		t.Error(err)
	}
}

func TestFaultsOfMaps(t *testing.T) {
	for _, test := range []struct {
		name  string
		spoil func(p *Program)
		want  string
	}{
		{"no shape", func(p *Program) { p.Ops[0].Shape = nil }, "has no shape of what it reads"},
		{"an axis of none", func(p *Program) { p.Ops[9].Shape, p.Ops[9].Out = []int{9, 0}, []int{9, 0} }, "op 9 (unit a): has shape [9 0], want axes of at least 1 and at most 2147483647 elements"},
		{"two negative axes", func(p *Program) { p.Ops[0].Shape = []int{2, -4, -4} }, "op 0 (reflect a): has shape [2 -4 -4], want axes of at least 1"},
		{"negative outputs", func(p *Program) { p.Ops[4].Out = []int{-2, -4, 4} }, "op 4 (pick a): has shape [-2 -4 4], want axes of at least 1"},
		{"an input beyond all counts", func(p *Program) { p.Shape = []int{2, 1 << 31, 1 << 31} }, "program mapped: its input has shape [2 2147483648 2147483648], want"},
		{"a constant beyond all counts", func(p *Program) { p.Params[1].Shape = []int{4, 1 << 62} }, "program mapped: parameter columns has shape [4 4611686018427387904], want"},
		{"wide reflection", func(p *Program) { p.Ops[0].Window.PadTop = 4 }, "cannot pad a 4×4 image by 4 to 0 rows and 0 to 1 columns of its mirror image"},
		{"negative reflection", func(p *Program) { p.Ops[0].Window.PadLeft = -1 }, "cannot pad a 4×4 image"},
		{"flat reflection", func(p *Program) { p.Ops[0].Shape = []int{32} }, "needs channels, rows and columns, has shape [32]"},
		{"padded planes", func(p *Program) { p.Ops[1].Window.PadTop = 1 }, "want one without padding and dilation"},
		{"uneven planes", func(p *Program) { p.Ops[1].Out = []int{7, 4, 4} }, "cannot divide 7 outputs among 2 channels"},
		{"filters", func(p *Program) { p.Ops[1].Weight = 1 }, "weight has shape [4], want [4 1 2 2]"},
		{"groups of a modulus", func(p *Program) { p.Ops[2].Groups = 3 }, "cannot divide 8 channels into real and imaginary parts of 3 groups"},
		{"endless groups of a modulus", func(p *Program) { p.Ops[2].Groups = math.MaxInt }, "cannot divide 8 channels into real and imaginary parts of 9223372036854775807 groups"},
		{"endless strides", func(p *Program) { p.Ops[1].Window.StrideW = 1 << 32 }, "has the impossible window"},
		{"one part", func(p *Program) { p.Ops[3].In = []Value{0} }, "op 3 (concat a): reads 1 values, want two or more"},
		{"groups of parts", func(p *Program) { p.Ops[3].Groups = 3 }, "cannot divide a value of 32 elements into 3 groups"},
		{"no groups of parts", func(p *Program) { p.Ops[3].Groups = 0 }, "into 0 groups"},
		{"too many parts", func(p *Program) { p.Ops[3].In = []Value{0, 0, 3} }, "reads values of 128 elements together as [6 4 4]"},
		{"picks", func(p *Program) { p.Ops[4].Index = p.Ops[4].Index[1:] }, "picks 31 elements as [2 4 4]"},
		{"a pick", func(p *Program) { p.Ops[4].Index[7] = 96 }, "picks element 96 of 96"},
		{"a negative pick", func(p *Program) { p.Ops[4].Index[7] = -1 }, "picks element -1 of 96"},
		{"no constants", func(p *Program) { p.Ops[5].Weight, p.Ops[5].Bias = None, None }, "needs a weight or a bias of its own, and nothing else"},
		{"a function", func(p *Program) { p.Ops[5].Function = Standardize }, "needs a weight or a bias of its own, and nothing else"},
		{"unknown constant", func(p *Program) { p.Ops[5].Bias = 9 }, "bias 9 is not in the parameter table"},
		{"long constant", func(p *Program) { p.Ops[5].Weight = 0 }, "weight has shape [4 1 2 2], which does not repeat along [2 4 4]"},
		{"constant of another length", func(p *Program) { p.Ops[5].Weight = 2; p.Params[2].Shape = []int{2} }, "weight has shape [2], which does not repeat along [2 4 4]"},
		{"epsilon of a contrast", func(p *Program) { p.Ops[6].Epsilon = 0 }, "has the epsilon 0, want one above 0"},
		{"padded contrast", func(p *Program) { p.Ops[6].Window = Square(2, 1, 1) }, "want one without padding and dilation"},
		{"divisor", func(p *Program) { p.Ops[7].In[1] = 6 }, "reads values of 9 and 32 elements as [1 3 3] and one channel of it"},
		{"flat deskewing", func(p *Program) { p.Ops[8].Shape = []int{9} }, "needs channels, rows and columns, has shape [9]"},
		{"norm", func(p *Program) { p.Ops[9].Norm = 0 }, "has the norm 0, want one above 0"},
		{"unused constant", func(p *Program) { p.Ops[5].Bias = None }, "program mapped: constant planes is not used"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := mapped()
			test.spoil(p)
			wantError(t, p.ValidateMap(), test.want)
		})
	}
}

// Constants may be used twice, parameters of a network may not.
func TestConstantsUsedTwice(t *testing.T) {
	p := mapped()
	p.Params[1].Shape = []int{1, 1, 4}
	again := p.Ops[5]
	again.In = []Value{6}
	p.Ops = append(p.Ops[:6:6], again)
	if err := p.ValidateMap(); err != nil {
		t.Error(err)
	}
}

func TestReflected(t *testing.T) {
	for i, want := range []int{2, 1, 0, 1, 2, 1, 0} {
		if got := Reflected(i-2, 3); got != want {
			t.Errorf("place %d of 3 mirrors %d, want %d", i-2, got, want)
		}
	}
}
