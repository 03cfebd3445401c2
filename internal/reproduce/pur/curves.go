package pur

import (
	"fmt"
	"slices"

	"github.com/privgrad/privgrad/internal/reproduce"
)

// curves is a figure of schedules and constants against the ε that is spent.
func curves(name, short, where string, tasks []*task) reproduce.Figure {
	all := func(e *reproduce.Env) ([]*setup, []float64, error) {
		epsilons := curveEpsilons
		if e.Quick {
			epsilons = reproduce.Evenly(curveEpsilons, 3)
		}
		quick := slices.DeleteFunc(slices.Clone(tasks), func(t *task) bool { return t.slow > 0 })
		// Without a regularizer first, as in the paper.
		found, err := setups(e, quick, bounds, []float64{0, tableLambdas[0]})
		if err != nil || e.Quick || len(quick) == len(tasks) {
			return found, epsilons, err
		}
		e.Skip("settings of large data sets other than Z = 1 and λ = %g, which take many more steps", tableLambdas[0])
		slow, err := setups(e, slices.DeleteFunc(slices.Clone(tasks), func(t *task) bool { return t.slow == 0 }), bounds[1:], tableLambdas)
		return append(found, slow...), epsilons, err
	}
	return reproduce.Figure{
		Name: name, Short: short, Source: fay + ", " + where, Seeds: 3, Most: mostSeeds,
		Plan: func(e *reproduce.Env) (jobs []reproduce.Job, _ error) {
			found, epsilons, err := all(e)
			for _, s := range found {
				jobs = append(jobs, s.jobs(e, slices.Concat(schedules, constants()), epsilons)...)
			}
			return jobs, err
		},
		Show: func(e *reproduce.Env, rs reproduce.Records) reproduce.Page {
			found, epsilons, _ := all(e) // has been read before
			return showCurves(found, epsilons, rs)
		},
	}
}

var (
	fig1 = curves("pur-fig1", "PUR: risk and gradient against the privacy that is spent", "figure 1", []*task{synthetic, iris})
	fig3 = curves("pur-fig3", "PUR: risk and gradient against the privacy that is spent, other data", "figure 3", []*task{kdd, mnist, cancer})

	curveEpsilons = []float64{0.1, 0.3, 1, 3, 10, 20}
)

// mostSeeds of a setting whose comparisons fewer leave open.
const mostSeeds = 20

// gradient is what the paper's figures have.
var gradient = reproduce.Quantity{
	Name: "norm of the gradient", Of: func(r *reproduce.Record) *float64 { return r.GradientNorm }, Scale: 1, Text: reproduce.Estimate.Number,
}

func showCurves(all []*setup, epsilons []float64, rs reproduce.Records) reproduce.Page {
	v := viewOf(rs)
	p := reproduce.Page{How: append([]string{
		fmt.Sprintf("Without a regularizer the schedule is (b), whose R the paper does not give: R = %g/Z here, and iterates are projected to that ball. With λ > 0 it is (c).", reach),
		"The paper's figures have the norm of the gradient at 120 repetitions' median. Here are means with intervals, of it and of the risk.",
	}, how...)}
	var panels []string
	for row := range slices.Chunk(all, 4) {
		var risks, gradients []reproduce.Chart
		for _, s := range row {
			panels = append(panels, s.panel)
			series := slices.DeleteFunc(rs.Series(s.panel), func(name string) bool { return name == optimum })
			c, _ := rs.Against(s.panel, series, epsilons, gradient)
			c.LogY = true
			gradients = append(gradients, c)
			c, t := v.table(s.panel, epsilons, nil)
			c, _ = rs.Against(s.panel, series, epsilons, risk)
			risks, p.Tables = append(risks, c), append(p.Tables, t)
		}
		p.Charts = append(p.Charts, risks, gradients)
	}
	var each tally
	for _, s := range sigmas {
		each = each.plus(v.compare(panels, epsilons, printed, constant(s), nil))
	}
	p.Claims = append([]reproduce.Claim{
		each.most("at the same spent ε, PUR's schedule has a lower risk than a constant noise"),
		v.asGood(panels, epsilons, "at every spent ε", nil), v.likeOracle(panels, epsilons),
	}, v.ours(panels, epsilons, schedules)...)
	return p
}
