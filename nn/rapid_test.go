package nn

import (
	"fmt"
	"testing"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
	"pgregory.net/rapid"
)

// Random small networks of everything that lowers compute on the tape what
// their programs mean.
func TestRandomGraphsAgreeWithTheTapeMachine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u := newUser(t)
		if rapid.Bool().Draw(t, "float64") {
			u.of = tensor.Float64
		}
		draw := func(what string, low, high int) int { return rapid.IntRange(low, high).Draw(t, what) }
		serial := 0
		name := func() string { serial++; return fmt.Sprint("p", serial) }
		bias := func(h *G.Node) *G.Node {
			if s := h.Shape(); rapid.Bool().Draw(t, "bias") {
				return u.ok(G.BroadcastAdd(h, u.param(name(), 1, s[1], 1, 1), nil, []byte{0, 2, 3}))
			}
			return h
		}

		batch := draw("batch", 1, 2)
		h := u.leaf("x", batch, draw("channels", 1, 3), draw("rows", 4, 7), draw("columns", 4, 7))
		for range draw("image layers", 0, 4) {
			s := h.Shape()
			switch rapid.SampledFrom([]string{"conv", "residual", "norm", "lines", "max", "avg", "activation"}).Draw(t, "layer") {
			case "conv":
				kh, kw := draw("kh", 1, min(3, s[2])), draw("kw", 1, min(3, s[3]))
				dh, dw := 1, 1
				if 2*kh-1 <= s[2] && 2*kw-1 <= s[3] {
					dh, dw = draw("dh", 1, 2), draw("dw", 1, 2)
				}
				w := u.param(name(), draw("out", 1, 3), s[1], kh, kw)
				if s[1]*kh*kw > 1 && rapid.Bool().Draw(t, "standardized") { // a kernel of one weight becomes zero
					w = u.ok(G.ApplyOp(newStandardize(), w, u.param(name(), w.Shape()[0], 1, 1, 1)))
				}
				h = bias(u.conv(h, w, []int{draw("ph", 0, 2), draw("pw", 0, 2)}, []int{draw("sh", 1, 2), draw("sw", 1, 2)}, []int{dh, dw}))
			case "residual":
				f := bias(u.conv(h, u.param(name(), s[1], s[1], 3, 3), []int{1, 1}, []int{1, 1}, nil))
				if rapid.Bool().Draw(t, "left") {
					h = u.ok(G.Add(h, f))
				} else {
					h = u.ok(G.Add(f, h))
				}
			case "norm":
				if s[1]*s[2]*s[3] == 1 { // which is refused: one element has no variance
					continue
				}
				groups := 1
				if s[1]*s[2]*s[3] > 8 { // fewer elements may be next to equal, which float32 does not tell on the tape
					groups = rapid.SampledFrom([]int{1, s[1]}).Draw(t, "groups")
				}
				n := u.ok(G.ApplyOp(newNormalize(groups, 0.1), h))
				h = u.ok(G.BroadcastAdd(u.ok(G.BroadcastHadamardProd(n, u.param(name(), 1, s[1], 1, 1), nil, []byte{0, 2, 3})), u.param(name(), 1, s[1], 1, 1), nil, []byte{0, 2, 3}))
			case "lines":
				if s[3] == 1 { // which is refused, too
					continue
				}
				h = u.ok(G.ApplyOp(newLayerNorm(4, 0.1), h, u.param(name(), s[3]), u.param(name(), s[3])))
			case "max":
				kh, kw := draw("kh", 1, min(3, s[2])), draw("kw", 1, min(3, s[3]))
				h = u.ok(G.MaxPool2D(h, tensor.Shape{kh, kw}, []int{draw("ph", 0, kh-1), draw("pw", 0, kw-1)}, []int{draw("sh", 1, 2), draw("sw", 1, 2)}))
			case "avg":
				h = u.ok(AvgPool(draw("k", 1, min(3, s[2], s[3])), draw("s", 1, 2))(h))
			default:
				h = u.ok(rapid.SampledFrom([]Layer{ReLU, LeakyReLU(0.2), Tanh, Sigmoid, GELU}).Draw(t, "activation")(h))
			}
		}
		if rapid.Bool().Draw(t, "global pool") {
			h = u.ok(G.GlobalAveragePool2D(h))
		}
		h = u.ok(Flatten(h))
		for range draw("dense layers", 1, 3) {
			in, out := h.Shape()[1], draw("out", 2, 5)
			w := u.param(name(), in, out)
			if rapid.Bool().Draw(t, "transposed") {
				w = u.ok(G.Transpose(u.param(name(), out, in), 1, 0))
			}
			h = u.ok(G.Mul(h, w))
			if rapid.Bool().Draw(t, "bias") {
				h = u.ok(G.BroadcastAdd(h, u.param(name(), 1, out), nil, []byte{0}))
			}
		}
		net, err := Lower(h, WithInput(u.g.ByName("x")[0]))
		if err != nil {
			t.Fatal(err)
		}
		agree(t, net)
	})
}
