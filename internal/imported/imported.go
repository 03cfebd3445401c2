// Package imported has networks that come from ONNX files: what a run trains of one, what it freezes, and the files by which the run
// keeps both. It needs the user's file once, when a run begins.
package imported

import (
	"github.com/privgrad/privgrad/features"
	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/onnx/file"
	"github.com/privgrad/privgrad/internal/onnx/lower"
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/internal/usage"
)

// A Network is what became of a file.
type Network struct {
	Program *ir.Program
	Params  []float32       // the first weights; zeros of a network that a run keeps, which has others
	Front   *features.Front // what is frozen; nil: nothing
	Reading Reading         // what it reads of a value, where nothing is frozen
	// ByRuntime says that ONNX Runtime computes what is frozen.
	ByRuntime bool
}

// Reading is x·Scale + Shift of a value x, from 0 to 1 of a pixel.
type Reading = rundir.Reading

// Data is what a network has to fit.
type Data struct {
	Shape   [3]int // of a record
	Classes int    // 0: a regression
}

// Open reads the file that a configuration names.
func Open(c *config.Config, data Data) (*Network, error) {
	m, err := read(c)
	if err != nil {
		return nil, err
	}
	lowered, err := lower.Lower(m, choices(c, max(data.Classes, 1)))
	if err != nil {
		return nil, usage.Errorf("network %s: %w", c.Network, err)
	}
	if lowered.Program.Name = c.NetworkName(); data.Classes == 0 {
		lowered.Program.Loss = ir.Huber
	}
	n := &Network{Program: lowered.Program, Params: lowered.Params}
	if lowered.Prefix == nil {
		n.Reading, err = reading(lowered.Reads, c.Normalization())
		return n, err
	}
	if n.Front, n.ByRuntime, err = front(lowered.Prefix, c.Normalization(), data.Shape); err != nil {
		return nil, usage.Errorf("network %s, frozen up to %s: %w", c.Network, c.Freeze, err)
	}
	return n, nil
}

// reading is by the file or, where that reads values as they are, by the configuration.
func reading(own lower.Reading, n config.Normalization) (Reading, error) {
	switch {
	case own == lower.Plain:
		scale, shift := n.Affine()
		return Reading{Scale: scale[0], Shift: shift[0]}, nil
	case !n.Identity():
		return Reading{}, usage.Errorf("the network normalizes what it reads by itself: leave --normalize out")
	}
	return Reading{Scale: float32(own.Scale), Shift: float32(own.Shift)}, nil
}

func read(c *config.Config) (*file.Model, error) {
	m, err := file.Read(c.Network)
	if err != nil {
		return nil, usage.Errorf("network %s: %w", c.Network, err)
	}
	return m, nil
}

// Inspect says what a file has, and what of it cannot be trained; then there is no network.
func Inspect(c *config.Config) (*lower.Report, *lower.Network, error) {
	m, err := read(c)
	if err != nil {
		return nil, nil, err
	}
	said := choices(c, 0)
	said.NewHead = false // how many outputs a new one has follows from the data
	report := lower.Inspect(m, said)
	if report.Err != nil {
		return nil, nil, usage.Errorf("network %s: %w", c.Network, report.Err)
	}
	if len(report.Refusals) > 0 {
		return report, nil, nil
	}
	network, err := lower.Lower(m, said)
	return report, network, err
}

// choices are what a configuration says about a file.
func choices(c *config.Config, classes int) lower.Choices {
	l := lower.Choices{Freeze: c.Freeze, Classes: classes, NewHead: c.NewHead, Seed: c.Seed}
	if c.WeightsArePublic {
		l.Weights = lower.OfFile
	}
	switch c.BatchNorm {
	case config.FrozenBatchNorm:
		l.BatchNorm = lower.Frozen
	case config.GroupedBatchNorm:
		l.BatchNorm = lower.Grouped
	}
	return l
}
