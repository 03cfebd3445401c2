// Package tables puts the records of a data set onto a device, as they are or through a
// front end.
package tables

import (
	"cmp"
	"fmt"
	"math"
	"runtime"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/features"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ir"
)

// A Reader says how a network is given records.
type Reader struct {
	Front    *features.Front // nil: none
	Loss     ir.Loss
	Classes  int
	Threads  int               // of the front end; 0: all cores
	Progress func(percent int) // of the front end; nil: nobody asks
}

// Load puts a split onto a device.
func (r Reader) Load(d device.Device, m datasets.Split) (device.Data, error) {
	rows, values := r.Table(m)
	data, err := d.Load(rows, values)
	if err != nil {
		return nil, fmt.Errorf("loading the data onto device %s: %w", d.Info().Name, err)
	}
	return data, nil
}

// Table is what a device reads of a split. Bytes and their scale are public. A label
// outside the classes becomes a target that no loss accepts, so that the record counts as
// zero.
func (r Reader) Table(m datasets.Split) (device.Rows, device.Features) {
	rows := device.Rows{Count: m.Len(), Width: ir.Size(m.Shape[:]), Targets: m.Targets}
	if rows.Targets == nil {
		rows.Targets = r.targets(m.Labels)
	}
	switch {
	case r.Front != nil:
		rows.Width = r.Front.Width()
		images := features.Images{Bytes: m.Features, Values: m.Values}
		threads := cmp.Or(r.Threads, runtime.GOMAXPROCS(0))
		return rows, device.Halves(r.Front.Rows(images, threads, r.Progress))
	case m.Values != nil:
		return rows, device.Floats(m.Values)
	case m.Unit:
		rows.Scale = 1.0 / 255
	default:
		rows.Scale, rows.Offset = 1/127.5, -1
	}
	return rows, device.Bytes(m.Features)
}

func (r Reader) targets(labels []uint8) []float32 {
	targets := make([]float32, len(labels))
	for i, l := range labels {
		switch {
		case int(l) >= r.Classes:
			targets[i] = float32(math.NaN())
		case r.Loss == ir.SoftmaxCrossEntropy:
			targets[i] = float32(l)
		default:
			targets[i] = 2*float32(l) - 1 // the two classes are −1 and +1
		}
	}
	return targets
}
