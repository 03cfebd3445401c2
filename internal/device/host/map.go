package host

import (
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/pages"
)

// Mapped is what a front end makes of a table's records, to be loaded. fill writes rows of records in one of the two forms of
// device.Front.
func Mapped(front device.Front, from device.Data, o device.MapOptions, fill func(rows []uint16, bytes []uint8, values []float32)) (device.Rows, device.Features, error) {
	t, _ := from.(*Table)
	if t == nil {
		return device.Rows{}, nil, device.CheckFront(front, nil, nil)
	}
	if err := device.CheckFront(front, &t.Rows, t.Features); err != nil {
		return device.Rows{}, nil, err
	}
	in, width := t.Width, front.Width()
	rows := device.Rows{Count: t.Count, Width: width, Targets: t.Targets}
	all := device.Halves(pages.Make[uint16](t.Count * width))
	err := o.Work(t.Count, func(lo, hi int) {
		switch f := t.Features.(type) {
		case device.Bytes:
			fill(all[lo*width:hi*width], f[lo*in:hi*in], nil)
		case device.Floats:
			fill(all[lo*width:hi*width], nil, f[lo*in:hi*in])
		}
	})
	return rows, all, err
}
