package device

import "errors"

// Totals adds up what several nets of one run hold, each in a process of its own. All make the
// same calls in the same order, and each gets the total in the place of its own values. An error is final.
type Totals interface {
	SumInt64([]int64) error
	// SumFloat64 gives all of them the same bits.
	SumFloat64([]float64) error
}

// Combiner is a Queue whose sums are parts of totals. It hands un-noised sums on, so that only
// package internal/collective/sums may ask for it (a test over the sources keeps it so).
//
// Integers add up to the same bits in any order. A record that is added or removed may move others from
// part to part, so that rounding each part to the grid moves the total by up to √d·γ a part, which the noise
// covers (Net.Parts, docs/proofs/exact-noise.md).
type Combiner interface {
	Queue
	// Combine puts the total in the place of src. What the step does next with src takes the total,
	// and must let it go.
	Combine(src Sum, on Hidden, of Totals)
	// CombinedNorm is Norm of the total, on a grid four times as fine; src stays a part.
	CombinedNorm(dst, src Sum, on Hidden, of Totals)
}

// Hidden says on what grid a sum is added up: on that of the noise that hides it, to which each part is
// rounded first. The slots of the noise's scales tell whether a run has any; without noise nothing is rounded. An
// exact net's gradients are integers of their own.
type Hidden struct {
	Step   Slot
	Scales []Slot
}

// Grid is the step of a run, 0 without noise.
func (h Hidden) Grid(in *Inputs) float64 {
	for _, s := range h.Scales {
		if in.Scalars[s] != 0 {
			return float64(in.Scalars[h.Step])
		}
	}
	return 0
}

// ErrNoCombining is what other devices say.
var ErrNoCombining = errors.New("sums on this device cannot be shared by several processes; use --device cpu, or one process")
