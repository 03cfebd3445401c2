package cpu

import (
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

// exactCase is a batch of some units, with one row that does not count.
type exactCase struct {
	*devicetest.Case
	schedule *ir.Schedule
	table    *host.Table
	rows     []int32
}

const uncounted = 17

// exactCases are those that were made, by program.
var exactCases = map[string]*devicetest.Case{}

func newExactCase(t *testing.T, p *ir.Program, strategy perexample.Strategy) *exactCase {
	t.Helper()
	s, err := perexample.Private(p, perexample.Options{Strategy: strategy, Clipping: ir.Flat})
	check(t, err)
	known := exactCases[p.Name] // rows that lie near no kink take some search
	if known == nil {
		known = devicetest.NewCase(t, p, 40, 61)
		exactCases[p.Name] = known
	}
	own := *known
	c := &exactCase{Case: &own, schedule: s}
	c.Rows.Targets = slices.Clone(c.Rows.Targets)
	c.Rows.Targets[uncounted] = float32(math.NaN())
	if c.table, err = load(c.Rows, c.Features); err != nil {
		t.Fatal(err)
	}
	c.rows = c.All()
	return c
}

// sum is the integers of some rows, and the net that has summed them.
func (c *exactCase) sum(t *testing.T, threads int, g device.Grid, rows []int32) ([]int64, *net) {
	t.Helper()
	n := compile(c.schedule, device.Options{Capacity: len(c.rows), Exact: true}, threads)
	t.Cleanup(n.Close)
	sum := make([]int64, len(c.Params))
	n.GridSum(sum, c.Params, c.table, host.Batch{Rows: rows}, g)
	return sum, n
}

// storedGradient is an example's gradient as it would lie in memory.
func (n *net) storedGradient(b int) (g []float32) {
	for _, l := range n.exact.layers {
		if l.stored {
			g = append(g, row(n.kept, b, n.stored)[n.keptAt[l.op]:][:l.size]...)
			continue
		}
		op := &n.program.Ops[l.op]
		d := n.delta(ir.Value(l.op+1), b)
		for _, y := range d {
			for _, x := range n.value(op.In[0], b) {
				g = append(g, y*x)
			}
		}
		if op.Bias != ir.None {
			g = append(g, d...)
		}
	}
	return g
}

// The sum is that of the definition: of each stored gradient, in its order, host.Scale and host.Accumulate.
func TestExactSumIsItsDefinition(t *testing.T) {
	defer func(usual int) { inCache = usual }(inCache)
	inCache = mostRows // all rows of a case are in flight together: what was computed of each is still there at the end
	for _, p := range append(devicetest.Programs(), largeConvolution()) {
		t.Run(p.Name, func(t *testing.T) {
			c := newExactCase(t, p, perexample.Materialise)
			_, n := c.sum(t, 1, device.NewGrid(1), c.rows)
			var norms []float64
			for b := range c.rows {
				norms = append(norms, math.Sqrt(vec.SumSquares(n.storedGradient(b))))
			}
			median := slices.Sorted(slices.Values(norms))[len(norms)/2]
			for _, clip := range []float64{median, 1e-3 * median, 1e3 * median} { // some are clipped, all, none
				g := device.NewGrid(float32(clip))
				got, n := c.sum(t, 1, g, c.rows)
				want := make([]int64, len(got))
				for b, used := range n.used[:n.batch] {
					gradient := n.storedGradient(b)
					scale, ok := host.Scale(g, gradient)
					if used != (ok && b != uncounted) {
						t.Fatalf("clip norm %v: row %d counts: %v", clip, b, used)
					}
					if !used {
						continue
					}
					if n.exact.scale[b] != scale {
						t.Fatalf("clip norm %v: row %d has scale %v, want %v: its norm is added up in another order", clip, b, n.exact.scale[b], scale)
					}
					integers := make([]int64, len(gradient))
					host.Accumulate(integers, gradient, scale)
					for _, l := range n.exact.layers {
						deliver(n, l.op, want, 0, integers[:l.size])
						integers = integers[l.size:]
					}
				}
				if slices.Equal(want, make([]int64, len(want))) {
					t.Fatal("the sum is zero")
				}
				if !slices.Equal(got, want) {
					t.Errorf("clip norm %v: other integers", clip)
				}
			}
		})
	}
}

// largeConvolution has one whose weights other sums take in longer blocks than those of small ones.
func largeConvolution() *ir.Program {
	b := devicetest.NewBuilder("large convolution", ir.SoftmaxCrossEntropy, 260, 1, 1)
	b.Dense(b.Act(ir.Tanh, b.Conv(ir.Input, 256, ir.Square(1, 1, 0), true)), 3, true)
	return b.Program()
}

// Threads, chunks and the capacity change nothing.
func TestExactSumsAreEqual(t *testing.T) {
	for _, p := range devicetest.Programs() {
		t.Run(p.Name, func(t *testing.T) {
			g := device.NewGrid(0.3)
			c := newExactCase(t, p, perexample.Materialise)
			want, _ := c.sum(t, 1, g, c.rows)
			for _, threads := range []int{2, 3, 8} {
				if got, _ := c.sum(t, threads, g, c.rows); !slices.Equal(got, want) {
					t.Errorf("%d threads: other integers", threads)
				}
			}
			for _, chunk := range []int{3, 16, 21} {
				s := *c.schedule
				s.Chunk = chunk
				chunked := *c
				chunked.schedule = &s
				if got, _ := chunked.sum(t, 2, g, c.rows); !slices.Equal(got, want) {
					t.Errorf("chunks of %d: other integers", chunk)
				}
			}
			if got, _ := newExactCase(t, p, perexample.Microbatch).sum(t, 2, g, c.rows); !slices.Equal(got, want) {
				t.Error("one example at a time: other integers")
			}
		})
	}
}

// Rows whose integers are too long for the grid are taken out of the sum, and no others. The scale never makes such, so
// the grid is given a bound that is too small for it.
func TestExactSumWithoutLongRows(t *testing.T) {
	for _, p := range devicetest.Programs() {
		t.Run(p.Name, func(t *testing.T) {
			c := newExactCase(t, p, perexample.Materialise)
			g := device.NewGrid(1e6) // far from clipping: norms differ
			alone, squares := make([][]int64, len(c.rows)), make([]uint64, len(c.rows))
			for b := range c.rows {
				alone[b], _ = c.sum(t, 1, g, c.rows[b:b+1])
				for _, k := range alone[b] {
					squares[b] += uint64(k * k)
				}
			}
			g.Most2 = slices.Sorted(slices.Values(squares))[len(squares)/2]
			for _, threads := range []int{1, 3} {
				want := make([]int64, len(c.Params))
				for b, integers := range alone {
					if squares[b] <= g.Most2 {
						for j, k := range integers {
							want[j] += k
						}
					}
				}
				got, n := c.sum(t, threads, g, c.rows)
				if !slices.Equal(got, want) {
					t.Errorf("%d threads: other integers", threads)
				}
				// The next batch knows nothing of this one.
				clear(got)
				n.GridSum(got, c.Params, c.table, host.Batch{Rows: c.rows}, g)
				if !slices.Equal(got, want) {
					t.Errorf("%d threads: other integers the second time", threads)
				}
			}
		})
	}
}

func TestColumns(t *testing.T) {
	for _, stride := range []int{1, 15, 16, 17, 40} {
		src := make([]float32, 30*stride)
		for i := range src {
			src[i] = float32(i)
		}
		for _, hi := range []int{3, 7, 18} {
			dst := slices.Repeat([]float32{-1}, stride*vec.Columns)
			asColumns(dst, src[2*stride:], stride, hi-2)
			for i, got := range dst {
				want := float32((2+i%vec.Columns)*stride + i/vec.Columns)
				if 2+i%vec.Columns >= hi {
					want = 0
				}
				if got != want {
					t.Fatalf("rows of %d, 2 to %d: element %d is %v, want %v", stride, hi, i, got, want)
				}
			}
		}
	}
}
