// Package tables puts the records of a data set onto a device, as they are or through a
// front end.
package tables

import (
	"cmp"
	"errors"
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
	Reading  *ir.Reading     // without a front end, what the network reads of a value; nil: the usual
	Norm     float64         // of a record's features, at most; 0: they are as they are
	Loss     ir.Loss
	Classes  int
	Threads  int               // of the front end; 0: all cores
	Progress func(percent int) // of the front end; nil: nobody asks
	Parts    int               // in which the front end works through the records; 0: 50
	Stopped  func() error      // asked now and then while the front end works; nil: it goes on
	Canaries *Canaries         // nil: none
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

// Records puts a split onto a device, and keeps it. The device maps records through the front end, if it can.
func (r Reader) Records(d device.Device, m datasets.Split) (Records, error) {
	if r.Front != nil {
		defer r.Front.Rest()
	}
	if r.Front != nil && r.Norm == 0 && r.Canaries == nil && r.unmapped(d) == nil {
		return r.mapped(d, m)
	}
	rows, values, err := r.Table(m)
	if err != nil {
		return Records{}, err
	}
	data, err := load(d, rows, values)
	return Records{data, rows, values}, err
}

func load(d device.Device, rows device.Rows, values device.Features) (device.Data, error) {
	data, err := d.Load(rows, values)
	if err != nil {
		return nil, fmt.Errorf("loading the data onto device %s: %w", d.Info().Name, err)
	}
	return data, nil
}

// unmapped says why a device does not map records through the front end.
func (r Reader) unmapped(d device.Device) error {
	if m := device.MapperOf(d); m != nil {
		return m.Maps(r.Front)
	}
	return errors.New("has no kernels for them yet")
}

// Note is what there is to say of how a device makes features; empty if it makes them itself.
func (r Reader) Note(d device.Device) string {
	if r.Front == nil {
		return ""
	}
	if err := r.unmapped(d); err != nil {
		return fmt.Sprintf("features are computed on the CPU: device %s %v", d.Info().Name, err)
	}
	return ""
}

// mapped puts the images onto the device, which makes rows of them and forgets them.
func (r Reader) mapped(d device.Device, m datasets.Split) (Records, error) {
	rows, values := r.raw(m)
	if m.Values == nil {
		rows.Gather = device.Fractions // what front ends read
	}
	images, err := load(d, rows, values)
	if err != nil {
		return Records{}, err
	}
	o := device.MapOptions{Threads: r.threads(), Parts: r.Parts, Progress: r.Progress, Stopped: r.Stopped}
	data, err := device.MapperOf(d).Map(r.Front, images, o)
	if err = errors.Join(err, images.Close()); err != nil {
		return Records{}, err
	}
	mapped := device.Rows{Count: rows.Count, Width: r.Front.Width(), Targets: rows.Targets}
	if t, ok := data.(*host.Table); ok { // rows in the host's memory, for its solvers
		return Records{data, mapped, t.Features}, nil
	}
	mapped.Targets = rows.Checked(values).Targets // the host sees which records are not finite, and no rows
	return Records{Data: data, Rows: mapped}, nil
}

func (r Reader) threads() int { return cmp.Or(r.Threads, runtime.GOMAXPROCS(0)) }

// Table is what a device reads of a split, with features made on the CPU. Bytes and their scale are public. A label
// outside the classes becomes a target that no loss accepts, so that the record counts as
// zero.
func (r Reader) Table(m datasets.Split) (device.Rows, device.Features, error) {
	rows, values := r.raw(m)
	if r.Front != nil {
		halves, err := r.halves(m)
		if err != nil {
			return rows, nil, err
		}
		rows = device.Rows{Count: rows.Count, Width: r.Front.Width(), Targets: rows.Targets}
		values = halves
	}
	if r.Norm > 0 {
		rows.Mapped = false
		floats, err := shrunk(rows, values, r.Norm)
		if err != nil {
			return rows, nil, err
		}
		values, rows.Gather = floats, nil // they are what was gathered
	}
	if r.Canaries != nil {
		return r.withCanaries(rows, values)
	}
	return rows, values, nil
}

// raw are the records as they are, with their targets.
func (r Reader) raw(m datasets.Split) (device.Rows, device.Features) {
	rows := device.Rows{Count: m.Len(), Width: ir.Size(m.Shape[:]), Targets: m.Targets, Mapped: m.Mapped}
	if rows.Targets == nil {
		rows.Targets = r.targets(m.Labels)
	}
	if m.Values != nil {
		if r.Reading != nil {
			rows.Gather = r.Reading.OfValues()
		}
		return rows, device.Floats(m.Values)
	}
	switch {
	case r.Reading != nil:
		rows.Gather = r.Reading.OfBytes()
	case m.Unit:
		rows.Gather = device.Fractions
	default:
		rows.Gather = ir.Gather{ir.ScaledBy(1/127.5, -1)}
	}
	return rows, device.Bytes(m.Features)
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
	n, in, width := m.Len(), ir.Size(m.Shape[:]), r.Front.Width()
	all := device.Halves(pages.Make[uint16](n * width))
	o := device.MapOptions{Parts: r.Parts, Progress: r.Progress, Stopped: r.Stopped}
	err := o.Work(n, func(lo, hi int) {
		var bytes []uint8
		var values []float32
		if m.Features != nil {
			bytes = m.Features[lo*in : hi*in]
		} else {
			values = m.Values[lo*in : hi*in]
		}
		r.Front.Fill(all[lo*width:hi*width], bytes, values, r.threads())
	})
	return all, err
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
