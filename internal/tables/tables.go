// Package tables puts the records of a data set onto a device, as they are or through a
// front end.
package tables

import (
	"cmp"
	"fmt"
	"math"
	"runtime"
	"slices"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/features"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/host"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/pages"
)

// A Reader says how a network is given records.
type Reader struct {
	Front    *features.Front // nil: none
	Norm     float64         // of a record's features, at most; 0: they are as they are
	Loss     ir.Loss
	Classes  int
	Threads  int               // of the front end; 0: all cores
	Progress func(percent int) // of the front end; nil: nobody asks
	Parts    int               // in which the front end works through the records; 0: 50
	Stopped  func() error      // asked now and then while the front end works; nil: it goes on
}

// Load puts a split onto a device.
func (r Reader) Load(d device.Device, m datasets.Split) (device.Data, error) {
	all, err := r.Records(d, m)
	return all.Data, err
}

// Records are on a device, and in the host's memory for solvers. Both are private.
type Records struct {
	Data   device.Data
	Rows   device.Rows
	Values device.Features // nil: the host has none
}

// Usable counts the records that do not count as zero from the start: those with a target, and with values that
// are all finite. What each adds depends on that record alone. The count is as private as the records.
func (r Records) Usable() (n int64) {
	bad := func(row int) bool { return false }
	width := r.Rows.Width
	switch f := r.Values.(type) {
	case device.Floats:
		bad = func(row int) bool {
			return slices.ContainsFunc(f[row*width:(row+1)*width], func(x float32) bool { return x-x != 0 })
		}
	case device.Halves:
		bad = func(row int) bool {
			return slices.ContainsFunc(f[row*width:(row+1)*width], func(h uint16) bool { return h&0x7c00 == 0x7c00 })
		}
	}
	for i, target := range r.Rows.Targets {
		if target-target == 0 && !bad(i) {
			n++
		}
	}
	return n
}

// Records puts a split onto a device, and keeps it.
func (r Reader) Records(d device.Device, m datasets.Split) (Records, error) {
	rows, values, err := r.Table(m)
	if err != nil {
		return Records{}, err
	}
	data, err := d.Load(rows, values)
	if err != nil {
		return Records{}, fmt.Errorf("loading the data onto device %s: %w", d.Info().Name, err)
	}
	return Records{data, rows, values}, nil
}

// Table is what a device reads of a split. Bytes and their scale are public. A label
// outside the classes becomes a target that no loss accepts, so that the record counts as
// zero.
func (r Reader) Table(m datasets.Split) (device.Rows, device.Features, error) {
	rows := device.Rows{Count: m.Len(), Width: ir.Size(m.Shape[:]), Targets: m.Targets}
	if rows.Targets == nil {
		rows.Targets = r.targets(m.Labels)
	}
	var values device.Features
	switch {
	case r.Front != nil:
		rows.Width = r.Front.Width()
		halves, err := r.halves(m)
		if err != nil {
			return rows, nil, err
		}
		values = halves
	case m.Values != nil:
		values = device.Floats(m.Values)
	case m.Unit:
		rows.Gather = ir.Gather{ir.ScaledBy(1.0/255, 0)}
	default:
		rows.Gather = ir.Gather{ir.ScaledBy(1/127.5, -1)}
	}
	if values == nil {
		values = device.Bytes(m.Features)
	}
	rows.Mapped = m.Mapped && r.Front == nil && r.Norm == 0
	if r.Norm > 0 {
		floats, err := shrunk(rows, values, r.Norm)
		if err != nil {
			return rows, nil, err
		}
		values, rows.Gather = floats, nil // they are what was gathered
	}
	return rows, values, nil
}

// normMargin is what a row's scale falls short of the norm by, so that rounding its values to float32,
// which moves each by 2⁻²⁴ of itself, leaves the row's norm at most what was asked for.
const normMargin = 1 - 0x1p-23

// shrunk are values whose rows are scaled to a norm at most. A row within it stays as it is. Of
// a row with a value that is not finite, one stays so: the record counts as zero.
func shrunk(rows device.Rows, values device.Features, norm float64) (device.Floats, error) {
	if err := rows.Validate(values, "a norm of rows", host.Plain.Has); err != nil {
		return nil, err
	}
	all := device.Floats(pages.Make[float32](values.Len()))
	for i := range rows.Count {
		row, sum := all[i*rows.Width:][:rows.Width], 0.0
		host.Plain.Read(row, &rows, values, i)
		for _, v := range row {
			sum += float64(v) * float64(v)
		}
		if length := math.Sqrt(sum); length > norm {
			for j, v := range row {
				row[j] = float32(float64(v) * (norm * normMargin / length))
			}
		}
	}
	return all, nil
}

// halves are the features of all records, made in so many parts whatever their number, between
// which the work may be stopped. A record's row depends on that record alone.
func (r Reader) halves(m datasets.Split) (device.Halves, error) {
	parts := cmp.Or(r.Parts, 50)
	n, in, width := m.Len(), ir.Size(m.Shape[:]), r.Front.Width()
	all := device.Halves(pages.Make[uint16](n * width))
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
	targets := pages.Make[float32](len(labels))
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
