package kernels

import (
	"slices"

	"github.com/privgrad/privgrad/internal/ir"
)

// fixedTrunk is a trunk that kernels are compiled for: two layers, and the bytes of shared memory that fixed.cu asserts.
type fixedTrunk struct {
	name              string
	layers            [2]fixedLayer
	forward, backward int
}

// fixedLayer is a square convolution with a bias, and a 2×2 maximum pool.
type fixedLayer struct{ channels, size, filters, window, stride, padding, pool int }

var fixedTrunks = []fixedTrunk{
	{"5x5", [2]fixedLayer{{1, 28, 6, 5, 1, 0, 2}, {6, 12, 16, 5, 1, 0, 2}}, 30720, 33232},
	{"8x8", [2]fixedLayer{{1, 28, 16, 8, 2, 3, 1}, {16, 13, 32, 4, 2, 0, 1}}, 72736, 69472},
}

const fixedThreads = 128

// fixedFor finds the kernels that are compiled for some stages, nil where there are none.
func fixedFor(p *ir.Program, stages []TrunkStage) *fixedTrunk {
	i := slices.IndexFunc(fixedTrunks, func(f fixedTrunk) bool {
		return len(stages) == 4 && f.layers[0].fits(p, stages[:2]) && f.layers[1].fits(p, stages[2:])
	})
	if i < 0 {
		return nil
	}
	return &fixedTrunks[i]
}

func (l *fixedLayer) fits(p *ir.Program, stages []TrunkStage) bool {
	conv, pool := stages[0].op, stages[1].op
	out := (l.size+2*l.padding-l.window)/l.stride + 1
	pooled := (out-2)/l.pool + 1
	return conv.Kind == ir.Conv && conv.Bias != ir.None && conv.Window == ir.Square(l.window, l.stride, l.padding) &&
		slices.Equal(conv.Shape, []int{l.channels, l.size, l.size}) && slices.Equal(conv.Out, []int{l.filters, out, out}) &&
		p.Params[conv.Weight].Offset%4 == 0 && // for copies of 16 bytes
		pool.Kind == ir.MaxPool && stages[1].Act == noActivation && pool.Window == ir.Square(2, l.pool, 0) &&
		slices.Equal(pool.Out, []int{l.filters, pooled, pooled})
}

func (f *fixedTrunk) launch(b Batch, name string, shared int, args []uint64) Launch {
	return Launch{Module: "fixed", Name: name + f.name, Grid: [3]int{b.Capacity, 1, 1}, Block: [3]int{fixedThreads, 1, 1}, Shared: shared, Args: b.args(args...)}
}

// forwardOf is TrunkForward, backwardOf TrunkBackward.
func (f *fixedTrunk) forwardOf(b Batch, t *Trunk, table *Table, images, to, params Ptr) Launch {
	args := append(table.args(), images, to, params)
	for i := 0; i < 4; i += 2 {
		conv, pool := &t.Stages[i], &t.Stages[i+1]
		args = append(args, I(conv.Weight), I(conv.Bias), I(int(conv.Act)), conv.Values, pool.Values, pool.Largest)
	}
	return f.launch(b, "trunk_forward_", f.forward, args)
}

func (f *fixedTrunk) backwardOf(b Batch, t *Trunk, images, delta, params, kept Ptr, stride int) Launch {
	args := []uint64{images, delta, params, kept, I(stride)}
	of := func(conv, pool *TrunkStage) []uint64 {
		return []uint64{I(int(conv.Act)), conv.Values, pool.Largest, I(conv.Kept), conv.Norm2}
	}
	s := t.Stages
	args = append(append(args, of(&s[0], &s[1])...), s[1].Values)
	args = append(append(args, of(&s[2], &s[3])...), I(s[2].Weight))
	return f.launch(b, "trunk_backward_", f.backward, args)
}
