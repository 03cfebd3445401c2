// Package shards keeps a data set in files whose rows a device can read where they lie on
// disk: for tables beyond memory, and for several processes that train one model.
//
// A directory holds the index, index.json, and shard files. The index is public: it has names,
// public sizes, and the form of a record. A shard file is as private as the records in it, and so
// is its length, from which the number of its records follows. All integers are little-endian.
//
//	offset  bytes
//	0       16       "privgrad shard\n" and the version, 1
//	16      32       SHA-256 of what the index says of the form of records
//	48      8        the shard's number; 2⁶⁴−1 for test records
//	56      8        where the rows begin
//	        …        zeros
//	        n·width  rows, one behind the other: bytes, or float32
//	        n·label  labels: a byte each, or float32 in a regression
//
// Records have numbers in the order of the shard files in the index, whoever reads them.
// Rows begin where memory that maps one file behind the other has them without a gap (see place).
package shards

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/goccy/go-yaml"

	"github.com/privgrad/privgrad/datasets"
)

// Form reads sets that a Writer wrote.
var Form = datasets.Form{Prefix: "shards:", Open: open, Facts: facts, Labeled: labeled, Verify: verify}

const (
	indexName = "index.json"
	magic     = "privgrad shard\n\x01"
	header    = 64
	// grain is a multiple of the pages of all systems that map files here.
	grain = 64 << 10
	// testNumber takes the place of a number in the file of test records.
	testNumber = 1<<64 - 1
)

// record is the form of a record.
type record struct {
	Shape  [3]int `json:"shape"`  // channels, height, width
	Values string `json:"values"` // bytes or floats
	Unit   bool   `json:"unit"`   // a byte b stands for b/255, else for b/127.5 − 1
	Labels string `json:"labels"` // classes or numbers
}

const (
	ofBytes, ofFloats    = "bytes", "floats"
	ofClasses, ofNumbers = "classes", "numbers"
)

// index is index.json. Nothing in it follows from records.
type index struct {
	Format   int      `json:"format_version"`
	Name     string   `json:"name"`
	Record   record   `json:"record"`
	Classes  []string `json:"classes"`
	Source   string   `json:"source,omitempty"` // of datasets.Set, its name without a path
	PublicN  int      `json:"public_n,omitempty"`
	PerClass []int    `json:"public_n_per_class,omitempty"`
	// Published, Share, Moves, Reading, Schema, Bounds and Note are those of datasets.Set.
	Published    bool            `json:"published,omitempty"`
	Share        float64         `json:"training_share,omitempty"`
	Moves        bool            `json:"moves,omitempty"`
	Reading      string          `json:"reading,omitempty"`
	Schema       string          `json:"schema,omitempty"`
	Bounds       datasets.Bounds `json:"label_bounds,omitzero"`
	Note         string          `json:"note,omitempty"`
	TestIsPublic bool            `json:"test_is_public"`
	Shards       []string        `json:"shards"`
	PerShard     int             `json:"public_n_per_shard,omitempty"` // of each but the last, by the public number
	Test         string          `json:"test,omitempty"`
}

// recordOf is the form of a set's records, also where it has none yet: a table has floats, images have bytes.
func recordOf(set *datasets.Set) record {
	m := set.Train
	r := record{Shape: m.Shape, Values: ofBytes, Unit: m.Unit, Labels: ofClasses}
	if m.Values != nil || m.Features == nil && m.Unit {
		r.Values = ofFloats
	}
	if set.Classes == 0 {
		r.Labels = ofNumbers
	}
	return r
}

// width is the number of bytes of a row.
func (r record) width() int64 {
	n := int64(r.Shape[0]) * int64(r.Shape[1]) * int64(r.Shape[2])
	if r.Values == ofFloats {
		n *= 4
	}
	return n
}

// label is the number of bytes of a label.
func (r record) label() int64 {
	if r.Labels == ofNumbers {
		return 4
	}
	return 1
}

func (r record) digest() ([sha256.Size]byte, error) {
	text, err := json.Marshal(r)
	return sha256.Sum256(text), err
}

// place is where the rows of a file begin that follow so many bytes of rows in the files before: behind
// the header, at the same distance from a page's begin as in memory that holds all of these rows.
func place(before int64) int64 { return grain + before%grain }

const most = 1 << 24 // bytes of an index, and values of a record

func readIndex(dir string) (*index, error) {
	path := filepath.Join(dir, indexName)
	f, err := os.Open(path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("shards %s: there is no %s: give the folder that `privgrad data shard` wrote to its end", dir, indexName)
		}
		return nil, fmt.Errorf("shards %s: %s %w", dir, indexName, datasets.Unread(err, nil))
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("shards %s: %s %w", dir, indexName, datasets.Unread(err, nil))
	}
	if info.Size() > most {
		return nil, fmt.Errorf("shards %s: %s is too long: write the shards again", dir, indexName)
	}
	d := json.NewDecoder(f)
	d.DisallowUnknownFields()
	x := &index{}
	if err := d.Decode(x); err != nil {
		damaged := errors.New("is damaged, or another version's: write the shards again")
		return nil, fmt.Errorf("shards %s: %s %w", dir, indexName, datasets.Unread(err, damaged))
	}
	if err := x.check(); err != nil {
		return nil, fmt.Errorf("shards %s: %s %w: write the shards again", dir, indexName, err)
	}
	return x, nil
}

func (x *index) check() error {
	if x.Format != 1 {
		return fmt.Errorf("has the format version %d, and this program reads 1", x.Format)
	}
	if err := x.Record.check(len(x.Classes)); err != nil {
		return err
	}
	if x.PublicN < 0 || x.PerShard < 0 || x.Share < 0 || x.Share > 1 || x.PerClass != nil && len(x.PerClass) != len(x.Classes) {
		return errors.New("has public sizes that are none")
	}
	if !x.Bounds.Sound() {
		return fmt.Errorf("has labels within %v, which are no bounds", x.Bounds)
	}
	if len(x.Shards) == 0 {
		return errors.New("lists no shard")
	}
	names := x.Shards
	if x.Test != "" {
		names = append(slices.Clone(names), x.Test)
	}
	for i, name := range names {
		if !filepath.IsLocal(name) || filepath.Base(name) != name || slices.Index(names, name) != i {
			return fmt.Errorf("lists the file %q, which is no name, or not the only one", name)
		}
	}
	return nil
}

func (r record) check(classes int) error {
	values := 1
	for _, n := range r.Shape {
		if n < 1 || n > most || values*n > most {
			return fmt.Errorf("has records of shape %v", r.Shape)
		}
		values *= n
	}
	if r.Values != ofBytes && r.Values != ofFloats {
		return fmt.Errorf("has values of the form %q", r.Values)
	}
	if r.Labels == ofNumbers && classes == 0 || r.Labels == ofClasses && classes > 1 && classes <= datasets.NoClass {
		return nil
	}
	return fmt.Errorf("has labels of the form %q and %d classes", r.Labels, classes)
}

// bounds are those of the labels. An index of an earlier version does not have them, but the schema.
func (x *index) bounds() datasets.Bounds {
	var schema struct {
		Label struct{ Bounds []float64 }
	}
	if x.Bounds != (datasets.Bounds{}) || x.Record.Labels != ofNumbers || yaml.Unmarshal([]byte(x.Schema), &schema) != nil {
		return x.Bounds
	}
	found := datasets.Bounds(append(schema.Label.Bounds, 0, 0)[:2])
	if !found.Sound() {
		return x.Bounds
	}
	return found
}

// set is the set without its records.
func (x *index) set(d datasets.Declared) (*datasets.Set, error) {
	if d.Classes != nil && !slices.Equal(d.Classes, x.Classes) {
		return nil, fmt.Errorf("class-names: the shards have the classes that their index lists; leave it out")
	}
	if size := datasets.SizeText(x.Record.Shape); d.Size != "" {
		if shape, err := d.Shape(); err != nil || shape != x.Record.Shape {
			return nil, fmt.Errorf("image-size %s: the shards have records of %s; leave it out", d.Size, size)
		}
	}
	list, err := json.Marshal(index{Shards: x.Shards, PerShard: x.PerShard})
	if err != nil {
		return nil, err
	}
	cut := *x
	cut.Shards, cut.PerShard, cut.Source = nil, 0, "" // however records are cut into files, a run that is resumed reads the same
	text, err := json.Marshal(cut)
	if err != nil {
		return nil, err
	}
	set := &datasets.Set{
		Name: x.Name, Classes: len(x.Classes), ClassNames: slices.Clone(x.Classes),
		Train:     x.empty(),
		Published: x.Published, PublicN: x.PublicN, PerClass: slices.Clone(x.PerClass), TestIsPublic: x.TestIsPublic, Note: x.Note,
		Share: x.Share, Moves: x.Moves, Schema: x.Schema, Bounds: x.bounds(), Source: datasets.PublicName(x.Source), Parts: fmt.Sprintf("%x", sha256.Sum256(list)),
		Reading: fmt.Sprintf("shards %x", sha256.Sum256(text)),
	}
	if x.Test != "" {
		set.Test = set.Train
	}
	return set, nil
}

func facts(path string, d datasets.Declared) (*datasets.Set, error) {
	x, err := readIndex(path)
	if err != nil {
		return nil, err
	}
	return x.set(d)
}

// open maps the shards of one rank: so many files, in their order, as Rank.Range gives. Other files need
// not be there.
func open(path string, d datasets.Declared) (*datasets.Set, error) {
	x, err := readIndex(path)
	if err != nil {
		return nil, err
	}
	set, err := x.set(d)
	if err != nil {
		return nil, err
	}
	first, end := d.Rank.Range(len(x.Shards))
	if set.Train, err = x.split(path, x.Shards[first:end], uint64(first)); err != nil {
		return nil, err
	}
	if x.Test != "" {
		set.Test, err = x.split(path, []string{x.Test}, testNumber)
	}
	return set, err
}

// labeled maps the test records alone. Classes and size are those of the index, whatever is declared.
func labeled(path string, _ datasets.Declared) (*datasets.Set, error) {
	x, err := readIndex(path)
	if err != nil {
		return nil, err
	}
	set, err := x.set(datasets.Declared{})
	if err != nil {
		return nil, err
	}
	if x.Test == "" {
		return nil, fmt.Errorf("shards %s have no test records: write shards of data that have some", path)
	}
	set.Test, err = x.split(path, []string{x.Test}, testNumber)
	return set, err
}

// verify reads all shards for their owner's eyes.
func verify(path string, d datasets.Declared) (*datasets.OwnReport, error) {
	r := &datasets.OwnReport{}
	if r.Set, r.Structure = open(path, d); r.Structure != nil {
		r.Set = nil
		return r, nil
	}
	if r.CountClasses(); r.Set.Classes == 0 {
		r.Private.Counts = []datasets.Count{{What: "records", Train: r.Set.Train.Len(), Test: r.Set.Test.Len()}}
	}
	return r, nil
}
