package cuda

import (
	"github.com/privgrad/privgrad/internal/cuda/kernels"
	"github.com/privgrad/privgrad/internal/ir"
)

// A function has the launches that compute an op's weight from parameters, and those that take gradients back to them.
type function struct {
	state func(op *ir.Op) int // bytes that of leaves for back
	of    func(l *list, op *ir.Op, m *made, w kernels.Ptr, given []kernels.Ptr)
	// back turns complete gradients of the weight and the bias, stride apart, behind which there is room for those of the
	// given parameters, into gradients of parameters, and adds their squared norms; 0: nobody asks for norms.
	back func(l *list, o operands, m *made, w kernels.Ptr, given []kernels.Ptr, kept kernels.Ptr, stride int, norm2 kernels.Ptr)
}

// functions has every function of this device but Identity.
var functions = map[ir.Function]function{
	ir.Standardize: {
		state: func(op *ir.Op) int { return kernels.StandardizeMomentBytes(op.Out[0]) },
		of: func(l *list, op *ir.Op, m *made, w kernels.Ptr, given []kernels.Ptr) {
			out, k, _ := op.Columns()
			l.launch(kernels.Standardize(out, k, w, given[0], m.weight, m.state))
		},
		back: func(l *list, o operands, m *made, w kernels.Ptr, given []kernels.Ptr, kept kernels.Ptr, stride int, norm2 kernels.Ptr) {
			out, k, _ := o.op.Columns()
			biases := 0
			if o.bias != 0 {
				biases = out
			}
			l.launch(kernels.StandardizeGrad(o.Batch, out, k, biases, w, given[0], m.state, kept, stride, norm2))
		},
	},
}

// made is where an op's weight lies that is computed.
type made struct{ weight, state kernels.Ptr }

// makeWeights computes the weights that are functions of parameters, and lays weights out for tensor cores: once for all chunks that read
// these. back says that gradients are to go back through them.
func (l *list) makeWeights(params kernels.Ptr, back bool) {
	for i, m := range l.net.arena.made {
		if m == nil {
			continue
		}
		op := &l.net.Schedule.Program.Ops[i]
		l.step = l.find(ir.Forward, i)
		functions[op.Function].of(l, op, m, l.param(params, op.Weight, 4), l.given(op, params))
	}
	l.step = noStep
	l.weights(params, back)
}

func (m *made) back(l *list, o operands, params, kept kernels.Ptr, stride int, norm2 kernels.Ptr) {
	functions[o.op.Function].back(l, o, m, l.param(params, o.op.Weight, 4), l.given(o.op, params), kept, stride, norm2)
}

func (l *list) given(op *ir.Op, params kernels.Ptr) (all []kernels.Ptr) {
	for _, q := range op.Given {
		all = append(all, l.param(params, q, 4))
	}
	return all
}

// layFunctions makes room for weights that are computed, for one op's gradients that are not kept, and for norms that nobody
// reads: those of gradients before they are complete, or without clipping.
func (a *arena) layFunctions(s *ir.Schedule) {
	p := s.Program
	a.made = make([]*made, len(p.Ops))
	again := 0
	for i := range p.Ops {
		op := &p.Ops[i]
		if op.Function == ir.Identity {
			continue
		}
		m := &made{}
		a.take(&m.weight, 4*p.Params[op.Weight].Size())
		a.take(&m.state, functions[op.Function].state(op))
		a.made[i] = m
		a.unreadBytes = max(a.unreadBytes, 8*a.chunk*a.storedNorms(p, i))
	}
	for _, st := range s.Steps {
		if st.Kind == ir.GradSum && a.sumsAgain(p, st.Op) && !a.joins(s, st.Op) {
			again = max(again, 4*a.chunk*p.OpParams(st.Op))
			a.unreadBytes = max(a.unreadBytes, 8*a.chunk*a.storedNorms(p, st.Op))
		}
	}
	a.take(&a.again, again)
	a.take(&a.unread, a.unreadBytes)
}
