package nn

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/privgrad/privgrad/internal/ir"
)

func build(t testing.TB, name string, o Options) (*Model, *Network) {
	t.Helper()
	if o.Input == [3]int{} && slices.Contains([]string{"logistic", "svm", "huber-svm", "huber-regression", "mlp-table", "mlp-regression"}, name) {
		o.Input = [3]int{1, 28, 28}
	}
	m, err := Build(name, o)
	if err != nil {
		t.Fatal(err)
	}
	net, err := m.Lower()
	if err != nil {
		t.Fatal(err)
	}
	return m, net
}

func TestModelsAgreeWithTheTapeMachine(t *testing.T) {
	for _, info := range Names() {
		t.Run(info.Name, func(t *testing.T) {
			o := Options{Batch: 2, Activation: "relu", Seed: 3}
			if info.Name == "cifar-paper" {
				o.Batch = 1
			}
			wide := strings.HasPrefix(info.Name, "wrn-") // whose tape takes a minute: TestLongWideModels
			if wide {
				o.Batch = 1
			}
			_, net := build(t, info.Name, o)
			if n := net.Program.NumParams(); n != info.Parameters {
				t.Errorf("%d parameters, want %d", n, info.Parameters)
			}
			if values := net.Program.ValueSize(ir.Input); net.Program.NumParams() < values { // as trained.Open takes for granted
				t.Errorf("%d parameters for %d values", net.Program.NumParams(), values)
			}
			if net.Program.Loss != info.Loss || net.Program.Name != info.Name {
				t.Errorf("the program is %s with loss %s", net.Program.Name, net.Program.Loss)
			}
			outputs := info.Classes
			if info.Loss != SoftmaxCrossEntropy {
				outputs = 1
			}
			if net.Program.Outputs() != outputs {
				t.Errorf("%d logits, want %d", net.Program.Outputs(), outputs)
			}
			if !wide {
				agree(t, net)
			}
		})
	}
	t.Run("tanh", func(t *testing.T) {
		_, net := build(t, "cnn-mnist", Options{Batch: 2})
		agree(t, net)
	})
}

func TestLongWideModelsAgreeWithTheTapeMachine(t *testing.T) {
	_, net := build(t, "wrn-16-4", Options{Activation: "relu", Seed: 3})
	agree(t, net)
}

// A wide network in small, with all its kinds of blocks: the first stage changes no channels with the factor 1, and has the stride 1.
func TestWideResidual(t *testing.T) {
	for _, factor := range []int{1, 2} {
		x := newUser(t).leaf("input", 2, 3, 8, 8)
		layers := append(wideResidual{16, factor}.layers(ReLU, wideResidual{}.init(4)), Flatten, Dense("fc1", 3, wideResidual{}.init(4)))
		logits, err := Apply(x, layers...)
		if err != nil {
			t.Fatal(err)
		}
		net, err := Lower(logits, WithInput(x))
		if err != nil {
			t.Fatal(err)
		}
		var strides []string
		for _, op := range net.Program.Ops {
			if op.Kind == ir.Conv {
				strides = append(strides, fmt.Sprint(op.Out[0]/factor, " ", op.Window.H, "/", op.Window.StrideH))
				if op.Function != ir.Standardize {
					t.Errorf("%s is not standardized", op.Name)
				}
			}
		}
		want := []string{"16 3/1", "16 3/1", "16 3/1", "16 3/1", "16 3/1", "32 3/2", "32 3/1", "32 1/2", "32 3/1", "32 3/1", "64 3/2", "64 3/1", "64 1/2", "64 3/1", "64 3/1"}
		if strides[0] = "16 3/1"; factor > 1 {
			want = slices.Insert(want, 3, "16 1/1")
		}
		if d := cmp.Diff(want, strides); d != "" {
			t.Errorf("factor %d: %s", factor, d)
		}
		agree(t, net)
	}
}

// The weights of wide networks have the variance 1/fan-in. The mean of n squares of a uniform variable is off by more than
// 6·√(4/5n) of itself with a probability below 1e-8; n is 36,864.
func TestInitialisationOfWideModels(t *testing.T) {
	_, net := build(t, "wrn-16-4", Options{Seed: 5})
	q := net.Program.Params[slices.IndexFunc(net.Program.Params, func(p ir.Param) bool { return p.Name == "conv3.weight" })]
	sum := 0.0
	for _, v := range net.Params()[q.Offset:][:q.Size()] {
		sum += float64(v) * float64(v)
	}
	if got := sum / float64(q.Size()) * 576; q.Size() != 36864 || math.Abs(got-1) > 0.028 {
		t.Errorf("the mean square of %d weights is %v/576, want 1/576", q.Size(), got)
	}
}

// An earlier network of a name is still there by its version, and says how many there are.
func TestVersions(t *testing.T) {
	for _, info := range Names() {
		if want := map[bool]int{true: 2, false: 1}[info.Name == "resnet-small"]; info.Versions != want {
			t.Errorf("%s has %d versions, want %d", info.Name, info.Versions, want)
		}
	}
	_, first := build(t, "resnet-small", Options{Batch: 2, Activation: "relu", Seed: 3, Version: 1})
	if n := first.Program.NumParams(); n != 378954 || first.Program.Ops[1].Kind != ir.GroupNorm {
		t.Errorf("version 1 has %d parameters and %s behind its first convolution", n, first.Program.Ops[1].Kind)
	}
	agree(t, first)
	_, last := build(t, "resnet-small", Options{Version: 2})
	if n := last.Program.NumParams(); n != 378730 || last.Program.Ops[1].Kind != ir.ReLU {
		t.Errorf("version 2 has %d parameters and %s behind its first convolution", n, last.Program.Ops[1].Kind)
	}
}

// Named models have ReLU by themselves where they are residual, GELU where they are networks for tables, tanh else.
func TestOwnActivation(t *testing.T) {
	for _, info := range Names() {
		want, residual := ir.Tanh, slices.Contains([]string{"resnet-small", "wrn-16-4", "wrn-40-4"}, info.Name)
		if residual {
			want = ir.ReLU
		}
		if info.Input == [3]int{} && !info.Linear {
			want = ir.GELU
		}
		if info.Activation != want.String() {
			t.Errorf("%s has %s by itself, want %s", info.Name, info.Activation, want)
		}
	}
	for name, want := range map[string]ir.Kind{"cnn-mnist": ir.Tanh, "wrn-16-4": ir.ReLU} {
		_, net := build(t, name, Options{})
		if got := net.Program.Ops[1].Kind; got != want {
			t.Errorf("%s: %s stands behind the first convolution, want %s", name, got, want)
		}
	}
}

func TestProgramOfCNN(t *testing.T) {
	_, net := build(t, "cnn-mnist", Options{Batch: 3, Activation: "relu"})
	p := net.Program
	var ops []string
	for _, op := range p.Ops {
		ops = append(ops, fmt.Sprintf("%s %s %v→%v", op.Name, op.Kind, op.Shape, op.Out))
	}
	want := []string{
		"conv1 conv [1 28 28]→[6 24 24]", "relu1 relu [6 24 24]→[6 24 24]", "maxpool1 maxpool [6 24 24]→[6 12 12]",
		"conv2 conv [6 12 12]→[16 8 8]", "relu2 relu [16 8 8]→[16 8 8]", "maxpool2 maxpool [16 8 8]→[16 4 4]",
		"fc1 dense [256]→[256]", "relu3 relu [256]→[256]",
		"fc2 dense [256]→[128]", "relu4 relu [128]→[128]",
		"fc3 dense [128]→[10]",
	}
	if d := cmp.Diff(want, ops); d != "" {
		t.Error(d)
	}
	var params []string
	for _, q := range p.Params {
		params = append(params, fmt.Sprintf("%s %s %v %d", q.Name, q.Node, q.Shape, q.Offset))
	}
	want = []string{
		"conv1.weight conv1.weight [6 1 5 5] 0", "conv1.bias conv1.bias [6] 150",
		"conv2.weight conv2.weight [16 6 5 5] 156", "conv2.bias conv2.bias [16] 2556",
		"fc1.weight fc1.weight [256 256] 2572", "fc1.bias fc1.bias [256] 68108",
		"fc2.weight fc2.weight [128 256] 68364", "fc2.bias fc2.bias [128] 101132",
		"fc3.weight fc3.weight [10 128] 101260", "fc3.bias fc3.bias [10] 102540",
	}
	if d := cmp.Diff(want, params); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(ir.Square(5, 1, 0), p.Ops[0].Window); d != "" {
		t.Error(d)
	}
}

func TestDenseNodesAreTransposed(t *testing.T) {
	m, net := build(t, "mlp-mnist", Options{Seed: 1})
	node := m.Graph.ByName("fc2.weight")[0]
	if got := node.Shape(); !got.Eq([]int{1000, 10}) {
		t.Fatalf("fc2.weight is stored as %v, want (1000, 10)", got)
	}
	q := net.Program.Params[2]
	flat, stored := net.Params()[q.Offset:], node.Value().Data().([]float32)
	for _, at := range [][2]int{{0, 0}, {3, 7}, {9, 999}} {
		if flat[at[0]*1000+at[1]] != stored[at[1]*10+at[0]] {
			t.Errorf("element (out %d, in %d) differs between node and flat vector", at[0], at[1])
		}
	}
}

func TestInitialisation(t *testing.T) {
	params := func(seed uint64, act string) []float32 {
		_, net := build(t, "cnn-mnist", Options{Seed: seed, Activation: act})
		return net.Params()
	}
	a := params(5, "relu")
	if !slices.Equal(a, params(5, "relu")) {
		t.Error("one seed gives two initialisations")
	}
	if slices.Equal(a, params(6, "relu")) {
		t.Error("two seeds give one initialisation")
	}
	// The bits themselves, so that no platform and no later version differs.
	bits := [3]uint32{}
	for i, at := range []int{0, 2572, 101260} {
		bits[i] = math.Float32bits(a[at])
	}
	if want := [3]uint32{0x3cc1e4bd, 0x3d8c8a2f, 0x3df09d47}; bits != want {
		t.Errorf("the first weights of conv1, fc1 and fc3 are %#x, want %#x", bits, want)
	}
	// Uniform within its limit, and spread over it: of 65,536 draws none lies
	// beyond 0.999 of the limit with probability below 1e-28.
	for act, limit := range map[string]float64{"relu": math.Sqrt(6. / 256), "tanh": math.Sqrt(6. / 512)} {
		top := 0.0
		for _, v := range params(5, act)[2572:68108] {
			top = max(top, math.Abs(float64(v)))
		}
		if top > limit || top < 0.999*limit {
			t.Errorf("%s: the largest weight of fc1 is %v, want just below %v", act, top, limit)
		}
	}
	for _, v := range a[150:156] {
		if v != 0 {
			t.Error("a bias does not start at zero")
		}
	}
	_, net := build(t, "logistic", Options{Seed: 5})
	for _, v := range net.Params() {
		if v != 0 {
			t.Fatal("a linear model does not start at zero")
		}
	}
}

// A layer's weights follow from the seed and its name, not from its place.
func TestInitialisationIgnoresOrder(t *testing.T) {
	a, b := make([]float32, 100), make([]float32, 100)
	He(9)("fc1.weight", 10, 10, b)
	He(9)("conv1.weight", 10, 10, a)
	He(9)("fc1.weight", 10, 10, a)
	if !slices.Equal(a, b) {
		t.Error("the weights depend on what was drawn before")
	}
	He(9)("conv1.weight", 10, 10, a)
	if slices.Equal(a, b) {
		t.Error("two layers have the same weights")
	}
}

func TestBuildRefuses(t *testing.T) {
	for _, c := range []struct {
		name string
		o    Options
		want []string
	}{
		{"resnet", Options{}, []string{`"resnet"`, "mlp-mnist, mlp-fmnist, mlp-small, cnn-mnist, mnist-tf, cifar-small, cifar-paper, resnet-small, wrn-16-4, wrn-40-4, logistic, svm, huber-svm, huber-regression, mlp-table, mlp-regression"}},
		{"cnn-mnist", Options{Input: [3]int{3, 32, 32}}, []string{"takes 1×28×28, the data is 3×32×32", "fit are cifar-small, cifar-paper, resnet-small, wrn-16-4, wrn-40-4, logistic"}},
		{"cifar-paper", Options{Input: [3]int{1, 28, 28}}, []string{"takes 3×32×32", "fit are mlp-mnist, mlp-fmnist, mlp-small, cnn-mnist"}},
		{"svm", Options{Input: [3]int{0, 4, 4}}, []string{"no named model fits"}},
		{"svm", Options{}, []string{"Options.Input"}},
		{"svm", Options{Input: [3]int{1, 1, 4}, Classes: 10}, []string{"10 classes"}},
		{"cnn-mnist", Options{Classes: 1}, []string{"at least 2 classes, has 1"}},
		{"cnn-mnist", Options{Batch: -1}, []string{"-1"}},
		{"cnn-mnist", Options{Version: 2}, []string{"versions 1 to 1, not 2"}},
		{"resnet-small", Options{Version: 3}, []string{"versions 1 to 2, not 3"}},
		{"resnet-small", Options{Version: -1}, []string{"versions 1 to 2, not -1"}},
		{"cnn-mnist", Options{Activation: "swish"}, []string{`"swish"`, "tanh, relu, sigmoid, gelu"}},
	} {
		_, err := Build(c.name, c.o)
		if err == nil {
			t.Errorf("%s %+v: built", c.name, c.o)
			continue
		}
		for _, w := range c.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s %+v: error %q lacks %q", c.name, c.o, err, w)
			}
		}
	}
}

func TestOptions(t *testing.T) {
	m, net := build(t, "cifar-small", Options{Batch: 4, Classes: 3})
	if s := m.Input.Shape(); !s.Eq([]int{4, 3, 32, 32}) {
		t.Errorf("the input is %v", s)
	}
	if net.Program.Outputs() != 3 {
		t.Errorf("%d logits for 3 classes", net.Program.Outputs())
	}
	_, net = build(t, "huber-regression", Options{Input: [3]int{1, 1, 14}, Batch: 2})
	if net.Program.NumParams() != 15 {
		t.Errorf("%d parameters for 14 columns", net.Program.NumParams())
	}
}

// Logistic regression has one logit for two classes and a softmax over one each
// for more; the support vector machines are binary.
func TestLinearModelsOfManyClasses(t *testing.T) {
	for _, c := range []struct {
		classes, outputs int
		loss             Loss
	}{{2, 1, Logistic}, {3, 3, SoftmaxCrossEntropy}, {10, 10, SoftmaxCrossEntropy}} {
		_, net := build(t, "logistic", Options{Input: [3]int{1, 1, 6}, Classes: c.classes})
		if net.Program.Loss != c.loss || net.Program.Outputs() != c.outputs || net.Program.NumParams() != 7*c.outputs {
			t.Errorf("%d classes: loss %v over %d logits with %d parameters", c.classes, net.Program.Loss, net.Program.Outputs(), net.Program.NumParams())
		}
	}
	for _, name := range []string{"svm", "huber-svm"} {
		if _, err := Build(name, Options{Input: [3]int{1, 1, 6}, Classes: 3}); err == nil || !strings.Contains(err.Error(), "the data has 3 classes") {
			t.Errorf("%s of 3 classes: %v", name, err)
		}
	}
}

// The networks for tables have one logit for two classes and for a number, one each for more classes, and begin with logits of
// zero, whatever the record.
func TestNetworksOfTables(t *testing.T) {
	for _, c := range []struct {
		name             string
		classes, outputs int
		loss             Loss
	}{{"mlp-table", 2, 1, Logistic}, {"mlp-table", 3, 3, SoftmaxCrossEntropy}, {"mlp-regression", 0, 1, Huber}} {
		_, net := build(t, c.name, Options{Input: [3]int{1, 1, 6}, Classes: c.classes, Seed: 1})
		if p := net.Program; p.Loss != c.loss || p.Outputs() != c.outputs || p.NumParams() != 7*64+65*c.outputs {
			t.Errorf("%s of %d classes: loss %v over %d logits with %d parameters", c.name, c.classes, p.Loss, p.Outputs(), p.NumParams())
		}
		first, last := net.Params()[:6*64], net.Params()[7*64:]
		if !slices.ContainsFunc(first, func(x float32) bool { return x != 0 }) || slices.ContainsFunc(last, func(x float32) bool { return x != 0 }) {
			t.Errorf("%s of %d classes: its hidden layer begins at zero, or its last one does not", c.name, c.classes)
		}
	}
}
