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
	Stopped  func() error      // asked now and then while the front end works; nil: it goes on
}

// Load puts a split onto a device.
func (r Reader) Load(d device.Device, m datasets.Split) (device.Data, error) {
	rows, values, err := r.Table(m)
	if err != nil {
		return nil, err
	}
	data, err := d.Load(rows, values)
	if err != nil {
		return nil, fmt.Errorf("loading the data onto device %s: %w", d.Info().Name, err)
	}
	return data, nil
}

// Table is what a device reads of a split. Bytes and their scale are public. A label
// outside the classes becomes a target that no loss accepts, so that the record counts as
// zero.
func (r Reader) Table(m datasets.Split) (device.Rows, device.Features, error) {
	rows := device.Rows{Count: m.Len(), Width: ir.Size(m.Shape[:]), Targets: m.Targets}
	if rows.Targets == nil {
		rows.Targets = r.targets(m.Labels)
	}
	switch {
	case r.Front != nil:
		rows.Width = r.Front.Width()
		halves, err := r.halves(m)
		return rows, halves, err
	case m.Values != nil:
		return rows, device.Floats(m.Values), nil
	case m.Unit:
		rows.Scale = 1.0 / 255
	default:
		rows.Scale, rows.Offset = 1/127.5, -1
	}
	return rows, device.Bytes(m.Features), nil
}

// halves are the features of all records, made in so many parts whatever their number, between
// which the work may be stopped. A record's row depends on that record alone.
func (r Reader) halves(m datasets.Split) (device.Halves, error) {
	const parts = 50
	n, in, width := m.Len(), ir.Size(m.Shape[:]), r.Front.Width()
	all := make(device.Halves, n*width)
	for k := range parts {
		if r.Stopped != nil {
			if err := r.Stopped(); err != nil {
				return nil, err
			}
		}
		from, to := k*n/parts, (k+1)*n/parts
		var images features.Images
		if m.Features != nil {
			images.Bytes = m.Features[from*in : to*in]
		} else {
			images.Values = m.Values[from*in : to*in]
		}
		r.Front.Fill(all[from*width:to*width], images, cmp.Or(r.Threads, runtime.GOMAXPROCS(0)), nil)
		if r.Progress != nil {
			for percent := 1; percent <= 100/parts; percent++ {
				r.Progress(k*100/parts + percent)
			}
		}
	}
	return all, nil
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
