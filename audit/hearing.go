package audit

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/devices"
	"github.com/privgrad/privgrad/internal/engine"
	"github.com/privgrad/privgrad/internal/plan"
	"github.com/privgrad/privgrad/internal/stream"
	"github.com/privgrad/privgrad/internal/usage"
)

// hearing is a method in two worlds, and an adversary who hears all that it is answered. The
// claim is the price of what was declared; the plan is what runs, and the rest what tests spoil.
type hearing struct {
	config   Config
	scene    *scene
	plan     *plan.Plan
	asks     map[dpoptim.Question]dpoptim.Ask
	declared map[dpoptim.Question]dpoptim.Release
	claim    *claim
	order    float64 // of the filter, where there is one
	key      func(purpose string) (stream.Key, error)
	distort  func(dpoptim.Question, dpoptim.Release) dpoptim.Release
	charged  func([]accountant.Mechanism) []accountant.Mechanism
}

// prepareHearing makes ready what the runs share.
func prepareHearing(c Config, s stage) (*hearing, error) {
	g := &hearing{config: c, scene: s.scene(c.Neighbouring), asks: map[dpoptim.Question]dpoptim.Ask{}, declared: map[dpoptim.Question]dpoptim.Release{}}
	g.key = func(string) (stream.Key, error) { return stream.NewKey() }
	if c.Noise == dpoptim.Seeded {
		g.key = g.seeded
	}
	t := plan.Default()
	t.Data, t.Model, t.Seed, t.Optimizer = syntheticName, "logistic", c.Seed, c.Optimizer
	t.Epsilon, t.Delta, t.Neighbouring, t.Accountant = &c.Epsilon, &c.Delta, c.Neighbouring, c.Accountant
	t.Noise, t.Device, t.Threads, t.Clip = c.Noise, c.Device, 1, c.Clip
	t.PublicN = new(publicRecords)
	s.with(&t)
	set := &datasets.Set{Name: syntheticName, Classes: 2, Train: datasets.Split{Shape: [3]int{1, 1, 1}, Unit: true}}
	open := func(string) (*datasets.Set, error) { return set, nil }
	var err error
	if g.plan, err = plan.Resolve(t, plan.Options{Sources: map[string]plan.Source{syntheticName: {Open: open, BuiltIn: true}}}); err != nil {
		return nil, err
	}
	for _, a := range g.plan.Declaration.Asks {
		r, err := a.Release(g.plan.Sigma)
		if err != nil {
			return nil, usage.Wrap(err)
		}
		if r.Bound == 0 {
			r.Bound = g.plan.Facts.Clip
		}
		g.asks[a.Question], g.declared[a.Question] = a, r
	}
	return g, g.price()
}

func (g *hearing) seeded(purpose string) (stream.Key, error) {
	return stream.KeyFromSeed(g.config.Seed, "audit of answers, "+purpose), nil
}

// publicRecords is a size of the data set that nothing depends on but the unit of step sizes.
const publicRecords = 1

// price makes the claim: that of the planned events, or that of the filter.
func (g *hearing) price() error {
	p, c := g.plan, &g.config
	if !p.Filtered() {
		events, err := p.Events()
		if err == nil {
			g.claim, err = newClaim(events, accountant.Options{Accountant: p.Config.Accountant, Neighbouring: accountant.Neighbouring(c.Neighbouring), Delta: c.Delta})
		}
		return err
	}
	b, err := p.NewBudget()
	if err != nil {
		return err
	}
	f, ok := b.(*accountant.Filter)
	if !ok {
		return usage.Errorf("accountant %s: its filter says no more than one (ε, δ), which an audit cannot reach; use %s", p.Config.Accountant, accountant.RDP)
	}
	g.order = f.Order()
	g.claim, err = filterClaim(c.Epsilon, c.Delta, g.order)
	return err
}

// filterClaim is what a filter claims that admits Rényi divergences at an order up to what (ε, δ)
// allows: δ at every ε by the same conversion.
func filterClaim(epsilon, delta, order float64) (*claim, error) {
	return claimOf(epsilon, delta, func(e float64) (float64, error) {
		return delta * math.Exp((order-1)*(epsilon-e)), nil
	})
}

func (g *hearing) runs(ctx context.Context, times int) ([2][]float64, error) {
	return playRuns(ctx, g.config, times, func(i int) (player, error) { return g.newTalk(i) })
}

// A talk has an engine in each world.
type talk struct{ worlds [2]*world }

func (g *hearing) newTalk(lane int) (*talk, error) {
	t := &talk{}
	for w := range t.worlds {
		var err error
		if t.worlds[w], err = g.newWorld(w, fmt.Sprintf("lane %d world %d ", lane, w)); err != nil {
			t.close()
			return nil, err
		}
	}
	return t, nil
}

func (t *talk) run(w int) (float64, error) { return t.worlds[w].run() }

func (t *talk) close() {
	for _, w := range t.worlds {
		if w != nil {
			w.close()
		}
	}
}

// A world is a data set, with a method on it.
type world struct {
	game      *hearing
	device    device.Device
	data      device.Data
	engine    *engine.Engine
	adversary *adversary
	supply    *admitting
	fresh     []byte // what a run begins with, of a method that keeps a state
}

func (g *hearing) newWorld(w int, name string) (_ *world, err error) {
	rows := rowsOf(g.scene.beside)
	if canary := g.scene.canary[w]; canary >= 0 {
		rows = append(rows, canary)
	}
	noiseKey, err := g.key(name + "noise")
	if err != nil {
		return nil, err
	}
	noise, err := g.plan.Stream(noiseKey)
	if err != nil {
		return nil, err
	}
	key, err := g.key(name + "sampling")
	if err != nil {
		return nil, err
	}
	sampler, err := g.plan.Sampler(len(rows), key)
	if err != nil {
		return nil, err
	}
	x := &world{game: g}
	defer func() {
		if err != nil {
			x.close()
		}
	}()
	if x.device, err = devices.Open(g.config.Device, 1); err != nil {
		return nil, err
	}
	p := *g.plan
	set := *p.Set
	table := device.Rows{Width: 1, Count: len(rows)}
	var features device.Floats
	for _, row := range rows {
		features = append(features, float32(g.scene.features[row]))
		table.Targets = append(table.Targets, float32(g.scene.targets[row]))
		set.Train.Labels = append(set.Train.Labels, uint8(g.scene.targets[row]+1)/2)
	}
	p.Set = &set
	if x.data, err = x.device.Load(table, features); err != nil {
		return nil, err
	}
	x.adversary = &adversary{scene: g.scene, asks: g.asks, declared: g.declared, rate: p.SamplingRate, normaliser: p.ExpectedBatch, read: make([]float32, len(g.scene.params))}
	x.supply = &admitting{game: g, sampler: sampler, adversary: x.adversary}
	p.Method = heard{p.Method, x.adversary, g.distort}
	if x.engine, err = p.Engine(x.device, x.data, noise, x.supply); err != nil {
		return nil, err
	}
	if k, ok := x.engine.Steps.(dpoptim.Keeper); ok {
		x.fresh, err = k.Save(dpoptim.Spent{})
	}
	return x, err
}

// rowsOf are the first n.
func rowsOf(n int) (rows []int32) {
	for i := range int32(n) {
		rows = append(rows, i)
	}
	return rows
}

func (x *world) close() {
	if x.engine != nil {
		x.engine.Close()
	}
	if x.data != nil {
		x.data.Close()
	}
	if x.device != nil {
		x.device.Close()
	}
}

// run is a whole one, from the beginning.
func (x *world) run() (float64, error) {
	if err := x.begin(); err != nil {
		return 0, err
	}
	p := x.game.plan
	for range p.MostSteps {
		n, err := x.engine.Steps.Step()
		if errors.Is(err, accountant.ErrBudget) {
			break
		}
		if err != nil {
			return 0, err
		}
		x.supply.slot++
		x.supply.update += n
	}
	if err := x.engine.Wait(); err != nil {
		return 0, err
	}
	return x.adversary.value(), nil
}

// begin has the method forget earlier runs.
func (x *world) begin() (err error) {
	g := x.game
	x.adversary.reset()
	x.adversary.rows = rowsOf(g.scene.beside)
	if err := x.engine.SetParams(g.scene.params); err != nil {
		return err
	}
	for _, s := range x.engine.Steps.State() {
		if err := x.engine.Write(s.Vector, make([]float32, s.Width*len(g.scene.params))); err != nil {
			return err
		}
	}
	if k, ok := x.engine.Steps.(dpoptim.Keeper); ok {
		if _, err := k.Restore(x.fresh); err != nil {
			return err
		}
	}
	x.supply.update = 0
	if g.plan.Filtered() {
		c := &g.config
		x.supply.budget, err = accountant.NewFilter(c.Epsilon, c.Delta, accountant.Neighbouring(c.Neighbouring), g.order)
	}
	return err
}

// admitting is a supply of random batches. No ledger pays; a filter admits where the plan says so.
type admitting struct {
	game         *hearing
	sampler      datasets.Sampler
	adversary    *adversary
	budget       accountant.Budget // nil where the schedule is committed
	slot, update int
	draws        uint64 // of all runs: no position serves twice
}

func (s *admitting) Slot() int      { return s.slot }
func (s *admitting) Update() int    { return s.update + 1 }
func (s *admitting) Stopped() error { return nil }

func (s *admitting) Left() float64 {
	if s.budget == nil {
		return 1 - float64(s.update+1)/float64(s.game.plan.Steps)
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
	a.rows = a.rows[:0]
	for _, row := range dst {
		if int(row) < a.beside {
			a.rows = append(a.rows, row)
		}
	}
	return dst, s.draws
}

func (s *admitting) Admit(asked ...accountant.Mechanism) error {
	if s.budget == nil {
		return nil
	}
	if s.game.charged != nil {
		asked = s.game.charged(asked)
	}
	return s.budget.Ask(s.game.plan.BatchEvent(asked...))
}
