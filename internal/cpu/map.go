package cpu

import (
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/host"
)

var _ device.Mapper = (*Device)(nil)

// Maps is nil: every front end has kernels of its own for processors.
func (d *Device) Maps(device.Front) error { return nil }

// Map calls the front end's own kernels, on the threads of the options.
func (d *Device) Map(front device.Front, from device.Data, o device.MapOptions) (device.Data, error) {
	rows, values, err := host.Mapped(front, from, o, func(rows []uint16, bytes []uint8, values []float32) {
		front.Fill(rows, bytes, values, max(o.Threads, 1))
	})
	if err != nil {
		return nil, err
	}
	return d.Load(rows, values)
}
