package cpu

import (
	"fmt"
	"math"
	"testing"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/devicetest"
	"github.com/privgrad/privgrad/internal/device/reference"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/perexample"
)

// Inputs far from zero are exact in float32 and their mean is not: it is off by up to 2⁻¹¹, where they differ by about
// 1. Neither the forward pass nor the gradients lose that. The convolution leaves the inputs as they are, and the gradient of its
// weight, which is Σ dx·x of a dx that adds up to zero, has what is wrong with dx multiplied by them.
func TestGroupNormFarFromZero(t *testing.T) {
	// At 2¹⁷ inputs differ by few units in the last place, so that the mean's rounding is a part of the variance.
	for _, far := range []struct{ offset, scale, tolerance float64 }{{8192, 0, 1e-2}, {1 << 17, 1. / 1024, 1}} {
		for name, norm := range map[string]func(*devicetest.Builder, ir.Value) ir.Value{
			"GroupNorm": func(b *devicetest.Builder, x ir.Value) ir.Value { return b.GroupNorm(x, 1, true) },
			"LayerNorm": func(b *devicetest.Builder, x ir.Value) ir.Value { return b.LayerNorm(x, true) },
		} {
			t.Run(fmt.Sprintf("%s at %v", name, far.offset), func(t *testing.T) {
				farFromZero(t, norm, float32(far.offset), float32(far.scale), far.tolerance)
			})
		}
	}
}

func farFromZero(t *testing.T, norm func(*devicetest.Builder, ir.Value) ir.Value, offset, scale float32, tolerance float64) {
	b := devicetest.NewBuilder("far", ir.SoftmaxCrossEntropy, 1, 3, 5)
	x := norm(b, b.Conv(ir.Input, 1, ir.Square(1, 1, 0), false))
	b.Dense(b.Act(ir.Tanh, x), 3, true)
	c := devicetest.NewCase(t, b.Program(), 6, 1)
	if scale == 0 {
		scale = c.Rows.Gather[0].Scale
	}
	c.Rows.Gather = ir.Gather{ir.ScaledBy(scale, offset)}
	c.Params[0] = 1
	s, err := perexample.Private(c.Program, perexample.Options{Strategy: perexample.Auto, Clipping: ir.Flat})
	check(t, err)
	d, err := Open(1)
	check(t, err)
	sum := func(d device.Device) []float32 { return devicetest.Open(t, d, s, c, 6).Of(t, c.All(), 1e6) }
	got, want := sum(d), sum(reference.Open())
	if math.Abs(float64(got[0]-want[0])) > tolerance {
		t.Errorf("the convolution's weight has the gradient %v, want %v", got[0], want[0])
	}
	devicetest.Near(t, got[1:], want[1:], 2e-5)
}
