package cpu

import "github.com/privgrad/privgrad/internal/ir"

// A weightFunction computes an op's weight from parameters, and takes gradients back to them.
type weightFunction interface {
	// of writes the weight for w, the parameter Op.Weight, and those of Op.Given.
	of(weight, w []float32, given [][]float32)
	// set is of, and keeps what back needs of the parameters.
	set(weight, w []float32, given [][]float32)
	// back takes a complete gradient, an example's or a plain sum, to the parameters, in place: that of the weight, as it is
	// kept, then that of the bias, then room for those given, which it overwrites. It is linear.
	back(g []float32, w *worker)
}

// functions makes every function of this device but Identity. turned says that gradients of the weight are kept as
// (taps) × (out).
var functions = map[ir.Function]func(op *ir.Op, turned bool) weightFunction{
	ir.Standardize: newStandardize,
}

// made is an op's weight, computed once a run.
type made struct {
	weightFunction
	weight []float32
	given  [][]float32
}

// makeWeights lists the tiles that compute weights.
func (n *net) makeWeights() {
	for i := range n.program.Ops {
		op := &n.program.Ops[i]
		if op.Function == ir.Identity {
			continue
		}
		m := &made{functions[op.Function](op, n.turned(i)), make([]float32, n.program.Params[op.Weight].Size()), make([][]float32, len(op.Given))}
		n.made[i] = m
		n.packing[0] = append(n.packing[0], func() {
			for j, q := range op.Given {
				m.given[j] = n.param(n.params, q)
			}
			m.set(m.weight, n.param(n.params, op.Weight), m.given)
		})
	}
}

// weight is op i's, nil for none.
func (n *net) weight(i int) []float32 {
	if m := n.made[i]; m != nil {
		return m.weight
	}
	return n.param(n.params, n.program.Ops[i].Weight)
}
