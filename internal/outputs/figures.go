package outputs

import (
	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/internal/device/host"
	"github.com/privgrad/privgrad/internal/device/reference"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/tables"
)

// Figures are those on public test records that need the outputs of single records: errors of a regression, or how well two
// classes are told apart.
type Figures struct {
	Errors
	TwoClasses
}

// Floating-point operations up to which figures are measured. A record at a time, some 10⁹ take a second of one core; all
// models of tables stay below.
const (
	errorsInRun  = 3e10 // an evaluation during a run, of a regression
	classesInRun = 3e9  // of two classes, which networks of images tell apart, too
	classesAlone = 3e11 // of two classes, where evaluating is all that is done
)

// Measurer gives the figures on public records for the parameters that read gives. It is nil for a network that has none, for
// one that takes long on so many records, and for features of images that a device alone has.
func Measurer(p *ir.Program, r tables.Records, b datasets.Bounds, threads int, read func(params []float32) error) (func() (Figures, error), error) {
	most := errorsInRun
	if p.Loss != ir.Huber {
		most = classesInRun
	}
	if !measured(p, r) || work(p, r) > most {
		return nil, nil
	}
	t, err := reference.Load(r.Rows, r.Values)
	params := make([]float32, p.NumParams())
	return func() (Figures, error) {
		if err := read(params); err != nil {
			return Figures{}, err
		}
		return measure(New(p, params), t, b, threads)
	}, err
}

// Measure finds the figures of a network on records, which are public. They are nil of a network that has none, of two
// classes where a network takes very long, and of features of images that a device alone has.
func Measure(n Network, r tables.Records, b datasets.Bounds, threads int) (Figures, error) {
	if !measured(n.program, r) || n.program.Loss != ir.Huber && work(n.program, r) > classesAlone {
		return Figures{}, nil
	}
	t, err := reference.Load(r.Rows, r.Values)
	if err != nil {
		return Figures{}, err
	}
	return measure(n, t, b, threads)
}

// measured says whether a network has figures on records.
func measured(p *ir.Program, r tables.Records) bool {
	return r.Values != nil && (p.Loss == ir.Huber || twoClasses(p))
}

// work is the number of floating-point operations for all records.
func work(p *ir.Program, r tables.Records) float64 {
	return float64(p.ForwardFLOPs()) * float64(r.Rows.Count)
}

func measure(n Network, t *host.Table, b datasets.Bounds, threads int) (f Figures, err error) {
	if n.program.Loss == ir.Huber {
		f.Errors, err = errorsOf(n, t, b, threads)
		return f, err
	}
	f.AUC, err = areaOf(n, t, threads)
	return f, err
}

// each gives a number for every record, from what the network makes of it and its target; 0 for a record that counts as zero.
func (n Network) each(t *host.Table, threads int, of func(z []float64, target float64) float64) ([]float64, error) {
	all := make([]float64, t.Count)
	err := Each(threads, t.Count, func(i int) error {
		if !t.Void(int32(i)) {
			all[i] = of(n.Of(t, i), float64(t.Targets[i]))
		}
		return nil
	})
	return all, err
}
