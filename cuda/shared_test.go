package cuda_test

import (
	"slices"
	"testing"

	"github.com/privgrad/privgrad/cuda/driver"
	"github.com/privgrad/privgrad/cuda/driver/fake"
	"github.com/privgrad/privgrad/cuda/kernels"
	"github.com/privgrad/privgrad/internal/device/devicetest"
	"github.com/privgrad/privgrad/internal/device/reference"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/perexample"
)

// TestLargeTrunk runs a trunk that only GPUs with more shared memory than 99 KiB a block take. Sums, private and
// plain, have the bits of those without it.
func TestLargeTrunk(t *testing.T) {
	const small, large = 99 << 10, 227 << 10
	b := devicetest.NewBuilder("large-trunk", ir.SoftmaxCrossEntropy, 3, 32, 32)
	b.Dense(b.Pool(ir.MaxPool, b.Act(ir.ReLU, b.Conv(ir.Input, 8, ir.Square(5, 1, 2), true)), ir.Square(2, 2, 0)), 3, true)
	p := b.Program()
	if kernels.FindTrunk(p, small) != nil || kernels.FindTrunk(p, large) == nil {
		t.Fatal("the trunk does not need what this test is for")
	}
	c := devicetest.NewCase(t, p, 3, 1)
	plain, err := perexample.Plain(p)
	must(t, err)
	for _, schedule := range []*ir.Schedule{private(t, p, perexample.Auto), plain} {
		var sums [][]float32
		for _, shared := range []int{small, large} {
			f := devicetest.Open(t, open(t, fake.Options{Device: driver.Info{Capability: 90, SharedOptIn: shared}}), schedule, c, 4)
			sums = append(sums, f.Of(t, c.All(), 1e6))
		}
		if !slices.Equal(sums[0], sums[1]) {
			t.Error("a large trunk changes sums")
		}
		devicetest.Near(t, sums[1], devicetest.Open(t, reference.Open(), schedule, c, 4).Of(t, c.All(), 1e6), devicetest.Tolerance)
	}
}
