package meta

import (
	"slices"

	"github.com/privgrad/privgrad/dpoptim/l2p"
)

// A Point is where a simulated run is.
type Point struct {
	Params []float64
	Loss   float64
	Noise  float64 // multiplier of the step that led here
	Left   float64 // share of the budget after it
}

// Trace simulates a private run of one task and gives where it started and where each step
// led. Two protectors with one seed start at the same point.
func Trace(p *l2p.Protector, plan Plan, task Task, n Noise, seed uint64) []Point {
	s := plan.simulate(ruleOf(p), task, n, seed)
	at := s.start()
	point := func() Point {
		return Point{Params: slices.Clone(at.params), Loss: task.Loss(at.params, nil), Noise: at.known.Multiplier, Left: at.known.Left}
	}
	all := []Point{point()}
	for s.affords(at) {
		at = s.step(at).after
		all = append(all, point())
	}
	return all
}

// ClippedLoss is the sum of the records' losses, each clipped to [0, bound], for searches
// that ask for losses.
func (q *quadratic) ClippedLoss(params []float64, bound float64) float64 {
	total := 0.0
	for i := range q.records {
		loss, _ := q.records[i].at(params)
		total += min(loss, bound)
	}
	return total
}
