package learn

import (
	"math"
	"math/rand/v2"

	"github.com/privgrad/privgrad/internal/audit/hear"
)

// A Step is what is known of one step of a run.
type Step struct {
	// Ratio is the log of how much likelier its release is with the canary in the batch than without,
	// under the claimed noise.
	Ratio float64
	// Others is the set of the other records in the batch, as a number.
	Others int
}

// A Pattern says when the canary takes part. A run is of one of a few classes. In each of them the
// canary joins every step's batch with a probability of its own. Which others are in a batch may
// depend on whether the canary is. Where each record joins each batch independently with
// probability q, all of this comes to nothing but q.
type Pattern struct {
	classes []class
	// with, without and alone are the logs of how likely a set of others is: beside the canary, in a batch
	// of the same runs without it, and in runs that have no canary.
	with, without, alone []float64
	usual                []float64 // how likely a set is anywhere
	sets                 int       // 1 where they do not count
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
	work = 100_000_000
	// enough is by how little a round raises the log-likelihood of all runs where it is the last.
	enough = 0.1
	// prior is of how many runs it is worth that the canary joins at the claimed rate.
	prior = 1
)

// Learn fits patterns to three quarters of runs without the canary and with it. One of them goes by who
// else is in a batch, of so many sets, and one does not. It takes that which tells the other runs apart better.
func Learn(without, with [][]Step, rate float64, sets int) *Pattern {
	a, b := len(without)*3/4, len(with)*3/4
	best, least := (*Pattern)(nil), math.Inf(1)
	for _, sets := range []int{1, sets} {
		p := fit(without[:a], with[:b], rate, sets)
		if loss := p.loss(without[a:], with[b:]); loss < least || best == nil {
			best, least = p, loss
		}
	}
	return best
}

// loss is the mean log-loss of saying how likely a run holds the canary, by the ratio less the best of
// thresholds: only what lies between runs counts.
func (p *Pattern) loss(without, with [][]Step) float64 {
	ratios := [2][]float64{p.ratios(without), p.ratios(with)}
	low, high := math.Inf(1), math.Inf(-1)
	for _, x := range append(ratios[0], ratios[1]...) {
		low, high = min(low, x), max(high, x)
	}
	threshold, loss := 0.0, 0.0
	for range 60 { // the loss is convex in the threshold
		threshold = (low + high) / 2
		slope := 0.0
		loss = 0
		for world, all := range ratios {
			sign := float64(1 - 2*world)
			for _, x := range all {
				y := sign * (x - threshold)
				loss += hear.Sampled(0.5, y) / float64(len(all))
				slope -= sign / (1 + math.Exp(-y)) / float64(len(all))
			}
		}
		if slope < 0 {
			low = threshold
		} else {
			high = threshold
		}
	}
	return loss
}

func (p *Pattern) ratios(runs [][]Step) (all []float64) {
	for _, run := range runs {
		all = append(all, p.Ratio(run))
	}
	return all
}

// fit goes by expectation and maximisation (Dempster, Laird and Rubin 1977).
func fit(without, with [][]Step, rate float64, sets int) *Pattern {
	steps := len(with[0])
	p := &Pattern{classes: begin(steps, rate), sets: sets}
	alone, all := p.count(without), p.count(with)
	total := float64(steps*(len(without)+len(with))) + float64(sets)
	for i, n := range alone {
		p.usual = append(p.usual, (n+all[i]+1)/total)
	}
	p.alone, p.with, p.without = p.logs(alone), p.logs(all), p.logs(all)
	last := math.Inf(-1)
	for range min(mostRounds, max(work/(classes*steps*len(with)), 10)) {
		likelihood := p.improve(with, rate)
		if likelihood-last < enough {
			break
		}
		last = likelihood
	}
	return p
}

// begin has classes whose canaries join seldom or often, at some steps a little more.
func begin(steps int, rate float64) []class {
	random := rand.New(rand.NewPCG(1, 0x6f72646572))
	all := make([]class, classes)
	for k := range all {
		all[k] = class{weight: -math.Log(classes), rates: make([]float64, steps)}
		level := math.Log(rate/(1-rate)) + random.NormFloat64()
		for t := range steps {
			all[k].rates[t] = 1 / (1 + math.Exp(-level-random.NormFloat64()/2))
		}
	}
	return all
}

// set is that of the others at a step.
func (p *Pattern) set(s Step) int { return s.Others % p.sets }

// count says how often each set was met.
func (p *Pattern) count(runs [][]Step) []float64 {
	n := make([]float64, p.sets)
	for _, run := range runs {
		for _, s := range run {
			n[p.set(s)]++
		}
	}
	return n
}

// logs are those of the shares that counts have. Sets that are seldom met keep to their usual share.
func (p *Pattern) logs(counts []float64) []float64 {
	prior, total, l := float64(len(counts)), float64(len(counts)), make([]float64, len(counts))
	for _, n := range counts {
		total += n
	}
	for i, n := range counts {
		l[i] = math.Log((n + prior*p.usual[i]) / total)
	}
	return l
}

// improve does one round, and gives the log-likelihood of what was before it.
func (p *Pattern) improve(runs [][]Step, rate float64) (likelihood float64) {
	with, without := make([]float64, len(p.with)), make([]float64, len(p.with))
	next := make([]class, len(p.classes))
	in := make([][]float64, len(p.classes)) // probabilities that the canary is, by class and step
	for k, c := range p.classes {
		next[k] = class{weight: prior, rates: make([]float64, len(c.rates))}
		in[k] = make([]float64, len(c.rates))
	}
	for _, run := range runs {
		of, base := p.of(run, in)
		total := sum(of)
		likelihood += base + total
		for k := range next {
			share := math.Exp(of[k] - total)
			next[k].weight += share
			for t, x := range in[k] {
				next[k].rates[t] += share * x
				with[p.set(run[t])] += share * x
				without[p.set(run[t])] += share * (1 - x)
			}
		}
	}
	for k := range next {
		for t := range next[k].rates {
			next[k].rates[t] = (next[k].rates[t] + prior*rate) / next[k].weight
		}
		next[k].weight = math.Log(next[k].weight / float64(len(runs)+prior*len(next)))
	}
	p.classes, p.with, p.without = next, p.logs(with), p.logs(without)
	return likelihood
}

// of gives the log-likelihood ratios of a run in every class, against a run that never holds the
// canary. base is the log-likelihood of the others in such a run. In is told how likely the canary is in.
func (p *Pattern) of(run []Step, in [][]float64) (of []float64, base float64) {
	of = make([]float64, len(p.classes))
	odds := make([][2]float64, len(run)) // of a batch without the canary and with it: the larger is 1
	scale := 0.0
	for t, s := range run {
		base += p.without[p.set(s)]
		x := s.Ratio + p.with[p.set(s)] - p.without[p.set(s)]
		most := max(x, 0)
		odds[t] = [2]float64{math.Exp(-most), math.Exp(x - most)}
		scale += most
	}
	for k, c := range p.classes {
		of[k] = c.weight + scale
		product := 1.0
		for t, q := range c.rates {
			a, b := (1-q)*odds[t][0], q*odds[t][1]
			if product *= a + b; product < 1e-100 { // rates are not so near to 0 or 1 that one step could leave nothing
				of[k] += math.Log(product)
				product = 1
			}
			if in != nil {
				in[k][t] = b / (a + b)
			}
		}
		of[k] += math.Log(product)
	}
	return of, base
}

// Ratio is the log of how much likelier a run is with the canary among the records.
func (p *Pattern) Ratio(run []Step) float64 {
	of, base := p.of(run, nil)
	for _, s := range run {
		base -= p.alone[p.set(s)]
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
