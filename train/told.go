package train

import (
	"fmt"

	"github.com/privgrad/privgrad/internal/plan"
)

// A told run has a log and no Progress: a line for every tenth of the run, with public figures only, by the steps and never the clock.
type told struct {
	*run
	total, tenths int
}

// Start is of Progress, like Step and Finish.
func (t *told) Start(total int) { t.total, t.tenths = total, 0 }

// Step tells of a slot with which a tenth of the run is done.
func (t *told) Step(done int, epsilon, testAccuracy *float64) {
	tenths := 10 * done / t.total
	if tenths == t.tenths {
		return
	}
	t.tenths = tenths
	text := fmt.Sprintf("step %d, %d%% of the run", t.step(), 10*tenths)
	if epsilon != nil && t.plan.Config.Private() {
		text += fmt.Sprintf(", ε %.3g so far", *epsilon)
	}
	if testAccuracy != nil {
		text += fmt.Sprintf(", test accuracy %.1f%%", 100**testAccuracy)
	}
	if (epsilon != nil || testAccuracy != nil) && !t.evaluates() {
		text += " at the last evaluation"
	}
	if l := plan.Label(&t.plan.Config); l != "" {
		text += " (" + l + ")"
	}
	t.options.Log.Info(text)
}

// Finish has nothing to end.
func (t *told) Finish() {}

// Features is of FeatureProgress.
func (t *told) Features(work string, percent int) {
	if percent%10 == 0 {
		t.options.Log.Info(fmt.Sprintf("%s: %d%%", work, percent))
	}
}
