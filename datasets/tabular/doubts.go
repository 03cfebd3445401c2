package tabular

import (
	"fmt"
	"strings"

	"github.com/privgrad/privgrad/internal/written"
)

// mostDoubts is how many columns are named.
const mostDoubts = 20

// doubts say of the values of a file which could not be read, and what they count as. They are for who gave a file of
// their own to a model, or public records: records to train on have none.
func (s *Schema) doubts(path string, r *Records) (all []string) {
	for i := range r.Columns {
		if what := s.doubt(&s.Columns[i], &r.Columns[i], r.Records-r.Malformed.Count); what != "" {
			all = append(all, fmt.Sprintf("%s: column %q: %s", path, r.Columns[i].Name, what))
		}
	}
	if n := len(all); n > mostDoubts {
		all = append(all[:mostDoubts], fmt.Sprintf("%s: %d more columns have such values", path, n-mostDoubts))
	}
	return all
}

func (s *Schema) doubt(c *Column, f *Faults, records int) string {
	var all []string
	say := func(fault Fault, what string) {
		verb := "are"
		if fault.Count == 1 {
			verb = "is"
		}
		if fault.Count > 0 {
			all = append(all, fmt.Sprintf("%d of %d values %s %s, first in line %d", fault.Count, records, verb, what, fault.Line))
		}
	}
	say(f.Unknown, "no category")
	as := ""
	if c.Kind == dates {
		as = fmt.Sprint(" as ", s.reader(c))
	}
	say(f.Unreadable, "no "+f.What+as)
	say(f.Missing, "missing")
	if all == nil {
		return ""
	}
	return strings.Join(all, "; ") + "; they count as " + s.standIn(c)
}

// standIn is what a value of a column counts as that cannot be read.
func (s *Schema) standIn(c *Column) string {
	switch {
	case c.Categories != nil && s.DropFirst:
		return written.Shown(c.Categories[0][0]) + ", the first one"
	case c.Categories != nil:
		return "none of them"
	case c.Missing != nil:
		return c.Missing.String()
	case c.SD != 0:
		return fmt.Sprint("the mean ", c.Mean)
	}
	return "the lower bound " + c.Bounds[0].String()
}
