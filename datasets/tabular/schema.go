package tabular

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/privgrad/privgrad/internal/written"
	"github.com/privgrad/privgrad/internal/yamlfile"
)

// Schema says how a table's text becomes records. All of it is public: bounds
// and categories are known beforehand, never taken from the records.
type Schema struct {
	// Separator stands between fields. Of several characters, the first one that is
	// in the header counts.
	Separator string `yaml:"separator,omitempty"`
	// Header says whether a line with column names comes first. Where it is
	// "optional", a line that names all columns in their order is no record,
	// and no other line is looked at for names.
	Header  string          `yaml:"header,omitempty"`
	Decimal written.Decimal `yaml:"decimal,omitempty"` // what stands before the decimals of a number in files
	Skip    int             `yaml:"skip,omitempty"`    // lines before the header or the first record
	Comment string          `yaml:"comment,omitempty"` // lines that begin with it are no records

	// Columns in the order of the file. Without a header all must be listed;
	// with one, columns of the file that are not listed are not read.
	Columns []Column `yaml:"columns"`
	Label   Label    `yaml:"label"`
	// DropFirst gives the first category of a column no value of its own: it is then all
	// zeros, as is a category that is unknown.
	DropFirst bool `yaml:"drop_first,omitempty"`

	// Also names files beside the table, of the same form, with more of its records.
	Also []string `yaml:"also,omitempty,flow"`

	// Test names a file of test records beside the table. Else TestShare is the
	// share of records that SplitKey, any public text, sends to the test split,
	// each by itself. Neither is evaluated unless TestIsPublic.
	Test         string  `yaml:"test,omitempty"`
	TestShare    float64 `yaml:"test_share,omitempty"`
	SplitKey     string  `yaml:"split_key,omitempty"`
	TestIsPublic bool    `yaml:"test_is_public,omitempty"`

	places bool   // Options.Places
	user   string // Options.User
	advise bool   // count what unreadable fields may be, for their owner alone
}

// Label is what a model is to tell: one of some classes, or a number within
// public bounds.
type Label struct {
	Column  string  `yaml:"column"`
	Classes []names `yaml:"classes,omitempty,flow"`
	Bounds  bounds  `yaml:"bounds,omitempty,flow"`
}

// names are the ways in which files write one category; the first is its name.
type names []string

// UnmarshalYAML takes one way or a list of them.
func (n *names) UnmarshalYAML(decode func(any) error) error {
	var v any
	if err := decode(&v); err != nil {
		return err
	}
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	for _, x := range list {
		way, ok := x.(string) // package yamlfile keeps what is written
		if !ok {
			return errors.New("a category is no text: write it in quotes")
		}
		*n = append(*n, way)
	}
	return nil
}

// MarshalYAML writes one way as itself.
func (n names) MarshalYAML() (any, error) {
	if len(n) == 1 {
		return n[0], nil
	}
	return []string(n), nil
}

// Whether a table begins with the names of its columns.
const (
	headerRequired = "required"
	headerOptional = "optional"
	headerNone     = "none"
)

// mostWidth and mostClasses keep a record in memory and a class in a byte.
const (
	mostWidth   = 1 << 16
	mostClasses = 255
)

// parse reads a schema strictly and checks it.
func parse(text []byte) (*Schema, error) {
	s := &Schema{Separator: ",", Header: headerRequired}
	if err := yamlfile.Decode(text, s); errors.Is(err, yamlfile.ErrEmpty) {
		return nil, fmt.Errorf("%w: describe columns and label", err)
	} else if err != nil {
		return nil, err
	}
	return s, s.check()
}

// kept is a schema as YAML that parse reads as the same one. It is JSON, in which no character of a name is lost.
func (s *Schema) kept() (string, error) {
	text, err := yaml.MarshalWithOptions(s, yaml.JSON())
	if err != nil {
		return "", err
	}
	again, err := parse(text)
	if err == nil {
		if again.places, again.user = s.places, s.user; !reflect.DeepEqual(again, s) {
			err = errors.New("another one is read back")
		}
	}
	if err != nil {
		return "", fmt.Errorf("the schema cannot be kept in a model's file (%w): write names and categories without control characters", err)
	}
	return string(text), nil
}

func (s *Schema) check() error {
	if err := s.unfilled(); err != nil {
		return err
	}
	if err := s.checkFiles(); err != nil {
		return err
	}
	if len(s.Columns) == 0 {
		return errors.New("it lists no columns")
	}
	label := false
	for i, c := range s.Columns {
		label = label || c.Name == s.Label.Column
		if err := s.checkColumn(i); err != nil {
			return fmt.Errorf("column %q: %w", c.Name, err)
		}
	}
	if s.Width() == 0 {
		return errors.New("no column is a feature: give columns bounds or categories")
	}
	if s.Width() > mostWidth {
		return fmt.Errorf("its columns make %d features: at most %d are read", s.Width(), mostWidth)
	}
	if s.Label.Column == "" {
		return errors.New("it has no label: add label: {column: NAME, classes: [...]}, with bounds in the place of classes for a regression")
	}
	if !label && s.Header != headerRequired {
		return fmt.Errorf("label %q is not among the columns: without a header each column must be listed", s.Label.Column)
	}
	if err := s.Label.check(); err != nil {
		return fmt.Errorf("label %q: %w", s.Label.Column, err)
	}
	return nil
}

// checkFiles looks at how files are read and parted.
func (s *Schema) checkFiles() error {
	switch {
	case s.Separator == "" || strings.ContainsAny(s.Separator, "\"\r\n"):
		return fmt.Errorf("separator %q: must be a character such as , or ; that is no quote and no line end", s.Separator)
	case len(s.Separator) > 1 && s.Header != headerRequired:
		return fmt.Errorf("separators %q: only a header says which of them counts; give one", s.Separator)
	case !slices.Contains([]string{headerRequired, headerOptional, headerNone}, s.Header):
		return fmt.Errorf("header %q: choose one of %s, %s, %s", s.Header, headerRequired, headerOptional, headerNone)
	case !slices.Contains([]written.Decimal{"", ".", ","}, s.Decimal):
		return fmt.Errorf("decimal %q: write decimal: \",\" if files write 3,14, and leave it out if they write 3.14", s.Decimal)
	case s.Skip < 0:
		return fmt.Errorf("skip %d: must be a number of lines, 0 or more", s.Skip)
	case slices.Contains(s.Also, ""):
		return errors.New("also names a file without a name: give names of files beside the table")
	case len(s.Also) > 0 && s.Test != "":
		return fmt.Errorf("also and test %s were both given: hold out records of all files by a test_share", s.Test)
	case s.Test != "" && s.TestShare != 0:
		return fmt.Errorf("test %s and test_share %v were both given: give one", s.Test, s.TestShare)
	case !(s.TestShare >= 0 && s.TestShare < 1):
		return fmt.Errorf("test_share %v: must be in [0, 1)", s.TestShare)
	case s.TestIsPublic && s.Test == "" && s.TestShare == 0:
		return errors.New("test_is_public without test records: name a file in test, or give a test_share")
	}
	return nil
}

func (l *Label) check() error {
	switch {
	case (l.Classes == nil) == (l.Bounds == nil):
		return errors.New("give it classes, or bounds for a regression")
	case l.Bounds != nil:
		if l.Bounds.has(isDay) {
			return errDateLabel
		}
		return l.Bounds.check("")
	case len(l.Classes) < 2 || len(l.Classes) > mostClasses:
		return fmt.Errorf("%d classes: must be 2 to %d", len(l.Classes), mostClasses)
	}
	return distinct(l.Classes)
}

func distinct(categories []names) error {
	seen := map[string]bool{}
	for _, ways := range categories {
		if len(ways) == 0 { // [] or null
			return errors.New("a category without a name: give it one")
		}
		for _, way := range ways {
			if seen[way] {
				return fmt.Errorf("category %q is named twice", way)
			}
			seen[way] = true
		}
	}
	if len(seen) == 0 {
		return errors.New("it has no categories")
	}
	return nil
}

// ClassNames are those of the label; nil in a regression.
func (s *Schema) ClassNames() []string { return first(s.Label.Classes) }

// first are the ways that name categories.
func first(categories []names) (all []string) {
	for _, ways := range categories {
		all = append(all, ways[0])
	}
	return all
}
