package tabular

import (
	"fmt"
	"slices"
	"strings"

	"github.com/privgrad/privgrad/internal/written"
)

// isBlank says of a field that is no number and no date whether it looks as if nothing was known, and not as if it was written in
// another way. Training treats both alike.
func isBlank(field string) bool {
	return !strings.ContainsFunc(field, func(r rune) bool { return !strings.ContainsRune("-.?", r) }) ||
		slices.Contains(blanks, strings.ToLower(field))
}

var blanks = []string{"na", "n/a", "#n/a", "<na>", "nan", "nat", "nil", "null", "none", "missing", "unknown"}

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
	case s.Decimal == comma:
		a.others = []other{
			{reader: decimal(""), question: "decimal points, as in 3.14? write 3,14, or leave out", key: `decimal: ","`},
			{reader: written.AnyDate{}, question: "dates? add", key: "kind: date"},
		}
	default:
		a.others = []other{
			{reader: comma, question: "decimal commas, as in 3,14? write 3.14, or add", key: `decimal: ","`},
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

// mismatch says where most of a file is not what the schema describes.
func (s *Schema) mismatch(r *Records) (faults []string) {
	most := func(n int) bool { return 2*n > r.Records }
	switch {
	case r.Records == 0:
		return []string{"there is no record"}
	case most(r.Malformed.Count):
		return []string{fmt.Sprintf("most records have too few or too many fields between separators %q: the schema may name another separator", r.Separator)}
	}
	for i, c := range r.Columns {
		missing := c.Missing.Count
		if s.Columns[i].Missing != nil { // which expects some
			missing = 0
		}
		switch {
		case most(missing+c.Unreadable.Count) && missing <= c.Unreadable.Count:
			faults = append(faults, strings.TrimSuffix(fmt.Sprintf("most values of column %q are no %ss: %s", c.Name, c.What, c.Advice), ": "))
		case most(missing + c.Unreadable.Count):
			faults = append(faults, fmt.Sprintf("most values of column %q are no %ss, since most are missing: if they may be, add missing: VALUE, which they then count as", c.Name, c.What))
		case most(c.Unknown.Count):
			faults = append(faults, fmt.Sprintf("most values of column %q are none of its categories, which must be written the same, in UTF-8", c.Name))
		}
	}
	if most(r.BadLabels()) {
		faults = append(faults, "most labels are none that the schema describes")
	}
	return faults
}
