// Package host is what devices in the host's memory share: values, releases, and the
// arithmetic of clipping and of losses. A backend supplies the rest of it.
package host

import (
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/exact"
)

// Float is the type a backend computes in.
type Float interface{ float32 | float64 }

// Backend computes for one compiled schedule. Slices have one element per
// parameter; errors come only from what the host could not know.
type Backend[T Float] interface {
	// ClippedSum returns the centred count of Queue.CountedSum, which means
	// nothing but under flat clipping.
	ClippedSum(dst, params []T, t *Table, b Batch, clip float32) float64
	// Losses adds what q.Form says of each row to sums, one for every step size.
	Losses(sums []float64, q Query[T], t *Table, rows []int32)
	// Moved is called whenever the parameters may have been written: what a backend has
	// kept of the ones before is stale.
	Moved()
	// Apply does a release, then an update; either may be nil. When both are
	// there, the update's gradient is what the release writes, and a backend
	// may take a stretch of values through both before it turns to the next.
	Apply(*Release[T], *Update[T])
	Project(*Projection[T])
	Score(params []T, t *Table) device.Score
	// GridSum adds to integers on a grid what ClippedSum adds to floats: for exact
	// nets alone.
	GridSum(dst []int64, params []T, t *Table, b Batch, g device.Grid)
	// Blocks covers [0, n) by calls of f, perhaps at once.
	Blocks(n int, f func(lo, hi int))
	Rounding(rows int) float64 // of device.Net
	Close()
}

// Batch names records, and a random word for each of their views, a record's one after the other, where views are drawn.
type Batch struct {
	Rows  []int32
	Words []uint32
}

// Part is records lo to hi of a batch of so many views each, the end excluded.
func (b Batch) Part(lo, hi, views int) Batch {
	if len(b.Words) == 0 {
		return Batch{Rows: b.Rows[lo:hi]}
	}
	return Batch{b.Rows[lo:hi], b.Words[views*lo : views*hi]}
}

// Release is ReleaseTo of all values.
type Release[T Float] struct {
	Dst, Src []T
	Sampler  *exact.Sampler
	Step     float64
	Draw     uint64
}

// Update is a rule's change of the parameters P by the gradient G.
type Update[T Float] struct {
	Rule    device.Rule
	Scalars [device.Slots]float32
	P, G    []T
	State   [][]T
}

// Projection is a learned rule's change of the parameters P by the gradient G.
type Projection[T Float] struct {
	LSTM           device.LSTM
	Scalars        [device.Slots]float32
	P, G, W, State []T
}

// Each applies the scalar definition to parameters lo to hi.
func (u *Projection[T]) Each(lo, hi int) {
	w, state := make([]float64, len(u.W)), make([]float64, u.LSTM.States())
	for i, x := range u.W {
		w[i] = float64(x)
	}
	for i := lo; i < hi; i++ {
		for k := range state {
			state[k] = float64(u.State[k*len(u.P)+i])
		}
		u.P[i] = T(u.LSTM.Apply(&u.Scalars, w, float64(u.P[i]), float64(u.G[i]), state))
		for k, x := range state {
			u.State[k*len(u.P)+i] = T(x)
		}
	}
}
