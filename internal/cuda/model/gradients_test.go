package model

import (
	"fmt"
	"testing"

	"github.com/privgrad/privgrad/internal/cuda/driver"
	"github.com/privgrad/privgrad/internal/cuda/kernels"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ir"
)

// stand is where a launch is modelled on an H200.
type stand struct {
	t     *testing.T
	model *Model
	ctx   driver.Context
}

func newStand(t *testing.T) *stand {
	x, d := New(Find("h200"))
	c, err := d.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	return &stand{t, x, c}
}

func (s *stand) alloc(n int) uint64 {
	p, err := s.ctx.Alloc(int64(n))
	if err != nil {
		s.t.Fatal(err)
	}
	return uint64(p)
}

// time models one launch.
func (s *stand) time(l kernels.Launch) Kernel {
	text, err := kernels.PTX(l.Module)
	if err != nil {
		s.t.Fatal(err)
	}
	code, err := s.ctx.Load(l.Module, text)
	if err != nil {
		s.t.Fatal(err)
	}
	f, err := code.Function(l.Name)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := f.AllowShared(l.Shared); err != nil {
		s.t.Fatal(err)
	}
	q, err := s.ctx.NewStream()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := q.Launch(driver.Launch{Function: f, Grid: l.Grid, Block: l.Block, Shared: l.Shared, Args: l.Args}); err != nil {
		s.t.Fatal(err)
	}
	if err := q.Sync(); err != nil {
		s.t.Fatal(err)
	}
	all, _ := s.model.Take()
	return all[len(all)-1]
}

// Gradients of the weights of convolutions reach what is said of them in docs/internals/kernels/gradients.md.
func TestModelledGradients(t *testing.T) {
	const batch = 250
	for _, c := range []struct {
		channels, side, out int
		window              ir.Window
	}{
		{256, 8, 256, ir.Square(3, 1, 1)},
		{128, 16, 128, ir.Square(3, 1, 1)},
		{32, 32, 32, ir.Square(3, 1, 1)},
		{64, 16, 64, ir.Square(3, 2, 1)},
		{64, 16, 128, ir.Square(1, 1, 0)},
		{3, 32, 32, ir.Square(3, 1, 1)},
	} {
		for _, p := range []device.Precision{device.TF32, device.BF16} {
			m := kernels.Math(p)
			h, w := c.window.Out(c.side, c.side)
			op := &ir.Op{Kind: ir.Conv, Shape: []int{c.channels, c.side, c.side}, Out: []int{c.out, h, w}, Window: c.window, Weight: 0, Bias: 1}
			out, k, positions := op.Columns()
			flops := 2 * float64(batch) * float64(out*k*positions)
			s := newStand(t)
			run := make([]byte, kernels.RunBytes+4*batch)
			run[kernels.RunLive] = batch
			b := kernels.Batch{Run: s.alloc(len(run)), Capacity: batch}
			if err := s.ctx.CopyIn(driver.Ptr(b.Run), run); err != nil {
				t.Fatal(err)
			}
			n := out*k + out
			x, dy := s.alloc(batch*m.ValueBytes(kernels.Pixels, op.Shape)), s.alloc(batch*m.ValueBytes(kernels.Pixels, op.Out))
			norm2, parts := s.alloc(8*batch*m.GradientNorms(op)), s.alloc(4*n*m.GradientParts(op, batch))
			factors, kept := s.alloc(4*batch), s.alloc(4*n*batch)
			for _, l := range []kernels.Launch{
				m.GradientNorm(b, op, x, dy, norm2),
				m.GradientSum(b, op, x, dy, factors, parts, n),
				m.GradientSum(b, op, x, dy, 0, parts, n),
				m.GradientStore(b, op, x, dy, kept, n, norm2),
			} {
				k := s.time(l)
				t.Log(fmt.Sprintf("%v %d to %d, %d: %s %s grid %v shared %d regs %d resident %d: %.1f µs, %.0f TFLOP/s, bound by %s; thr %.1f lat %.1f L2 %.1f DRAM %.1f, instr/mma %.2f, conflicts %.0f%% of passes",
					p, c.channels, c.out, h, l.Module, l.Name, l.Grid, l.Shared, k.Registers, k.Resident, 1e6*k.Seconds, flops/k.Seconds/1e12, k.Bound,
					1e6*k.Throughput, 1e6*k.Latency, 1e6*k.L2, 1e6*k.DRAM, 1/k.Counts.FMAShare(), 100*k.Counts.ConflictShare()))
			}
		}
	}
}
