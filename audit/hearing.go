package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/dpoptim/batches"
	"github.com/privgrad/privgrad/internal/audit/hear"
	"github.com/privgrad/privgrad/internal/audit/play"
	"github.com/privgrad/privgrad/internal/audit/verdict"
	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/devices"
	"github.com/privgrad/privgrad/internal/plan"
	"github.com/privgrad/privgrad/internal/source"
	"github.com/privgrad/privgrad/internal/stream"
	"github.com/privgrad/privgrad/internal/tables"
	"github.com/privgrad/privgrad/internal/usage"
)

// A hearing is a method in two worlds, and an adversary who hears all that it is answered, and
// knows the noise that is drawn. The claim is the price of what the method declares.
type hearing struct {
	config Config
	scene  *hear.Scene
	plan   *plan.Plan
	claim  *verdict.Claim
	order  float64 // of the filter, 0 where there is none
	key    func(purpose string) (stream.Key, error)

	// What tests spoil.
	newBudget func() (accountant.Budget, error)
	distort   func(dpoptim.Question, dpoptim.Release) dpoptim.Release // nil: what is asked for is released
	solver    func(dpoptim.Solver) dpoptim.Solver                     // nil: the method's own solves
}

// prepareHearing makes ready what the runs share.
func prepareHearing(c Config, s stage) (*hearing, error) {
	t := config.Default()
	t.Data, t.Model, t.Seed, t.Optimizer = syntheticName, "logistic", c.Seed, c.Optimizer
	if t.Epsilon, t.Delta = &c.Epsilon, &c.Delta; c.Epsilon == 0 {
		t.Epsilon = &s.epsilon
	}
	t.Noise, t.Device, t.Threads = c.Noise, c.Device, 1
	if c.Accountant != "" {
		t.Accountant = c.Accountant
	}
	t.Relate(accountant.Neighbouring(c.Neighbouring))
	scene := s.scene(t.Neighbouring)
	t.PublicN = new(scene.Beside + 1)
	set := &datasets.Set{Name: syntheticName, Classes: 2, Train: datasets.Split{Shape: [3]int{1, 1, 1}, Unit: true}}
	if scene.Regression {
		t.Model, set.Classes = "huber-regression", 0
	}
	s.with(&t)
	open := func(string) (*datasets.Set, error) { return set, nil }
	p, err := plan.Resolve(t, plan.Options{Sources: map[string]source.Source{syntheticName: {Open: open, BuiltIn: true}}})
	if err != nil {
		return nil, err
	}
	g := &hearing{config: c, scene: scene, plan: p}
	g.key = func(string) (stream.Key, error) { return stream.NewKey() }
	if c.Noise == dpoptim.Seeded {
		g.key = g.seeded
	}
	return g, g.price()
}

func (g *hearing) seeded(purpose string) (stream.Key, error) {
	return stream.KeyFromSeed(g.config.Seed, "audit of answers, "+purpose), nil
}

// price makes the claim: that of the planned events, or that of the filter.
func (g *hearing) price() error {
	c := g.plan.Config
	relation := accountant.Neighbouring(c.Neighbouring)
	if !g.plan.Filtered() {
		events, err := g.plan.Events()
		if err == nil && *c.Delta == 0 {
			g.claim, err = pureClaim(events, *g.plan.Epsilon, relation)
		} else if err == nil {
			g.claim, err = verdict.NewClaim(events, accountant.Options{Accountant: c.Accountant, Neighbouring: relation, Delta: *c.Delta})
		}
		return err
	}
	b, err := g.plan.NewBudget()
	if err != nil {
		return err
	}
	f, ok := b.(*accountant.Filter)
	if !ok {
		return usage.Errorf("accountant %s: its filter says no more than one (ε, δ), which an audit cannot reach; use %s", c.Accountant, accountant.RDP)
	}
	g.order = f.Order()
	g.newBudget = func() (accountant.Budget, error) {
		return accountant.NewFilter(*c.Epsilon, *c.Delta, relation, g.order)
	}
	g.claim, err = filterClaim(*c.Epsilon, *c.Delta, g.order)
	return err
}

// pureClaim is that of a release without δ.
func pureClaim(events []accountant.Event, epsilon float64, relation accountant.Neighbouring) (*verdict.Claim, error) {
	return verdict.ClaimOf(epsilon, 0, func(e float64) (float64, error) {
		r, err := accountant.Account(events, accountant.Options{Accountant: accountant.PLD, Neighbouring: relation, Epsilon: &e})
		return r.Delta, usage.Wrap(err)
	})
}

// filterClaim is what a filter claims that admits Rényi divergences at an order up to what (ε, δ)
// allows: δ at every ε by the same conversion.
func filterClaim(epsilon, delta, order float64) (*verdict.Claim, error) {
	return verdict.ClaimOf(epsilon, delta, func(e float64) (float64, error) {
		return delta * math.Exp((order-1)*(epsilon-e)), nil
	})
}

// play draws the runs and judges them.
func (g *hearing) play(ctx context.Context) (*Result, error) {
	c := &g.config
	d, err := devices.Open(c.Device, 1)
	if err != nil {
		return nil, err
	}
	name := d.Info().Name
	if err := d.Close(); err != nil {
		return nil, err
	}
	e := verdict.NewDesign(cmp.Or(c.Runs, smallestDesign), g.claim)
	stats, err := g.runs(ctx, e.Runs()/2)
	if err != nil {
		return nil, err
	}
	p := &g.plan.Config
	r := &Result{
		Optimizer: c.Optimizer, Heard: stages[c.Optimizer].hears, Model: p.Model, Parameters: len(g.scene.Params), Data: syntheticName,
		Device: name, Threads: c.Threads, NoiseMultiplier: g.plan.Sigma, SamplingRate: g.plan.SamplingRate, Steps: g.plan.Steps, Clip: p.Clip, Clipping: p.Clipping,
		Strategy: p.Strategy, PrivacyUnit: g.plan.Guarantee.PrivacyUnit, Noise: c.Noise, Neighbouring: p.Neighbouring, Accountant: p.Accountant, Delta: *p.Delta, Seed: c.Seed,
		Canary: Tight, CanaryNorm: 1, CanaryShare: 1, EpsilonClaimed: g.claim.Epsilon,
		Notes: []string{"this audit knows no power beforehand; docs/explain/auditing.md says which faults of this optimizer it convicts, and in how many runs"},
	}
	if c.Noise == dpoptim.Seeded {
		r.NotPrivate = plan.SeededLabel
	}
	r.judged(e, e.Judge(stats, g.claim))
	return r, nil
}

func (g *hearing) runs(ctx context.Context, times int) ([2][]float64, error) {
	return play.Runs(ctx, g.config.Threads, times, g.config.Progress, func(i int) (play.Player, error) { return g.newTalk(i) })
}

// A talk has an engine in each world.
type talk struct{ worlds [2]*world }

func (g *hearing) newTalk(lane int) (*talk, error) {
	t := &talk{}
	for w := range t.worlds {
		var err error
		if t.worlds[w], err = g.newWorld(w, fmt.Sprintf("lane %d world %d ", lane, w)); err != nil {
			t.Close()
			return nil, err
		}
	}
	return t, nil
}

func (t *talk) Run(w int) (float64, error) { return t.worlds[w].run() }

func (t *talk) Close() {
	for _, w := range t.worlds {
		if w != nil {
			w.close()
		}
	}
}

// A world is a data set on a device.
type world struct {
	game      *hearing
	plan      plan.Plan // with the adversary beside its method
	device    device.Device
	records   tables.Records
	noise     *stream.Stream
	adversary *hear.Adversary
	supply    *admitting
}

func (g *hearing) newWorld(w int, name string) (_ *world, err error) {
	rows := hear.RowsOf(g.scene.Beside)
	if canary := g.scene.Canary[w]; canary >= 0 {
		rows = append(rows, canary)
	}
	key, err := g.key(name + "sampling")
	if err != nil {
		return nil, err
	}
	sampler, err := g.plan.Sampler(len(rows), key)
	if err != nil {
		return nil, err
	}
	if key, err = g.key(name + "noise"); err != nil {
		return nil, err
	}
	x := &world{game: g, plan: *g.plan, adversary: &hear.Adversary{Scene: g.scene, Plan: g.plan, Distort: g.distort, Solver: g.solver}}
	if x.noise, err = x.plan.Stream(key); err != nil {
		return nil, err
	}
	x.supply = &admitting{hearing: g, sampler: sampler, adversary: x.adversary}
	x.plan.Method = x.adversary.Method(g.plan.Method)
	set := *g.plan.Set
	x.records.Rows, x.records.Values, set.Train.Labels = g.scene.Table(rows)
	x.plan.Set = &set
	if x.device, err = devices.Open(g.config.Device, 1); err != nil {
		return nil, err
	}
	if x.records.Data, err = x.device.Load(x.records.Rows, x.records.Values); err != nil {
		x.device.Close()
		return nil, err
	}
	return x, nil
}

func (x *world) close() {
	x.records.Data.Close()
	x.device.Close()
}

// run is a whole one, from the beginning.
func (x *world) run() (_ float64, err error) {
	g := x.game
	x.supply.slot, x.supply.update, x.supply.budget = 0, 0, nil
	e, err := x.plan.Engine(x.device, x.records, x.noise, nil, x.supply)
	if err != nil {
		return 0, err
	}
	defer e.Close()
	if err := e.SetParams(g.scene.Params); err != nil {
		return 0, err
	}
	x.adversary.Begin()
	if g.order > 0 {
		if x.supply.budget, err = g.newBudget(); err != nil {
			return 0, err
		}
	}
	for range g.plan.MostSteps {
		n, err := e.Steps.Step()
		if errors.Is(err, accountant.ErrBudget) {
			break
		}
		if err != nil {
			return 0, err
		}
		x.supply.slot++
		x.supply.update += n
		if f, ok := e.Steps.(dpoptim.Finisher); ok && f.Finished() {
			break
		}
	}
	return x.adversary.Value(), nil
}

// admitting is a supply of random batches. No ledger pays; a filter admits where the plan says so.
type admitting struct {
	*hearing
	sampler      batches.Sampler
	adversary    *hear.Adversary
	budget       accountant.Budget // nil where the schedule is committed
	slot, update int
	draws        uint64 // of all runs: no position serves twice
}

func (s *admitting) Slot() int      { return s.slot }
func (s *admitting) Update() int    { return s.update + 1 }
func (s *admitting) Stopped() error { return nil }

func (s *admitting) Left() float64 {
	if s.budget == nil {
		return 1 - float64(s.update+1)/float64(s.plan.Steps)
	}
	return s.budget.Left()
}

// Batch draws one, and tells the adversary of the records beside the canary.
func (s *admitting) Batch(_ dpoptim.Question, skip bool, dst []int32) ([]int32, uint64) {
	s.draws++
	if skip {
		return dst, s.draws
	}
	dst = s.sampler.Batch(s.draws-1, dst)
	a := s.adversary
	a.Rows = a.Rows[:0]
	for _, row := range dst {
		if int(row) < a.Scene.Beside {
			a.Rows = append(a.Rows, row)
		}
	}
	return dst, s.draws
}

func (s *admitting) Admit(asked ...accountant.Mechanism) error {
	if s.budget == nil {
		return nil
	}
	return s.budget.Ask(s.plan.BatchEvent(asked...))
}
