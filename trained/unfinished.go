package trained

import (
	"fmt"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/accountant/ledger"
	"github.com/privgrad/privgrad/internal/plan"
	"github.com/privgrad/privgrad/internal/rundir"
)

// Unfinished says that the run has not finished, so that its model is that of its last checkpoint, how far it is and how it
// goes on. It is empty of a run that has finished, also if crashes used up some of its steps.
func (m *Model) Unfinished() string {
	dir := rundir.Dir(m.dir)
	if dir.Has(rundir.Result) {
		return ""
	}
	how := fmt.Sprintf("continue it by `privgrad resume %s`", m.dir)
	if _, err := plan.Model(m.config.Model); err != nil {
		how = "to continue it, run your program again"
	}
	done, _, known := dir.Progress()
	if !known {
		return fmt.Sprintf("the run in %s has no %s: it is unfinished, or files are missing; restore them, or %s", m.dir, rundir.Result, how)
	}
	steps := fmt.Sprintf("%d steps", done)
	// A budget that adapts is counted in shares, of which there are more than any run has steps.
	if _, h, err := ledger.Read(dir.Path(rundir.Ledger)); err == nil && h.Committed <= accountant.MostSteps {
		steps = fmt.Sprintf("%d of %d steps", done, h.Committed)
	}
	return fmt.Sprintf("the run in %s is unfinished: its model is that after %s; %s", m.dir, steps, how)
}
