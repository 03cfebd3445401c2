package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/privgrad/privgrad/internal/plan"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"percent": func(x *float64) string { return percent(*x) },
	"number":  func(x *float64) string { return number(*x) },
	"labeled": plan.Labeled,
	"join":    strings.Join,
}).Parse(pageText))

// writePage writes one page of all runs.
func writePage(w io.Writer, runs []*run, c *Comparison) error {
	v := view{Comparison: c}
	id := map[*run]string{}
	for i, r := range runs {
		id[r] = "run" + strconv.Itoa(i+1)
		v.Runs = append(v.Runs, section{run: r, ID: id[r], Drawing: r.chart().drawing()})
	}
	for _, t := range c.Copies {
		v.Copied = append(v.Copied, pair{link{id[t.run], t.run.Name()}, link{id[t.of], t.of.Name()}, ""})
	}
	for _, t := range c.Forks {
		v.Forked = append(v.Forked, pair{link{id[t.run], t.run.Name()}, link{id[t.of], t.of.Name()}, strings.Join(t.Differs, ", ")})
	}
	if v.Title = runs[0].Title(); v.Several() {
		v.Title = fmt.Sprintf("%d runs", len(runs))
		v.Together = chartOf(runs).drawing()
	}
	return page.Execute(w, v)
}

// A view is all that the page shows.
type view struct {
	Title string
	Runs  []section
	*Comparison
	Copied, Forked []pair
	Together       *Drawing // nil of one run
}

// A link leads to the section of a run.
type link struct{ ID, Name string }

// A pair is two directories of one run, and in what they differ.
type pair struct {
	Run, Of link
	Differs string
}

// Several says whether runs are compared.
func (v view) Several() bool { return len(v.Runs) > 1 }

// AnyPublic says whether a run shows figures of training records without noise, as they were declared public.
func (v view) AnyPublic() bool {
	return slices.ContainsFunc(v.Runs, func(s section) bool { return s.Config.DataIsPublic })
}

// AnyRegression says whether a run has errors in place of an accuracy.
func (v view) AnyRegression() bool {
	return slices.ContainsFunc(v.Runs, func(s section) bool { return s.RMSE != nil })
}

// A section is that of a run.
type section struct {
	*run
	ID      string
	Drawing *Drawing
}

// mostShown is the number of classes up to which the page has the whole confusion matrix, and
// the number of confusions that it has otherwise.
const mostShown = 20

type Matrix struct {
	Classes []string
	Rows    []MatrixRow
	Worst   []Confusion // the most frequent errors, in the place of a matrix that is too large
}

// A MatrixRow has the records of a class.
type MatrixRow struct {
	Class string
	Cells []Cell
	Right string // share of them that were taken for it
}

// A Cell has a count, and a shade by its share of the row, 0 to 9.
type Cell struct {
	Count, Shade int
	Right        bool
}

// A Confusion counts records of one class that were taken for another.
type Confusion struct {
	Of, For string
	Count   int
}

// Matrix is that of the last evaluation on public test records; nil where there is none.
func (r *run) Matrix() *Matrix {
	if len(r.Evaluations) == 0 {
		return nil
	}
	counts := r.Evaluations[len(r.Evaluations)-1].Confusion
	if len(counts) == 0 {
		return nil
	}
	m := &Matrix{}
	for i := range counts {
		name := strconv.Itoa(i)
		if i < len(r.Classes) {
			name = r.Classes[i]
		}
		m.Classes = append(m.Classes, name)
	}
	for i, row := range counts {
		total := 0
		for _, n := range row {
			total += n
		}
		out := MatrixRow{Class: m.Classes[i], Right: "–"}
		if total > 0 {
			out.Right = percent(float64(row[i]) / float64(total))
		}
		for j, n := range row {
			out.Cells = append(out.Cells, Cell{n, shade(n, total), i == j})
			if i != j && n > 0 {
				m.Worst = append(m.Worst, Confusion{m.Classes[i], m.Classes[j], n})
			}
		}
		m.Rows = append(m.Rows, out)
	}
	slices.SortStableFunc(m.Worst, func(a, b Confusion) int { return b.Count - a.Count })
	m.Worst = m.Worst[:min(len(m.Worst), mostShown)]
	return m
}

// Whole says whether the matrix is shown as it is.
func (m *Matrix) Whole() bool { return len(m.Classes) <= mostShown }

// shade is 0 for next to none, and 1 to 9 by a share.
func shade(n, total int) int {
	if 200*n < total || n == 0 {
		return 0
	}
	return 1 + 8*n/total
}
