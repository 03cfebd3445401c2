// Package erm has the table of Zhang et al. 2017, on private empirical risk minimization by
// gradient descent whose last iterate is released, and a table of our own that compares all
// methods for convex losses.
package erm

import (
	"fmt"
	"math"
	"sync"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/optimize"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/datasets/tabular"
	"github.com/privgrad/privgrad/internal/plan"
	"github.com/privgrad/privgrad/reproduce"
)

const zhang = "Zhang, Zheng, Mou and Wang 2017, Efficient private ERM for smooth objectives"

// Figures lists the paper's table and ours.
func Figures() []reproduce.Figure { return []reproduce.Figure{} }

// norm is the public bound Z on the features of a record, without the intercept.
const norm = 1

// A benchmark is a data set of the paper's table 2.
type benchmark struct {
	name   string
	file   string
	schema string // "": the one for the file
	drop   bool   // the first category of every column
	loss   loss
	curve  float64 // the most of the loss's second derivative
	scale  float64 // of targets
	ridge  float64 // the paper's μ that is not 0
	theirs,
	bassily map[bool][4]float64 // errors of the paper's table 3 by whether μ is 0, at its four ε

	once  sync.Once
	table *table
	err   error
	best  map[float64]*optimum // by μ
}

// An optimum is the least objective, and where.
type optimum struct {
	objective float64
	w         []float64
}

// path is the benchmark's file; empty where it is not there, which is said.
func (b *benchmark) path(e *reproduce.Env) string {
	path := e.Find("tabular", b.file)
	if path == "" {
		e.Skip("%s is left out: put %s (or %[2]s.gz), as the UCI repository publishes it, into a directory and name that by --data-dir or %s", b.name, b.file, plan.DataDirVariable)
	}
	return path
}

// open reads the benchmark and finds its optima, once.
func (b *benchmark) open(path string) error {
	b.once.Do(func() {
		set, err := tabular.Open(path, tabular.Options{Schema: b.schema, DropFirst: b.drop})
		if err != nil {
			b.err = err
			return
		}
		splits := []datasets.Split{set.Train}
		if set.Share < 1 { // the held-out part of the file; Adult's other file is not the paper's
			splits = append(splits, set.Test)
		}
		if b.table, b.err = newTable(splits, norm, b.loss, b.scale); b.err != nil {
			return
		}
		b.best = map[float64]*optimum{}
		for _, mu := range []float64{0, b.ridge} {
			if b.best[mu], b.err = b.table.minimize(mu); b.err != nil {
				return
			}
		}
	})
	return b.err
}

// minimize finds the optimum by L-BFGS in float64.
func (t *table) minimize(mu float64) (*optimum, error) {
	b := t.batch(1)
	n := float64(t.len())
	p := optimize.Problem{
		Func: func(w []float64) float64 { copy(b.w, w); return t.objectives(b, mu)[0] },
		Grad: func(g, w []float64) {
			copy(b.w, w)
			t.gradient(b, nil, nil)
			for j := range g {
				g[j] = b.sum[j]/n + mu*w[j]
			}
		},
	}
	r, err := optimize.Minimize(p, make([]float64, t.width), &optimize.Settings{
		MajorIterations: 3000, GradientThreshold: 1e-8, Converger: &optimize.FunctionConverge{Relative: 1e-8, Iterations: 20},
	}, &optimize.LBFGS{Linesearcher: &optimize.MoreThuente{}})
	if r == nil {
		return nil, fmt.Errorf("the optimum without privacy: %w", err)
	}
	if math.IsNaN(r.F) {
		return nil, fmt.Errorf("the optimum without privacy is no number; please report this")
	}
	return &optimum{r.F, floats.AddScaledTo(make([]float64, t.width), r.X, 0, r.X)}, nil
}
