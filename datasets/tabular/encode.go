package tabular

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/internal/written"
)

// A table's records are its lines: a quoted field ends with its line. If it could
// span lines, one record with an opening quote would swallow those after it, and
// two tables that differ in that record would differ in many.

// table is a file's text cut into records, with the places of its columns.
type table struct {
	separator byte
	lines     [][]byte
	before    int   // lines before these
	fields    int   // of a whole record
	column    []int // place of each of the schema's columns, in their order, and of the label; −1: in no file
	user      int   // place of the column that says whose a record is, where somebody asks
	file      int   // 0 for the table, then from 1 on those of Also
}

// mostLine is how long a line may be, without its end: a longer one is a bad record, of which no more is kept. So
// no record takes much more time or memory than others. Tests make it small.
var mostLine = 4 << 20

// endOfLine is what may be kept beside it: a mark and an end.
const endOfLine = 8

// fieldsOf are the fields of a line; nil of one that is too long.
func fieldsOf(line []byte, separator byte) []string {
	if len(line) > mostLine {
		return nil
	}
	return written.Fields(line, separator)
}

// cut finds header and records. Its errors are about structure and quote the
// schema alone.
func (s *Schema) cut(text []byte, labeled bool) (*table, error) {
	t := &table{separator: s.Separator[0]}
	t.lines = lines(text)
	t.before = min(s.Skip, len(t.lines))
	t.lines = t.lines[t.before:]
	names := s.columnNames() // a schema's own order, which no line of the file moves
	if s.Header == headerRequired {
		if err := written.CheckUTF8(text); err != nil { // without a header, what the file begins with may be a record
			return nil, err
		}
		names = nil
		if len(t.lines) > 0 {
			for i := range s.Separator {
				if bytes.IndexByte(t.lines[0], s.Separator[i]) >= 0 {
					t.separator = s.Separator[i]
					break
				}
			}
			if names = fieldsOf(t.lines[0], t.separator); names == nil {
				return nil, fmt.Errorf("its header is longer than %d MiB: see that the separator and the ends of lines are right", mostLine>>20)
			}
			t.lines, t.before = t.lines[1:], t.before+1
		}
	}
	t.fields = len(names)
	place := func(name string) error {
		at := slices.Index(names, name)
		switch {
		case at >= 0 && slices.Contains(names[at+1:], name):
			return fmt.Errorf("its header names column %q twice: rename one of them", name)
		case at >= 0 || !labeled && name == s.Label.Column:
		default:
			return s.absent(name, names, labeled)
		}
		t.column = append(t.column, at)
		return nil
	}
	for _, c := range s.Columns {
		if c.ByFile != nil || c.Ignore || c.Only != nil && !labeled { // nothing is read from it
			t.column = append(t.column, -1)
		} else if err := place(c.Name); err != nil {
			return nil, err
		}
	}
	if err := t.placeUser(s.user, names); err != nil && labeled {
		return nil, err
	}
	return t, place(s.Label.Column)
}

// placeUser finds the column that says whose a record is, where somebody asks.
func (t *table) placeUser(user string, names []string) error {
	if t.user = slices.Index(names, user); t.user < 0 && user != "" {
		return fmt.Errorf("its header has no column %q, which --unit names: name a column of the file; in a file without a header, list it in the schema, with ignore: true", user)
	}
	return nil
}

// absent is the error of a column that a header does not name.
func (s *Schema) absent(name string, header []string, labeled bool) error {
	if len(header) == 1 {
		if by := written.Separator([]byte(header[0])); strings.IndexByte(header[0], by) >= 0 {
			return s.separated(by, labeled)
		}
	}
	switch {
	case !utf8.ValidString(strings.Join(header, "")):
		return fmt.Errorf("its header has no column %q: %s", name, written.NotUTF8)
	case !labeled:
		return fmt.Errorf("its header has no column %q, which the model takes: give the file the columns of the table that the model was trained on, by the same names", name)
	case name == labelColumn:
		return fmt.Errorf("its header has no column %s: replace %[1]s in the schema by the column to predict", name)
	}
	return fmt.Errorf("its header has no column %q: name columns in the schema as the file does, or say header: %s there and list all of them", name, headerNone)
}

// separated is the error of a file whose header is parted by another separator.
func (s *Schema) separated(by byte, labeled bool) error {
	its := strconv.Quote(s.Separator)
	if s.Separator == "," {
		its += " (the default)"
	}
	text := fmt.Sprintf("its header is one field: the schema's separator is %s; the file seems to have %q: ", its, string(by))
	if labeled {
		text += fmt.Sprintf("write separator: %q in the schema, or ", string(by))
	}
	return fmt.Errorf("%ssave the file with %q", text, s.Separator[:1])
}

func lines(text []byte) (all [][]byte) {
	for line := range bytes.Lines(text) {
		line = line[:min(len(line), mostLine+endOfLine)]
		// A mark is no part of any line: only the first could have one otherwise,
		// and a record before it would change it.
		all = append(all, bytes.TrimRight(written.Unmarked(line), "\r\n"))
	}
	return all
}

// isRecord goes by the line alone, not by where it stands: were only a first line
// looked at for an optional header, a record before it would make it one.
func (s *Schema) isRecord(line []byte) bool {
	switch {
	case s.Comment != "" && bytes.HasPrefix(line, []byte(s.Comment)):
		return false
	case len(line) > mostLine:
		return true
	case len(bytes.TrimSpace(line)) == 0:
		return false
	case s.Header == headerOptional:
		return !slices.Equal(written.Fields(line, s.Separator[0]), s.columnNames())
	}
	return true
}

// columnNames are those of a file.
func (s *Schema) columnNames() []string {
	var all []string
	for _, c := range s.Columns {
		if c.ByFile == nil {
			all = append(all, c.Name)
		}
	}
	return all
}

// wants reports whether a line has the values that Only asks for. A malformed one is a record, a bad one.
func (s *Schema) wants(t *table, fields []string) bool {
	for i := range s.Columns {
		if c := &s.Columns[i]; c.Only != nil && len(fields) == t.fields && !slices.Contains(c.Only, fields[t.column[i]]) {
			return false
		}
	}
	return true
}

// encoder turns the fields of one record into values.
type encoder struct {
	schema   *Schema
	readers  []reader         // of each column
	category []map[string]int // of each column; empty for others
	class    map[string]int
	line     int      // number of the one that is read
	seen     Records  // private, unless the user of a model gave the file
	ignored  []Faults // of the columns of malformed records, which are told of as a whole
}

func (s *Schema) encoder() *encoder {
	e := &encoder{schema: s, class: index(s.Label.Classes), ignored: make([]Faults, len(s.Columns))}
	e.seen = Records{Label: Faults{Name: s.Label.Column, Words: s.words(s.Label.Classes, e.class)}, PerClass: make([]int, len(s.Label.Classes))}
	for i, c := range s.Columns {
		e.category = append(e.category, index(c.Categories))
		e.readers = append(e.readers, s.reader(&c))
		e.seen.Columns = append(e.seen.Columns, Faults{Name: c.Name, What: c.what(), Advice: s.advice(&c), Words: s.words(c.Categories, e.category[i])})
	}
	return e
}

// words counts where the owner asked for it.
func (s *Schema) words(listed []names, index map[string]int) (w written.Words) {
	if s.advise {
		w = written.CountWords(first(listed), index)
	}
	return w
}

func index(categories []names) map[string]int {
	m := map[string]int{}
	for i, ways := range categories {
		for _, way := range ways {
			m[way] = i
		}
	}
	return m
}

// add appends one record to a split. A number outside its bounds counts as the
// bound, one that is missing or unreadable as what the schema says of it, and an
// unknown category as none of the categories. A label that is no class or no number, and a
// line with too few or too many fields, make a bad record.
func (e *encoder) add(m *datasets.Split, t *table, fields []string) {
	e.seen.Records++
	bad, seen := badRecord{m, m.Len(), e.line, len(fields), t.fields}, e.seen.Columns
	malformed := len(fields) != t.fields
	if malformed {
		e.seen.Malformed.note(e.line)
		fields, seen = make([]string, t.fields), e.ignored
	}
	e.features(m, t, fields, seen)
	if e.schema.user != "" { // a malformed record is nobody's
		m.Users = append(m.Users, strings.TrimSpace(fields[t.user]))
	}
	text := fields[t.column[len(t.column)-1]]
	if b := e.schema.Label.Bounds; b != nil {
		x, ok := e.number(text, e.schema.Decimal, b, &e.seen.Label)
		if !ok {
			x = math.NaN()
			e.seen.bad = append(e.seen.bad, bad)
		}
		m.Targets = append(m.Targets, float32((x-b.low())/(b.high()-b.low())))
		return
	}
	k, ok := e.class[text]
	if !malformed {
		e.seen.Label.Words.Look(text)
	}
	if ok {
		e.seen.PerClass[k]++
	} else {
		e.seen.Label.Unknown.note(e.line)
		e.seen.bad = append(e.seen.bad, bad)
		k = badLabel
	}
	m.Labels = append(m.Labels, uint8(k))
}

// features appends the values of a whole record, without its label, and counts the faults of each column.
func (e *encoder) features(m *datasets.Split, t *table, fields []string, seen []Faults) {
	for i := range e.schema.Columns {
		switch c := &e.schema.Columns[i]; {
		case c.Bounds != nil:
			x, ok := e.number(fields[t.column[i]], e.readers[i], c.Bounds, &seen[i])
			m.Values = append(m.Values, float32(c.value(x, ok)))
		case c.ByFile != nil:
			m.Values = append(m.Values, float32(c.ByFile[t.file]))
		case c.Categories != nil:
			width := e.schema.width(c)
			m.Values = append(m.Values, make([]float32, width)...)
			field := fields[t.column[i]]
			seen[i].Words.Look(field)
			if k, ok := e.category[i][field]; !ok {
				seen[i].Unknown.note(e.line)
			} else if back := len(c.Categories) - k; back <= width {
				m.Values[len(m.Values)-back] = 1
			}
		}
	}
}

// badLabel is no class.
const badLabel = mostClasses

// number reads a field, and moves what lies outside the bounds to their ends.
func (e *encoder) number(text string, by reader, b bounds, seen *Faults) (x float64, ok bool) {
	x, ok = by.Read(text)
	switch {
	case !ok && written.IsBlank(text):
		seen.Missing.note(e.line)
	case !ok:
		seen.Unreadable.note(e.line)
		seen.Advice.look(text)
	case x < b.low() || x > b.high():
		seen.Clamped.note(e.line)
	}
	if !ok {
		return 0, false
	}
	return min(max(x, b.low()), b.high()), true
}

// place is where a public key puts a record in [0, 1), for splits. It follows from
// the record's own text, so that a record that comes or goes moves no other;
// equal records go together.
func place(key, purpose string, line []byte) float64 {
	h := hmac.New(sha256.New, []byte(key))
	h.Write([]byte(purpose + "\x00"))
	h.Write(line)
	return float64(binary.LittleEndian.Uint64(h.Sum(nil))>>11) / (1 << 53)
}

// Records is what verification counts. All of it is private. A malformed record has a bad label, too.
type Records struct {
	Separator string // that stands between its fields
	Records   int
	Malformed Fault    // records with too few or too many fields
	Columns   []Faults // those of the schema
	Label     Faults
	PerClass  []int // empty in a regression
	bad       []badRecord
}

// badRecord is a record whose label is none.
type badRecord struct {
	split                         *datasets.Split
	number, line, fields, columns int
}

// faults add what is wrong with the bad records of a public test split, by their numbers. Those in a file of their own
// are found by their lines. In a file with private records a line's number would tell how many of those are before it.
func (r *Records) faults(test *datasets.Split, path string, ownFile bool, into map[int]string) {
	for _, b := range r.bad {
		if b.split != test {
			continue
		}
		where := fmt.Sprintf("%s, test record %d (the first is 1),", path, b.number+1)
		if ownFile {
			where = fmt.Sprintf("line %d of %s", b.line, path)
		}
		switch b.fields {
		case b.columns:
			into[b.number] = fmt.Sprintf("%s has none of the schema's labels in column %q", where, r.Label.Name)
		case 0:
			into[b.number] = fmt.Sprintf("%s is longer than %d MiB", where, mostLine>>20)
		default:
			into[b.number] = fmt.Sprintf("%s has %d fields in place of %d", where, b.fields, b.columns)
		}
	}
}

// Faults are those of a column.
type Faults struct {
	Name       string
	What       string // number or date; empty of others
	Missing    Fault  // numbers and dates that are empty, or NA and the like
	Unreadable Fault  // other fields that should be numbers or dates and are none
	Clamped    Fault  // numbers outside their bounds
	Unknown    Fault  // categories that the schema does not have, and labels that are no class
	Advice     Advice
	Words      written.Words // for the owner alone
}

// Fault is how often something was wrong, and where first.
type Fault struct{ Count, Line int }

func (f *Fault) note(line int) {
	if f.Count++; f.Count == 1 {
		f.Line = line
	}
}

// total adds up a kind of fault over the columns.
func (r *Records) total(of func(*Faults) *Fault) (n int) {
	for i := range r.Columns {
		n += of(&r.Columns[i]).Count
	}
	return n
}

// Missing is the number of numbers and dates that are missing.
func (r *Records) Missing() int { return r.total(func(f *Faults) *Fault { return &f.Missing }) }

// Unreadable is the number of other fields that should be numbers or dates and are none.
func (r *Records) Unreadable() int { return r.total(func(f *Faults) *Fault { return &f.Unreadable }) }

// Clamped is the number of numbers outside their bounds, those to tell among them.
func (r *Records) Clamped() int {
	return r.total(func(f *Faults) *Fault { return &f.Clamped }) + r.Label.Clamped.Count
}

// Unknown is the number of categories that the schema does not have.
func (r *Records) Unknown() int { return r.total(func(f *Faults) *Fault { return &f.Unknown }) }

// BadLabels is the number of labels that are no class or no number.
func (r *Records) BadLabels() int {
	return r.Label.Unknown.Count + r.Label.Unreadable.Count + r.Label.Missing.Count
}

// trim is a path without .gz.
func trim(path string) string { return strings.TrimSuffix(path, ".gz") }
