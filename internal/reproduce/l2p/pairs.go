package l2p

import (
	"fmt"
	"math"
	"slices"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/datasets/tabular"
	"github.com/privgrad/privgrad/dpoptim/l2p"
	"github.com/privgrad/privgrad/internal/reproduce"
	"github.com/privgrad/privgrad/train"
)

// Settings of the runs on pairs of digits and on a table; the paper gives δ alone.
const (
	pairsBatch = 1024
	pairsClip  = 1
	pairsDelta = 1e-8
)

// The budgets, the grids of DP-SGD, and the seeds of its tuning, which are none of the comparison's.
var (
	pairsEpsilons          = []float64{0.05, 0.1, 0.2, 0.4, 0.8}
	pairsSteps, pairsRates = []int{5, 15, 30, 60, 120, 240}, []float64{0.25, 0.5, 1, 2, 4, 8}
	quickSteps, quickRates = []int{15, 60}, []float64{0.5, 1, 2, 4}
	tuningSeeds            = []int{1001, 1002}
)

// mostAdvanced is the most steps of SGD with advanced composition, as in appendix C.1.
const mostAdvanced = 60

// A target is what methods are compared on: a pair of digits, or, without one, IPUMS-BR.
type target struct{ pair []int }

const ipumsBR = "IPUMS-BR"

func (t target) panel() string {
	if t.pair == nil {
		return ipumsBR
	}
	return fmt.Sprintf("MNIST %d against %d", t.pair[0], t.pair[1])
}

func tuningPanel(panel string) string { return "tuning, " + panel }

// open completes a configuration with the target; false where its data are not there, which is said.
func (t target) open(e *reproduce.Env, c *train.Config) bool {
	if t.pair != nil {
		c.Classes = t.pair
		return e.Images(c, "mnist")
	}
	path := e.Find("tabular", ipumsBR+".dat")
	if path == "" {
		e.Skip("%s is left out: put %[1]s.dat (or %[1]s.dat.gz; `privgrad data list` says where from) into a directory and name that by --data-dir", ipumsBR)
		return false
	}
	c.Data, c.PublishedSet = l2p.TablePrefix+path, true
	return true
}

// size is the published number of records that train.
func (t target) size(e *reproduce.Env, c *train.Config) (n int, err error) {
	if t.pair == nil {
		set, err := tabular.Facts(c.Data[len(l2p.TablePrefix):], tabular.Options{})
		if err != nil {
			return 0, err
		}
		return set.PublicN, nil
	}
	set, err := openMNIST(e)
	if err != nil {
		return 0, err
	}
	for _, class := range t.pair {
		n += set.PerClass[class]
	}
	return n, nil
}

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
func pairs(e *reproduce.Env, count int) (chosen []target) {
	for i, pair := range digits {
		known := e.Learned != nil && knows(e.Learned, pair)
		if i == 0 || !known && len(chosen) < count {
			chosen = append(chosen, target{pair})
			if known {
				e.Label(fmt.Sprintf("the protector was trained on the pair that it is judged by, %s", target{pair}.panel()))
			}
		}
	}
	return chosen
}

// A pupil is a line of learned protection.
type pupil struct {
	name string
	of   func(k *comparison, e *reproduce.Env, t target) teacher
}

// A comparison is a figure of learned protection against the tuned dp-sgd and others.
type comparison struct {
	model, activation string
	l2                float64
	pairs             int
	table             bool
	epsilons          *[]float64
	pupils            []pupil
	others            []string
}

func (k *comparison) targets(e *reproduce.Env) []target {
	all := pairs(e, k.pairs)
	if k.table {
		all = append(all, target{})
	}
	return all
}

func (k *comparison) budgets(e *reproduce.Env) []float64 {
	if e.Quick {
		return reproduce.Evenly(*k.epsilons, 3)
	}
	return *k.epsilons
}

func (k *comparison) job(e *reproduce.Env, t target, epsilon float64, seed int) (reproduce.Job, bool) {
	c := train.Default()
	c.Model, c.L2, c.Seed, c.Epsilon, c.Delta = k.model, k.l2, uint64(seed), &epsilon, new(pairsDelta)
	if k.activation != "" {
		c.Activation = k.activation
	}
	c.EvalEvery = 1 << 30 // at the end
	j := reproduce.Job{Config: c}
	j.Panel, j.Seed, j.X = t.panel(), seed, epsilon
	return j, t.open(e, &j.Config)
}

// sampled has the batches, the clip norm and the accounting that all methods on batches share.
func sampled(j reproduce.Job) reproduce.Job {
	j.Config.Batch, j.Config.Clip, j.Config.Accountant = new(float64(pairsBatch)), pairsClip, spending
	return j
}

// learned is a run of a line of learned protection.
func (p pupil) learned(k *comparison, e *reproduce.Env, t target, j reproduce.Job) reproduce.Job {
	by := p.of(k, e, t)
	j = sampled(j)
	j.Series, j.Config.Optimizer, j.Protector, j.Lesson = p.name, "l2p", by.at, by.lesson
	return j
}

// other is a run of a method that has nothing to tune here: its settings are its defaults. All have add-remove.
func (k *comparison) other(e *reproduce.Env, name string, j reproduce.Job) reproduce.Job {
	c := &j.Config
	j.Series, c.Optimizer, c.Neighbouring = name, name, string(accountant.AddRemove)
	if c.Model == "svm" {
		c.Model = "huber-svm" // these need a smooth loss
	}
	if name == agdLine {
		c.Clip, c.Search, c.Steps = 3, train.Search{Batches: string(accountant.Fresh)}, new(e.Steps(10_000)) // its budget ends it
	}
	return j
}

// with is a run of DP-SGD in a setting. With advanced composition the noise has the analysis of its time.
func (k *comparison) with(s setting, line string, records int, epsilon float64, j reproduce.Job) reproduce.Job {
	j = sampled(j)
	j.Series, j.Setting, j.Config.LR, j.Config.Steps = line, s.String(), new(s.rate), new(s.steps)
	if line == advancedLine {
		j.Config.Epsilon, j.Config.NoiseMultiplier = nil, new(advanced(epsilon, pairsDelta, s.steps, min(pairsBatch/float64(records), 1)))
	}
	return j
}

// tunedLines are those whose settings are chosen.
func (k *comparison) tunedLines() []string {
	if slices.Contains(k.others, advancedLine) {
		return []string{tunedLine, advancedLine}
	}
	return []string{tunedLine}
}

// tuning is what settings are chosen from, and by.
func tuning(e *reproduce.Env) (steps []int, rates []float64, seeds []int) {
	if e.Quick {
		return quickSteps, quickRates, tuningSeeds[:1]
	}
	return pairsSteps, pairsRates, tuningSeeds
}

func grid(e *reproduce.Env, line string) []setting {
	steps, rates, _ := tuning(e)
	if line == advancedLine {
		steps = slices.DeleteFunc(slices.Clone(steps), func(t int) bool { return t > mostAdvanced })
	}
	return rateGrid(steps, rates)
}

func (k *comparison) plan(e *reproduce.Env) (jobs []reproduce.Job, _ error) {
	_, _, seeds := tuning(e)
	for _, t := range k.targets(e) {
		first, ok := k.job(e, t, 1, 1)
		if !ok {
			continue
		}
		n, err := t.size(e, &first.Config)
		if err != nil {
			return nil, err
		}
		for _, epsilon := range k.budgets(e) {
			for seed := 1; seed <= e.Seeds; seed++ {
				j, _ := k.job(e, t, epsilon, seed)
				for _, p := range k.pupils {
					jobs = append(jobs, p.learned(k, e, t, j))
				}
				for _, name := range k.others {
					if name != advancedLine {
						jobs = append(jobs, k.other(e, name, j))
					}
				}
			}
			for _, line := range k.tunedLines() {
				for _, s := range grid(e, line) {
					for _, seed := range seeds {
						j, _ := k.job(e, t, epsilon, seed)
						j = k.with(s, line, n, epsilon, j)
						j.Panel = tuningPanel(j.Panel)
						jobs = append(jobs, j)
					}
				}
			}
		}
	}
	return jobs, nil
}

// tuned is the setting of a line with the largest mean accuracy of the tuning; false where none made a step.
func tuned(e *reproduce.Env, rs reproduce.Records, panel, line string, epsilon float64) (best setting, found bool) {
	top := math.Inf(-1)
	for _, s := range grid(e, line) {
		values := rs.Values(reproduce.Accuracy, func(r *reproduce.Record) bool {
			return r.Final && r.Panel == tuningPanel(panel) && r.Series == line && r.X == epsilon && r.Setting == s.String()
		})
		if m := reproduce.Mean(values); m.N > 0 && m.Mean > top {
			best, top, found = s, m.Mean, true
		}
	}
	return best, found
}

func (k *comparison) then(e *reproduce.Env, rs reproduce.Records) (jobs []reproduce.Job, _ error) {
	for _, t := range k.targets(e) {
		for _, epsilon := range k.budgets(e) {
			for _, line := range k.tunedLines() {
				s, ok := tuned(e, rs, t.panel(), line, epsilon)
				if !ok {
					continue
				}
				for seed := 1; seed <= e.Seeds; seed++ {
					j, _ := k.job(e, t, epsilon, seed)
					n, err := t.size(e, &j.Config)
					if err != nil {
						return nil, err
					}
					jobs = append(jobs, k.with(s, line, n, epsilon, j))
				}
			}
		}
	}
	return jobs, nil
}
