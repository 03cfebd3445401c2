package perexample

import (
	"fmt"
	"strings"

	"github.com/privgrad/privgrad/internal/plan"
)

// Clipping names a way to bound what one example adds to the sum.
type Clipping string

const (
	// Flat scales a gradient longer than C down to C (plan.Flat).
	Flat Clipping = "flat"
	// PerLayer does so layer by layer, at C over the root of their number
	// (plan.PerLayer).
	PerLayer Clipping = "per-layer"
	// Automatic scales every gradient towards C (plan.Automatic).
	Automatic Clipping = "automatic"
	// AdaptiveFlat is Flat at a C that follows a quantile of the norms, by a
	// noisy count that every step is charged for (Adaptive).
	AdaptiveFlat Clipping = "adaptive"
)

// Clippings lists what Rule accepts.
func Clippings() []Clipping { return []Clipping{Flat, PerLayer, Automatic, AdaptiveFlat} }

// Rule is what a clipping asks of a schedule.
func (c Clipping) Rule() (plan.Clipping, error) {
	switch c {
	case Flat, AdaptiveFlat:
		return plan.Flat, nil
	case PerLayer:
		return plan.PerLayer, nil
	case Automatic:
		return plan.Automatic, nil
	}
	var names []string
	for _, k := range Clippings() {
		names = append(names, string(k))
	}
	return plan.Unclipped, fmt.Errorf("unknown clipping %q: choose one of %s", c, strings.Join(names, ", "))
}
