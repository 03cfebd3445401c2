package cuda

import (
	"fmt"
	"time"

	"github.com/privgrad/privgrad/cuda/kernels"
)

// StartTimes is how long it takes to load all kernels: cold, when the driver
// assembles them, as it does once after an installation, and cached, when it has them on its disk.
// A remark that no cache knows makes the first so.
func (d *Device) StartTimes() (cold, cached time.Duration, err error) {
	remark := fmt.Sprintf("\n// %s %d\n", d.info.Name, time.Now().UnixNano())
	err = d.do(func() error {
		names, err := kernels.Modules()
		if err != nil {
			return err
		}
		for _, took := range []*time.Duration{&cold, &cached} {
			for _, name := range names {
				ptx, err := kernels.PTX(name)
				if err != nil {
					return err
				}
				began := time.Now()
				m, err := d.context.Load(name, append(ptx, remark...))
				if err != nil {
					return d.failed("loading kernels "+name, err)
				}
				*took += time.Since(began)
				if err := m.Unload(); err != nil {
					return d.failed("unloading kernels "+name, err)
				}
			}
		}
		return nil
	})
	return cold, cached, err
}
