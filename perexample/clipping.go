package perexample

import (
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/usage"
)

// Clipping names a way to bound what one example adds to the sum.
type Clipping string

const (
	Flat         Clipping = "flat"      // ir.Flat
	PerLayer     Clipping = "per-layer" // ir.PerLayer
	Automatic    Clipping = "automatic" // ir.Automatic
	AdaptiveFlat Clipping = "adaptive"  // ir.Flat at a C that moves (Adaptive)
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
	return ir.Unclipped, usage.Unknown("clipping", c, Clippings())
}
