// Package outputs runs a network on records, one by one and in float64 on the processor: for predictions, and for the
// errors of a regression. So these do not depend on the device that trained.
package outputs

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/host"
	"github.com/privgrad/privgrad/internal/device/reference"
	"github.com/privgrad/privgrad/internal/fault"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/tables"
)

// A Network is a program with its parameters.
type Network struct {
	program *ir.Program
	params  []float64
}

// New is a network of these parameters.
func New(p *ir.Program, params []float32) Network {
	n := Network{p, make([]float64, len(params))}
	for i, x := range params {
		n.params[i] = float64(x)
	}
	return n
}

// Of is what the network gives for a row of a table.
func (n Network) Of(t *host.Table, row int) []float64 {
	return reference.Values(n.program, n.params, t.Row(int32(row)), device.Float32)[n.program.Logits()]
}

// Each calls do for 0 to n−1 on so many goroutines, 0 for one per core; of errors it gives that of the smallest number.
func Each(threads, n int, do func(i int) error) error {
	if threads == 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	errs := make([]error, n)
	var next atomic.Int64
	var group sync.WaitGroup
	call := func(i int) (err error) {
		defer fault.Recover(&err)
		return do(i)
	}
	for range min(threads, n) {
		group.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				errs[i] = call(int(i))
			}
		})
	}
	group.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// Errors are those of a regression on public test records, in the units of its label. All are nil of other networks,
// and R2 where all labels are equal, too.
type Errors struct {
	RMSE *float64 `json:"test_rmse,omitempty"` // root of the mean squared error
	MAE  *float64 `json:"test_mae,omitempty"`  // mean absolute error
	R2   *float64 `json:"test_r2,omitempty"`   // 1 − the mean squared error / the variance of the labels
}

// mostWork is the number of floating-point operations up to which an evaluation during a run measures errors: some
// tens of seconds of one core. Every linear model stays far below.
const mostWork = 3e10

// Measurer gives the errors on public records for the parameters that read gives. It is nil for a network that is no
// regression, and for one that takes long on so many records.
func Measurer(p *ir.Program, r tables.Records, b datasets.Bounds, threads int, read func(params []float32) error) (func() (Errors, error), error) {
	if p.Loss != ir.Huber || float64(p.ForwardFLOPs())*float64(r.Rows.Count) > mostWork {
		return nil, nil
	}
	t, err := reference.Load(r.Rows, r.Values)
	params := make([]float32, p.NumParams())
	return func() (Errors, error) {
		if err := read(params); err != nil {
			return Errors{}, err
		}
		return measure(New(p, params), t, b, threads)
	}, err
}

// Measure finds the errors of a network on records, which are public; they are nil of one that is no regression.
func Measure(n Network, r tables.Records, b datasets.Bounds, threads int) (Errors, error) {
	if n.program.Loss != ir.Huber {
		return Errors{}, nil
	}
	t, err := reference.Load(r.Rows, r.Values)
	if err != nil {
		return Errors{}, err
	}
	return measure(n, t, b, threads)
}

// measure leaves out a record without a target, or with a value that is not finite.
func measure(n Network, t *host.Table, b datasets.Bounds, threads int) (Errors, error) {
	off := make([]float64, t.Count)
	err := Each(threads, t.Count, func(i int) error {
		if !t.Void(int32(i)) {
			off[i] = n.Of(t, i)[0] - float64(t.Targets[i])
		}
		return nil
	})
	if err != nil {
		return Errors{}, err
	}
	var count, squares, sizes, mean, variance float64
	for i, x := range off { // in their order, so that the same run gives the same digits
		if t.Void(int32(i)) {
			continue
		}
		count++
		squares, sizes = squares+x*x, sizes+math.Abs(x)
		step := float64(t.Targets[i]) - mean
		mean += step / count
		variance += step * (float64(t.Targets[i]) - mean)
	}
	if count == 0 {
		return Errors{}, nil
	}
	e := Errors{RMSE: finite(b.Width() * math.Sqrt(squares/count)), MAE: finite(b.Width() * sizes / count)}
	if variance > 0 {
		e.R2 = finite(1 - squares/variance)
	}
	return e, nil
}

// finite is nil of a network that diverged.
func finite(x float64) *float64 {
	if x-x != 0 {
		return nil
	}
	return &x
}
