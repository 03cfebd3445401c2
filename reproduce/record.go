package reproduce

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/privgrad/privgrad/internal/durable"
	"github.com/privgrad/privgrad/internal/usage"
)

// A Record is a line of the CSV file: one evaluation of one run. A run's records
// are written together, so that a run is there whole or not at all.
type Record struct {
	Panel   string  // data and model
	Series  string  // method
	Setting string  // what X stands for, where that is no number
	X       float64 // the varied setting; of figures over iterations 0
	Seed    int     // from 1; of tables the fold that was held out, too

	Step         int
	Final        bool // the run's last
	Epsilon      *float64
	EpsilonSoFar *float64
	Delta        *float64
	Accountant   string
	TestAccuracy *float64
	TestLoss     *float64
	// The objective on the training data, which were declared public.
	TrainAccuracy *float64
	TrainLoss     *float64
	Rate          *float64 // step size
	Gradients     *float64 // asked of a batch by a line search, whole run
	Objectives    *float64 // losses at a point, likewise
	Batch         float64  // expected records of a batch
	Seconds       float64
	Theta1        *float64 // the parameters, of a problem that has two
	Theta2        *float64
	PeakHeap      *float64 // bytes

	Guarantee   bool
	NoGuarantee string // why, with semicolons between
	Label       string // what must be said beside the figure: a fraction of the work, synthetic data
	Note        string // why a run gave no figure
	Settings    string // a fingerprint of the run's configuration
}

// columns are a record's fields by their names in the file.
func (r *Record) columns() []column {
	return []column{
		{"panel", &r.Panel}, {"series", &r.Series}, {"setting", &r.Setting}, {"x", &r.X}, {"seed", &r.Seed},
		{"step", &r.Step}, {"final", &r.Final},
		{"epsilon", &r.Epsilon}, {"epsilon_so_far", &r.EpsilonSoFar}, {"delta", &r.Delta}, {"accountant", &r.Accountant},
		{"test_accuracy", &r.TestAccuracy}, {"test_loss", &r.TestLoss}, {"train_accuracy", &r.TrainAccuracy}, {"train_loss", &r.TrainLoss},
		{"lr", &r.Rate}, {"gradient_evaluations", &r.Gradients}, {"objective_evaluations", &r.Objectives},
		{"expected_batch", &r.Batch}, {"seconds", &r.Seconds}, {"theta_1", &r.Theta1}, {"theta_2", &r.Theta2}, {"peak_heap_bytes", &r.PeakHeap},
		{"guarantee", &r.Guarantee}, {"not_a_guarantee_because", &r.NoGuarantee}, {"label", &r.Label}, {"note", &r.Note},
		{"settings", &r.Settings},
	}
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
			var x float64
			if x, err = strconv.ParseFloat(text, 64); err == nil {
				*f = &x
			}
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
	var all Records
	for {
		line, err := r.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, usage.Errorf("%s: %w: restore the file, or choose another --out", path, err)
		}
		var record Record
		for _, c := range record.columns() {
			i := slices.Index(names, c.name)
			if i < 0 {
				continue // the file is older than the column
			}
			if err := c.parse(line[i]); err != nil {
				return nil, usage.Errorf("%s: column %s: %w: restore the file, or choose another --out", path, c.name, err)
			}
		}
		all = append(all, record)
	}
}

func WriteRecords(path string, all Records) error {
	return durable.WriteFile(path, func(w io.Writer) error {
		c := csv.NewWriter(w)
		if err := c.Write(header()); err != nil {
			return err
		}
		for i := range all {
			var line []string
			for _, c := range all[i].columns() {
				line = append(line, c.text())
			}
			if err := c.Write(line); err != nil {
				return err
			}
		}
		c.Flush()
		return c.Error()
	})
}

// key tells jobs apart: the settings have the seed of a job that is one run.
func (r *Record) key() string {
	return strings.Join([]string{r.Panel, r.Series, r.Setting, fmt.Sprint(r.X), r.Settings}, "\x00")
}
