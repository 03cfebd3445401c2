package reference_test

import (
	"testing"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/devicetest"
	"github.com/privgrad/privgrad/internal/device/reference"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/perexample"
)

// TestMuting: a last layer whose muting parameters are zero gives outputs of zero, and can leave them.
func TestMuting(t *testing.T) {
	for name, end := range map[string]func(b *devicetest.Builder, x ir.Value) ir.Value{
		"dense": func(b *devicetest.Builder, x ir.Value) ir.Value { return b.Dense(x, 6, true) },
		"conv":  func(b *devicetest.Builder, x ir.Value) ir.Value { return b.Conv(x, 6, ir.Square(3, 1, 0), false) },
		"standardized": func(b *devicetest.Builder, x ir.Value) ir.Value {
			return b.StandardConv(x, 6, ir.Square(3, 1, 0), true)
		},
		"groupnorm": func(b *devicetest.Builder, x ir.Value) ir.Value { return b.GroupNorm(x, 1, true) },
		"layernorm": func(b *devicetest.Builder, x ir.Value) ir.Value { return b.LayerNorm(x, false) },
	} {
		b := devicetest.NewBuilder(name, ir.SoftmaxCrossEntropy, 2, 3, 3)
		end(b, b.Act(ir.Tanh, b.Conv(ir.Input, 2, ir.Square(3, 1, 1), true)))
		p := b.Program()
		c := devicetest.NewCase(t, p, 1, 3)
		last := &p.Ops[len(p.Ops)-1]
		for _, q := range last.Muting() {
			clear(c.Params[p.Params[q].Offset:][:p.Params[q].Size()])
		}
		params := make([]float64, len(c.Params))
		for i, w := range c.Params {
			params[i] = float64(w)
		}
		for _, z := range reference.Values(p, params, []float64{1, -2, 3, 4, 5, -6, 7, 8, 9, 1, 2, -3, 4, 5, 6, 7, -8, 9}, device.Float32)[p.Logits()] {
			if z != 0 {
				t.Errorf("%s: an output is %v", name, z)
			}
		}
		s, err := perexample.Plain(p)
		if err != nil {
			t.Fatal(err)
		}
		g := devicetest.Open(t, reference.Open(), s, c, 1).Of(t, []int32{0}, 0)
		for _, q := range last.Muting() {
			if at := p.Params[q]; devicetest.Norm(g[at.Offset:][:at.Size()]) == 0 {
				t.Errorf("%s: %s has no gradient", name, at.Name)
			}
		}
	}
}
