package lower

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/reference"
	"github.com/privgrad/privgrad/internal/onnx/file"
)

// between puts what build makes between two dense layers over 12 values, which it may see as an image of 3 channels.
func between(build func(g *graph, x string) string) *file.Model {
	g := records(5)
	return g.done(g.dense(build(g, g.dense("x", "d1", 5, 12)), "d2", 12, 3))
}

// equal says that two graphs become one network: its ops, its parameters, its logits.
func equal(t *testing.T, what string, want, got *file.Model) {
	t.Helper()
	a, b := lowered(t, want, Choices{Weights: OfFile}), Network{}
	n, err := Lower(got, Choices{Weights: OfFile})
	if err != nil {
		t.Errorf("%s: %v", what, err)
		return
	}
	b = *n
	if x, y := kinds(a.Program), kinds(b.Program); x != y {
		t.Errorf("%s: ops %s, want %s", what, y, x)
		return
	}
	if len(a.Params) != len(b.Params) {
		t.Errorf("%s: %d parameters, want %d", what, len(b.Params), len(a.Params))
		return
	}
	agree(t, what, a.Program, a.Params, b.Program, b.Params)
}

// A GELU is known however its factors are put together.
func TestGELUs(t *testing.T) {
	want := between(func(g *graph, x string) string { return g.node("Gelu", "gelu", in(x)) })
	want.Opsets[""] = 20
	erf := func(g *graph, x string) string {
		return g.node("Add", "p1", in(g.node("Erf", "e", in(g.node("Div", "v", in(x, g.scalar("r", math.Sqrt2))))), g.scalar("one", 1)))
	}
	half := func(g *graph) string { return g.scalar("half", .5) }
	for what, build := range map[string]func(g *graph, x string) string{
		"x·p·½": func(g *graph, x string) string {
			return g.node("Mul", "b", in(g.node("Mul", "a", in(x, erf(g, x))), half(g)))
		},
		"½·(p·x)": func(g *graph, x string) string {
			return g.node("Mul", "b", in(half(g), g.node("Mul", "a", in(erf(g, x), x))))
		},
		"(½·x)·p": func(g *graph, x string) string {
			return g.node("Mul", "b", in(g.node("Mul", "a", in(half(g), x)), erf(g, x)))
		},
		"x·(½·p)": func(g *graph, x string) string {
			return g.node("Mul", "b", in(x, g.node("Mul", "a", in(half(g), erf(g, x)))))
		},
		"x·(p/2)": func(g *graph, x string) string {
			return g.node("Mul", "b", in(x, g.node("Div", "a", in(erf(g, x), g.scalar("two", 2)))))
		},
		"x·(½·erf(x/√2) + ½)": func(g *graph, x string) string {
			e := g.node("Erf", "e", in(g.node("Mul", "v", in(x, g.scalar("r", math.Sqrt2/2)))))
			return g.node("Mul", "b", in(x, g.node("Add", "a", in(g.node("Mul", "m", in(e, half(g))), half(g)))))
		},
		"of numbers of 16 bits": func(g *graph, x string) string {
			e := g.node("Erf", "e", in(g.node("Mul", "v", in(x, g.scalar("r", .70703125)))))
			return g.node("Mul", "b", in(g.node("Mul", "c", in(x, half(g))), g.node("Add", "a", in(e, g.scalar("one", 1)))))
		},
		"(½·x)·erfc(−x/√2)": func(g *graph, x string) string {
			e := g.node("Erfc", "e", in(g.node("Mul", "v", in(g.node("Neg", "n", in(x)), g.scalar("r", math.Sqrt2/2)))))
			return g.node("Mul", "b", in(g.node("Mul", "a", in(half(g), x)), e))
		},
	} {
		equal(t, what, want, between(build))
	}
	for what, build := range map[string]func(g *graph, x string) string{
		"erf(x)": func(g *graph, x string) string { return g.node("Erf", "bad", in(x)) },
		"x·p":    func(g *graph, x string) string { return g.node("Mul", "bad", in(x, erf(g, x))) },
		"x²·p": func(g *graph, x string) string {
			return g.node("Mul", "bad", in(x, g.node("Mul", "a", in(x, erf(g, x)))))
		},
		"tanh(x)·p·½": func(g *graph, x string) string {
			return g.node("Mul", "bad", in(g.node("Tanh", "t", in(x)), g.node("Mul", "a", in(half(g), erf(g, x)))))
		},
		"x·p(2x)·½": func(g *graph, x string) string {
			return g.node("Mul", "bad", in(g.node("Mul", "a", in(x, half(g))), g.node("Add", "p", in(g.node("Erf", "e", in(g.node("Mul", "v", in(x, g.scalar("r", 1.4142135))))), g.scalar("one", 1)))))
		},
	} {
		refused(t, what, between(build), Choices{}, "node ")
	}
}

// A layer normalization is known by its parts.
func TestLayerNorms(t *testing.T) {
	want := func(bias bool) *file.Model {
		return between(func(g *graph, x string) string {
			inputs := in(x, g.param("w", 12))
			if bias {
				inputs = append(inputs, g.param("b", 12))
			}
			return g.node("LayerNormalization", "ln", inputs, float("epsilon", 1e-3))
		})
	}
	moments := func(g *graph, x string, square string) (centered, deviation string) {
		d := g.node("Sub", "d", in(x, g.node("ReduceMean", "m", in(x), list("axes", -1))))
		q := in(d, d)
		if square == "Pow" {
			q = in(d, g.scalar("two", 2))
		}
		v := g.node("ReduceMean", "v", in(g.node(square, "q", q)), list("axes", -1))
		return d, g.node("Sqrt", "s", in(g.node("Add", "e", in(v, g.scalar("ε", 1e-3)))))
	}
	for _, square := range []string{"Pow", "Mul"} {
		equal(t, "quotient with "+square, want(true), between(func(g *graph, x string) string {
			d, s := moments(g, x, square)
			return g.node("Add", "b0", in(g.node("Mul", "w0", in(g.node("Div", "n", in(d, s)), g.param("w", 12))), g.param("b", 12)))
		}))
		equal(t, "product with "+square, want(false), between(func(g *graph, x string) string {
			d, s := moments(g, x, square)
			return g.node("Mul", "w0", in(g.param("w", 12), g.node("Mul", "n", in(g.node("Reciprocal", "r", in(s)), d))))
		}))
	}
	// As TensorFlow has it: x·f + (b − m·f) with f = w/s.
	for _, turned := range []bool{false, true} {
		equal(t, "one factor of value and mean", want(true), between(func(g *graph, x string) string {
			_, s := moments(g, x, "Mul")
			f := g.node("Mul", "f", in(g.node("Reciprocal", "r", in(s)), g.param("w", 1, 12)))
			y, n := in(x, f), in(g.node("Neg", "neg", in("m")), f)
			if turned {
				y, n = in(f, x), in(f, "neg")
			}
			return g.node("Add", "y", in(g.node("Mul", "xf", y), g.node("Add", "o", in(g.node("Mul", "mf", n), g.param("b", 1, 12)))))
		}))
	}
	n := lowered(t, between(func(g *graph, x string) string {
		d, s := moments(g, x, "Pow")
		return g.node("Div", "n", in(d, s))
	}), Choices{})
	if w, b := n.Params[5*12+12:][:12], n.Params[5*12+24:][:12]; n.Program.Params[2].Name != "layernorm1.weight" || !uniform(w, 1) || !uniform(b, 0) {
		t.Errorf("a normalization without parameters gets %s, %v and %v", n.Program.Params[2].Name, w, b)
	}
	refused(t, "of another value", between(func(g *graph, x string) string {
		_, s := moments(g, x, "Pow")
		return g.node("Div", "n", in(g.node("Tanh", "t", in(x)), s))
	}), Choices{}, "no layer normalization that is known")
}

// A group normalization is known in every form that exporters give it: PyTorch's by instances, and the operation of sets 18 and 21.
func TestGroupNorms(t *testing.T) {
	image := func(g *graph, x string) string { return g.node("Reshape", "image", in(x, g.vector("is", -1, 6, 1, 2))) }
	flat := func(g *graph, x string) string { return g.node("Flatten", "flat", in(x)) }
	want := between(func(g *graph, x string) string {
		return flat(g, g.node("GroupNormalization", "gn", in(image(g, x), g.param("w", 6), g.param("b", 6)), number("num_groups", 3), float("epsilon", 1e-3)))
	})
	want.Opsets[""] = 21
	instances := func(g *graph, x string) string {
		one, zero := g.floats("one", []float32{1, 1, 1}, 3), g.floats("zero", []float32{0, 0, 0}, 3)
		return g.node("InstanceNormalization", "in", in(g.node("Reshape", "r", in(x, g.vector("s", 0, 3, -1))), one, zero), float("epsilon", 1e-3))
	}
	equal(t, "by instances", want, between(func(g *graph, x string) string {
		x = image(g, x)
		y := g.node("Reshape", "back", in(instances(g, x), g.node("Shape", "sh", in(x))))
		return flat(g, g.node("Add", "b0", in(g.node("Mul", "w0", in(y, g.param("w", 6, 1, 1))), g.param("b", 6, 1, 1))))
	}))
	equal(t, "by instances, with unsqueezed constants", want, between(func(g *graph, x string) string {
		x = image(g, x)
		y := g.node("Reshape", "back", in(instances(g, x), g.node("Shape", "sh", in(x))))
		w, b := g.node("Unsqueeze", "wu", in(g.param("w", 6), g.vector("a", 1, 2))), g.node("Unsqueeze", "bu", in(g.param("b", 6), g.vector("a", 1, 2)))
		return flat(g, g.node("Add", "b0", in(g.node("Mul", "w0", in(y, g.node("CastLike", "c", in(w, y)))), b)))
	}))

	// As Keras writes it through tf2onnx: channels last, taken apart into groups.
	last := func(g *graph, x string) string {
		x = g.node("Transpose", "t", in(image(g, x)), list("perm", 0, 2, 3, 1))
		return g.node("Reshape", "apart", in(x, g.vector("parts", -1, 1, 2, 3, 2)))
	}
	equal(t, "channels last", want, between(func(g *graph, x string) string {
		x = last(g, x)
		m := g.node("ReduceMean", "m", in(x), list("axes", 1, 2, 4))
		d := g.node("Sub", "d", in(x, m))
		v := g.node("ReduceMean", "v", in(g.node("Mul", "q", in(d, d))), list("axes", 1, 2, 4))
		r := g.node("Reciprocal", "rs", in(g.node("Sqrt", "s", in(g.node("Add", "e", in(v, g.scalar("ε", 1e-3)))))))
		f := g.node("Mul", "f", in(r, g.param("w", 1, 1, 1, 3, 2)))
		o := g.node("Add", "o", in(g.node("Mul", "mf", in(g.node("Neg", "neg", in(m)), f)), g.param("b", 1, 1, 1, 3, 2)))
		y := g.node("Reshape", "joined", in(g.node("Add", "y", in(g.node("Mul", "xf", in(x, f)), o)), g.vector("js", -1, 1, 2, 6)))
		return flat(g, g.node("Transpose", "back", in(y), list("perm", 0, 3, 1, 2)))
	}))

	// Set 18 has a scale for each group. Here each of two channels gets it.
	eighteen := between(func(g *graph, x string) string {
		return flat(g, g.node("GroupNormalization", "gn", in(image(g, x), g.param("w", 3), g.param("b", 3)), number("num_groups", 3)))
	})
	eighteen.Opsets[""] = 18
	n := lowered(t, eighteen, Choices{Weights: OfFile})
	w, of := n.Params[5*12+12:][:6], eighteen.Graph.Constants["w"]
	list, err := of.Floats()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(w), fmt.Sprint([]float32{list[0], list[0], list[1], list[1], list[2], list[2]}); got != want {
		t.Errorf("scales of groups become %s, want %s", got, want)
	}
}

// Statistics that are folded give what the formula of batch normalization gives, behind convolutions and dense layers.
func TestFoldedBatchNorm(t *testing.T) {
	for _, kind := range []string{"conv", "dense", "conv without a bias"} {
		build := func(bn bool) *file.Model {
			g := records(2, 4, 4)
			x, c := "x", 3
			switch kind {
			case "conv":
				x = g.conv("x", "c", 2, 3)
			case "dense":
				x, c = g.dense(g.node("Flatten", "f0", in("x")), "c", 32, 6), 6
			default:
				x = g.node("Conv", "c", in("x", g.param("cw", 3, 2, 3, 3)))
			}
			γ, β, μ, v := g.param("γ", c), g.param("β", c), g.param("μ", c), g.param("v", c)
			if bn {
				x = g.node("BatchNormalization", "bn", in(x, γ, β, μ, v), float("epsilon", .01))
			}
			return g.done(g.node("Flatten", "f", in(x)))
		}
		plain := build(false)
		plain.Graph.Outputs = nil
		plain.Graph.Outputs = []file.Value{{Name: "f"}}
		a, b := lowered(t, plainHead(plain), Choices{Weights: OfFile}), lowered(t, plainHead(build(true)), Choices{Weights: OfFile, BatchNorm: Frozen})
		x := randoms(rand.New(rand.NewPCG(1, 1)), 32)
		before := reference.Values(a.Program, widened(a.Params), x, device.Float32)[1]
		after := reference.Values(b.Program, widened(b.Params), x, device.Float32)[1]
		of := func(name string) []float32 {
			list, err := plain.Graph.Constants[name].Floats()
			if err != nil {
				t.Fatal(err)
			}
			return list
		}
		γ, β, μ, v := of("γ"), of("β"), of("μ"), of("v")
		for i, y := range before {
			c := i / (len(before) / len(γ))
			want := float64(γ[c])*(y-float64(μ[c]))/math.Sqrt(float64(v[c])+.01) + float64(β[c])
			if !(math.Abs(after[i]-want) <= 1e-5) { // weights and biases are rounded to float32, of sums of 18 and 32 terms
				t.Errorf("%s: value %d is %v, want %v", kind, i, after[i], want)
			}
		}
		if kinds(a.Program) != kinds(b.Program) {
			t.Errorf("%s: ops %s, want %s", kind, kinds(b.Program), kinds(a.Program))
		}
	}
}

// plainHead ends a graph by a dense layer over its output, whatever that is.
func plainHead(m *file.Model) *file.Model {
	g := &graph{m: *m, random: rand.New(rand.NewPCG(7, 7))}
	g.m.Graph.Outputs = nil
	n := 6
	for i := range m.Graph.Nodes {
		switch node := &m.Graph.Nodes[i]; {
		case node.Kind == "Conv" && len(node.Attributes) > 0:
			n = 3 * 4 * 4
		case node.Kind == "Conv":
			n = 3 * 2 * 2
		}
	}
	return g.done(g.dense("f", "head", n, 2))
}

// A group normalization takes the place of a batch normalization, with its scales and shifts where the file's weights are used.
func TestGroupedBatchNorm(t *testing.T) {
	for channels, want := range map[int]int{1: 1, 3: 1, 4: 1, 6: 1, 8: 2, 16: 4, 20: 4, 24: 4, 64: 16, 128: 32, 512: 32, 1000: 8} {
		if got := groupsOf(channels); got != want {
			t.Errorf("%d channels get %d groups, want %d", channels, got, want)
		}
	}
	g := records(2, 4, 4)
	x := g.node("BatchNormalization", "bn", in(g.conv("x", "c", 2, 8), g.param("γ", 8), g.param("β", 8), g.param("μ", 8), g.param("v", 8)), float("epsilon", .25))
	m := g.done(g.dense(g.node("Flatten", "f", in(x)), "d", 128, 3))
	n := lowered(t, m, Choices{BatchNorm: Grouped, Weights: OfFile})
	op := n.Program.Ops[1]
	if kinds(n.Program) != "conv groupnorm dense" || op.Groups != 2 || op.Epsilon != .25 {
		t.Errorf("ops %s, groups %d, epsilon %v", kinds(n.Program), op.Groups, op.Epsilon)
	}
	γ, _ := m.Graph.Constants["γ"].Floats()
	if q := n.Program.Params[op.Weight]; q.Node != "γ" || fmt.Sprint(n.Params[q.Offset:][:8]) != fmt.Sprint(γ) {
		t.Errorf("the scale is %s", q.Node)
	}
	if n = lowered(t, m, Choices{BatchNorm: Grouped}); !uniform(n.Params[n.Program.Params[op.Weight].Offset:][:8], 1) {
		t.Error("a fresh scale is not 1")
	}
}

// Initial numbers that are all equal may be one initializer of several normalizations: exporters write them once.
func TestSharedOnes(t *testing.T) {
	g := records(12)
	w := g.floats("ones", []float32{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, 12)
	x := g.node("LayerNormalization", "a", in(g.dense("x", "d1", 12, 12), w))
	x = g.node("LayerNormalization", "b", in(g.dense(x, "d2", 12, 12), g.node("Identity", "i", in(w))))
	n := lowered(t, g.done(g.dense(x, "d3", 12, 3)), Choices{Weights: OfFile})
	var names []string
	for _, q := range n.Program.Params {
		names = append(names, q.Name)
	}
	if !strings.Contains(strings.Join(names, " "), "layernorm2.weight") {
		t.Errorf("parameters %s", names)
	}
}
