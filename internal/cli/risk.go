package cli

import (
	"fmt"
	"math"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/internal/plan"
)

// AttackGuess says what a risk means for who guesses whether a record was used, or a group of so many.
func AttackGuess(r *accountant.Risk, group int) string {
	what := "a record was used"
	if group > 1 {
		what = fmt.Sprintf("%d records were used", group)
	}
	return fmt.Sprintf("an attacker who guesses whether %s is right at most %s of the time (a coin: 50%%)", what, percentUp((1+r.Advantage)/2))
}

// AttackFinds says what it means for who wants to be wrong rarely.
func AttackFinds(r *accountant.Risk, group int) string {
	what := "records"
	if group > 1 {
		what = "groups"
	}
	return fmt.Sprintf("an attacker who wrongly suspects 1%% of the unused %s finds at most %s of the used ones", what, percentUp(r.TPR["0.01"]))
}

// Labeled is a reason against a guarantee, behind NOT PRIVATE or NO GUARANTEE.
func Labeled(why string) string { return plan.Labeled(why) }

// percentUp is a share in percent, rounded up to a tenth.
func percentUp(x float64) string {
	return fmt.Sprintf("%.1f%%", min(math.Ceil(1000*x)/10, 100))
}
