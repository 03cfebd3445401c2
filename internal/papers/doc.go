// Package papers plans published methods whose noise is fixed in advance: how many steps a
// budget allows, how much noise each step needs, and under which conditions. `privgrad
// schedule` shows its plans. It computes with public numbers alone, reads no data and draws
// no noise.
//
// Every figure here is for replace-one: neighbouring data sets have the same
// public size and differ in one record's value. Sensitivities and deviations
// are those of the released vector itself, in its own units, unless a name
// says otherwise. Figures that a paper prints and that differ from what holds
// carry the name Paper, to be shown beside ours and never charged.
package papers

import (
	"fmt"
	"math"
)

// positive refuses a value that is no finite number above 0.
func positive(name string, x float64) error {
	if !(x > 0) || math.IsInf(x, 0) {
		return fmt.Errorf("%s %v: must be a finite number above 0", name, x)
	}
	return nil
}

func atLeastOne(name string, n int) error {
	if n < 1 {
		return fmt.Errorf("%s %d: must be 1 or more", name, n)
	}
	return nil
}

// probability refuses what is not strictly between 0 and 1.
func probability(name string, p float64) error {
	if !(p > 0) || p >= 1 {
		return fmt.Errorf("%s %v: must be in (0, 1)", name, p)
	}
	return nil
}
