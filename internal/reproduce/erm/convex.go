package erm

import (
	"fmt"
	"slices"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/internal/reproduce"
	"github.com/privgrad/privgrad/internal/source"
	"github.com/privgrad/privgrad/train"
)

var convex = reproduce.Figure{
	Name: "convex", Short: "Which method for a linear model: test accuracy by data set and ε", Source: "our own table", Seeds: 3, Most: 20,
	Plan: planConvex, Show: showConvex,
}

// A line is a method with the settings that it needs; all others are its defaults.
type line struct {
	name, optimizer string
	set             func(c *train.Config)
	once            bool // no ε
}

func penalty(l2 float64) func(*train.Config) { return func(c *train.Config) { c.L2 = l2 } }

var lines = []line{
	{noisyGD, "noisy-gd", nil, false},
	{"dp-sgd", "dp-sgd", nil, false},
	{"pur-c", "pur-c", penalty(1e-3), false},
	{"outpert-gd", "outpert-gd", nil, false},
	{"outpert-gd, l2 0.01", "outpert-gd", penalty(1e-2), false},
	{"outpert-rsgd, l2 0.01", "outpert-rsgd", penalty(1e-2), false},
	{"objpert", "objpert", nil, false},
	{"privgene", "privgene", nil, false},
	{"dp-agd", "dp-agd", nil, false},
	{"dp-blsgd", "dp-blsgd", nil, false},
	{"majority", "majority", nil, false},
	{"without privacy (lbfgs)", "lbfgs", nil, true},
}

// tables have a name and a file.
var tables = [][2]string{
	{"Adult", "adult.data"}, {"Bank", "bank-full.csv"}, {"IPUMS-BR", "IPUMS-BR.dat"}, {"Breast cancer", "breast_cancer.csv"},
}

var (
	guideEpsilons = []float64{0.1, 1}
	guideDelta    = 1e-6
)

func planConvex(e *reproduce.Env) (jobs []reproduce.Job, _ error) {
	budgets := guideEpsilons
	if e.Quick {
		budgets = budgets[1:]
	}
	for _, t := range tables {
		path := e.Find("tabular", t[1])
		if path == "" {
			e.Skip("%s is left out: put %s (or %[2]s.gz; `privgrad data list` says where from) into a directory and name that by --data-dir or %s", t[0], t[1], config.DataDirVariable)
			continue
		}
		for _, l := range lines {
			own := budgets
			if l.once {
				own = budgets[:1]
			}
			for seed := 1; seed <= e.Seeds; seed++ {
				for _, epsilon := range own {
					jobs = append(jobs, l.job(path, t[0], epsilon, seed))
				}
			}
		}
	}
	return jobs, nil
}

func (l line) job(path, panel string, epsilon float64, seed int) reproduce.Job {
	c := train.Default()
	c.Data, c.PublishedSet = source.TablePrefix+path, true
	c.Optimizer, c.Model, c.Seed = l.optimizer, "logistic", uint64(seed)
	c.EvalEvery = 1 << 30 // at the end
	switch {
	case l.once:
	case l.optimizer == "majority":
		c.Model, c.Epsilon = "", &epsilon
	default:
		c.Epsilon, c.Delta, c.Neighbouring = &epsilon, new(guideDelta), string(accountant.AddRemove)
	}
	if l.set != nil {
		l.set(&c)
	}
	j := reproduce.Job{Config: c}
	if j.Panel, j.Series, j.Seed = panel, l.name, seed; !l.once {
		j.X = epsilon
	}
	return j
}

func showConvex(_ *reproduce.Env, rs reproduce.Records) reproduce.Page {
	p := reproduce.Page{Tables: []reproduce.Table{guideTable(rs)}}
	var charts []reproduce.Chart
	for _, panel := range rs.Panels() {
		xs := slices.DeleteFunc(rs.Xs(panel), func(x float64) bool { return x == 0 })
		c, _ := rs.Against(panel, rs.Series(panel), xs, reproduce.TestAccuracy)
		_, losses := rs.Against(panel, rs.Series(panel), xs, testLoss)
		losses.Title = panel + ": mean loss on the test data"
		charts, p.Tables = append(charts, c), append(p.Tables, losses)
	}
	p.Charts = reproduce.Rows(charts)
	for _, l := range lines[1:] {
		if l.optimizer != "lbfgs" {
			count := rs.Compare(rs.Panels(), guideEpsilons, noisyGD, l.name, reproduce.Accuracy)
			p.Claims = append(p.Claims, count.Claim("noisy-gd is more accurate than "+l.name+" in most cases (our question)"))
		}
	}
	p.How = []string{
		fmt.Sprintf("Every run is `train --model logistic --optimizer METHOD --epsilon E --delta %g --neighbouring add-remove` with default settings, but for what the name of a line says. Nothing was tuned. A cell is the mean over seeds; the best of the methods that see features is bold, with those that are not clearly below it.", guideDelta),
		"All methods have one relation, add-remove: a record is there or not. It is the one that line searches on sampled batches are priced for. Most methods for convex losses take replace-one where none is given, which doubles the distance.",
		"Test records are those of the schema: a file of its own, or a fifth of the table. Breast cancer has 114 test records, so that one of them is 0.9 points.",
	}
	return p
}

var testLoss = reproduce.Quantity{Name: "test loss", Of: func(r *reproduce.Record) *float64 { return r.TestLoss }, Scale: 1, Text: reproduce.Estimate.Number}

// guideTable has a row for each data set and ε.
func guideTable(rs reproduce.Records) reproduce.Table {
	h := reproduce.Table{Title: "Test accuracy, %", Head: []string{"data", "ε"}}
	var shown []line
	for _, l := range lines {
		if slices.ContainsFunc(rs, func(r reproduce.Record) bool { return r.Series == l.name }) {
			shown, h.Head = append(shown, l), append(h.Head, l.name)
		}
	}
	for _, panel := range rs.Panels() {
		for _, x := range rs.Xs(panel) {
			if x == 0 {
				continue
			}
			cells := []string{panel, fmt.Sprint(x)}
			top := ""
			for _, l := range shown {
				if l.sees() && (top == "" || rs.Mean(panel, l.name, x, reproduce.Accuracy).Mean > rs.Mean(panel, top, x, reproduce.Accuracy).Mean) {
					top = l.name
				}
			}
			for _, l := range shown {
				at := x
				if l.once {
					at = 0
				}
				m := rs.Mean(panel, l.name, at, reproduce.Accuracy)
				text := fmt.Sprintf("%.1f", 100*m.Mean)
				if m.N == 0 {
					text = "–"
				} else if d := rs.Difference(panel, top, l.name, x, reproduce.Accuracy); l.name == top || l.sees() && m.N > 1 && !(d.Mean-d.Half() > 0) {
					text = "**" + text + "**"
				}
				cells = append(cells, text)
			}
			h.Rows = append(h.Rows, cells)
		}
	}
	return h
}

// sees says whether a method is private and reads features.
func (l line) sees() bool { return !l.once && l.optimizer != "majority" }
