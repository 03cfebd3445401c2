package bench

import (
	"math"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/dpoptim/blsgd"
	"github.com/privgrad/privgrad/internal/timing"
)

// LineSearchResult is a DP-SGD step beside a DP-BLSGD step. The limit follows from what a
// search costs, its forward passes. One takes about a third of a DP-SGD step, the one at the
// present parameters counts, as the search has a batch of its own, and 15 % are for the rest.
type LineSearchResult struct {
	Subject
	Form      string `json:"form"`
	Batches   string `json:"batches"`
	Tried     int    `json:"tried"`
	Evaluated int    `json:"evaluated"` // groups of candidates may go beyond what is needed
	Turns
}

// tried is the number of candidates that a search goes through.
const tried = 8

// LineSearch times DP-SGD steps and, in turns with them, DP-BLSGD steps: a released
// direction, a search along it that goes through all of its candidates, and the step.
// Drawing batches is not timed, and no accountant.
func LineSearch(o StepOptions) (*LineSearchResult, error) {
	o.Mode = "private"
	if err := o.check(); err != nil {
		return nil, err
	}
	r := &LineSearchResult{Form: blsgd.FormDifferences, Batches: string(accountant.Fresh), Tried: tried}
	var method *watched
	const warm = 6 // the first turns find groups of candidates their size
	err := o.beside(&r.Subject, &r.Turns, 1.15*(1+0.37*(tried+1)), warm, func(w *workload) (s *stepper, err error) {
		s, method, err = o.searching(w, r)
		return s, err
	})
	if err == nil {
		r.Evaluated = method.search.Tried()
	}
	return r, err
}

// searching makes steps as a run with a line search does. What it changes of the settings
// is nothing that a user may ask for: a margin that no candidate reaches, so that all are
// tried, and candidates next to each other, so that the last, which is then taken, is
// about the first, and the next search begins there.
func (o *StepOptions) searching(w *workload, r *LineSearchResult) (*stepper, *watched, error) {
	m := blsgd.New(blsgd.BLSGD, blsgd.Settings{Form: r.Form, Budget: blsgd.BudgetFixed, Batches: r.Batches, Every: new(1)})
	run, _, err := m.Complete(settings(), dpoptim.Network{Layers: len(w.program.Ops)})
	if err != nil {
		return nil, nil, err
	}
	search := m.Settled().(blsgd.Settings)
	search.Trials, search.Margin, search.Beta, search.StartEvery = new(tried), new(math.Inf(1)), new(0.9999), new(math.MaxInt)
	seen := &watched{Method: blsgd.New(blsgd.BLSGD, search)}
	e, err := w.stepper(seen, run, o.Batch, timing.Noised)
	return e, seen, err
}

// watched is a method whose search can be asked what it evaluated.
type watched struct {
	dpoptim.Method
	search dpoptim.Search
}

// Open opens the method on an engine that shows its search.
func (w *watched) Open(e dpoptim.Engine) (dpoptim.Steps, error) {
	return w.Method.Open(showing{e, w})
}

type showing struct {
	dpoptim.Engine
	to *watched
}

func (s showing) Search(along dpoptim.Vector) (dpoptim.Search, error) {
	search, err := s.Engine.Search(along)
	s.to.search = search
	return search, err
}
