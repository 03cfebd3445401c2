package banco

import (
	"context"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/privgrad/privgrad/dpoptim/banco"
	"github.com/privgrad/privgrad/dpoptim/banco/client"
	"github.com/privgrad/privgrad/internal/reproduce"
)

// A learner learns from reports.
type learner interface {
	Point() []float64
	Update(report []float64) error
	Average() []float64
}

// sgd has a fixed learning rate, and the average of its points.
type sgd struct {
	rate       float64
	w, sum     []float64
	iterations int
}

func (s *sgd) Point() []float64 { return slices.Clone(s.w) }

func (s *sgd) Update(report []float64) error {
	for i, x := range report {
		s.sum[i] += s.w[i]
		s.w[i] -= s.rate * x
	}
	s.iterations++
	return nil
}

func (s *sgd) Average() []float64 {
	w := slices.Clone(s.sum)
	for i := range w {
		w[i] /= float64(max(s.iterations, 1))
	}
	return w
}

// A line is how to learn in a world, from reports at ε each.
type line struct {
	series  string
	law     law
	factor  float64 // of SGD's rate, times the oracle's; 0: BANCO
	share   float64 // of ε that each of the reports of a record has
	printed bool    // BANCO with the paper's variance
}

type law int

const (
	fast   law = iota // gamma
	exact             // gamma by package client, in integers
	sphere            // hemispheres
)

// oracleRate is ‖w*‖/√(T·E‖ĝ‖²), which nobody knows beforehand: it needs ‖w*‖.
func oracleRate(p banco.Params, length float64, reports int) float64 {
	return length / math.Sqrt(float64(reports)*(p.SecondMoment()+p.Bound()*p.Bound()))
}

// learn makes one run of a line, and gives the excess after each of some numbers of reports, in increasing order. Lines of one seed
// have the same records.
func (l line) learn(ctx context.Context, v world, epsilon float64, at []int, seed int) ([]float64, error) {
	p, err := banco.New(epsilon*l.share, 1, v.dim)
	if err != nil {
		return nil, err
	}
	switch {
	case l.printed:
		p = p.Printed()
	case l.law == sphere:
		p = p.OnSphere()
	}
	records := rand.New(rand.NewPCG(uint64(seed), 1))
	h := fnv.New64()
	_, _ = h.Write([]byte(l.series))
	noise := rand.New(rand.NewPCG(uint64(seed), h.Sum64()))
	var to reporter
	switch l.law {
	case fast:
		to = newGamma(p, noise)
	case sphere:
		to = &hemisphere{p, noise, make([]float64, v.dim)}
	case exact:
		c, err := client.NewSeeded(p, noise.Uint64())
		if err != nil {
			return nil, err
		}
		to = inIntegers{c}
	}
	var from learner = banco.NewServer(p)
	if l.factor > 0 {
		from = &sgd{rate: l.factor * oracleRate(p, v.length, at[len(at)-1]), w: make([]float64, v.dim), sum: make([]float64, v.dim)}
	}
	var found []float64
	g := make([]float64, v.dim)
	for t := range at[len(at)-1] {
		if t%1024 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		v.gradient(from.Point(), g, records)
		if err := to.report(g); err != nil {
			return nil, err
		}
		if err := from.Update(g); err != nil {
			return nil, err
		}
		if t+1 == at[len(found)] {
			found = append(found, v.excess(from.Average()))
		}
	}
	return found, nil
}

// inIntegers is a client of package client.
type inIntegers struct{ *client.Client }

func (r inIntegers) report(g []float64) error {
	report, err := r.Report(g)
	copy(g, report)
	return err
}

// records are those of a run: one for each number of reports.
func records(found []float64, at []int, epsilon float64, seed int) (all reproduce.Records) {
	for i, x := range found {
		all = append(all, reproduce.Record{Seed: seed, Step: at[i], Final: i == len(at)-1, TrainLoss: &x, Epsilon: &epsilon, Delta: new(0.0)})
	}
	return all
}
