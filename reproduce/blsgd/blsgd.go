// Package blsgd has the figures of Chen and Lee 2020, whose method is DP-BLSGD: a line
// search by backtracking under differential privacy.
package blsgd

import (
	"github.com/privgrad/privgrad/datasets/tabular"
	"github.com/privgrad/privgrad/internal/plan"
	"github.com/privgrad/privgrad/reproduce"
	"github.com/privgrad/privgrad/train"
)

const chenLee = "Chen and Lee 2020, Stochastic adaptive line search for differentially private optimization"

// Figures lists those of the paper, and a table of our own.
func Figures() []reproduce.Figure { return []reproduce.Figure{fig1, fig2, fig3, fig4, fig5, rates} }

// folds of the tables; seed s holds out fold s, and begins again after the last.
const folds = 10

// A benchmark is a table of the paper.
type benchmark struct {
	panel string
	file  string   // of a published table
	made  *standIn // else
}

var (
	adult = benchmark{panel: "Adult", file: "adult.data"}
	bank  = benchmark{panel: "Bank", file: "bank-full.csv"}
	// The IPUMS extracts are not published as files. The paper's table 1 gives their
	// sizes, dimensions and shares of the larger class.
	ipumsBR = benchmark{panel: "IPUMS-BR stand-in (synthetic)", made: &standIn{name: "ipums-br-standin", records: 38_000, columns: 52, seed: 1}}
	ipumsUS = benchmark{panel: "IPUMS-US stand-in (synthetic)", made: &standIn{name: "ipums-us-standin", records: 40_000, columns: 57, seed: 2}}
)

// standInLabel goes with every figure of a stand-in.
const standInLabel = "IPUMS is a SYNTHETIC STAND-IN of the published size and dimension: its figures say nothing of the census"

// open completes a configuration with the part of the benchmark on which a seed
// trains; false where the data are not there, which is said.
func (b *benchmark) open(e *reproduce.Env, c *train.Config, r *reproduce.Record) bool {
	fold := (r.Seed-1)%folds + 1
	r.Panel = b.panel
	if b.made != nil {
		e.Label(standInLabel)
		r.Label = standInLabel
		c.Data = b.made.register(e, fold)
		return true
	}
	path := e.Find("tabular", b.file)
	if path == "" {
		e.Skip("%s is left out: put %s (or %[2]s.gz), as the UCI repository publishes it, into a directory and name that by --data-dir or %s", b.panel, b.file, plan.DataDirVariable)
		return false
	}
	c.Data, c.Folds, c.Fold = plan.TablePrefix+path, folds, fold
	for _, k := range tabular.Schemas() {
		if k.File == b.file { // whatever copy of it this is
			c.PublicN = new(k.Records + k.TestRecords)
		}
	}
	return true
}
