package perexample

import (
	"slices"

	"github.com/privgrad/privgrad/internal/ir"
)

// Layer is what a schedule does with one layer, and what else it could do.
type Layer struct {
	Name         string
	Op           int
	Choice       Choice
	Alternatives []Alternative // the choice made among them
}

func (l Layer) Chosen() Alternative {
	return l.Alternatives[slices.IndexFunc(l.Alternatives, func(a Alternative) bool { return a.Choice == l.Choice })]
}

// Alternative is what an example's gradient, its norm and its part of the sum
// cost by one choice.
type Alternative struct {
	Choice  Choice
	FLOPs   int64
	Bytes   int64   // to and from memory
	Seconds float64 // by the device's Costs, on one core
}

// Explain lists the layers of a private schedule.
func Explain(s *ir.Schedule, costs ir.Costs) []Layer {
	var layers []Layer
	for i := range s.Program.Ops {
		for c, kind := range measures {
			if slices.Contains(s.Steps, ir.Step{Kind: kind, Op: i}) {
				layers = append(layers, Layer{layerName(s.Program, i), i, c, alternatives(s.Program, i, s.Views(), costs)})
			}
		}
	}
	return layers
}

// alternatives prices the choices of op i. The gradient itself takes as many
// operations as the forward pass. Storing p values writes and reads them once; a
// sum over gradients that are not stored reads and writes its p partial sums
// every Summed examples, but for a dense layer's, which is one product.
func alternatives(p *ir.Program, i, views int, costs ir.Costs) []Alternative {
	op := &p.Ops[i]
	out, k, positions := op.Columns()
	var all []Alternative
	flops := int64(views) * op.FLOPs()
	for _, c := range possible(op, views) {
		bytes := 8 * int64(p.OpParams(i))
		if c != Store {
			bytes /= int64(max(1, costs.Summed))
		}
		norm, speed := int64(0), costs.GEMM
		switch c {
		case GhostNorm:
			norm, bytes = 2*int64(out+k), 0
		case Gram:
			norm, speed = int64(positions)*int64(positions+1)*int64(k+out), costs.Gram
		case Recompute:
			norm = flops
		}
		all = append(all, Alternative{
			Choice: c, FLOPs: flops + norm, Bytes: bytes,
			Seconds: float64(flops)/costs.GEMM + float64(norm)/speed + float64(bytes)/costs.Memory,
		})
	}
	return all
}
