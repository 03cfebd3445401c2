package outpert

import (
	"math"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/internal/papers"
	"github.com/privgrad/privgrad/internal/usage"
)

// problem is what is public of a run, from which steps and rate follow.
type problem struct {
	norm, lipschitz, smooth, l2 float64 // of a record's loss without the penalty, and the penalty
	trace                       float64 // of its Hessian, without the penalty
	radius                      float64 // how far away the minimum is taken to be
	rate                        float64
	delta                       float64
	records, params             int
	variance                    float64 // E‖z‖² of noise for a bound of 1
}

func (m *Method) describe(c dpoptim.Settings, l *dpoptim.Linear, records int) problem {
	p := problem{norm: *c.FeatureNorm, l2: c.L2, records: records, params: l.Params(), radius: distance(l) / *c.FeatureNorm, delta: usualDelta}
	p.lipschitz, p.smooth, p.trace = l.Lipschitz(p.norm), l.Smoothness(p.norm), l.Trace(p.norm)
	p.rate = 1 / (p.smooth + p.l2)
	if m.paper() {
		p.rate = 1 / (p.smooth + 2*p.l2)
	}
	if c.Radius != nil {
		p.radius = *c.Radius
	}
	if m.delta != nil {
		p.delta = *m.delta
	}
	p.variance = p.noise(c)
	return p
}

// distance is that of the minimum, in units of 1/Z. A regression's weights have to tell targets
// in [0, 1] apart, where those of classes tell apart the better the longer they are.
func distance(l *dpoptim.Linear) float64 {
	if l.Regression() {
		return defaultTargets
	}
	return defaultRadius
}

// noise is the mean square of the noise for a bound of 1, nearly enough to plan by.
func (p problem) noise(c dpoptim.Settings) float64 {
	d, distance := float64(p.params), 1.0
	if c.Neighbouring == string(accountant.ReplaceOne) {
		distance = 2
	}
	switch {
	case c.NoiseMultiplier != nil:
		return d * *c.NoiseMultiplier * *c.NoiseMultiplier
	case c.Epsilon == nil: // which is refused elsewhere
		return d
	case p.delta == 0:
		return d * (d + 1) * math.Pow(distance / *c.Epsilon, 2)
	}
	sigma, err := papers.AnalyticGaussian(*c.Epsilon, p.delta)
	if err != nil {
		sigma = papers.PaperNoise(*c.Epsilon, p.delta)
	}
	return d * distance * distance * sigma * sigma
}

// most is the largest rate whose steps take no two runs apart.
func (p problem) most() float64 { return 2 / (p.smooth + 2*p.l2) }

// descent is gradient descent of so many steps, for a replaced record. Its smoothness counts the penalty.
func (p problem) descent(steps int) papers.Descent {
	return papers.Descent{
		Records: p.records, Steps: steps, Lipschitz: p.lipschitz, Smoothness: p.smooth + p.l2,
		StrongConvexity: p.l2, LearningRate: p.rate,
	}
}

// Where planning ends: of steps by the bound on the excess, which grow without end as the features' norm
// falls and the minimum moves away, and of the published ones.
const (
	mostSteps     = 10_000
	mostPublished = 100_000
)

// excess bounds how far a result is above the minimum: what T steps leave, which is at most D²/(2ηT),
// and (β/2)(1−ημ)^2T·D² with a penalty; and the noise's, half the Hessian's trace times E‖z‖²/d.
func (p problem) excess(steps int) float64 {
	beta, distance, t := p.smooth+p.l2, p.radius*p.radius, float64(steps)
	rate := min(p.rate, 1/beta)
	left := min(distance/(2*rate*t), beta/2*distance*math.Exp(2*t*math.Log1p(-rate*p.l2)))
	bound := p.descent(steps).Sensitivity() / 2
	return left + (p.trace/float64(p.params)+p.l2)/2*p.variance*bound*bound
}

// steps is the number with the least bound on the excess, within two percent.
func (p problem) steps() int {
	best, least := 1, p.excess(1)
	for t := 2; t <= mostSteps; t += 1 + t/50 {
		if e := p.excess(t); e < least {
			best, least = t, e
		}
	}
	return best
}

// completePasses takes for a constant rate the length of path, steps times rate, that gradient descent would
// take: the sensitivity is the same. With a penalty the rate falls, and nothing is to be planned.
func (p problem) completePasses(c *dpoptim.Settings) error {
	if c.Epochs == nil {
		c.Epochs = new(float64(defaultPasses))
	}
	if c.Batch == nil {
		c.Batch = new(float64(min(defaultBatch, p.records)))
	}
	steps := *c.Epochs * math.Ceil(float64(p.records) / *c.Batch)
	if p.records > math.MaxInt32 || *c.Batch > float64(p.records) || steps > mostUpdates {
		return usage.Errorf("%v epochs in batches of %v of %d public records: a batch must be at most the records, these at most %d, and all steps at most %d", *c.Epochs, *c.Batch, p.records, math.MaxInt32, mostUpdates)
	}
	if c.LR == nil && c.L2 == 0 {
		rate := min(float64(p.steps())*p.rate/steps, p.rate)
		c.LR = &rate
	}
	return nil
}

// mostUpdates is the most steps of passes.
const mostUpdates = 1_000_000_000
