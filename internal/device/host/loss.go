package host

import (
	"math"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/plan"
)

// Loss gives one example's loss at logits z and, unless delta is nil, its
// gradient there. The caller has checked the target. It works in float64 on
// every host: a few logits cost nothing beside the network.
func Loss[T Float](l plan.Loss, z []T, target float32, delta []T) float64 {
	if l == plan.SoftmaxCrossEntropy {
		return softmax(z, int(target), delta)
	}
	loss, grad := scalarLoss(l, float64(z[0]), float64(target))
	if delta != nil {
		delta[0] = T(grad)
	}
	return loss
}

func softmax[T Float](z []T, target int, delta []T) float64 {
	top := float64(z[0])
	for _, x := range z[1:] {
		top = math.Max(top, float64(x))
	}
	sum := 0.0
	for _, x := range z {
		sum += math.Exp(float64(x) - top)
	}
	for i := range delta {
		delta[i] = T(math.Exp(float64(z[i])-top) / sum)
	}
	if delta != nil {
		// p−1 from p alone would cancel for a sure network; −Σ of the others does not.
		rest := 0.0
		for i, x := range z {
			if i != target {
				rest += math.Exp(float64(x) - top)
			}
		}
		delta[target] = T(-rest / sum)
	}
	return math.Log(sum) + top - float64(z[target])
}

func scalarLoss(l plan.Loss, z, t float64) (loss, grad float64) {
	if math.IsNaN(z) {
		return z, z // a piece that is constant in z would hide it
	}
	switch l {
	case plan.Logistic:
		m := t * z // log(1+e^−m), without overflow on either side
		return math.Max(-m, 0) + math.Log1p(math.Exp(-math.Abs(m))), -t / (1 + math.Exp(m))
	case plan.Hinge:
		if m := 1 - t*z; m > 0 {
			return m, -t
		}
		return 0, 0
	case plan.HuberHinge:
		const h = plan.HuberHingeWidth
		switch m := 1 - t*z; {
		case m <= -h:
			return 0, 0
		case m < h:
			return (m + h) * (m + h) / (4 * h), -t * (m + h) / (2 * h)
		default:
			return m, -t
		}
	default: // plan.Huber
		r := z - t
		if math.Abs(r) <= 1 {
			return r * r / 2, r
		}
		return math.Abs(r) - 0.5, r / math.Abs(r)
	}
}

// Class gives the class that the logits name and the class of a target; ok is
// false for a loss that is not over classes.
func Class[T Float](l plan.Loss, z []T, target float32) (predicted, truth int, ok bool) {
	switch l {
	case plan.SoftmaxCrossEntropy:
		for i, x := range z {
			if x > z[predicted] {
				predicted = i
			}
		}
		return predicted, int(target), true
	case plan.Huber:
		return 0, 0, false
	default:
		if z[0] >= 0 {
			predicted = 1
		}
		if target > 0 {
			truth = 1
		}
		return predicted, truth, true
	}
}

// Tally adds one row with an accepted target to a score.
func Tally[T Float](s *device.Score, l plan.Loss, z []T, target float32) {
	s.Count++
	s.Loss += Loss(l, z, target, nil)
	predicted, truth, ok := Class(l, z, target)
	if !ok {
		return
	}
	if s.Confusion == nil {
		s.Confusion = make([][]int, max(len(z), 2))
		for i := range s.Confusion {
			s.Confusion[i] = make([]int, len(s.Confusion))
		}
	}
	s.Confusion[truth][predicted]++
	if predicted == truth {
		s.Correct++
	}
}

// ClippedLoss is one row's share of Queue.Losses, on the grid for an exact net.
func ClippedLoss[T Float](l plan.Loss, z []T, target, clip float32, exact bool) float64 {
	if !l.ValidTarget(target, len(z)) {
		return 0
	}
	loss := Loss(l, z, target, nil)
	if !(loss < float64(clip)) { // a NaN too
		loss = float64(clip)
	}
	if exact {
		loss = NewGrid(clip).onGrid(loss)
	}
	return loss
}
