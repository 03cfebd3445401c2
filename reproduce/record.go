package reproduce

import (
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
	Theta1        *float64 `csv:"theta_1"` // the parameters, of a problem that has two
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
