package model

import (
	"fmt"
	"testing"

	"github.com/privgrad/privgrad/internal/cuda/driver"
	"github.com/privgrad/privgrad/internal/cuda/kernels"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ir"
)

func TestZZ(t *testing.T) {
	x, d := New(Find("h200"))
	c, err := d.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	s, _ := c.NewStream()
	alloc := func(n int) kernels.Ptr {
		p, err := c.Alloc(int64(n))
		if err != nil {
			t.Fatal(err)
		}
		return kernels.Ptr(p)
	}
	mods := map[string]driver.Module{}
	launch := func(flop float64, l kernels.Launch) {
		m := mods[l.Module]
		if m == nil {
			ptx, err := kernels.PTX(l.Module)
			if err != nil {
				t.Fatal(err)
			}
			if m, err = c.Load(l.Module, ptx); err != nil {
				t.Fatal(err)
			}
			mods[l.Module] = m
		}
		f, err := m.Function(l.Name)
		if err != nil {
			t.Fatal(err)
		}
		f.AllowShared(l.Shared)
		if err := s.Launch(driver.Launch{Function: f, Grid: l.Grid, Block: l.Block, Shared: l.Shared, Args: l.Args}); err != nil {
			t.Fatal(err)
		}
		if err := s.Sync(); err != nil {
			t.Fatal(err)
		}
		all, _ := x.Take()
		k := all[0]
		fmt.Printf("%-24s %6d blocks res %d regs %d %8.1f us bound %-8s thr %.1f lat %.1f l2 %.1f dram %.1f  %6.1f TFLOP/s\n", l.Name, k.Blocks, k.Resident, k.Registers, 1e6*k.Seconds, k.Bound,
			1e6*k.Throughput, 1e6*k.Latency, 1e6*k.L2, 1e6*k.DRAM, flop/k.Seconds/1e12)
	}
	run := alloc(1 << 20)
	c.CopyIn(driver.Ptr(run), append([]byte{0, 16, 0, 0}, make([]byte, 1000)...))
	for _, p := range []device.Precision{device.TF32, device.BF16} {
		m := kernels.Math(p)
		for _, cs := range []struct {
			n, ch, hw, out, win, stride int
		}{{250, 32, 32, 32, 3, 1}, {250, 128, 16, 128, 3, 1}, {250, 256, 8, 256, 3, 1}, {256, 16, 32, 64, 3, 1}, {256, 64, 32, 64, 3, 1}, {256, 64, 32, 128, 3, 2}, {256, 64, 32, 128, 1, 2}, {250, 8, 32, 32, 3, 1}, {4096, 784, 1, 1000, 1, 1}, {256, 4096, 1, 1024, 1, 1}, {4096, 256, 8, 256, 3, 1}} {
			w := ir.Square(cs.win, cs.stride, cs.win/2)
			oh, ow := w.Out(cs.hw, cs.hw)
			op := &ir.Op{Kind: ir.Conv, Shape: []int{cs.ch, cs.hw, cs.hw}, Out: []int{cs.out, oh, ow}, Window: w, Bias: ir.None}
			b := kernels.Batch{Run: run, Capacity: cs.n}
			xx, y := alloc(4*cs.n*kernels.Pixels.Elements(op.Shape)), alloc(4*cs.n*kernels.Pixels.Elements(op.Out))
			wt := alloc(4 * max(kernels.WeightElements(op, kernels.Filters), kernels.WeightElements(op, kernels.Channels)))
			flop := 2 * float64(cs.n) * float64(oh*ow*cs.out*cs.ch*cs.win*cs.win)
			fmt.Println(p, cs)
			launch(flop, m.Forward(b, op, ir.ReLU, xx, wt, 0, y))
			launch(flop, m.InputGrad(b, op, y, wt, xx, false, xx))
			launch(0, m.Weights(op, kernels.Filters, xx, wt))
			launch(0, m.Weights(op, kernels.Channels, xx, wt))
		}
	}
}
