package cuda_test

import (
	"slices"
	"testing"

	"github.com/privgrad/privgrad/internal/cuda/driver"
	"github.com/privgrad/privgrad/internal/cuda/driver/fake"
	"github.com/privgrad/privgrad/internal/cuda/kernels"
	"github.com/privgrad/privgrad/internal/device/devicetest"
	"github.com/privgrad/privgrad/internal/device/reference"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/perexample"
)

// TestLargeTrunk runs a trunk that only GPUs with more shared memory than 99 KiB a block take. Private sums have the bits of
// those without it. Plain ones have other blocks of examples.
func TestLargeTrunk(t *testing.T) {
	const small, large = 99 << 10, 227 << 10
	b := devicetest.NewBuilder("large-trunk", ir.SoftmaxCrossEntropy, 3, 32, 32)
	b.Dense(b.Pool(ir.MaxPool, b.Act(ir.ReLU, b.Conv(ir.Input, 8, ir.Square(5, 1, 2), true)), ir.Square(2, 2, 0)), 3, true)
	p := b.Program()
	if kernels.FindTrunk(p, small) != nil || kernels.FindTrunk(p, large) == nil {
		t.Fatal("the trunk does not need what this test is for")
	}
	c := devicetest.NewCase(t, p, 9, 1)
	plain, err := perexample.Plain(p)
	must(t, err)
	for _, schedule := range []*ir.Schedule{private(t, p, perexample.Auto), plain} {
		var sums [][]float32
		for _, shared := range []int{small, large} {
			f := devicetest.Open(t, open(t, fake.Options{Device: driver.Info{Capability: 90, SharedOptIn: shared}}), schedule, c, 9)
			sums = append(sums, f.Of(t, c.All(), 1e6))
		}
		if schedule.Private() && !slices.Equal(sums[0], sums[1]) {
			t.Error("a large trunk changes sums")
		}
		devicetest.Near(t, sums[1], devicetest.Open(t, reference.Open(), schedule, c, 4).Of(t, c.All(), 1e6), devicetest.Tolerance)
	}
}

// TestTrunkPerLayer clips by layer where a trunk measures its own norms, and ghost norms come with the factors: no part of a group's norm
// may be what memory held before.
func TestTrunkPerLayer(t *testing.T) {
	b := devicetest.NewBuilder("trunk-per-layer", ir.SoftmaxCrossEntropy, 1, 8, 8)
	x := b.Pool(ir.MaxPool, b.Act(ir.ReLU, b.Conv(ir.Input, 3, ir.Square(3, 1, 0), true)), ir.Square(2, 2, 0))
	b.Dense(b.Act(ir.ReLU, b.Dense(x, 20, true)), 4, true)
	p := b.Program()
	if kernels.FindTrunk(p, 99<<10) == nil {
		t.Fatal("there is no trunk")
	}
	c := devicetest.NewCase(t, p, 5, 2)
	for _, strategy := range []perexample.Strategy{perexample.Auto, perexample.Ghost, perexample.Bookkeeping, perexample.Materialise} {
		schedule, err := perexample.Private(p, perexample.Options{Strategy: strategy, Clipping: ir.PerLayer})
		must(t, err)
		for _, norm := range []float64{0.1, 2} {
			got := devicetest.Open(t, open(t, fake.Options{}), schedule, c, 5).Of(t, c.All(), norm)
			devicetest.Near(t, got, devicetest.Open(t, reference.Open(), schedule, c, 5).Of(t, c.All(), norm), devicetest.Tolerance)
		}
	}
}
