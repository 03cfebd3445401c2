// Package perexample plans how each record's gradient is measured, clipped and summed:
//
//	schedule, err := perexample.Private(network.Program, perexample.Options{Strategy: perexample.Auto, Clipping: flat, Batch: 256})
//
// A strategy rewrites an ir.Program into an ir.Schedule. It changes the cost, and the result by
// rounding at most. Here an example is one record of a batch.
//
// Every private schedule computes Σᵢ cᵢ·gᵢ with gᵢ the gradient of example i's own loss
// and cᵢ its clipping factor. An example with a norm that is not finite, or with a
// target that the loss does not accept, adds zero, silently.
package perexample

import (
	"fmt"
	"slices"
	"strings"

	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/usage"
)

// Strategy names one way to a clipped sum.
type Strategy string

const (
	// Auto picks per layer what takes the least time within the memory.
	Auto Strategy = "auto"
	// Materialise keeps every example's whole gradient: simple, and for a dense layer
	// bound by memory.
	Materialise Strategy = "materialise"
	// Ghost is mixed ghost clipping (Bu, Mao and Xu 2022, arXiv 2205.10683):
	// norms of dense layers, and of convolutions with few output positions,
	// come from products of inputs and of δ, with no gradient formed.
	Ghost Strategy = "ghost"
	// Bookkeeping computes every gradient once (Bu et al. 2023, arXiv
	// 2210.00038). A dense layer's is an outer product δxᵀ, so that ‖δxᵀ‖² = ‖δ‖²‖x‖²,
	// the bias adds ‖δ‖², and the clipped sum is one product over δ scaled by the
	// factors. A convolution's sums many outer products; it is stored.
	Bookkeeping Strategy = "bookkeeping"
	// Microbatch sends one example at a time through the network and keeps
	// its whole gradient: the definition that the others are checked against.
	Microbatch Strategy = "microbatch"
)

// Canonical spells a strategy as it is stored: materialize may be written for materialise.
func Canonical(s Strategy) Strategy {
	return Strategy(strings.ReplaceAll(string(s), "materialize", string(Materialise)))
}

func Strategies() []Strategy { return []Strategy{Auto, Materialise, Ghost, Bookkeeping, Microbatch} }

// Options say how to schedule.
type Options struct {
	// Strategy is a name, choices for single layers, or both, separated by
	// commas: ghost,conv1=gram,fc1=store. Choices alone leave the rest to auto.
	Strategy Strategy
	Clipping ir.Clipping
	Costs    ir.Costs // of the device; zero stands for ir.Processor
	Memory   int64    // bytes for a batch's values and stored gradients, 0 for no bound
	Batch    float64  // expected; 0 if unknown
	Rows     int      // of the largest batch that a run takes; 0 if unknown
	MaxBatch int      // most examples that go through the network together, 0 for no bound of the user's
	Views    int      // of each record, whose gradient is their mean; 0 stands for 1
	Augment  ir.Gather
	UnitRows int // of a table, that are one unit: each is a view of the unit, and Views is left out; 0 stands for 1
}

func (o *Options) views() int { return max(o.Views, o.UnitRows, 1) }

func (o *Options) costs() ir.Costs {
	if o.Costs == (ir.Costs{}) {
		return ir.Processor
	}
	return o.Costs
}

// rewrites make the choice for every layer that has none yet.
var rewrites = map[Strategy]func(p *ir.Program, o *Options, c choices){
	Auto:        auto,
	Materialise: fill(Store, always(Store)),
	Ghost:       fill(GhostNorm, mixed),
	Bookkeeping: fill(GhostNorm, always(Store)),
	Microbatch:  fill(Store, always(Store)),
}

// fill makes one choice for dense layers, and one for each convolution, where they are possible.
func fill(dense Choice, conv func(*ir.Op) Choice) func(*ir.Program, *Options, choices) {
	return func(p *ir.Program, o *Options, c choices) {
		for i := range p.Ops {
			op := &p.Ops[i]
			all := possible(op, o.views())
			if _, chosen := c[i]; chosen || len(all) == 0 {
				continue
			}
			if c[i] = dense; op.Kind == ir.Conv {
				c[i] = conv(op)
			}
			if !slices.Contains(all, c[i]) {
				c[i] = all[0]
			}
		}
	}
}

func always(c Choice) func(*ir.Op) Choice { return func(*ir.Op) Choice { return c } }

// mixed takes the norm from two Gram matrices where they are smaller than the gradient,
// 2T² < p for T output positions and p parameters (Bu, Mao and Xu 2022, section 4).
func mixed(op *ir.Op) Choice {
	out, k, positions := op.Columns()
	if 2*positions*positions < out*k {
		return Gram
	}
	return Store
}

// Private schedules a batch's clipped sum of per-example gradients.
func Private(p *ir.Program, o Options) (*ir.Schedule, error) {
	if o.Clipping == ir.Unclipped {
		return nil, fmt.Errorf("a private schedule needs a clipping: without one no noise hides an example")
	}
	if err := p.Validate(); err != nil {
		return nil, err
	}
	name, c, err := parse(o.Strategy, p, o.views())
	if err != nil {
		return nil, err
	}
	c.settle(p, o.views())
	rewrites[name](p, &o, c)
	s := c.schedule(p, &o)
	s.Clipping = o.Clipping
	if name == Microbatch {
		s.Chunk = 1
	}
	return s, s.Validate()
}

// Plain schedules the sum of gradients with no norm and no bound: ordinary
// training, which protects nobody. No record's gradient is complete by itself, and none is kept.
func Plain(p *ir.Program) (*ir.Schedule, error) { return Unclipped(p, Options{}) }

// Unclipped is Plain with the views of the options.
func Unclipped(p *ir.Program, o Options) (*ir.Schedule, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	s := choices{}.schedule(p, &o)
	return s, s.Validate()
}

// Choice is how one layer's per-example gradients are measured and summed.
type Choice string

const (
	Store     Choice = "store"     // keep each gradient, combine them
	GhostNorm Choice = "ghost"     // dense: ‖x‖²·‖δ‖² (Goodfellow 2015, arXiv 1510.01799), then one product over scaled δ
	Gram      Choice = "gram"      // convolution: the norm from Gram matrices, then each gradient once
	Recompute Choice = "recompute" // convolution: each gradient twice, for its norm and for the sum
)

func Choices() []Choice { return []Choice{Store, GhostNorm, Gram, Recompute} }

// measures is the step by which each choice takes the norm.
var measures = map[Choice]ir.StepKind{Store: ir.GradStore, GhostNorm: ir.NormGhost, Gram: ir.NormGram, Recompute: ir.NormInstantiate}

// possible lists what a layer can do with so many views of a record.
func possible(op *ir.Op, views int) []Choice {
	var list []Choice
	for _, w := range op.WaysOf(views) {
		for _, c := range Choices() {
			if measures[c] == w.Measure && sums(c) == w.Sum {
				list = append(list, c)
			}
		}
	}
	return list
}

// sums is the step by which a choice's gradients get into the sum.
func sums(c Choice) ir.StepKind {
	if c == Store {
		return ir.Combine
	}
	return ir.GradSum
}

// choices are made by op; an op that is absent is not measured.
type choices map[int]Choice

// settle makes the choices of layers that have but one.
func (c choices) settle(p *ir.Program, views int) {
	for i := range p.Ops {
		if all := possible(&p.Ops[i], views); len(all) == 1 {
			c[i] = all[0]
		}
	}
}

// schedule goes forward, to the loss, back with each op measured before δ
// moves on to its inputs, to the factors and to the sums.
func (c choices) schedule(p *ir.Program, o *Options) *ir.Schedule {
	s := &ir.Schedule{Program: p, Several: o.views(), Augment: o.Augment, UnitRows: o.UnitRows}
	add := func(k ir.StepKind, op int) { s.Steps = append(s.Steps, ir.Step{Kind: k, Op: op}) }
	for i := range p.Ops {
		add(ir.Forward, i)
	}
	add(ir.LossGrad, ir.NoOp)
	need := p.NeedsGrad()
	for i := len(p.Ops) - 1; i >= 0; i-- {
		if kind, ok := measures[c[i]]; ok {
			add(kind, i)
		}
		if slices.ContainsFunc(p.Ops[i].In, func(v ir.Value) bool { return need[v] }) {
			add(ir.InputGrad, i)
		}
	}
	add(ir.Factor, ir.NoOp)
	for i := range p.Ops {
		if p.Ops[i].Weight != ir.None {
			add(sums(c[i]), i)
		}
	}
	return s
}

// Check says what is wrong with a strategy as far as that shows without a network.
func Check(s Strategy) error {
	_, _, err := parse(s, nil, 1)
	return err
}

// parse reads a strategy; the layers are looked for in p unless it is nil.
func parse(s Strategy, p *ir.Program, views int) (Strategy, choices, error) {
	name, c := Auto, choices{}
	for i, field := range strings.Split(string(Canonical(s)), ",") {
		layer, choice, ok := strings.Cut(strings.TrimSpace(field), "=")
		switch {
		case ok:
			if err := c.override(p, views, layer, Choice(choice)); err != nil {
				return "", nil, fmt.Errorf("strategy %q: %w", s, err)
			}
		case i > 0:
			return "", nil, fmt.Errorf("strategy %q: %q is no choice for a layer: write one such as conv1=gram", s, field)
		default:
			if name = Strategy(layer); !slices.Contains(Strategies(), name) {
				return "", nil, usage.Unknown("strategy", name, Strategies())
			}
		}
	}
	return name, c, nil
}

func (c choices) override(p *ir.Program, views int, layer string, choice Choice) error {
	if choice == Choice(Materialise) {
		choice = Store
	}
	if !slices.Contains(Choices(), choice) {
		return fmt.Errorf("layer %s: %w", layer, usage.Unknown("choice", choice, Choices()))
	}
	if p == nil {
		return nil
	}
	var layers []string
	for i := range p.Ops {
		name := layerName(p, i)
		if name == "" {
			continue
		}
		if layers = append(layers, name); name != layer {
			continue
		}
		if _, twice := c[i]; twice {
			return fmt.Errorf("layer %s is named twice", layer)
		}
		if all := possible(&p.Ops[i], views); !slices.Contains(all, choice) {
			return fmt.Errorf("layer %s is a %s layer and cannot %s: choose one of %s", layer, p.Ops[i].Kind, choice, list(all))
		}
		c[i] = choice
		return nil
	}
	return fmt.Errorf("network %s has no layer %q: choose one of %s", p.Name, layer, strings.Join(layers, ", "))
}

// layerName is an op's name in its parameters' names, empty without parameters.
func layerName(p *ir.Program, i int) string {
	if p.Ops[i].Weight == ir.None {
		return ""
	}
	return strings.TrimSuffix(p.Params[p.Ops[i].Weight].Name, ".weight")
}

// meant asks whether one of the names was meant.
func list[T ~string](all []T) string {
	var names []string
	for _, s := range all {
		names = append(names, string(s))
	}
	return strings.Join(names, ", ")
}
