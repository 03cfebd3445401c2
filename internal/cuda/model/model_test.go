package model

import (
	"bytes"
	"fmt"
	"math"
	"testing"

	"github.com/privgrad/privgrad/internal/cuda/driver"
	"github.com/privgrad/privgrad/internal/cuda/kernels"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ptx"
	"github.com/privgrad/privgrad/internal/sass"
)

// How many blocks fit a multiprocessor agrees with the committed tables, for every kernel of both machines.
func TestOccupancy(t *testing.T) {
	modules, err := kernels.Modules()
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for _, module := range modules {
		table, err := kernels.Assembled(module)
		if err != nil {
			t.Fatal(err)
		}
		all, err := sass.Read(bytes.NewReader(table))
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range all {
			for _, name := range []string{"a100", "h100"} {
				m := Find(name)
				if row.Architecture != fmt.Sprintf("sm_%d", m.Capability) {
					continue
				}
				k := Kernel{Blocks: 1, Threads: row.Threads, Shared: row.Static + row.Dynamic, Registers: assembledRegisters(module, row.Name, m.Capability)}
				k.occupy(m)
				if k.Registers != row.Registers || k.Resident != row.Blocks {
					t.Errorf("%s: %s of %s has %d registers and %d blocks, by the table %d and %d", name, row.Name, module, k.Registers, k.Resident, row.Registers, row.Blocks)
				}
				rows++
			}
		}
	}
	if rows < 160 {
		t.Errorf("%d kernels were found", rows)
	}
	if n := assembledRegisters("conv", "none", 90) + assembledRegisters("convgrad", "sum_parts", 70) + assembledRegisters("none", "sum_parts", 90); n != 0 {
		t.Errorf("what is not in the tables has %d registers", n)
	}
}

// A launch takes the floor and the longest of what it needs, by hand.
func TestTime(t *testing.T) {
	m := &Machine{Processors: 10, Clock: 1e9, Shared: 100 << 10, L2Rate: 1000, DRAMRate: 1e12, Float32: 4, Float64: 2, MMA: 0.5}
	kernel := func(change func(*Kernel)) Kernel {
		k := Kernel{Blocks: 40, Threads: 128, Registers: 128} // four blocks share a multiprocessor by their registers
		k.Counts.tally[ptx.Integer] = 40
		change(&k)
		k.time(m)
		return k
	}
	near := func(got, want float64) bool { return math.Abs(got-want) < 1.5e-9 }
	for _, c := range []struct {
		change func(*Kernel)
		bound  string
		micros float64
	}{
		// 4 blocks a multiprocessor of 1e5 instructions each, four a cycle, at 80 %.
		{func(k *Kernel) { k.Counts.tally[ptx.Branch] = 40e5 }, "issue", 4 * 1e5 / 4 / 0.8 / 1e3},
		{func(k *Kernel) { k.Counts.tally[ptx.FP64] = 40e5 }, "fp64", 4 * 1e5 / 2 / 0.8 / 1e3},
		{func(k *Kernel) { k.Counts.tally[ptx.MMA] = 40e5 }, "tensor", 4 * 1e5 / 0.5 / 0.8 / 1e3},
		{func(k *Kernel) { k.Counts.tally[ptx.Integer] = 40e5 }, "integer", 4 * 1e5 / 2 / 0.8 / 1e3},
		{func(k *Kernel) { k.Counts.tally[ptx.Special] = 40e5 }, "special", 4 * 1e5 / 0.5 / 0.8 / 1e3},
		{func(k *Kernel) { k.Counts.Waves, k.Counts.lines = 20e5, 20e5 }, "accesses", 4 * 1e5 / 0.8 / 1e3},
		{func(k *Kernel) { k.Counts.Chain = 5e4 }, "latency", 50},
		{func(k *Kernel) { k.Counts.Chain, k.Blocks = 5e4, 41 }, "latency", 100}, // a fifth block on one of them
		{func(k *Kernel) { k.Counts.Chain, k.Registers = 5e4, 0 }, "latency", 50},
		{func(k *Kernel) { k.Counts.Chain, k.Shared = 5e4, 60<<10 }, "latency", 200},
		{func(k *Kernel) { k.Counts.L2 = 7e9 }, "L2", 1e4},
		{func(k *Kernel) { k.Counts.DRAM = 9e9 }, "DRAM", 1e4},
		{func(*Kernel) {}, "launch", 0.0025},
	} {
		k := kernel(c.change)
		if want := 1.5e-6 + c.micros*1e-6; k.Bound != c.bound || !near(k.Seconds, want) {
			t.Errorf("bound by %s, %v s; want %s, %v s", k.Bound, k.Seconds, c.bound, want)
		}
	}
	if k := kernel(func(k *Kernel) { k.Blocks = 41 }); k.Resident != 4 || k.Waves != 2 {
		t.Errorf("%d blocks at once in %d waves", k.Resident, k.Waves)
	}
}

// The rates are those of the datasheets, within a hundredth.
func TestRates(t *testing.T) {
	for name, want := range map[string][3]float64{"h100": {61.8e12, 494.7e12, 989.4e12}, "h200": {61.8e12, 494.7e12, 989.4e12}, "a100": {19.5e12, 156e12, 312e12}} {
		for p, rate := range want {
			if got := Find(name).FLOPs(device.Precision(p)); math.Abs(got/rate-1) > 0.01 {
				t.Errorf("%s makes %g operations a second in %v, want %g", name, got, device.Precision(p), rate)
			}
		}
	}
	if Find("t4") != nil || len(Names()) != 3 {
		t.Errorf("the machines are %v", Names())
	}
}

// What is counted of some blocks stands for all: here of a kernel that writes a word a thread, by hand.
func TestSampling(t *testing.T) {
	const text = `
.version 7.4
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out, .param .u32 first) .maxntid 32, 1, 1
{
	.reg .b32 %r<6>;
	.reg .b64 %rd<5>;
	ld.param.u64 %rd1, [out];
	mov.u32 %r1, %ctaid.x;
	mov.u32 %r2, %tid.x;
	mad.lo.s32 %r3, %r1, 32, %r2;
	mul.wide.s32 %rd2, %r3, 4;
	add.s64 %rd3, %rd1, %rd2;
	st.global.u32 [%rd3], %r3;
	ret;
}
`
	for _, blocks := range []int{1, 4, 5, 100000} {
		x, d := New(Find("h100"))
		c, err := d.Open(0)
		if err != nil {
			t.Fatal(err)
		}
		code, err := c.Load("m", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		f, err := code.Function("k")
		if err != nil {
			t.Fatal(err)
		}
		s, err := c.NewStream()
		if err != nil {
			t.Fatal(err)
		}
		out, err := c.Alloc(int64(128 * blocks))
		if err != nil {
			t.Fatal(err)
		}
		for first := range uint64(3) {
			if err := s.Launch(driver.Launch{Function: f, Grid: [3]int{blocks, 1, 1}, Block: [3]int{32, 1, 1}, Args: []uint64{uint64(out), first}}); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Sync(); err != nil {
			t.Fatal(err)
		}
		all, _ := x.Take()
		if len(all) != 3 || len(Group(all)) != 1 || Group(all)[0].Launches != 3 {
			t.Fatalf("%d launches in %d groups", len(all), len(Group(all)))
		}
		n, b := all[0].Counts, int64(blocks)
		if n.Instructions["global_store"] != b || n.Instructions["integer_multiply"] != 2*b || n.Instructions["branch"] != b || len(n.Instructions) != 3 ||
			n.Sectors != 4*b || n.Requests != b || n.L2 != 128*b || n.DRAM != 128*b || n.Chain != 8 {
			t.Errorf("%d blocks do %+v", blocks, n)
		}
		if sampled := all[0].Sampled; sampled > 10 || blocks <= 4 && sampled != blocks {
			t.Errorf("%d of %d blocks ran", sampled, blocks)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}
