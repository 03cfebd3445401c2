package tune

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/internal/budget"
	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/internal/plan"
	"github.com/privgrad/privgrad/internal/price"
	"github.com/privgrad/privgrad/internal/source"
	"github.com/privgrad/privgrad/internal/tuned"
	"github.com/privgrad/privgrad/internal/usage"
)

// A Plan is a tuning before any record is looked at: all of it is public.
type Plan struct {
	tuned.Record
	Warnings []string
	Alone    float64 // noise multiplier of a run that costs as much, with the first choice of the grid as its settings
	Budget   *budget.Cost

	configs   []config.Config // of trials, complete
	plans     []*plan.Plan
	text      []byte // of the record
	selection accountant.Selection
}

// DefaultTrials are the trials of a tuning where nobody said otherwise. A Poisson number seldom makes very few, which decides more than
// its somewhat higher price (docs/guides/tune.md).
const DefaultTrials = "poisson:10"

// Make plans the tuning of a configuration, or says what is wrong with it. The configuration has the whole price as its ε.
func Make(c config.Config, grid, trials string, sources map[string]source.Source) (*Plan, error) {
	p, err := makePlan(c, grid, trials, sources, false)
	if err != nil {
		return nil, err
	}
	return p, p.ask()
}

// makePlan is Make; trials may repeat their noise in a test.
func makePlan(c config.Config, grid, trials string, sources map[string]source.Source, repeat bool) (*Plan, error) {
	t, err := accountant.ParseTrials(trials)
	if err != nil {
		return nil, err
	}
	all, kept, err := choices(grid)
	if err != nil {
		return nil, err
	}
	if err := settle(&c); err != nil {
		return nil, err
	}
	p := &Plan{Record: tuned.Record{Tuning: tuned.Tuning{
		Grid: kept, Choices: len(all), Trials: t.String(), Expected: t.Expected(), Asked: *c.Epsilon,
	}}}
	p.selection.Trials = t
	for i, choice := range all {
		if err := p.add(c, choice, sources, repeat); err != nil {
			return nil, fmt.Errorf("choice %d of the grid (%s): %w", i+1, choice.text(), err)
		}
	}
	if err := p.price(); err != nil {
		return nil, err
	}
	p.text, err = p.Text()
	return p, err
}

// ask asks the budget whether it would pay.
func (p *Plan) ask() (err error) {
	p.Budget, err = budget.AskBill(p.configs[0].Budget, p.bill)
	return err
}

// settle refuses what no tuning can have, and fixes what all have.
func settle(c *config.Config) error {
	switch {
	case c.Epsilon == nil:
		return usage.Errorf("a tuning needs --epsilon, the ε of all its trials and of the choice among them together")
	case c.Accountant != accountant.PLD && c.Accountant != accountant.RDP:
		return usage.Errorf("accountant %s: a tuning is priced by Rényi divergences; leave --accountant out", c.Accountant)
	case c.PrivateDiagnostics:
		return usage.Errorf("--private-diagnostics: a tuning keeps all of its trials in OUT.private; leave it out")
	case c.Canaries > 0:
		return usage.Errorf("--canaries: they test one run, and a tuning keeps to itself which of its trials was released; leave it out, and train with the settings that were chosen to audit a run")
	case c.CountRecords != nil && *c.CountRecords:
		return usage.Errorf("--count-records: a count would end trials by what the records are; leave it out, and check the files by `privgrad data verify`")
	}
	c.Accountant, c.CountRecords = accountant.RDP, new(false)
	return nil
}

// add plans a trial with a choice of settings.
func (p *Plan) add(c config.Config, choice choice, sources map[string]source.Source, repeat bool) error {
	epsilon := *c.Epsilon
	c.Override(&choice.with, choice.given)
	if c.NoiseMultiplier == nil {
		c.Epsilon = &epsilon
	} else {
		c.Epsilon = nil
	}
	resolve := func() (*plan.Plan, error) { return plan.Resolve(c, plan.Options{Sources: sources, Facts: true}) }
	planned, err := resolve()
	var out *accountant.OutOfReach
	if errors.As(err, &out) { // as a tuning has no other accountant
		out.Words = strings.TrimSuffix(out.Words, ", or use accountant "+accountant.PLD)
	}
	if err != nil {
		return err
	}
	score := scoreOf(planned)
	if score == trainLoss { // released once, at the end
		c.EvalEvery = planned.Steps
		if c.TrainLossNoise == nil {
			c.TrainLossNoise = new(max(leastLossNoise, planned.ExpectedBatch/lossShare))
		}
		if planned, err = resolve(); err != nil {
			return fmt.Errorf("trials are scored by a noisy training loss, as no test set is public: %w", err)
		}
	}
	if err := check(planned, repeat); err != nil {
		return err
	}
	if p.Score == "" {
		p.Score, p.Delta, p.Neighbouring = score, *planned.Guarantee.Delta, accountant.Neighbouring(*planned.Guarantee.Neighbouring)
		p.Warnings = planned.Warnings
	}
	if score != p.Score {
		return usage.Errorf("it is scored by %s, others by %s: tune them apart", score, p.Score)
	}
	if d := *planned.Guarantee.Delta; d != p.Delta || string(p.Neighbouring) != *planned.Guarantee.Neighbouring {
		return usage.Errorf("its guarantee is for δ = %v and %s neighbors, others' for δ = %v and %s: tune them apart", d, *planned.Guarantee.Neighbouring, p.Delta, p.Neighbouring)
	}
	for _, a := range planned.Guarantee.Assumptions {
		if !slices.Contains(p.Assumptions, a) {
			p.Assumptions = append(p.Assumptions, a)
		}
	}
	p.plans, p.Candidates = append(p.plans, planned), append(p.Candidates, tuned.Candidate{Chosen: choice.values})
	return nil
}

// The scores of trials: keys of a result.
const (
	testAccuracy = "test_accuracy"
	testLoss     = "test_loss"
	trainLoss    = "train_loss"
)

// A released training loss is that of a batch. Its noise is so large that it costs little beside the steps, and where the batch
// allows it, small beside the differences that matter: a deviation of 3/lossShare of the mean loss.
const (
	leastLossNoise = 4
	lossShare      = 150
)

// scoreOf is by what trials are compared: on public test records where there are some, and else by what each releases with noise.
func scoreOf(p *plan.Plan) string {
	switch {
	case !p.Set.TestIsPublic:
		return trainLoss
	case p.Set.Classes == 0:
		return testLoss
	}
	return testAccuracy
}

// check refuses trials whose number of steps or price follow from the data, and those without a guarantee or a Rényi bound.
func check(p *plan.Plan, repeat bool) error {
	t, d, name := p.Traits, p.Declaration, p.Config.Optimizer
	why := func(format string, a ...any) error {
		return usage.Errorf("it cannot be tuned: "+format+"; `privgrad help optimizers` says which optimizers have a committed schedule of noisy sums, such as dp-sgd", a...)
	}
	switch {
	case !t.Private:
		return why("optimizer %s is not private", name)
	case t.Pure || t.Once || t.Local:
		return why("optimizer %s makes no committed schedule of noisy sums", name)
	case p.Filtered():
		return why("a filter ends a run of optimizer %s by what was released", name)
	case d.Budget != dpoptim.Committed:
		return why("optimizer %s plans its noise by itself", name)
	case len(d.Asks) > 1 || d.Asks[0].Question != dpoptim.Gradients:
		return why("optimizer %s searches, or asks for more than sums of gradients", name)
	case p.Price.Epsilon == nil:
		return why("without noise")
	case !p.Guarantee.Guarantee && !(repeat && p.Config.Noise == dpoptim.Seeded):
		return usage.Errorf("it cannot be tuned, as a trial has no guarantee: %s", strings.Join(p.Guarantee.NoGuarantee, "; "))
	}
	return nil
}

// A cost is what trials have in common that differ in what costs nothing.
type cost struct {
	run   price.Run
	fixed *float64 // noise multiplier that the grid has
	at    float64  // ε of the last calibration
	sigma float64
	event []accountant.Event
}

// calibrate sets noise and releases for ε of a trial.
func (c *cost) calibrate(epsilon float64) error {
	if c.event != nil && (c.fixed != nil || c.at == epsilon) {
		return nil
	}
	run := c.run
	run.Settings.Epsilon, run.Settings.NoiseMultiplier = &epsilon, nil
	if c.fixed != nil {
		run.Settings.Epsilon, run.Settings.NoiseMultiplier = nil, c.fixed
	}
	priced, err := price.Of(run)
	if err != nil {
		return err
	}
	c.at, c.sigma = epsilon, priced.Sigma
	c.event, err = priced.Events()
	return err
}

// costs are those of all candidates, one for all that cost the same.
func (p *Plan) costs() (all []*cost, err error) {
	known := map[string]*cost{}
	for _, planned := range p.plans {
		c := &cost{run: planned.Price.Run, fixed: planned.Config.NoiseMultiplier}
		probe := *c
		if probe.fixed == nil {
			probe.fixed = new(1.0)
		}
		if err := probe.calibrate(0); err != nil {
			return nil, err
		}
		key, err := json.Marshal([]any{probe.event, c.fixed})
		if err != nil {
			return nil, err
		}
		if known[string(key)] == nil {
			known[string(key)] = c
		}
		all = append(all, known[string(key)])
	}
	return all, nil
}

// price finds the noise of trials with which the whole costs ε at most.
func (p *Plan) price() error {
	costs, err := p.costs()
	if err != nil {
		return err
	}
	whole := func(trial float64) (float64, error) {
		p.selection.Candidates = nil
		for _, c := range costs {
			if err := c.calibrate(trial); errors.Is(err, accountant.ErrBudget) {
				return 0, &accountant.OutOfReach{Words: fmt.Sprintf("epsilon %v does not pay for the tuning: no noise makes trials of ε = %.3g at δ = %v; raise epsilon or delta, or make fewer trials", p.Asked, trial, p.Delta)}
			} else if err != nil {
				return 0, err
			}
			p.selection.Candidates = append(p.selection.Candidates, c.event)
		}
		r, err := p.selection.Epsilon(p.Neighbouring, p.Delta)
		return r.Epsilon, usage.Wrap(err)
	}
	trial := p.Asked
	if slices.ContainsFunc(costs, func(c *cost) bool { return c.fixed == nil }) {
		const least = 1e-3
		if trial, _, err = accountant.LargestTrial(p.Asked, p.Asked*least, whole); err != nil {
			return err
		}
		p.TrialEpsilon = &trial
	}
	if p.Epsilon, err = whole(trial); err != nil { // of the noise that is kept
		return err
	}
	if p.Epsilon > p.Asked {
		return fmt.Errorf("%w: with the noise multipliers of the grid, the tuning costs ε = %.4g, and %v was given; raise them, or make fewer trials", accountant.ErrBudget, p.Epsilon, p.Asked)
	}
	alone := p.plans[0].Price.Run
	alone.Settings.Accountant, alone.Settings.Epsilon, alone.Settings.NoiseMultiplier = accountant.PLD, &p.Asked, nil
	if a, err := price.Of(alone); err == nil {
		p.Alone = a.Sigma
	}
	return p.complete(costs)
}

// complete makes the configurations of trials, with their noise.
func (p *Plan) complete(costs []*cost) error {
	for i, planned := range p.plans {
		c := planned.Config
		c.Epsilon, c.NoiseMultiplier, c.File, c.Flags = nil, &costs[i].sigma, nil, nil
		c.TensorBoard = false
		text, err := c.Identity()
		if err != nil {
			return err
		}
		at := &p.Candidates[i]
		at.NoiseMultiplier, at.Events, at.Settings = costs[i].sigma, costs[i].event, digest(text)
		p.configs = append(p.configs, c)
	}
	if !(p.Epsilon > 0) || math.IsInf(p.Epsilon, 0) {
		return fmt.Errorf("the tuning costs ε = %v; please report this", p.Epsilon)
	}
	return nil
}

func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// bill is what a budget pays.
func (p *Plan) bill() (*budget.Bill, error) {
	b, err := budget.Of(p.plans[0])
	if err != nil {
		return nil, err
	}
	return b.Tuned(p.selection, digest(p.text), p.Epsilon), nil
}
