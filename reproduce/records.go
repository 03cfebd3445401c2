package reproduce

import (
	"fmt"
	"slices"
)

// A Metric is a figure of a record, nil where it is not defined.
type Metric func(*Record) *float64

// Accuracy is that on the test set, Objective the one on the training data, which were
// declared public.
func Accuracy(r *Record) *float64  { return r.TestAccuracy }
func Objective(r *Record) *float64 { return r.TrainLoss }

// Records are the records of the runs that a figure shows.
type Records []Record

// Values gives figures by seed, of the records that are asked for.
func (rs Records) Values(m Metric, of func(*Record) bool) map[int]float64 {
	values := map[int]float64{}
	for i := range rs {
		if r := &rs[i]; of(r) {
			if v := m(r); v != nil {
				values[r.Seed] = *v
			}
		}
	}
	return values
}

// Of gives the records of a series.
func (rs Records) Of(panel, series string) (all Records) {
	for i := range rs {
		if rs[i].Panel == panel && rs[i].Series == series {
			all = append(all, rs[i])
		}
	}
	return all
}

// Last gives the final figures of a series at x, by seed.
func (rs Records) Last(panel, series string, x float64, m Metric) map[int]float64 {
	return rs.Values(m, func(r *Record) bool { return r.Final && r.Panel == panel && r.Series == series && r.X == x })
}

// At gives the figures of a series after a number of steps, by seed.
func (rs Records) At(panel, series string, step int, m Metric) map[int]float64 {
	return rs.Values(m, func(r *Record) bool { return r.Panel == panel && r.Series == series && r.Step == step })
}

// Mean is that of the final figures of a series at x.
func (rs Records) Mean(panel, series string, x float64, m Metric) Estimate {
	return Mean(rs.Last(panel, series, x, m))
}

// Difference is that of the final figures of series a to those of b at x.
func (rs Records) Difference(panel, a, b string, x float64, m Metric) Estimate {
	return Difference(rs.Last(panel, a, x, m), rs.Last(panel, b, x, m))
}

// shown is the mean of a series at x, as text: that no step was paid for is a
// result, too.
func (rs Records) shown(panel, series string, x float64, q Quantity) string {
	values := rs.Last(panel, series, x, q.Of)
	for i := range rs {
		if r := &rs[i]; len(values) == 0 && r.Panel == panel && r.Series == series && r.X == x && r.Note != "" {
			return "no step"
		}
	}
	return q.Text(Mean(values))
}

// distinct lists what records have, in the order in which it comes.
func distinct[T comparable](rs Records, of func(*Record) (T, bool)) (all []T) {
	for i := range rs {
		if v, ok := of(&rs[i]); ok && !slices.Contains(all, v) {
			all = append(all, v)
		}
	}
	return all
}

// Panels are in the order of the records.
func (rs Records) Panels() []string {
	return distinct(rs, func(r *Record) (string, bool) { return r.Panel, true })
}

// Series are a panel's, in the order of the records.
func (rs Records) Series(panel string) []string {
	return distinct(rs, func(r *Record) (string, bool) { return r.Series, r.Panel == panel })
}

// Xs lists a panel's settings, least first.
func (rs Records) Xs(panel string) []float64 {
	all := distinct(rs, func(r *Record) (float64, bool) { return r.X, r.Panel == panel })
	slices.Sort(all)
	return all
}

// Steps lists where a series was evaluated.
func (rs Records) Steps(panel, series string) []int {
	all := distinct(rs, func(r *Record) (int, bool) { return r.Step, r.Panel == panel && r.Series == series })
	slices.Sort(all)
	return all
}

// Setting is the name of x in a panel.
func (rs Records) Setting(panel string, x float64) string {
	for i := range rs {
		if rs[i].Panel == panel && rs[i].X == x && rs[i].Setting != "" {
			return rs[i].Setting
		}
	}
	return fmt.Sprintf("%.4g", x)
}

// Note is what a series' runs at x say of themselves.
func (rs Records) Note(panel, series string, x float64) string {
	for i := range rs {
		if r := &rs[i]; r.Panel == panel && r.Series == series && r.X == x {
			return r.Note
		}
	}
	return "–"
}

// runs counts them: each has one last record.
func (rs Records) runs() (n int) {
	for i := range rs {
		if rs[i].Final {
			n++
		}
	}
	return n
}

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
			cells = append(cells, rs.shown(panel, s, at, q))
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
