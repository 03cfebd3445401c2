package cpu_test

import (
	"fmt"
	"testing"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/devicetest"
	"github.com/privgrad/privgrad/perexample"
)

// BenchmarkClippedSum measures one batch's sum of gradients on a network of
// cnn-mnist's size, clipped and plain.
func BenchmarkClippedSum(b *testing.B) {
	p := devicetest.LeNet("cnn-mnist", 28, 6, 16, 256, 128)
	c := devicetest.NewCase(b, p, 64, 41)
	for _, batch := range []int{300, 1024} {
		rows := make([]int32, batch)
		for i := range rows {
			rows[i] = int32(i % c.Rows.Count)
		}
		for _, strategy := range []perexample.Strategy{"", perexample.Auto} {
			name := "plain"
			if strategy != "" {
				name = "private"
			}
			b.Run(fmt.Sprintf("%s/%d", name, batch), func(b *testing.B) {
				x := devicetest.Open(b, open(b, 0), schedule(b, p, strategy), c, batch)
				in := &device.Inputs{Rows: rows}
				in.Scalars[device.Clip] = 1
				for b.Loop() {
					check(b, x.Clipped.Run(in))
				}
				b.ReportMetric(float64(batch)*float64(b.N)/b.Elapsed().Seconds(), "examples/s")
			})
		}
	}
}
