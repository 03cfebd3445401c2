package main

import (
	"fmt"
	"io"

	"github.com/privgrad/privgrad/cuda/driver"
)

// gpuInfo is the installed driver and its devices, or why there are none.
type gpuInfo struct {
	Driver  *string     `json:"cuda_version"` // of the driver; null where there is none
	Devices []gpuDevice `json:"devices"`
	Reason  string      `json:"reason"` // why there is no device, empty if there is one
}

type gpuDevice struct {
	Name       string `json:"name"`
	Capability string `json:"capability"`
	Memory     int64  `json:"memory_bytes"`
}

func gpus(open func() (driver.Driver, error)) gpuInfo {
	i := gpuInfo{Devices: []gpuDevice{}}
	fail := func(err error) gpuInfo {
		i.Reason = err.Error()
		return i
	}
	d, err := open()
	if err != nil {
		return fail(err)
	}
	v, err := d.Version()
	if err != nil {
		return fail(err)
	}
	text := fmt.Sprintf("%d.%d", v/1000, v%1000/10)
	i.Driver = &text
	n, err := d.Devices()
	if err != nil {
		return fail(err)
	}
	if n == 0 {
		i.Reason = "the CUDA driver sees no device"
	}
	for k := range n {
		g, err := d.Info(k)
		if err != nil {
			return fail(err)
		}
		i.Devices = append(i.Devices, gpuDevice{g.Name, fmt.Sprintf("%d.%d", g.Capability/10, g.Capability%10), g.Memory})
	}
	return i
}

func describeGPUs(w io.Writer, i gpuInfo) {
	fmt.Fprintln(w, "\nGPUs")
	table(w, 0, func(w io.Writer) {
		if i.Driver != nil {
			fmt.Fprintf(w, "  driver\tfor CUDA up to %s\n", *i.Driver)
		}
		for k, d := range i.Devices {
			fmt.Fprintf(w, "  %d\t%s, compute capability %s, %s\n", k, d.Name, d.Capability, byteSize(d.Memory))
		}
		if i.Reason != "" {
			fmt.Fprintf(w, "  none\t%s\n", i.Reason)
		}
	})
}
