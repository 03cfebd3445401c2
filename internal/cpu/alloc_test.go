package cpu_test

import (
	"fmt"
	"runtime"
	"slices"
	"testing"

	"github.com/privgrad/privgrad/internal/cpu"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/devicetest"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/perexample"
)

// A warm training step allocates nothing: not a closure, not a buffer, not a
// goroutine.
func TestWarmStepsDoNotAllocate(t *testing.T) {
	for _, net := range []struct {
		p     *ir.Program
		rows  int
		rules []device.Rule
	}{
		{devicetest.LeNet("lenet", 16, 3, 4, 12, 8), 20, device.Rules()},
		{squares(t), 5, device.Rules()[:1]},
	} {
		c := devicetest.NewCase(t, net.p, net.rows, 51)
		// Rare noise needs tables, which are made when it is first drawn: here.
		noise := device.NewNoise(devicetest.Stream(t, open(t, 1)), 7)
		for draw := range uint64(mostSteps + 10) {
			devicetest.Drawn(t, noise, draw, 0.5, len(c.Params))
		}
		for i, strategy := range append(perexample.Strategies(), "") {
			rules := net.rules
			if i > 0 { // an update knows nothing of the strategy
				rules = rules[:1]
			}
			for _, threads := range []int{1, 3} {
				for _, rule := range rules {
					t.Run(fmt.Sprintf("%s %q %s on %d threads", net.p.Name, strategy, rule, threads), func(t *testing.T) {
						x := devicetest.Open(t, open(t, threads), schedule(t, net.p, strategy), c, c.Rows.Count)
						step := warmStep(t, x, c, rule)
						steady(t, threads, step)
					})
				}
			}
		}
	}
}

// squares is a program of the conformance suite with a convolution by squares.
func squares(t testing.TB) *ir.Program {
	t.Helper()
	for _, p := range devicetest.Programs() {
		need := p.NeedsGrad()
		if slices.ContainsFunc(p.Ops, func(op ir.Op) bool { return op.Kind == ir.Conv && cpu.BySquares(&op, need[op.In[0]]) }) {
			return p
		}
	}
	t.Fatal("no program has a convolution by squares")
	return nil
}

// mostSteps is how many are counted.
const mostSteps = 500

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
	runtime.ReadMemStats(&before)
	for range mostSteps {
		step()
	}
	runtime.ReadMemStats(&after)
	if n := after.Mallocs - before.Mallocs; n > mostSteps/10 {
		t.Errorf("%d steps allocate %d times", mostSteps, n)
	}
}

// Nor does an exact sum, of whole batches or in chunks.
func TestWarmExactSumsDoNotAllocate(t *testing.T) {
	for _, p := range []*ir.Program{devicetest.LeNet("lenet", 16, 3, 4, 12, 8), squares(t)} {
		c := devicetest.NewCase(t, p, 8, 53)
		for _, strategy := range []perexample.Strategy{perexample.Materialise, perexample.Microbatch} {
			for _, threads := range []int{1, 3} {
				t.Run(fmt.Sprintf("%s %s on %d threads", p.Name, strategy, threads), func(t *testing.T) {
					sum := batchSum(t, open(t, threads), c, strategy, c.Rows.Count, true)
					in := &device.Inputs{Rows: c.All()}
					in.Scalars[device.Clip] = 0.5
					step := func() { check(t, sum.Run(in)) }
					step()
					steady(t, threads, step)
				})
			}
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
