// Package cpu is the fast float32 device for processors: generated AVX2 and
// FMA kernels where the processor has them, with products in AVX-512 where it
// has that too, portable Go elsewhere.
//
// Bits. A result depends on the schedule, the batch, the capacity and the code
// path, never on the number of threads: elements of a tile have a fixed order of
// operations, and blocks of sums follow from the schedule and the capacity.
package cpu

import (
	"fmt"
	"runtime"

	"github.com/privgrad/privgrad/internal/cpu/gemm"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/host"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/pages"
)

var _ device.Device = (*Device)(nil)

const name = "cpu"

// Device runs on this machine's processor.
type Device struct {
	threads int
}

// Open gives the CPU device with a number of threads, 0 for all that Go may use.
func Open(threads int) (*Device, error) {
	if threads < 0 {
		return nil, fmt.Errorf("threads must be 0 (all) or more, is %d", threads)
	}
	if threads == 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	return &Device{threads: threads}, nil
}

func (d *Device) Info() device.Info {
	return device.Info{Name: name, Detail: runtime.GOARCH + ", " + gemm.ISA() + " kernels", Threads: d.threads, Costs: costs[gemm.ISA()]}
}

// costs are nominal, for one core of a server of about 2021. AVX-512 and NEON have those of AVX2: as the bits of their
// products are the same too, so are the strategies, and with AVX-512 all bits of a run.
var costs = map[string]ir.Costs{
	"AVX-512":  ir.Processor,
	"AVX2+FMA": ir.Processor,
	"NEON":     ir.Processor,
	"portable": {GEMM: 2e9, Gram: 1e9, Memory: 8e9, Launch: 1e-5, Passes: true, Summed: 1, Fewest: 256, Most: 512},
}

// Load keeps a table without copying it. Rows of a batch lie anywhere: on small pages, most need a walk of the page tables.
func (d *Device) Load(r device.Rows, f device.Features) (device.Data, error) {
	t, err := load(r, f)
	if err != nil {
		return nil, err
	}
	pages.Enlarge(t.Targets)
	if !t.Mapped {
		switch f := t.Features.(type) {
		case device.Bytes:
			pages.Enlarge(f)
		case device.Floats:
			pages.Enlarge(f)
		case device.Halves:
			pages.Enlarge(f)
		}
	}
	return t, nil
}

// Compile lays out the memory of a schedule and starts its workers.
func (d *Device) Compile(s *ir.Schedule, o device.Options) (device.Net, error) {
	return host.New(s, o, func() host.Backend[float32] { return compile(s, o, d.threads) }, repertoire)
}

// Close does nothing: each network ends its own workers.
func (d *Device) Close() error { return nil }
