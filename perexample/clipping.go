package perexample

import (
	"fmt"

	"github.com/privgrad/privgrad/internal/ir"
)

// Clipping names a way to bound what one example adds to the sum.
type Clipping string

const (
	// Flat scales a gradient longer than C down to C (ir.Flat).
	Flat Clipping = "flat"
	// PerLayer does so layer by layer, at C over the root of their number
	// (ir.PerLayer).
	PerLayer Clipping = "per-layer"
	// Automatic scales every gradient towards C (ir.Automatic).
	Automatic Clipping = "automatic"
	// AdaptiveFlat is Flat at a C that follows a quantile of the norms, by a
	// noisy count that every step is charged for (Adaptive).
	AdaptiveFlat Clipping = "adaptive"
)

func Clippings() []Clipping { return []Clipping{Flat, PerLayer, Automatic, AdaptiveFlat} }

// Rule is what a clipping asks of a schedule.
func (c Clipping) Rule() (ir.Clipping, error) {
	switch c {
	case Flat, AdaptiveFlat:
		return ir.Flat, nil
	case PerLayer:
		return ir.PerLayer, nil
	case Automatic:
		return ir.Automatic, nil
	}
	return ir.Unclipped, fmt.Errorf("unknown clipping %q: choose one of %s", c, list(Clippings()))
}
