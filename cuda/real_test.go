package cuda_test

import (
	"math"
	"runtime"
	"testing"

	"github.com/privgrad/privgrad/internal/cpu"
	"github.com/privgrad/privgrad/internal/cuda/driver/fake"
	"github.com/privgrad/privgrad/internal/cuda/gputest"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/devicetest"
	"github.com/privgrad/privgrad/internal/devices"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/nn"
	"github.com/privgrad/privgrad/perexample"
)

// apart bounds ‖GPU − CPU‖/‖CPU‖ of a clipped sum. In float32 both devices round sums of at most 10⁴ terms in their own order, as the
// suite's Tolerance says; and of 5·10⁸ values before ReLUs, each some 2·10⁻⁷ off where its deviation is 1, about 40 lie on the other side
// of zero. One of them changes the gradient of its record by less than 1/100, and 40 of them the sum of 4,096 by 40^½/100/4,096 of its
// terms' length, 2·10⁻⁵, as sums of such records are about as long as their terms. The other precisions round each factor to 2⁻¹² and 2⁻⁹
// of it on average, weights alike for all records, through 16 layers, to gradients and back: 16 such roundings are 4·10⁻³ and
// 3·10⁻² where they all point the same way, and 500,000 values in tf32 lie on the other side of zero, which is 2·10⁻³. The bounds leave
// a factor of two or more.
var apart = map[device.Precision]float64{device.Float32: 5e-5, device.TF32: 2e-2, device.BF16: 1e-1}

// TestRealSums compares a clipped sum on the GPU with the CPU's, of named networks at their size and of more records than the suite has. By
// interpretation it takes small programs of the suite.
func TestRealSums(t *testing.T) {
	for name, small := range map[string]string{
		"cifar-small": "cifar-small", "cifar-paper": "tensor-plain", "resnet-small": "tensor-residual", "wrn-16-4": "tensor-twice",
	} {
		t.Run(name, func(t *testing.T) {
			var c *devicetest.Case
			if gputest.On() {
				m, err := nn.Build(name, nn.Options{Classes: 10, Activation: "relu"})
				must(t, err)
				net, err := m.Lower()
				must(t, err)
				c = devicetest.Alike(t, net.Program, 4096, 1)
			} else {
				c = devicetest.NewCase(t, program(t, small), 4, 1) // away from kinks, one of which is much of so few
			}
			host, err := cpu.Open(runtime.NumCPU())
			must(t, err)
			want := realSum(t, host, c)
			must(t, host.Close())
			for _, p := range []device.Precision{device.Float32, device.TF32, device.BF16} {
				got := realSum(t, devicetest.At(open(t, fake.Options{}), p), c)
				off := distance(got, want)
				t.Logf("%s in %v: %.2g of the sum of %d records, at most %g", name, p, off, c.Rows.Count, apart[p])
				if !(off <= apart[p]) { // NaN, too
					t.Errorf("%s in %v is off by %.3g of the CPU's sum of %d records, at most %g is allowed", name, p, off, c.Rows.Count, apart[p])
				}
			}
			// What a device computes is compared, and not what both leave out.
			if norm := devicetest.Norm(want); norm < 0.3*float64(c.Rows.Count) && gputest.On() {
				t.Errorf("the sum of %d gradients of at most 1 is %.3g long: they cancel out, and the bounds are for others", c.Rows.Count, norm)
			}
		})
	}
}

// realSum is the sum of all of a case's gradients, clipped to 1, in parts as training takes them on the device.
func realSum(t *testing.T, d device.Device, c *devicetest.Case) []float32 {
	t.Helper()
	o := perexample.Options{
		Strategy: perexample.Auto, Clipping: ir.Flat, Costs: d.Info().Costs, Memory: devices.DefaultMemory(d.Info()),
		Batch: float64(c.Rows.Count), Rows: c.Rows.Count, MaxBatch: c.Rows.Count,
	}
	s, err := perexample.Private(c.Program, o)
	must(t, err)
	if s.Chunk == 0 {
		s.Chunk = min(perexample.Together(s, o), c.Rows.Count)
	}
	return devicetest.Open(t, d, s, c, c.Rows.Count).Of(t, c.All(), 1)
}

// distance is ‖got − want‖/‖want‖.
func distance(got, want []float32) float64 {
	difference, size := 0.0, 0.0
	for i, w := range want {
		difference += math.Pow(float64(got[i])-float64(w), 2)
		size += float64(w) * float64(w)
	}
	return math.Sqrt(difference / size)
}
