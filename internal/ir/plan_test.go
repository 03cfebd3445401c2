package ir

import (
	"math"
	"strings"
	"testing"
)

// small is conv 3×3 → relu → maxpool 2×2 → dense over a 6×6 image.
func small() *Program {
	return &Program{
		Name:  "small",
		Shape: []int{1, 6, 6},
		Ops: []Op{
			{Kind: Conv, Name: "conv1", In: []Value{0}, Shape: []int{1, 6, 6}, Out: []int{2, 4, 4}, Weight: 0, Bias: 1, Window: Square(3, 1, 0)},
			{Kind: ReLU, Name: "relu1", In: []Value{1}, Shape: []int{2, 4, 4}, Out: []int{2, 4, 4}, Weight: None, Bias: None},
			{Kind: MaxPool, Name: "pool1", In: []Value{2}, Shape: []int{2, 4, 4}, Out: []int{2, 2, 2}, Weight: None, Bias: None, Window: Square(2, 2, 0)},
			{Kind: Dense, Name: "fc1", In: []Value{3}, Shape: []int{8}, Out: []int{3}, Weight: 2, Bias: 3},
		},
		Params: []Param{
			{Name: "conv1.weight", Shape: []int{2, 1, 3, 3}, Offset: 0},
			{Name: "conv1.bias", Shape: []int{2}, Offset: 18},
			{Name: "fc1.weight", Shape: []int{3, 8}, Offset: 20},
			{Name: "fc1.bias", Shape: []int{3}, Offset: 44},
		},
	}
}

func TestCounts(t *testing.T) {
	p := small()
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		what      string
		got, want int64
	}{
		{"parameters", int64(p.NumParams()), 2*9 + 2 + 3*8 + 3},
		{"outputs", int64(p.Outputs()), 3},
		{"conv FLOPs", p.Ops[0].FLOPs(), 2 * (2 * 4 * 4) * 9},
		{"relu FLOPs", p.Ops[1].FLOPs(), 32},
		{"pool FLOPs", p.Ops[2].FLOPs(), 8 * 4},
		{"dense FLOPs", p.Ops[3].FLOPs(), 2 * 3 * 8},
		{"forward FLOPs", p.ForwardFLOPs(), 576 + 32 + 32 + 48},
		// Weights of both layers, inputs of all but the first.
		{"step FLOPs", p.StepFLOPs(), 688 + (576 + 48) + (32 + 32 + 48)},
		{"bytes", p.ValueBytes(), 4 * (36 + 32 + 32 + 8 + 3)},
	} {
		if test.got != test.want {
			t.Errorf("%s: %d, want %d", test.what, test.got, test.want)
		}
	}
	if out, k, n := p.Ops[0].Columns(); out != 2 || k != 9 || n != 16 {
		t.Errorf("the convolution's columns are %d×%d against %d", out, k, n)
	}
	if out, k, n := p.Ops[3].Columns(); out != 3 || k != 8 || n != 1 {
		t.Errorf("the dense layer's columns are %d×%d against %d", out, k, n)
	}
	need, readers := p.NeedsGrad(), p.Consumers()
	for v, want := range []bool{false, true, true, true, true} {
		if need[v] != want {
			t.Errorf("value %d needs a gradient: %v, want %v", v, need[v], want)
		}
	}
	for v, want := range []int{1, 1, 1, 1, 0} {
		if readers[v] != want {
			t.Errorf("value %d has %d readers, want %d", v, readers[v], want)
		}
	}
}

func TestSharedValueIsCountedPerReader(t *testing.T) {
	p := small()
	p.Ops = append(p.Ops, Op{Kind: Add, Name: "add1", In: []Value{4, 4}, Shape: []int{3}, Out: []int{3}, Weight: None, Bias: None})
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	if n := p.Consumers()[4]; n != 2 {
		t.Errorf("x in x+x has %d readers, want 2", n)
	}
	if n, want := p.StepFLOPs()-small().StepFLOPs(), int64(3+2*3); n != want {
		t.Errorf("x+x costs %d FLOPs a step, want %d", n, want)
	}
}

func TestWindow(t *testing.T) {
	for _, test := range []struct {
		w             Window
		h, wd         int
		wantH, wantWd int
	}{
		{Square(3, 1, 0), 6, 6, 4, 4},
		{Square(8, 2, 3), 28, 28, 14, 14},
		{Square(2, 2, 0), 7, 6, 3, 3},
		{Window{H: 3, W: 2, StrideH: 2, StrideW: 1, PadTop: 1, PadLeft: 2, PadRight: 1, DilationH: 1, DilationW: 2}, 7, 6, 3, 7},
		{Square(3, 2, 0), 3, 4, 1, 1},
		// One short of fitting, where a division that rounds to zero gives one.
		{Square(3, 2, 0), 2, 2, 0, 0},
		{Square(3, 5, 0), 1, 9, 0, 2},
		{Window{H: 2, W: 2, StrideH: 3, StrideW: 3, DilationH: 4, DilationW: 1}, 4, 4, 0, 1},
	} {
		if h, w := test.w.Out(test.h, test.wd); h != test.wantH || w != test.wantWd {
			t.Errorf("%+v over %d×%d gives %d×%d, want %d×%d", test.w, test.h, test.wd, h, w, test.wantH, test.wantWd)
		}
	}
}

func TestProgramFaults(t *testing.T) {
	for _, test := range []struct {
		name  string
		spoil func(p *Program)
		want  string
	}{
		{"no ops", func(p *Program) { p.Ops = nil }, "program small has no ops"},
		{"no parameters", func(p *Program) {
			p.Params = nil
			p.Ops = []Op{{Kind: Tanh, Name: "tanh1", In: []Value{0}, Shape: []int{36}, Out: []int{36}, Weight: None, Bias: None}}
		}, "program small has no parameters; there is nothing to train"},
		{"offset", func(p *Program) { p.Params[2].Offset = 21 }, "program small: parameter fc1.weight begins at 21, want 20"},
		{"inputs of a layer", func(p *Program) { p.Ops[0].In = []Value{0, 0} }, "op 0 (conv conv1): reads 2 values, want 1"},
		{"inputs of a sum", func(p *Program) { p.Ops[1].Kind = Add }, "op 1 (add relu1): reads 1 values, want 2"},
		{"own output", func(p *Program) { p.Ops[1].In = []Value{2} }, "op 1 (relu relu1): reads value 2 before it is produced"},
		{"negative value", func(p *Program) { p.Ops[1].In = []Value{-1} }, "op 1 (relu relu1): reads value -1 before it is produced"},
		{"size", func(p *Program) { p.Ops[3].Shape = []int{9} }, "op 3 (dense fc1): reads a value of 8 elements as [9]"},
		{"flat image", func(p *Program) { p.Ops[0].Shape = []int{36} }, "op 0 (conv conv1): needs channels, rows and columns, has shape [36] to [2 4 4]"},
		{"stride", func(p *Program) { p.Ops[0].Window.StrideW = 0 }, "op 0 (conv conv1): has the impossible window"},
		{"padding", func(p *Program) { p.Ops[0].Window.PadLeft = -1 }, "op 0 (conv conv1): has the impossible window"},
		{"dilation", func(p *Program) { p.Ops[0].Window.DilationH = 0 }, "op 0 (conv conv1): has the impossible window"},
		{"too large", func(p *Program) { p.Ops[0].Window = Square(7, 1, 0) }, "op 0 (conv conv1): window 7×7 does not fit the 6×6 image"},
		{"just too large", func(p *Program) { p.Ops[0].Window = Square(7, 2, 0) }, "op 0 (conv conv1): window 7×7 does not fit the 6×6 image"},
		{"blind pool", func(p *Program) { p.Ops[2].Window.PadBottom = 2 }, "op 2 (maxpool pool1): pool 2×2 is padded by a whole window; some would see no pixel"},
		{"dilated pool", func(p *Program) { p.Ops[2].Window.DilationW = 2 }, "op 2 (maxpool pool1): pool 2×2 is dilated; only convolutions can be"},
		{"shape of an image", func(p *Program) { p.Ops[0].Out = []int{2, 4, 5} }, "op 0 (conv conv1): gives shape [2 4 5], its input makes it [2 4 4]"},
		{"shape of an activation", func(p *Program) { p.Ops[1].Out = []int{32} }, "op 1 (relu relu1): gives shape [32], its input makes it [2 4 4]"},
		{"shape of a dense layer", func(p *Program) { p.Ops[3].Out = []int{3, 1} }, "op 3 (dense fc1): gives shape [3 1], want a vector"},
		{"no weight", func(p *Program) { p.Ops[0].Weight = None }, "op 0 (conv conv1): weight -1 is not in the parameter table"},
		{"unknown weight", func(p *Program) { p.Ops[3].Weight = 4 }, "op 3 (dense fc1): weight 4 is not in the parameter table"},
		{"weight's shape", func(p *Program) { p.Params[2].Shape = []int{8, 3} }, "op 3 (dense fc1): weight has shape [8 3], want [3 8]"},
		{"unknown bias", func(p *Program) { p.Ops[3].Bias = 9 }, "op 3 (dense fc1): bias 9 is not in the parameter table"},
		{"bias's shape", func(p *Program) { p.Ops[3].Bias = 1 }, "op 3 (dense fc1): bias has shape [2], want [3]"},
		{"an activation's weight", func(p *Program) { p.Ops[1].Weight = 0 }, "op 1 (relu relu1): has no parameters, yet names one"},
		{"slope", func(p *Program) { p.Ops[1].Kind = LeakyReLU }, "op 1 (leakyrelu relu1): has the slope 0, want one between 0 and 1"},
		{"steep slope", func(p *Program) { p.Ops[1].Kind, p.Ops[1].Slope = LeakyReLU, 1 }, "has the slope 1, want one between 0 and 1"},
		{"groups", func(p *Program) { p.Ops[1].Kind, p.Ops[1].Groups, p.Ops[1].Epsilon = GroupNorm, 3, 1 }, "op 1 (groupnorm relu1): cannot divide 2 channels into 3 groups"},
		{"no groups", func(p *Program) { p.Ops[1].Kind = GroupNorm }, "cannot divide 2 channels into 0 groups"},
		{"groups of one element", func(p *Program) {
			p.Ops[3] = Op{Kind: GroupNorm, Name: "norm1", In: []Value{3}, Shape: []int{8}, Out: []int{8}, Groups: 8, Epsilon: 1, Weight: 2, Bias: 3}
		}, "op 3 (groupnorm norm1): has groups of one element, which have no variance; use fewer groups"},
		{"epsilon", func(p *Program) { p.Ops[1].Kind, p.Ops[1].Groups = GroupNorm, 1 }, "has the epsilon 0, want one above 0"},
		{"a normalization's weight", func(p *Program) {
			p.Ops[1].Kind, p.Ops[1].Groups, p.Ops[1].Epsilon, p.Ops[1].Weight = GroupNorm, 1, 1, 0
		},
			"op 1 (groupnorm relu1): weight has shape [2 1 3 3], want [2]"},
		{"kind", func(p *Program) { p.Ops[1].Kind = 200 }, "op 1 (kind 200 relu1): is of no kind that is known"},
		{"lines of one element", func(p *Program) {
			p.Ops[1].Kind, p.Ops[1].Shape, p.Ops[1].Epsilon = LayerNorm, []int{32, 1}, 1
		}, "op 1 (layernorm relu1): has lines of one element, which have no variance; normalize a longer last axis"},
		{"epsilon of lines", func(p *Program) { p.Ops[1].Kind = LayerNorm }, "has the epsilon 0, want one above 0"},
		{"weight of lines", func(p *Program) { p.Ops[1].Kind, p.Ops[1].Epsilon, p.Ops[1].Weight = LayerNorm, 1, 1 },
			"op 1 (layernorm relu1): weight has shape [2], want [4]"},
		{"a GELU's bias", func(p *Program) { p.Ops[1].Kind, p.Ops[1].Bias = GELU, 1 }, "op 1 (gelu relu1): has no parameters, yet names one"},
		{"unknown function", func(p *Program) { p.Ops[0].Function = 9 }, "op 0 (conv conv1): has a weight by no function that is known"},
		{"function of a dense op", func(p *Program) { p.Ops[3].Function = Standardize }, "op 3 (dense fc1): cannot standardize its weight: only a conv op can"},
		{"function without a gain", func(p *Program) { p.Ops[0].Function = Standardize }, "op 0 (conv conv1): gives its weight's function 0 parameters, want 1"},
		{"gain without a function", func(p *Program) { p.Ops[0].Given = []int{1} }, "op 0 (conv conv1): gives its weight's function 1 parameters, want 0"},
		{"gain of another shape", func(p *Program) { p.Ops[0].Function, p.Ops[0].Given = Standardize, []int{3} },
			"op 0 (conv conv1): parameter of standardize has shape [3], want [2]"},
		{"no shape", func(p *Program) {
			p.Shape, p.Ops = nil, []Op{{Kind: LayerNorm, Name: "norm1", In: []Value{0}, Epsilon: 1, Weight: 0, Bias: None}}
		}, "op 0 (layernorm norm1): has no shape of what it reads"},
		{"loss", func(p *Program) { p.Loss = 99 }, "program small has no loss that is known"},
		{"unused", func(p *Program) { p.Ops[3].Bias = None }, "program small: parameter fc1.bias is used 0 times; each must be used once"},
		{"tied", func(p *Program) {
			p.Ops = append(p.Ops, p.Ops[3])
			p.Params[2].Shape, p.Params[3].Offset = []int{8, 8}, 84
			p.Params[3].Shape = []int{8}
			for _, i := range []int{3, 4} {
				p.Ops[i].Out = []int{8}
				p.Ops[i].In = []Value{Value(i)}
			}
		}, "program small: parameter fc1.weight is used 2 times; each must be used once"},
		{"too many logits", func(p *Program) { p.Loss = Hinge }, "program small: the hinge loss needs one logit, the network gives 3"},
		{"one class", func(p *Program) {
			p.Ops[3].Out = []int{1}
			p.Params[2].Shape, p.Params[3] = []int{1, 8}, Param{Name: "fc1.bias", Shape: []int{1}, Offset: 28}
		}, "program small: the softmax cross-entropy needs at least two logits, the network gives 1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := small()
			test.spoil(p)
			wantError(t, p.Validate(), test.want)
		})
	}
}

func wantError(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want %q", want)
	}
	if !strings.Contains(err.Error(), want) {
		t.Errorf("the message is %q, want %q", err, want)
	}
}

func TestProgramTable(t *testing.T) {
	const want = `
small: input [1 6 6], 47 parameters, loss softmax-cross-entropy
     op     kind    input   output  parameters  kFLOP/example  bytes/example
  conv1     conv  [1 6 6]  [2 4 4]          20            0.6            128
  relu1     relu  [2 4 4]  [2 4 4]           0            0.0            128
  pool1  maxpool  [2 4 4]  [2 2 2]           0            0.0             32
    fc1    dense      [8]      [3]          27            0.0             12
  total                                     47            0.7            444
`
	if got := "\n" + small().String(); got != want {
		t.Errorf("the table is%s\nwant%s", got, want)
	}
}

func TestFunctionInTable(t *testing.T) {
	p := small()
	p.Ops[0].Function, p.Ops[0].Given = Standardize, []int{4}
	p.Params = append(p.Params, Param{Name: "conv1.gain", Shape: []int{2}, Offset: p.NumParams()})
	if got := p.String(); !strings.Contains(got, "conv1  conv (standardize)  [1 6 6]  [2 4 4]          22") {
		t.Errorf("the table is\n%s", got)
	}
}

func TestValidTarget(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, test := range []struct {
		loss      Loss
		good, bad []float32
	}{
		{SoftmaxCrossEntropy, []float32{0, 1, 2}, []float32{-1, 3, 0.5, 2.5, nan, inf, -inf, 1e30, -1e30}},
		{Logistic, []float32{-1, 1}, []float32{0, 0.5, 2, nan, inf, -inf}},
		{Hinge, []float32{-1, 1}, []float32{0, -0.5, -2, nan, inf}},
		{HuberHinge, []float32{-1, 1}, []float32{0, 3, nan, -inf}},
		{Huber, []float32{-1, 0, 0.25, 1e30}, []float32{nan, inf, -inf}},
	} {
		for _, x := range test.good {
			if !test.loss.ValidTarget(x, 3) {
				t.Errorf("%s refuses %v", test.loss, x)
			}
		}
		for _, x := range test.bad {
			if test.loss.ValidTarget(x, 3) {
				t.Errorf("%s accepts %v", test.loss, x)
			}
		}
	}
}
