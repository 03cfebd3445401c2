package l2p

import (
	"fmt"
	"math"
	"slices"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim/l2p"
	"github.com/privgrad/privgrad/reproduce"
	"github.com/privgrad/privgrad/train"
)

// Settings of the runs on pairs of digits; the paper gives δ alone.
const (
	pairsBatch = 1024
	pairsClip  = 1
	pairsDelta = 1e-8

	mnist35Epsilon = 0.2 // of the claim that the program is to show
)

// The budgets, the grid of DP-SGD, and the seeds of its tuning, which are none of the comparison's.
var (
	pairsEpsilons          = []float64{0.05, 0.1, 0.2, 0.4, 0.8}
	pairsSteps, pairsRates = []int{5, 15, 30, 60, 120, 240}, []float64{0.25, 0.5, 1, 2, 4, 8}
	quickSteps, quickRates = []int{15, 60}, []float64{0.5, 1, 2, 4}
	tuningSeeds            = []int{1001, 1002}
)

// digits are pairs to choose from, the one of the paper first.
var digits = [][]int{{3, 5}, {3, 8}, {5, 6}, {2, 3}, {4, 9}, {1, 7}}

// knows reports whether a protector was trained on a pair of digits, not on one of them
// alone or none.
func knows(p *reproduce.Protection, pair []int) bool {
	return slices.ContainsFunc(p.Card.Public, func(d l2p.Public) bool {
		return d.Data == "mnist" && (len(d.Classes) == 0 || slices.Contains(d.Classes, pair[0]) && slices.Contains(d.Classes, pair[1]))
	})
}

// pairs gives those that meta-training did not have, and the paper's in any case.
func pairs(e *reproduce.Env, count int) (chosen [][]int) {
	if e.Quick {
		count = min(count, 2)
	}
	for i, pair := range digits {
		if known := knows(e.Learned, pair); i == 0 || !known && len(chosen) < count {
			chosen = append(chosen, pair)
			if known {
				e.Label(fmt.Sprintf("the protector was trained on the pair that it is judged by, %s", pairName(pair)))
			}
		}
	}
	return chosen
}

func pairName(pair []int) string { return fmt.Sprintf("MNIST %d against %d", pair[0], pair[1]) }

func tuningPanel(panel string) string { return "tuning, " + panel }

// A comparison is a figure of l2p against the tuned dp-sgd on pairs of digits.
type comparison struct {
	model, activation string
	l2                float64
	pairs             int
	agd               bool
}

func (k comparison) config(e *reproduce.Env, pair []int, epsilon float64, seed int) (reproduce.Job, bool) {
	c := train.Default()
	c.Model, c.L2, c.Classes, c.Seed = k.model, k.l2, pair, uint64(seed)
	if k.activation != "" {
		c.Activation = k.activation
	}
	c.Batch, c.Clip, c.Epsilon, c.Delta, c.Accountant = new(float64(pairsBatch)), pairsClip, &epsilon, new(pairsDelta), spending
	c.EvalEvery = 1 << 30 // at the end
	j := reproduce.Job{Config: c}
	j.Panel, j.Seed, j.X = pairName(pair), seed, epsilon
	return j, e.Images(&j.Config, "mnist")
}

func pairsBudgets(e *reproduce.Env) []float64 {
	if e.Quick {
		return reproduce.Evenly(pairsEpsilons, 3)
	}
	return pairsEpsilons
}

// tuning is what DP-SGD's settings are chosen from, and by.
func tuning(e *reproduce.Env) (steps []int, rates []float64, seeds []int) {
	if e.Quick {
		return quickSteps, quickRates, tuningSeeds[:1]
	}
	return pairsSteps, pairsRates, tuningSeeds
}

func grid(e *reproduce.Env) []setting {
	steps, rates, _ := tuning(e)
	return rateGrid(steps, rates)
}

func (k comparison) plan(e *reproduce.Env) (jobs []reproduce.Job, _ error) {
	alone := unscheduled(e.Learned)
	_, _, seeds := tuning(e)
	if k.agd && e.Quick {
		e.Skip("dp-agd is left out of a quick run")
	}
	for _, pair := range pairs(e, k.pairs) {
		for _, epsilon := range pairsBudgets(e) {
			for seed := 1; seed <= e.Seeds; seed++ {
				j, ok := k.config(e, pair, epsilon, seed)
				if !ok {
					return nil, nil
				}
				whole, projector := j, j
				whole.Series, whole.Config.Optimizer, whole.Protector = learnedLine, "l2p", e.Learned
				projector.Series, projector.Config.Optimizer, projector.Protector = projectorLine, "l2p", alone
				jobs = append(jobs, whole, projector)
				if k.agd && !e.Quick {
					l := j
					l.Series, l.Config = agdLine, agdConfig(e, j.Config)
					jobs = append(jobs, l)
				}
			}
			for _, s := range grid(e) {
				for _, seed := range seeds {
					j, _ := k.config(e, pair, epsilon, seed)
					j.Panel, j.Series, j.Setting = tuningPanel(j.Panel), "dp-sgd", s.String()
					j.Config.LR, j.Config.Steps = new(s.rate), new(s.steps)
					jobs = append(jobs, j)
				}
			}
		}
	}
	return jobs, nil
}

// agdConfig is DP-AGD on the data of another run, at its ε.
func agdConfig(e *reproduce.Env, of train.Config) train.Config {
	c := train.Default()
	c.Optimizer, c.Model, c.L2, c.Clip = "dp-agd", "huber-svm", 1e-3, 3
	c.LR, c.Steps, c.Search = new(2.0), new(e.Steps(10_000)), &train.Search{Batches: string(accountant.Fresh)}
	c.Data, c.DataDir, c.PublishedSet, c.Classes = of.Data, of.DataDir, of.PublishedSet, of.Classes
	c.Epsilon, c.Delta, c.Seed, c.EvalEvery = of.Epsilon, of.Delta, of.Seed, of.EvalEvery
	return c
}

// tuned is the setting with the largest mean accuracy of the tuning; false where none made a step.
func tuned(e *reproduce.Env, rs reproduce.Records, panel string, epsilon float64) (best setting, found bool) {
	top := math.Inf(-1)
	for _, s := range grid(e) {
		values := rs.Values(reproduce.Accuracy, func(r *reproduce.Record) bool {
			return r.Final && r.Panel == tuningPanel(panel) && r.X == epsilon && r.Setting == s.String()
		})
		if m := reproduce.Mean(values); m.N > 0 && m.Mean > top {
			best, top, found = s, m.Mean, true
		}
	}
	return best, found
}

func (k comparison) then(e *reproduce.Env, rs reproduce.Records) (jobs []reproduce.Job, _ error) {
	for _, pair := range pairs(e, k.pairs) {
		for _, epsilon := range pairsBudgets(e) {
			s, ok := tuned(e, rs, pairName(pair), epsilon)
			if !ok {
				continue
			}
			for seed := 1; seed <= e.Seeds; seed++ {
				j, _ := k.config(e, pair, epsilon, seed)
				j.Series, j.Setting, j.Config.LR, j.Config.Steps = tunedLine, s.String(), new(s.rate), new(s.steps)
				jobs = append(jobs, j)
			}
		}
	}
	return jobs, nil
}

// pairShown is a pair's part of the page; under the accuracies stands what DP-SGD was given and how far it is off.
func pairShown(e *reproduce.Env, rs reproduce.Records, panel string, lines []string) (charts [2]reproduce.Chart, tables [2]reproduce.Table) {
	budgets := pairsBudgets(e)
	charts[0], tables[0] = rs.Against(panel, lines, budgets, reproduce.TestAccuracy)
	charts[1], tables[1] = rs.Against(panel, lines, budgets, reproduce.TrainObjective)
	tables[0].Title, tables[1].Title = panel+": test accuracy, %", panel+": objective on the training data"
	differences, settings := []string{"l2p − dp-sgd, points"}, []string{"dp-sgd's setting"}
	for _, epsilon := range budgets {
		difference, chosen := "–", "–"
		if d := rs.Difference(panel, learnedLine, tunedLine, epsilon, reproduce.Accuracy); d.N > 0 {
			difference = d.Points()
		}
		if s, ok := tuned(e, rs, panel, epsilon); ok {
			chosen = s.String()
		}
		differences, settings = append(differences, difference), append(settings, chosen)
	}
	tables[0].Rows = append(tables[0].Rows, differences, settings)
	return charts, tables
}

func (k comparison) show(e *reproduce.Env, rs reproduce.Records) reproduce.Page {
	p := reproduce.Page{Charts: make([][]reproduce.Chart, 2)}
	budgets := pairsBudgets(e)
	lines := []string{learnedLine, projectorLine, tunedLine}
	if k.agd && !e.Quick {
		lines = append(lines, agdLine)
	}
	var panels []string
	chosen := pairs(e, k.pairs)
	for _, pair := range chosen {
		panels = append(panels, pairName(pair))
		charts, tables := pairShown(e, rs, pairName(pair), lines)
		p.Charts[0], p.Charts[1] = append(p.Charts[0], charts[0]), append(p.Charts[1], charts[1])
		p.Tables = append(p.Tables, tables[:]...)
	}
	for _, c := range []struct {
		claim, other string
		of           reproduce.Metric
	}{
		{"L2P classifies better than the tuned DP-SGD in most cases", tunedLine, reproduce.Accuracy},
		{"L2P reaches lower objectives than the tuned DP-SGD in most cases", tunedLine, reproduce.Lower(reproduce.Objective)},
		{"scheduled noise classifies better than the projector alone", projectorLine, reproduce.Accuracy},
		{"L2P classifies better than AGD in most cases", agdLine, reproduce.Accuracy},
	} {
		if slices.Contains(lines, c.other) {
			p.Claims = append(p.Claims, rs.Compare(panels, budgets, learnedLine, c.other, c.of).Claim(c.claim))
		}
	}
	steps, rates, seeds := tuning(e)
	p.How = append([]string{
		fmt.Sprintf("The model is `%s`%s. The expected batch is %d, drawn by Poisson sampling, with C = %d, L2 %g and δ = %g. The privacy cost comes from Rényi divergences throughout. A run of L2P ends when its protector says so, or when its budget is spent.", k.model, map[bool]string{true: " with " + k.activation + " activations"}[k.activation != ""], pairsBatch, pairsClip, k.l2, pairsDelta),
		fmt.Sprintf("DP-SGD has the best number of steps T of %v and the best learning rate of %v, by mean test accuracy on the same pair at the same ε. Each tuning run has the noise for its T. These runs have %d seeds of their own. The data are declared public, so the choice cost no budget. This favors DP-SGD, since the protector is not tuned to the pair.", steps, rates, len(seeds)),
		"\"projector alone\" is the protector's projector, with the planned noise in every step.",
	}, how(e.Learned, budgets)...)
	for _, pair := range chosen {
		if e.Learned.Card.Overlap("mnist", pair) != "" {
			p.How = append(p.How, fmt.Sprintf("%s: meta-training had records of at least one of these classes. It did not have this pair, unless a label says so.", pairName(pair)))
		}
	}
	return p
}

var (
	fig7Runs    = comparison{model: "svm", l2: 1e-3, pairs: 4, agd: true}
	mnist35Runs = comparison{model: "mlp-small", activation: "sigmoid", pairs: 1}
)

var fig7 = reproduce.Figure{
	Name: "l2p-fig7", Short: "Learned protection of linear SVMs on pairs of digits, against ε",
	Source: hong + ", appendix C.2, figure 7", Seeds: 5, Protector: "mnist",
	Plan: func(e *reproduce.Env) ([]reproduce.Job, error) {
		e.Skip("IPUMS is left out: the figure is of pairs of digits")
		return fig7Runs.plan(e)
	},
	Then: fig7Runs.then,
	Show: func(e *reproduce.Env, rs reproduce.Records) reproduce.Page {
		p := fig7Runs.show(e, rs)
		if !e.Quick {
			p.How = append(p.How, "DP-AGD needs a smooth loss, so it has Huber's smoothed hinge (h = 0.5), with all records in every step. Its objectives are of that loss. Its settings are those of fig4, and are not tuned.")
		}
		return p
	},
}

var mnist35 = reproduce.Figure{
	Name: "l2p-mnist35", Short: "Learned protection of a small network on MNIST 3 against 5, against ε",
	Source: hong + ", appendix C.3, figure 3 (last column)", Seeds: 10, Protector: "mnist",
	Plan: mnist35Runs.plan, Then: mnist35Runs.then,
	Show: func(e *reproduce.Env, rs reproduce.Records) reproduce.Page {
		p := mnist35Runs.show(e, rs)
		panel := pairName(digits[0])
		d := rs.Difference(panel, learnedLine, tunedLine, mnist35Epsilon, reproduce.Accuracy)
		p.Claims = append([]reproduce.Claim{atLeast(fmt.Sprintf("ours, not the paper's: accuracy at ε = %g is at least the tuned DP-SGD's", mnist35Epsilon), d)}, p.Claims...)
		return p
	},
}

// atLeast judges "no less than" by the difference's one-sided bounds.
func atLeast(claim string, d reproduce.Estimate) reproduce.Claim {
	low, high := d.Bounds()
	found := d.Points() + " points"
	if !math.IsInf(low, 0) {
		found += fmt.Sprintf("; one-sided 95%% bounds %+.2f and %+.2f", 100*low, 100*high)
	}
	return d.Claim(claim, found, low >= 0, high < 0)
}
