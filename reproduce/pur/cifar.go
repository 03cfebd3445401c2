package pur

import (
	"fmt"
	"math"
	"slices"

	"github.com/privgrad/privgrad/reproduce"
)

var fig2 = reproduce.Figure{
	Name: "pur-fig2", Short: "PUR: excess risk on ScatterNet features, beside output perturbation", Source: fay + ", figure 2", Seeds: 3, Most: 6,
	Plan: func(e *reproduce.Env) (jobs []reproduce.Job, _ error) {
		s, err := cifar.setup(e, 1, cifarLambda)
		if s != nil {
			jobs = s.jobs(e, cifarLines, cifarEpsilons)
		}
		return jobs, err
	},
	Show: showCIFAR,
}

const cifarLambda = 10

var (
	cifarEpsilons = []float64{0.5, 1, 2, 5, 10, 20}
	cifarLines    = slices.Concat(schedules, constants(), []line{noisy, release})
)

func showCIFAR(_ *reproduce.Env, rs reproduce.Records) reproduce.Page {
	v, panels := viewOf(rs), rs.Panels()
	panel := panels[0]
	least := v.Mean(panel, optimum, 0, reproduce.Objective).Mean
	excess := reproduce.Quantity{Name: "excess risk F − F*", Scale: 1, Text: reproduce.Estimate.Number, Of: func(r *reproduce.Record) *float64 {
		if r.TrainLoss == nil {
			return nil
		}
		return new(*r.TrainLoss - least)
	}}
	series := slices.DeleteFunc(v.Series(panel), func(s string) bool { return s == optimum })
	c, t := v.Against(panel, series, cifarEpsilons, excess)
	c.LogY, t.Title = true, panel+": excess risk"
	nothing := math.Ln2 - least
	c.Lines = append(c.Lines, reproduce.Line{Name: zero, X: cifarEpsilons[:1], Y: []float64{nothing}, Low: []float64{nothing}, High: []float64{nothing}, Flat: true})
	row := []string{zero}
	for range cifarEpsilons {
		row = append(row, fmt.Sprintf("%.4g", nothing))
	}
	t.Rows = append(t.Rows, row)
	return reproduce.Page{
		Charts: [][]reproduce.Chart{{c}}, Tables: []reproduce.Table{t},
		Claims: append([]reproduce.Claim{
			v.compare(panels, cifarEpsilons, printed, output, nil).Claim("PUR's schedule has a lower excess risk than output perturbation, in most cases"),
			v.asGood(panels, cifarEpsilons, "at every ε", nil), v.likeOracle(panels, cifarEpsilons),
		}, v.ours(panels, cifarEpsilons, cifarLines)...),
		How: append([]string{
			"Output perturbation is this program's `outpert-gd`, with an exact Gaussian release. The paper has algorithm 6 of Lowy and Razaviyayn 2021, with a looser analysis.",
			fmt.Sprintf("λ = %d, as in the paper. Z is 1: with the largest norm of a row, the curvature bound of the loss is far above λ, and no budget here pays for steps that arrive.", cifarLambda),
		}, how...),
	}
}
