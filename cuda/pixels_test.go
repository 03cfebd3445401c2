package cuda_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/internal/cuda/driver"
	"github.com/privgrad/privgrad/internal/cuda/driver/fake"
	"github.com/privgrad/privgrad/internal/cuda/kernels"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/devicetest"
	"github.com/privgrad/privgrad/internal/device/reference"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/perexample"
)

// TestNetworksInPixels compares sums of networks whose values change their form on the way, and of dense layers of many rows, with the
// reference's in float64. Activations are smooth, so that what is rounded changes no sum by more than its share: half a place of each
// factor of a product, and of a few values on the way, in L2 with room of four.
func TestNetworksInPixels(t *testing.T) {
	for name, c := range map[string]struct {
		build func(b *devicetest.Builder)
		shape []int
		rows  int
	}{
		"image": {func(b *devicetest.Builder) { // the layer behind is in float32, and takes planes
			x := b.Conv(ir.Input, 17, ir.Square(3, 1, 1), true)
			x = b.Add(x, b.Conv(b.Act(ir.Tanh, x), 17, ir.Square(3, 1, 1), false))
			x = b.Pool(ir.AvgPool, b.Conv(x, 24, ir.Square(3, 2, 1), true), ir.Square(2, 1, 0))
			b.Dense(x, 3, true)
		}, []int{3, 6, 6}, 2},
		"planes between": {func(b *devicetest.Builder) { // eight filters are not in pixels
			x := b.Conv(b.Conv(ir.Input, 16, ir.Square(3, 1, 1), true), 8, ir.Square(1, 1, 0), true)
			x = b.Act(ir.Sigmoid, b.Conv(x, 16, ir.Square(3, 1, 1), true))
			b.Dense(x, 3, true)
		}, []int{2, 5, 5}, 2},
		"many rows": {func(b *devicetest.Builder) {
			x := b.Act(ir.Tanh, b.Dense(ir.Input, 20, true))
			b.Dense(b.Act(ir.Tanh, b.Dense(x, 17, true)), 3, true)
		}, []int{12}, 1030},
	} {
		b := devicetest.NewBuilder(name, ir.SoftmaxCrossEntropy, c.shape...)
		c.build(b)
		p := b.Program()
		for _, strategy := range []perexample.Strategy{perexample.Auto, perexample.Materialise, ""} {
			var s *ir.Schedule
			if strategy == "" {
				var err error
				s, err = perexample.Plain(p)
				must(t, err)
			} else {
				s = private(t, p, strategy)
			}
			if c.rows > 1000 && strategy == perexample.Materialise {
				continue // as many gradients are kept elsewhere
			}
			data := devicetest.NewCase(t, p, c.rows, 1)
			want := devicetest.Open(t, reference.Open(), s, data, c.rows).Of(t, data.All(), 1)
			for precision, share := range map[device.Precision]float64{device.TF32: 0x1p-9, device.BF16: 0x1p-6} {
				t.Run(fmt.Sprint(name, " ", s.Private(), " ", strategy, " ", precision), func(t *testing.T) {
					d := open(t, fake.Options{Device: driver.Info{Capability: 90, SharedOptIn: 227 << 10}})
					got := devicetest.Open(t, devicetest.At(d, precision), s, data, c.rows).Of(t, data.All(), 1)
					off, all := 0.0, 0.0
					for i := range want {
						off += math.Pow(float64(got[i])-float64(want[i]), 2)
						all += math.Pow(float64(want[i]), 2)
					}
					if off = math.Sqrt(off / all); !(off < share) || off == 0 {
						t.Errorf("the sum is off by %.3g of itself, at most %.3g is rounding, and 0 is float64", off, share)
					}
				})
			}
		}
	}
}

// Channels that only fill eights up count, too: kernels number them.
func TestPixelsAreCounted(t *testing.T) {
	b := devicetest.NewBuilder("filled up", ir.SoftmaxCrossEntropy, 3, 6, 6)
	x := b.Act(ir.GELU, b.Conv(ir.Input, 17, ir.Square(3, 1, 1), true))
	b.Dense(b.Conv(x, 17, ir.Square(3, 1, 1), true), 3, true)
	_, err := open(t, fake.Options{}).Compile(private(t, b.Program(), perexample.Auto), device.Options{Capacity: kernels.MaxElements/(24*36) + 1, Precision: device.TF32})
	if err == nil || !strings.Contains(err.Error(), "with 864 values each are more than a kernel takes at once") {
		t.Errorf("so many records give %v", err)
	}
}
