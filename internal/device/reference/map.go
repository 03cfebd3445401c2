package reference

import (
	"cmp"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/host"
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
		fill = func(rows []uint16, bytes []uint8, values []float32) { mapped(p, params, rows, bytes, values) }
	}
	rows, values, err := host.Mapped(front, from, o, fill)
	if err != nil {
		return nil, err
	}
	return Load(rows, values)
}

// mapped writes the rows of records. One with a value that is not finite is not finite at all.
func mapped(p *ir.Program, params []float64, rows []uint16, bytes []uint8, values []float32) {
	const notANumber, endless = 0x7e00, 0x7c00
	in, width := ir.Size(p.Shape), p.Outputs()
	x := make([]float64, in)
	for k := range len(rows) / width {
		for i := range x {
			if bytes != nil {
				x[i] = float64(bytes[k*in+i]) / 255
			} else {
				x[i] = float64(values[k*in+i])
			}
		}
		finite, row := true, rows[k*width:(k+1)*width]
		for _, v := range x {
			finite = finite && v-v == 0
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
}
