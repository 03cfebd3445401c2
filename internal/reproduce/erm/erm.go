// Package erm has the table of Zhang et al. 2017, on private empirical risk minimization by
// gradient descent of which only the last iterate is released, its random round SGD, and a table of our own that compares methods for
// linear models.
package erm

import (
	"errors"
	"fmt"
	"math"
	"sync"

	"gonum.org/v1/gonum/optimize"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/datasets/tabular"
	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/internal/reproduce"
)

const zhang = "Zhang, Zheng, Mou and Wang 2017, Efficient private ERM for smooth objectives"

// Figures lists the paper's table, and ours.
func Figures() []reproduce.Figure { return []reproduce.Figure{table3, rounds, convex} }

const (
	norm   = 1.0 // Z, the public bound on the features of a record, without the intercept
	radius = 3.0 // D, the public bound on the optimum's norm that plans take
	delta  = 1e-3
)

var epsilons = []float64{0.1, 0.5, 1, 2}

// A pair of rows of four are a method's errors at the four ε: without strong convexity, and with.
type rows [2][4]float64

// A benchmark is a data set of the paper's table 2.
type benchmark struct {
	name    string
	file    string
	schema  string // "": the one for the file
	drop    bool   // the first category of every column
	loss    loss
	curve   float64 // the most of the loss's second derivative
	scale   float64 // of targets, which a table has in [0, 1]
	ridge   float64 // the paper's μ that is not 0
	dim     int     // in the paper's table 2
	here    int     // with our coding, and the intercept
	records int     // published

	theirs, bassily rows // in the paper's table 3
}

// mus are 0 and the benchmark's own.
func (b *benchmark) mus() [2]float64 { return [2]float64{0, b.ridge} }

func panelOf(b *benchmark, mu float64) string { return fmt.Sprintf("%s, μ = %g", b.name, mu) }

// An open benchmark is read when a run needs it.
type open struct {
	*benchmark
	path string
	read func() (*table, error)
}

// open finds the benchmark's file; nil where it is not there, which is said.
func (b *benchmark) open(e *reproduce.Env) *open {
	path := e.Find("tabular", b.file)
	if path == "" {
		e.Skip("%s is left out: put %s (or %[2]s.gz), as the UCI repository publishes it, into a directory and name that by --data-dir or %s", b.name, b.file, config.DataDirVariable)
		return nil
	}
	o := &open{benchmark: b, path: path}
	o.read = sync.OnceValues(o.table)
	return o
}

func (o *open) table() (*table, error) {
	set, err := tabular.Open(o.path, tabular.Options{Schema: o.schema, DropFirst: o.drop})
	if err != nil {
		return nil, err
	}
	splits := []datasets.Split{set.Train}
	if set.Share < 1 { // the part of the file that is held out; Adult's other file is not in the paper
		splits = append(splits, set.Test)
	}
	return newTable(splits, norm, o.loss, o.scale)
}

// minimize finds the optimum without privacy by L-BFGS. Without strong convexity there may be none: then this
// is where nothing improves by a part in 10⁸.
func (t *table) minimize(mu float64) (*batch, error) {
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
	// What is an error to gonum, a direction without a better point, is the end of what
	// rounding lets it do.
	r, err := optimize.Minimize(p, make([]float64, t.width), &optimize.Settings{
		MajorIterations: 2000, GradientThreshold: 1e-8, Converger: &optimize.FunctionConverge{Relative: 1e-8, Iterations: 20},
	}, &optimize.LBFGS{Linesearcher: &optimize.MoreThuente{}})
	if r == nil {
		return nil, fmt.Errorf("the optimum without privacy: %w", err)
	}
	if math.IsNaN(r.F) {
		return nil, errors.New("the optimum without privacy is no number; please report this")
	}
	copy(b.w, r.X)
	return b, nil
}
