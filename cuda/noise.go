package cuda

import (
	"errors"
	"slices"

	"github.com/privgrad/privgrad/internal/cuda/driver"
	"github.com/privgrad/privgrad/internal/cuda/kernels"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/exact"
)

// normals is the table by which all releases of a GPU draw.
type normals struct {
	memory
	at driver.Ptr
}

func (t *normals) free() error { return t.release() }

// loadNormals brings the table to the GPU, once.
func (d *Device) loadNormals() (kernels.Ptr, error) {
	if d.normals == nil {
		words := exact.Words()
		t := &normals{memory: memory{device: d}}
		var err error
		if t.at, err = t.alloc(int64(8*len(words)), "the table of normals", lessMemory); err != nil {
			return 0, err
		}
		if err := d.failed("copying the table of normals", d.context.CopyIn(t.at, bytesOf(words))); err != nil {
			return 0, errors.Join(err, t.release())
		}
		d.normals = t
		d.owners = slices.Insert(d.owners, 0, closer(t)) // freed after the networks that read it
	}
	return kernels.Ptr(d.normals.at), nil
}

// noise is what kernels need of a noise.
func (n *net) noise(of device.Noise) (z kernels.Noise, err error) {
	z = kernels.Noise{Tensor: of.Tensor(), Std: of.Std(), Step: of.Step()}
	if z.Key, err = n.key(of.Stream()); err != nil {
		return z, err
	}
	z.Table, err = n.device.loadNormals()
	return z, err
}
