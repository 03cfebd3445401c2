package cpu

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/privgrad/privgrad/internal/cpu/vec"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/devicetest"
	"github.com/privgrad/privgrad/internal/device/host"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/perexample"
)

// Stretches are whole units that follow each other, each row in one, and none longer than it may be.
func TestStretchesCoverAChunk(t *testing.T) {
	for _, unit := range []int{8, 16, 256} {
		for _, stretch := range []int{inCache, mostRows} {
			for threads := 1; threads <= 5; threads++ {
				for _, batch := range []int{0, 1, 7, 8, 9, 64, 150, 300, 1000, 4096} {
					n := &net{unit: unit, stretch: stretch, batch: batch, workers: &workers{n: threads}}
					count := n.cutUp()
					if len(n.ends) != count+1 || n.ends[0] != 0 || n.ends[count] != batch {
						t.Fatalf("%d rows in units of %d are cut at %v", batch, unit, n.ends)
					}
					for i, end := range n.ends[1:] {
						length := end - n.ends[i]
						if length < 1 || length > max(stretch, unit) || end%unit != 0 && end != batch {
							t.Errorf("%d rows in units of %d, on %d threads: a stretch from %d to %d, of at most %d", batch, unit, threads, n.ends[i], end, stretch)
						}
					}
				}
			}
		}
	}
}

// Where one worker has more to do at the end than another, it is little.
func TestStretchesEndTogether(t *testing.T) {
	for _, c := range []struct{ threads, unit, stretch, batch, off int }{
		{2, 8, mostRows, 1000, 16}, {3, 8, mostRows, 1000, 16}, {4, 8, mostRows, 1000, 16},
		{8, 8, inCache, 256, 0}, {16, 8, inCache, 256, 0}, {16, 16, mostRows, 256, 0},
	} {
		n := &net{unit: c.unit, stretch: c.stretch, batch: c.batch, workers: &workers{n: c.threads}}
		done := make([]int, c.threads)
		for i := range n.cutUp() { // who has done least takes the next
			least := 0
			for w, rows := range done {
				if rows < done[least] {
					least = w
				}
			}
			done[least] += n.ends[i+1] - n.ends[i]
		}
		for _, rows := range done {
			if off := rows - n.batch/c.threads; off > c.off || off < -c.off {
				t.Errorf("on %d threads the workers take %v rows", c.threads, done)
			}
		}
	}
}

// Rows of values are used again for later examples, and none while it is still needed: where all examples of a batch have rows of
// their own, the sum has the same bits.
func TestRowsLiveLongEnough(t *testing.T) {
	const rows, batch = 20, 150
	defer func(a, b int) { inCache, mostRows = a, b }(inCache, mostRows)
	for _, p := range devicetest.Programs() {
		t.Run(p.Name, func(t *testing.T) {
			c := devicetest.NewCase(t, p, rows, 71)
			table, err := load(c.Rows, c.Features)
			check(t, err)
			var list []int32
			for i := range batch {
				list = append(list, int32(i*7%rows))
			}
			for _, strategy := range append(perexample.Strategies(), "plain", "exact") {
				schedule, err := perexample.Plain(p)
				switch strategy {
				case "plain":
				case "exact":
					schedule, err = perexample.Private(p, perexample.Options{Strategy: perexample.Materialise, Clipping: ir.Flat})
				default:
					schedule, err = perexample.Private(p, perexample.Options{Strategy: strategy, Clipping: ir.Flat})
				}
				if err != nil {
					continue // this strategy is not for this network, which other tests say
				}
				sum := func(stretch, threads int) string {
					inCache, mostRows = stretch, stretch
					n := compile(schedule, device.Options{Capacity: batch, Exact: strategy == "exact"}, threads)
					defer n.Close()
					if all := threads*n.stretch >= batch; all != (stretch > batch) {
						t.Fatalf("%d rows are in flight: the test tries nothing", threads*n.stretch)
					}
					if strategy == "exact" {
						integers := make([]int64, len(c.Params))
						n.GridSum(integers, c.Params, table, host.Batch{Rows: list}, device.NewGrid(1))
						return fmt.Sprint(integers)
					}
					floats := make([]float32, len(c.Params))
					n.ClippedSum(floats, c.Params, table, host.Batch{Rows: list}, 1)
					if slices.ContainsFunc(floats, func(v float32) bool { return math.IsNaN(float64(v)) }) {
						t.Fatal("the sum is not a number")
					}
					return fmt.Sprint(floats)
				}
				want := sum(256, 1)
				for threads := 1; threads <= 2; threads++ {
					if sum(vec.Columns, threads) != want {
						t.Errorf("strategy %s, %d threads: other bits", strategy, threads)
					}
				}
			}
		})
	}
}

// Many threads have no rows for more examples than a chunk has.
func TestRowsOfSmallChunks(t *testing.T) {
	const chunk, threads = 4, 16
	for _, p := range devicetest.Programs() {
		schedule, err := perexample.Private(p, perexample.Options{Strategy: perexample.Auto, Clipping: ir.Flat})
		check(t, err)
		n := compile(schedule, device.Options{Capacity: chunk}, threads)
		for v, width := range n.width {
			most := chunk * width
			if n.lives.values[v] == forExample {
				most = threads * width
			}
			if len(n.values[v]) > most+slack || len(n.deltas[v]) > chunk*width+slack || v > 0 && len(n.argmax[v-1]) > chunk*width+slack {
				t.Errorf("%s: value %d of %d floats has %d, %d and %d", p.Name, v, width, len(n.values[v]), len(n.deltas[v]), len(n.argmax[v-1]))
			}
		}
		n.Close()
	}
}

// The smallest chunk that is chosen for speed is work for 16 threads, in the papers' largest network, too.
func TestSixteenThreadsHaveWork(t *testing.T) {
	const cifarPaper = 1126080 // parameters of convolutions
	for isa, c := range costs {
		if units := c.Fewest / unitOf(c.Fewest, cifarPaper); units < 16 {
			t.Errorf("%s: %d examples are %d units", isa, c.Fewest, units)
		}
	}
}
