package trained

import (
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/features"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/host"
	"github.com/privgrad/privgrad/internal/device/reference"
	"github.com/privgrad/privgrad/internal/fault"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/internal/usage"
)

// A Prediction is what the model makes of one record.
type Prediction struct {
	Index int    // of the class; 0 in a regression
	Class string // its name; empty in a regression
	// Probabilities are those of the classes, by the model: nil where its loss gives none, as those of
	// support vector machines and of regressions do. They say how sure the model is, not how often it is right.
	Probabilities []float64
	// Logits are the outputs of the network, one a class or a single one; in a regression
	// the value.
	Logits []float64
}

// Predict runs the model on records, one after the other, each in the order of Shape. Images are bytes, as
// files hold them; records of tables are values as the schema encodes them, which a model of floating-point images
// reads, too. It computes in float64, on the processor.
func (m *Model) Predict(records features.Images) ([]Prediction, error) {
	size := ir.Size(m.shape[:])
	given, other, kind := len(records.Bytes), len(records.Values), "bytes"
	if m.reading == rundir.AsIs {
		given, other, kind = other, given, "floating-point values"
	}
	if other > 0 || given%size != 0 {
		return nil, usage.Errorf("the model of %s reads %d %s a record: give whole records of them", m.dir, size, kind)
	}
	split := datasets.Split{
		Shape: m.shape, Features: records.Bytes, Values: records.Values, Unit: m.reading == rundir.Fraction && m.front == nil,
		Labels: make([]uint8, given/size),
	}
	p := m.network.Program
	rows, values, err := m.reader().Table(split)
	if err != nil {
		return nil, err
	}
	table, err := host.Load(rows, values)
	if err != nil {
		return nil, err
	}
	params := make([]float64, len(m.params))
	for i, x := range m.params {
		params[i] = float64(x)
	}
	all := make([]Prediction, table.Count)
	err = each(m.options.Threads, table.Count, func(i int) error {
		if table.Void(int32(i)) {
			return usage.Errorf("record %d has a value that is not finite, or gives one: leave it out", i)
		}
		z := reference.Values(p, params, table.Row(int32(i)), device.Float32)[p.Logits()]
		for _, x := range z {
			if x-x != 0 {
				return usage.Errorf("the model of %s gives record %d a value that is not finite: its training diverged, or its file is damaged; train with a smaller --lr, or restore the file", m.dir, i)
			}
		}
		all[i] = m.prediction(z)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// prediction reads logits by the loss that they were trained with.
func (m *Model) prediction(z []float64) Prediction {
	p := Prediction{Index: host.Predict(m.network.Program.Loss, z), Logits: z}
	if len(m.classes) > 0 {
		p.Class = m.classes[p.Index]
	}
	switch m.network.Program.Loss {
	case ir.SoftmaxCrossEntropy:
		sum := 0.
		for _, x := range z {
			p.Probabilities = append(p.Probabilities, math.Exp(x-z[p.Index]))
			sum += p.Probabilities[len(p.Probabilities)-1]
		}
		for i := range p.Probabilities {
			p.Probabilities[i] /= sum
		}
	case ir.Logistic:
		p.Probabilities = []float64{1 / (1 + math.Exp(z[0])), 1 / (1 + math.Exp(-z[0]))}
	}
	return p
}

// each calls do for 0 to n−1 on some goroutines; of errors it gives the first one's.
func each(threads, n int, do func(i int) error) error {
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
			return fmt.Errorf("predicting: %w", err)
		}
	}
	return nil
}
