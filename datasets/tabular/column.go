package tabular

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/internal/written"
)

// Column is a feature: a number or a date within public bounds, one of some categories, or a value of
// the file. One with none of these is the label, a condition, or ignored.
type Column struct {
	Name   string             `yaml:"name"`
	Kind   kind               `yaml:"kind,omitempty"`   // dates; else the other keys say it
	Format written.DateFormat `yaml:"format,omitempty"` // of dates in the file
	Bounds bounds             `yaml:"bounds,omitempty,flow"`
	// Missing is what a number or a date counts as that is missing or cannot be read.
	Missing *point `yaml:"missing,omitempty"`
	// Where SD is given, a number x within its bounds becomes (x − Mean)/SD. Both are public
	// constants, which nothing here computes from records.
	Mean       float64 `yaml:"mean,omitempty"`
	SD         float64 `yaml:"sd,omitempty"`
	Categories []names `yaml:"categories,omitempty,flow"`
	// ByFile has a value in [0, 1] for the table, and one for each file of Also. The column
	// is in no file.
	ByFile []float64 `yaml:"by_file,omitempty,flow"`
	// Only has the values of lines that are records. Other lines are none, each by itself.
	Only   names `yaml:"only,omitempty,flow"`
	Ignore bool  `yaml:"ignore,omitempty"`
}

func (s *Schema) checkColumn(i int) error {
	c := &s.Columns[i]
	kinds := 0
	for _, is := range []bool{c.Bounds != nil, c.Categories != nil, c.ByFile != nil, c.Only != nil, c.Ignore, c.Name == s.Label.Column} {
		if is {
			kinds++
		}
	}
	switch {
	case c.Name == "":
		return errors.New("it has no name")
	case slices.ContainsFunc(s.Columns[:i], func(d Column) bool { return d.Name == c.Name }):
		return errors.New("it is listed twice")
	}
	if err := c.checkKind(c.Name == s.Label.Column); err != nil {
		return err
	}
	switch {
	case kinds != 1:
		return errors.New("give it bounds, or categories, or by_file, or only, or ignore: true, or make it the label, and one of these only")
	case c.Bounds != nil:
		return c.checkNumber()
	case c.Categories != nil:
		return distinct(c.Categories)
	case c.Only != nil:
		return distinct([]names{c.Only})
	case c.ByFile != nil && len(c.ByFile) != 1+len(s.Also):
		return fmt.Errorf("by_file has %d values: give one for the table, and one for each file of also, which are %d", len(c.ByFile), len(s.Also))
	case slices.ContainsFunc(c.ByFile, func(x float64) bool { return !(x >= 0 && x <= 1) }):
		return fmt.Errorf("by_file %v: values must be in [0, 1]", c.ByFile)
	}
	return nil
}

// checkKind looks at the keys that say what a column is where bounds alone do not.
func (c *Column) checkKind(label bool) error {
	switch {
	case c.Kind == dates && label:
		return errDateLabel
	case c.Kind == dates && c.Bounds == nil:
		return errors.New("kind: date needs bounds: add the earliest and the latest date that you expect, such as bounds: [2019-01-01, 2022-12-31]")
	case c.Kind == dates && (c.Mean != 0 || c.SD != 0):
		return errors.New("mean and sd are of numbers, and its kind is date: leave them out")
	case c.Kind != "" && c.Kind != dates:
		return fmt.Errorf("kind %q: write kind: date for a column of dates, and no kind for others", c.Kind)
	case c.Kind == "" && c.Format != "":
		return errors.New("format is of dates: add kind: date, or leave it out")
	case c.Format != "" && !slices.Contains(written.DateFormats(), c.Format):
		return usage.Unknown("format", c.Format, written.DateFormats())
	}
	return c.checkOfNumbers(label)
}

// checkOfNumbers looks for keys that are of numbers and dates in a column that has none.
func (c *Column) checkOfNumbers(label bool) error {
	switch {
	case c.Missing != nil && label:
		return errors.New("it is the label, and missing is of other columns: leave it out; a record without a label adds zero to every sum")
	case c.Missing != nil && c.Categories != nil:
		return errors.New(`missing is of numbers and dates: leave it out; what is none of the categories counts as none of them. For a value of its own, add "" for an empty field, or NA, to the categories`)
	case c.Missing != nil && c.Bounds == nil:
		return errors.New("missing is of numbers and dates: give it bounds, too, or leave it out")
	case c.Bounds == nil && (c.Mean != 0 || c.SD != 0):
		return errors.New("mean and sd are of numbers: give it bounds, too, or leave them out")
	}
	return nil
}

var errDateLabel = errors.New("it is the label, which cannot be a date: predict a number instead, such as the days since a date that you choose, and give that column as the label, with bounds")

func (c *Column) checkNumber() error {
	if err := c.Bounds.check(c.Kind); err != nil {
		return err
	}
	if err := c.checkMissing(); err != nil {
		return err
	}
	switch low, high := c.Bounds.low(), c.Bounds.high(); {
	case c.SD == 0 && c.Mean != 0:
		return fmt.Errorf("mean %v without sd: give both, or leave both out", c.Mean)
	case c.SD == 0:
	case !(c.SD > 0) || math.IsInf(c.SD, 0):
		return fmt.Errorf("sd %v: must be a finite number above 0", c.SD)
	case !(low <= c.Mean && c.Mean <= high):
		return fmt.Errorf("mean %v: must be within the bounds %v", c.Mean, c.Bounds)
	case max(c.Mean-low, high-c.Mean)/c.SD > math.MaxFloat32:
		return fmt.Errorf("sd %v is too small for bounds %v: no float32 holds the values; give a larger one", c.SD, c.Bounds)
	}
	return nil
}

func (c *Column) checkMissing() error {
	switch m := c.Missing; {
	case m == nil:
	case c.Kind == dates && m.is != isDay:
		return fmt.Errorf("missing %v: must be a date within the bounds %v, written as there", m, c.Bounds)
	case c.Kind != dates && m.is != isNumber:
		return fmt.Errorf("missing %v: must be a number within the bounds %v", m, c.Bounds)
	case !(c.Bounds.low() <= m.at && m.at <= c.Bounds.high()):
		return fmt.Errorf("missing %v: must be within the bounds %v", m, c.Bounds)
	}
	return nil
}

// value is what a number or a date becomes: within bounds, from them to [0, 1] or in standard units.
// One that is none counts as Missing or else as the lower bound, or as the mean.
func (c *Column) value(x float64, ok bool) float64 {
	switch {
	case !ok && c.Missing == nil:
		return 0
	case !ok:
		x = c.Missing.at
	}
	if c.SD == 0 {
		return (x - c.Bounds.low()) / (c.Bounds.high() - c.Bounds.low())
	}
	return (x - c.Mean) / c.SD
}

// what a field of the column should be.
func (c *Column) what() string {
	switch {
	case c.Bounds == nil:
		return ""
	case c.Kind == dates:
		return "date"
	}
	return number
}

const number = "number"

// reader is what makes numbers of a column's fields.
func (s *Schema) reader(c *Column) reader {
	if c.Kind == dates {
		return cmp.Or(c.Format, written.ISO)
	}
	return s.Decimal
}

// width is the number of features that the column becomes.
func (s *Schema) width(c *Column) int {
	switch {
	case c.Bounds != nil || c.ByFile != nil:
		return 1
	case len(c.Categories) > 0 && s.DropFirst:
		return len(c.Categories) - 1
	}
	return len(c.Categories)
}

// Width is the number of features that a record becomes.
func (s *Schema) Width() (all int) {
	for i := range s.Columns {
		all += s.width(&s.Columns[i])
	}
	return all
}

// Features names what a record becomes, in order: a number by its column, a
// category as column=category.
func (s *Schema) Features() (all []string) {
	for i := range s.Columns {
		c := &s.Columns[i]
		if c.Bounds != nil || c.ByFile != nil {
			all = append(all, c.Name)
		}
		for _, ways := range c.Categories[len(c.Categories)-min(s.width(c), len(c.Categories)):] {
			all = append(all, c.Name+"="+ways[0])
		}
	}
	return all
}
