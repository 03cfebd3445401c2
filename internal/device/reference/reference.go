// Package reference is the device that defines the meaning: float64, one
// thread, every op written as its formula. It is for checking other devices,
// not for training.
package reference

import (
	"math"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/host"
	"github.com/privgrad/privgrad/internal/plan"
)

var _ device.Device = Device{}

// Device is the reference device.
type Device struct{}

// Open gives the reference device.
func Open() Device { return Device{} }

// Info names the device.
func (Device) Info() device.Info {
	return device.Info{Name: "reference", Detail: "float64, slow, defines the meaning", Threads: 1, Costs: plan.Costs{GEMM: 5e8, Gram: 5e8, Memory: 5e9}}
}

// Load keeps a table.
func (Device) Load(r device.Rows, features []uint8) (device.Data, error) {
	return host.Load(r, features)
}

// Compile prepares a schedule.
func (Device) Compile(s *plan.Schedule, o device.Options) (device.Net, error) {
	return host.New(s, o, func() host.Backend[float64] { return &backend{s} })
}

// Close does nothing.
func (Device) Close() error { return nil }

type backend struct{ schedule *plan.Schedule }

// example is the state of one row on its way through the schedule.
type example struct {
	target float32
	values [][]float64 // by plan.Value
	deltas [][]float64 // gradient of the loss at each value
	kept   [][]float64 // by op: the stored parameter gradient, bias after weight
	norm2  float64
	factor float64
	used   bool // target accepted and norm finite
}

func (b *backend) gather(t *host.Table, row int32) *example {
	p := b.schedule.Program
	n := len(p.Ops)
	e := &example{target: t.Targets[row], used: true, values: make([][]float64, n+1), deltas: make([][]float64, n+1), kept: make([][]float64, n)}
	for v := range e.values {
		size := p.ValueSize(plan.Value(v))
		e.values[v], e.deltas[v] = make([]float64, size), make([]float64, size)
	}
	copy(e.values[plan.Input], input(t, row))
	return e
}

// input is a row's features as the network reads them.
func input(t *host.Table, row int32) []float64 {
	x := make([]float64, t.Width)
	for i, b := range t.Row(row) {
		x[i] = float64(float32(b)*t.Scale + t.Offset)
	}
	return x
}

// Values runs one example forward: its input, then the output of every op. It
// is for telling how close an example lies to a kink.
func Values(p *plan.Program, params, input []float64) [][]float64 {
	values := [][]float64{input}
	for i := range p.Ops {
		op := &p.Ops[i]
		w, bias := weights(p, op, params)
		y := make([]float64, plan.Size(op.Out))
		forward(op, values, y, w, bias)
		values = append(values, y)
	}
	return values
}

func (b *backend) ClippedSum(dst, params []float64, t *host.Table, rows []int32, clip float32) {
	chunk := b.schedule.Chunk
	if chunk == 0 {
		chunk = len(rows)
	}
	for first := 0; first < len(rows); first += chunk {
		var batch []*example
		for _, row := range rows[first:min(first+chunk, len(rows))] {
			batch = append(batch, b.gather(t, row))
		}
		for _, st := range b.schedule.Steps {
			for _, e := range batch {
				b.step(st, e, dst, params, float64(clip))
			}
		}
	}
}

func (b *backend) step(st plan.Step, e *example, dst, params []float64, clip float64) {
	p := b.schedule.Program
	var op *plan.Op
	var x, y, dy []float64
	if st.Op != plan.NoOp {
		op = &p.Ops[st.Op]
		x, y, dy = e.values[op.In[0]], e.values[st.Op+1], e.deltas[st.Op+1]
	}
	switch st.Kind {
	case plan.Forward:
		w, bias := weights(p, op, params)
		forward(op, e.values, y, w, bias)
	case plan.LossGrad:
		if e.used = p.Loss.ValidTarget(e.target, p.Outputs()); e.used {
			host.Loss(p.Loss, e.values[p.Logits()], e.target, e.deltas[p.Logits()])
		}
	case plan.InputGrad:
		w, _ := weights(p, op, params)
		inputGrad(op, e, y, dy, w)
	case plan.NormGhost:
		n := squares(x) * squares(dy)
		if op.Bias != plan.None {
			n += squares(dy)
		}
		e.norm2 += n
	case plan.NormGram:
		e.norm2 += gramNorm2(op, x, dy)
	case plan.NormInstantiate:
		e.norm2 += squares(paramGrad(p, op, x, dy))
	case plan.GradStore:
		e.kept[st.Op] = paramGrad(p, op, x, dy)
		e.norm2 += squares(e.kept[st.Op])
	case plan.Factor:
		e.factor = 1
		if b.schedule.Private() {
			e.used = e.used && !math.IsNaN(e.norm2) && !math.IsInf(e.norm2, 0)
			e.factor = factor(clip, math.Sqrt(e.norm2))
		}
	case plan.GradSum:
		if e.used {
			add(p, op, dst, e.factor, paramGrad(p, op, x, dy))
		}
	case plan.Combine:
		if e.used {
			add(p, op, dst, e.factor, e.kept[st.Op])
		}
	}
}

func squares(x []float64) float64 {
	s := 0.0
	for _, v := range x {
		s += v * v
	}
	return s
}

// add accumulates an op's gradient, bias after weight, where its parameters lie.
func add(p *plan.Program, op *plan.Op, dst []float64, factor float64, grad []float64) {
	for _, q := range []int{op.Weight, op.Bias} {
		if q == plan.None {
			continue
		}
		at := dst[p.Params[q].Offset:]
		for i, g := range grad[:p.Params[q].Size()] {
			at[i] += factor * g
		}
		grad = grad[p.Params[q].Size():]
	}
}

func weights(p *plan.Program, op *plan.Op, params []float64) (w, b []float64) {
	at := func(q int) []float64 {
		if q == plan.None {
			return nil
		}
		return params[p.Params[q].Offset:][:p.Params[q].Size()]
	}
	return at(op.Weight), at(op.Bias)
}

func (b *backend) Release(dst, src []float64, std float32, n device.Noise, draw uint64) {
	if std == 0 {
		copy(dst, src)
		return
	}
	n.Stream().Normals(dst, draw, n.Tensor(), 0)
	for i := range dst {
		dst[i] = src[i] + float64(std)*dst[i]
	}
}

func (b *backend) Update(r device.Rule, s *[device.Slots]float32, p, g []float64, state [][]float64) {
	st := make([]float64, len(state))
	for i := range p {
		for j := range state {
			st[j] = state[j][i]
		}
		p[i] = r.Apply(s, p[i], g[i], st)
		for j := range state {
			state[j][i] = st[j]
		}
	}
}

func (b *backend) Score(params []float64, t *host.Table) device.Score {
	p := b.schedule.Program
	var s device.Score
	for row := range t.Count {
		if target := t.Targets[row]; p.Loss.ValidTarget(target, p.Outputs()) {
			host.Tally(&s, p.Loss, Values(p, params, input(t, int32(row)))[p.Logits()], target)
		}
	}
	return s
}

func (b *backend) Losses(params []float64, t *host.Table, rows []int32, clip float32) float64 {
	p := b.schedule.Program
	sum := 0.0
	for _, row := range rows {
		e := b.gather(t, row)
		b.forward(e, params)
		sum += host.ClippedLoss(p.Loss, e.values[p.Logits()], e.target, clip)
	}
	return sum
}

func (b *backend) forward(e *example, params []float64) {
	p := b.schedule.Program
	for i := range p.Ops {
		op := &p.Ops[i]
		w, bias := weights(p, op, params)
		forward(op, e.values, e.values[i+1], w, bias)
	}
}

func (b *backend) Close() {}
