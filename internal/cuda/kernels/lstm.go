package kernels

import (
	"fmt"

	"github.com/privgrad/privgrad/internal/device"
)

// lstm.cu has the same.
const (
	lstmTile    = 128 // parameters of a block
	lstmColumns = 16
	lstmUnits   = 2
	lstmSlab    = 16 << 10 // bytes of weights at once, or of eight values of a unit's gates where those are more
)

// Project applies a learned rule, device.LSTM.Apply, to n parameters p with gradient g, with the run's scalars and context, all float32. A
// gradient that the LSTM reads is fma(Scale, g, L2·p)·Gain, or the largest number where that is beyond it. What a gate adds up is one chain of fused operations from its bias on: the inputs
// in order, then the last outputs; likewise the output y, and p = fma(Rate, y, p). The new cell and the new output
//
//	c = σ(f)·c + σ(i)·tanh(g)    h = σ(o)·tanh(c)
//
// are one division each, and within 2⁻²⁰ of the sum of their terms' magnitudes. Weights and the state, [value][parameter], lie as
// device.LSTM says; g and the weights are only read. The state has to be finite. A block has 160 threads for up to 20 hidden units, 256 for up to
// 32, else 512.
func Project(run Ptr, l device.LSTM, n int, p, g, weights, state Ptr) (Launch, error) {
	if err := l.Check(); err != nil {
		return Launch{}, err
	}
	threads := 512
	for _, n := range []int{256, 160} {
		if l.Hidden*lstmColumns <= n*lstmUnits {
			threads = n
		}
	}
	rows, stride := 0, 4*threads/lstmColumns*lstmUnits+4
	for k := range l.Layers {
		rows = max(rows, l.Inputs(k)+l.Hidden)
	}
	depth := min(ceil(rows, 8), max(1, lstmSlab/(8*4*stride))) * 8
	slab := rows * lstmTile
	return Launch{
		Module: "lstm", Name: fmt.Sprintf("project_%d", threads), Grid: [3]int{ceil(n, lstmTile), 1, 1}, Block: [3]int{threads, 1, 1},
		Shared: 4 * (slab + depth*stride),
		Args: []uint64{
			run, I(n), p, g, weights, state, I(l.Layers), I(l.Hidden), I(l.Context), flag(l.LogSign), I(slab), I(depth),
		},
	}, nil
}
