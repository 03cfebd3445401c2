package convex

import (
	"math"

	"github.com/privgrad/privgrad/internal/device/host"
	"github.com/privgrad/privgrad/internal/ir"
)

// MoveGrid is a record's largest share of a sum of Moves.
const MoveGrid = 1 << 20

// Moves sums over all records by how much their losses at w fall where one parameter moves by
// step, up or down: sum 2j is of parameter j moved up, and 2j+1 of it moved down. A record's share
// is clipped to [−bound, bound] and rounded, in units of bound/MoveGrid. So sums are integers,
// which no order changes, and one record moves each by MoveGrid at most, whatever is in it and
// however its losses were rounded. What is no number counts as 0.
func (t *Table) Moves(w []float64, step, bound float64) []int64 {
	sums := make([]float64, 2*len(w)) // of integers below 2⁵³: exact
	t.sums(sums, func() func(sum []float64, i int) {
		z, delta := make([]float64, t.Outputs), make([]float64, t.Outputs)
		return func(sum []float64, i int) {
			t.logits(z, w, i)
			before := host.Loss(t.Loss, z, t.target[i], delta)
			move := func(at, k int, by float64) {
				if by == 0 {
					return
				}
				sum[2*at] += share(t.fall(before, z, delta, k, by, i) / bound)
				sum[2*at+1] += share(t.fall(before, z, delta, k, -by, i) / bound)
			}
			for k := range z {
				for j, x := range t.row(i) {
					move(t.weight+k*t.Inputs+j, k, step*float64(x)*t.factor[i])
				}
				if t.Bias {
					move(t.bias+k, k, step)
				}
			}
		}
	})
	moves := make([]int64, len(sums))
	for i, s := range sums {
		moves[i] = int64(s)
	}
	return moves
}

// fall is by how much a record's loss falls where logit k moves; before is the loss, and delta its gradient.
func (t *Table) fall(before float64, z, delta []float64, k int, by float64, i int) float64 {
	if t.Loss != ir.SoftmaxCrossEntropy {
		return before - host.ScalarLoss(t.Loss, z[0]+by, float64(t.target[i]))
	}
	p, own := delta[k], 0.0
	if k == int(t.target[i]) {
		p, own = p+1, by
	}
	return own - math.Log1p(p*math.Expm1(by))
}

// share is a record's, of what is 1 at the bound.
func share(x float64) float64 {
	if math.IsNaN(x) {
		return 0
	}
	return math.RoundToEven(max(-1, min(x, 1)) * MoveGrid)
}
