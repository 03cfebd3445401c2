package learn

import (
	"math"
	"math/rand/v2"

	"github.com/privgrad/privgrad/audit/hear"
)

// A Step is what is known of one step of a run.
type Step struct {
	// Ratio is the log of how much likelier its release is with the canary in the batch than without,
	// under the claimed noise.
	Ratio float64
	// Others is how many other records are in the batch.
	Others int
}

// A Pattern says when the canary takes part. A run is of one of a few classes. In each of them the
// canary joins every step's batch with a probability of its own. How many others are in a batch may
// depend on whether the canary is. Where each record joins each batch independently with
// probability q, all of this comes to nothing but q.
type Pattern struct {
	classes []class
	// with, without and alone are the logs of how likely a number of others is: beside the canary, in a batch
	// of the same runs without it, and in runs that have no canary.
	with, without, alone []float64
}

// class is a kind of run, of log-probability weight; rates are probabilities by step.
type class struct {
	weight float64
	rates  []float64
}

const (
	classes    = 8
	mostRounds = 100
	// work bounds how many steps of runs are gone through, whatever their number.
	work = 300_000_000
	// prior is of how many runs it is worth that the canary joins at the claimed rate.
	prior = 1
)

// Learn fits a pattern to runs without the canary and with it, by expectation and maximisation
// (Dempster, Laird and Rubin 1977). A batch has at most so many others.
func Learn(without, with [][]Step, rate float64, others int) *Pattern {
	random := rand.New(rand.NewPCG(1, 0x6f72646572))
	steps := len(with[0])
	p := &Pattern{classes: make([]class, classes)}
	for k := range p.classes {
		p.classes[k] = class{weight: -math.Log(classes), rates: make([]float64, steps)}
		for t := range steps {
			p.classes[k].rates[t] = rate + (random.Float64()-0.5)*min(rate, 1-rate)
		}
	}
	alone, all := make([]float64, others+1), make([]float64, others+1)
	count(alone, without)
	count(all, with)
	p.alone, p.with, p.without = logs(alone), logs(all), logs(all)
	rounds := min(mostRounds, max(work/(classes*steps*len(with)), 10))
	for range rounds {
		p.improve(with, rate)
	}
	return p
}

// count adds up the numbers of others.
func count(dst []float64, runs [][]Step) {
	for _, run := range runs {
		for _, s := range run {
			dst[s.Others]++
		}
	}
}

// logs are those of the shares that counts have, where each was met half a time more.
func logs(counts []float64) []float64 {
	total, l := 0.0, make([]float64, len(counts))
	for _, n := range counts {
		total += n + 0.5
	}
	for i, n := range counts {
		l[i] = math.Log((n + 0.5) / total)
	}
	return l
}

// improve does one round.
func (p *Pattern) improve(runs [][]Step, rate float64) {
	with, without := make([]float64, len(p.with)), make([]float64, len(p.with))
	next := make([]class, len(p.classes))
	for k := range next {
		next[k] = class{weight: prior, rates: make([]float64, len(p.classes[k].rates))}
	}
	in := make([][]float64, len(p.classes)) // probabilities that the canary is, by class and step
	for k := range in {
		in[k] = make([]float64, len(p.classes[k].rates))
	}
	of := make([]float64, len(p.classes)) // log-likelihoods by class
	for _, run := range runs {
		for k, c := range p.classes {
			of[k] = c.weight
			for t, s := range run {
				x := s.Ratio + p.with[s.Others] - p.without[s.Others]
				of[k] += hear.Sampled(c.rates[t], x)
				in[k][t] = 1 / (1 + (1-c.rates[t])/c.rates[t]*math.Exp(-x))
			}
		}
		total := sum(of)
		for k := range next {
			share := math.Exp(of[k] - total)
			next[k].weight += share
			for t, x := range in[k] {
				next[k].rates[t] += share * x
				with[run[t].Others] += share * x
				without[run[t].Others] += share * (1 - x)
			}
		}
	}
	for k := range next {
		for t := range next[k].rates {
			next[k].rates[t] = (next[k].rates[t] + prior*rate) / next[k].weight
		}
		next[k].weight = math.Log(next[k].weight / float64(len(runs)+prior*len(next)))
	}
	p.classes, p.with, p.without = next, logs(with), logs(without)
}

// Ratio is the log of how much likelier a run is with the canary among the records.
func (p *Pattern) Ratio(run []Step) float64 {
	of, base := make([]float64, len(p.classes)), 0.0
	for _, s := range run {
		base += p.without[s.Others] - p.alone[s.Others]
	}
	for k, c := range p.classes {
		of[k] = c.weight
		for t, s := range run {
			of[k] += hear.Sampled(c.rates[t], s.Ratio+p.with[s.Others]-p.without[s.Others])
		}
	}
	return base + sum(of)
}

// sum is that of what the logs are of.
func sum(logs []float64) float64 {
	most, s := math.Inf(-1), 0.0
	for _, x := range logs {
		most = max(most, x)
	}
	for _, x := range logs {
		s += math.Exp(x - most)
	}
	return most + math.Log(s)
}
