package main

import (
	"strings"

	"github.com/privgrad/privgrad/train"
)

// searchSettings are the flags of the optimizers that find their step sizes.
func searchSettings(s *settings) {
	// What is not said keeps the default of the form and the budget.
	of := func(c *train.Config) *train.Search {
		if c.Search == nil {
			c.Search = &train.Search{}
		}
		return c.Search
	}
	text := func(name, usage string, choices []string, field func(*train.Search) *string) {
		add(s, textKind, name, usage+": "+strings.Join(choices, ", "), func(c *train.Config, v string) { *field(of(c)) = v })
	}
	number := func(name, usage string, field func(*train.Search) **float64) {
		add(s, numberKind, name, usage, func(c *train.Config, v float64) { *field(of(c)) = &v })
	}
	whole := func(name, usage string, field func(*train.Search) **int) {
		add(s, integerKind, name, usage, func(c *train.Config, v int) { *field(of(c)) = &v })
	}
	text("search-form", "line search (dp-blsgd and its kin; --lr is where it starts): clipped decreases of every example, a released curve of them, or the published form", train.SearchForms(), func(s *train.Search) *string { return &s.Form })
	text("search-budget", "how budgets move: not at all (default of networks), or after searches that fail (adaptive is the default of linear models; admitted by a filter)", train.SearchBudgets(), func(s *train.Search) *string { return &s.Budget })
	text("search-batches", "what a search is asked of: a batch of its own, the gradient's charged for both, or the gradient's by the paper's arithmetic (not a guarantee)", train.SearchBatches(), func(s *train.Search) *string { return &s.Batches })
	text("search-noise", "law of a search's noise", train.SearchNoises(), func(s *train.Search) *string { return &s.Noise })
	number("search-clip", "bound on an example's loss or decrease (default by form: 0.1, 0.3, or 3; 1 for linear models)", func(s *train.Search) **float64 { return &s.Clip })
	whole("search-every", "steps from one search to the next, which save up for it (default 5; 1 in the published form)", func(s *train.Search) **int { return &s.Every })
	number("search-share", "share of the budget that searches get, where it is fixed (default 0.1)", func(s *train.Search) **float64 { return &s.Share })
	number("search-alpha", "Armijo's α: share of the slope that a step must lower the loss by (default 0.3; published 0.001, linear models 0.5)", func(s *train.Search) **float64 { return &s.Alpha })
	number("search-beta", "factor from a candidate to the next (default 0.8)", func(s *train.Search) **float64 { return &s.Beta })
	whole("search-trials", "candidates at most (default 20)", func(s *train.Search) **int { return &s.Trials })
	number("search-margin", "decrease that is asked for beyond, in standard deviations of the search's noise; below 0 a step is taken unless it is clearly too large (default -1.5; published 0)", func(s *train.Search) **float64 { return &s.Margin })
	add(s, booleanKind, "search-correct", "take the known energy of the noise out of the slope (default true; published false)", func(c *train.Config, v bool) { of(c).Correct = &v })
	whole("search-start-every", "searches after which the start moves (default 1; published 10)", func(s *train.Search) **int { return &s.StartEvery })
	number("search-start-factor", "the start moves to this times the largest step since (default 2; published 1.2)", func(s *train.Search) **float64 { return &s.StartFactor })
	add(s, booleanKind, "search-rise", "the start may also rise (default true; published false)", func(c *train.Config, v bool) { of(c).Rise = &v })
	whole("search-points", "points of a curve (default 9)", func(s *train.Search) **int { return &s.Points })
	number("search-factor", "factor between a curve's neighbours (default 2)", func(s *train.Search) **float64 { return &s.Factor })
	number("search-keep", "share of the curve's largest decrease that a larger step must keep (default 0.5)", func(s *train.Search) **float64 { return &s.Keep })
	number("search-weight", "weight of a new search in the moving average of step sizes (default 0.3; published 1)", func(s *train.Search) **float64 { return &s.Weight })
	whole("search-iterations", "iterations that first budgets are made for, where they adapt (default 50)", func(s *train.Search) **int { return &s.Iterations })
	number("search-growth", "ξ: how much a budget grows (default 0.3)", func(s *train.Search) **float64 { return &s.Growth })
	number("search-shrink", "ζ: how much clip bounds shrink where gradients get more budget (default 0; dp-blsgd-ac 0.05)", func(s *train.Search) **float64 { return &s.Shrink })
	number("search-wide", "φ_max: angle of two gradients, over its average, above which they get more budget (default 1.1)", func(s *train.Search) **float64 { return &s.Wide })
	number("search-narrow", "φ_min: angle of two gradients, over its average, below which searches get more budget (default 0.5)", func(s *train.Search) **float64 { return &s.Narrow })
	number("search-decay", "ψ: decay of the average of angles (default 0.8)", func(s *train.Search) **float64 { return &s.Decay })
}
