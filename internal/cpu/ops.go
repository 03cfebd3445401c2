package cpu

import (
	"github.com/privgrad/privgrad/internal/device/record"
	"github.com/privgrad/privgrad/internal/ir"
)

// An operation is how nets compute a kind of op. Indices i count ops, and b a chunk's examples.
type operation struct {
	// forward are the phases of the outputs, nil where example has all that there is; back are those of what is passed on.
	forward, back func(n *net, i int) []phase
	// example gives the outputs of one example for a weight and a bias, empty for none; nil where at does that.
	example func(n *net, i int) func(b int, weight, bias []float32, w *worker)
	// at adds to an evaluator what gives the outputs at points of the parameter space; nil where example does.
	at func(e *evaluator, i int)
	// gradient writes a record's, complete over its views: of the weight, then of the bias.
	gradient func(n *net, i int) func(r int, g []float32, w *worker)
	// measures are the ways to the squared norm of a record's gradient that need no such gradient, by step. sum are the phases
	// of a GradSum that needs none: of one view, or without clipping.
	measures map[ir.StepKind]func(n *net, i int) func(r int, w *worker)
	sum      func(n *net, i int) []phase
	// memory makes what an op leaves for the way back, beside its output, of a chunk or of the examples in flight.
	memory func(n *net, i, chunk, inFlight int)
}

// operations has every op of this device.
var operations = map[ir.Kind]operation{
	ir.Conv: {
		forward: one((*net).convForward), back: one((*net).convInputGrad), at: (*evaluator).conv,
		gradient: (*net).convGradient,
		measures: map[ir.StepKind]func(*net, int) func(int, *worker){ir.NormGram: (*net).normGram},
	},
	ir.Dense: {
		forward: one((*net).denseForward), back: one((*net).denseInputGrad), at: (*evaluator).product,
		gradient: (*net).denseGradient,
		measures: map[ir.StepKind]func(*net, int) func(int, *worker){ir.NormGhost: (*net).normGhost},
		sum:      (*net).denseGradSum,
	},
	ir.ReLU:      relu,
	ir.Tanh:      tanh,
	ir.Sigmoid:   sigmoid,
	ir.LeakyReLU: leakyReLU,
	ir.MaxPool:   maxPool,
	ir.AvgPool:   avgPool,
	ir.Add:       add,
	ir.GroupNorm: groupNorm,
	ir.LayerNorm: layerNorm,
	ir.GELU:      gelu,
	ir.Affine:    affine,
	ir.Pick:      pick,
}

var repertoire = record.Repertoire{
	Device:    name,
	Ops:       func(k ir.Kind) bool { _, ok := operations[k]; return ok },
	Functions: func(f ir.Function) bool { _, ok := functions[f]; return ok },
	Views:     func(k ir.MapKind) bool { return maps[k] != nil },

	ClassWeights: true,
}

// one makes a list of a phase.
func one(f func(n *net, i int) phase) func(*net, int) []phase {
	return func(n *net, i int) []phase { return []phase{f(n, i)} }
}

// eachBack makes phases of what is passed on example by example.
func eachBack(f func(n *net, i int) func(b int, w *worker)) func(*net, int) []phase {
	return func(n *net, i int) []phase { return each(f(n, i)) }
}

// forwardEach is the forward pass of op i example by example.
func (n *net) forwardEach(i int) []phase {
	op, f := &n.program.Ops[i], n.ops[i].example(n, i)
	return each(func(b int, w *worker) { f(b, n.weight(i), n.param(n.params, op.Bias), w) })
}

// fresh is the delta of a value, zero if nobody has added to it.
func (n *net) fresh(v ir.Value, b int) []float32 {
	d := n.delta(v, b)
	if !n.shared[v] {
		clear(d)
	}
	return d
}
