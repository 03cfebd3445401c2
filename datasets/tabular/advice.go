package tabular

import (
	"fmt"
	"strings"

	"github.com/privgrad/privgrad/internal/written"
)

// Advice says how unreadable fields of a column would be read. It is as private as they are, and only Verify has any.
type Advice struct {
	others []other
	looked int
}

// other is another way to read a column, and the key that says so in a schema.
type other struct {
	reader
	question, key string
	n             int // fields that it reads
}

// advice has the ways to read a column that differ from the schema's.
func (s *Schema) advice(c *Column) (a Advice) {
	switch {
	case !s.advise || c.Bounds == nil:
	case c.Kind == dates:
		for _, f := range written.DateFormats() {
			if f != s.reader(c) {
				a.others = append(a.others, other{reader: f, question: "dates in another format? write", key: "format: " + string(f)})
			}
		}
	case s.Decimal == written.Comma:
		a.others = []other{
			{reader: written.Decimal(""), question: "decimal points, as in 3.14? write 3,14, or leave out", key: `decimal: ","`},
			{reader: written.AnyDate{}, question: "dates? add", key: "kind: date"},
		}
	default:
		a.others = []other{
			{reader: written.Comma, question: "decimal commas, as in 3,14? write 3.14, or add", key: `decimal: ","`},
			{reader: written.AnyDate{}, question: "dates? add", key: "kind: date"},
		}
	}
	return a
}

func (a *Advice) look(field string) {
	a.looked++
	for i := range a.others {
		if _, ok := a.others[i].Read(field); ok {
			a.others[i].n++
		}
	}
}

// String is empty where nothing would read most of the fields.
func (a Advice) String() string {
	question, keys := "", []string(nil)
	for _, o := range a.others {
		if 2*o.n > a.looked {
			question, keys = o.question, append(keys, o.key)
		}
	}
	if keys == nil {
		return ""
	}
	return question + " " + strings.Join(keys, " or ")
}

// mismatch says where most of a file is not what the schema describes, or a list of names is broken.
func (s *Schema) mismatch(r *Records) (faults []string) {
	most := func(n int) bool { return 2*n > r.Records }
	switch {
	case r.Records == 0:
		return []string{"there is no record"}
	case most(r.Malformed.Count):
		return []string{fmt.Sprintf("most records have too few or too many fields between separators %q: they may have another separator than the header", r.Separator)}
	}
	for i := range r.Columns {
		faults = append(faults, r.Columns[i].mismatch(most, s.Columns[i].Missing != nil)...)
	}
	hint, broken := r.Label.Words.Hint()
	switch {
	case most(r.BadLabels()):
		faults = append(faults, strings.TrimSuffix("most labels are none that the schema describes: "+r.Label.Words.String(), ": "))
	case broken:
		faults = append(faults, fmt.Sprintf("classes of column %q: %s", r.Label.Name, hint))
	}
	return faults
}

// mismatch is empty of a column that is as the schema says. Some values may be missing where it expects that.
func (f *Faults) mismatch(most func(int) bool, expected bool) []string {
	missing := f.Missing.Count
	if expected {
		missing = 0
	}
	hint, broken := f.Words.Hint()
	say := func(format string, args ...any) []string { return []string{fmt.Sprintf(format, args...)} }
	switch {
	case most(missing+f.Unreadable.Count) && missing > f.Unreadable.Count:
		return say("most values of column %q are no %ss, since most are missing: if they may be, add missing: VALUE, which they then count as", f.Name, f.What)
	case most(missing + f.Unreadable.Count):
		said := say("most values of column %q are no %ss", f.Name, f.What)
		advice := f.Advice.String()
		if advice == "" && f.What == number {
			advice = "a category? write categories: [...] in place of bounds"
		}
		if advice != "" {
			said[0] += ": " + advice
		}
		return said
	case most(f.Unknown.Count):
		return say("most values of column %q are none of its categories, which must be written the same: %s", f.Name, f.Words)
	case broken:
		return say("categories of column %q: %s", f.Name, hint)
	}
	return nil
}
