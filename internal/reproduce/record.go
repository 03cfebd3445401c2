package reproduce

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/privgrad/privgrad/internal/durable"
	"github.com/privgrad/privgrad/internal/usage"
)

// A Record is a line of the CSV file: one evaluation of one run. A run's records
// are written together, so that a run is there whole or not at all.
type Record struct {
	Panel   string  `csv:"panel"`   // data and model
	Series  string  `csv:"series"`  // method
	Setting string  `csv:"setting"` // what X stands for, where that is no number
	X       float64 `csv:"x"`       // the varied setting; of figures over iterations 0
	Seed    int     `csv:"seed"`    // from 1; of tables the fold that was held out, too

	Step         int      `csv:"step"`
	Final        bool     `csv:"final"` // the run's last
	Epsilon      *float64 `csv:"epsilon"`
	EpsilonSoFar *float64 `csv:"epsilon_so_far"`
	Delta        *float64 `csv:"delta"`
	Accountant   string   `csv:"accountant"`
	TestAccuracy *float64 `csv:"test_accuracy"`
	TestLoss     *float64 `csv:"test_loss"`
	// The objective on the training data, which were declared public.
	TrainAccuracy *float64 `csv:"train_accuracy"`
	TrainLoss     *float64 `csv:"train_loss"`
	Rate          *float64 `csv:"lr"`                    // step size
	Gradients     *float64 `csv:"gradient_evaluations"`  // asked of a batch by a line search, whole run
	Objectives    *float64 `csv:"objective_evaluations"` // losses at a point, likewise
	Batch         float64  `csv:"expected_batch"`        // expected records of a batch
	Seconds       float64  `csv:"seconds"`
	GradientNorm  *float64 `csv:"gradient_norm"` // of the objective with its regularizer, at the last parameters
	Theta1        *float64 `csv:"theta_1"`       // the parameters, of a problem that has two
	Theta2        *float64 `csv:"theta_2"`
	PeakHeap      *float64 `csv:"peak_heap_bytes"`

	Guarantee   bool   `csv:"guarantee"`
	NoGuarantee string `csv:"not_a_guarantee_because"` // with semicolons between
	Label       string `csv:"label"`                   // what must be said beside the figure: a fraction of the work, synthetic data
	Note        string `csv:"note"`                    // why a run gave no figure
	Settings    string `csv:"settings"`                // a fingerprint of the run's configuration
}

func (r *Record) columns() (all []column) {
	v := reflect.ValueOf(r).Elem()
	for field, x := range v.Fields() {
		all = append(all, column{field.Tag.Get("csv"), x.Addr().Interface()})
	}
	return all
}

type column struct {
	name  string
	field any
}

func (c column) text() string {
	number := func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
	switch f := c.field.(type) {
	case *string:
		return *f
	case *int:
		return strconv.Itoa(*f)
	case *bool:
		return strconv.FormatBool(*f)
	case *float64:
		return number(*f)
	case **float64:
		if *f != nil {
			return number(**f)
		}
	}
	return ""
}

func (c column) parse(text string) (err error) {
	switch f := c.field.(type) {
	case *string:
		*f = text
	case *int:
		*f, err = strconv.Atoi(text)
	case *bool:
		*f, err = strconv.ParseBool(text)
	case *float64:
		*f, err = strconv.ParseFloat(text, 64)
	case **float64:
		if text != "" {
			*f = new(float64)
			**f, err = strconv.ParseFloat(text, 64)
		}
	}
	return err
}

func header() (names []string) {
	for _, c := range (&Record{}).columns() {
		names = append(names, c.name)
	}
	return names
}

// ReadRecords reads a CSV file that WriteRecords wrote; none where there is no file.
func ReadRecords(path string) (Records, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, usage.Errorf("%w: choose another --out", err)
	}
	defer f.Close()
	r := csv.NewReader(f)
	names, err := r.Read()
	if failed := (*fs.PathError)(nil); errors.As(err, &failed) {
		return nil, usage.Errorf("%w: choose another --out", err)
	}
	known := header()
	if err != nil || !slices.Contains(names, "settings") || slices.ContainsFunc(names, func(n string) bool { return !slices.Contains(known, n) }) {
		return nil, usage.Errorf("%s is not a file of this command: choose another --out", path)
	}
	lines, err := r.ReadAll()
	if err != nil {
		return nil, usage.Errorf("%s: %w: restore the file, or choose another --out", path, err)
	}
	all := make(Records, len(lines))
	for k, line := range lines {
		for _, c := range all[k].columns() {
			i := slices.Index(names, c.name)
			if i < 0 {
				continue // the file is older than the column
			}
			if err := c.parse(line[i]); err != nil {
				return nil, usage.Errorf("%s: column %s: %w: restore the file, or choose another --out", path, c.name, err)
			}
		}
	}
	return all, nil
}

// WriteRecords replaces a CSV file.
func WriteRecords(path string, all Records) error {
	lines := [][]string{header()}
	for i := range all {
		var line []string
		for _, c := range all[i].columns() {
			line = append(line, c.text())
		}
		lines = append(lines, line)
	}
	return durable.WriteFile(path, func(w io.Writer) error { return csv.NewWriter(w).WriteAll(lines) })
}

// key tells jobs apart: the settings have the seed of a job that is one run.
func (r *Record) key() string {
	return strings.Join([]string{r.Panel, r.Series, r.Setting, fmt.Sprint(r.X), r.Settings}, "\x00")
}

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

// lastSeed is the largest one, as a plan may make fewer runs than it was asked for; or, where records have
// none, what was asked for.
func (rs Records) lastSeed(asked int) (last int) {
	for i := range rs {
		last = max(last, rs[i].Seed)
	}
	return cmp.Or(last, asked)
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
			d := rs.Difference(panel, a, b, x, m)
			if count.Add(d); d.Open(0) {
				count.Open = append(count.Open, Cell{panel, a, x}, Cell{panel, b, x})
			}
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
