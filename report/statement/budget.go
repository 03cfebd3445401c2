package statement

import (
	"fmt"

	"github.com/privgrad/privgrad/internal/budget"
	"github.com/privgrad/privgrad/internal/rundir"
)

// paid is the budget over several runs that has paid for a run.
type paid struct {
	receipt *budget.Receipt // nil: none has
	file    *budget.File    // nil: it is not at hand
}

// readPaid finds it. A file that has lost the run's entry is an error.
func readPaid(d rundir.Dir, name string) (p paid, err error) {
	if p.receipt, err = budget.ReadReceipt(d); p.receipt == nil || err != nil || !budget.There(name) {
		return p, err
	}
	if p.file, err = budget.Read(name); err == nil {
		err = p.file.CheckRun(name, d)
	}
	return p, err
}

// budget says what is known of a budget for the data, and of other runs on them.
func (r *run) budget() []string {
	if r.paid.receipt == nil {
		return []string{
			"This statement is about this run alone. Any other training run on the same data reveals something more, also one whose model was thrown away after someone had looked at it.",
			"The ε of such runs add up. privgrad does not know which other runs there were; the owner of the data has to keep count.",
			"For several runs at hand, `privgrad report A B --out both.html`, with the directories of the runs in the place of A and B, works out what they reveal together.",
		}
	}
	all := []string{fmt.Sprintf("A budget for several runs on the same data has paid for this run, before the run began. The run is entry %d of the budget with the identity %s.", r.paid.receipt.Entry, r.paid.receipt.Budget)}
	if f := r.paid.file; f != nil {
		all = append(all, fmt.Sprintf("All runs of that budget together promise at most ε = %v and δ = %v, for %s. So far the budget has paid for %s, which used ε = %.4g of that.",
			f.Epsilon, f.Delta, f.Unit, plural(len(f.Entries), "run"), f.Spent().Epsilon))
	} else {
		all = append(all, "The file of the budget was not at hand for this statement. Whoever keeps it lists all its runs by `privgrad budget show FILE RUN`.")
	}
	return append(all, "Runs on the same data that did not pay from this budget reveal something more. privgrad does not know of them; the owner of the data has to keep count.")
}
