package erm

import (
	"context"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/privgrad/privgrad/internal/reproduce"
)

var table3 = reproduce.Figure{
	Name: "erm-table3", Short: "Output perturbation and its rivals: error against ε", Source: zhang + ", table 3", Seeds: 100,
	Plan: planTable3, Show: showTable3,
}

// The lines of the table.
const (
	paperForm = "outpert-gd, the paper's form"
	sameSteps = "outpert-gd, the paper's steps, our noise"
	ourForm   = "outpert-gd, ours"
	noisyGD   = "noisy-gd"
	bassily   = "bassily-sgd"
	atZero    = "w = 0"
	atOptimum = "optimum without privacy"
)

// Runs of what draws its noise anew in every step, at most; of the others a figure has all.
var mostRuns = map[string]int{noisyGD: 10, bassily: 5}

// A cell is one line of the table at one ε.
type cell struct {
	*open
	mu      float64
	epsilon float64
	series  string
	runs    int
	work    float64
}

func planTable3(e *reproduce.Env) (jobs []reproduce.Job, _ error) {
	for _, b := range benchmarks {
		o := b.open(e)
		if o == nil {
			continue
		}
		for _, mu := range b.mus() {
			add := func(epsilon float64, series string, runs int) {
				c := cell{o, mu, epsilon, series, runs, e.Work}
				j := reproduce.Job{What: fmt.Sprint(1, b.name, mu, epsilon, series, runs, c.work, norm, radius, delta), Make: c.make}
				j.Panel, j.Series, j.X = panelOf(b, mu), series, epsilon
				jobs = append(jobs, j)
			}
			add(0, atOptimum, 1)
			add(0, atZero, 1)
			for _, epsilon := range epsilons {
				for _, series := range []string{paperForm, sameSteps, ourForm, noisyGD, bassily} {
					runs := e.Seeds
					if most := mostRuns[series]; most > 0 {
						runs = min(runs, most)
					}
					add(epsilon, series, runs)
				}
			}
		}
	}
	return jobs, nil
}

// make makes the runs of a cell.
func (c cell) make(ctx context.Context) (reproduce.Records, error) {
	t, err := c.read()
	if err != nil {
		return nil, err
	}
	mu := c.mu
	h := fnv.New64()
	fmt.Fprint(h, c.name, mu, c.epsilon, c.series)
	random := rand.New(rand.NewPCG(h.Sum64(), 1))
	p := c.problem(mu, c.epsilon)
	var b *batch
	steps := 0
	switch c.series {
	case atZero:
		b = t.batch(1)
	case atOptimum:
		if b, err = t.minimize(mu); err != nil {
			return nil, err
		}
	case bassily:
		return c.bassily(ctx, t, p, random)
	default:
		do, err := p.plan(c.series)
		if err != nil {
			return nil, err
		}
		if do.steps = max(int(c.work*float64(do.steps)), 1); c.series == noisyGD {
			b, err = t.descend(c.runs, do, mu, ctx.Err, random)
		} else if b, err = t.descend(1, do, mu, ctx.Err, nil); err == nil {
			b = t.release(b, c.runs, do.noise, random)
		}
		if err != nil {
			return nil, err
		}
		steps = do.steps
	}
	return c.records(t.objectives(b, mu), steps), nil
}

// plan is what a method of full gradients does.
func (p problem) plan(series string) (descent, error) {
	switch series {
	case paperForm:
		return p.published(), nil
	case sameSteps:
		return p.tight(p.published().steps)
	case noisyGD:
		return p.noisy()
	}
	return p.planned()
}

func (c cell) bassily(ctx context.Context, t *table, p problem, random *rand.Rand) (all reproduce.Records, _ error) {
	for seed := range c.runs {
		b, steps, err := t.bassily(p, c.work, ctx.Err, random)
		if err != nil {
			return nil, err
		}
		one := c.records(t.objectives(b, p.mu), steps)
		one[0].Seed = seed + 1
		all = append(all, one...)
	}
	return all, nil
}

func (c cell) records(objectives []float64, steps int) (all reproduce.Records) {
	for k, f := range objectives {
		r := reproduce.Record{Seed: k + 1, Step: steps, Final: true, TrainLoss: &f}
		if c.epsilon > 0 {
			r.Epsilon, r.Delta = &c.epsilon, new(delta)
		}
		all = append(all, r)
	}
	return all
}

// errors of a line at ε are objectives less the least without privacy.
func errorsOf(rs reproduce.Records, panel, series string, epsilon float64) reproduce.Estimate {
	at := func(series string, x float64) reproduce.Estimate {
		return rs.Mean(panel, series, x, reproduce.Objective)
	}
	least := at(atOptimum, 0)
	if series == atZero {
		epsilon = 0
	}
	e := at(series, epsilon)
	if e.Mean -= least.Mean; series == atZero {
		e.Err = 0 // nothing is drawn
	}
	return e
}

// apart is the difference of two lines, whose runs are independent of each other.
func apart(a, b reproduce.Estimate) reproduce.Estimate {
	n := min(a.N, b.N)
	if a.Err == 0 || b.Err == 0 {
		n = max(a.N, b.N)
	}
	if min(a.N, b.N) == 0 {
		n = 0
	}
	return reproduce.Estimate{Mean: a.Mean - b.Mean, Err: math.Hypot(a.Err, b.Err), N: n}
}

// each calls for every cell of a panel that was run.
func each(rs reproduce.Records, of func(b *benchmark, place int, panel string, k int, epsilon float64)) {
	panels := rs.Panels()
	for _, b := range benchmarks {
		for place, mu := range b.mus() {
			if panel := panelOf(b, mu); slices.Contains(panels, panel) {
				for k, epsilon := range epsilons {
					of(b, place, panel, k, epsilon)
				}
			}
		}
	}
}

var drawn = []string{paperForm, sameSteps, ourForm, noisyGD, bassily, atZero}

func showTable3(e *reproduce.Env, rs reproduce.Records) reproduce.Page {
	p := reproduce.Page{Claims: table3Claims(rs), Tables: []reproduce.Table{errorTable(rs), noiseTable(), askedTable(rs)}}
	var charts [2][]reproduce.Chart
	for _, b := range benchmarks {
		for place, mu := range b.mus() {
			panel := panelOf(b, mu)
			if !slices.Contains(rs.Panels(), panel) {
				continue
			}
			c := reproduce.Chart{Title: panel, X: "ε", Y: "error", Log: true, LogY: true}
			for _, series := range drawn {
				l := reproduce.Line{Name: series, Flat: series == atZero}
				for _, epsilon := range epsilons {
					if m := errorsOf(rs, panel, series, epsilon); m.Mean > 0 {
						l.Add(epsilon, m, 1)
					}
				}
				c.Lines = append(c.Lines, l)
			}
			charts[place] = append(charts[place], c)
		}
	}
	p.Charts = charts[:]
	p.How = []string{
		fmt.Sprintf("Error is F(w) − F(ŵ), with ŵ by L-BFGS. δ = %g, replace-one. Each record's features are scaled to norm %g at most and an intercept is added, so that L = √2 and β = 1/2 for logistic loss, 2 for Huber's; the penalty adds μ to β. Steps are 1/β, or 1/(β+μ). Huber's loss is linear beyond residuals of 1.", delta, norm),
		fmt.Sprintf("The paper does not give the scale of features and targets, Huber's δ, D, or the constant in its number of steps. Here features come from public bounds, wine has its score from 0 to 10, rentals are in hundreds, D = R = %g, and the constant is 1. So compare orders and ratios with the published errors, not digits. Dimensions here, with the intercept, and in the paper: %s.", radius, dimensions()),
		fmt.Sprintf("\"%s\": steps of theorems 2 and 3, sensitivities 3LTη/n and 5L(μ+β)/(nμβ), noise of algorithm 1. \"%s\": the same steps with the tight sensitivity and the exact condition for the Gaussian. \"%s\": this noise, and the number of steps that makes a public bound least; a linear model's loss rises by (β−μ)σ²/2 at most by noise σ in every coordinate, whatever the dimension, plus μdσ²/2.", paperForm, sameSteps, ourForm),
		fmt.Sprintf("\"%s\" is full-batch gradient descent with Gaussian noise in every step, priced exactly, at most %d steps. \"%s\" is private SGD of Bassily, Smith and Thakurta 2014 on batches of %d as the paper has it: (n/%[4]d)² steps, their noise and step sizes, last iterate.", noisyGD, mostNoisySteps, bassily, bassilyBatch),
		fmt.Sprintf("These are simulations in float64 with ordinary pseudo-random noise. A descent without noise is the same in every run, so the %d runs of output perturbation release from one descent. %s has at most %d runs, and %s %d. Lines are independent of each other and not paired.", e.Seeds, noisyGD, mostRuns[noisyGD], bassily, mostRuns[bassily]),
		"The paper prints its logistic loss as log(1+exp(1+y⟨w, x⟩)), which would reward errors. Here it is log(1+exp(−y⟨w, x⟩)).",
		"ADULT without a penalty has no optimum that L-BFGS would reach: its error is against where nothing improved by a part in 10⁸.",
	}
	return p
}

func dimensions() (text string) {
	for i, b := range benchmarks {
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprintf("%s %d and %d", b.name, b.here, b.dim)
	}
	return text
}

// errorTable has what the paper has, and ours beside it.
func errorTable(rs reproduce.Records) reproduce.Table {
	h := reproduce.Table{Title: "Error F(w) − F(ŵ)", Head: []string{"data, μ", "ε", "published: theirs", "published: Bassily et al."}}
	h.Head = append(h.Head, drawn...)
	each(rs, func(b *benchmark, place int, panel string, k int, epsilon float64) {
		cells := []string{panel, fmt.Sprint(epsilon), fmt.Sprint(b.theirs[place][k]), fmt.Sprint(b.bassily[place][k])}
		for _, series := range drawn {
			cells = append(cells, short(errorsOf(rs, panel, series, epsilon)))
		}
		h.Rows = append(h.Rows, cells)
	})
	return h
}

func short(e reproduce.Estimate) string {
	switch {
	case e.N == 0:
		return "–"
	case e.Err == 0 || e.N == 1:
		return fmt.Sprintf("%.3g", e.Mean)
	}
	return fmt.Sprintf("%.3g ± %.1g", e.Mean, e.Half())
}

// askedTable has what a run asks for: the paper compares times, which depend on the machine.
func askedTable(rs reproduce.Records) reproduce.Table {
	h := reproduce.Table{Title: "Gradients of records that a run asks for, thousands", Head: []string{"data, μ", "ε", "steps of " + paperForm}}
	shown := []string{paperForm, ourForm, noisyGD, bassily}
	h.Head = append(h.Head, shown...)
	each(rs, func(b *benchmark, _ int, panel string, _ int, epsilon float64) {
		cells := []string{panel, fmt.Sprint(epsilon), fmt.Sprintf("%.0f", steps(rs, panel, paperForm, epsilon))}
		for _, series := range shown {
			cells = append(cells, fmt.Sprintf("%.0f", b.asked(rs, panel, series, epsilon)/1000))
		}
		h.Rows = append(h.Rows, cells)
	})
	return h
}

func steps(rs reproduce.Records, panel, series string, epsilon float64) float64 {
	return rs.Mean(panel, series, epsilon, func(r *reproduce.Record) *float64 { return new(float64(r.Step)) }).Mean
}

// asked counts the gradients of records of a run.
func (b *benchmark) asked(rs reproduce.Records, panel, series string, epsilon float64) float64 {
	if series == bassily {
		return bassilyBatch * steps(rs, panel, series, epsilon)
	}
	return float64(b.records) * steps(rs, panel, series, epsilon)
}
