package blsgd

import (
	"fmt"
	"math"

	"github.com/privgrad/privgrad/internal/reproduce"
)

var fig2 = reproduce.Figure{
	Name: "fig2", Short: "Gradients and objectives that a run asks for, by sampling rate", Source: chenLee + ", figure 2", Seeds: 10, Most: mostSeeds,
	Plan: planFig2, Show: showFig2,
}

func planFig2(e *reproduce.Env) (jobs []reproduce.Job, err error) {
	for _, accounting := range []string{paperAccounting, ownAccounting} {
		for _, j := range samplingRates.runs(e, accounting, 0.4) {
			j.Panel, j.Series, j.X = adult.panel, byAccounting[accounting], *j.Config.SamplingRate
			jobs = append(jobs, j)
		}
	}
	return jobs, nil
}

func gradients(r *reproduce.Record) *float64  { return r.Gradients }
func objectives(r *reproduce.Record) *float64 { return r.Objectives }

// ofRecords counts records where a metric counts batches.
func ofRecords(m reproduce.Metric) reproduce.Metric {
	return func(r *reproduce.Record) *float64 {
		if x := m(r); x != nil {
			return new(*x * r.Batch)
		}
		return nil
	}
}

func showFig2(e *reproduce.Env, rs reproduce.Records) reproduce.Page {
	p := reproduce.Page{
		Charts: [][]reproduce.Chart{fig2Charts(rs, "gradients", gradients), fig2Charts(rs, "objectives", objectives)},
		How:    append([]string{"A search asks for the loss at its base and then at its candidates, one after the other. The figure counts the losses that it asks for, as \"objectives\": one for a batch. The columns that begin with \"records'\" count one for each record of the expected batch."}, linearHow...),
	}
	h := reproduce.Table{Title: "Evaluations per run, at ε = 0.4", Head: []string{"series", "q", "steps", "gradients", "objectives", "records' gradients", "records' objectives", "test accuracy, %"}}
	steps := func(r *reproduce.Record) *float64 { return new(float64(r.Step)) }
	for _, series := range rs.Series(adult.panel) {
		for _, x := range rs.Xs(adult.panel) {
			cells := []string{series, rs.Setting(adult.panel, x)}
			for _, m := range []reproduce.Metric{steps, gradients, objectives, ofRecords(gradients), ofRecords(objectives)} {
				cells = append(cells, rs.Mean(adult.panel, series, x, m).Number())
			}
			cells = append(cells, rs.Mean(adult.panel, series, x, reproduce.Accuracy).Percent())
			h.Rows = append(h.Rows, cells)
		}
		p.Claims = append(p.Claims, fig2Claims(rs, series)...)
	}
	p.Tables = []reproduce.Table{h}
	return p
}

// fig2Charts shows what is asked of batches, and of records.
func fig2Charts(rs reproduce.Records, name string, of reproduce.Metric) (charts []reproduce.Chart) {
	for i, kind := range []reproduce.Quantity{{Name: name, Of: of, Scale: 1}, {Name: "thousands", Of: ofRecords(of), Scale: 1e-3}} {
		c := reproduce.Chart{Title: name + []string{" of batches", " of records, thousands"}[i], X: "q", Y: kind.Name, Log: true}
		for _, series := range rs.Series(adult.panel) {
			c.Lines = append(c.Lines, rs.Line(adult.panel, series, rs.Xs(adult.panel), kind))
		}
		charts = append(charts, c)
	}
	return charts
}

// fig2Claims judges q = 0.1 against full batches.
func fig2Claims(rs reproduce.Records, series string) []reproduce.Claim {
	var fewer reproduce.Tally
	for _, m := range []reproduce.Metric{ofRecords(gradients), ofRecords(objectives)} {
		fewer.Add(reproduce.Difference(rs.Last(adult.panel, series, 1, m), rs.Last(adult.panel, series, 0.1, m)))
	}
	d := reproduce.Difference(rs.Last(adult.panel, series, 0.1, reproduce.Accuracy), rs.Last(adult.panel, series, 1, reproduce.Accuracy))
	apart, h := math.Abs(d.Mean), d.Half()
	same := d.Claim(fmt.Sprintf("drawing batches (q = 0.1) gives the same accuracy as full batches, within %g points (%s)", 100*flatWithin, series), d.Points()+" points at q = 0.1 against q = 1", apart+h < flatWithin, apart-h > flatWithin)
	if d.Open(flatWithin) {
		same.Open = []reproduce.Cell{{Panel: adult.panel, Series: series, X: 0.1}, {Panel: adult.panel, Series: series, X: 1}}
	}
	return []reproduce.Claim{
		fewer.Claim("drawing batches (q = 0.1) takes far fewer evaluations than full batches, counted in records (" + series + ")"),
		same,
	}
}
