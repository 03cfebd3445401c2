package cmd

import (
	"errors"
	"fmt"
	"io"

	"github.com/privgrad/privgrad/cuda"
	"github.com/privgrad/privgrad/internal/cli"
	"github.com/privgrad/privgrad/internal/cuda/driver"
)

// gpuInfo is the installed driver and its devices, or why there are none.
type gpuInfo struct {
	Driver  *string     `json:"cuda_version"` // of the driver; null where there is none
	Devices []gpuDevice `json:"devices"`
	Reason  string      `json:"reason"`         // why there is no device, empty if there is one
	CuBLAS  *string     `json:"cublas_version"` // null where it is not installed
	NoBLAS  string      `json:"cublas_reason"`  // why it is not, empty if it is
}

type gpuDevice struct {
	Name       string `json:"name"`
	Capability string `json:"capability"`
	Memory     int64  `json:"memory_bytes"`
	// Seconds to load all kernels, assembled anew and from the driver's cache; null where that fails.
	Cold   *float64 `json:"kernels_cold_seconds"`
	Cached *float64 `json:"kernels_cached_seconds"`
	// And as built-in machine code; null where this GPU or its driver takes none.
	Cubins *float64 `json:"kernels_cubin_seconds"`
}

func gpus(open func() (driver.Driver, error)) gpuInfo {
	i := gpuInfo{Devices: []gpuDevice{}}
	d, err := open()
	if err == nil {
		err = i.ask(d)
	}
	if err != nil {
		i.Reason = err.Error()
	}
	return i
}

func (i *gpuInfo) ask(d driver.Driver) error {
	v, err := d.Version()
	if err != nil {
		return err
	}
	i.Driver = new(fmt.Sprintf("%d.%d", v/1000, v%1000/10))
	n, err := d.Devices()
	if err != nil {
		return err
	}
	if n == 0 {
		return errors.New("the CUDA driver sees no device")
	}
	for k := range n {
		g, err := d.Info(k)
		if err != nil {
			return err
		}
		x := gpuDevice{Name: g.Name, Capability: fmt.Sprintf("%d.%d", g.Capability/10, g.Capability%10), Memory: g.Memory}
		x.start(d, k)
		i.Devices = append(i.Devices, x)
	}
	if blas, err := cuda.CuBLAS(d); err != nil {
		i.NoBLAS = err.Error()
	} else {
		i.CuBLAS = &blas
	}
	return nil
}

// start measures, where a GPU can be used.
func (x *gpuDevice) start(d driver.Driver, ordinal int) {
	g, err := cuda.Open(d, ordinal)
	if err != nil {
		return
	}
	defer g.Close()
	t, err := g.StartTimes()
	if err != nil {
		return
	}
	x.Cold, x.Cached = new(t.Cold.Seconds()), new(t.Cached.Seconds())
	if t.Cubins > 0 {
		x.Cubins = new(t.Cubins.Seconds())
	}
}

func describeGPUs(w io.Writer, i gpuInfo) {
	fmt.Fprintln(w, "\nGPUs")
	cli.Table(w, 0, func(w io.Writer) {
		if i.Driver != nil {
			fmt.Fprintf(w, "  driver\tfor CUDA up to %s\n", *i.Driver)
		}
		for k, d := range i.Devices {
			fmt.Fprintf(w, "  %d\t%s, compute capability %s, %s\n", k, d.Name, d.Capability, cli.ByteSize(d.Memory))
			if d.Cold != nil {
				fmt.Fprintf(w, "  \tkernels load in %.2g s, in %.2g s when the driver has them in its cache\n", *d.Cold, *d.Cached)
			}
			if d.Cubins != nil {
				fmt.Fprintf(w, "  \tthis GPU needs neither: machine code for it is built in and loads in %.2g s\n", *d.Cubins)
			}
		}
		switch {
		case i.CuBLAS != nil:
			fmt.Fprintf(w, "  matrix products\tby the project's own kernels; cuBLAS %s found, --gemm cublas takes it\n", *i.CuBLAS)
		case i.NoBLAS != "":
			fmt.Fprintf(w, "  matrix products\tby the project's own kernels; %s\n", i.NoBLAS)
		}
		if i.Reason != "" {
			fmt.Fprintf(w, "  none\t%s\n", i.Reason)
		}
	})
}
