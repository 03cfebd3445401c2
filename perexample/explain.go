package perexample

import "github.com/privgrad/privgrad/internal/plan"

// Layer is what a schedule does with one layer, and what else it could do.
type Layer struct {
	Name         string
	Op           int
	Choice       Choice
	Alternatives []Alternative
}

// Alternative is what one choice costs an example beyond plain training, which
// computes a batch's gradient once and keeps none of an example's.
type Alternative struct {
	Choice  Choice
	FLOPs   int64
	Bytes   int64   // to and from memory
	Seconds float64 // by the device's Costs, on one core
}

// Explain lists the layers of a private schedule.
func Explain(s *plan.Schedule, costs plan.Costs) []Layer {
	chosen := map[int]Choice{}
	for _, st := range s.Steps {
		switch st.Kind {
		case plan.GradStore:
			chosen[st.Op] = Store
		case plan.NormGhost:
			chosen[st.Op] = GhostNorm
		case plan.NormGram:
			chosen[st.Op] = Gram
		case plan.NormInstantiate:
			chosen[st.Op] = Recompute
		}
	}
	var layers []Layer
	for i := range s.Program.Ops {
		if c, ok := chosen[i]; ok {
			layers = append(layers, Layer{layerName(s.Program, i), i, c, alternatives(s.Program, i, costs)})
		}
	}
	return layers
}

// alternatives prices the choices of op i. Storing p values writes and reads
// them once; a sum over gradients that are not stored reads and writes its p
// partial sums for every example.
func alternatives(p *plan.Program, i int, costs plan.Costs) []Alternative {
	op := &p.Ops[i]
	out, k, positions := op.Columns()
	var all []Alternative
	for _, c := range Choices(op.Kind) {
		a := Alternative{Choice: c, Bytes: 8 * int64(p.OpParams(i))}
		speed := costs.GEMM
		switch c {
		case GhostNorm:
			a.FLOPs, a.Bytes = 2*int64(out+k), 0
		case Gram:
			a.FLOPs, speed = int64(positions)*int64(positions+1)*int64(k+out), costs.Gram
		case Recompute:
			a.FLOPs = 2 * int64(positions) * int64(k) * int64(out)
		}
		a.Seconds = float64(a.FLOPs)/speed + float64(a.Bytes)/costs.Memory
		all = append(all, a)
	}
	return all
}
