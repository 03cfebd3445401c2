package lower

import (
	"slices"
	"testing"

	"github.com/privgrad/privgrad/internal/onnx/file"
	"github.com/privgrad/privgrad/nn"
)

// What stands behind a layer becomes a part of it only where nothing else reads the layer.
func TestReadTwice(t *testing.T) {
	g := records(5)
	x := g.node("MatMul", "m", in("x", g.param("w", 5, 12)))
	y := g.node("Add", "b", in(x, g.param("bias", 12)))
	refused(t, "a bias of a value that is read again", g.done(g.dense(g.node("Add", "s", in(y, g.node("Tanh", "t", in(x)))), "d", 12, 3)), Choices{}, "node b (Add)", "neither the bias")
}

// Gemm's factors are parts of its weight and its bias.
func TestGemmFactors(t *testing.T) {
	build := func(factors bool, transB int) *file.Model {
		g := records(3)
		w, b := g.param("w", 3, 3), g.param("b", 3)
		if factors {
			return g.done(g.node("Gemm", "d", in("x", w, b), number("transB", transB), float("alpha", .5), float("beta", -2)))
		}
		weight, err := g.m.Graph.Constants[w].Floats()
		if err != nil {
			t.Fatal(err)
		}
		bias, err := g.m.Graph.Constants[b].Floats()
		if err != nil {
			t.Fatal(err)
		}
		return g.done(g.node("Gemm", "d", in("x", g.floats(w, scaled(weight, .5), 3, 3), g.floats(b, scaled(bias, -2), 3)), number("transB", transB)))
	}
	for transB := range 2 {
		equal(t, "factors", build(false, transB), build(true, transB))
	}
}

// ceil_mode adds the windows that begin in the image, and no others.
func TestCeil(t *testing.T) {
	for _, c := range []struct{ size, kernel, stride, pad, want int }{
		{6, 3, 2, 0, 3},  // windows begin at 0, 2 and 4
		{7, 3, 2, 0, 3},  // all pixels are seen
		{6, 2, 3, 0, 2},  // the next begins behind the image
		{5, 2, 3, 1, 2},  // at −1 and 2, the next beyond the image
		{6, 2, 3, 1, 3},  // at −1, 2 and 5
		{10, 3, 4, 1, 3}, // at −1, 3 and 7
	} {
		g := records(1, c.size, c.size)
		p := int64(c.pad)
		x := g.node("MaxPool", "p", in("x"), list("kernel_shape", int64(c.kernel), int64(c.kernel)), list("strides", int64(c.stride), int64(c.stride)), list("pads", p, p, p, p), number("ceil_mode", 1))
		m := g.done(g.dense(g.node("Flatten", "f", in(x)), "d", c.want*c.want, 3))
		n, err := Lower(m, Choices{})
		if err != nil {
			t.Errorf("%+v: %v", c, err)
		} else if out := n.Program.Ops[0].Out; !slices.Equal(out, []int{1, c.want, c.want}) {
			t.Errorf("%+v: the pool gives %v", c, out)
		}
	}
}

// What looks like a GELU, or like a normalization, and has another number or another value in it, is none.
func TestAlmost(t *testing.T) {
	refused(t, "½·x·(1 + 2·erf)", between(func(g *graph, x string) string {
		e := g.node("Erf", "e", in(g.node("Mul", "v", in(x, g.scalar("r", .70710678)))))
		p := g.node("Add", "p", in(g.node("Mul", "m", in(e, g.scalar("two", 2))), g.scalar("half", .5)))
		return g.node("Mul", "g", in(x, p))
	}), Choices{}, "no GELU")
	refused(t, "a mean of another value", between(func(g *graph, x string) string {
		y := g.node("Tanh", "t", in(x))
		d := g.node("Sub", "d", in(x, g.node("ReduceMean", "m", in(y), list("axes", -1))))
		v := g.node("ReduceMean", "v", in(g.node("Mul", "q", in(d, d))), list("axes", -1))
		return g.node("Div", "n", in(d, g.node("Sqrt", "s", in(g.node("Add", "e", in(v, g.scalar("ε", 1e-3)))))))
	}), Choices{}, "node m (ReduceMean)")
	refused(t, "a sum of two layouts", between(func(g *graph, x string) string {
		a := g.node("Reshape", "a", in(x, g.vector("s", -1, 3, 2, 2)))
		b := g.node("Transpose", "b", in(a), list("perm", 0, 1, 3, 2))
		return g.node("Flatten", "f", in(g.node("Add", "sum", in(a, b))))
	}), Choices{}, "node sum (Add)", "axes were moved")
}

// Fresh weights are those of package nn: He's before a ReLU, Glorot's before others, by the seed and the parameter's name.
func TestInitialWeights(t *testing.T) {
	g := records(2, 6, 6)
	x := g.node("Relu", "r", in(g.node("MaxPool", "p", in(g.conv("x", "c", 2, 4)), list("kernel_shape", 2, 2))))
	x = g.node("Tanh", "t", in(g.dense(g.node("Flatten", "f", in(x)), "d1", 100, 5)))
	n := lowered(t, g.done(g.dense(x, "d2", 5, 3)), Choices{Seed: 9})
	for _, c := range []struct {
		name        string
		init        nn.Init
		fanIn, outs int
	}{{"conv1.weight", nn.He(9), 2 * 9, 4 * 9}, {"fc1.weight", nn.Glorot(9), 100, 5}, {"fc2.weight", nn.Glorot(9), 5, 3}} {
		for _, q := range n.Program.Params {
			if q.Name != c.name {
				continue
			}
			want := make([]float32, q.Size())
			c.init(c.name, c.fanIn, c.outs, want)
			if !slices.Equal(n.Params[q.Offset:][:q.Size()], want) {
				t.Errorf("%s begins as %v…", c.name, n.Params[q.Offset:][:3])
			}
		}
	}
}
