package nn

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// user writes graphs as Gorgonia's users do, stopping at the first error.
type user struct {
	t  tb
	g  *G.ExprGraph
	of tensor.Dtype
}

func newUser(t tb) user { return user{t, G.NewGraph(), tensor.Float32} }

// leaf makes an input: a node without a value.
func (u user) leaf(name string, shape ...int) *G.Node {
	return G.NewTensor(u.g, u.of, len(shape), G.WithShape(shape...), G.WithName(name))
}

// param makes a leaf with a value that its name fixes.
func (u user) param(name string, shape ...int) *G.Node {
	n := tensor.Shape(shape).TotalSize()
	seed := uint64(0)
	for _, r := range name {
		seed = seed*31 + uint64(r)
	}
	values := noise(seed, n, 0.7)
	var backing any = values
	if u.of == tensor.Float32 {
		backing = narrow(values)
	}
	v := tensor.New(tensor.WithShape(shape...), tensor.WithBacking(backing))
	return G.NewTensor(u.g, u.of, len(shape), G.WithShape(shape...), G.WithName(name), G.WithValue(v))
}

func (u user) ok(n *G.Node, err error) *G.Node {
	u.t.Helper()
	if err != nil {
		u.t.Fatal(err)
	}
	return n
}

func (u user) conv(x, w *G.Node, pad, stride, dilation []int) *G.Node {
	s := w.Shape()
	return u.ok(G.Conv2d(x, w, tensor.Shape{s[2], s[3]}, pad, stride, dilation))
}

func (u user) reshape(x *G.Node, to ...int) *G.Node { return u.ok(G.Reshape(x, to)) }

func (u user) dense(x *G.Node, name string, in, out int) *G.Node {
	return u.ok(G.BroadcastAdd(u.ok(G.Mul(x, u.param(name+"w", in, out))), u.param(name+"b", 1, out), nil, []byte{0}))
}

// graphs are hand-written networks of everything that lowers, with the kinds
// of their ops.
var graphs = []struct {
	name  string
	build func(u user) *G.Node
	kinds string
	loss  Loss
}{
	{"stride, padding and dilation", func(u user) *G.Node {
		x := u.leaf("x", 2, 3, 9, 8)
		h := u.conv(x, u.param("w", 4, 3, 3, 2), []int{2, 1}, []int{2, 1}, []int{1, 2})
		h = u.ok(G.BroadcastAdd(h, u.param("b", 1, 4, 1, 1), nil, []byte{0, 2, 3}))
		h = u.ok(G.Rectify(h))
		h = u.conv(h, u.param("w2", 2, 4, 2, 3), []int{0, 2}, []int{1, 3}, []int{2, 1})
		s := h.Shape()
		return u.dense(u.reshape(h, 2, s[1]*s[2]*s[3]), "d", s[1]*s[2]*s[3], 3)
	}, "conv relu conv dense", SoftmaxCrossEntropy},
	{"pools", func(u user) *G.Node {
		x := u.leaf("x", 2, 2, 8, 9)
		h := u.ok(G.MaxPool2D(x, tensor.Shape{3, 2}, []int{1, 1}, []int{2, 2}))
		h = u.ok(AvgPool(2, 1)(h))
		h = u.conv(h, u.param("w", 3, 2, 1, 1), nil, []int{1, 1}, nil)
		h = u.ok(G.GlobalAveragePool2D(h))
		return u.dense(u.reshape(h, 2, 3), "d", 3, 4)
	}, "maxpool avgpool conv avgpool dense", SoftmaxCrossEntropy},
	{"average pool that is a mean", func(u user) *G.Node { // width 4 = window of 2×2
		h := u.ok(G.AveragePool2D(u.leaf("x", 1, 2, 6, 4), tensor.Shape{2, 2}, []int{0, 0}, []int{2, 2}))
		return u.dense(u.reshape(h, 1, 12), "d", 12, 3)
	}, "avgpool dense", SoftmaxCrossEntropy},
	{"residual", func(u user) *G.Node {
		x := u.leaf("x", 2, 3, 5, 5)
		h := u.conv(x, u.param("w1", 4, 3, 3, 3), []int{1, 1}, []int{1, 1}, nil)
		h = u.ok(G.Tanh(h))
		f := u.conv(h, u.param("w2", 4, 4, 3, 3), []int{1, 1}, []int{1, 1}, nil)
		f = u.ok(G.BroadcastAdd(f, u.param("b2", 1, 4, 1, 1), nil, []byte{0, 2, 3}))
		h = u.ok(G.Sigmoid(u.ok(G.Add(h, f))))
		return u.dense(u.reshape(h, 2, 100), "d", 100, 3)
	}, "conv tanh conv add sigmoid dense", SoftmaxCrossEntropy},
	{"residual around the input", func(u user) *G.Node {
		x := u.leaf("x", 3, 4)
		h := u.ok(G.Tanh(u.dense(x, "a", 4, 4)))
		return u.ok(G.Add(x, h))
	}, "dense tanh add", SoftmaxCrossEntropy},
	{"residual block with a projection", func(u user) *G.Node {
		x := u.leaf("x", 2, 3, 6, 6)
		h, err := Apply(x, Residual(Conv("c3", 4, 1, 2, 0, He(1)), Conv("c1", 4, 3, 2, 1, He(1)), GroupNorm("n1", 2), LeakyReLU(0.1),
			Conv("c2", 4, 3, 1, 1, He(1)), GroupNorm("n2", 4)), ReLU, GlobalAvgPool, Flatten)
		return u.dense(u.ok(h, err), "d", 4, 3)
	}, "conv groupnorm leakyrelu conv groupnorm conv add relu avgpool dense", SoftmaxCrossEntropy},
	{"residual block around its input", func(u user) *G.Node {
		h, err := Residual(nil, Dense("a", 4, He(2)), Tanh)(u.leaf("x", 2, 4))
		return u.ok(h, err)
	}, "dense tanh add", SoftmaxCrossEntropy},
	{"groups of more than 256 elements", func(u user) *G.Node {
		h, err := Apply(u.leaf("x", 2, 4, 12, 12), GroupNorm("n", 2), GlobalAvgPool, Flatten, Dense("d", 3, He(1)))
		return u.ok(h, err)
	}, "groupnorm avgpool dense", SoftmaxCrossEntropy},
	{"layer normalization of a vector", func(u user) *G.Node {
		h, err := Apply(u.leaf("x", 2, 6), Dense("d", 5, He(1)), GroupNorm("n", 1), Tanh, Dense("e", 3, He(1)))
		return u.ok(h, err)
	}, "dense groupnorm tanh dense", SoftmaxCrossEntropy},
	{"Gorgonia's group normalization", func(u user) *G.Node {
		u.of = tensor.Float64
		h := u.conv(u.leaf("x", 2, 2, 5, 4), u.param("w", 4, 2, 2, 1), nil, []int{1, 1}, nil)
		h = u.ok(G.GroupNorm(h, u.param("γ", 1, 4, 1, 1), u.param("β", 1, 4, 1, 1), 2, 4, 1e-3))
		return u.dense(u.reshape(h, 2, 64), "d", 64, 3)
	}, "conv groupnorm dense", SoftmaxCrossEntropy},
	{"normalization with a scale on the left and no shift", func(u user) *G.Node {
		h := u.ok(G.ApplyOp(newNormalize(3, 1e-5), u.leaf("x", 2, 6, 3, 2)))
		h = u.ok(G.BroadcastHadamardProd(u.param("γ", 1, 6, 1, 1), h, []byte{0, 2, 3}, nil))
		return u.dense(u.reshape(h, 2, 36), "d", 36, 3)
	}, "groupnorm dense", SoftmaxCrossEntropy},
	{"leaky rectifiers", func(u user) *G.Node {
		u.of = tensor.Float64
		h := u.ok(G.LeakyRelu(u.dense(u.leaf("x", 2, 4), "a", 4, 4), 0.25))
		above := u.ok(G.HadamardProd(u.ok(G.Gt(h, G.NewConstant(0.0), true)), h))
		below := u.ok(G.HadamardProd(G.NewConstant(0.5), u.ok(G.HadamardProd(h, u.ok(G.Lt(h, G.NewConstant(0.0), true))))))
		return u.dense(u.ok(G.Add(below, above)), "d", 4, 3)
	}, "dense leakyrelu leakyrelu dense", SoftmaxCrossEntropy},
	{"sum of one value with itself", func(u user) *G.Node {
		h := u.ok(G.Tanh(u.dense(u.leaf("x", 2, 4), "a", 4, 3)))
		return u.dense(u.ok(G.Add(h, h)), "d", 3, 2)
	}, "dense tanh add dense", SoftmaxCrossEntropy},
	{"two branches", func(u user) *G.Node {
		x := u.leaf("x", 2, 4)
		a := u.ok(G.Rectify(u.dense(x, "a", 4, 3)))
		b := u.ok(G.Sigmoid(u.dense(x, "b", 4, 3)))
		return u.ok(G.Add(a, b))
	}, "dense relu dense sigmoid add", SoftmaxCrossEntropy},
	{"transposed weight", func(u user) *G.Node {
		w := u.ok(G.Transpose(u.param("w", 3, 4), 1, 0))
		return u.ok(G.Mul(u.leaf("x", 2, 4), w))
	}, "dense", SoftmaxCrossEntropy},
	{"transposed filter, reshaped weight", func(u user) *G.Node {
		w := u.ok(G.Transpose(u.param("w", 3, 3, 2, 4), 3, 2, 0, 1)) // stored (kh, kw, in, out)
		h := u.conv(u.leaf("x", 2, 2, 5, 4), w, nil, []int{1, 1}, nil)
		v := u.reshape(u.param("v", 4, 3, 2, 5), 24, 5)
		return u.ok(G.Mul(u.reshape(h, 2, 24), v))
	}, "conv dense", SoftmaxCrossEntropy},
	{"bias as a vector", func(u user) *G.Node {
		h := u.ok(G.Mul(u.leaf("x", 2, 4), u.param("w", 4, 3)))
		return u.ok(G.BroadcastAdd(h, u.param("b", 3), nil, []byte{0}))
	}, "dense", SoftmaxCrossEntropy},
	{"bias on the left", func(u user) *G.Node {
		h := u.ok(G.Mul(u.leaf("x", 2, 4), u.param("w", 4, 3)))
		return u.ok(G.BroadcastAdd(u.param("b", 1, 3), h, []byte{0}, nil))
	}, "dense", SoftmaxCrossEntropy},
	{"plain Add of a bias to a batch of one", func(u user) *G.Node {
		h := u.ok(G.Mul(u.leaf("x", 1, 4), u.param("w", 4, 3)))
		return u.ok(G.Add(h, u.param("b", 1, 3)))
	}, "dense", SoftmaxCrossEntropy},
	{"matrix times vector", func(u user) *G.Node {
		h := u.ok(G.Mul(u.leaf("x", 5, 4), u.param("w", 4)))
		return u.ok(G.BroadcastAdd(h, u.param("b", 1), nil, []byte{0}))
	}, "dense", Logistic},
	{"square matrix times vector", func(u user) *G.Node {
		return u.ok(G.Mul(u.leaf("x", 4, 4), u.param("w", 4)))
	}, "dense", Hinge},
	{"one logit flattened to a vector", func(u user) *G.Node {
		return u.reshape(u.dense(u.leaf("x", 3, 4), "d", 4, 1), 3)
	}, "dense", Huber},
	{"one-dimensional convolution", func(u user) *G.Node {
		h := u.ok(G.Conv1d(u.leaf("x", 2, 3, 1, 8), u.param("w", 4, 3, 1, 3), 3, 1, 2, 1))
		s := h.Shape()
		return u.dense(u.reshape(h, 2, s[1]*s[3]), "d", s[1]*s[3], 2)
	}, "conv dense", SoftmaxCrossEntropy},
	{"rectifier with >", func(u user) *G.Node {
		h := u.dense(u.leaf("x", 2, 4), "a", 4, 3)
		h = u.ok(G.HadamardProd(u.ok(G.Gt(h, G.NewConstant(float32(0)), true)), h))
		return u.dense(h, "d", 3, 2)
	}, "dense relu dense", SoftmaxCrossEntropy},
	{"activation of the input", func(u user) *G.Node {
		return u.dense(u.ok(G.Rectify(u.leaf("x", 2, 4))), "d", 4, 2)
	}, "relu dense", SoftmaxCrossEntropy},
	{"input of an unusual shape", func(u user) *G.Node {
		return u.dense(u.reshape(u.leaf("x", 2, 4, 3), 2, 12), "d", 12, 2)
	}, "dense", SoftmaxCrossEntropy},
	{"float64", func(u user) *G.Node {
		u.of = tensor.Float64
		h := u.conv(u.leaf("x", 2, 1, 5, 5), u.param("w", 2, 1, 2, 2), nil, []int{1, 1}, nil)
		h = u.ok(G.BroadcastAdd(h, u.param("b", 1, 2, 1, 1), nil, []byte{0, 2, 3}))
		h = u.ok(G.Rectify(u.ok(AvgPool(3, 1)(h))))
		return u.dense(u.reshape(h, 2, 8), "d", 8, 3)
	}, "conv avgpool relu dense", SoftmaxCrossEntropy},
	{"standardized convolutions, GELU and layer normalization", func(u user) *G.Node {
		h, err := Apply(u.leaf("x", 2, 2, 7, 10),
			StandardConv("c1", 4, 3, 1, 1, He(1)), GroupNorm("n1", 2), GELU,
			StandardConv("c2", 3, 3, 2, 0, He(1)), LayerNorm("n2"), GELU, AvgPool(2, 1),
			Flatten, LayerNorm("n3"), Dense("d", 3, He(1)))
		return u.ok(h, err)
	}, "conv groupnorm gelu conv layernorm gelu avgpool layernorm dense", SoftmaxCrossEntropy},
	{"layers between Gorgonia's ops", func(u user) *G.Node {
		h := u.ok(G.Tanh(u.leaf("x", 2, 1, 6, 6)))
		h = u.ok(G.Rectify(u.ok(StandardConv("c", 3, 2, 2, 1, Glorot(2))(h))))
		h = u.ok(G.Add(h, u.ok(GELU(h))))
		h = u.ok(LayerNorm("n")(u.reshape(u.ok(G.MaxPool2D(h, tensor.Shape{2, 2}, []int{0, 0}, []int{2, 2})), 2, 12)))
		return u.dense(h, "d", 12, 2)
	}, "tanh conv relu gelu add maxpool layernorm dense", SoftmaxCrossEntropy},
	{"standardized weight that is stored otherwise", func(u user) *G.Node {
		u.of = tensor.Float64
		w := u.ok(G.Transpose(u.param("w", 3, 2, 2, 4), 3, 2, 0, 1)) // stored (kh, kw, in, out)
		w = u.ok(G.ApplyOp(newStandardize(), w, u.reshape(u.param("γ", 4), 4, 1, 1, 1)))
		h := u.conv(u.leaf("x", 2, 2, 5, 4), w, []int{1, 0}, []int{2, 1}, []int{1, 2})
		s := h.Shape()
		return u.dense(u.reshape(h, 2, s[1]*s[2]*s[3]), "d", s[1]*s[2]*s[3], 3)
	}, "conv dense", SoftmaxCrossEntropy},
	{"standardized weights below the floor", func(u user) *G.Node {
		values := noise(9, 16, 1e-3) // deviations of eight weights below 8e-6 in squares, against 1e-4
		for i := range values {
			values[i] += 0.5
		}
		w := G.NewTensor(u.g, u.of, 4, G.WithShape(2, 2, 2, 2), G.WithName("w"), G.WithValue(tensor.New(tensor.WithShape(2, 2, 2, 2), tensor.WithBacking(narrow(values)))))
		w = u.ok(G.ApplyOp(newStandardize(), w, u.param("γ", 2, 1, 1, 1)))
		h := u.conv(u.leaf("x", 2, 2, 3, 3), w, nil, []int{1, 1}, nil)
		return u.dense(u.reshape(h, 2, 8), "d", 8, 3)
	}, "conv dense", SoftmaxCrossEntropy},
	{"layer normalization of sequences", func(u user) *G.Node {
		u.of = tensor.Float64
		h := u.leaf("x", 2, 3, 2, 2, 5)
		h = u.ok(G.ApplyOp(newLayerNorm(5, 1e-3), h, u.param("γ", 5), u.param("β", 5)))
		h = u.ok(G.ApplyOp(newLayerNorm(3, 1e-5), u.reshape(h, 2, 6, 10), u.reshape(u.param("δ", 2, 5), 10), u.param("ε", 10)))
		return u.dense(u.reshape(h, 2, 60), "d", 60, 3)
	}, "layernorm layernorm dense", SoftmaxCrossEntropy},
	{"two GELUs of one value", func(u user) *G.Node {
		h := u.dense(u.ok(GELU(u.leaf("x", 2, 4))), "a", 4, 3)
		return u.ok(G.Add(u.ok(GELU(h)), u.dense(u.ok(GELU(h)), "b", 3, 3)))
	}, "gelu dense gelu dense add", SoftmaxCrossEntropy},
}

func TestUserGraphs(t *testing.T) {
	for _, c := range graphs {
		t.Run(c.name, func(t *testing.T) {
			net, err := Lower(c.build(newUser(t)), WithLoss(c.loss))
			if err != nil {
				t.Fatal(err)
			}
			var kinds []string
			for _, op := range net.Program.Ops {
				kinds = append(kinds, op.Kind.String())
			}
			if got := strings.Join(kinds, " "); got != c.kinds {
				t.Errorf("the ops are %q, want %q", got, c.kinds)
			}
			agree(t, net)
		})
	}
}

// Ops and parameters come in one order, whatever is built beside them and
// however often.
func TestLowerIsDeterministic(t *testing.T) {
	for _, c := range graphs {
		var first string
		for range 3 {
			net, err := Lower(c.build(newUser(t)), WithLoss(c.loss), WithName("p"))
			if err != nil {
				t.Fatal(c.name, err)
			}
			if s := fmt.Sprintf("%+v %v", *net.Program, net.Params()); first == "" {
				first = s
			} else if s != first {
				t.Errorf("%s: two lowerings differ:\n%s\n%s", c.name, first, s)
			}
		}
	}
}

func TestParameterNames(t *testing.T) {
	u := newUser(t)
	h := u.conv(u.leaf("x", 1, 1, 4, 4), u.param("kernel", 2, 1, 3, 3), nil, []int{1, 1}, nil)
	h = u.ok(G.BroadcastAdd(h, u.param("shift", 1, 2, 1, 1), nil, []byte{0, 2, 3}))
	h = u.dense(u.reshape(h, 1, 8), "first", 8, 5)
	net, err := Lower(u.ok(G.Mul(h, u.param("last", 5, 3))), WithName("mine"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, q := range net.Program.Params {
		got = append(got, fmt.Sprint(q.Name, " ", q.Node, " ", q.Shape))
	}
	want := []string{
		"conv1.weight kernel [2 1 3 3]", "conv1.bias shift [2]",
		"fc1.weight firstw [5 8]", "fc1.bias firstb [5]", "fc2.weight last [3 5]",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the parameters are %q, want %q", got, want)
	}
	if net.Program.Name != "mine" || net.Program.Loss != SoftmaxCrossEntropy {
		t.Errorf("the program is %s with loss %s", net.Program.Name, net.Program.Loss)
	}
}

// A function's own parameters come behind the weight and the bias, whatever the order in the graph.
func TestGivenParameters(t *testing.T) {
	u := newUser(t)
	h, err := Apply(u.leaf("x", 1, 2, 4, 4), StandardConv("first", 3, 3, 1, 1, He(1)), GroupNorm("second", 3), GELU,
		StandardConv("third", 2, 4, 1, 0, He(1)), Flatten, LayerNorm("last"))
	if err != nil {
		t.Fatal(err)
	}
	net, err := Lower(h)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, q := range net.Program.Params {
		got = append(got, fmt.Sprint(q.Name, " ", q.Node, " ", q.Shape, " ", q.Offset))
	}
	want := []string{
		"conv1.weight first.weight [3 2 3 3] 0", "conv1.bias first.bias [3] 54", "conv1.gain first.gain [3] 57",
		"groupnorm1.weight second.weight [3] 60", "groupnorm1.bias second.bias [3] 63",
		"conv2.weight third.weight [2 3 4 4] 66", "conv2.bias third.bias [2] 162", "conv2.gain third.gain [2] 164",
		"layernorm1.weight last.weight [2] 166", "layernorm1.bias last.bias [2] 168",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the parameters are %q, want %q", got, want)
	}
	params := net.Params()
	weight := make([]float32, 54)
	He(1)("first.weight", 18, 27, weight)
	if !slices.Equal(params[:54], weight) || !slices.Equal(params[54:60], []float32{0, 0, 0, 1, 1, 1}) || !slices.Equal(params[166:], []float32{1, 1, 0, 0}) {
		t.Errorf("the initial parameters are %v", params)
	}
	// He draws from ±√(6/fan-in) of an output's weights; those of 2 input channels of 3×3 are 18.
	if top := slices.Max(weight); top > float32(math.Sqrt(6./18)) || top < 0.9*float32(math.Sqrt(6./18)) {
		t.Errorf("the largest weight is %v", top)
	}
}

// What Gorgonia cannot put together or run shows when a graph is built or run.
func TestOwnOpsInGorgonia(t *testing.T) {
	u := newUser(t)
	x, w := u.leaf("x", 2, 4), u.param("w", 2, 3, 2, 2)
	four, five := u.param("four", 4), u.param("five", 5)
	u.of = tensor.Float64
	double := u.param("double", 4)
	for _, c := range []struct {
		what     string
		op       G.Op
		operands []*G.Node
		want     string
	}{
		{"weight too long", newLayerNorm(2, 1e-5), []*G.Node{x, five, four}, "the weight of a layer normalization has shape (5); give it (4)"},
		{"bias too long", newLayerNorm(2, 1e-5), []*G.Node{x, four, five}, "the bias of a layer normalization has shape (5)"},
		{"numbers of two types", newLayerNorm(2, 1e-5), []*G.Node{x, four, double}, "Type inference"},
		{"no bias", newLayerNorm(2, 1e-5), []*G.Node{x, four}, "LayerNorm"},
		{"gain of another number", newStandardize(), []*G.Node{w, u.ok(G.Reshape(four, tensor.Shape{4, 1, 1, 1}))}, "the gain of a standardized weight has shape (4, 1, 1, 1); give it (2, 1, 1, 1)"},
		{"gain that is a vector", newStandardize(), []*G.Node{w, four}, "has shape (4); give it (2, 1, 1, 1)"},
	} {
		if _, err := G.ApplyOp(c.op, c.operands...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q in it", c.what, err, c.want)
		}
	}
	u.of = tensor.Float32
	same := func(a, b G.Op) bool { return u.ok(G.ApplyOp(a, x, four, four)) == u.ok(G.ApplyOp(b, x, four, four)) }
	if same(newLayerNorm(2, 1e-5), newLayerNorm(2, 1e-3)) || !same(newLayerNorm(2, 1e-5), newLayerNorm(2, 1e-5)) {
		t.Error("nodes are not told apart by their epsilon")
	}

	sliced, err := tensor.New(tensor.WithShape(4, 4), tensor.Of(tensor.Float32)).Slice(nil, tensor.S(0, 2))
	if err != nil {
		t.Fatal(err)
	}
	for want, v := range map[string]G.Value{
		"of type int":    tensor.New(tensor.WithShape(4), tensor.Of(tensor.Int)),
		"not contiguous": sliced.(*tensor.Dense),
		"is a *":         G.NewF32(1),
	} {
		if _, err := newGELU().Do(v); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
}

// What hangs on the same graph beside the logits, the labels and the cost,
// does not matter.
func TestLowerIgnoresTheCost(t *testing.T) {
	u := newUser(t)
	logits := u.dense(u.leaf("x", 2, 4), "d", 4, 3)
	y := u.leaf("y", 2, 3)
	u.ok(G.Mean(u.ok(G.HadamardProd(y, u.ok(G.LogSoftMax(logits))))))
	net, err := Lower(logits)
	if err != nil {
		t.Fatal(err)
	}
	if net.Input.Name() != "x" {
		t.Errorf("the input is %s", net.Input.Name())
	}
}

func TestSetParamsRefuses(t *testing.T) {
	u := newUser(t)
	net, err := Lower(u.dense(u.leaf("x", 2, 4), "d", 4, 3))
	if err != nil {
		t.Fatal(err)
	}
	before := net.Params()
	if err := net.SetParams(make([]float32, 14)); err == nil || !strings.Contains(err.Error(), "15 parameters, got 14") {
		t.Errorf("wrong length: %v", err)
	}
	b := u.g.ByName("db")[0]
	if err := G.Let(b, tensor.New(tensor.WithShape(1, 3), tensor.WithBacking(make([]float32, 3)))); err != nil {
		t.Fatal(err)
	}
	if err := net.SetParams(make([]float32, 15)); err == nil || !strings.Contains(err.Error(), `"db" was bound to another value`) {
		t.Errorf("rebound node: %v", err)
	}
	if !slices.Equal(net.Params(), before) {
		t.Error("a refused SetParams wrote something")
	}
}

func TestLayersRefuse(t *testing.T) {
	u := newUser(t)
	image, matrix := u.leaf("image", 2, 3, 5, 5), u.leaf("matrix", 2, 7)
	u.param("taken.weight", 7, 2)
	double := user{t, G.NewGraph(), tensor.Float64}.leaf("x", 2, 7)
	for _, c := range []struct {
		what  string
		layer Layer
		x     *G.Node
		want  string
	}{
		{"conv on a matrix", Conv("c", 2, 3, 1, 0, Zeros), matrix, "c: needs an input of 4 axes"},
		{"conv without kernels", Conv("c", 0, 3, 1, 0, Zeros), image, "0 kernels"},
		{"conv without stride", Conv("c", 1, 3, 0, 0, Zeros), image, "stride 0"},
		{"conv too large", Conv("c", 1, 6, 1, 0, Zeros), image, "6×6 window does not fit the 5×5 image"},
		{"dense on an image", Dense("d", 2, Zeros), image, "d: needs an input of 2 axes"},
		{"dense without outputs", Dense("d", 0, Zeros), matrix, "at least one output"},
		{"name taken", Dense("taken", 2, Zeros), matrix, `already has a node named "taken.weight"`},
		{"float64", Dense("d", 2, Zeros), double, "layers are float32"},
		{"nil input", ReLU, nil, "relu: its input is nil"},
		{"nil input", Flatten, nil, "flatten: its input is nil"},
		{"pool on a matrix", MaxPool(2, 2), matrix, "max pool: needs an input of 4 axes"},
		{"pool too large", AvgPool(6, 1), image, "average pool: a 6×6 window"},
		{"pool without stride", MaxPool(2, 0), image, "stride 0"},
		{"group norm on three axes", GroupNorm("n", 1), u.leaf("three", 2, 3, 4), "n: needs an input (N, C, H, W) or (N, C)"},
		{"groups that do not divide", GroupNorm("n", 2), image, "cannot divide 3 channels into 2 groups"},
		{"group norm of float64", GroupNorm("n", 1), double, "layers are float32"},
		{"layer norm of lines of one", LayerNorm("n"), u.leaf("thin", 2, 3, 1), "n: normalizes lines of one element"},
		{"layer norm of the batch", LayerNorm("n"), u.leaf("batch", 5), "n: needs a non-empty input with the batch as axis 0"},
		{"layer norm of float64", LayerNorm("n"), double, "layers are float32"},
		{"layer norm whose name is taken", LayerNorm("taken"), matrix, `already has a node named "taken.weight"`},
		{"gelu of nothing", GELU, nil, "gelu: its input is nil"},
		{"standardized conv on a matrix", StandardConv("c", 2, 3, 1, 0, Zeros), matrix, "c: needs an input of 4 axes"},
		{"standardized conv of one weight", StandardConv("s", 2, 1, 1, 0, Zeros), u.leaf("grey", 2, 1, 5, 5), "s: has kernels of one weight, which standardize to zero; use Conv"},
		{"leaky relu without a slope", LeakyReLU(0), matrix, "leaky relu: has the slope 0"},
		{"leaky relu too steep", LeakyReLU(1), matrix, "between 0 and 1"},
		{"shortcut of another shape", Residual(nil, Dense("r", 3, Zeros)), matrix, "residual: the body gives the shape (2, 3), the shortcut (2, 7)"},
		{"shortcut that fails", Residual(Dense("s", 0, Zeros), Tanh), matrix, "residual: s: needs at least one output"},
		{"body that fails", Residual(nil, MaxPool(2, 2)), matrix, "residual: max pool: needs"},
		{"global pool on a matrix", GlobalAvgPool, matrix, "global average pool: needs"},
	} {
		if _, err := Apply(c.x, c.layer); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q in it", c.what, err, c.want)
		}
	}
}

// Gorgonia answers many wrong graphs with a panic; none may reach a caller.
func TestGuardTurnsPanicsIntoErrors(t *testing.T) {
	u := newUser(t)
	_, err := Apply(u.leaf("x", 2, 3), func(x *G.Node) (*G.Node, error) {
		return guard("div", func() (*G.Node, error) { return G.Div(x, u.leaf("y", 3, 2)) })
	})
	if err == nil || !strings.Contains(err.Error(), "div: gorgonia rejected it") {
		t.Errorf("error %v", err)
	}
}

func TestProgramTable(t *testing.T) {
	_, net := build(t, "cnn-mnist", Options{})
	if s := net.Program.String(); !strings.Contains(s, "cnn-mnist: input [1 28 28], 102550 parameters") {
		t.Error(s)
	}
}
