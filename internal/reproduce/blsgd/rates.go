package blsgd

import (
	"fmt"
	"math"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/internal/reproduce"
	"github.com/privgrad/privgrad/train"
)

var rates = reproduce.Figure{
	Name: "rates", Short: "Does a private line search replace the choice of a learning rate?",
	Source: "our own table, after Chen and Lee 2020, section 5.7", Seeds: 10,
	Plan: planRates, Then: planStarts, Show: showRates,
}

const (
	ratesPanel = "Fashion-MNIST, CNN"
	ratesSteps = 1000
	within     = 0.015 // what a search may lose against the best rate
)

type searchForm struct{ series, form string }

var (
	sgdRates = []float64{0.1, 0.2, 0.5, 1, 1.5, 2, 4, 8}
	starts   = []float64{1, 5, 20}
	forms    = []searchForm{
		{"dp-blsgd, default form", ""},
		{"dp-blsgd, curve", "curve"},
		{"dp-blsgd, losses (published)", "losses"},
	}
)

// ratesEpsilon is that of dp-sgd with noise multiplier 1.
func ratesEpsilon(steps int) (float64, error) {
	return accountant.Schedule{
		SamplingRate: networkRate, Steps: steps, Neighbouring: accountant.AddRemove, Accountant: accountant.PLD, Delta: delta,
	}.Epsilon(1)
}

// A ratedRun is made with every seed.
type ratedRun struct {
	series, setting, optimizer string
	lr                         float64
	form                       string // of the search
}

func ratesJobs(e *reproduce.Env, all []ratedRun) (jobs []reproduce.Job, _ error) {
	steps := e.Steps(ratesSteps)
	epsilon, err := ratesEpsilon(steps)
	if err != nil {
		return nil, err
	}
	for seed := 1; seed <= e.Seeds; seed++ {
		for _, r := range all {
			c := train.Default()
			c.Data, c.Model, c.Activation, c.Clip = "fmnist", "cnn-mnist", "tanh", 1
			c.SamplingRate, c.Steps, c.Delta, c.Epsilon = new(networkRate), &steps, new(delta), &epsilon
			c.EvalEvery = steps
			c.Optimizer, c.LR, c.Seed = r.optimizer, &r.lr, uint64(seed)
			if r.optimizer != plainSGD {
				c.Search = train.Search{Form: r.form}
			}
			j := reproduce.Job{Config: c}
			j.Panel, j.Series, j.Setting, j.X, j.Seed = ratesPanel, r.series, r.setting, r.lr, seed
			if e.Images(&j.Config, c.Data) {
				jobs = append(jobs, j)
			}
		}
	}
	return jobs, nil
}

func planRates(e *reproduce.Env) ([]reproduce.Job, error) {
	var all []ratedRun
	for _, lr := range sgdRates {
		all = append(all, ratedRun{series: plainSGD, optimizer: plainSGD, lr: lr})
	}
	return ratesJobs(e, all)
}

// bestRate is the rate with the largest mean accuracy.
func bestRate(rs reproduce.Records) float64 {
	best, top := math.NaN(), math.Inf(-1)
	for _, lr := range sgdRates {
		if m := rs.Mean(ratesPanel, plainSGD, lr, reproduce.Accuracy); m.N > 0 && m.Mean > top {
			best, top = lr, m.Mean
		}
	}
	return best
}

func planStarts(e *reproduce.Env, rs reproduce.Records) ([]reproduce.Job, error) {
	best := bestRate(rs)
	if math.IsNaN(best) {
		return nil, nil
	}
	var all []ratedRun
	for _, form := range forms {
		for _, times := range starts {
			all = append(all, ratedRun{form.series, fmt.Sprintf("%g × best", times), "dp-blsgd", times * best, form.form})
		}
	}
	return ratesJobs(e, all)
}

func showRates(e *reproduce.Env, rs reproduce.Records) reproduce.Page {
	best := bestRate(rs)
	c := reproduce.Chart{Title: ratesPanel, X: "learning rate, or where the search starts", Y: "test accuracy, %", Log: true}
	sgd := reproduce.Table{Title: "dp-sgd", Head: []string{"learning rate", "test accuracy, %"}}
	for _, lr := range sgdRates {
		name := fmt.Sprint(lr)
		if lr == best {
			name += " (best)"
		}
		sgd.Rows = append(sgd.Rows, []string{name, rs.Mean(ratesPanel, plainSGD, lr, reproduce.Accuracy).Percent()})
	}
	c.Lines = []reproduce.Line{rs.Line(ratesPanel, plainSGD, sgdRates, reproduce.TestAccuracy)}
	search := reproduce.Table{
		Title: "dp-blsgd",
		Head:  []string{"form", "start", "test accuracy, %", fmt.Sprintf("difference to dp-sgd at %g, points", best), "95% bound, points", "within 1.5 points"},
	}
	var p reproduce.Page
	for _, form := range forms {
		l, rows, claim := reached(rs, form, best)
		c.Lines, search.Rows, p.Claims = append(c.Lines, l), append(search.Rows, rows...), append(p.Claims, claim)
	}
	epsilon := math.NaN()
	for i := range rs {
		if rs[i].Series == plainSGD && rs[i].Epsilon != nil {
			epsilon = *rs[i].Epsilon
		}
	}
	p.Charts, p.Tables = [][]reproduce.Chart{{c}}, []reproduce.Table{sgd, search}
	p.How = []string{
		fmt.Sprintf("`cnn-mnist` with tanh, C = 1, q = 1/200, %d steps, δ = 1e-8; every run at ε = %.6g, which PLD gives for dp-sgd with noise multiplier 1.", e.Steps(ratesSteps), epsilon),
		"Runs with one seed begin at the same weights, and draw their own batches and noise. Differences are taken seed by seed. The bound is one-sided, at 95%, by Student's t over seeds.",
		"The same accuracies choose the best rate of dp-sgd and judge it, which favors dp-sgd a little. The choice of a rate cost no budget here; elsewhere it would.",
	}
	return p
}

// reached is how near a form of the search comes to the best rate, from each start.
func reached(rs reproduce.Records, form searchForm, best float64) (l reproduce.Line, rows [][]string, c reproduce.Claim) {
	reference := rs.Last(ratesPanel, plainSGD, best, reproduce.Accuracy)
	l.Name = form.series
	passed, failed := 0, 0
	for _, times := range starts {
		start := times * best
		values := rs.Last(ratesPanel, form.series, start, reproduce.Accuracy)
		m, d := reproduce.Mean(values), reproduce.Difference(values, reference)
		if m.N == 0 {
			continue
		}
		l.Add(start, m, 100)
		low, high := d.Bounds()
		verdict, bound := "not shown", "–"
		if !math.IsInf(low, 0) {
			bound = fmt.Sprintf("≥ %+.2f", 100*low)
			switch {
			case low >= -within:
				verdict = "yes"
				passed++
			case high < -within:
				verdict, bound = "no", fmt.Sprintf("≤ %+.2f", 100*high)
				failed++
			}
		}
		rows = append(rows, []string{form.series, fmt.Sprintf("%g (%g × best)", start, times), m.Percent(), fmt.Sprintf("%+.2f", 100*d.Mean), bound, verdict})
	}
	c = reproduce.Claim{
		Claim:   "a line search needs no tuned rate: from 1, 5 and 20 times the best rate of dp-sgd it comes within 1.5 points of dp-sgd (" + form.series + ")",
		Found:   fmt.Sprintf("shown from %d, refuted from %d of %d starts", passed, failed, len(starts)),
		Verdict: reproduce.Verdict(true, passed == len(starts), failed > 0),
	}
	return l, rows, c
}
