package cli

import (
	"fmt"
	"math"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/internal/plan"
)

// AttackGuess says what a risk means for who guesses whether a unit was used, such as "a record was".
func AttackGuess(r *accountant.Risk, unit string) string {
	return fmt.Sprintf("an attacker who guesses whether %s used is right at most %s of the time (a coin: 50%%)", unit, percentUp((1+r.Advantage)/2))
}

// AttackFinds says what it means for who wants to be wrong rarely, about units such as "records".
func AttackFinds(r *accountant.Risk, units string) string {
	return fmt.Sprintf("an attacker who wrongly suspects 1%% of the unused %s finds at most %s of the used ones", units, percentUp(r.TPR["0.01"]))
}

// Labeled is a reason against a guarantee, behind NOT PRIVATE or NO GUARANTEE.
func Labeled(why string) string { return plan.Labeled(why) }

// percentUp is a share in percent, rounded up to a tenth.
func percentUp(x float64) string {
	return fmt.Sprintf("%.1f%%", min(math.Ceil(1000*x)/10, 100))
}
