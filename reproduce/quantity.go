package reproduce

import (
	"fmt"
	"slices"
)

// A Quantity is a metric as it is shown.
type Quantity struct {
	Name  string
	Of    Metric
	Scale float64
	Text  func(Estimate) string
}

// The quantities that most figures show.
var (
	TestAccuracy   = Quantity{"test accuracy, %", Accuracy, 100, Estimate.Percent}
	TrainObjective = Quantity{"objective (training data)", Objective, 1, Estimate.Number}
)

// Against shows a quantity of a panel's series by ε. A series that is at x = 0 alone does
// not depend on ε.
func (rs Records) Against(panel string, series []string, epsilons []float64, q Quantity) (Chart, Table) {
	c, t := Chart{Title: panel, X: "ε", Y: q.Name, Log: true}, Table{Head: []string{"method"}}
	for _, x := range epsilons {
		t.Head = append(t.Head, fmt.Sprintf("ε = %g", x))
	}
	for _, s := range series {
		l, cells := Line{Name: s}, []string{s}
		l.Flat = !slices.Contains(epsilons, 0) && len(rs.Last(panel, s, 0, q.Of)) > 0
		for _, x := range epsilons {
			at := x
			if l.Flat {
				at = 0
			}
			cells = append(cells, rs.Shown(panel, s, at, q.Of, q.Text))
			if !l.Flat || len(l.X) == 0 {
				l.Add(x, rs.Mean(panel, s, at, q.Of), q.Scale)
			}
		}
		c.Lines, t.Rows = append(c.Lines, l), append(t.Rows, cells)
	}
	return c, t
}

// Line is a quantity of a series at some settings.
func (rs Records) Line(panel, series string, xs []float64, q Quantity) Line {
	l := Line{Name: series}
	for _, x := range xs {
		l.Add(x, rs.Mean(panel, series, x, q.Of), q.Scale)
	}
	return l
}

// Compare counts, over panels and settings, where series a has more of a metric than b.
func (rs Records) Compare(panels []string, xs []float64, a, b string, m Metric) (count Tally) {
	for _, panel := range panels {
		for _, x := range xs {
			count.Add(rs.Difference(panel, a, b, x, m))
		}
	}
	return count
}

// Lower has more where a metric has less.
func Lower(m Metric) Metric {
	return func(r *Record) *float64 {
		if v := m(r); v != nil {
			return new(-*v)
		}
		return nil
	}
}
