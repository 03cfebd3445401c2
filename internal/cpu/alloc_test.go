package cpu_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/devicetest"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/perexample"
)

// A warm training step allocates nothing: not a closure, not a buffer, not a
// goroutine.
func TestWarmStepsDoNotAllocate(t *testing.T) {
	p := devicetest.LeNet("lenet", 16, 3, 4, 12, 8)
	c := devicetest.NewCase(t, p, 20, 51)
	for _, strategy := range append(perexample.Strategies(), "") {
		for _, threads := range []int{1, 3} {
			for _, rule := range device.Rules() {
				t.Run(fmt.Sprintf("%q %s on %d threads", strategy, rule, threads), func(t *testing.T) {
					x := devicetest.Open(t, open(t, threads), schedule(t, p, strategy), c, c.Rows.Count)
					step := warmStep(t, x, c, rule)
					steady(t, threads, step)
				})
			}
		}
	}
}

// steady fails where a step that has run before allocates.
func steady(t *testing.T, threads int, step func()) {
	t.Helper()
	if threads == 1 {
		if n := testing.AllocsPerRun(50, step); n != 0 {
			t.Errorf("a step allocates %v times", n)
		}
		return
	}
	// AllocsPerRun would leave one processor to all workers. The
	// runtime itself allocates now and then, for a blocked goroutine.
	var before, after runtime.MemStats
	const steps = 500
	runtime.ReadMemStats(&before)
	for range steps {
		step()
	}
	runtime.ReadMemStats(&after)
	if n := after.Mallocs - before.Mallocs; n > steps/10 {
		t.Errorf("%d steps allocate %d times", steps, n)
	}
}

// Nor does an exact sum, of whole batches or in chunks.
func TestWarmExactSumsDoNotAllocate(t *testing.T) {
	p := devicetest.LeNet("lenet", 16, 3, 4, 12, 8)
	c := devicetest.NewCase(t, p, 20, 53)
	for _, strategy := range []perexample.Strategy{perexample.Materialise, perexample.Microbatch} {
		for _, threads := range []int{1, 3} {
			sum := batchSum(t, open(t, threads), c, strategy, c.Rows.Count, true)
			in := &device.Inputs{Rows: c.All()}
			in.Scalars[device.Clip] = 0.5
			step := func() { check(t, sum.Run(in)) }
			step()
			steady(t, threads, step)
		}
	}
}

// Nor does a learned update.
func TestWarmProjectionsDoNotAllocate(t *testing.T) {
	b := devicetest.NewBuilder("learned", ir.Huber, 1000)
	b.Dense(ir.Input, 1, true)
	c := devicetest.NewCase(t, b.Program(), 1, 52)
	for _, threads := range []int{1, 3} {
		x := devicetest.Open(t, open(t, threads), schedule(t, c.Program, perexample.Auto), c, 1)
		step, _ := learned(t, x, device.LSTM{Layers: 3, Hidden: 7, Context: 2, LogSign: true}, len(c.Params))
		for range 5 {
			step()
		}
		steady(t, threads, step)
	}
}

// warmStep is a whole training step that has run before: sum, release, update.
func warmStep(t *testing.T, x *devicetest.Fixture, c *devicetest.Case, rule device.Rule) func() {
	t.Helper()
	var state []device.Vector
	for range rule.States() {
		v, err := x.Net.NewVector(1)
		check(t, err)
		state = append(state, v)
	}
	s, err := x.Net.Record(func(q device.Queue) {
		q.ClippedSum(x.Sum, x.Data)
		q.Release(x.Out, x.Sum, x.Noise)
		q.Update(rule, x.Net.Params(), x.Out, state...)
	})
	check(t, err)
	in := &device.Inputs{Rows: c.All()}
	for slot := range in.Scalars {
		in.Scalars[slot] = 0.5
	}
	step := func() {
		in.Draw++
		check(t, s.Run(in))
	}
	for range 5 {
		step()
	}
	return step
}
