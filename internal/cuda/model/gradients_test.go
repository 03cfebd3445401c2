package model

import (
	"encoding/binary"
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

// Gradients of the weights of convolutions reach nearly what docs/internals/kernels/gradients.md says of them, in TFLOP/s.
func TestLongModelledGradients(t *testing.T) {
	const batch = 250
	for _, c := range []struct {
		channels, side, out int
		window              ir.Window
		least               map[device.Precision][3]float64 // of norms, sums, and sums without factors
	}{
		{256, 8, 256, ir.Square(3, 1, 1), map[device.Precision][3]float64{device.TF32: {229, 173, 232}, device.BF16: {405, 311, 424}}},
		{128, 16, 128, ir.Square(3, 1, 1), map[device.Precision][3]float64{device.TF32: {230, 172, 232}, device.BF16: {429, 310, 399}}},
		{32, 32, 32, ir.Square(3, 1, 1), map[device.Precision][3]float64{device.TF32: {143, 135, 135}, device.BF16: {252, 227, 228}}},
		{64, 16, 64, ir.Square(3, 2, 1), map[device.Precision][3]float64{device.TF32: {126, 82, 94}, device.BF16: {166, 107, 117}}},
		{64, 16, 128, ir.Square(1, 1, 0), map[device.Precision][3]float64{device.TF32: {81, 71, 71}, device.BF16: {146, 115, 115}}},
	} {
		for p, least := range c.least {
			for i, k := range newStand(t).gradients(kernels.Math(p), batch, c.channels, c.side, c.out, c.window) {
				h, w := c.window.Out(c.side, c.side)
				flops := 2 * float64(batch*c.out*c.channels*c.window.H*c.window.W*h*w) / k.Seconds / 1e12
				t.Logf("%v, %d channels of %d×%d to %d: %s takes %.1f µs, %.0f TFLOP/s, bound by %s (%.1f µs of units, %.1f of latency, %.1f of L2, %.1f of DRAM), %.1f instructions a product, conflicts %.0f%% of passes",
					p, c.channels, c.side, c.side, c.out, k.Name, 1e6*k.Seconds, flops, k.Bound, 1e6*k.Throughput, 1e6*k.Latency, 1e6*k.L2, 1e6*k.DRAM,
					1/k.Counts.FMAShare(), 100*k.Counts.ConflictShare())
				if flops < 0.95*least[i] {
					t.Errorf("that is less than %.0f TFLOP/s", least[i])
				}
			}
		}
	}
}

// gradients models norm, sum, and sum without factors.
func (s *stand) gradients(m kernels.Math, batch, channels, side, out int, window ir.Window) (all []Kernel) {
	h, w := window.Out(side, side)
	op := &ir.Op{Kind: ir.Conv, Shape: []int{channels, side, side}, Out: []int{out, h, w}, Window: window, Weight: 0, Bias: 1}
	_, k, _ := op.Columns()
	n := out * (k + 1)
	run := make([]byte, kernels.RunBytes+4*batch)
	binary.LittleEndian.PutUint32(run[kernels.RunLive:], uint32(batch))
	b := kernels.Batch{Run: s.alloc(len(run)), Capacity: batch}
	if err := s.ctx.CopyIn(driver.Ptr(b.Run), run); err != nil {
		s.t.Fatal(err)
	}
	x, dy := s.alloc(batch*m.ValueBytes(kernels.Pixels, op.Shape)), s.alloc(batch*m.ValueBytes(kernels.Pixels, op.Out))
	parts, factors := s.alloc(4*n*m.GradientParts(op, batch)), s.alloc(4*batch)
	for _, l := range []kernels.Launch{
		m.GradientNorm(b, op, x, dy, s.alloc(8*batch*m.GradientNorms(op))),
		m.GradientSum(b, op, x, dy, factors, parts, n),
		m.GradientAdd(b, op, x, dy, factors, parts, n),
	} {
		all = append(all, s.time(l))
	}
	return all
}
