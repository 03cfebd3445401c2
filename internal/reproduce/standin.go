package reproduce

import (
	"math"
	"math/rand/v2"
	"sync"

	"github.com/privgrad/privgrad/datasets"
)

// IPUMSUS has the size and the dimension of a census extract that nobody published.
var IPUMSUS = &StandIn{Of: "IPUMS-US", Name: "ipums-us-standin", Records: 40_000, Columns: 57, Seed: 2}

// A StandIn is a made table: half of its columns one-hot categories of two to
// six values, half numbers in [0, 1], and a label by a logistic model of them.
type StandIn struct {
	Of, Name         string
	Records, Columns int
	Seed             uint64

	once     sync.Once
	features []uint8
	labels   []uint8
}

// Label goes with every figure of a stand-in.
func (s *StandIn) Label() string {
	return s.Of + " is a SYNTHETIC STAND-IN of the published size and dimension: its figures say nothing of the census"
}

// signal is the standard deviation of the logit: the best classifier is right
// for about 80 of 100 records.
const signal = 2.2

func (s *StandIn) make() {
	r := rand.New(rand.NewPCG(s.Seed, 0x5eed))
	type category struct{ first, size int }
	var categories []category
	at := 0
	for at < s.Columns/2 {
		size := min(2+r.IntN(5), s.Columns/2-at)
		categories = append(categories, category{at, size})
		at += size
	}
	weights := make([]float64, s.Columns)
	for i := range weights {
		weights[i] = r.NormFloat64()
	}
	scores := make([]float64, s.Records)
	s.features, s.labels = make([]uint8, s.Records*s.Columns), make([]uint8, s.Records)
	for i := range s.Records {
		row := s.features[i*s.Columns:][:s.Columns]
		for _, c := range categories {
			row[c.first+r.IntN(c.size)] = 255
		}
		for j := at; j < s.Columns; j++ {
			row[j] = uint8(r.IntN(256))
		}
		for j, v := range row {
			scores[i] += weights[j] * float64(v) / 255
		}
	}
	mean, square := 0.0, 0.0
	for _, x := range scores {
		mean += x / float64(s.Records)
		square += x * x / float64(s.Records)
	}
	scale := signal / math.Sqrt(square-mean*mean)
	for i, x := range scores {
		if r.Float64() < 1/(1+math.Exp(-scale*(x-mean))) {
			s.labels[i] = 1
		}
	}
}

// Fold holds out the records of one of some folds.
func (s *StandIn) Fold(name string, fold, folds int) *datasets.Set {
	s.once.Do(s.make)
	shape := [3]int{1, 1, s.Columns}
	set := &datasets.Set{
		Name: name, Classes: 2, ClassNames: []string{"no", "yes"}, TestIsPublic: true, Note: s.Label(),
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
		into.Features = append(into.Features, s.features[i*s.Columns:][:s.Columns]...)
		into.Labels = append(into.Labels, l)
	}
	return set
}
