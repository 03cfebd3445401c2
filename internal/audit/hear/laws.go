package hear

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/privgrad/privgrad/accountant"
)

// What an answer's probability is, by the mechanism that is claimed. A statistic that is made of
// these is as good as any against that mechanism; were they wrong, an audit would only be milder.

// nodes is how many values stand for the noise that a probability is averaged over.
const nodes = 64

// quantiles of a law: values of equal probability.
func quantiles(quantile func(p float64) float64) (all [nodes]float64) {
	for i := range all {
		all[i] = quantile((float64(i) + 0.5) / nodes)
	}
	return all
}

var (
	normalNodes      = quantiles(distuv.UnitNormal.Quantile)
	laplaceNodes     = quantiles(distuv.Laplace{Scale: 1}.Quantile)
	exponentialNodes = quantiles(distuv.Exponential{Rate: 1}.Quantile)
)

// leastProbability keeps logarithms finite where the average misses what is rare.
const leastProbability = 1e-9

func logOf(p float64) float64 { return math.Log(max(p, leastProbability)) }

// logNormal is the log density of y, but for what is the same for all means.
func logNormal(y, mean []float64, deviation float64) float64 {
	square := 0.0
	for i, x := range y {
		square += (x - mean[i]) * (x - mean[i])
	}
	return -square / (2 * deviation * deviation)
}

// logFirst is of the first of some queries above their biases being number told, or of none
// where that is −1. Scales are in units of the bound.
func logFirst(told int, queries, biases []float64, c accountant.NoisyBTLS, bound float64) float64 {
	at, tail := &normalNodes, func(x float64) float64 { return math.Erfc(x/math.Sqrt2) / 2 }
	if c.Noise == accountant.BTLSLaplace {
		at, tail = &laplaceNodes, func(x float64) float64 {
			if x < 0 {
				return 1 - math.Exp(x)/2
			}
			return math.Exp(-x) / 2
		}
	}
	total := 0.0
	for _, z := range at {
		p := 1.0
		for i, q := range queries {
			above := tail((biases[i] + z*c.ThresholdScale*bound - q) / (c.QueryScale * bound))
			if i == told {
				p *= above
				break
			}
			p *= 1 - above
		}
		total += p
	}
	return logOf(total / nodes)
}

// logLeast is of the least of some values, less exponential noise of a mean, being number told.
func logLeast(told int, values []float64, mean float64) float64 {
	total := 0.0
	for _, z := range &exponentialNodes {
		p := 1.0
		for i, v := range values {
			if i != told {
				p *= -math.Expm1(-max(v-values[told]+z*mean, 0) / mean)
			}
		}
		total += p
	}
	return logOf(total / nodes)
}

// logMost is of the class of most records among two being number told.
func logMost(told int, counts [2]int, epsilon float64) float64 {
	p := math.Exp(-epsilon*math.Abs(float64(counts[0]-counts[1]))) / 2 // of the smaller
	if counts[told] > counts[1-told] {
		p = 1 - p
	}
	return logOf(p)
}

// logDirection is the log density of y, but for what is the same for all means, with noise whose
// density falls by e at every scale that it is away.
func logDirection(y, mean []float64, scale float64) float64 {
	d := make([]float64, len(y))
	for i, x := range y {
		d[i] = x - mean[i]
	}
	return -length(d) / scale
}

// logHalf is of a point of a sphere that lies in a gradient's half of it, by a bit that is right e^ε times
// as often as not, or in the other one.
func logHalf(y, gradient []float64, epsilon, bound float64) float64 {
	inner := 0.0
	for i, x := range y {
		inner += x * gradient[i]
	}
	return math.Log1p(math.Copysign(math.Tanh(epsilon/2)*length(gradient)/bound, inner))
}

// logChoice is of candidate told by the exponential mechanism, with e^(rate·utility).
func logChoice(told int, utilities []float64, rate float64) float64 {
	total := 0.0
	for _, u := range utilities {
		total += math.Exp(rate * (u - utilities[told]))
	}
	return -math.Log(total)
}

// Sampled is ln(1 − q + q·exp(x)), without overflow: the log-likelihood ratio of a
// step that has the ratio exp(x) where its batch holds the canary.
func Sampled(q, x float64) float64 {
	if q == 1 {
		return x
	}
	a, b := math.Log1p(-q), math.Log(q)+x
	return max(a, b) + math.Log1p(math.Exp(-math.Abs(a-b)))
}
