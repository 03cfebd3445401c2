package host

import (
	"math"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ir"
)

// Loss gives one example's loss at logits z and, unless delta is nil, its
// gradient there. The caller has checked the target. It works in float64 on
// every host: a few logits cost nothing beside the network.
func Loss[T Float](l ir.Loss, z []T, target float32, delta []T) float64 {
	if l == ir.SoftmaxCrossEntropy {
		return softmax(z, int(target), delta)
	}
	at, t := float64(z[0]), float64(target)
	if delta != nil {
		delta[0] = T(scalarGrad(l, at, t))
	}
	return ScalarLoss(l, at, t)
}

func softmax[T Float](z []T, target int, delta []T) float64 {
	top := float64(z[0])
	for _, x := range z[1:] {
		top = max(top, float64(x))
	}
	sum := 0.0
	var first [32]float64 // exponentials that are not computed again
	for i, x := range z {
		e := math.Exp(float64(x) - top)
		if i < len(first) {
			first[i] = e
		}
		sum += e
	}
	if delta != nil {
		// p−1 from p alone would cancel for a sure network; −Σ of the others does not.
		rest := 0.0
		for i, x := range z {
			var e float64
			if i < len(first) {
				e = first[i]
			} else {
				e = math.Exp(float64(x) - top)
			}
			if i != target {
				rest += e
				delta[i] = T(e / sum)
			}
		}
		delta[target] = T(-rest / sum)
	}
	return math.Log(sum) + top - float64(z[target])
}

// ScalarLoss is Loss of one logit z and target t, for losses that are not over classes.
func ScalarLoss(l ir.Loss, z, t float64) float64 {
	if math.IsNaN(z) {
		return z // a piece that is constant in z would hide it
	}
	switch l {
	case ir.Logistic:
		return logistic(t * z)
	case ir.Hinge:
		return max(1-t*z, 0)
	case ir.HuberHinge:
		const h = ir.HuberHingeWidth
		switch m := 1 - t*z; {
		case m <= -h:
			return 0
		case m < h:
			return (m + h) * (m + h) / (4 * h)
		default:
			return m
		}
	default: // ir.Huber
		if r := math.Abs(z - t); r > 1 {
			return r - 0.5
		}
		return (z - t) * (z - t) / 2
	}
}

// scalarGrad is the derivative of ScalarLoss by z.
func scalarGrad(l ir.Loss, z, t float64) float64 {
	if math.IsNaN(z) {
		return z
	}
	switch l {
	case ir.Logistic:
		return -t / (1 + math.Exp(t*z))
	case ir.Hinge:
		if 1-t*z > 0 {
			return -t
		}
		return 0
	case ir.HuberHinge:
		const h = ir.HuberHingeWidth
		switch m := 1 - t*z; {
		case m <= -h:
			return 0
		case m < h:
			return -t * (m + h) / (2 * h)
		default:
			return -t
		}
	default: // ir.Huber
		r := z - t
		return r / max(math.Abs(r), 1)
	}
}

// Predict gives the class that the logits name; 0 for a loss that is not over classes.
func Predict[T Float](l ir.Loss, z []T) int {
	best := 0
	switch l {
	case ir.SoftmaxCrossEntropy:
		for i, x := range z {
			if x > z[best] {
				best = i
			}
		}
	case ir.Huber:
	default:
		if z[0] >= 0 {
			best = 1
		}
	}
	return best
}

// Tally adds one row with an accepted target to a score: its loss and the
// class predicted from its logits.
func Tally(s *device.Score, p *ir.Program, target float32, loss float64, predicted int) {
	s.Count++
	s.Loss += loss
	truth := 0
	switch {
	case p.Loss == ir.Huber:
		return
	case p.Loss == ir.SoftmaxCrossEntropy:
		truth = int(target)
	case target > 0:
		truth = 1
	}
	if s.Confusion == nil {
		s.Confusion = make([][]int, max(p.Outputs(), 2))
		for i := range s.Confusion {
			s.Confusion[i] = make([]int, len(s.Confusion))
		}
	}
	s.Confusion[truth][predicted]++
	if predicted == truth {
		s.Correct++
	}
}

// Query is a device.LossQuery with the vectors that it names and what a run
// supplies: the step sizes and the bound on a row's share.
type Query[T Float] struct {
	Form    device.LossForm
	At      []T
	Present bool // At are the net's parameters
	Dir     []T
	Steps   []float32
	Clip    float32
	Step    float64 // what a row's values are truncated to multiples of; 0: nothing
}

// Add adds the share of one row with an accepted target to sums: losses are
// its losses at the candidates, base the one at At, which LossSum does not read.
func (q *Query[T]) Add(sums []float64, base float64, losses []float64) {
	bound := float64(q.Clip)
	switch q.Form {
	case device.LossDecrease:
		for i, loss := range losses {
			sums[i] += q.truncate(max(-bound, min(decrease(base, loss), bound)))
		}
	case device.LossCurve:
		squares := 0.0
		for _, loss := range losses {
			if !finite(loss) || !finite(base) {
				return
			}
			squares += (base - loss) * (base - loss)
		}
		// The margin is for the roundings of the norm and of the products.
		factor := min(1, bound*(1-0x1p-40)/math.Sqrt(squares))
		for i, loss := range losses {
			sums[i] += q.truncate(factor * (base - loss))
		}
	default: // device.LossSum
		for i, loss := range losses {
			if !(loss < bound) { // a NaN too
				loss = bound
			}
			sums[i] += q.truncate(max(loss, 0))
		}
	}
}

// truncate takes x, in [−c, c], towards 0 to a multiple of the step.
func (q *Query[T]) truncate(x float64) float64 {
	if q.Step == 0 {
		return x
	}
	return math.Trunc(x/q.Step) * q.Step
}

// decrease is from − to, where what is not finite counts as infinite and ∞ − ∞ as 0.
func decrease(from, to float64) float64 {
	switch f, t := finite(from), finite(to); {
	case f && t:
		return from - to
	case f:
		return math.Inf(-1)
	case t:
		return math.Inf(1)
	default:
		return 0
	}
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
