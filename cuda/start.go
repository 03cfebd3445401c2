package cuda

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/privgrad/privgrad/internal/cuda/kernels"
)

// StartTimes is how long it takes to load all kernels, by what the driver is given.
type StartTimes struct {
	Cold   time.Duration // PTX, which the driver assembles once after an installation
	Cached time.Duration // PTX that it has assembled on its disk
	Cubins time.Duration // the machine code that is built in; 0 where the GPU or the driver takes none
}

// StartTimes measures them. A remark that no cache knows has PTX assembled.
func (d *Device) StartTimes() (t StartTimes, err error) {
	remark := fmt.Sprintf("\n// %s %d\n", d.info.Name, time.Now().UnixNano())
	err = d.do(func() error {
		names, err := kernels.Modules()
		if err != nil {
			return err
		}
		for _, name := range names {
			images, err := kernels.Images(name, d.info.Capability, d.version)
			if err != nil {
				return err
			}
			own, err := kernels.PTX(name)
			if err != nil {
				return err
			}
			ptx := append(slices.Clone(own), remark...)
			for _, took := range []*time.Duration{&t.Cold, &t.Cached} {
				if err := d.timeLoad(name, ptx, took); err != nil {
					return d.failed("loading kernels "+name, err)
				}
			}
			if bytes.Equal(images[0], own) || t.Cubins < 0 {
				continue
			}
			if err := d.timeLoad(name, images[0], &t.Cubins); err != nil {
				t.Cubins = -1 // refused
			}
		}
		t.Cubins = max(t.Cubins, 0)
		return nil
	})
	return t, err
}

// timeLoad adds how long an image takes to load.
func (d *Device) timeLoad(name string, image []byte, took *time.Duration) error {
	began := time.Now()
	m, err := d.context.Load(name, image)
	if err != nil {
		return err
	}
	*took += time.Since(began)
	return m.Unload()
}
