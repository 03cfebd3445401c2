package cuda

import (
	"testing"

	"github.com/privgrad/privgrad/internal/cuda/driver"
	"github.com/privgrad/privgrad/internal/cuda/driver/fake"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/devicetest"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/stream"
	"github.com/privgrad/privgrad/perexample"
)

// TestSearchLeavesNothing looks at the memory of the sum that a search puts aside, before and after it is decided.
func TestSearchLeavesNothing(t *testing.T) {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	d, err := Open(fake.New(fake.Options{}), 0)
	must(err)
	defer func() { must(d.Close()) }()
	b := devicetest.NewBuilder("line", ir.Huber, 2)
	b.Dense(ir.Input, 1, true)
	c := devicetest.NewCase(t, b.Program(), 3, 1)
	schedule, err := perexample.Private(c.Program, perexample.Options{Strategy: perexample.Ghost, Clipping: ir.Flat})
	must(err)
	opened, err := d.Compile(schedule, device.Options{Capacity: 3})
	must(err)
	n := opened.(*net)
	data, err := d.Load(c.Rows, c.Features)
	must(err)
	must(n.Write(n.Params(), c.Params))
	sum, err := n.NewScalarSum(1)
	must(err)
	s, err := stream.New(stream.ChaCha20, stream.KeyFromSeed(6, "search"))
	must(err)
	for i, ask := range []func(device.Queue){
		func(q device.Queue) { q.AboveThreshold(sum, device.NewSearch(s, 11, device.GaussianLaw, false, 0)) },
		func(q device.Queue) { q.ArgMin(sum, device.NewMinimum(s, 12)) },
	} {
		recorded, err := n.Record(func(q device.Queue) {
			q.Losses(sum, data, device.LossQuery{At: n.Params(), Dir: n.Params(), K: 1})
			ask(q)
		})
		must(err)
		search := recorded.(*step).search
		values := func() []float64 {
			x := make([]float64, 2)
			must(n.Do(func() error {
				if err := n.wait(); err != nil {
					return err
				}
				if err := n.device.context.CopyOut(bytesOf(x[:1]), search.at); err != nil {
					return err
				}
				return n.device.context.CopyOut(bytesOf(x[1:]), driver.Ptr(n.sums[sum]))
			}))
			return append(x, search.values...)
		}
		in := &device.Inputs{Rows: c.All(), Draw: uint64(i + 1)}
		in.Scalars[device.Clip], in.Biases[0] = 3, 1e-9
		must(recorded.Run(in))
		if x := values(); !(x[0] > 0) || x[1] != 0 {
			t.Errorf("%v was put aside, and %v is left of the sum", x[0], x[1])
		}
		for range 2 {
			out, err := recorded.Wait()
			must(err)
			if len(out.Found) != 1 || out.Found[0] != 0 {
				t.Errorf("the search found %v", out.Found)
			}
			for _, x := range values() {
				if x != 0 {
					t.Errorf("a decided search leaves %v", x)
				}
			}
		}
	}
}
