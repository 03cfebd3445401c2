package blsgd

import "github.com/privgrad/privgrad/internal/setting"

// Rows are the settings as files and help have them.
func (Settings) Rows() []setting.Row {
	on := setting.Group{Title: "Training", Topic: topic}
	return []setting.Row{
		{Key: "search.form", Group: on, Help: "question to each record: " + setting.Choices(Forms()) + " (clipped decreases, a released curve of them, losses as published, or for dp-agd the least loss)"},
		{Key: "search.budget", Group: on, Help: "whether budgets stay fixed (default for networks) or adapt after searches that fail (default for linear models): " + setting.Choices(Policies())},
		{Key: "search.batches", InFile: true, Group: on, Help: "batch of a search: its own (fresh), that of the gradient (shared), or the same charged as in the paper (NO GUARANTEE): " + setting.Choices(Batches())},
		{Key: "search.noise", InFile: true, Group: on, Help: "distribution of the noise of a search: " + setting.Choices(Noises())},
		{Key: "search.clip", InFile: true, Group: on, Help: "bound on a record's loss or decrease (default by form: 0.1, 0.3 or 3; 1 for linear models, 3 with dp-agd)"},
		{Key: "search.every", InFile: true, Group: on, Help: "steps from one search to the next (default 5; 1 in the published form)"},
		{Key: "search.share", InFile: true, Group: on, Help: "fixed budget: share that searches get (default 0.1)"},
		{Key: "search.alpha", InFile: true, Group: on, Help: "Armijo's α: share of the predicted decrease that a step must reach (default 0.3; published 0.001, linear models 0.5)"},
		{Key: "search.beta", InFile: true, Group: on, Help: "factor from one candidate to the next (default 0.8)"},
		{Key: "search.trials", InFile: true, Group: on, Help: "most candidates per search (default 20; 21 with dp-agd, which counts the step 0)"},
		{Key: "search.margin", InFile: true, Group: on, Help: "extra decrease to demand, in standard deviations of the search's noise; below 0 every step passes that is not clearly too large (default -1.5; published 0)"},
		{Key: "search.correct", InFile: true, Group: on, Help: "subtract the known energy of the noise from the slope (default true; published false)"},
		{Key: "search.start_every", InFile: true, Group: on, Help: "searches between moves of the start (default 1; published 10)"},
		{Key: "search.start_factor", InFile: true, Group: on, Help: "factor on the largest step since the last move, which gives the new start (default 2; published 1.2)"},
		{Key: "search.rise", InFile: true, Group: on, Help: "let the start rise as well as fall (default true; published false)"},
		{Key: "search.start_most", InFile: true, Group: on, Help: "largest start of a search (default 2 for dp-agd, else none)"},
		{Key: "search.normalise", InFile: true, Group: on, Help: "dp-agd: divide the noisy gradient by its norm, before the penalty's gradient; costs no privacy (default true)"},
		{Key: "search.points", InFile: true, Group: on, Help: "curve: number of points (default 9)"},
		{Key: "search.factor", InFile: true, Group: on, Help: "curve: factor from one point to the next (default 2)"},
		{Key: "search.keep", InFile: true, Group: on, Help: "curve: share of the largest decrease that a larger step must keep (default 0.5)"},
		{Key: "search.weight", InFile: true, Group: on, Help: "weight of a new search in the moving average of step sizes (default 0.3; published 1)"},
		{Key: "search.iterations", InFile: true, Group: on, Help: "adaptive budgets: iterations that the first budgets are made for (default 50; dp-agd 60)"},
		{Key: "search.growth", InFile: true, Group: on, Help: "ξ: how much a budget grows (default 0.3)"},
		{Key: "search.shrink", InFile: true, Group: on, Help: "ζ: how much clip norms shrink when gradients get more budget (default 0; dp-blsgd-ac 0.05)"},
		{Key: "search.wide", InFile: true, Group: on, Help: "φ_max: gradients get more budget if the angle of two of them exceeds this times its average (default 1.1)"},
		{Key: "search.narrow", InFile: true, Group: on, Help: "φ_min: searches get more budget if that angle is below this times its average (default 0.5)"},
		{Key: "search.decay", InFile: true, Group: on, Help: "ψ: decay of the average angle (default 0.8)"},
	}
}
