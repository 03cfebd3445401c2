package tabular

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Column is a feature: a number within public bounds, one of some categories, or a value of
// the file. One with none of these is the label, a condition, or ignored.
type Column struct {
	Name   string    `yaml:"name"`
	Bounds []float64 `yaml:"bounds,omitempty,flow"`
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
	case kinds != 1:
		return errors.New("give it bounds, or categories, or by_file, or only, or ignore: true, or make it the label, and one of these only")
	case c.Bounds == nil && (c.Mean != 0 || c.SD != 0):
		return errors.New("mean and sd are of numbers: give it bounds, too, or leave them out")
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

func (c *Column) checkNumber() error {
	if err := checkBounds(c.Bounds); err != nil {
		return err
	}
	switch low, high := c.Bounds[0], c.Bounds[1]; {
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

// value is what a number becomes: within bounds, from them to [0, 1] or in standard units.
// One that is none counts as the lower bound, or as the mean.
func (c *Column) value(x float64, ok bool) float64 {
	switch {
	case c.SD == 0 && ok:
		return (x - c.Bounds[0]) / (c.Bounds[1] - c.Bounds[0])
	case ok:
		return (x - c.Mean) / c.SD
	}
	return 0
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
