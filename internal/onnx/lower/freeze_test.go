package lower

import (
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/reference"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/onnx/file"
)

// backbone is a residual network with batch normalizations.
func backbone(change func(g *graph, x string) string) *file.Model {
	g := records(2, 6, 6)
	norm := func(x, name string) string {
		return g.node("BatchNormalization", name, in(x, g.param(name+".γ", 4), g.param(name+".β", 4), g.param(name+".μ", 4), g.param(name+".v", 4)))
	}
	x := g.node("Relu", "r1", in(norm(g.conv("x", "c1", 2, 4), "bn1")))
	x = norm(x, "bn2") // with nothing to fold it into
	if change != nil {
		x = change(g, x)
	}
	x = g.node("Relu", "r2", in(g.node("Add", "sum", in(x, norm(g.conv(x, "c2", 4, 4), "bn3")))))
	x = g.node("Flatten", "f", in(g.node("GlobalAveragePool", "pool", in(x))))
	return g.done(g.dense(x, "d", 4, 3))
}

// What is frozen and what is trained are together the whole network, wherever it is cut.
func TestFreeze(t *testing.T) {
	whole := func(m *file.Model) (*ir.Program, []float32) { // all of it as a fixed map
		p, err := (&result{}).freeze(m, Choices{Weights: OfFile, Freeze: "d"})
		if err != nil {
			t.Fatal(err)
		}
		return p.Program, p.Constants
	}
	r := randoms(records().random, 72)
	for _, cut := range []string{"bn2", "r2", "pool", "f"} {
		m := backbone(nil)
		all, constants := whole(m)
		want := logits(all, constants, r)
		n, err := Lower(m, Choices{Weights: OfFile, Freeze: cut, BatchNorm: Frozen})
		if err != nil {
			t.Errorf("%s: %v", cut, err)
			continue
		}
		p := n.Prefix
		if p.Program == nil || p.Model == nil || len(p.Needs) > 0 || !slices.Equal(p.In, []int{2, 6, 6}) || ir.Size(p.Out) != ir.Size(n.Program.Shape) {
			t.Fatalf("%s: the prefix is %+v", cut, p)
		}
		if err := p.Program.ValidateMap(); err != nil {
			t.Error(err)
		}
		middle := reference.Values(p.Program, widened(p.Constants), r, device.Float32)[p.Program.Logits()]
		got := logits(n.Program, n.Params, middle)
		for i := range want { // constants are folded in float32, of sums of up to 36 terms
			if d := got[i] - want[i]; !(d*d <= 1e-10) {
				t.Errorf("%s: logit %d is %v, want %v", cut, i, got[i], want[i])
			}
		}
	}
}

// What only ONNX Runtime has is named, and the part is there as a graph of its own.
func TestFreezeElsewhere(t *testing.T) {
	m := backbone(func(g *graph, x string) string {
		x = g.node("Conv", "dw", in(x, g.param("dw.w", 4, 1, 3, 3)), number("group", 4), list("pads", 1, 1, 1, 1))
		return g.node("Clip", "clip", in(x, g.scalar("low", 0), g.scalar("high", 6)))
	})
	n := lowered(t, m, Choices{Weights: OfFile, Freeze: "f"})
	p := n.Prefix
	if p.Program != nil || !slices.Equal(p.Needs, []string{"Clip", "Conv"}) || kinds(n.Program) != "dense" || !slices.Equal(p.Out, []int{4}) {
		t.Errorf("the prefix is %+v", p)
	}
	g := p.Model.Graph
	if last := g.Nodes[len(g.Nodes)-1]; last.Name != "f" || g.Outputs[0].Name != "f" || len(g.Outputs[0].Shape) != 2 || g.Inputs[0].Name != "x" {
		t.Errorf("the prefix's graph ends by %s and gives %+v", last.Name, g.Outputs)
	}
	if g.Constants["dw.w"] == nil || g.Constants["d.weight"] != nil {
		t.Error("the prefix's graph has other constants than it needs")
	}
	if _, err := p.Model.Encode(); err != nil {
		t.Error(err)
	}
}

// A number of records that was fixed holds behind the cut, too.
func TestFreezeFixed(t *testing.T) {
	g := records(2, 6, 6).fixedAt(1)
	x := g.node("Reshape", "f", in(g.node("Relu", "r", in(g.conv("x", "c", 2, 3))), g.vector("s", 1, -1)))
	lowered(t, g.done(g.dense(x, "d", 108, 3)), Choices{Weights: OfFile, Freeze: "r"})
}

func TestFreezeRefused(t *testing.T) {
	for cut, want := range map[string]string{
		"c2":      "node sum (Add) reads bn2, which is frozen, across the cut at c2",
		"nowhere": "no node has that name",
		"pol":     "did you mean pool?",
		"d":       "the output",
	} {
		refused(t, cut, backbone(nil), Choices{Weights: OfFile, Freeze: cut, BatchNorm: Frozen}, want)
	}
	refused(t, "private weights", backbone(nil), Choices{Freeze: "f"}, "--weights-are-public")
	m := backbone(nil)
	m.Graph.Nodes[0].Name = "f"
	refused(t, "a name of two nodes", m, Choices{Weights: OfFile, Freeze: "f"}, "2 nodes have that name", "c1, f")
	refused(t, "across records", backbone(func(g *graph, x string) string {
		return g.node("Softmax", "mix", in(x), number("axis", 0))
	}), Choices{Weights: OfFile, Freeze: "f"}, "node mix (Softmax)", crossing)
}

// A prefix that has images with channels last reads them with channels first, as the program does.
func TestFreezeChannelsLast(t *testing.T) {
	g := records(6, 8, 3)
	x := g.node("Relu", "r", in(g.conv(g.node("Transpose", "t1", in("x"), list("perm", 0, 3, 1, 2)), "c", 3, 2)))
	x = g.node("Reshape", "f", in(g.node("Transpose", "t2", in(x), list("perm", 0, 2, 3, 1)), g.vector("s", -1, 96)))
	m := g.done(g.dense(x, "d", 96, 3))
	want := lowered(t, m, Choices{Weights: OfFile})
	for _, cut := range []string{"r", "t2", "f"} {
		n := lowered(t, m, Choices{Weights: OfFile, Freeze: cut})
		in := n.Prefix.Model.Graph.Inputs[0]
		if first := n.Prefix.Model.Graph.Nodes[0]; first.Kind != "Transpose" || !slices.Equal(first.Attributes["perm"].Ints, []int64{0, 2, 3, 1}) || in.Shape[1].Length != 3 || in.Shape[2].Length != 6 || in.Shape[3].Length != 8 {
			t.Errorf("the prefix's graph reads %+v by %s", in, first.Kind)
		}
		x := randoms(g.random, 144)
		a := logits(want.Program, want.Params, x)
		b := logits(n.Program, n.Params, reference.Values(n.Prefix.Program, widened(n.Prefix.Constants), x, device.Float32)[n.Prefix.Program.Logits()])
		for i := range a {
			if d := a[i] - b[i]; !(d*d <= 1e-12) { // the same products in another order
				t.Errorf("cut at %s: logit %d is %v, want %v", cut, i, b[i], a[i])
			}
		}
	}
}

func TestHeads(t *testing.T) {
	build := func(outputs int, last string) *file.Model {
		g := records(4)
		x := g.dense(g.node("Relu", "r", in(g.dense("x", "d1", 4, 5))), "d2", 5, outputs)
		if last != "" {
			x = g.node(last, "last", in(x))
		}
		return g.done(x)
	}
	n := lowered(t, build(3, "Softmax"), Choices{Weights: OfFile, NewHead: true, Classes: 7, Seed: 3})
	old := lowered(t, build(3, ""), Choices{Weights: OfFile})
	if n.Program.Outputs() != 7 || !slices.Equal(n.Params[:25], old.Params[:25]) || !uniform(n.Params[25+35:], 0) || len(n.Params) != 25+42 {
		t.Errorf("a new head gives %d outputs and %d parameters", n.Program.Outputs(), len(n.Params))
	}
	if again := lowered(t, build(3, ""), Choices{Weights: OfFile, NewHead: true, Classes: 7, Seed: 4}); slices.Equal(again.Params, n.Params) {
		t.Error("a new head does not follow the seed")
	}
	for _, c := range []struct {
		outputs, classes int
		last             string
		loss             ir.Loss
	}{{1, 2, "Sigmoid", ir.Logistic}, {1, 2, "", ir.Logistic}, {1, 0, "", ir.Logistic}, {3, 3, "LogSoftmax", ir.SoftmaxCrossEntropy}, {2, 2, "", ir.SoftmaxCrossEntropy}} {
		n := lowered(t, build(c.outputs, c.last), Choices{Classes: c.classes})
		if n.Program.Loss != c.loss || n.Program.Outputs() != c.outputs || kinds(n.Program) != "dense relu dense" {
			t.Errorf("%+v: loss %s, ops %s", c, n.Program.Loss, kinds(n.Program))
		}
	}
	refused(t, "another number of classes", build(3, ""), Choices{Classes: 10}, "3 outputs", "need 10", "--new-head")
	refused(t, "one output", build(1, ""), Choices{Classes: 3}, "--new-head")
	refused(t, "no dense layer at the end", build(3, "Tanh"), Choices{Classes: 10, NewHead: true}, "ends by none")
	refused(t, "no classes", build(3, ""), Choices{NewHead: true}, "number of outputs")
}

// Of several outputs the one that gives logits is taken, whatever else the file computes from it.
func TestOutputs(t *testing.T) {
	g := records(4)
	x := g.dense("x", "d1", 4, 3)
	label := g.node("ArgMax", "label", in(x), number("axis", 1))
	maps := g.node("ZipMap", "maps", in(g.node("Softmax", "p", in(x))))
	g.m.Graph.Nodes[len(g.m.Graph.Nodes)-1].Domain = "ai.onnx.ml"
	if p := lowered(t, g.done(label, maps), Choices{}).Program; kinds(p) != "dense" {
		t.Errorf("ops %s", kinds(p))
	}
	g = records(4)
	x = g.node("Relu", "r", in(g.dense("x", "d1", 4, 3)))
	refused(t, "two outputs", g.done(x, g.dense(x, "d2", 3, 3)), Choices{}, "2 outputs", "r, d2")

	// Two probabilities of one sigmoid are a logistic regression.
	g = records(4)
	x = g.node("Sigmoid", "s", in(g.dense("x", "d1", 4, 1)))
	both := g.node("Concat", "both", in(g.node("Sub", "other", in(g.scalar("one", 1), x)), x), number("axis", 1))
	if p := lowered(t, g.done(both), Choices{Classes: 2}).Program; p.Loss != ir.Logistic || kinds(p) != "dense" {
		t.Errorf("loss %s, ops %s", p.Loss, kinds(p))
	}
}

// Weights of a file are not used unless they are said to be public: other weights in it change nothing.
func TestFreshWeights(t *testing.T) {
	build := func(by float32) *file.Model {
		m := everything()
		for name, k := range m.Graph.Constants {
			list, err := k.Floats()
			if err != nil || len(k.Shape) == 0 || strings.HasPrefix(name, "one") || strings.HasPrefix(name, "zero") {
				continue
			}
			other := slices.Clone(list)
			for i := range other {
				other[i] *= by
			}
			m.Graph.Constants[name] = file.FloatTensor(name, k.Shape, other)
		}
		return m
	}
	c := Choices{BatchNorm: Grouped, Seed: 5}
	a, b := lowered(t, build(1), c), lowered(t, build(3), c)
	if !slices.Equal(a.Params, b.Params) || a.Program.String() != b.Program.String() {
		t.Error("fresh weights, or the program, follow from the file's weights")
	}
	c.Seed++
	if other := lowered(t, build(1), c); slices.Equal(a.Params, other.Params) {
		t.Error("fresh weights do not follow from the seed")
	}
	for _, q := range a.Program.Params {
		list := a.Params[q.Offset:][:q.Size()]
		switch {
		case strings.HasSuffix(q.Name, ".bias") && !uniform(list, 0), strings.Contains(q.Name, "norm") && strings.HasSuffix(q.Name, ".weight") && !uniform(list, 1),
			!strings.Contains(q.Name, "norm") && strings.HasSuffix(q.Name, ".weight") && uniform(list, list[0]):
			t.Errorf("%s begins as %v…", q.Name, list[:2])
		}
	}
}

func TestInspect(t *testing.T) {
	m := backbone(nil)
	r := Inspect(m, Choices{Weights: OfFile, Freeze: "bn2", BatchNorm: Frozen})
	var frozen, all []string
	parameters := 0
	for _, l := range r.Layers {
		all = append(all, l.Node)
		if l.Frozen {
			frozen = append(frozen, l.Node)
		}
		parameters += l.Parameters
	}
	if got := strings.Join(all, " "); got != "c1 bn1 r1 bn2 c2 bn3 sum r2 pool f d" || strings.Join(frozen, " ") != "c1 bn1 r1 bn2" {
		t.Errorf("layers %s, frozen %s", got, frozen)
	}
	if parameters != r.Parameters || r.Parameters != 4*4*9+4+4*3+3 || r.Outputs != 3 || !slices.Equal(r.Input, []int{2, 6, 6}) || len(r.Refusals) > 0 || r.Err != nil {
		t.Errorf("the report is %+v", r)
	}
	if r := Inspect(m, Choices{}); len(r.Refusals) != 3 || r.Err != nil || len(r.Layers) != 11 {
		t.Errorf("the report is %+v", r)
	}
	if r := Inspect(m, Choices{BatchNorm: Grouped, Classes: 9}); r.Err == nil || r.Outputs != 3 || len(r.Refusals) > 0 {
		t.Errorf("the report is %+v", r)
	}
}
