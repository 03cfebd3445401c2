// Package outputs runs a network on records, one by one and in float64 on the processor: for predictions, for the
// errors of a regression, and for the order in which a classifier of two classes puts records. So these do not depend on
// the device that trained.
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

// errorsOf leaves out a record without a target, or with a value that is not finite.
func errorsOf(n Network, t *host.Table, b datasets.Bounds, threads int) (Errors, error) {
	off, err := n.each(t, threads, func(z []float64, target float64) float64 { return z[0] - target })
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
