package meta

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"slices"

	"github.com/privgrad/privgrad/dpoptim/l2p"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/durable"
)

// A Stage of incremental pre-training (appendix B.7) trains with the noise of an ε, and
// with that of the stages before it that had noise, so that none is forgotten.
type Stage struct {
	Epsilon float64 // +Inf: no noise
	Epochs  int
}

// Options of meta-training. Nothing has a default here.
type Options struct {
	Plan
	Family Family
	Stages []Stage
	Card   l2p.Card // Name, Summary, Tasks, Public, Projector, Scheduler, Scale and Recipe are the caller's

	Batches, Tasks int     // gradients of an epoch, and simulated runs of a gradient
	LearningRate   float64 // of Adam; it falls to a tenth within a stage, along a cosine
	GradientNorm   float64 // that a gradient is clipped to, of each LSTM
	Gamma          float64 // γ of the stop weights, 1 in the paper; more weighs the end of a run more
	// Block is the number of steps between which backpropagation is cut and the LSTMs
	// change (appendix B.5); 0: none, the whole run is unrolled.
	Block int
	// Curvature keeps the second derivatives of the tasks, which learning to learn drops,
	// up to what clipping does to them; without it rates that are too large look good
	// near the end of training.
	Curvature bool
	// Odd keeps weights at 0 so that opposite gradients have opposite updates: gates read
	// the context alone, and cells all but the context. A drift, the same for all
	// parameters whatever their gradients, which would move a network far, then cannot
	// be learned (a choice of this package).
	Odd bool
	// Every is the number of steps of which one is stored and the rest made again; 0: all are stored.
	Every      int
	Validation int // held-out tasks, of each ε
	Seed       uint64
	Workers    int // simulations at a time; changes no result

	Checkpoint string // file; empty: none
	Progress   func(done, total int, last Epoch)
}

// Penalty parameters of the augmented Lagrangian (choices of this package): μ at first,
// by which it shrinks with every update, and its least value. An update an epoch
// lets the descent come near a minimum before, as step 1 of appendix B.2 wants it; one
// a batch makes what is spent swing.
const (
	firstMu, shrinkMu, leastMu = 0.5, 0.9, 0.1
)

type Epoch struct {
	Stage   int     `json:"stage"`
	Epsilon Epsilon `json:"epsilon"`
	Epoch   int     `json:"epoch"`
	// Loss is the mean objective of the epoch's gradients, and Spent the mean share of
	// the budget that T steps spent.
	Loss  float64 `json:"loss"`
	Spent float64 `json:"spent"`
	// Validation is the mean loss on held-out tasks when the budget is spent, and
	// Steps the mean number of steps by then.
	Validation float64 `json:"validation"`
	Steps      float64 `json:"steps"`
	Best       bool    `json:"best"` // of its stage so far
}

// Epsilon is written as null where it is infinite.
type Epsilon float64

func (e Epsilon) MarshalJSON() ([]byte, error) {
	if math.IsInf(float64(e), 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(e))
}

func (e *Epsilon) UnmarshalJSON(b []byte) error {
	if *e = Epsilon(math.Inf(1)); string(b) == "null" {
		return nil
	}
	return json.Unmarshal(b, (*float64)(e))
}

func (o *Options) Validate() error {
	switch {
	case o.Steps < 1 || !(o.Rate > 0 && o.Rate <= 1) || !positive(o.Clip):
		return fmt.Errorf("%d steps at sampling rate %v and clip norm %v: at least 1, in (0, 1], and above 0 are needed", o.Steps, o.Rate, o.Clip)
	case o.Card.Public == nil:
		return errors.New("a card without public data: list what trains the protector, or an empty list where nothing published does")
	case len(o.Stages) == 0:
		return errors.New("no stage: name at least one epsilon")
	case min(o.Batches, o.Tasks, o.Validation) < 1:
		return fmt.Errorf("%d batches of %d tasks, %d held out: all must be 1 or more", o.Batches, o.Tasks, o.Validation)
	case !(o.LearningRate > 0) || !(o.GradientNorm > 0):
		return fmt.Errorf("learning rate %v and gradient norm %v: both must be above 0", o.LearningRate, o.GradientNorm)
	case !(o.Gamma >= 1) || math.IsInf(o.Gamma, 0):
		return fmt.Errorf("gamma %v: must be a finite number, 1 or more", o.Gamma)
	case o.Block < 0 || o.Block > o.Steps || o.Every < 0:
		return fmt.Errorf("blocks of %d of %d steps, a stored state in %d: must be 0 or more, and no more than there are", o.Block, o.Steps, o.Every)
	case o.Card.Projector.Kind != l2p.Learned:
		return fmt.Errorf("projector %q: only one that is learned is trained", o.Card.Projector.Kind)
	case !positive(o.Card.Scale):
		return fmt.Errorf("scale %v: must be a finite number above 0", o.Card.Scale)
	}
	return checkStages(o.Stages)
}

func positive(x float64) bool { return x > 0 && !math.IsInf(x, 0) }

func checkStages(stages []Stage) error {
	last := math.Inf(1)
	for _, s := range stages {
		if !(s.Epsilon > 0) || s.Epsilon > last || s.Epochs < 1 {
			return fmt.Errorf("a stage of epsilon %v and %d epochs: epsilons must be above 0 and not rise, with an epoch or more each", s.Epsilon, s.Epochs)
		}
		last = s.Epsilon
	}
	if math.IsInf(last, 1) {
		return errors.New("no stage has noise: name an epsilon")
	}
	return nil
}

// Train meta-trains a protector. Where it is interrupted it gives the context's error;
// called again with the same options it goes on from the checkpoint.
func Train(ctx context.Context, o Options) (*l2p.Protector, []Epoch, error) {
	if err := o.Validate(); err != nil {
		return nil, nil, err
	}
	t := &trainer{Options: o}
	if err := t.prepare(); err != nil {
		return nil, nil, err
	}
	for t.Done < t.total {
		if err := ctx.Err(); err != nil {
			return nil, t.History, err
		}
		t.epoch()
		if o.Checkpoint != "" {
			if err := t.save(); err != nil {
				return nil, t.History, err
			}
		}
		if o.Progress != nil {
			o.Progress(t.Done, t.total, t.History[len(t.History)-1])
		}
	}
	p := &l2p.Protector{Card: o.Card, Projector: converted[float32](t.Best[0]), Scheduler: converted[float32](t.Best[1])}
	p.Card.Format, p.Card.Delta, p.Card.Neighbouring, p.Card.Steps = l2p.Format, o.Delta, string(o.Neighbouring), o.Steps
	first := slices.IndexFunc(o.Stages, func(s Stage) bool { return !math.IsInf(s.Epsilon, 1) }) // of those that do not rise
	p.Card.EpsilonRange = [2]float64{o.Stages[len(o.Stages)-1].Epsilon, o.Stages[first].Epsilon}
	return p, t.History, p.Validate()
}

func converted[To, From float32 | float64](x []From) (y []To) {
	for _, v := range x {
		y = append(y, To(v))
	}
	return y
}

// A trainer is meta-training under way. What has a capital letter goes into the checkpoint.
type trainer struct {
	Options `json:"-"`
	Recipe  string
	Done    int // epochs
	// Weights of the projector and the scheduler, the best of the stage, and their moments.
	Weights, Best [2][]float64
	Moments       [2]adam
	BestLoss      float64
	// Of each noise: the constraint of the whole run, or those of its blocks.
	Whole   []multiplier
	Blocks  []*budgets
	History []Epoch

	shapes [2]*network   // over Weights
	masks  [2][]float64  // 0 where a weight stays 0; nil where none does
	used   [][][]float64 // of each noise, the runs of the epoch: what their blocks spent
	noise  []Noise       // of each stage
	total  int
}

func (t *trainer) prepare() error {
	for _, s := range t.Stages {
		n, err := t.Plan.Noise(s.Epsilon)
		if err != nil {
			return err
		}
		t.noise = append(t.noise, n)
		t.total += s.Epochs
		t.Whole = append(t.Whole, multiplier{Mu: firstMu})
		if t.Block > 0 {
			t.Blocks = append(t.Blocks, newBudgets((t.Steps+t.Block-1)/t.Block, firstMu))
		}
	}
	t.Recipe = t.Card.Recipe
	r := rand.New(rand.NewPCG(t.Seed, 0))
	parts := []l2p.Part{t.Card.Projector, t.Card.Scheduler}
	for i, context := range []int{l2p.ProjectorContext, l2p.SchedulerContext} {
		if parts[i].Kind != l2p.Learned {
			continue
		}
		l := parts[i].LSTM(context)
		if err := l.Check(); err != nil {
			return err
		}
		t.Weights[i] = make([]float64, l.Weights())
		t.shapes[i] = newNetwork(l, t.Weights[i])
		t.shapes[i].initialise(r, i == 0)
		if i == 0 && t.Odd {
			t.masks[i] = oddMask(l)
			multiply(t.Weights[i], t.masks[i])
		}
		t.Moments[i] = newAdam(l.Weights())
	}
	return t.restore()
}

func (t *trainer) restore() error {
	if t.Checkpoint == "" {
		return nil
	}
	stored, err := os.ReadFile(t.Checkpoint)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("checkpoint of meta-training: %w", err)
	}
	saved := trainer{}
	if err := json.Unmarshal(stored, &saved); err != nil {
		return fmt.Errorf("checkpoint %s of meta-training: %w; remove it to start anew", t.Checkpoint, err)
	}
	if !t.takes(&saved) {
		return fmt.Errorf("checkpoint %s is of another recipe (%s): name another file, or remove it", t.Checkpoint, saved.Recipe)
	}
	t.Done, t.Best, t.Moments, t.BestLoss, t.Whole, t.Blocks, t.History = saved.Done, saved.Best, saved.Moments, saved.BestLoss, saved.Whole, saved.Blocks, saved.History
	for i := range t.Weights {
		copy(t.Weights[i], saved.Weights[i])
	}
	return nil
}

// takes says whether a checkpoint is of the same recipe, with everything in the same sizes.
func (t *trainer) takes(saved *trainer) bool {
	fits := saved.Recipe == t.Recipe && saved.Done <= t.total && len(saved.Whole) == len(t.Whole) && len(saved.Blocks) == len(t.Blocks) && len(saved.History) == saved.Done
	for i := range t.Weights {
		n := len(t.Weights[i])
		fits = fits && len(saved.Weights[i]) == n && len(saved.Best[i]) == n && len(saved.Moments[i].M) == n && len(saved.Moments[i].V) == n
	}
	return fits
}

func (t *trainer) save() error {
	stored, err := json.Marshal(t)
	if err != nil {
		return fmt.Errorf("checkpoint of meta-training: %w", err)
	}
	return durable.WriteFile(t.Checkpoint, func(w io.Writer) error { _, err := w.Write(stored); return err })
}

// initialise draws weights as PyTorch does, from U(−1/√H, 1/√H), with 1 more for the
// forget gates (Jozefowicz et al. 2015). A projector begins as descent with momentum
// (our choice): its first units pass on a leaky sum of the gradient, so small that it
// stays linear, since a bent one loses of what noise leaves; the rest of the output is
// small. So no time goes into finding out which way is down.
func (w *network) initialise(r *rand.Rand, descent bool) {
	a := 1 / math.Sqrt(float64(w.Hidden))
	draw := func(x []float64, a float64) {
		for i := range x {
			x[i] = a * (2*r.Float64() - 1)
		}
	}
	for _, l := range w.layers {
		draw(l.own.Data, a)
		draw(l.last.Data, a)
		draw(l.bias, a)
		for u := range w.Hidden {
			l.bias[w.Hidden+u]++
		}
	}
	draw(w.output[:w.Hidden], a/4)
	w.output[w.Hidden] = 0
	if !descent {
		return
	}
	for _, l := range w.layers {
		cell := 2 * w.Hidden // the row of the first unit's cell gate
		clear(l.own.Data[cell*l.own.Cols:][:l.own.Cols])
		clear(l.last.Data[cell*w.Hidden:][:w.Hidden])
		l.own.Data[cell*l.own.Cols] = 1
		l.bias[cell] = 0
	}
	first := w.layers[0].own
	first.Data[2*w.Hidden*first.Cols] = 0
	const part = 0.25
	first.Data[2*w.Hidden*first.Cols+w.features()-1] = -part // the gradient, or its sign
	w.output[0] = 1 / part
}

// oddMask is 1 at the weights with which a projector is an odd function of its gradients.
func oddMask(l device.LSTM) []float64 {
	mask := make([]float64, l.Weights())
	w := newNetwork(l, mask)
	h := l.Hidden
	for k, layer := range w.layers {
		fill(layer.bias, 1)
		fill(layer.bias[2*h:3*h], 0)
		for r := range 4 * h {
			own := layer.own.Data[r*layer.own.Cols:][:layer.own.Cols]
			if cell := r/h == 2; cell {
				fill(layer.last.Data[r*h:][:h], 1)
				fill(own[:w.below(k)], 1)
				if k == 0 && l.LogSign {
					own[0] = 0 // the logarithm is even
				}
				continue
			}
			fill(own[w.below(k):], 1)
			if k == 0 && l.LogSign {
				own[0] = 1
			}
		}
	}
	fill(w.output[:h], 1)
	return mask
}

func multiply(x, by []float64) {
	for i, v := range by {
		x[i] *= v
	}
}

// adam is Kingma and Ba's, with their constants.
type adam struct {
	M, V []float64
	T    int
}

func newAdam(n int) adam { return adam{M: make([]float64, n), V: make([]float64, n)} }

func (a *adam) step(w, g []float64, rate float64) {
	a.T++
	const b1, b2 = 0.9, 0.999
	c1, c2 := 1-math.Pow(b1, float64(a.T)), 1-math.Pow(b2, float64(a.T))
	for i, v := range g {
		a.M[i] += (1 - b1) * (v - a.M[i])
		a.V[i] += (1 - b2) * (v*v - a.V[i])
		w[i] -= rate * a.M[i] / c1 / (math.Sqrt(a.V[i]/c2) + 1e-8)
	}
}

func (t *trainer) rule() rule {
	return rule{projector: t.shapes[0], scheduler: t.shapes[1], scale: t.Card.Scale}
}

// epoch makes one, validates, and keeps what is best.
func (t *trainer) epoch() {
	stage, within := 0, t.Done
	for within >= t.Stages[stage].Epochs {
		within -= t.Stages[stage].Epochs
		stage++
	}
	if within == 0 && stage > 0 {
		// Go on from the best of the stage before.
		for i := range t.Weights {
			copy(t.Weights[i], t.Best[i])
			t.Moments[i] = newAdam(len(t.Weights[i]))
		}
	}
	active := []int{stage} // noises, the latest first
	for k := stage - 1; k >= 0; k-- {
		if !math.IsInf(t.Stages[k].Epsilon, 1) {
			active = append(active, k)
		}
	}
	e := Epoch{Stage: stage, Epsilon: Epsilon(t.Stages[stage].Epsilon), Epoch: within + 1}
	t.used = make([][][]float64, len(t.noise))
	steps := float64(t.Stages[stage].Epochs * t.Batches)
	for b := range t.Batches {
		at := float64(within*t.Batches+b) / steps
		rate := t.LearningRate * (0.55 + 0.45*math.Cos(math.Pi*at))
		loss, spent := t.batch(t.Done*t.Batches+b, active, rate)
		e.Loss += loss / float64(t.Batches)
		e.Spent += spent / float64(t.Batches)
	}
	t.multipliers()
	for _, k := range active {
		for _, r := range evaluate(t.rule(), t.Plan, t.Family, t.noise[k], t.Validation, t.Seed+1, t.Workers) {
			share := 1 / float64(t.Validation*len(active))
			e.Validation += r.loss * share
			e.Steps += float64(r.steps) * share
		}
	}
	for _, x := range []*float64{&e.Loss, &e.Spent, &e.Validation} {
		if !(math.Abs(*x) < math.MaxFloat64) {
			*x = math.MaxFloat64 // a run diverged; files have no word for infinity
		}
	}
	if within == 0 || e.Validation < t.BestLoss {
		e.Best, t.BestLoss = true, e.Validation
		for i := range t.Weights {
			t.Best[i] = slices.Clone(t.Weights[i])
		}
	}
	t.Done++
	t.History = append(t.History, e)
}

// multipliers updates them by the mean of what the epoch's runs spent.
func (t *trainer) multipliers() {
	for k, runs := range t.used {
		if len(runs) == 0 || !t.constrained(k) {
			continue
		}
		mean := make([]float64, len(runs[0]))
		for _, used := range runs {
			axpy(1/float64(len(runs)), used, mean)
		}
		if t.Block > 0 {
			t.Blocks[k].update(mean, shrinkMu, leastMu)
		} else {
			t.Whole[k].update(mean[0]-1, shrinkMu, leastMu)
		}
	}
}

// batch draws tasks and makes an update, or one a block. It gives the mean objective and
// the mean share of the budget that was spent.
func (t *trainer) batch(number int, active []int, rate float64) (loss, spent float64) {
	sims, of := make([]*simulation, t.Tasks), make([]int, t.Tasks)
	for i := range sims {
		r := rand.New(rand.NewPCG(t.Seed, uint64(number*t.Tasks+i)+1))
		of[i] = active[(number*t.Tasks+i)%len(active)]
		sims[i] = t.simulate(t.rule(), t.Family.Draw(r), t.noise[of[i]], r.Uint64())
		sims[i].curved = t.Curvature
	}
	if t.Block > 0 {
		return t.blocks(sims, of, rate)
	}
	runs := make([]*trajectory, t.Tasks)
	parallel(t.Tasks, t.Workers, func(i int) { runs[i] = sims[i].roll(sims[i].start(), t.Steps, t.Every) })
	for i, run := range runs {
		t.used[of[i]] = append(t.used[of[i]], []float64{1 + run.overspent()})
		spent += (1 + run.overspent()) / float64(t.Tasks)
	}
	objectives := make([]objective, t.Tasks)
	for i, run := range runs {
		objectives[i] = run.stopped(t.Gamma)
		loss += objectives[i].value / float64(t.Tasks)
		if t.constrained(of[i]) {
			objectives[i].constrain(t.Whole[of[i]], run.overspent())
		}
	}
	t.descend(runs, objectives, rate)
	return loss, spent
}

// constrained reports whether a scheduler decides what a noise's runs spend.
func (t *trainer) constrained(noise int) bool {
	return t.shapes[1] != nil && t.noise[noise].Planned > 0
}

// blocks is the batch form (appendix B.5): one pass that updates the LSTMs block by
// block, and a second with fixed LSTMs that sees what blocks spend.
func (t *trainer) blocks(sims []*simulation, of []int, rate float64) (loss, spent float64) {
	at := make([]*state, len(sims))
	count := (t.Steps + t.Block - 1) / t.Block
	for pass := range 2 {
		for i, s := range sims {
			at[i] = s.start()
		}
		used := make([][]float64, len(sims))
		for b := range count {
			steps := min(t.Block, t.Steps-b*t.Block)
			runs, objectives := make([]*trajectory, len(sims)), make([]objective, len(sims))
			parallel(len(sims), t.Workers, func(i int) {
				if pass == 1 {
					for range steps {
						at[i] = sims[i].step(at[i]).after
					}
				} else {
					runs[i] = sims[i].roll(at[i], steps, t.Every)
				}
			})
			for i, run := range runs {
				if pass == 1 {
					used[i] = append(used[i], 1-at[i].known.Left-sum(used[i]))
					continue
				}
				objectives[i] = run.average()
				loss += objectives[i].value / float64(len(sims)*count)
				if t.constrained(of[i]) {
					budget := t.Blocks[of[i]]
					objectives[i].constrain(budget.Block[b], at[i].known.Left-run.last.known.Left-budget.Share[b])
				}
				at[i] = run.last
			}
			if pass == 0 {
				t.descend(runs, objectives, rate)
			}
		}
		if pass == 0 {
			continue
		}
		for i := range sims {
			t.used[of[i]] = append(t.used[of[i]], used[i])
			spent += sum(used[i]) / float64(len(sims))
		}
	}
	return loss, spent
}

// descend makes an update by the mean gradient of runs.
func (t *trainer) descend(runs []*trajectory, objectives []objective, rate float64) {
	grads := make([][2][]float64, len(runs))
	parallel(len(runs), t.Workers, func(i int) {
		var into [2]*network
		for k, w := range t.shapes {
			if w != nil {
				grads[i][k] = make([]float64, len(t.Weights[k]))
				into[k] = newNetwork(w.LSTM, grads[i][k])
			}
		}
		runs[i].gradient(objectives[i], into[0], into[1])
	})
	for k, w := range t.Weights {
		if len(w) == 0 {
			continue
		}
		mean := make([]float64, len(w))
		for i := range grads {
			axpy(1/float64(len(runs)), grads[i][k], mean)
		}
		if t.masks[k] != nil {
			multiply(mean, t.masks[k])
		}
		norm2 := dot(mean, mean)
		if !(norm2 < math.Inf(1)) {
			continue // a run that diverged teaches nothing
		}
		f := clipped(t.GradientNorm, norm2)
		for i := range mean {
			mean[i] *= f
		}
		t.Moments[k].step(w, mean, rate)
	}
}
