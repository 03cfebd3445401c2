package cpu_test

import (
	"testing"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/devicetest"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/perexample"
)

// batchSum is the step that sums a batch, in integers or not.
func batchSum(t testing.TB, d device.Device, c *devicetest.Case, strategy perexample.Strategy, batch int, exact bool) (device.Net, device.Step) {
	t.Helper()
	net, err := d.Compile(schedule(t, c.Program, strategy), device.Options{Capacity: batch, Exact: exact})
	check(t, err)
	t.Cleanup(func() { check(t, net.Close()) })
	data, err := d.Load(c.Rows, c.Features)
	check(t, err)
	t.Cleanup(func() { check(t, data.Close()) })
	check(t, net.Write(net.Params(), c.Params))
	sum, err := net.NewSum()
	check(t, err)
	step, err := net.Record(func(q device.Queue) { q.ClippedSum(sum, data) })
	check(t, err)
	return net, step
}

// BenchmarkExactSum compares a batch's sum in integers with that in floats, on one thread.
func BenchmarkExactSum(b *testing.B) {
	mlp := devicetest.NewBuilder("mlp-mnist", ir.SoftmaxCrossEntropy, 784)
	mlp.Dense(mlp.Act(ir.Tanh, mlp.Dense(ir.Input, 1000, true)), 10, true)
	for _, p := range []*ir.Program{devicetest.LeNet("cnn-mnist", 28, 6, 16, 256, 128), mlp.Program()} {
		c := devicetest.NewCase(b, p, 64, 41)
		const batch = 300
		in := &device.Inputs{Rows: make([]int32, batch)}
		for i := range in.Rows {
			in.Rows[i] = int32(i % c.Rows.Count)
		}
		in.Scalars[device.Clip] = 1
		for _, kind := range []struct {
			name     string
			strategy perexample.Strategy
			exact    bool
		}{{"secure", perexample.Auto, false}, {"exact", perexample.Materialise, true}} {
			b.Run(p.Name+"/"+kind.name, func(b *testing.B) {
				_, step := batchSum(b, open(b, 1), c, kind.strategy, batch, kind.exact)
				for b.Loop() {
					check(b, step.Run(in))
				}
				b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/1000, "ms/step")
			})
		}
	}
}
