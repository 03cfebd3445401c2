// Package ptx reads PTX, the assembly language of NVIDIA's GPUs, and executes
// it, so that the kernels that are shipped are tested where there is no GPU.
//
// It covers the forms that clang makes of this project's kernels for sm_80; an
// instruction that it does not know is an error of [Parse], never of a launch. A launch
// checks what a GPU does not: bounds, alignment, use after free, reads of
// what was never written (registers, shared and global memory), races between
// threads and between blocks, barriers, shuffles and fragments that not all
// threads reach. The first violation ends the launch with a [Fault]. A [Counter] counts what blocks do.
//
// Arithmetic is IEEE 754 to the bit; forms of which PTX leaves the bits open,
// .approx for instance, are not known. Float32 NaNs are the canonical 0x7fffffff.
//
// Source of all semantics: NVIDIA, Parallel Thread Execution ISA, version 7.8.
package ptx

import (
	"fmt"
	"iter"
	"strings"
)

// Module is parsed PTX.
type Module struct {
	Version int // of the PTX ISA: 78 is 7.8

	kernels   map[string]*Kernel
	names     []string
	variables []*variable
}

// Param is a parameter of a kernel.
type Param struct {
	Name                string
	Size, Align, Offset int // bytes
}

// Kernel is an entry of a module.
type Kernel struct {
	Name       string
	Params     []Param
	Shared     int // static shared memory, bytes
	MaxThreads int // of a block, 0 if the kernel does not say

	module    *Module
	code      []inst
	regs      int // vector registers
	preds     int
	consts    []vec
	specials  []special
	addresses []address
	localSize int
	paramSize int
	shared    []*variable
}

// Kernel finds a kernel by name.
func (m *Module) Kernel(name string) (*Kernel, error) {
	if k, ok := m.kernels[name]; ok {
		return k, nil
	}
	return nil, fmt.Errorf("ptx: no kernel %q in the module; it has %s", name, strings.Join(m.names, ", "))
}

// Options of a launch. The zero value runs in the natural order with all checks.
type Options struct {
	// Seed, unless 0, shuffles the orders that PTX leaves open: of blocks, of
	// warps between barriers, of the two sides of a branch, of lanes in atomics.
	Seed uint64
	// AllowUninitialised lets kernels read memory that was never written, which
	// holds bytes 0xff. Registers are checked all the same.
	AllowUninitialised bool
	// SharedLimit is the greatest sum of static and dynamic shared memory in
	// bytes; 0 is 49152, which a kernel gets without asking.
	SharedLimit int
	// Blocks gives the numbers of the blocks that run, of which x is the fastest; nil runs all of them.
	Blocks iter.Seq[int]
	// Core is how tensor cores add.
	Core Core
	// NoRaces leaves out the search for races.
	NoRaces bool
	// Counter, unless nil, counts what the blocks do.
	Counter *Counter
	// StepLimit ends blocks that execute more warp instructions; 0 is 2²⁸.
	StepLimit int64
}

// Kind says which rule a kernel broke.
type Kind string

const (
	OutOfBounds   Kind = "out of bounds"
	UseAfterFree  Kind = "use after free"
	ReadOnly      Kind = "write to constant memory"
	Misaligned    Kind = "misaligned"
	Uninitialised Kind = "uninitialised"
	Race          Kind = "race"
	Divergence    Kind = "divergence"
	Pending       Kind = "cp.async in flight"
	Trap          Kind = "trap"
	Endless       Kind = "no end"
)

// Fault is a rule that a kernel broke.
type Fault struct {
	Kind          Kind
	Kernel        string
	Line          int    // of the PTX
	Source        string // file:line from .loc, if present
	Instruction   string
	Block, Thread [3]int
	Address       uint64 // 0 where none is involved
	What          string
}

func (f *Fault) Error() string {
	at := fmt.Sprintf("line %d", f.Line)
	if f.Source != "" {
		at += " (" + f.Source + ")"
	}
	if f.Address != 0 {
		at += fmt.Sprintf(", address 0x%x", f.Address)
	}
	return fmt.Sprintf("ptx: %s: kernel %s, %s, block %s, thread %s: %s: %s", f.Kind, f.Kernel, at, tuple(f.Block), tuple(f.Thread),
		f.Instruction, f.What)
}

func tuple(v [3]int) string { return fmt.Sprintf("(%d,%d,%d)", v[0], v[1], v[2]) }
