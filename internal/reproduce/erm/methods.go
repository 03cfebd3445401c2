package erm

import (
	"math"
	"math/rand/v2"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/internal/papers"
)

// A problem is what is public of a cell of the table.
type problem struct {
	records    int
	dim        int
	lipschitz  float64 // L of the loss without the penalty
	smoothness float64 // β, with the penalty
	mu         float64
	epsilon    float64
}

// problem is that of a penalty: an intercept is one more feature, of value 1.
func (b *benchmark) problem(mu, epsilon float64) problem {
	square := norm*norm + 1
	return problem{b.records, b.here, math.Sqrt(square), b.curve*square + mu, mu, epsilon}
}

// rate is the paper's η: 1/β, or 1/(β+μ).
func (p problem) rate() float64 { return 1 / (p.smoothness + p.mu) }

func (p problem) steps(n int) papers.Descent {
	return papers.Descent{Records: p.records, Steps: n, Lipschitz: p.lipschitz, Smoothness: p.smoothness, StrongConvexity: p.mu, LearningRate: p.rate()}
}

// A descent is what a method does, which follows from public figures.
type descent struct {
	steps int
	rate  float64
	noise float64 // standard deviation in every coordinate
}

// multiplier is the noise that a release of sensitivity 1 needs, by the exact condition; what
// several releases need whose squared sensitivities add up to 1 is the same.
func (p problem) multiplier() (float64, error) {
	s, _, err := accountant.Schedule{
		SamplingRate: 1, Steps: 1, Neighbouring: accountant.ReplaceOne, Accountant: accountant.GDP, Delta: delta,
	}.Calibrate(p.epsilon)
	return s / 2, err // the schedule counts in units of a record's presence
}

const (
	mostSteps      = 5000
	mostNoisySteps = 1000
)

// tight is output perturbation with tight sensitivity and noise.
func (p problem) tight(steps int) (descent, error) {
	s, err := p.multiplier()
	return descent{steps, p.rate(), s * p.steps(steps).Sensitivity()}, err
}

// planned is tight with the number of steps that makes the sum of two bounds least: on what is left
// to descend, and on what noise adds. A loss of ⟨w, x⟩ sees noise as N(0, σ²‖x‖²), and so rises by
// (β−μ)σ²/2 at most, whatever the dimension; the penalty rises by μdσ²/2.
func (p problem) planned() (best descent, _ error) {
	s, err := p.multiplier()
	if err != nil {
		return best, err
	}
	least := math.Inf(1)
	for n := 1; n <= mostSteps; n++ {
		noise := s * p.steps(n).Sensitivity()
		left := p.smoothness / 2 * radius * radius
		if p.mu > 0 {
			left *= math.Pow(1-p.rate()*p.mu, 2*float64(n))
		} else {
			left /= float64(n)
		}
		if bound := left + (p.smoothness-p.mu+float64(p.dim)*p.mu)/2*noise*noise; bound < least {
			least, best = bound, descent{n, p.rate(), noise}
		}
	}
	return best, nil
}

// published is output perturbation as the paper has it: the steps of theorems 2 and 3 with a
// constant of 1, the sensitivity of lemmas 2 and 3, and the noise of algorithm 1, line 7.
func (p problem) published() descent {
	n, d, tail := float64(p.records), float64(p.dim), math.Log(1/delta)
	steps := math.Cbrt(math.Pow(p.smoothness*n*p.epsilon*radius/p.lipschitz, 2) / (d * tail))
	if mu, beta := p.mu, p.smoothness; mu > 0 {
		steps = (mu*mu + beta*beta) / (mu * beta) * math.Log(math.Pow(mu*n*p.epsilon*radius/p.lipschitz, 2)/(d*tail))
	}
	t := max(int(math.Round(steps)), 1)
	return descent{t, p.rate(), p.steps(t).PaperSensitivity() * math.Sqrt(2*math.Log(2/delta)) / p.epsilon}
}

// noisy is gradient descent with noise in every step, priced exactly. The number of steps makes
// the usual bound least.
func (p problem) noisy() (best descent, _ error) {
	s, err := p.multiplier()
	if err != nil {
		return best, err
	}
	eta, least := p.rate(), math.Inf(1)
	for n := 1; n <= mostNoisySteps; n++ {
		t := float64(n)
		noise := s * 2 * p.lipschitz / float64(p.records) * math.Sqrt(t)
		variance := float64(p.dim) * noise * noise
		bound := radius*radius/(2*eta*t) + eta/2*variance
		if p.mu > 0 {
			shrink := math.Pow(1-eta*p.mu, 2*t)
			bound = p.smoothness / 2 * (radius*radius*shrink + eta*eta*variance*(1-shrink)/(1-math.Pow(1-eta*p.mu, 2)))
		}
		if bound < least {
			least, best = bound, descent{n, eta, noise}
		}
	}
	return best, nil
}

// descend makes steps of gradient descent from 0, for all runs of a batch side by side; where
// there is a source, with noise in every step.
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

// bassilyBatch is the paper's, for the baseline.
const bassilyBatch = 50

// bassily is private SGD of Bassily, Smith and Thakurta 2014 on batches, in its authors' noise
// and step sizes. Its (n/50)² steps agree with the paper's runtimes.
func (t *table) bassily(p problem, work float64, stopped func() error, random *rand.Rand) (*batch, int, error) {
	a, err := papers.NewBassily(p.records, bassilyBatch, p.epsilon, delta)
	if err != nil {
		return nil, 0, err
	}
	b := t.batch(1)
	steps := max(int(work*float64(a.Steps)), 1)
	records := make([]int32, bassilyBatch)
	noise := a.NoiseMultiplier * p.lipschitz / bassilyBatch
	first := 2 * radius / math.Hypot(p.lipschitz, math.Sqrt(float64(p.dim))*noise)
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
		rate := first / math.Sqrt(float64(step))
		if p.mu > 0 {
			rate = 1 / (p.mu * float64(step))
		}
		square := 0.0
		for j, g := range b.sum {
			g = g/bassilyBatch + p.mu*b.w[j] + noise*random.NormFloat64()
			b.w[j] -= rate * g
			square += b.w[j] * b.w[j]
		}
		if square > radius*radius {
			for j := range b.w {
				b.w[j] *= radius / math.Sqrt(square)
			}
		}
	}
	return b, steps, nil
}
