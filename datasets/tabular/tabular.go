// Package tabular reads tables of numbers and categories, by a schema of public
// bounds and categories.
//
// Numbers and dates are scaled from their bounds to [0, 1], or numbers standardized by public constants, and
// kept as float32; a category becomes a one-hot vector. A record is read by itself: what it becomes,
// and whether it trains or tests, follows from its own line and the schema. A
// record that is malformed, or out of bounds, becomes a fixed valid one without a
// word, as its existence is private; faults of the file and the schema are
// errors, which quote settings only.
package tabular

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/internal/usage"
)

// Options say which schema reads a table, and which part of it is held out.
type Options struct {
	// Schema is the name of a known one, or a file; "" is the file PATH.schema.yaml
	// or, without one, the known schema for the table's file name.
	Schema string
	// Text is a schema itself, in YAML, as a set has it. Nothing else is looked up then.
	Text string
	// Folds > 1 deals the records, with those of a test file, into so many folds,
	// each record by itself under the schema's public key. Fold, from 1 on, is held
	// out in Test. What the schema says about test records does not apply.
	Folds, Fold int
	// DropFirst codes categories as Schema.DropFirst does, whatever the schema says.
	DropFirst bool
	// Places makes a bad record of every line that is none: an empty one, a comment, or an optional header. So
	// no record moves those behind it. Test files are read as without it.
	Places bool
	// User names the column that says whose a record is; "" leaves users out.
	User string
}

// Open reads a table, which may be compressed by gzip. The set's PublicN is the
// published size of a known table, or 0: a size that nobody published is for the
// caller to give. Whether a table in the form of a known one is that table is for the
// caller to say, too (Set.Published). Without test records the set's Test has no shape.
func Open(path string, o Options) (*datasets.Set, error) {
	set, known, s, err := facts(path, o)
	if err != nil {
		return nil, err
	}
	set.TestFaults = map[int]string{}
	for i, file := range s.files(path) {
		seen, err := s.read(file, i, s.sorter(set, o, i))
		if err != nil {
			return nil, err
		}
		seen.faults(&set.Test, file, i > len(s.Also) && o.Folds <= 1, set.TestFaults)
	}
	if known != nil {
		known.publish(set, o)
	}
	return set, nil
}

// sorter gives the split of a line of one of the files.
func (s *Schema) sorter(set *datasets.Set, o Options, file int) func(line []byte) *datasets.Split {
	return func(line []byte) *datasets.Split {
		tested := file > len(s.Also)
		if o.Folds > 1 {
			tested = int(place(s.SplitKey, "fold", line)*float64(o.Folds)) == o.Fold-1
		} else if !tested {
			tested = place(s.SplitKey, "test", line) < s.TestShare
		}
		if tested {
			return &set.Test
		}
		return &set.Train
	}
}

// Facts is Open without the records, of which it opens no file: what the schema says, and what
// was published.
func Facts(path string, o Options) (*datasets.Set, error) {
	set, known, _, err := facts(path, o)
	if err == nil && known != nil {
		known.publish(set, o)
	}
	return set, err
}

func facts(path string, o Options) (*datasets.Set, *Known, *Schema, error) {
	known, s, err := o.find(path)
	if err != nil {
		return nil, nil, nil, err
	}
	if err := s.take(path, o); err != nil {
		return nil, nil, nil, err
	}
	text, err := yaml.Marshal(s)
	if err != nil {
		return nil, nil, nil, err
	}
	set := &datasets.Set{
		Name: strings.TrimSuffix(trim(filepath.Base(path)), filepath.Ext(trim(path))), Classes: len(s.Label.Classes), ClassNames: s.ClassNames(),
		TestIsPublic: s.TestIsPublic && o.Folds == 0, Reading: fmt.Sprintf("floats by schema %x fold %d of %d", sha256.Sum256(text), o.Fold, o.Folds),
		Train: s.empty(), Share: 1,
	}
	for i, bound := range s.Label.Bounds {
		set.Bounds[i] = bound.at
	}
	if known == nil {
		if set.Schema, err = s.kept(); err != nil {
			return nil, nil, nil, err
		}
	}
	if known != nil && len(s.Also) > 0 {
		set.Name = known.Name // the table's own is that of one file of several
	}
	if s.Test != "" || s.TestShare > 0 || o.Folds > 1 {
		set.Test = s.empty()
	}
	switch {
	case o.Folds > 1:
		set.Share = 1 - 1/float64(o.Folds)
	case s.TestShare > 0:
		set.Share = 1 - s.TestShare
	}
	set.Moves = set.Share < 1 || slices.ContainsFunc(s.Columns, func(c Column) bool { return c.Only != nil })
	return set, known, s, nil
}

// take has a schema follow the options, and refuses what does not go together.
func (s *Schema) take(path string, o Options) error {
	s.DropFirst, s.places, s.user = s.DropFirst || o.DropFirst, o.Places, o.User
	switch {
	case path == datasets.Piped && (s.Test != "" || len(s.Also) > 0):
		return errors.New("the schema names files beside the table (test, also), and nothing lies beside one from standard input: leave them out, or give the path of a file")
	case s.Width() == 0:
		return fmt.Errorf("drop-first true: no column of %s is left then; leave it out", path)
	case s.user != "" && s.TestShare > 0:
		return fmt.Errorf("test_share %v, users in column %s: it holds out records, and a user may have some on both sides; leave it out of the schema, and name a file of test records of other users under test", s.TestShare, s.user)
	}
	return nil
}

// publish tells what was published of a known table.
func (k *Known) publish(set *datasets.Set, o Options) {
	set.Note, set.Published = k.Note, true
	records := k.Records
	if o.Folds > 1 {
		records += k.TestRecords
	}
	set.PublicN = Scaled(records, set.Share)
}

// files are the paths of the table, of those that go with it, and of its test file.
func (s *Schema) files(path string) []string {
	all := []string{path}
	for _, name := range s.Also {
		all = append(all, filepath.Join(filepath.Dir(path), name))
	}
	if s.Test != "" {
		all = append(all, filepath.Join(filepath.Dir(path), s.Test))
	}
	return all
}

// Scaled is a public number of records times the share of them that trains.
func Scaled(records int, share float64) int { return int(float64(records)*share + 1e-6) }

func (s *Schema) empty() datasets.Split {
	return datasets.Split{Shape: [3]int{1, 1, s.Width()}, Unit: true}
}

// read appends the records of one of the files, each to the split that into gives for its
// line, and returns what it met.
func (s *Schema) read(path string, file int, into func(line []byte) *datasets.Split) (*Records, error) {
	text, err := s.readFile(path)
	if err != nil {
		return nil, err
	}
	seen, err := s.decode(text, file, into)
	if err != nil {
		return nil, fmt.Errorf("table %s: %w", path, err)
	}
	return seen, nil
}

func (s *Schema) decode(text []byte, file int, into func(line []byte) *datasets.Split) (*Records, error) {
	t, err := s.cut(text, true)
	if err != nil {
		return nil, err
	}
	t.file = file
	e := s.encoder()
	e.seen.Separator = string(t.separator)
	s.add(e, t, into)
	return &e.seen, nil
}

// add appends the records among a table's lines.
func (s *Schema) add(e *encoder, t *table, into func(line []byte) *datasets.Split) {
	for i, line := range t.lines {
		e.line = t.before + i + 1
		fields := fieldsOf(line, t.separator)
		if !s.isRecord(line) {
			if !s.places || t.file > len(s.Also) {
				continue
			}
			fields = nil
		}
		if s.wants(t, fields) {
			e.add(into(line), t, fields)
		}
	}
}

// Unlabeled reads the records of a file as those of a table that was trained on, to predict their
// labels: by its schema, all of them, and whether there is a column of labels or not. Unlike records to train on, a
// malformed one is refused, and doubts say what could not be read, for who gave the file.
func Unlabeled(path, trained string, o Options) (records *datasets.Split, doubts []string, err error) {
	_, _, s, err := facts(trained, o)
	if err != nil {
		return nil, nil, err
	}
	text, err := s.readFile(path)
	if err != nil {
		return nil, nil, err
	}
	t, err := s.cut(text, false)
	if err != nil {
		return nil, nil, fmt.Errorf("table %s: %w", path, err)
	}
	same := func(file string) bool { return trim(filepath.Base(file)) == trim(filepath.Base(path)) }
	t.file = max(slices.IndexFunc(s.files(trained), same), 0)
	m, e := s.empty(), s.encoder()
	for i, line := range t.lines {
		if !s.isRecord(line) {
			continue
		}
		e.line = t.before + i + 1
		e.seen.Records++
		fields := fieldsOf(line, t.separator)
		if fields == nil {
			return nil, nil, fmt.Errorf("table %s: record %d is longer than %d MiB: correct the file", path, m.Len(), mostLine>>20)
		}
		if len(fields) != t.fields {
			return nil, nil, fmt.Errorf("table %s: record %d has %d fields, and its columns are %d, with that of the label, which may hold anything: correct the file", path, m.Len(), len(fields), t.fields)
		}
		e.features(&m, t, fields, e.seen.Columns)
		m.Labels = append(m.Labels, 0)
	}
	return &m, s.doubts(path, &e.seen), nil
}

// Labeled reads the records of a file, with their labels, by the schema of a table that was trained on, as the set's Test.
// They are public. Of that table itself they are its test records alone.
func Labeled(path, trained string, o Options) (*datasets.Set, error) {
	if sameFile(path, trained) {
		if o.Folds > 1 {
			return nil, fmt.Errorf("table %s: the fold that is held out has training records of the other folds' runs: give another table", path)
		}
		set, err := Open(path, o)
		if err == nil && set.Test.Shape == [3]int{} {
			err = fmt.Errorf("table %s has no test records by its schema: give another table, with records that are not trained on", path)
		}
		return set, err
	}
	set, _, s, err := facts(trained, o)
	if err != nil {
		return nil, err
	}
	set.Test, set.TestFaults = s.empty(), map[int]string{}
	same := func(file string) bool { return trim(filepath.Base(file)) == trim(filepath.Base(path)) }
	seen, err := s.read(path, max(slices.IndexFunc(s.files(trained), same), 0), func([]byte) *datasets.Split { return &set.Test })
	if err != nil {
		return nil, err
	}
	seen.faults(&set.Test, path, true, set.TestFaults)
	set.TestDoubts = s.doubts(path, seen)
	return set, nil
}

// sameFile says whether two paths, of which each may lack .gz, lead to one file.
func sameFile(a, b string) bool {
	stat := func(path string) fs.FileInfo {
		info, err := os.Stat(path)
		if err != nil {
			info, _ = os.Stat(path + ".gz")
		}
		return info
	}
	first, second := stat(a), stat(b)
	return first != nil && second != nil && os.SameFile(first, second)
}

// unread says why a table was not read.
func unread(path string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("table %s does not exist, nor %[1]s.gz: give the path of a file", path)
	}
	return fmt.Errorf("table %s %w", path, datasets.Unread(err, nil))
}

// openFile opens a file of a table by pieces, and readFile reads it at once.
func openFile(path string) (io.ReadCloser, error) {
	if err := datasets.CheckName(path); err != nil {
		return nil, err
	}
	f, err := datasets.OpenFile(path)
	if err != nil {
		return nil, unread(path, err)
	}
	return f, nil
}

// checkBytes looks at how a file begins. Of one without a header these are bytes of a record, and it looks at none.
func (s *Schema) checkBytes(path string, text []byte) error {
	if s.Header != headerRequired {
		return nil
	}
	return datasets.CheckBytes(path, text)
}

func (s *Schema) readFile(path string) ([]byte, error) {
	if err := datasets.CheckName(path); err != nil {
		return nil, err
	}
	text, err := datasets.ReadFile(path)
	if err != nil {
		return nil, unread(path, err)
	}
	return text, s.checkBytes(path, text)
}

// suffix is what a schema's name adds to its table's.
const suffix = ".schema.yaml"

// find is the schema of a table; known is nil for a user's own.
func (o Options) find(path string) (*Known, *Schema, error) {
	if o.Text == "" {
		return find(path, o.Schema)
	}
	s, err := parse([]byte(o.Text))
	if err != nil {
		err = fmt.Errorf("the schema that was kept of %s: %w", path, err)
	}
	return nil, s, err
}

// find looks for a schema by name, or beside the table.
func find(path, name string) (known *Known, s *Schema, err error) {
	if err := datasets.CheckName(path); err != nil {
		return nil, nil, err
	}
	for _, k := range Schemas() {
		if name == k.Name {
			s, err = k.Schema()
			return &k, s, err
		}
	}
	candidates := []string{name}
	if name == "" && path == datasets.Piped {
		return nil, nil, fmt.Errorf("nothing says what the columns of a table from standard input are: name its schema by --schema, one of %s or a file", strings.Join(SchemaNames(), ", "))
	}
	if name == "" {
		candidates = []string{path + suffix, trim(path) + suffix}
	}
	for _, file := range candidates {
		text, err := os.ReadFile(file)
		if name == "" && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, nil, fmt.Errorf("schema %s cannot be read (%w)%s: give the path of a YAML file or one of %s", file, usage.Cause(err), usage.Meant(name, SchemaNames()), strings.Join(SchemaNames(), ", "))
		}
		if s, err = parse(text); err != nil {
			return nil, nil, fmt.Errorf("schema %s: %w", file, err)
		}
		return nil, s, nil
	}
	for _, k := range Schemas() {
		if trim(filepath.Base(path)) == k.File {
			s, err = k.Schema()
			return &k, s, err
		}
	}
	_, err = os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		_, err = os.Stat(path + ".gz")
	}
	if err != nil {
		return nil, nil, unread(path, err)
	}
	return nil, nil, fmt.Errorf("table %s has no schema: write its columns, public bounds and categories to %s (`privgrad data schema csv:%[1]s` prints a start), or name a schema, one of %[3]s or a file", path, trim(path)+suffix, strings.Join(SchemaNames(), ", "))
}

// Report is what Verify found out about a table.
type Report struct {
	Schema   string // its name, or its file
	Features int
	Classes  []string // nil in a regression
	// Private is computed from records, for their owner's eyes only: Files are the table, those that
	// go with it, and its test file. Published says whether the records of all of them are those of
	// the known table; nil where nobody knows. Faults say where most
	// of a file is not what the schema describes, and which classes have no record to train on.
	Private struct {
		Files     []FileRecords
		Published *bool
		Faults    []string
	}
}

// FileRecords is what one file holds.
type FileRecords struct {
	Name string // "table", "test file", or that of another one
	*Records
}

// Verify reads a table whole, as Open does, and counts what it meets.
func Verify(path, schema string) (*Report, error) {
	known, s, err := find(path, schema)
	if err != nil {
		return nil, err
	}
	s.advise = true
	r := &Report{Schema: schema, Features: s.Width(), Classes: s.ClassNames()}
	if known != nil {
		r.Schema = known.Name
	} else if schema == "" {
		r.Schema = trim(path) + suffix
	}
	m, perClass := s.empty(), make([]int, len(r.Classes))
	files := s.files(path)
	for i, file := range files {
		name := "test file"
		switch {
		case i == 0:
			name = "table"
		case i <= len(s.Also):
			name = s.Also[i-1]
		}
		seen, err := s.read(file, i, func([]byte) *datasets.Split { return &m })
		if err != nil {
			return r, err
		}
		r.Private.Files = append(r.Private.Files, FileRecords{name, seen})
		for _, fault := range s.mismatch(seen) {
			if len(files) > 1 {
				fault = name + ": " + fault
			}
			r.Private.Faults = append(r.Private.Faults, fault)
		}
		for k, n := range seen.PerClass {
			if i <= len(s.Also) {
				perClass[k] += n
			}
		}
	}
	for k, n := range perClass {
		if n == 0 && len(r.Private.Faults) == 0 {
			r.Private.Faults = append(r.Private.Faults, fmt.Sprintf("class %s has no record", r.Classes[k]))
		}
	}
	if known != nil && known.Digest != "" {
		r.Private.Published = new(known.Digest == m.Fingerprint())
	}
	return r, nil
}
