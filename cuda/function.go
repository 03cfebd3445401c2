package cuda

import (
	"slices"

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
	// fits says of an op that measure and combine take it. turns are the bytes that measure leaves of a record for combine, norms the parts of
	// norms that it adds. measure is back, but leaves the gradients of the weight as they are: combine, which adds n columns from the
	// weight's on, turns them as it reads them.
	fits    func(op *ir.Op) bool
	turns   func(op *ir.Op) int
	norms   func(op *ir.Op, chunk int) int
	measure func(l *list, o operands, m *made, given []kernels.Ptr, norm2 kernels.Ptr)
	combine func(l *list, o operands, m *made, given []kernels.Ptr, factors kernels.Ptr, n int, sum kernels.Ptr)
	// sum is back of the float64 sum of the weight's gradients, g, and adds to the sums of parameters.
	sum func(l *list, op *ir.Op, m *made, w kernels.Ptr, given []kernels.Ptr, g, sumW kernels.Ptr, sums []kernels.Ptr)
}

// functions has every function of this device but Identity.
var functions = map[ir.Function]function{
	ir.Standardize: {
		state: func(op *ir.Op) int { return kernels.StandardizeMomentBytes(op.Out[0]) },
		of: func(l *list, op *ir.Op, m *made, w kernels.Ptr, given []kernels.Ptr) {
			out, k, _ := op.Columns()
			l.launch(kernels.Standardize(out, k, w, given[0], m.weight, m.state, m.unit))
		},
		back: func(l *list, o operands, m *made, w kernels.Ptr, given []kernels.Ptr, kept kernels.Ptr, stride int, norm2 kernels.Ptr) {
			out, k, _ := o.op.Columns()
			l.launch(kernels.StandardizeGrad(o.Batch, out, k, o.biases(), w, given[0], m.state, kept, stride, norm2))
		},
		fits: func(op *ir.Op) bool {
			_, k, _ := op.Columns()
			return kernels.StandardizeFits(k)
		},
		turns: func(op *ir.Op) int { return kernels.StandardizeTurnBytes(op.Out[0]) },
		norms: func(op *ir.Op, chunk int) int { return kernels.StandardizeNorms(op.Out[0], chunk) },
		measure: func(l *list, o operands, m *made, given []kernels.Ptr, norm2 kernels.Ptr) {
			l.launch(kernels.StandardizeMeasure(o.Batch, l.standardized(o, m, given), norm2))
		},
		combine: func(l *list, o operands, m *made, given []kernels.Ptr, factors kernels.Ptr, n int, sum kernels.Ptr) {
			l.launch(kernels.StandardizeCombine(o.Batch, l.standardized(o, m, given), factors, n, sum))
		},
		sum: func(l *list, op *ir.Op, m *made, w kernels.Ptr, given []kernels.Ptr, g, sumW kernels.Ptr, sums []kernels.Ptr) {
			out, k, _ := op.Columns()
			l.launch(kernels.StandardizeSum(out, k, w, given[0], m.state, g, sumW, sums[0]))
		},
	},
}

// biases is how many an op has.
func (o operands) biases() int {
	if o.bias == 0 {
		return 0
	}
	return o.op.Out[0]
}

func (l *list) standardized(o operands, m *made, given []kernels.Ptr) *kernels.Standardized {
	a := &l.net.arena
	out, k, _ := o.op.Columns()
	return &kernels.Standardized{
		Out: out, K: k, Bias: o.biases(), Gain: given[0], Moments: m.state, Hat: m.unit, Kept: a.keep(o.i), Stride: a.stored, Turns: m.turns,
	}
}

// made is where an op's weight lies that is computed.
type made struct {
	weight, state kernels.Ptr
	unit, turns   kernels.Ptr // where kept gradients are turned as they are summed: the weight without its given factor, and what turns them
}

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

func (l *list) given(op *ir.Op, params kernels.Ptr) []kernels.Ptr { return l.givenOf(op, params, 4) }

// givenOf are the places of an op's given parameters, of so many bytes each, in a vector or a sum.
func (l *list) givenOf(op *ir.Op, vector kernels.Ptr, bytes int) (all []kernels.Ptr) {
	for _, q := range op.Given {
		all = append(all, l.param(vector, q, bytes))
	}
	return all
}

// turning says how gradients of an op's weight become those of parameters.
type turning int

const (
	unturned    turning = iota // they are of a parameter
	rewritten                  // each record's are written again
	turnedTwice                // each record's are turned as they are read: once to measure, and again to sum
	turnedSum                  // their sum is turned, which is linear in them: nobody clips them
)

// turning is of one of the schedule's ops.
func (a *arena) turning(s *ir.Schedule, i int) turning {
	op := &s.Program.Ops[i]
	if op.Function == ir.Identity {
		return unturned
	}
	// Gradients may be stored for their norm alone, and be computed again for the sum.
	combines := slices.ContainsFunc(s.Steps, func(st ir.Step) bool { return st.Kind == ir.Combine && st.Op == i })
	switch {
	case a.views.each > 1 || a.exact:
	case combines && functions[op.Function].fits(op):
		return turnedTwice
	case !s.Private() && !combines && a.operation(s.Program, i).sum != nil:
		return turnedSum
	}
	return rewritten
}

// layFunctions makes room for weights that are computed, for one op's gradients that are not kept, and for norms that nobody
// reads: those of gradients before they are complete, or without clipping.
func (a *arena) layFunctions(s *ir.Schedule) {
	p := s.Program
	a.made = make([]*made, len(p.Ops))
	again, sum := 0, 0
	for i := range p.Ops {
		op := &p.Ops[i]
		if op.Function == ir.Identity {
			continue
		}
		m := &made{}
		a.take(&m.weight, 4*p.Params[op.Weight].Size())
		f := functions[op.Function]
		a.take(&m.state, f.state(op))
		switch a.turning(s, i) {
		case turnedTwice:
			a.take(&m.unit, 4*p.Params[op.Weight].Size())
			a.take(&m.turns, a.chunk*f.turns(op))
		case turnedSum:
			sum = max(sum, 8*p.Params[op.Weight].Size())
		}
		a.made[i] = m
		a.unreadBytes = max(a.unreadBytes, 8*a.chunk*a.storedNorms(p, i))
	}
	for _, st := range s.Steps {
		if st.Kind == ir.GradSum && a.sumsAgain(s, st.Op) && !a.joins(s, st.Op) {
			again = max(again, 4*a.chunk*p.OpParams(st.Op))
			a.unreadBytes = max(a.unreadBytes, 8*a.chunk*a.storedNorms(p, st.Op))
		}
	}
	a.take(&a.again, again)
	a.take(&a.weightSum, sum)
	a.take(&a.unread, a.unreadBytes)
}
