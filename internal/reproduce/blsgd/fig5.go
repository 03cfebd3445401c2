package blsgd

import (
	"fmt"
	"math"
	"strconv"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/internal/reproduce"
	"github.com/privgrad/privgrad/train"
)

var fig5 = reproduce.Figure{
	Name: "fig5", Short: "Networks: accuracy, objective, ε and step size by iterations", Source: chenLee + ", figure 5", Seeds: 5, Most: mostNetworkSeeds,
	Plan: planFig5, Show: func(e *reproduce.Env, rs reproduce.Records) reproduce.Page { return showNetworks(e, rs, networks) },
}

// fig5CIFAR is a figure of its own, as its four runs take as long as all the others.
var fig5CIFAR = reproduce.Figure{
	Name: "fig5-cifar10", Short: "The column of figure 5 for CIFAR-10", Source: chenLee + ", figure 5, CIFAR-10", Seeds: 5, Most: mostNetworkSeeds,
	Plan: func(e *reproduce.Env) ([]reproduce.Job, error) { return planNetworks(e, cifarNetwork), nil },
	Show: func(e *reproduce.Env, rs reproduce.Records) reproduce.Page { return showNetworks(e, rs, cifarNetwork) },
}

// A network is a column of figure 5.
type network struct {
	panel, data, model string
	sgdRate            float64 // section 5.4
	steps              int
	hour               int // iterations on a CPU, where one seed with them takes two cores an hour; 0: all
}

// mostNetworkSeeds bounds the seeds of a network's open comparisons: a run takes minutes.
const mostNetworkSeeds = 10

// size gives the iterations of a network, its seeds, and the points of its curves. A test of CIFAR-10's network on all
// records takes a minute of a core, a step with a search several seconds.
func (n network) size(e *reproduce.Env) (steps, seeds, points int) {
	if n.hour == 0 || e.OnGPU() {
		return e.Steps(n.steps), e.Seeds, evaluations
	}
	return e.Steps(n.hour), 1, 4
}

var networks = []network{
	{"MNIST, MLP", "mnist", "mlp-mnist", 0.2, 1000, 0},
	{"Fashion-MNIST, MLP", "fmnist", "mlp-fmnist", 0.2, 1000, 0},
	{"MNIST, CNN", "mnist", "cnn-mnist", 0.2, 1000, 0},
	{"Fashion-MNIST, CNN", "fmnist", "cnn-mnist", 0.2, 1000, 0},
}

var cifarNetwork = []network{{"CIFAR-10, CNN", "cifar10", "cifar-paper", 0.1, 1000, 300}}

// The lines of figure 5.
const (
	publishedSearch = "dp-blsgd, published"
	ownSearch       = "dp-blsgd, ours"
	plainSGD        = "dp-sgd"
	plainAdam       = "dp-adam"

	networkRate  = 1.0 / 200 // sampling, section 5.4
	stepMu       = 1.0       // what a step costs its batch: μ-GDP, (α, α/2)-RDP
	searchShare  = 0.1
	networkStart = 1.0
	evaluations  = 20 // points of a curve
)

// networkRun is a run of section 5.7 at the same budget for every iteration: μ, of
// which searches take a tenth.
func networkRun(n network, series string, steps, points int) train.Config {
	c := train.Default()
	c.Data, c.Model, c.Activation, c.L2 = n.data, n.model, "relu", 1e-3
	c.Clip, c.SamplingRate, c.Steps, c.Delta = 3, new(networkRate), &steps, new(delta)
	c.EvalEvery = max(steps/points, 1)
	c.NoiseMultiplier = new(1 / stepMu)
	switch series {
	case plainSGD:
		c.Optimizer, c.LR = "dp-sgd", new(n.sgdRate)
	case plainAdam:
		c.Optimizer, c.LR = "dp-adam", new(1e-3)
	default:
		c.Optimizer, c.LR = "dp-blsgd", new(networkStart)
		c.NoiseMultiplier = new(1 / (stepMu * math.Sqrt(1-searchShare)))
		c.Search = train.Search{Budget: "fixed", Share: new(searchShare)}
		if series == publishedSearch {
			c.Search.Form, c.Search.Batches = "losses", string(accountant.PaperBatches)
		}
	}
	return c
}

func planFig5(e *reproduce.Env) ([]reproduce.Job, error) {
	all := networks
	if e.Quick {
		all = []network{networks[1], networks[3]}
		e.Skip("a quick run has Fashion-MNIST only")
	}
	return planNetworks(e, all), nil
}

func planNetworks(e *reproduce.Env, all []network) (jobs []reproduce.Job) {
	for _, n := range all {
		steps, seeds, points := n.size(e)
		for _, series := range []string{publishedSearch, ownSearch, plainSGD, plainAdam} {
			for seed := 1; seed <= seeds; seed++ {
				j := reproduce.Job{Config: networkRun(n, series, steps, points)}
				j.Panel, j.Series, j.Seed, j.Config.Seed = n.panel, series, seed, uint64(seed)
				if e.Images(&j.Config, n.data) {
					jobs = append(jobs, j)
				}
			}
		}
	}
	return jobs
}

var (
	spentSoFar = reproduce.Quantity{Name: "ε so far", Of: func(r *reproduce.Record) *float64 { return r.EpsilonSoFar }, Scale: 1, Text: reproduce.Estimate.Number}
	stepSize   = reproduce.Quantity{Name: "step size", Of: func(r *reproduce.Record) *float64 { return r.Rate }, Scale: 1, Text: reproduce.Estimate.Number}
)

func showNetworks(e *reproduce.Env, rs reproduce.Records, all []network) reproduce.Page {
	var p reproduce.Page
	kinds := []reproduce.Quantity{reproduce.TestAccuracy, reproduce.TrainObjective, spentSoFar, stepSize}
	rows := make([][]reproduce.Chart, len(kinds))
	h := reproduce.Table{Title: "At the end", Head: []string{"network", "method", "test accuracy, %", "objective", "ε", "step size"}}
	for _, panel := range rs.Panels() {
		for k, kind := range kinds {
			c := reproduce.Chart{Title: panel, X: "iterations", Y: kind.Name}
			for _, series := range rs.Series(panel) {
				l := reproduce.Line{Name: series}
				for _, step := range rs.Steps(panel, series) {
					l.Add(float64(step), reproduce.Mean(rs.At(panel, series, step, kind.Of)), kind.Scale)
				}
				c.Lines = append(c.Lines, l)
			}
			rows[k] = append(rows[k], c)
		}
		for _, series := range rs.Series(panel) {
			cells := []string{panel, series}
			for _, kind := range kinds {
				cells = append(cells, kind.Text(rs.Mean(panel, series, 0, kind.Of)))
			}
			h.Rows = append(h.Rows, cells)
		}
	}
	p.Charts, p.Tables = rows, []reproduce.Table{h}
	for _, form := range []string{publishedSearch, ownSearch} {
		p.Claims = append(p.Claims, fig5Claims(rs, form)...)
	}
	p.Claims = append(p.Claims, sameSpeed())
	steps, seeds, _ := all[0].size(e)
	p.How = []string{
		"Settings of sections 5.4 and 5.7: q = 1/200, C_grad = C_obj = 3, α = 0.001, β = 0.8, L2 0.001, δ = 1e-8. The learning rate of DP-SGD is 0.2 (0.1 on CIFAR-10), and that of DP-Adam is its default, 0.001. The search takes a tenth of every iteration's budget.",
		fmt.Sprintf("The paper does not give the budget of an iteration, the number of iterations, where searches start, how many candidates they try, or the activation. Here they are ρ = 0.5 (noise multiplier 1 for DP-SGD), %d iterations, a start of 1, 20 candidates, and ReLU.", steps),
		"\"published\" has its ε from the paper's arithmetic, which is NOT a guarantee. \"ours\" clips every record's decrease, and searches every few steps on separate batches (docs/proofs/line-search.md). Every iteration has the same budget.",
	}
	if seeds < e.Seeds {
		p.How = append(p.How, fmt.Sprintf("%s has %d iterations and one seed, which is what two cores do in about an hour. One seed decides nothing. With --device cuda it has %d iterations and more seeds.", all[0].panel, steps, e.Steps(all[0].steps)))
		return p
	}
	p.How = append(p.How, fmt.Sprintf("Comparisons that stay open get up to %d seeds, not 20: a run of a network takes minutes.", mostNetworkSeeds))
	return p
}

// fig5Claims judges a form of the search against methods with a fixed step size.
func fig5Claims(rs reproduce.Records, form string) (claims []reproduce.Claim) {
	panels, quoted := rs.Panels(), strconv.Quote(form)
	for _, other := range []string{plainSGD, plainAdam} {
		var early reproduce.Tally
		for _, panel := range panels {
			if steps := rs.Steps(panel, form); len(steps) > 0 {
				at := steps[len(steps)/5] // a fifth of the way
				d := reproduce.Difference(rs.At(panel, form, at, reproduce.Accuracy), rs.At(panel, other, at, reproduce.Accuracy))
				if early.Add(d); d.Open(0) {
					early.Open = append(early.Open, reproduce.Cell{Panel: panel, Series: form}, reproduce.Cell{Panel: panel, Series: other})
				}
			}
		}
		end := rs.Compare(panels, []float64{0}, form, other, reproduce.Accuracy)
		lower := rs.Compare(panels, []float64{0}, form, other, reproduce.Lower(reproduce.Objective))
		claims = append(claims,
			early.Claim(quoted+" is more accurate than "+other+" after a fifth of the iterations"),
			end.NotWorse(quoted+" ends about as accurate as "+other+", or better"),
			lower.Claim(quoted+" ends with a lower objective than "+other),
		)
	}
	var falls reproduce.Tally
	for _, panel := range panels {
		if steps := rs.Steps(panel, form); len(steps) > 1 {
			falls.Add(reproduce.Difference(rs.At(panel, form, steps[0], stepSize.Of), rs.At(panel, form, steps[len(steps)-1], stepSize.Of)))
		}
	}
	return append(claims, falls.Claim("the step size of "+quoted+" falls during training"))
}

// sameSpeed judges section 5.7's word that methods with an equal budget ρ an iteration are at the same ε
// after equally many, where DP-BLSGD gives 10% of ρ to its search. What is amplified in two parts is not what is amplified at once.
func sameSpeed() reproduce.Claim {
	const rho, share, steps = 0.5, 0.1, 1000
	c := reproduce.Claim{Claim: "with equal budgets per iteration, DP-BLSGD and DP-SGD accumulate ε at the same speed (section 5.7)"}
	epsilon := func(parts ...float64) float64 {
		var events []accountant.Event
		for _, part := range parts {
			events = append(events, accountant.PoissonBatch(networkRate, steps, accountant.Gaussian{NoiseMultiplier: math.Sqrt(1 / (2 * part))}))
		}
		r, err := accountant.Account(events, accountant.Options{Accountant: accountant.Paper, Neighbouring: accountant.AddRemove, Delta: delta})
		if err != nil {
			return math.NaN()
		}
		return r.Epsilon
	}
	one, two := epsilon(rho), epsilon((1-share)*rho, share*rho)
	c.Found = fmt.Sprintf("by the paper's composition, ρ = %g and %d iterations cost %.3g in one part, and %.3g in two parts of one batch, which is too little: on one batch both cost the same", rho, steps, one, two)
	c.Verdict = reproduce.Verdict(one > 0 && two > 0, math.Abs(one-two) < 0.01*one, math.Abs(one-two) > 0.01*one)
	return c
}
