package cuda

import (
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/privgrad/privgrad/internal/cuda/driver"
	"github.com/privgrad/privgrad/internal/cuda/kernels"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ir"
)

// Comparison is one matrix product of a dense layer, m×k times k×n, by the
// project's kernels and by cuBLAS, on random numbers.
type Comparison struct {
	Layer, Product string // forward, input gradient, weight sum
	M, K, N        int
	Own, CuBLAS    time.Duration // CuBLAS is 0 without the library
	// RowsAlike says that cuBLAS adds all rows in one order; training leaves
	// products to it only where it does. Sums over rows need not.
	RowsAlike  bool
	Difference float64 // the largest between the results, in units of the largest value
}

// CompareProducts measures the dense products of a schedule on batches of so many rows. Each is
// run for about the given time. The weight sums include what puts the examples together for cuBLAS.
func (d *Device) CompareProducts(s *ir.Schedule, rows int, each time.Duration) ([]Comparison, error) {
	own, results, err := d.measureProducts(s, device.Options{Capacity: rows}, each)
	if err != nil {
		return nil, err
	}
	if _, err := d.CuBLAS(); err != nil {
		return own, nil
	}
	theirs, again, err := d.measureProducts(s, device.Options{Capacity: rows, CuBLAS: true}, each)
	if err != nil {
		return nil, err
	}
	for i := range own {
		c := &own[i]
		c.CuBLAS, c.RowsAlike = theirs[i].Own, theirs[i].RowsAlike
		var most, largest float64
		for j, x := range results[i] {
			most, largest = max(most, math.Abs(x-again[i][j])), max(largest, math.Abs(x))
		}
		c.Difference = most / largest
	}
	return own, nil
}

// measureProducts gives times as Own, and what each product came to.
func (d *Device) measureProducts(s *ir.Schedule, o device.Options, each time.Duration) (all []Comparison, results [][]float64, err error) {
	n, err := d.compile(s, o, true)
	if err != nil {
		return nil, nil, err
	}
	err = n.Do(func() error {
		sum, err := n.fillProducts()
		if err != nil {
			return err
		}
		for _, i := range summed(s) {
			for _, kind := range []string{"forward", "input gradient", "weight sum"} {
				c, result, err := n.measureProduct(i, kind, sum, each)
				if err != nil {
					return err
				}
				if c != nil {
					all, results = append(all, *c), append(results, result)
				}
			}
		}
		return nil
	})
	return all, results, errors.Join(err, n.Close())
}

// fillProducts makes every row live and every operand random.
func (n *net) fillProducts() (kernels.Ptr, error) {
	a, p, c := &n.arena, n.Schedule.Program, n.device.context
	run := make([]byte, kernels.RunBytes)
	binary.LittleEndian.PutUint32(run[kernels.RunLive:], uint32(a.chunk))
	errs := []error{n.wait(), c.CopyIn(driver.Ptr(a.run), run)}
	random := rand.New(rand.NewPCG(9, 10))
	fill := func(at kernels.Ptr, size int, value func() float32) {
		x := make([]float32, size)
		for i := range x {
			x[i] = value()
		}
		errs = append(errs, c.CopyIn(driver.Ptr(at), bytesOf(x)))
	}
	normal := func() float32 { return float32(random.NormFloat64()) }
	fill(n.vectors[0], n.Size, normal)
	fill(a.factor, a.chunk*a.groups, func() float32 { return 1 })
	for v := range a.values {
		size := a.chunk * p.ValueSize(ir.Value(v))
		if a.values[v] != 0 {
			fill(a.values[v], size, normal)
		}
		if a.deltas[v] != 0 {
			fill(a.deltas[v], size, normal)
		}
	}
	if err := n.device.failed("filling operands", errors.Join(errs...)); err != nil {
		return 0, err
	}
	sum, err := n.zeros(8*int64(n.Size), "a sum of "+p.Name)
	if err != nil {
		return 0, err
	}
	return kernels.Ptr(sum), n.wait()
}

// repeats of a product are timed together: a clock's tick is half a microsecond.
const repeats = 20

func (n *net) measureProduct(i int, kind string, dst kernels.Ptr, each time.Duration) (*Comparison, []float64, error) {
	a, p := &n.arena, n.Schedule.Program
	op := &p.Ops[i]
	out, in, _ := op.Columns()
	b := kernels.Batch{Run: a.run, Capacity: a.chunk}
	l := &list{net: n, step: noStep}
	params := n.vectors[0]
	x, y, dx, dy := a.values[op.In[0]], a.values[i+1], a.deltas[op.In[0]], a.deltas[i+1]
	c := &Comparison{Layer: op.Name, Product: kind, M: a.chunk, RowsAlike: true}
	var result func() ([]float64, error)
	switch kind {
	case "forward":
		c.K, c.N, c.RowsAlike = in, out, n.blas.takes(product{op: i})
		l.denseForward(b, i, x, l.param(params, op.Weight, 4), l.param(params, op.Bias, 4), y)
		result = func() ([]float64, error) { return read[float32](n, y, a.chunk*out) }
	case "input gradient":
		if dx == 0 {
			return nil, nil, nil
		}
		c.K, c.N, c.RowsAlike = out, in, n.blas.takes(product{i, true, false})
		l.denseInputGrad(b, i, dy, l.param(params, op.Weight, 4), dx, false)
		result = func() ([]float64, error) { return read[float32](n, dx, a.chunk*in) }
	default:
		c.M, c.K, c.N = out, a.chunk, in
		w := l.param(dst, op.Weight, 8)
		l.denseSum(b, i, x, dy, a.factors(i), w, l.param(dst, op.Bias, 8))
		result = func() ([]float64, error) { return read[float64](n, w, out*in) }
	}
	if err := l.load(); err != nil {
		return nil, nil, err
	}
	// Once for the result, which later runs add to.
	for j := range l.work {
		if err := n.enqueue(&l.work[j]); err != nil {
			return nil, nil, n.failed("a product", err)
		}
	}
	if err := n.wait(); err != nil {
		return nil, nil, err
	}
	values, err := result()
	if err != nil {
		return nil, nil, err
	}
	c.Own, err = n.timed(slices.Repeat(l.work, repeats), each)
	c.Own /= repeats
	return c, values, err
}

// timed is the median time of work that is run again and again.
func (n *net) timed(all []work, each time.Duration) (time.Duration, error) {
	var t timing
	defer func() { _ = t.free() }()
	for range 2 {
		k, err := n.device.context.NewClock()
		if err != nil {
			return 0, n.failed("a clock", err)
		}
		t.clocks = append(t.clocks, k)
	}
	var err error
	t.graph, err = n.captureWork(all, func(i int) error {
		switch i {
		case 0:
			return n.stream.Mark(t.clocks[0])
		case len(all):
			return n.stream.Mark(t.clocks[1])
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	var times []time.Duration
	for start := time.Now(); len(times) < 3 || time.Since(start) < each; {
		if err := n.stream.Run(t.graph); err != nil {
			return 0, n.failed("a product", err)
		}
		took, err := t.clocks[1].Since(t.clocks[0])
		if err != nil {
			return 0, n.failed("a product", err)
		}
		times = append(times, took)
	}
	slices.Sort(times)
	return times[len(times)/2], nil
}

func read[T float32 | float64](n *net, at kernels.Ptr, size int) ([]float64, error) {
	x, y := make([]T, size), make([]float64, size)
	err := n.device.failed("reading a product", n.device.context.CopyOut(bytesOf(x), driver.Ptr(at)))
	for i := range x {
		y[i] = float64(x[i])
	}
	return y, err
}
