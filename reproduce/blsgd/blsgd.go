// Package blsgd has the figures of Chen and Lee 2020, whose method is DP-BLSGD: a line
// search by backtracking under differential privacy.
package blsgd

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"

	"github.com/privgrad/privgrad/datasets"
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
	file  string   // of a published table; empty: there is none
	made  *standIn // where that is not there; nil: nothing
}

var (
	adult = benchmark{panel: "Adult", file: "adult.data"}
	bank  = benchmark{panel: "Bank", file: "bank-full.csv"}
	// The authors of DP-AGD prepared both extracts of IPUMS; the paper's table 1 gives their sizes,
	// dimensions and shares of the larger class.
	ipumsBR = benchmark{panel: "IPUMS-BR", file: "IPUMS-BR.dat", made: &standIn{of: "IPUMS-BR", name: "ipums-br-standin", records: 38_000, columns: 52, seed: 1}}
	ipumsUS = benchmark{panel: "IPUMS-US", made: &standIn{of: "IPUMS-US", name: "ipums-us-standin", records: 40_000, columns: 57, seed: 2}}
)

// open completes a configuration with the part of the benchmark on which a seed
// trains; false where the data are not there, which is said.
func (b *benchmark) open(e *reproduce.Env, c *train.Config, r *reproduce.Record) bool {
	fold := (r.Seed-1)%folds + 1
	path := e.Find("tabular", b.file)
	if r.Panel = b.panel; path == "" && b.made != nil {
		r.Panel, r.Label = b.panel+" stand-in (synthetic)", b.made.label()
		e.Label(r.Label)
		c.Data = b.made.register(e, fold)
		return true
	}
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

// A standIn is a made table: half of its columns one-hot categories of two to
// six values, half numbers in [0, 1], and a label by a logistic model of them.
type standIn struct {
	of, name         string
	records, columns int
	seed             uint64

	once     sync.Once
	features []uint8
	labels   []uint8
}

// label goes with every figure of a stand-in.
func (s *standIn) label() string {
	return s.of + " is a SYNTHETIC STAND-IN of the published size and dimension: its figures say nothing of the census"
}

// signal is the standard deviation of the logit: the best classifier is right
// for about 80 of 100 records.
const signal = 2.2

func (s *standIn) make() {
	r := rand.New(rand.NewPCG(s.seed, 0x5eed))
	type category struct{ first, size int }
	var categories []category
	at := 0
	for at < s.columns/2 {
		size := min(2+r.IntN(5), s.columns/2-at)
		categories = append(categories, category{at, size})
		at += size
	}
	weights := make([]float64, s.columns)
	for i := range weights {
		weights[i] = r.NormFloat64()
	}
	scores := make([]float64, s.records)
	s.features, s.labels = make([]uint8, s.records*s.columns), make([]uint8, s.records)
	for i := range s.records {
		row := s.features[i*s.columns:][:s.columns]
		for _, c := range categories {
			row[c.first+r.IntN(c.size)] = 255
		}
		for j := at; j < s.columns; j++ {
			row[j] = uint8(r.IntN(256))
		}
		for j, v := range row {
			scores[i] += weights[j] * float64(v) / 255
		}
	}
	mean, square := 0.0, 0.0
	for _, x := range scores {
		mean += x / float64(s.records)
		square += x * x / float64(s.records)
	}
	scale := signal / math.Sqrt(square-mean*mean)
	for i, x := range scores {
		if r.Float64() < 1/(1+math.Exp(-scale*(x-mean))) {
			s.labels[i] = 1
		}
	}
}

// set holds out the records of a fold.
func (s *standIn) set(name string, fold int) *datasets.Set {
	s.once.Do(s.make)
	shape := [3]int{1, 1, s.columns}
	set := &datasets.Set{
		Name: name, Classes: 2, ClassNames: []string{"no", "yes"}, TestIsPublic: true, Note: s.label(),
		Train: datasets.Split{Shape: shape, Unit: true}, Test: datasets.Split{Shape: shape, Unit: true},
	}
	set.PerClass = make([]int, 2)
	for i, l := range s.labels {
		into := &set.Train
		if i%folds == fold-1 {
			into = &set.Test
		} else {
			set.PerClass[l]++
			set.PublicN++
		}
		into.Features = append(into.Features, s.features[i*s.columns:][:s.columns]...)
		into.Labels = append(into.Labels, l)
	}
	return set
}

// register makes the fold a data set that train knows, and gives its name.
func (s *standIn) register(e *reproduce.Env, fold int) string {
	name := fmt.Sprintf("%s-fold-%d", s.name, fold)
	if _, ok := e.Sources[name]; !ok {
		one := sync.OnceValue(func() *datasets.Set { return s.set(name, fold) })
		e.Sources[name] = train.Source{BuiltIn: true, Open: func(string) (*datasets.Set, error) { return one(), nil }}
	}
	return name
}
