// Package model says how long the kernels of package cuda would take on a GPU that is not there.
//
// It is a model, not a measurement: the interpreter of package ptx counts what sampled blocks of
// a launch do, and a formula makes a time of the counts and of published figures of the GPU.
// docs/internals/modelled.md has both, and what they leave out. The same launches give the same figures on every machine.
package model

import (
	"fmt"
	"slices"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ptx"
)

// Machine is a GPU. Rates are a cycle and multiprocessor, in instructions of a warp.
type Machine struct {
	Name           string  `json:"name"`
	Title          string  `json:"title"`
	Capability     int     `json:"capability"`
	Processors     int     `json:"processors"`
	Clock          float64 `json:"clock_hz"`
	Memory         int64   `json:"memory_bytes"`
	SharedPerBlock int     `json:"shared_bytes_per_block"` // at most, on demand
	Shared         int     `json:"shared_bytes"`           // of a multiprocessor
	L2             int     `json:"l2_bytes"`

	Float32 float64 `json:"rate_float32"`
	Float64 float64 `json:"rate_float64"`
	Tensor  float64 `json:"rate_tensor"` // the peak, in instructions of m16n8k8 in tf32
	MMA     float64 `json:"rate_mma"`    // what mma.sync reaches of it

	DRAMRate float64       `json:"dram_bytes_per_second"`
	L2Rate   float64       `json:"l2_bytes_per_cycle"`
	Cycles   ptx.Latencies `json:"latency_cycles"`
}

// What the machines have in common.
const (
	issue     = 4   // schedulers, each of an instruction a cycle
	integers  = 2   // 64 lanes
	specials  = 0.5 // 16 lanes
	accesses  = 1   // passes of 128 bytes through shared memory and the first cache
	registers = 65536
	warps     = 64
	blocks    = 32
	reserved  = 1024 // bytes of shared memory that every block takes beside its own

	// How much of a rate kernels reach that are bound by it.
	attainedIssue = 0.8
	attainedL2    = 0.7
	attainedDRAM  = 0.9

	launchSeconds = 1.5e-6 // from the end of a graph's kernel to the next one's first instruction
	graphSeconds  = 4e-6   // from the end of a graph to the next one's first kernel
)

// machines is the one table of figures of GPUs. docs/internals/modelled.md says where each is from.
var machines = []Machine{
	{
		Name: "h100", Title: "H100 SXM5 80 GB", Capability: 90, Processors: 132, Clock: 1.83e9, Memory: 80e9,
		SharedPerBlock: 227 << 10, Shared: 228 << 10, L2: 50 << 20,
		Float32: 4, Float64: 2, Tensor: 1, MMA: 0.63, DRAMRate: 3.35e12, L2Rate: 5120,
		Cycles: ptx.Latencies{ALU: 4, FP64: 8, Special: 18, MMA: 33, Exchange: 24, Shared: 29, L1: 41, L2: 263, Host: 2200, Barrier: 20},
	},
	{
		Name: "h200", Title: "H200 SXM5 141 GB", Capability: 90, Processors: 132, Clock: 1.83e9, Memory: 141e9,
		SharedPerBlock: 227 << 10, Shared: 228 << 10, L2: 50 << 20,
		Float32: 4, Float64: 2, Tensor: 1, MMA: 0.63, DRAMRate: 4.8e12, L2Rate: 5120,
		Cycles: ptx.Latencies{ALU: 4, FP64: 8, Special: 18, MMA: 33, Exchange: 24, Shared: 29, L1: 41, L2: 263, Host: 2200, Barrier: 20},
	},
	{
		Name: "a100", Title: "A100 SXM4 80 GB", Capability: 80, Processors: 108, Clock: 1.41e9, Memory: 80e9,
		SharedPerBlock: 163 << 10, Shared: 164 << 10, L2: 40 << 20,
		Float32: 2, Float64: 1, Tensor: 0.5, MMA: 0.5, DRAMRate: 2.039e12, L2Rate: 5120,
		Cycles: ptx.Latencies{ALU: 4, FP64: 8, Special: 18, MMA: 26, Exchange: 24, Shared: 29, L1: 38, L2: 262, Host: 1700, Barrier: 20},
	},
}

// Names lists the machines.
func Names() (names []string) {
	for _, m := range machines {
		names = append(names, m.Name)
	}
	return names
}

// Find gives a machine by its name, nil where there is none.
func Find(name string) *Machine {
	i := slices.IndexFunc(machines, func(m Machine) bool { return m.Name == name })
	if i < 0 {
		return nil
	}
	return &machines[i]
}

// FLOPs is how many operations of products a second all multiprocessors can make in a precision. Tensor cores count in full, not
// as mma.sync reaches them.
func (m *Machine) FLOPs(p device.Precision) float64 {
	per := 64 * m.Float32 // a multiply-add of 32 lanes
	switch p {
	case device.TF32:
		per = 2048 * m.Tensor
	case device.BF16:
		per = 4096 * m.Tensor
	}
	return per * float64(m.Processors) * m.Clock
}

// Assumptions are what a modelled time leans on.
func Assumptions() []string {
	return []string{
		"instructions are PTX, with a table for those that an assembler makes several or none of; no register allocation, no spills",
		"the first block, the last and up to eight others of every launch are run; all others are taken to be like these others",
		"memory that no sampled block wrote holds ones: every example counts, and no draw of the noise is left open",
		fmt.Sprintf("a kernel takes %g µs, and the longest of: its fullest unit at %g%% of its rate on the busiest multiprocessor; its blocks' chains of dependences, wave after wave; L2 at %g%%; DRAM at %g%%",
			1e6*launchSeconds, 100*attainedIssue, 100*attainedL2, 100*attainedDRAM),
		"straight-line code is in the best order; a block reads a sector from L2 once; a launch reads what it touches from DRAM once",
		fmt.Sprintf("a graph takes %g µs beside its kernels; kernels follow one after the other; the host is never waited for", 1e6*graphSeconds),
	}
}
