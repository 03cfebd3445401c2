// Package perexample decides how per-example gradients are measured, clipped
// and summed. Each strategy rewrites a plan.Program into a plan.Schedule; it
// never changes the result beyond rounding, only its cost.
//
// Every private schedule computes Σᵢ cᵢ·gᵢ with gᵢ the gradient of example i's
// own loss and cᵢ its clipping factor: one for all parameters together or, by
// PerLayer, one a layer. An example with a norm that is not finite, or with a
// target that the loss does not accept, adds zero, silently.
package perexample

import (
	"fmt"
	"slices"
	"strings"

	"github.com/privgrad/privgrad/internal/plan"
)

// Strategy names one way to a clipped sum.
type Strategy string

const (
	// Auto picks per layer: ghost for dense layers, store for convolutions.
	Auto Strategy = "auto"
	// Materialise keeps every example's whole gradient.
	Materialise Strategy = "materialise"
	// Ghost takes dense layers' norms from ‖x‖²·‖δ‖² (Goodfellow 2015,
	// arXiv 1510.01799) and never forms their per-example gradients;
	// convolutions are stored.
	Ghost Strategy = "ghost"
	// Microbatch sends one example at a time through the network and keeps
	// its whole gradient: the definition that the others are checked against.
	Microbatch Strategy = "microbatch"
)

// Strategies lists what Private accepts.
func Strategies() []Strategy { return []Strategy{Auto, Materialise, Ghost, Microbatch} }

// Private schedules a batch's clipped sum of per-example gradients.
func Private(p *plan.Program, s Strategy, c plan.Clipping) (*plan.Schedule, error) {
	if c == plan.Unclipped {
		return nil, fmt.Errorf("a private schedule needs a clipping: without one no noise hides an example")
	}
	rewrite, ok := map[Strategy]func(*plan.Program) *plan.Schedule{
		Auto:        ghost, // dense norms are nearly free; convolutions have no other strategy than to store
		Materialise: materialise,
		Ghost:       ghost,
		Microbatch:  microbatch,
	}[s]
	if !ok {
		return nil, fmt.Errorf("unknown strategy %q: choose one of %s", s, names())
	}
	schedule := rewrite(p)
	schedule.Clipping = c
	return schedule, schedule.Validate()
}

// Plain schedules the sum of gradients with no norm and no bound: ordinary
// training, which protects nobody.
func Plain(p *plan.Program) (*plan.Schedule, error) {
	s := &plan.Schedule{Program: p, Clipping: plan.Unclipped}
	s.Steps = forward(p)
	s.Steps = append(s.Steps, backward(p, nil)...)
	s.Steps = append(s.Steps, plan.Step{Kind: plan.Factor, Op: plan.NoOp})
	s.Steps = append(s.Steps, each(p, func(*plan.Op) plan.StepKind { return plan.GradSum })...)
	return s, s.Validate()
}

func names() string {
	var n []string
	for _, s := range Strategies() {
		n = append(n, string(s))
	}
	return strings.Join(n, ", ")
}

// twoPass measures every op's norm by kind measure on the way back, then sums
// by kind sum.
func twoPass(p *plan.Program, measure, sum func(*plan.Op) plan.StepKind) *plan.Schedule {
	steps := forward(p)
	steps = append(steps, backward(p, measure)...)
	steps = append(steps, plan.Step{Kind: plan.Factor, Op: plan.NoOp})
	return &plan.Schedule{Program: p, Steps: append(steps, each(p, sum)...)}
}

func forward(p *plan.Program) []plan.Step {
	var steps []plan.Step
	for i := range p.Ops {
		steps = append(steps, plan.Step{Kind: plan.Forward, Op: i})
	}
	return append(steps, plan.Step{Kind: plan.LossGrad, Op: plan.NoOp})
}

// backward walks from the logits to the first op, measuring each op with
// parameters (unless measure is nil) before δ moves on to its inputs.
func backward(p *plan.Program, measure func(*plan.Op) plan.StepKind) []plan.Step {
	var steps []plan.Step
	need := p.NeedsGrad()
	for i := len(p.Ops) - 1; i >= 0; i-- {
		op := &p.Ops[i]
		if op.Weight != plan.None && measure != nil {
			steps = append(steps, plan.Step{Kind: measure(op), Op: i})
		}
		if slices.ContainsFunc(op.In, func(v plan.Value) bool { return need[v] }) {
			steps = append(steps, plan.Step{Kind: plan.InputGrad, Op: i})
		}
	}
	return steps
}

func each(p *plan.Program, kind func(*plan.Op) plan.StepKind) []plan.Step {
	var steps []plan.Step
	for i := range p.Ops {
		if p.Ops[i].Weight != plan.None {
			steps = append(steps, plan.Step{Kind: kind(&p.Ops[i]), Op: i})
		}
	}
	return steps
}
