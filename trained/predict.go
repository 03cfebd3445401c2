package trained

import (
	"fmt"
	"math"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/features"
	"github.com/privgrad/privgrad/internal/device/host"
	"github.com/privgrad/privgrad/internal/device/reference"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/outputs"
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
	// Logits are the outputs of the network, one a class or a single one; in a regression the value, in the units of
	// its label.
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
	}
	if len(m.classes) == 0 { // any target that its loss accepts: no prediction depends on it
		split.Targets = make([]float32, given/size)
	} else {
		split.Labels = make([]uint8, given/size)
	}
	rows, values, err := m.reader().Table(split)
	if err != nil {
		return nil, err
	}
	table, err := reference.Load(rows, values)
	if err != nil {
		return nil, err
	}
	network, all := outputs.New(m.network.Program, m.params), make([]Prediction, table.Count)
	err = outputs.Each(m.options.Threads, table.Count, func(i int) error {
		if table.Void(int32(i)) {
			return usage.Errorf("record %d has a value that is not finite, or gives one: leave it out", i)
		}
		z := network.Of(table, i)
		for _, x := range z {
			if x-x != 0 {
				return usage.Errorf("the model of %s gives record %d a value that is not finite: its training diverged, or its file is damaged; train with a smaller --lr, or restore the file", m.dir, i)
			}
		}
		all[i] = m.prediction(z)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("predicting: %w", err)
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
	case ir.Huber:
		z[0] = m.bounds.Value(z[0])
	case ir.Logistic:
		p.Probabilities = []float64{1 / (1 + math.Exp(z[0])), 1 / (1 + math.Exp(-z[0]))}
	}
	return p
}
