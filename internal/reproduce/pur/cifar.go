package pur

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/privgrad/privgrad/internal/reproduce"
)

var fig2 = reproduce.Figure{
	Name: "pur-fig2", Short: "PUR: excess risk on ScatterNet features, beside output perturbation", Source: fay + ", figure 2", Seeds: 3, Most: mostSeeds,
	Plan: func(e *reproduce.Env) (jobs []reproduce.Job, _ error) {
		all, err := setups(e, []*task{cifar}, bounds, []float64{cifarLambda})
		for _, s := range all {
			jobs = append(jobs, s.jobs(e, cifarLines, cifarEpsilons)...)
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
	p := reproduce.Page{
		Claims: append([]reproduce.Claim{
			v.compare(panels, cifarEpsilons, printed, output, nil).most("PUR's schedule has a lower excess risk than output perturbation"),
			v.asGood(panels, cifarEpsilons, "at every ε", nil), v.likeOracle(panels, cifarEpsilons),
		}, v.ours(panels, cifarEpsilons, cifarLines)...),
		How: append([]string{
			"Output perturbation is this program's `outpert-gd`, with an exact Gaussian release. The paper has algorithm 6 of Lowy and Razaviyayn 2021, with a looser analysis.",
			fmt.Sprintf("λ = %d, as in the paper. With Z of the largest row, the bound on the curvature is far above λ, so that a step is too short to arrive.", cifarLambda),
		}, how...),
	}
	var charts []reproduce.Chart
	for _, panel := range panels {
		c, t := v.excess(panel)
		charts, p.Tables = append(charts, c), append(p.Tables, t)
	}
	p.Charts = [][]reproduce.Chart{charts}
	return p
}

// excess shows F − F* of a panel.
func (v *view) excess(panel string) (reproduce.Chart, reproduce.Table) {
	least := v.Mean(panel, optimum, 0, reproduce.Objective).Mean
	q := reproduce.Quantity{Name: "excess risk F − F*", Scale: 1, Text: reproduce.Estimate.Number, Of: func(r *reproduce.Record) *float64 {
		if r.TrainLoss == nil {
			return nil
		}
		return new(*r.TrainLoss - least)
	}}
	series := slices.DeleteFunc(v.Series(panel), func(s string) bool { return s == optimum })
	c, t := v.Against(panel, series, cifarEpsilons, q)
	c.LogY, t.Title = true, panel+": excess risk"
	c.Title = strings.Replace(panel, ", airplane against the rest", "", 1)
	nothing := math.Ln2 - least
	c.Lines = append(c.Lines, reproduce.Line{Name: zero, X: cifarEpsilons[:1], Y: []float64{nothing}, Low: []float64{nothing}, High: []float64{nothing}, Flat: true})
	row := []string{zero}
	for range cifarEpsilons {
		row = append(row, fmt.Sprintf("%.4g", nothing))
	}
	t.Rows = append(t.Rows, row)
	return c, t
}
