package cuda

import (
	"errors"

	"github.com/privgrad/privgrad/internal/cuda/driver"
	"github.com/privgrad/privgrad/internal/cuda/kernels"
	"github.com/privgrad/privgrad/internal/device"
)

// table is data in the GPU's memory.
type table struct {
	device.Rows
	memory
	maps              kernels.Maps
	form              kernels.Form
	features, targets driver.Ptr
}

// Load copies a table to the GPU's memory, in the form that it has.
func (d *Device) Load(r device.Rows, f device.Features) (device.Data, error) {
	if err := r.Validate(f, "device "+name, kernels.HasMap); err != nil {
		return nil, err
	}
	r = r.Checked(f)
	targets := bytesOf(r.Targets)
	r.Targets = nil // the caller's
	t := &table{Rows: r, memory: memory{device: d}, maps: kernels.MapsOf(r.Gather)}
	var features []byte
	t.form, features = inBytes(f)
	err := d.do(func() error {
		var err error
		if t.features, err = t.copyIn(features); err == nil {
			t.targets, err = t.copyIn(targets)
		}
		if err != nil {
			return errors.Join(err, t.release())
		}
		d.owners = append(d.owners, t)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return t, nil
}

// inBytes is the memory of a table's values.
func inBytes(f device.Features) (kernels.Form, []byte) {
	switch f := f.(type) {
	case device.Floats:
		return kernels.Floats, bytesOf(f)
	case device.Halves:
		return kernels.Halves, bytesOf(f)
	case device.Bytes:
		return kernels.Bytes, f
	}
	return kernels.Bytes, nil
}

// copyIn puts a part of a table into memory of its own.
func (t *table) copyIn(part []byte) (driver.Ptr, error) {
	p, err := t.alloc(int64(len(part)), "a table", "load fewer records, or use --device cpu")
	if err != nil || len(part) == 0 {
		return p, err
	}
	return p, t.device.failed("copying a table", t.device.context.CopyIn(p, part))
}

// inMemory is the table as kernels read it.
func (t *table) inMemory() *kernels.Table {
	return &kernels.Table{Form: t.form, Values: uint64(t.features), Targets: uint64(t.targets), Width: t.Width, Maps: t.maps}
}

// Close frees the table's memory. It is idempotent.
func (t *table) Close() error {
	t.Count = 0
	return t.device.drop(t)
}

// free waits for what was enqueued, which may still read the table.
func (t *table) free() error {
	var errs []error
	for _, o := range t.device.owners {
		switch n, ok := o.(*net); {
		case ok && n.Err == nil:
			errs = append(errs, n.wait())
		case ok && n.stream != nil:
			n.stream.Sync() // a network that was refused something has runs under way all the same
		}
	}
	return t.device.joined(append(errs, t.release()))
}
