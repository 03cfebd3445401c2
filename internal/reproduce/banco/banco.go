// Package banco judges what Jun and Orabona 2019, "Parameter-free Locally Differentially Private Stochastic
// Subgradient Descent", claim. The paper has no experiment: this one is ours.
package banco

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/internal/reproduce"
	"github.com/privgrad/privgrad/internal/source"
	"github.com/privgrad/privgrad/train"
)

// Figures has what stands in for the paper's.
func Figures() []reproduce.Figure { return []reproduce.Figure{figure} }

var figure = reproduce.Figure{
	Name: "banco", Short: "Local privacy without a learning rate: BANCO against SGD",
	Source: "Jun and Orabona 2019, Parameter-free locally differentially private stochastic subgradient descent; the experiment is ours",
	Seeds:  3, Most: 20, Plan: planAll, Show: show,
}

// The lines.
const (
	ours    = "banco"
	printed = "banco, the paper's σ"
	onBall  = "banco, hemisphere"
	byExact = "banco, noise in integers"
	oracle  = "sgd, oracle's rate"
	atZero  = "w = 0"
)

// factors of the oracle's rate, over which SGD would be tuned.
var factors = []float64{0.01, 0.1, 1, 10, 100}

func rated(factor float64) string {
	if factor == 1 {
		return oracle
	}
	return fmt.Sprintf("sgd, rate × %g", factor)
}

// split is SGD that tunes: every record reports once for each rate, at its share of ε.
func split(factor float64) string {
	return fmt.Sprintf("sgd, ε/%d, rate × %g", len(factors), factor)
}

var (
	betting = []line{{series: ours, share: 1}, {series: printed, share: 1, printed: true}, {series: onBall, share: 1, law: sphere}}
	tuned   = line{series: oracle, share: 1, factor: 1}
)

func tuning() (all []line) {
	for _, f := range factors {
		all = append(all, line{series: rated(f), share: 1, factor: f}, line{series: split(f), share: 1 / float64(len(factors)), factor: f})
	}
	return all
}

// A panel is worlds of one loss and dimension at one ε, by ‖w*‖.
type panel struct {
	loss    loss
	dim     int
	epsilon float64
}

func (p panel) String() string {
	return fmt.Sprintf("%s loss, d = %d, ε = %g", p.loss, p.dim, p.epsilon)
}

// long is a panel's name where the horizontal axis has reports.
func (p panel) long() string { return p.String() + ", by reports" }

var (
	lengths = []float64{0.1, 1, 10}
	panels  = []panel{
		{absolute, 5, 0.5}, {absolute, 5, 1}, {absolute, 5, 2}, {absolute, 5, 4}, {absolute, 1, 2}, {absolute, 20, 2}, {absolute, 100, 2},
		{logistic, 5, 2}, {logistic, 5, 4}, {logistic, 20, 4},
	}
	slopes = []panel{{absolute, 1, 2}, {absolute, 1, 4}, {absolute, 5, 2}, {absolute, 5, 4}}
)

const (
	reports = 30_000
	million = 1_000_000
	adult   = "Adult, logistic regression"
	census  = "adult.data"
)

// decades are the numbers of reports of the slopes: three in each factor of ten, from 10⁴ to a million.
func decades(e *reproduce.Env) (all []int) {
	for i := range 7 {
		all = append(all, e.Steps(int(math.Round(1e4*math.Pow(10, float64(i)/3)))))
	}
	return slices.Compact(all)
}

// signals are how far the share of flipped labels is from ½: the less, the harder it is to learn, and the less
// there is to lose.
var signals = []float64{1. / 4, 1. / 8, 1. / 16, 1. / 32, 1. / 64, 1. / 128, 1. / 256, 1. / 512}

func noisy(signal float64) string { return fmt.Sprintf("banco, labels flipped with %.3g", 0.5-signal) }

func planAll(e *reproduce.Env) (jobs []reproduce.Job, _ error) {
	add := func(name string, l line, v world, epsilon float64, at []int, x float64) {
		for seed := 1; seed <= e.Seeds; seed++ {
			j := reproduce.Job{
				What: fmt.Sprint(2, l, v, epsilon, at, seed),
				Make: func(ctx context.Context) (reproduce.Records, error) {
					found, err := l.learn(ctx, v, epsilon, at, seed)
					return records(found, at, epsilon, seed), err
				},
			}
			j.Panel, j.Series, j.X, j.Seed = name, l.series, x, seed
			jobs = append(jobs, j)
		}
	}
	all, steep := panels, slopes
	if e.Quick {
		all, steep = []panel{panels[2], panels[7]}, slopes[2:3]
	}
	for _, p := range all {
		for _, length := range lengths {
			for _, l := range append(slices.Clone(betting), tuning()...) {
				add(p.String(), l, world{loss: p.loss, dim: p.dim, length: length}, p.epsilon, []int{e.Steps(reports)}, length)
			}
		}
	}
	add(panels[2].String(), line{series: byExact, share: 1, law: exact}, world{loss: absolute, dim: 5, length: 1}, 2, []int{e.Steps(reports)}, 1)
	for _, p := range steep {
		for _, l := range append(slices.Clone(betting), tuned) {
			add(p.long(), l, world{loss: p.loss, dim: p.dim, length: 1}, p.epsilon, decades(e), 0)
		}
		for _, s := range signals {
			l := line{series: noisy(s), share: 1}
			add(p.long(), l, world{p.loss, p.dim, 1, 0.5 - s}, p.epsilon, decades(e), 0)
		}
	}
	return append(jobs, censusRuns(e)...), nil
}

// censusRuns are of train, on a table.
func censusRuns(e *reproduce.Env) (jobs []reproduce.Job) {
	path := e.Find("tabular", census)
	if path == "" {
		e.Skip("Adult is left out: put %s (or %[1]s.gz; `privgrad data list` says where from) into a directory and name that by --data-dir or %s", census, config.DataDirVariable)
		return nil
	}
	for _, noise := range []string{"gamma", "hemisphere"} {
		for _, epsilon := range []float64{1, 4} {
			for seed := 1; seed <= e.Seeds; seed++ {
				c := train.Default()
				c.Data, c.PublishedSet, c.Model, c.Optimizer = source.TablePrefix+path, true, "logistic", "banco"
				c.Local.Noise, c.Epsilon, c.Seed, c.EvalEvery = noise, new(epsilon), uint64(seed), 1<<30
				j := reproduce.Job{Config: c}
				j.Panel, j.Series, j.X, j.Seed = adult, "banco, "+noise, epsilon, seed
				jobs = append(jobs, j)
			}
		}
	}
	return jobs
}
