package cuda_test

import (
	"fmt"
	"testing"

	"github.com/privgrad/privgrad/internal/cuda/driver"
	"github.com/privgrad/privgrad/internal/cuda/driver/fake"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/devicetest"
	"github.com/privgrad/privgrad/internal/device/reference"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/perexample"
)

func zzPrograms() []*ir.Program {
	b := devicetest.NewBuilder("plain24", ir.SoftmaxCrossEntropy, 3, 8, 8)
	x := b.Act(ir.ReLU, b.Conv(ir.Input, 24, ir.Square(3, 1, 1), true))
	x = b.Pool(ir.MaxPool, b.Act(ir.ReLU, b.Conv(x, 33, ir.Square(3, 1, 1), true)), ir.Square(2, 2, 0))
	x = b.Act(ir.ReLU, b.Conv(x, 40, ir.Square(3, 2, 1), true))
	b.Dense(x, 5, true)
	c := devicetest.NewBuilder("twice", ir.SoftmaxCrossEntropy, 3, 6, 6)
	y := c.Conv(ir.Input, 24, ir.Square(3, 1, 1), true)
	z := c.Act(ir.Tanh, c.Conv(c.Act(ir.ReLU, y), 24, ir.Square(3, 1, 1), false))
	y = c.Add(y, z)
	y = c.Pool(ir.AvgPool, y, ir.Square(6, 1, 0))
	c.Dense(y, 4, true)
	return []*ir.Program{b.Program(), c.Program()}
}

func TestZZ(t *testing.T) {
	for _, p := range zzPrograms() {
		for _, strategy := range []perexample.Strategy{perexample.Auto, "store", "recompute", "plain"} {
			for _, prec := range []device.Precision{device.TF32, device.BF16} {
				t.Run(fmt.Sprint(p.Name, strategy, prec), func(t *testing.T) {
					var s *ir.Schedule
					if strategy == "plain" {
						var err error
						s, err = perexample.Plain(p)
						must(t, err)
					} else {
						s = private(t, p, strategy)
					}
					c := devicetest.NewCase(t, p, 9, 1)
					d := devicetest.At(open(t, fake.Options{Device: driver.Info{Capability: 90, SharedOptIn: 227 << 10}}), prec)
					got := devicetest.Open(t, d, s, c, 9).Of(t, c.All(), 1)
					want := devicetest.Open(t, reference.Open(), s, c, 4).Of(t, c.All(), 1)
					num, den := 0.0, 0.0
					for i := range got {
						num += float64(got[i]-want[i]) * float64(got[i]-want[i])
						den += float64(want[i]) * float64(want[i])
					}
					t.Logf("relative %g", num/den)
				})
			}
		}
	}
}
