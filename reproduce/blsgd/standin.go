package blsgd

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/reproduce"
	"github.com/privgrad/privgrad/train"
)

// A standIn is a made table: half of its columns one-hot categories of two to
// six values, half numbers in [0, 1], and a label by a logistic model of them.
type standIn struct {
	name             string
	records, columns int
	seed             uint64

	once     sync.Once
	features []uint8
	labels   []uint8
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
		Name: name, Classes: 2, ClassNames: []string{"no", "yes"}, TestIsPublic: true, Note: standInLabel,
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
