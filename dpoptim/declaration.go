package dpoptim

import (
	"fmt"
	"slices"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim/batches"
)

// String tells declarations apart.
func (d Declaration) String() string {
	text := fmt.Sprintf(" budget %d", d.Budget)
	for _, a := range d.Asks {
		text += fmt.Sprintf(" %s of batch %d every %d size %d", a.Question, a.Batch, a.Every, a.Size)
		if a.Release != nil {
			r, err := a.Release(1)
			text += fmt.Sprintf(" %#v %v", r, err)
		}
		if a.At != nil {
			r, err := a.At(0)
			text += fmt.Sprintf(" %#v %v", r, err)
		}
	}
	return text
}

// Check refuses what no price would be right for, by an accountant.
func (d Declaration) Check(t Traits, by string) error {
	why := d.fault(t)
	shared, asked := 0, map[Question]bool{}
	for i, a := range d.Asks {
		if a.Batch == OfSum {
			shared++
		}
		switch w := d.faultOf(a, t, i == 0); {
		case w != "":
			why = w
		case a.Batch == ByPapers && (by != accountant.Paper || i != 1):
			why = "a batch is priced by papers under another accountant, or behind another question"
		case shared > 1, shared > 0 && d.Asks[0].Question != Gradients:
			why = "a batch has a sum of gradients, and at most one question beside it"
		case asked[a.Question]:
			why = fmt.Sprintf("a %s twice", a.Question)
		}
		asked[a.Question] = true
	}
	if why == "" {
		return nil
	}
	return fmt.Errorf("what optimizer %s declares cannot be priced: %s", t.Name, why)
}

// fault is one of the declaration as a whole.
func (d Declaration) fault(t Traits) string {
	switch {
	case t.Private && len(d.Asks) == 0:
		return "it asks for nothing"
	case t.Pure && (len(d.Asks) != 1 || d.Budget != Committed):
		return "a pure release is the only one"
	case slices.ContainsFunc(d.Asks, func(a Ask) bool { return !a.reportsAsDeclared(t) }):
		return "records report where privacy is local: purely, one in every step"
	case t.CanDraw(batches.Passes) && !t.Local:
		return "passes are for records that report by themselves: a pass is priced as one report of each"
	case t.CanDraw(batches.Shuffle) && slices.ContainsFunc(d.Asks, func(a Ask) bool { return a.Question != Fits }):
		return "a random order is for solvers"
	case d.Budget.Filtered() && !t.Private:
		return "a filter admits private releases"
	case len(d.Asks) > 1 && d.Asks[0].Every > 1:
		return "questions beside a sum that is not asked for in every step"
	}
	return ""
}

// reportsAsDeclared says that a question is of reports where a method's privacy is local, and nowhere else.
func (a Ask) reportsAsDeclared(t Traits) bool {
	return (a.Question == Reports) == t.Local && (!t.Local || t.Pure && a.Every <= 1)
}

// faultOf is one of a single question.
func (d Declaration) faultOf(a Ask, t Traits, first bool) string {
	switch {
	case (a.At != nil) != (d.Budget == Planned):
		return fmt.Sprintf("a %s whose noise goes by steps without a planned budget, or the other way round", a.Question)
	case t.Private && a.Release == nil && a.At == nil:
		return fmt.Sprintf("a %s without a release", a.Question)
	case a.Batch != Own && first:
		return "the first question has no batch of its own"
	case a.Question == Norms && (a.Batch != OfSum || a.Every > 1):
		return "norms are released with every sum"
	case a.Question == Majority && !t.Pure, t.Pure && !slices.Contains([]Question{Majority, Fits, Choices, Reports}, a.Question):
		return "a majority is pure, a fit or a choice may be, reports are, and nothing else is"
	case a.Question == Fits && (!t.Once || len(d.Asks) != 1 || d.Budget.Filtered()):
		return "a fit is the only release of its method"
	case a.Question == Choices && (t.Draws() != batches.Full || a.Batch != Own):
		return "a choice is of all records"
	}
	return ""
}
