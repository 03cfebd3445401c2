// Package reference is the device that defines the meaning: float64, one
// thread, every op written as its formula. It is for checking other devices,
// not for training.
package reference

import (
	"slices"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/host"
	"github.com/privgrad/privgrad/internal/device/record"
	"github.com/privgrad/privgrad/internal/ir"
)

var _ device.Device = Device{}

var precisions = []device.Precision{device.TF32, device.BF16}

const name = "reference"

var repertoire = record.Repertoire{
	Device: name, Precisions: precisions,
	Ops:       func(k ir.Kind) bool { _, ok := operations[k]; return ok },
	Functions: func(f ir.Function) bool { _, ok := functions[f]; return ok },
	Views:     func(k ir.MapKind) bool { return host.Defined[k] != nil },

	ClassWeights: true,
}

// Device is the reference device.
type Device struct{}

// Open gives the reference device.
func Open() Device { return Device{} }

func (Device) Info() device.Info {
	return device.Info{Name: name, Detail: "float64, slow, defines the meaning", Threads: 1, Costs: ir.Costs{GEMM: 5e8, Gram: 5e8, Memory: 5e9, Fewest: 64, Most: 512},
		Precisions: slices.Clone(precisions)}
}

// Load keeps a table.
func (Device) Load(r device.Rows, f device.Features) (device.Data, error) { return Load(r, f) }

// Load is a table whose rows are read for Values. This device has the maps of a gather as they are defined.
func Load(r device.Rows, f device.Features) (*host.Table, error) {
	return host.Load(name, host.Defined, r, f)
}

// Compile prepares a schedule.
func (Device) Compile(s *ir.Schedule, o device.Options) (device.Net, error) {
	return host.New(s, o, func() host.Backend[float64] { return &backend{s, host.NewClipper(s), o.Precision} }, repertoire)
}

// Close does nothing.
func (Device) Close() error { return nil }

type backend struct {
	schedule  *ir.Schedule
	clipper   *host.Clipper
	precision device.Precision
}

// example is the state of one record on its way through the schedule.
type example struct {
	views  []view
	kept   [][]float64 // by op: the stored gradient of parameters
	norm2  []float64   // by group of the clipping
	factor []float64
	used   bool // the first view's target is accepted, and norms are finite
}

// view is the state of one view of a record.
type view struct {
	target float32
	values [][]float64 // by ir.Value
	deltas [][]float64 // gradient of the loss at each value
}

// gather reads a unit, and makes its views; words are theirs, or nil.
func (b *backend) gather(t *host.Table, unit int32, words []uint32) *example {
	s, p := b.schedule, b.schedule.Program
	n, groups := len(p.Ops), b.clipper.Groups
	e := &example{
		used: true, views: make([]view, s.Views()), kept: make([][]float64, n),
		norm2: make([]float64, groups), factor: make([]float64, groups),
	}
	for k := range e.views {
		v := &e.views[k]
		v.values, v.deltas = make([][]float64, n+1), make([][]float64, n+1)
		for i := range v.values {
			size := p.ValueSize(ir.Value(i))
			v.values[i], v.deltas[i] = make([]float64, size), make([]float64, size)
		}
		x := v.values[ir.Input]
		row := s.Row(unit, k)
		v.target = t.Targets[row]
		copy(x, t.Row(row))
		if words != nil {
			host.Defined.ApplyView(x, s.Augment, host.View[float64]{Shape: p.Shape, Word: words[k], Scratch: make([]float64, len(x))})
		}
	}
	return e
}

// Values runs one example forward in a precision: its input, then the output of every op. It
// is for telling how close an example lies to a kink.
func Values(p *ir.Program, params, input []float64, precision device.Precision) [][]float64 {
	values := [][]float64{input}
	for i := range p.Ops {
		op := &p.Ops[i]
		c := &call{program: p, op: op, y: make([]float64, ir.Size(op.Out))}
		for _, v := range op.In {
			c.x = append(c.x, values[v])
		}
		c.weight, c.bias = Weights(p, op, params)
		forward(precision, c)
		values = append(values, c.y)
	}
	return values
}

func (b *backend) ClippedSum(dst, params []float64, t *host.Table, all host.Batch, clip float32) (within float64) {
	chunk, rows := b.schedule.Chunk, len(all.Rows)
	if chunk == 0 {
		chunk = rows
	}
	for first := 0; first < rows; first += chunk {
		var batch []*example
		for i := first; i < min(first+chunk, rows); i++ {
			one := all.Part(i, i+1, b.schedule.Views())
			batch = append(batch, b.gather(t, one.Rows[0], one.Words))
		}
		for _, st := range b.schedule.Steps {
			for _, e := range batch {
				b.step(st, e, dst, params, clip)
			}
		}
		for _, e := range batch {
			if e.used {
				within += host.Within(e.factor[0])
			}
		}
	}
	return within
}

func (b *backend) step(st ir.Step, e *example, dst, params []float64, clip float32) {
	p := b.schedule.Program
	var calls []*call // one a view
	var op *ir.Op
	var group int
	if st.Op != ir.NoOp {
		op, group = &p.Ops[st.Op], b.clipper.Group(st.Op)
		weight, bias := Weights(p, op, params)
		for i := range e.views {
			c := e.views[i].at(st.Op, op)
			c.weight, c.bias = weight, bias
			calls = append(calls, c)
		}
	}
	switch st.Kind {
	case ir.Forward:
		for _, c := range calls {
			clear(c.y)
			forward(b.precision, c)
		}
	case ir.LossGrad:
		b.loss(e)
	case ir.InputGrad:
		for _, c := range calls {
			back(b.precision, c)
		}
	case ir.NormGhost: // of one view
		c := calls[0]
		inputs := squares(c.x[0])
		if op.Bias != ir.None {
			inputs++
		}
		e.norm2[group] += host.Ghost(squares(c.dy), inputs)
	case ir.NormGram: // of one view
		c := calls[0]
		e.norm2[group] += gramNorm2(op, cut(b.precision, c.x[0]), cut(b.precision, c.dy))
	case ir.NormInstantiate:
		e.norm2[group] += squares(b.paramGrad(calls, params))
	case ir.GradStore:
		e.kept[st.Op] = b.paramGrad(calls, params)
		e.norm2[group] += squares(e.kept[st.Op])
	case ir.Factor:
		e.used = host.Factors(b.clipper, e.factor, e.norm2, clip) && e.used
	case ir.GradSum:
		if e.used {
			b.sum(calls, dst, params, e.factor[group])
		}
	case ir.Combine:
		if e.used {
			add(p, op, dst, e.factor[group], e.kept[st.Op])
		}
	}
}

// loss has the gradient at the logits of each view, of the mean of their losses.
func (b *backend) loss(e *example) {
	p := b.schedule.Program
	e.used = p.Loss.ValidTarget(e.views[0].target, p.Outputs())
	for _, v := range e.views {
		if !p.Loss.ValidTarget(v.target, p.Outputs()) {
			continue
		}
		d := v.deltas[p.Logits()]
		host.Loss(p.Loss, v.values[p.Logits()], v.target, d)
		for i := range d {
			d[i] *= float64(p.Weight(v.target)) / float64(len(e.views))
		}
	}
}

// at is op i at a view, without parameters.
func (v *view) at(i int, op *ir.Op) *call {
	c := &call{op: op, y: v.values[i+1], dy: v.deltas[i+1]}
	for _, x := range op.In {
		c.x, c.dx = append(c.x, v.values[x]), append(c.dx, v.deltas[x])
	}
	return c
}

// forward computes an op's output in a precision, and back what it passes on.
func forward(p device.Precision, c *call) {
	if multiplies(c.op) {
		c.x, c.weight = [][]float64{nearest(p, c.x[0])}, nearest(p, c.weight)
	}
	operations[c.op.Kind].forward(c)
}

func back(p device.Precision, c *call) {
	if multiplies(c.op) {
		c.weight, c.dy = nearest(p, c.weight), nearest(p, c.dy)
	}
	operations[c.op.Kind].back(c)
}

// paramGrad is one record's gradient of an op's parameters, complete over its views.
func (b *backend) paramGrad(views []*call, params []float64) []float64 {
	op := views[0].op
	var all []float64
	for _, c := range views {
		d := *c
		if op.Kind == ir.Conv {
			d.x, d.dy = [][]float64{cut(b.precision, c.x[0])}, cut(b.precision, c.dy)
		}
		all = plus(all, operations[op.Kind].grad(&d))
	}
	return toParameters(b.schedule.Program, op, params, all)
}

// plus is x + y, where x may be nil.
func plus(x, y []float64) []float64 {
	if x == nil {
		return y
	}
	for i, v := range y {
		x[i] += v
	}
	return x
}

// sum adds one record's gradient times its factor.
func (b *backend) sum(views []*call, dst, params []float64, factor float64) {
	p, op := b.schedule.Program, views[0].op
	if op.Kind != ir.Dense || b.precision == device.Float32 || len(views) > 1 && b.schedule.Private() {
		add(p, op, dst, factor, b.paramGrad(views, params))
		return
	}
	for _, c := range views { // a product over the batch
		scaled := make([]float64, len(c.dy))
		for i, d := range c.dy {
			scaled[i] = factor * d
		}
		d := *c
		d.x, d.dy = [][]float64{cut(b.precision, c.x[0])}, cut(b.precision, scaled)
		add(p, op, dst, 1, operations[op.Kind].grad(&d))
	}
}

func squares(x []float64) float64 {
	s := 0.0
	for _, v := range x {
		s += v * v
	}
	return s
}

// add accumulates an op's gradient where its parameters lie.
func add(p *ir.Program, op *ir.Op, dst []float64, factor float64, grad []float64) {
	for _, q := range op.Parameters() {
		at := dst[p.Params[q].Offset:]
		for i, g := range grad[:p.Params[q].Size()] {
			at[i] += factor * g
		}
		grad = grad[p.Params[q].Size():]
	}
}

// Project is the definition of a learned rule.
func (b *backend) Project(u *host.Projection[float64]) { u.Each(0, len(u.P)) }

func (b *backend) Apply(r *host.Release[float64], u *host.Update[float64]) {
	if r != nil {
		host.ReleaseTo(r.Sampler, r.Dst, r.Src, r.Step, r.Draw, 0)
	}
	if u != nil {
		update(u)
	}
}

func update(u *host.Update[float64]) {
	state := make([]float64, len(u.State))
	for i := range u.P {
		for j := range state {
			state[j] = u.State[j][i]
		}
		u.P[i] = u.Rule.Apply(&u.Scalars, u.P[i], u.G[i], state)
		for j := range state {
			u.State[j][i] = state[j]
		}
	}
}

func (b *backend) Score(params []float64, t *host.Table) device.Score {
	p := b.schedule.Program
	var s device.Score
	for row := range t.Count {
		if target := t.Targets[row]; p.Loss.ValidTarget(target, p.Outputs()) {
			z := Values(p, params, t.Row(int32(row)), b.precision)[p.Logits()]
			host.Tally(&s, p, target, host.Loss(p.Loss, z, target, nil), host.Predict(p.Loss, z))
		}
	}
	return s
}

func (b *backend) Losses(sums []float64, q host.Query[float64], t *host.Table, rows []int32) {
	p := b.schedule.Program
	shifted := make([][]float64, len(q.Steps))
	for i, eta := range q.Steps {
		shifted[i] = shift(q.At, q.Dir, float64(eta))
	}
	losses := make([]float64, len(q.Steps))
	for _, row := range rows {
		target := t.Targets[row]
		if !p.Loss.ValidTarget(target, p.Outputs()) {
			continue
		}
		at := func(params []float64) float64 {
			return host.Loss(p.Loss, Values(p, params, t.Row(row), b.precision)[p.Logits()], target, nil)
		}
		for i := range losses {
			losses[i] = at(shifted[i])
		}
		base := 0.0
		if q.Form != device.LossSum {
			base = at(q.At)
		}
		q.Add(sums, base, losses)
	}
}

// shift is at − eta·dir, and at itself for a step of 0.
func shift(at, dir []float64, eta float64) []float64 {
	if eta == 0 {
		return at
	}
	y := make([]float64, len(at))
	for i, x := range at {
		y[i] = x - eta*dir[i]
	}
	return y
}

// Moved has nothing to do: every loss is computed when it is asked for.
func (b *backend) Moved() {}

func (b *backend) Close() {}
