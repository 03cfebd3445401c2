package train

import (
	"context"
	"fmt"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/dpoptim/mechanism"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/stream"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/perexample"
)

// Methods that are no sequence of updates: they look at all records once, or as
// often as they like, and end with a model. Files and reports are those of other
// runs; Plan.once and run.once stand in the places of the schedule and the loop.

const (
	lbfgs    = "lbfgs"    // the minimum, without privacy
	majority = "majority" // always the class that most records have, by report noisy max
)

// once reports whether the optimizer has no schedule of updates.
func (c *Config) once() bool { return c.Optimizer == lbfgs || c.Optimizer == majority }

// mostIterations of lbfgs where --steps says nothing.
const mostIterations = 500

// resolveOnce refuses the settings of a schedule, of which there is none.
func (p *Plan) resolveOnce() error {
	c := &p.Config
	if !c.once() {
		return nil
	}
	all, steps := 1.0, 1
	if c.Optimizer == lbfgs {
		if steps = mostIterations; c.Steps != nil {
			steps = *c.Steps
		}
	}
	switch {
	case c.Batch != nil || c.SamplingRate != nil && *c.SamplingRate != 1 || c.Epochs != nil:
		return usage.Errorf("optimizer %s looks at all records: leave out --batch, --sampling-rate and --epochs", c.Optimizer)
	case c.LR != nil || c.Momentum != 0:
		return usage.Errorf("optimizer %s has no learning rate and no momentum: leave out --lr and --momentum", c.Optimizer)
	case c.LRSchedule != dpoptim.Constant || c.Warmup != 0 || c.Average != 0:
		return usage.Errorf("optimizer %s makes no updates to schedule or to average: leave out --lr-schedule, --warmup and --average", c.Optimizer)
	case c.Steps != nil && *c.Steps != steps:
		return usage.Errorf("steps %d: optimizer %s makes a single release; leave out --steps", *c.Steps, c.Optimizer)
	case c.Clipping != string(perexample.Flat) || c.TrainLossNoise != nil:
		return usage.Errorf("optimizer %s clips nothing and releases no loss: leave out --clipping and --train-loss-noise", c.Optimizer)
	}
	c.SamplingRate, c.Steps = &all, &steps
	if c.Optimizer != majority {
		return nil
	}
	switch {
	case c.NoiseMultiplier != nil:
		return usage.Errorf("noise multiplier %v: optimizer majority adds no Gaussian noise; give --epsilon", *c.NoiseMultiplier)
	case c.exact():
		return usage.Errorf("noise exact: optimizer majority sums no gradients; use --noise secure")
	case p.ownNetwork || c.Model != "" && c.Model != "logistic":
		return usage.Errorf("model %s: optimizer majority needs none; leave out --model", c.Model)
	case c.L2 != 0:
		return usage.Errorf("l2 %v: optimizer majority fits no weights; leave out --l2", c.L2)
	}
	c.Model = "logistic" // its bias alone
	return nil
}

// resolveMajority prices the one release: ε, with δ = 0.
func (p *Plan) resolveMajority() error {
	p.Epsilon, p.spent = p.Config.Epsilon, map[int]float64{0: 0, 1: *p.Config.Epsilon}
	return nil
}

// pureEpsilon is that of the release under add-remove, whatever the relation in
// which ε is promised.
func (p *Plan) pureEpsilon() float64 {
	if p.Config.Neighbouring == string(accountant.ReplaceOne) {
		return *p.Config.Epsilon / 2
	}
	return *p.Config.Epsilon
}

// describe puts right what a result says of clipping, noise, δ and steps.
func (p *Plan) describe(r *Result) {
	switch p.Config.Optimizer {
	case lbfgs:
		r.Committed = &r.Steps // it stopped by itself
	case majority:
		delta, by := 0.0, accountant.Pure{}.Name()
		r.Clipping, r.Clip, r.NoiseMultiplier, r.Delta, r.Accountant = nil, nil, nil, &delta, &by
	}
}

// once makes the model, unless an earlier process did or lost the release.
func (r *run) once(ctx context.Context) error {
	if r.step > 0 || r.slot > 0 {
		return r.save()
	}
	if r.plan.Config.Optimizer == majority {
		return r.majority()
	}
	return r.lbfgs(ctx)
}

// majority releases the class that most records have, as a model of a bias.
func (r *run) majority() error {
	if _, err := r.ledger.Reserve(1); err != nil {
		return err
	}
	m, err := mechanism.NewNoisyMax(r.plan.pureEpsilon(), r.noise, gradientNoise)
	if err != nil {
		return usage.Wrap(err)
	}
	if want := (accountant.Pure{Epsilon: r.plan.pureEpsilon()}); m.Event() != accountant.Mechanism(want) {
		return fmt.Errorf("the mechanism costs %v, %v was accounted for; please report this", m.Event(), want)
	}
	counts := make([]int, r.plan.Set.Classes)
	for _, l := range r.plan.Set.Train.Labels {
		if int(l) < len(counts) {
			counts[l]++
		}
	}
	_, draw := r.position(0)
	class, err := m.Select(counts, draw)
	if err != nil {
		return err
	}
	clear(r.params)
	g := r.plan.Network.Program
	bias := r.params[g.Params[g.Ops[len(g.Ops)-1].Bias].Offset:]
	if g.Loss == ir.SoftmaxCrossEntropy {
		bias[class] = 1
	} else {
		bias[0] = 2*float32(class) - 1
	}
	if err := r.engine.SetParams(r.params); err != nil {
		return err
	}
	r.step, r.slot, r.ran = 1, 1, 1
	if err := r.save(); err != nil {
		return err
	}
	return r.ledger.Settle(1)
}

// lbfgs minimises the mean loss. It charges nothing, as nothing would be covered:
// a process that died begins again.
func (r *run) lbfgs(ctx context.Context) error {
	p := r.plan
	f, err := r.engine.objective(r.data, r.noise, p.Set.Train.Len(), p.ExpectedBatch, p.Config.L2)
	if err != nil {
		return err
	}
	x := make([]float64, len(r.params))
	for i, w := range r.params {
		x[i] = float64(w)
	}
	r.step, err = dpoptim.LBFGS(x, p.Steps, func(x, gradient []float64) (float64, error) {
		if ctx.Err() != nil {
			return 0, fmt.Errorf("%w before the minimum was found; --resume begins again", ErrInterrupted)
		}
		return f(x, gradient)
	})
	if err != nil {
		return fmt.Errorf("optimizer %s: %w", lbfgs, err)
	}
	for i, w := range x {
		r.params[i] = float32(w)
	}
	if err := r.engine.SetParams(r.params); err != nil {
		return err
	}
	r.ran = r.step
	return r.save()
}

// objective gives the sum of n records' losses over a normaliser, with the penalty
// λ/2·‖w‖², and its gradient, both un-noised: for methods without privacy alone,
// whose mechanism protects nothing.
func (e *Engine) objective(data device.Data, s *stream.Stream, n int, normaliser, l2 float64) (func(x, gradient []float64) (float64, error), error) {
	loss, err := e.LossQuery(data, func(device.Net) (mechanism.Mechanism, error) { return mechanism.NewUnprotected(mostScale, s), nil }, 1)
	if err != nil {
		return nil, err
	}
	release, err := e.net.Record(func(q device.Queue) { e.mechanism.Release(q, e.gradient, e.private) })
	if err != nil {
		return nil, err
	}
	rows := make([]int32, n)
	for i := range rows {
		rows[i] = int32(i)
	}
	params, sum := []float32(nil), []float32(nil)
	draw := uint64(0)
	return func(x, gradient []float64) (float64, error) {
		params, sum = params[:0], append(sum[:0], make([]float32, len(x))...)
		for _, w := range x {
			params = append(params, float32(w))
		}
		if err := e.SetParams(params); err != nil {
			return 0, err
		}
		e.mechanism.Set(&e.inputs)
		if err := e.run(e.sum, release, rows, draw+1); err != nil {
			return 0, err
		}
		if err := e.Released(sum); err != nil {
			return 0, err
		}
		losses, err := loss(rows, draw+2)
		if err != nil {
			return 0, err
		}
		draw += 2
		value := losses[0] / normaliser
		for i, w := range x {
			gradient[i] = float64(sum[i])/normaliser + l2*w
			value += l2 / 2 * w * w
		}
		return value, nil
	}, nil
}
