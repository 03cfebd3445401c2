// Package kernels holds the CUDA kernels of package cuda: their sources, the
// PTX made from them, which is committed and embedded, and one Go function a
// kernel that says how it is launched. It knows no driver: a launch is data,
// which a GPU or the interpreter of package ptx can run.
package kernels

import "math"

// Ptr is a device address.
type Ptr = uint64

// Launch says how a kernel runs. Arguments take 8 bytes each, see driver.Launch.
type Launch struct {
	Module      string // the file that holds it, without .cu
	Name        string
	Grid, Block [3]int
	Shared      int // dynamic shared memory, bytes
	Args        []uint64
}

// line is a launch of blocks one behind the other.
func line(module, name string, blocks, threads int, args ...uint64) Launch {
	return Launch{Module: module, Name: name, Grid: [3]int{blocks, 1, 1}, Block: [3]int{threads, 1, 1}, Args: args}
}

// F is a float32 argument.
func F(x float32) uint64 { return uint64(math.Float32bits(x)) }

// I is an integer argument.
func I(x int) uint64 { return uint64(int64(x)) }

// Run is the layout in device memory of what differs between runs of a step,
// RunBytes followed by Capacity row numbers. Kernels read it by address, since a
// recorded graph freezes its arguments. The C side is run.cuh.
const (
	RunLive       = 0   // int32: live rows, 0…capacity
	RunDraw       = 8   // uint64
	RunScalars    = 16  // float32 × 28, by device.Slot
	RunCandidates = 128 // float32 × 32
	RunRows       = 256
	RunBytes      = RunRows
)
