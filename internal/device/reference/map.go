package reference

import (
	"cmp"
	"errors"
	"sync"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/host"
	"github.com/privgrad/privgrad/internal/fault"
	"github.com/privgrad/privgrad/internal/half"
	"github.com/privgrad/privgrad/internal/ir"
)

var _ device.Mapper = Device{}

// Maps is nil: it has every op, and calls a Go function.
func (Device) Maps(device.Front) error { return nil }

// parts in which a table is mapped. One record may take a second, and a stop waits for all of a part.
const parts = 5000

// Map runs the front end's program on every record, and rounds its rows to halves.
func (Device) Map(front device.Front, from device.Data, o device.MapOptions) (device.Data, error) {
	p, constants := front.Program()
	fill := func(rows []uint16, bytes []uint8, values []float32) {
		front.Fill(rows, bytes, values, max(o.Threads, 1))
	}
	if p != nil {
		if err := p.ValidateMap(); err != nil {
			return nil, err
		}
		params := make([]float64, len(constants))
		for i, v := range constants {
			params[i] = float64(v)
		}
		o.Parts = cmp.Or(o.Parts, parts)
		fill = func(rows []uint16, bytes []uint8, values []float32) {
			shared(p, params, rows, bytes, values, max(o.Threads, 1))
		}
	}
	rows, values, err := host.Mapped(front, from, o, fill)
	if err != nil {
		return nil, err
	}
	return Load(rows, values)
}

// shared writes rows on so many goroutines. Each record goes through the program by itself, on one of them.
func shared(p *ir.Program, params []float64, rows []uint16, bytes []uint8, values []float32, threads int) {
	in, width := ir.Size(p.Shape), p.Outputs()
	n := len(rows) / width
	errs := make([]error, min(threads, n))
	var group sync.WaitGroup
	for k := range errs {
		group.Go(func() {
			defer fault.Recover(&errs[k])
			for i := k; i < n; i += len(errs) {
				var b []uint8
				var v []float32
				if bytes != nil {
					b = bytes[i*in : (i+1)*in]
				} else {
					v = values[i*in : (i+1)*in]
				}
				mapped(p, params, rows[i*width:(i+1)*width], b, v)
			}
		})
	}
	group.Wait()
	fault.Raise(errors.Join(errs...))
}

// mapped writes the row of a record. One with a value that is not finite is not finite at all.
func mapped(p *ir.Program, params []float64, row []uint16, bytes []uint8, values []float32) {
	const notANumber, endless = 0x7e00, 0x7c00
	x, finite := make([]float64, ir.Size(p.Shape)), true
	for i := range x {
		if bytes != nil {
			x[i] = float64(bytes[i]) / 255
		} else {
			x[i] = float64(values[i])
		}
		finite = finite && x[i]-x[i] == 0
	}
	for i, v := range Values(p, params, x, device.Float32)[p.Logits()] {
		row[i] = half.FromFloat32(float32(v))
		finite = finite && row[i]&endless != endless
	}
	for i := range row {
		if !finite {
			row[i] = notANumber
		}
	}
}
