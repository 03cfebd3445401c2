package convex

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/privgrad/privgrad/internal/device/host"
)

// Sums of moves are those of losses in two places, clipped and rounded record by record, on any number of threads;
// and no record moves one by more than the grid.
func TestMoves(t *testing.T) {
	const step, bound, n = 0.5, 0.2, 700
	for _, k := range kinds {
		m, err := Of(linear(k.loss, 5, k.outputs, true))
		check(t, err)
		data := func(threads int) *Table { return random(t, m, rand.New(rand.NewPCG(1, 2)), k.target, n, threads) }
		table, r := data(1), rand.New(rand.NewPCG(3, 4))
		w := make([]float64, m.Params())
		for i := range w {
			w[i] = r.NormFloat64()
		}
		got := table.Moves(w, step, bound)
		if !slices.Equal(got, data(3).Moves(w, step, bound)) {
			t.Errorf("%v: sums depend on threads", k.loss)
		}
		z, clipped := make([]float64, m.Outputs), 0
		at := func(w []float64, i int) float64 {
			table.logits(z, w, i)
			return host.Loss(m.Loss, z, table.target[i], nil)
		}
		for c, sum := range got {
			moved, want, records := slices.Clone(w), 0.0, 0
			moved[c/2] += step * float64(1-2*(c%2))
			for i := range n {
				if table.counts(i) {
					fall := (at(w, i) - at(moved, i)) / bound
					if math.Abs(fall) > 1 {
						clipped++
					}
					want += max(-1, min(fall, 1))
					records++
				}
			}
			if math.Abs(float64(sum)-want*MoveGrid) > float64(records) { // half a unit each, and rounding
				t.Errorf("%v: move %d sums to %d, want %v", k.loss, c, sum, want*MoveGrid)
			}
		}
		if clipped == 0 {
			t.Errorf("%v: nothing was clipped", k.loss)
		}
		for i := range 40 {
			one := *table
			one.rows, one.factor, one.target = table.row(i), table.factor[i:i+1], table.target[i:i+1]
			most := int64(0)
			for _, share := range one.Moves(w, step, 1e-3) {
				most = max(most, share, -share)
			}
			if most > MoveGrid || table.counts(i) != (most == MoveGrid) {
				t.Errorf("%v: record %d moves a sum by %d", k.loss, i, most)
			}
		}
	}
}

// What is no number counts as nothing.
func TestMovesOfNoNumbers(t *testing.T) {
	m, err := Of(linear(kinds[0].loss, 5, 1, true))
	check(t, err)
	table := random(t, m, rand.New(rand.NewPCG(1, 2)), kinds[0].target, 20, 1)
	for _, bad := range []float64{math.NaN(), math.Inf(1)} {
		w := slices.Repeat([]float64{bad}, m.Params())
		for _, sum := range table.Moves(w, 0.5, 0.5) {
			if sum > 20*MoveGrid || sum < -20*MoveGrid || math.IsNaN(bad) && sum != 0 {
				t.Errorf("at %v a move sums to %d", bad, sum)
			}
		}
	}
}
