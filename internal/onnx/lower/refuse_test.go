package lower

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/internal/onnx/file"
	"github.com/privgrad/privgrad/internal/usage"
)

// refused says that a file is refused, in words that all stand in the error.
func refused(t *testing.T, what string, m *file.Model, c Choices, words ...string) {
	t.Helper()
	_, err := Lower(m, c)
	if err == nil {
		t.Errorf("%s: it is taken", what)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%s: %v\nwant %q in it", what, err, w)
		}
	}
}

// crossing is what every refusal says of a node in which one record sees another.
const crossing = "axis 0, that of the records"

// Whatever reduces, cuts, joins, moves or merges records is refused, also where the file has them as a fixed 1.
func TestRecordsStayApart(t *testing.T) {
	for _, c := range []struct {
		what  string
		build func(g *graph) string
		want  string
	}{
		{"reshape that merges", func(g *graph) string {
			return g.node("Reshape", "bad", in("x", g.vector("s", -1, 3)))
		}, "merges or splits"},
		{"reshape that splits", func(g *graph) string {
			return g.node("Reshape", "bad", in("x", g.vector("s", -1, 6*6)))
		}, "merges or splits"},
		{"reshape that moves records", func(g *graph) string {
			shape := g.node("Shape", "shape", in("x"))
			n := g.node("Gather", "n", in(shape, g.vector("zero", 0)))
			all := g.node("Concat", "all", in(g.vector("four", 4), n, g.vector("rest", 36)), number("axis", 0))
			return g.node("Reshape", "bad", in("x", all))
		}, "merges or splits"},
		{"reshape by records times channels", func(g *graph) string {
			n := g.node("Gather", "n", in(g.node("Shape", "shape", in("x")), g.vector("zero", 0)))
			m := g.node("Mul", "m", in(n, g.vector("four", 4)))
			return g.node("Reshape", "bad", in("x", g.node("Concat", "all", in(m, g.vector("rest", 36)), number("axis", 0))))
		}, "[4·N+0 36]"},
		{"reshape that keeps a fixed number", func(g *graph) string {
			g.fixedAt(1)
			return g.node("Reshape", "bad", in("x", g.vector("s", 4, 36)))
		}, "merges or splits"},
		{"reshape of an open number to 1", func(g *graph) string {
			return g.node("Reshape", "bad", in("x", g.vector("s", 1, -1)))
		}, "merges or splits"},
		{"transpose", func(g *graph) string {
			return g.node("Transpose", "bad", in("x"), list("perm", 1, 0, 2, 3))
		}, "moves axes"},
		{"transpose without an order", func(g *graph) string { return g.node("Transpose", "bad", in("x")) }, "moves axes"},
		{"mean over records", func(g *graph) string {
			return g.node("ReduceMean", "bad", in("x"), list("axes", 0))
		}, "reduces"},
		{"mean over all axes", func(g *graph) string { return g.node("ReduceMean", "bad", in("x")) }, "reduces"},
		{"mean over an axis from the back", func(g *graph) string {
			return g.node("ReduceMean", "bad", in("x"), list("axes", -4, -1))
		}, "reduces"},
		{"mean by an input", func(g *graph) string {
			g.set(18)
			return g.node("ReduceMean", "bad", in("x", g.vector("a", 0)))
		}, "reduces"},
		{"maximum over records", func(g *graph) string {
			return g.node("ReduceMax", "bad", in("x"), list("axes", 0))
		}, "reduces"},
		{"sum over records", func(g *graph) string {
			return g.node("ReduceSum", "bad", in("x", g.vector("a", 0)))
		}, "reduces"},
		{"concat", func(g *graph) string { return g.node("Concat", "bad", in("x", "x"), number("axis", 0)) }, "joins"},
		{"concat from the back", func(g *graph) string { return g.node("Concat", "bad", in("x", "x"), number("axis", -4)) }, "joins"},
		{"gather", func(g *graph) string { return g.node("Gather", "bad", in("x", g.vector("i", 0))) }, "picks"},
		{"slice", func(g *graph) string {
			return g.node("Slice", "bad", in("x", g.vector("b", 0), g.vector("e", 1), g.vector("a", 0)))
		}, "cuts"},
		{"slice without axes", func(g *graph) string {
			return g.node("Slice", "bad", in("x", g.vector("b", 0), g.vector("e", 1)))
		}, "cuts"},
		{"split", func(g *graph) string { return g.node("Split", "bad", in("x"), number("axis", 0)) }, "splits"},
		{"softmax", func(g *graph) string { return g.node("Softmax", "bad", in("x"), number("axis", 0)) }, "softmax"},
		{"softmax from the back", func(g *graph) string { return g.node("LogSoftmax", "bad", in("x"), number("axis", -4)) }, "softmax"},
		{"largest", func(g *graph) string { return g.node("ArgMax", "bad", in("x")) }, "largest"},
		{"running sum", func(g *graph) string { return g.node("CumSum", "bad", in("x", g.vector("a", 0))) }, "sums"},
		{"product of records", func(g *graph) string {
			f := g.node("Flatten", "f", in("x"))
			return g.node("MatMul", "bad", in(f, g.node("Transpose", "bad2", in(f))))
		}, "moves axes"},
		{"product with itself", func(g *graph) string {
			f := g.node("Flatten", "f", in("x"))
			return g.node("MatMul", "bad", in(f, f))
		}, "multiplies what records become"},
		{"weight from the left", func(g *graph) string {
			return g.node("MatMul", "bad", in(g.param("w", 5, 2), g.node("Flatten", "f", in("x"))))
		}, "multiplies a weight"},
		{"transposed Gemm", func(g *graph) string {
			return g.node("Gemm", "bad", in(g.node("Flatten", "f", in("x")), g.param("w", 2, 5)), number("transA", 1))
		}, "moves axis 0"},
		{"flatten from axis 0", func(g *graph) string { return g.node("Flatten", "bad", in("x"), number("axis", 0)) }, "joins"},
		{"flatten from axis 2", func(g *graph) string { return g.node("Flatten", "bad", in("x"), number("axis", 2)) }, "splits records"},
		{"flatten from the back", func(g *graph) string { return g.node("Flatten", "bad", in("x"), number("axis", -4)) }, "joins"},
		{"squeeze of records", func(g *graph) string {
			return g.fixedAt(1).node("Squeeze", "bad", in("x", g.vector("a", 0)))
		}, "drops an axis"},
		{"squeeze of all", func(g *graph) string { return g.fixedAt(1).node("Squeeze", "bad", in("x")) }, "drops an axis"},
		{"unsqueeze before the records", func(g *graph) string {
			return g.node("Unsqueeze", "bad", in("x", g.vector("a", 0)))
		}, "before the records"},
		{"pad of records", func(g *graph) string {
			return g.node("Pad", "bad", in("x", g.vector("p", 1, 0, 0, 0, 0, 0, 0, 0)))
		}, "pads"},
		{"layer normalization of records", func(g *graph) string {
			return g.node("LayerNormalization", "bad", in("x", g.param("w", 4)), number("axis", 0))
		}, "normalizes"},
		{"constant of each record", func(g *graph) string {
			return g.fixedAt(2).node("Add", "bad", in("x", g.param("b", 2, 1, 1, 1)))
		}, "a constant that changes"},
		{"constant with a further axis", func(g *graph) string { return g.node("Add", "bad", in("x", g.param("b", 1, 1, 4, 6, 6))) }, "a constant that changes"},
		{"sum of values with other axes", func(g *graph) string {
			return g.node("Add", "bad", in("x", g.node("Flatten", "f", in("x"))))
		}, "different axes"},
	} {
		g := records(4, 6, 6)
		x := c.build(g)
		words := []string{c.want, "node bad", "; "}
		if c.what != "transposed Gemm" {
			words = append(words, "axis 0")
		}
		refused(t, c.what, g.done(x), Choices{Weights: OfFile}, words...)
	}
}

// Batch normalizations in training mode, and any that nothing was said about, are refused.
func TestBatchNormRefused(t *testing.T) {
	build := func(further bool, before string, settings ...setting) *file.Model {
		g := records(4, 6, 6)
		x := g.node("Relu", "r", in("x"))
		if before == "Conv" {
			x = g.conv("x", "c", 4, 4)
		}
		x = g.node("BatchNormalization", "bn", in(x, g.param("γ", 4), g.param("β", 4), g.param("μ", 4), g.param("v", 4)), settings...)
		if further {
			n := &g.m.Graph.Nodes[len(g.m.Graph.Nodes)-1]
			n.Outputs = append(n.Outputs, "mean")
			x = g.node("Add", "a", in(x, "mean"))
		}
		return g.done(g.dense(g.node("Flatten", "f", in(x)), "d", 144, 3))
	}
	refused(t, "nothing said", build(false, "Conv"), Choices{}, "node bn (BatchNormalization)", "one record would see another", "--batchnorm group", "--batchnorm frozen --weights-are-public")
	refused(t, "training", build(false, "Conv", number("training_mode", 1)), Choices{BatchNorm: Grouped}, "training mode", "export net.eval() with training=TrainingMode.PRESERVE, do_constant_folding=False")
	refused(t, "further outputs", build(true, "Conv"), Choices{BatchNorm: Grouped}, "training mode")
	refused(t, "nothing to fold into", build(false, "Relu"), Choices{BatchNorm: Frozen, Weights: OfFile}, "none is there", "use --batchnorm group")
	refused(t, "private statistics", build(false, "Conv"), Choices{BatchNorm: Frozen}, "--weights-are-public")
}

func TestRefused(t *testing.T) {
	flat := func(g *graph) string { return g.node("Flatten", "f", in("x")) }
	for _, c := range []struct {
		what  string
		build func(g *graph) string
		want  []string
	}{
		{"one weight of two layers", func(g *graph) string {
			w := g.param("w", 144, 144)
			return g.node("MatMul", "b", in(g.node("MatMul", "a", in(flat(g), w)), w))
		}, []string{"node b (MatMul)", "uses the parameter w, which node a uses too"}},
		{"one weight through an Identity", func(g *graph) string {
			w := g.param("w", 144, 144)
			return g.node("MatMul", "b", in(g.node("MatMul", "a", in(flat(g), w)), g.node("Identity", "i", in(w))))
		}, []string{"uses the parameter w, which node a uses too"}},
		{"one weight, transposed", func(g *graph) string {
			w := g.param("w", 144, 144)
			return g.node("MatMul", "b", in(g.node("MatMul", "a", in(flat(g), w)), g.node("Transpose", "t", in(w))))
		}, []string{"uses the parameter w, which node a uses too"}},
		{"one bias of two layers", func(g *graph) string {
			b := g.param("b", 144)
			return g.node("Gemm", "g2", in(g.node("Gemm", "g1", in(flat(g), g.param("v", 144, 144), b)), g.param("w", 144, 144), b))
		}, []string{"uses the parameter b, which node g1 uses too"}},
		{"grouped convolution", func(g *graph) string {
			return g.node("Conv", "dw", in("x", g.param("w", 4, 1, 3, 3)), number("group", 4))
		}, []string{"node dw (Conv)", "a grouped convolution, such as a depthwise one of MobileNet", "--freeze"}},
		{"tanh GELU", func(g *graph) string { return g.node("Gelu", "g", in("x"), text("approximate", "tanh")) }, []string{"approximated by tanh"}},
		{"softmax in the middle", func(g *graph) string {
			return g.dense(g.node("Softmax", "s", in(flat(g))), "d", 144, 3)
		}, []string{"node s (Softmax)", "only at the end"}},
		{"sigmoids of several classes", func(g *graph) string { return g.node("Sigmoid", "s", in(g.dense(flat(g), "d", 144, 3))) }, []string{"a sigmoid for each class"}},
		{"an operation that nobody knows", func(g *graph) string { return g.node("Einsum", "e", in("x")) }, []string{"node e (Einsum)", "no operation that is known"}},
		{"resize", func(g *graph) string { return g.node("Resize", "e", in("x")) }, []string{"no operation that is known"}},
		{"tile", func(g *graph) string { return g.node("Tile", "e", in("x", g.vector("n", 2, 1, 1, 1))) }, []string{"no operation that is known"}},
		{"expand", func(g *graph) string { return g.node("Expand", "e", in("x", g.vector("n", 2, 4, 6, 6))) }, []string{"no operation that is known"}},
		{"product of activations", func(g *graph) string { return g.node("Mul", "m", in("x", "x")) }, []string{"multiplies two values, as SiLU", "use ReLU or GELU"}},
		{"data changed by a constant", func(g *graph) string {
			return g.dense(g.node("Flatten", "f", in(g.node("Sub", "s", in("x", g.param("m", 4, 1, 1))))), "d", 144, 3)
		}, []string{"node s (Sub)", "--normalize"}},
		{"data times two numbers", func(g *graph) string {
			one, two := g.node("Mul", "s", in("x", g.scalar("k", 2))), g.node("Mul", "t", in("x", g.scalar("l", 3)))
			return g.dense(g.node("Flatten", "f", in(g.node("Add", "a", in(one, two)))), "d", 144, 3)
		}, []string{"node s (Mul)", "--freeze"}},
		{"data times zero", func(g *graph) string {
			return g.dense(g.node("Flatten", "f", in(g.node("Mul", "s", in("x", g.scalar("k", 0))))), "d", 144, 3)
		}, []string{"0 times itself"}},
		{"uncounted pads", func(g *graph) string {
			return g.node("AveragePool", "p", in("x"), list("kernel_shape", 3, 3), list("pads", 1, 1, 1, 1))
		}, []string{"without the padding"}},
		{"pads that no layer takes", func(g *graph) string {
			return flatOf(g, g.node("Pad", "p", in("x", g.vector("p0", 0, 0, 1, 1, 0, 0, 1, 1))))
		}, []string{"node p (Pad)", "neither a convolution"}},
		{"whole numbers", func(g *graph) string { return g.node("Cast", "c", in("x"), number("to", int(file.Int64))) }, []string{"makes whole numbers"}},
		{"dropout in training", func(g *graph) string {
			return g.node("Dropout", "d", in("x", g.scalar("p", .5), g.vector("t", 1)))
		}, []string{"drops values at random"}},
		{"images as logits", func(g *graph) string { return g.conv("x", "c", 4, 2) }, []string{"flatten"}},
		{"a value that nobody makes", func(g *graph) string { return g.node("Relu", "r", in("y")) }, []string{""}},
		{"a window that does not fit", func(g *graph) string {
			return g.node("Conv", "c", in("x", g.param("w", 4, 4, 9, 9)))
		}, []string{"does not fit"}},
	} {
		g := records(4, 6, 6)
		refused(t, c.what, g.done(c.build(g)), Choices{Weights: OfFile}, c.want...)
	}
}

func flatOf(g *graph, x string) string { return g.node("Flatten", x+"_flat", in(x)) }

// All refusals are collected, not the first alone.
func TestAllRefusals(t *testing.T) {
	g := records(4, 6, 6)
	x := g.node("Conv", "dw1", in("x", g.param("w1", 4, 1, 3, 3)), number("group", 4))
	x = g.node("BatchNormalization", "bn", in(x, g.param("γ", 4), g.param("β", 4), g.param("μ", 4), g.param("v", 4)))
	x = g.node("HardSwish", "hs", in(x))
	x = g.node("Conv", "dw2", in(x, g.param("w2", 4, 2, 3, 3)), number("group", 2))
	_, err := Lower(g.done(g.dense(flatOf(g, x), "d", 16, 3)), Choices{})
	var all Refusals
	if !errors.As(err, &all) {
		t.Fatal(err)
	}
	var nodes []string
	for _, r := range all {
		nodes = append(nodes, r.Node)
		if r.Op == "" || r.Reason == "" || r.Do == "" {
			t.Errorf("a refusal says too little: %+v", r)
		}
	}
	if got := strings.Join(nodes, " "); got != "dw1 bn hs dw2" {
		t.Errorf("refused are %s", got)
	}
}

// What is wrong with several nodes is said once, and all of it on one line.
func TestRefusalsSaidOnce(t *testing.T) {
	g := records(4, 6, 6)
	x := "x"
	for _, name := range []string{"dw1", "dw 2", "dw3", "dw4", "dw5"} {
		x = g.node("Conv", name, in(x, g.param(name+".w", 4, 1, 1, 1)), number("group", 4))
	}
	x = g.node("Elu", "e1", in(g.node("Relu", "r", in(x))))
	m := g.done(g.dense(flatOf(g, x), "d", 144, 3))
	refused(t, "five and one", m, Choices{}, "the network cannot be trained, for 2 reasons: (1) 5 Conv nodes (dw1, dw 2, dw3, …): each is a grouped convolution",
		"use an ordinary convolution (groups=1), or, if the file's weights are public, freeze it and all before it: --freeze dw5 --weights-are-public (2) node e1 (Elu)")
	r := Inspect(m, Choices{}).Refusals
	if len(r) != 6 || len(r.Lines()) != 2 || strings.Contains(r.Error(), "\n") || !strings.Contains(r[1].Do, "--freeze 'dw 2' ") {
		t.Errorf("%d refusals: %v", len(r), r)
	}
}

// Batch normalization that an exporter merged into convolutions cannot be replaced.
func TestNoBatchNorm(t *testing.T) {
	m := func() *file.Model { g := records(4); return g.done(g.dense("x", "d", 4, 3)) }()
	lowered(t, m, Choices{})
	for how, b := range map[string]BatchNorm{"--batchnorm group": Grouped, "--batchnorm frozen": Frozen} {
		c := Choices{Weights: OfFile, BatchNorm: b}
		refused(t, how, m, c, how+": the file has no batch normalization", "do_constant_folding=False", "leave --batchnorm out")
		_, err := Lower(m, c)
		if wrong := (*usage.Error)(nil); !errors.As(err, &wrong) {
			t.Errorf("%s is no usage error: %v", how, err)
		}
	}
}

func TestVersions(t *testing.T) {
	for v, ok := range map[int]bool{12: false, 13: true, 26: true, 27: false} {
		g := records(4).set(v)
		_, err := Lower(g.done(g.dense("x", "d", 4, 3)), Choices{})
		if (err == nil) != ok {
			t.Errorf("version %d: %v", v, err)
		}
	}
}

// Files with changed numbers, names and kinds are refused or lowered: nothing panics.
func TestWrongNumbers(t *testing.T) {
	wrong := []int64{-1 << 63, -2, -1, 0, 1, 2, 3, 7, 1 << 31, 1 << 62, 1<<63 - 1}
	r := rand.New(rand.NewPCG(8, 1))
	var names []string
	for kind := range operations {
		names = append(names, kind)
	}
	for kind := range shapesElsewhere {
		names = append(names, kind)
	}
	taken := 0
	for range 3000 {
		m := everything()
		g := &m.Graph
		for range 1 + r.IntN(3) {
			n := &g.Nodes[r.IntN(len(g.Nodes))]
			switch r.IntN(6) {
			case 0:
				n.Kind = names[r.IntN(len(names))]
			case 1:
				if len(n.Inputs) > 0 {
					n.Inputs[r.IntN(len(n.Inputs))] = g.Nodes[r.IntN(len(g.Nodes))].Outputs[0]
				}
			case 2:
				n.Inputs = n.Inputs[:r.IntN(len(n.Inputs)+1)]
			case 3:
				for _, a := range n.Attributes {
					if len(a.Ints) > 0 {
						a.Ints[r.IntN(len(a.Ints))] = wrong[r.IntN(len(wrong))]
					}
				}
				for name, a := range n.Attributes {
					if a.Type == file.IsInt {
						a.Int = wrong[r.IntN(len(wrong))]
						n.Attributes[name] = a
					}
				}
			case 4:
				s := g.Inputs[0].Shape
				s[r.IntN(len(s))].Length = int(wrong[r.IntN(len(wrong))])
			case 5:
				for name, k := range g.Constants {
					if k.Type == file.Int64 && r.IntN(4) == 0 {
						g.Constants[name] = file.IntTensor(name, []int{2}, []int64{wrong[r.IntN(len(wrong))], wrong[r.IntN(len(wrong))]})
					}
				}
			}
		}
		c := Choices{Weights: Weights(r.IntN(2)), BatchNorm: BatchNorm(r.IntN(3))}
		if c.Weights == OfFile && r.IntN(3) == 0 {
			c.Freeze = g.Nodes[r.IntN(len(g.Nodes))].Outputs[0]
		}
		if _, err := Lower(m, c); err == nil {
			taken++
		}
		Inspect(m, c)
	}
	if taken < 30 {
		t.Errorf("only %d files are taken", taken)
	}
}

// everything is a small network with a node of most kinds.
func everything() *file.Model {
	g := records(2, 8, 8)
	x := g.conv(g.node("Pad", "pad", in("x", g.vector("pads", 0, 0, 1, 1, 0, 0, 1, 1))), "c1", 2, 4)
	x = g.node("BatchNormalization", "bn", in(x, g.param("γ", 4), g.param("β", 4), g.param("μ", 4), g.param("v", 4)))
	x = g.node("Relu", "relu", in(x))
	x = g.node("MaxPool", "pool", in(x), list("kernel_shape", 2, 2), list("strides", 2, 2), number("ceil_mode", 1))
	one, zero := g.floats("one", []float32{1, 1}, 2), g.floats("zero", []float32{0, 0}, 2)
	y := g.node("InstanceNormalization", "in", in(g.node("Reshape", "r1", in(x, g.vector("s1", 0, 2, -1))), one, zero))
	y = g.node("Reshape", "r2", in(y, g.node("Shape", "shape", in(x))))
	y = g.node("Add", "shift", in(g.node("Mul", "scale", in(y, g.param("w", 4, 1, 1))), g.param("b", 4, 1, 1)))
	x = g.node("Add", "sum", in(x, g.node("Tanh", "tanh", in(y))))
	x = g.node("Transpose", "tr", in(x), list("perm", 0, 2, 3, 1))
	n := g.node("Gather", "n", in(g.node("Shape", "sh", in(x)), g.vector("z", 0)))
	x = g.node("Reshape", "flat", in(x, g.node("Concat", "cat", in(n, g.vector("minus", -1)), number("axis", 0))))
	x = g.node("Add", "bias", in(g.node("MatMul", "mm", in(x, g.param("wm", 100, 6))), g.param("bm", 6)))
	e := g.node("Erf", "erf", in(g.node("Div", "div", in(x, g.scalar("√2", 1.4142135)))))
	x = g.node("Mul", "g2", in(g.node("Mul", "g1", in(x, g.node("Add", "g0", in(e, g.scalar("1", 1))))), g.scalar("½", .5)))
	d := g.node("Sub", "sub", in(x, g.node("ReduceMean", "mean", in(x), list("axes", -1))))
	v := g.node("ReduceMean", "var", in(g.node("Pow", "pow", in(d, g.scalar("two", 2)))), list("axes", -1))
	x = g.node("Div", "ln", in(d, g.node("Sqrt", "sqrt", in(g.node("Add", "eps", in(v, g.scalar("ε", 1e-5)))))))
	x = g.node("Dropout", "drop", in(g.node("Mul", "lw", in(x, g.param("lnw", 6)))))
	return g.done(g.node("Softmax", "soft", in(g.dense(x, "d", 6, 3)), number("axis", -1)))
}
