// Package blsgd has the figures of Chen and Lee 2020, whose method is DP-BLSGD: a line
// search by backtracking under differential privacy.
package blsgd

import (
	"fmt"
	"sync"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/datasets/tabular"
	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/internal/reproduce"
	"github.com/privgrad/privgrad/internal/source"
	"github.com/privgrad/privgrad/train"
)

const chenLee = "Chen and Lee 2020, Stochastic adaptive line search for differentially private optimization"

// Figures lists those of the paper, and a table of our own.
func Figures() []reproduce.Figure {
	return []reproduce.Figure{fig1, fig2, fig3, fig4, fig5, fig5CIFAR, rates}
}

// folds of the tables; seed s holds out fold s, and begins again after the last.
const folds = 10

// A benchmark is a table of the paper.
type benchmark struct {
	panel string
	file  string             // of a published table; empty: there is none
	made  *reproduce.StandIn // where that is not there; nil: nothing
}

var (
	adult = benchmark{panel: "Adult", file: "adult.data"}
	bank  = benchmark{panel: "Bank", file: "bank-full.csv"}
	// The authors of DP-AGD prepared both extracts of IPUMS; the paper's table 1 gives their sizes,
	// dimensions and shares of the larger class.
	ipumsBR = benchmark{panel: "IPUMS-BR", file: "IPUMS-BR.dat", made: &reproduce.StandIn{Of: "IPUMS-BR", Name: "ipums-br-standin", Records: 38_000, Columns: 52, Seed: 1}}
	ipumsUS = benchmark{panel: "IPUMS-US", made: reproduce.IPUMSUS}
)

// open completes a configuration with the part of the benchmark on which a seed
// trains; false where the data are not there, which is said.
func (b *benchmark) open(e *reproduce.Env, c *train.Config, r *reproduce.Record) bool {
	fold := (r.Seed-1)%folds + 1
	path := e.Find("tabular", b.file)
	if r.Panel = b.panel; path == "" && b.made != nil {
		r.Panel, r.Label = b.panel+" stand-in (synthetic)", b.made.Label()
		e.Label(r.Label)
		c.Data = register(e, b.made, fold)
		return true
	}
	if path == "" {
		e.Skip("%s is left out: put %s (or %[2]s.gz), as the UCI repository publishes it, into a directory and name that by --data-dir or %s", b.panel, b.file, config.DataDirVariable)
		return false
	}
	c.Data, c.Folds, c.Fold = source.TablePrefix+path, folds, fold
	for _, k := range tabular.Schemas() {
		if k.File == b.file { // whatever copy of it this is
			c.PublicN = new(k.Records + k.TestRecords)
		}
	}
	return true
}

// register makes the fold a data set that train knows, and gives its name.
func register(e *reproduce.Env, s *reproduce.StandIn, fold int) string {
	name := fmt.Sprintf("%s-fold-%d", s.Name, fold)
	if _, ok := e.Sources[name]; !ok {
		one := sync.OnceValue(func() *datasets.Set { return s.Fold(name, fold, folds) })
		e.Sources[name] = train.Source{BuiltIn: true, Open: func(string) (*datasets.Set, error) { return one(), nil }}
	}
	return name
}
