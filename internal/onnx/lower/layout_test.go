package lower

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/privgrad/privgrad/internal/onnx/file"
	"github.com/privgrad/privgrad/internal/onnx/strides"
)

// moved gives a constant of numbers with its axes in another order.
func moved(list []float32, shape, order []int) []float32 {
	out := make([]float32, 0, len(list))
	for _, p := range strides.Of(shape).Transposed(order).Places() {
		out = append(out, list[p])
	}
	return out
}

// A network that has its images with channels last, as Keras writes it through tf2onnx, is the network with channels first.
func TestChannelsLast(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	numbers := func(n int) []float32 {
		list := make([]float32, n)
		for i := range list {
			list[i] = float32(r.NormFloat64())
		}
		return list
	}
	conv, bias, dense := numbers(4*3*3*3), numbers(4), numbers(2*4*6*8)
	first := records(3, 6, 8)
	x := first.node("Conv", "c", in("x", first.floats("w", conv, 4, 3, 3, 3), first.floats("b", bias, 4)), list("pads", 1, 1, 1, 1))
	x = first.node("Relu", "r", in(x))
	want := first.done(first.node("Gemm", "d", in(first.node("Flatten", "f", in(x)), first.floats("v", dense, 2, 4*6*8)), number("transB", 1)))

	// The dense layer reads rows, columns, channels, and its weight is stored (in, out).
	turned := moved(moved(dense, []int{2, 4, 6, 8}, []int{0, 2, 3, 1}), []int{2, 4 * 6 * 8}, []int{1, 0})
	for _, c := range []struct {
		what string
		tail func(g *graph, x string) string
	}{
		{"flattened by a shape", func(g *graph, x string) string {
			return g.node("Reshape", "f", in(g.node("Transpose", "t2", in(x), list("perm", 0, 2, 3, 1)), g.vector("s", -1, 4*6*8)))
		}},
		{"bias and activation with channels last", func(g *graph, x string) string {
			x = g.node("Relu", "r2", in(g.node("Transpose", "t2", in(x), list("perm", 0, 2, 3, 1))))
			return g.node("Flatten", "f", in(x))
		}},
		{"squeezed and taken apart", func(g *graph, x string) string {
			x = g.node("Unsqueeze", "u", in(g.node("Transpose", "t2", in(x), list("perm", 0, 2, 3, 1)), g.vector("a", 1)))
			x = g.node("Squeeze", "q", in(x, g.vector("a", 1)))
			return g.node("Reshape", "f", in(g.node("Reshape", "h", in(x, g.vector("s", 0, 3, 2, 32))), g.vector("s2", 0, -1)))
		}},
	} {
		g := records(6, 8, 3)
		x := g.node("Transpose", "t1", in("x"), list("perm", 0, 3, 1, 2))
		x = g.node("Conv", "c", in(x, g.floats("w", conv, 4, 3, 3, 3)), list("pads", 1, 1, 1, 1))
		x = g.node("Add", "cb", in(x, g.floats("b", bias, 1, 4, 1, 1)))
		if c.what != "bias and activation with channels last" {
			x = g.node("Relu", "r", in(x))
		}
		x = c.tail(g, x)
		m := g.done(g.node("MatMul", "d", in(x, g.floats("v", turned, 4*6*8, 2))))
		n := lowered(t, m, Choices{Weights: OfFile})
		if !slices.Equal(n.Program.Shape, []int{3, 6, 8}) {
			t.Errorf("%s: records of shape %v", c.what, n.Program.Shape)
		}
		equal(t, c.what, want, m)
	}

	// Without a convolution, the last axis tells: it has at most four channels, and the others more.
	mlp := records(3, 6, 8)
	wantMLP := mlp.done(mlp.node("MatMul", "d", in(mlp.node("Flatten", "f", in("x")), mlp.floats("v", dense[:144*2], 144, 2))))
	g := records(6, 8, 3)
	columns := moved(dense[:144*2], []int{3, 6, 8, 2}, []int{1, 2, 0, 3})
	equal(t, "dense layers alone", wantMLP, g.done(g.node("MatMul", "d", in(g.node("Flatten", "f", in("x")), g.floats("v", columns, 144, 2)))))
}

// The number of records flows through shapes: what is computed from it is no guess.
func TestShapesOfRecords(t *testing.T) {
	for _, count := range []int{0, 1, 4} { // an open number, and two that were fixed
		g := records(3, 4, 2)
		if count > 0 {
			g.fixedAt(count)
		}
		s := g.node("Cast", "c", in(g.node("Shape", "s", in("x"))), number("to", int(file.Int32)))
		n := g.node("Slice", "n", in(s, g.vector("zero", 0), g.vector("one", 1), g.vector("zero", 0)))
		rest := g.node("Mul", "m", in(g.node("Mul", "m1", in(g.node("Gather", "a", in(s, g.vector("i1", 1))), g.node("Gather", "b", in(s, g.vector("i2", -1))))), g.node("Gather", "c2", in(s, g.vector("i3", 2)))))
		x := g.node("Reshape", "r", in("x", g.node("Cast", "c3", in(g.node("Concat", "all", in(n, rest), number("axis", 0))), number("to", int(file.Int64)))))
		if p := lowered(t, g.done(g.dense(x, "d", 24, 3)), Choices{}).Program; kinds(p) != "dense" {
			t.Errorf("ops %s", kinds(p))
		}
	}
	g := records(3, 4, 2).fixedAt(4)
	lowered(t, g.done(g.dense(g.node("Reshape", "r", in("x", g.vector("s", 4, -1))), "d", 24, 3)), Choices{})
	g = records(3, 4, 2).fixedAt(4)
	refused(t, "another number", g.done(g.dense(g.node("Reshape", "r", in("x", g.vector("s", 2, -1))), "d", 48, 3)), Choices{}, "axis 0")
}

// Paddings that stand before a convolution or a pool become its own.
func TestPads(t *testing.T) {
	build := func(kind string, pad bool, settings ...setting) *file.Model {
		g := records(2, 5, 6)
		x := "x"
		if kind == "MaxPool" {
			x = g.node("Relu", "relu", in(x))
		}
		if pad {
			x = g.node("Pad", "p", in(x, g.vector("pads", 0, 0, 1, 2, 0, 0, 0, 1)))
		} else {
			settings = append(settings, list("pads", 1, 2, 0, 1))
		}
		if kind == "Conv" {
			x = g.node("Conv", "c", in(x, g.param("w", 3, 2, 3, 3)), settings...)
			return g.done(g.dense(g.node("Flatten", "f", in(x)), "d", 3*4*7, 3))
		}
		x = g.node(kind, "c", in(x), append(settings, list("kernel_shape", 3, 3))...)
		return g.done(g.dense(g.node("Flatten", "f", in(x)), "d", 2*4*7, 3))
	}
	equal(t, "convolution", build("Conv", false), build("Conv", true))
	equal(t, "mean", build("AveragePool", false, number("count_include_pad", 1)), build("AveragePool", true))
	equal(t, "maximum behind a ReLU", build("MaxPool", false), build("MaxPool", true))
	same := func(auto setting, pads ...int64) (a, b *file.Model) {
		g, h := records(2, 5, 6), records(2, 5, 6)
		for i, g := range []*graph{g, h} {
			s := auto
			if i == 1 {
				s = list("pads", pads...)
			}
			x := g.node("Conv", "c", in("x", g.param("w", 3, 2, 4, 3)), s, list("strides", 2, 2))
			g.done(g.dense(g.node("Flatten", "f", in(x)), "d", 27, 3))
		}
		return &g.m, &h.m
	}
	a, b := same(text("auto_pad", "SAME_UPPER"), 1, 0, 2, 1)
	equal(t, "SAME_UPPER", b, a)
	a, b = same(text("auto_pad", "SAME_LOWER"), 2, 1, 1, 0)
	equal(t, "SAME_LOWER", b, a)
}
