package erm

import (
	"math"
	"math/rand/v2"

	"github.com/privgrad/privgrad/accountant"
)

// A problem is what is public of a cell of the table.
type problem struct {
	n, d           float64
	lipschitz      float64 // L of the data part
	smoothness     float64 // β, the regularizer included
	mu             float64
	epsilon, delta float64
	radius         float64 // D, a bound on the optimum's norm
}

// rate is the paper's η: 1/β, or 1/(β+μ).
func (p problem) rate() float64 { return 1 / (p.smoothness + p.mu) }

// moved is how far T steps move when one record is exchanged, at most.
func (p problem) moved(steps int) float64 {
	if p.mu == 0 {
		return 2 * p.lipschitz * p.rate() * float64(steps) / p.n
	}
	return 2 * p.lipschitz / (p.n * p.mu) * -math.Expm1(float64(steps)*math.Log1p(-p.rate()*p.mu))
}

// A descent is what a method does, from public figures alone.
type descent struct {
	steps int
	rate  float64
	noise float64 // standard deviation, in every coordinate
}

// multiplier is the least noise in units of a sensitivity by which one release, or several of
// which the squares of sensitivities add up to one's, has (ε, δ).
func (p problem) multiplier() (float64, error) {
	s, _, err := accountant.Schedule{
		SamplingRate: 1, Steps: 1, Neighbouring: accountant.ReplaceOne, Accountant: accountant.GDP, Delta: p.delta,
	}.Calibrate(p.epsilon)
	return s / 2, err // the schedule counts in units of a record's presence
}

// perturbed is output perturbation with tight sensitivity and noise, and the number of steps
// that makes the sum of two bounds least: on what is left to descend, and on what noise adds.
func (p problem) perturbed() (best descent, _ error) {
	s, err := p.multiplier()
	if err != nil {
		return best, err
	}
	least := math.Inf(1)
	for steps := 1; steps <= mostSteps; steps++ {
		noise := s * p.moved(steps)
		left := p.smoothness * p.radius * p.radius / (2 * float64(steps))
		if p.mu > 0 {
			left = p.smoothness / 2 * p.radius * p.radius * math.Pow(1-p.rate()*p.mu, 2*float64(steps))
		}
		if bound := left + (p.smoothness-p.mu+p.d*p.mu)/2*noise*noise; bound < least {
			least, best = bound, descent{steps, p.rate(), noise}
		}
	}
	return best, nil
}

// published is output perturbation as the paper has it: theorems 2 and 3 with a constant of 1,
// lemmas 2 and 3, and line 7 of algorithm 1.
func (p problem) published() descent {
	tail := math.Log(1 / p.delta)
	if p.mu == 0 {
		t := math.Cbrt(math.Pow(p.smoothness*p.n*p.epsilon*p.radius/p.lipschitz, 2) / (p.d * tail))
		return p.classical(t, 3*p.lipschitz*p.rate()*max(math.Round(t), 1)/p.n)
	}
	beta, mu := p.smoothness, p.mu
	t := (mu*mu + beta*beta) / (mu * beta) * math.Log(math.Pow(mu*p.n*p.epsilon*p.radius/p.lipschitz, 2)/(p.d*tail))
	return p.classical(t, 5*p.lipschitz*(mu+beta)/(p.n*mu*beta))
}

func (p problem) classical(steps, sensitivity float64) descent {
	return descent{max(int(math.Round(steps)), 1), p.rate(), sensitivity * math.Sqrt(2*math.Log(2/p.delta)) / p.epsilon}
}

// noisy is gradient descent with noise in every step, by the exact cost of its Gaussians.
func (p problem) noisy() (best descent, _ error) {
	s, err := p.multiplier()
	if err != nil {
		return best, err
	}
	eta, least := p.rate(), math.Inf(1)
	for steps := 1; steps <= mostNoisySteps; steps++ {
		noise := s * 2 * p.lipschitz / p.n * math.Sqrt(float64(steps))
		t, variance := float64(steps), p.d*noise*noise
		left, added := p.radius*p.radius/(2*eta*t), eta/2*variance
		if p.mu > 0 {
			shrink := math.Pow(1-eta*p.mu, 2*t)
			left = p.smoothness / 2 * p.radius * p.radius * shrink
			added = p.smoothness / 2 * eta * eta * variance * (1 - shrink) / (1 - math.Pow(1-eta*p.mu, 2))
		}
		if left+added < least {
			least, best = left+added, descent{steps, eta, noise}
		}
	}
	return best, nil
}

const (
	mostSteps      = 20_000
	mostNoisySteps = 1000
)

// descend makes steps of gradient descent from 0, with noise in each where there is some, all
// runs of a batch side by side.
func (t *table) descend(runs int, do descent, mu float64, stopped func() error, random *rand.Rand) (*batch, error) {
	b := t.batch(runs)
	n := float64(t.len())
	for range do.steps {
		if err := stopped(); err != nil {
			return nil, err
		}
		t.gradient(b, nil, nil)
		for k, g := range b.sum {
			g = g/n + mu*b.w[k]
			if random != nil {
				g += do.noise * random.NormFloat64()
			}
			b.w[k] -= do.rate * g
		}
	}
	return b, nil
}

// release adds noise to one point, many times.
func (t *table) release(of *batch, runs int, noise float64, random *rand.Rand) *batch {
	b := t.batch(runs)
	for k := range b.w {
		b.w[k] = of.w[k/runs] + noise*random.NormFloat64()
	}
	return b
}

// A baseline is private SGD of Bassily, Smith and Thakurta 2014 on batches: n times the mean
// gradient of a batch, with noise, at steps 2R/√(t(n²L²+dσ²)) or 1/(μnt), projected to the ball
// of radius R.
const batchSize = 50

// bassilyNoise is σ of their algorithm on n·∇f.
func (p problem) bassilyNoise() float64 {
	return p.lipschitz * p.n * math.Sqrt(32*math.Log(p.n/p.delta)*math.Log(1/p.delta)) / p.epsilon
}

// bassily makes (n/50)² steps, as the paper's runtimes tell.
func (t *table) bassily(p problem, stopped func() error, random *rand.Rand) (*batch, int, error) {
	b := t.batch(1)
	sigma := p.bassilyNoise()
	steps := int(math.Ceil(p.n / batchSize * p.n / batchSize))
	records := make([]int32, batchSize)
	lipschitz := math.Sqrt(p.n*p.n*p.lipschitz*p.lipschitz + p.d*sigma*sigma)
	for step := 1; step <= steps; step++ {
		if step%1000 == 0 {
			if err := stopped(); err != nil {
				return nil, 0, err
			}
		}
		for k := range records {
			records[k] = int32(random.IntN(t.len()))
		}
		t.gradient(b, records, nil)
		rate := 2 * p.radius / (math.Sqrt(float64(step)) * lipschitz)
		if p.mu > 0 {
			rate = 1 / (p.mu * p.n * float64(step))
		}
		square := 0.0
		for j, g := range b.sum {
			g = p.n*(g/batchSize+p.mu*b.w[j]) + sigma*random.NormFloat64()
			b.w[j] -= rate * g
			square += b.w[j] * b.w[j]
		}
		if norm := math.Sqrt(square); norm > p.radius {
			for j := range b.w {
				b.w[j] *= p.radius / norm
			}
		}
	}
	return b, steps, nil
}
