package bench

import (
	"math"
	"slices"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/dpoptim/blsgd"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/usage"
)

// LineSearchOptions says what line search to time. The step's mode is private.
type LineSearchOptions struct {
	StepOptions
	Form    string // of SearchForms
	Batches string // fresh: the search has a batch of its own, of as many rows; shared: the gradient's
	Tried   int    // candidates that a search goes through
}

// LineSearchResult is a DP-SGD step beside a DP-BLSGD step. The limit follows from what a
// search costs, its forward passes. One takes about a third of a DP-SGD step, the one at the
// present parameters counts where the batch is fresh, and 15 % are for the rest.
type LineSearchResult struct {
	Subject
	Form      string `json:"form"`
	Batches   string `json:"batches"`
	Tried     int    `json:"tried"`
	Evaluated int    `json:"evaluated"` // groups of candidates may go beyond what is needed
	Turns
}

func (o *LineSearchOptions) check() error {
	o.Mode = "private"
	if err := o.StepOptions.check(); err != nil {
		return err
	}
	most := blsgd.MostTrials
	if o.Form == blsgd.FormCurve {
		most = device.MaxCandidates
	}
	switch {
	case !slices.Contains(SearchForms(), o.Form):
		return usage.Unknown("search form", o.Form, SearchForms())
	case o.Batches != string(accountant.Fresh) && o.Batches != string(accountant.Shared):
		return usage.Unknown("search batches", o.Batches, []string{string(accountant.Fresh), string(accountant.Shared)})
	case o.Tried < 1 || o.Tried > most:
		return usage.Errorf("search trials %d: must be in [1, %d] for form %s", o.Tried, most, o.Form)
	}
	return nil
}

// SearchForms lists what can be timed: the forms of dp-blsgd.
func SearchForms() []string {
	return slices.DeleteFunc(blsgd.Forms(), func(form string) bool { return form == blsgd.FormMinimum })
}

func (o *LineSearchOptions) limit() float64 {
	passes := float64(o.Tried)
	if o.Batches == string(accountant.Fresh) {
		passes++
	}
	return 1.15 * (1 + 0.37*passes)
}

// LineSearch times DP-SGD steps and, in turns with them, DP-BLSGD steps: a released
// direction, a search along it that goes through all of its candidates, or a released
// curve of them, and the step. Drawing batches is not timed, and no accountant.
func LineSearch(o LineSearchOptions) (*LineSearchResult, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	r := &LineSearchResult{Form: o.Form, Batches: o.Batches, Tried: o.Tried, Evaluated: o.Tried}
	var method *watched
	const warm = 6 // the first turns find groups of candidates their size
	err := o.beside(&r.Subject, &r.Turns, o.limit(), warm, func(w *workload) (s *stepper, err error) {
		s, method, err = o.searching(w)
		return s, err
	})
	if err == nil && method.search != nil {
		r.Evaluated = method.search.Tried()
	}
	return r, err
}

// searching makes steps as a run with a line search does. What it changes of the settings
// is nothing that a user may ask for: a margin that no candidate reaches, so that all are
// tried, and candidates next to each other, so that the last, which is then taken, is
// about the first, and the next search begins there.
func (o *LineSearchOptions) searching(w *workload) (*stepper, *watched, error) {
	search := &blsgd.Settings{Form: o.Form, Budget: blsgd.BudgetFixed, Batches: o.Batches, Every: new(1)}
	m := &watched{Method: blsgd.New(blsgd.BLSGD, &search)}
	s := settings()
	if _, err := m.Complete(s, dpoptim.Network{Layers: len(w.program.Ops)}); err != nil {
		return nil, nil, err
	}
	if o.Form == blsgd.FormCurve {
		search.Points, search.Factor = &o.Tried, new(1.001)
	} else {
		search.Trials, search.Margin, search.Beta, search.StartEvery = &o.Tried, new(math.Inf(1)), new(0.9999), new(math.MaxInt)
	}
	e, err := w.stepper(m, s, o.Batch, noised)
	return e, m, err
}

// watched is a method whose search can be asked what it evaluated.
type watched struct {
	dpoptim.Method
	search dpoptim.Search // nil for a curve
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
