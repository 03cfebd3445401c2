package tabular

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/datasets"
)

func counts(r *Records) string {
	return fmt.Sprint(r.Records, r.Malformed.Count, r.Missing()+r.Unreadable(), r.Clamped(), r.Unknown(), r.BadLabels(), r.PerClass)
}

func write(t testing.TB, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	check(t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

func open(t *testing.T, path string, o Options) *datasets.Set {
	t.Helper()
	set, err := Open(path, o)
	check(t, err)
	return set
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Encodings worked out by hand: age (x−20)/50, temperature (x+10.5)/50.5; a ward in three
// values.
func TestEncoding(t *testing.T) {
	want := []struct {
		values [5]float32
		label  uint8
	}{
		{[5]float32{0, 1, 0, 0, 0}, 0},
		{[5]float32{1, 0, 1, 0, 1}, 1},
		{[5]float32{0.5, 0, 1, 0, 0.5}, 1},
		{[5]float32{0.2, 0, 0, 1, 10.5 / 50.5}, 0},
		{[5]float32{0, 1, 0, 0, 0}, 0},
		{[5]float32{1, 1, 0, 0, 1}, 1},
		{[5]float32{0, 0, 0, 0, 0}, 1},
		{[5]float32{0, 0, 0, 0, 0}, badLabel}, // 0x10 is no decimal number to a table, 0x10p0 would be
		{[5]float32{0, 0, 0, 0, 0}, badLabel},
		{[5]float32{0, 0, 0, 0, 0}, badLabel},
		{[5]float32{0, 0, 0, 0, 0}, badLabel},
		{[5]float32{0.5, 0, 0, 0, 20.5 / 50.5}, 1},
	}
	set := open(t, "testdata/visits.csv", Options{})
	if set.Name != "visits" || set.Classes != 2 || !slices.Equal(set.ClassNames, []string{"no", "yes"}) || set.PublicN != 0 || set.TestIsPublic || set.Train.Shape != [3]int{1, 1, 5} || !set.Train.Unit {
		t.Errorf("the set is %+v", set)
	}
	if set.Train.Len() != len(want) || set.Test.Len() != 0 || set.Train.Features != nil || len(set.Train.Values) != 5*len(want) {
		t.Fatalf("%d records, of them %d to test; want %d", set.Train.Len(), set.Test.Len(), len(want))
	}
	for i, w := range want {
		if got := set.Train.Values[5*i : 5*i+5]; !slices.Equal(got, w.values[:]) || set.Train.Labels[i] != w.label {
			t.Errorf("record %d: %v labelled %d, want %v labelled %d", i, got, set.Train.Labels[i], w.values, w.label)
		}
	}
	r, err := Verify("testdata/visits.csv", "")
	check(t, err)
	// The three malformed records have bad labels, too.
	if got, want := counts(r.Private.Files[0].Records), fmt.Sprint(12, 3, 2+2, 4, 3, 4, []int{3, 5}); got != want {
		t.Errorf("verification counts %s, want %s", got, want)
	}
	if r.Schema != "testdata/visits.csv.schema.yaml" || r.Features != 5 || len(r.Private.Files) != 1 {
		t.Errorf("verification says %+v", r)
	}
}

// A regression's targets are scaled like numbers; one that is none is bad.
func TestTargets(t *testing.T) {
	dir := t.TempDir()
	path := write(t, dir, "t.csv", "a,y\n1,0\n2,5\n3,10\n4,11\n5,-3\n6,\n7,x\n8\n")
	write(t, dir, "t.csv.schema.yaml", "columns: [{name: a, bounds: [0, 8]}]\nlabel: {column: y, bounds: [0, 10]}\n")
	set := open(t, path, Options{})
	want := []float64{0, 0.5, 1, 1, 0, math.NaN(), math.NaN(), math.NaN()}
	if set.Classes != 0 || set.Train.Labels != nil || len(set.Train.Targets) != len(want) || set.Train.Len() != len(want) {
		t.Fatalf("the set is %+v", set)
	}
	for i, y := range set.Train.Targets {
		if float64(y) != want[i] && !(math.IsNaN(float64(y)) && math.IsNaN(want[i])) {
			t.Errorf("target %d is %v, want %v", i, y, want[i])
		}
	}
}

// Runs of earlier versions go on reading as before: the digests are those of the version that had
// neither several files, nor dropped categories, nor standardized numbers.
func TestReadingStays(t *testing.T) {
	for name, want := range map[string]string{
		"adult": "b2ef39bbaa4a791455082a2d79e394fbbe727740436c12cf93ccc1972e1720a4",
		"bank":  "f1af105ec633f101862c66ad657963a942981ac010914af02cc0360d63c8e4d3",
		"iris":  "af7f813842079cac8eeee5fec30fb757b6ba1135b5ebbc5bd7c9fd66c232de36",
	} {
		set, err := Facts("t.csv", Options{Schema: name})
		check(t, err)
		if text := "floats by schema " + want + " fold 0 of 0"; set.Reading != text {
			t.Errorf("%s reads %q, want %q", name, set.Reading, text)
		}
		if name != "iris" {
			dropped, err := Facts("t.csv", Options{Schema: name, DropFirst: true})
			if err != nil || dropped.Reading == set.Reading {
				t.Errorf("%s reads the same without first categories: %v, %v", name, dropped, err)
			}
		}
	}
}

// Without its first category, a column has a value less, by the schema and by the option alike;
// the other values are what they were.
func TestDropFirst(t *testing.T) {
	whole := open(t, "testdata/visits.csv", Options{})
	dir := t.TempDir()
	schema, err := os.ReadFile("testdata/visits.csv.schema.yaml")
	check(t, err)
	own := write(t, dir, "s.yaml", string(schema)+"\ndrop_first: true\n")
	for _, o := range []Options{{DropFirst: true}, {Schema: own}} {
		set := open(t, "testdata/visits.csv", o)
		if set.Train.Shape != [3]int{1, 1, 4} || set.Reading == whole.Reading || !slices.Equal(set.Train.Labels, whole.Train.Labels) {
			t.Fatalf("the set is %+v", set)
		}
		for i := range set.Train.Len() {
			want := slices.Delete(slices.Clone(whole.Train.Values[5*i:][:5]), 1, 2)
			if got := set.Train.Values[4*i:][:4]; !slices.Equal(got, want) {
				t.Errorf("record %d: %v, want %v", i, got, want)
			}
		}
	}
	path := write(t, dir, "t.csv", "b,y\nx,0\n")
	write(t, dir, "t.csv.schema.yaml", "columns: [{name: b, categories: [x]}]\nlabel: {column: y, classes: [0, 1]}\n")
	if _, err := Open(path, Options{DropFirst: true}); err == nil || !strings.Contains(err.Error(), "drop-first") {
		t.Errorf("a table without a feature left: %v", err)
	}
}

// Standard units by public constants: bounds hold before, and a number that is none counts as the mean.
func TestStandardUnits(t *testing.T) {
	dir := t.TempDir()
	path := write(t, dir, "t.csv", "a,b,y\n4,1,0\n10,2,1\n-9,0,0\n99,3,1\n,,0\nx,2,1\n")
	write(t, dir, "t.csv.schema.yaml", "columns: [{name: a, bounds: [0, 12], mean: 6, sd: 4}, {name: b, bounds: [0, 4], sd: 0.5}]\nlabel: {column: y, classes: [0, 1]}\n")
	want := []float32{-0.5, 2, 1, 4, -1.5, 0, 1.5, 6, 0, 0, 0, 4}
	if set := open(t, path, Options{}); !slices.Equal(set.Train.Values, want) {
		t.Errorf("%v, want %v", set.Train.Values, want)
	}
	r, err := Verify(path, "")
	check(t, err)
	if got, want := counts(r.Private.Files[0].Records), fmt.Sprint(6, 0, 3, 2, 0, 0, []int{3, 3}); got != want {
		t.Errorf("verification counts %s, want %s", got, want)
	}
}

// Several files are one table: each record keeps its file's value, each file its own order of columns, and
// a line is held out by its text, whatever file it is in.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	path := write(t, dir, "a.csv", "a,y\n0.25,0\n0.5,1\n")
	write(t, dir, "b.csv", "y,a\n1,0.75\n")
	write(t, dir, "c.csv", "a,y\n1,0\n1,x,0\n")
	schema := "also: [b.csv, c.csv]\ncolumns: [{name: a, bounds: [0, 1]}, {name: from, by_file: [0, 0.5, 1]}]\nlabel: {column: y, classes: [0, 1]}\n"
	write(t, dir, "a.csv.schema.yaml", schema)
	set := open(t, path, Options{})
	if want := []float32{0.25, 0, 0.5, 0, 0.75, 0.5, 1, 1, 0, 1}; !slices.Equal(set.Train.Values, want) || !slices.Equal(set.Train.Labels, []uint8{0, 1, 1, 0, badLabel}) {
		t.Errorf("%v labelled %v, want %v", set.Train.Values, set.Train.Labels, want)
	}
	if set.Name != "a" {
		t.Errorf("an own table is called %s", set.Name)
	}
	r, err := Verify(path, "")
	check(t, err)
	var seen []string
	for _, f := range r.Private.Files {
		seen = append(seen, fmt.Sprint(f.Name, " ", f.Records.Records, " ", f.Malformed.Count))
	}
	if want := []string{"table 2 0", "b.csv 1 0", "c.csv 2 1"}; !slices.Equal(seen, want) {
		t.Errorf("verification reads %q, want %q", seen, want)
	}

	write(t, dir, "a.csv.schema.yaml", schema+"test_share: 0.5\n")
	var lines strings.Builder
	lines.WriteString("a,y\n")
	for i := range 40 {
		fmt.Fprintf(&lines, "%v,0\n", float64(i)/40)
	}
	for _, name := range []string{"a.csv", "b.csv", "c.csv"} {
		write(t, dir, name, lines.String())
	}
	set = open(t, path, Options{})
	n := set.Test.Len() / 3
	if set.Train.Len()+set.Test.Len() != 120 || n == 0 || n == 40 {
		t.Fatalf("%d records train and %d test", set.Train.Len(), set.Test.Len())
	}
	for i := range n {
		for file := range 3 {
			if got, want := set.Test.Values[2*(file*n+i):][:2], []float32{set.Test.Values[2*i], float32(file) / 2}; !slices.Equal(got, want) {
				t.Errorf("held out as record %d of file %d: %v, want %v", i, file, got, want)
			}
		}
	}
	check(t, os.Remove(filepath.Join(dir, "c.csv")))
	if _, err := Open(path, Options{}); err == nil || !strings.Contains(err.Error(), "c.csv does not exist") {
		t.Errorf("without one of the files: %v", err)
	}
}

// A condition picks records one by one; a malformed line stays a bad record.
func TestOnly(t *testing.T) {
	dir := t.TempDir()
	path := write(t, dir, "t.csv", "1,yes,0\n0.5,no,1\n0.25,Y,1\nyes\n0,yes,1\n")
	write(t, dir, "t.csv.schema.yaml", "header: none\ncolumns: [{name: a, bounds: [0, 1]}, {name: b, only: [\"yes\", Y]}, {name: y}]\nlabel: {column: y, classes: [0, 1]}\n")
	set := open(t, path, Options{})
	if !slices.Equal(set.Train.Values, []float32{1, 0.25, 0, 0}) || !slices.Equal(set.Train.Labels, []uint8{0, 1, badLabel, 1}) {
		t.Errorf("%v labelled %v", set.Train.Values, set.Train.Labels)
	}
}

// Names of categories and classes are those that the schema shows, also where they look like numbers or truths.
func TestNamesThatAreNumbers(t *testing.T) {
	for _, name := range []string{"+1", "01", "1.0", "1e3", "0x1", ".5", "1_000", "yes", "True", "2019-01-01"} {
		dir := t.TempDir()
		path := write(t, dir, "t.csv", "a,b,c,y\n1,"+name+",X,"+name+"\n0,other,X,other\n0,other,no,"+name+"\n")
		schema := "columns: [{name: a, bounds: [0, 1]}, {name: b, categories: [other, NAME]}, {name: c, only: X}, {name: y}]\nlabel: {column: y, classes: [other, [NAME, Y]]}\n"
		write(t, dir, "t.csv.schema.yaml", "\xef\xbb\xbf"+strings.ReplaceAll(schema, "NAME", name))
		set := open(t, path, Options{})
		if !slices.Equal(set.Train.Values, []float32{1, 0, 1, 0, 1, 0}) || !slices.Equal(set.Train.Labels, []uint8{1, 0}) || !slices.Equal(set.ClassNames, []string{"other", name}) {
			t.Errorf("%s: %v labelled %v of %q", name, set.Train.Values, set.Train.Labels, set.ClassNames)
		}
	}
}

// Numbers of records are decimal: others are none, and count as the lower bound.
func TestNumbersOfRecords(t *testing.T) {
	dir := t.TempDir()
	path := write(t, dir, "t.csv", "a,y\n010,0\n0x1p3,0\n1_0,0\n0x10,0\n08.5,1\n1e1,1\n")
	write(t, dir, "t.csv.schema.yaml", "columns: [{name: a, bounds: [0, 20]}, {name: y}]\nlabel: {column: y, classes: [0, 1]}\n")
	if set := open(t, path, Options{}); !slices.Equal(set.Train.Values, []float32{0.5, 0, 0, 0, 0.425, 0.5}) {
		t.Errorf("read as %v", set.Train.Values)
	}
}

const plain = "columns: [{name: a, bounds: [0, 1]}, {name: b, categories: [x, y]}, {name: y}]\nlabel: {column: y, classes: [0, 1]}\n"

// What lies around the records: headers, separators, lines to skip, comments,
// compression, the ends of lines.
func TestForms(t *testing.T) {
	one := []float32{1, 0, 1}
	for name, c := range map[string]struct{ schema, text string }{
		"header":              {plain, "a,b,y\n1,y,0\n"},
		"another order":       {plain, "y,more,b,a\n0,?,y,1\n"},
		"twice a name":        {plain, "a,b,y,c,c\n1,y,0,0,0\n"}, // which nothing reads
		"no end of line":      {plain, "a,b,y\n1,y,0"},
		"other ends of lines": {plain, "a,b,y\r\n1,y,0\r\n"},
		"byte order mark":     {plain, "\xef\xbb\xbfa,b,y\n1,y,0\n"},
		"empty lines":         {plain, "a,b,y\n\n \t\n1,y,0\n\n"},
		"no header":           {plain + "header: none\n", "1,y,0\n"},
		"optional, there":     {plain + "header: optional\n", "a,b,y\n1,y,0\n"},
		"optional, not there": {plain + "header: optional\n", "1,y,0\n"},
		"lines to skip":       {plain + "skip: 2\n", "some\n\"thing,\na,b,y\n1,y,0\n"},
		"comments":            {plain + "comment: '|'\n", "a,b,y\n|1x3\n1,y,0\n"},
		"semicolons":          {plain + "separator: ;\n", "a;b;y\n1;y;0\n"},
		"the first separator": {plain + "separator: ';,'\n", "a,b,y\n1,y,0\n"},
		"blanks":              {plain + "separator: ' '\nheader: none\n", "1 y  0 \n"},
		"tabs":                {plain + "separator: \"\\t\"\n", "a\tb\ty\n1\ty\t0\n"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, "t.csv.schema.yaml", c.schema)
			path := write(t, dir, "t.csv", c.text)
			var z bytes.Buffer
			w := gzip.NewWriter(&z)
			w.Write([]byte(c.text))
			w.Close()
			write(t, dir, "z.csv.gz", z.String())
			for path, schema := range map[string]string{path: "", filepath.Join(dir, "z.csv.gz"): path + suffix, filepath.Join(dir, "z.csv"): path + suffix} {
				m := open(t, path, Options{Schema: schema}).Train
				if !slices.Equal(m.Values, one) && !(name == "tabs" && len(m.Values) == 3) || !slices.Equal(m.Labels, []uint8{0}) {
					t.Errorf("%s: %v labelled %v", path, m.Values, m.Labels)
				}
			}
		})
	}
}

// Where a header is optional, no record changes how another one is read: a record
// that names the columns, in whatever order and wherever it stands, comes and goes
// like any other. Classes and columns share a name here, so that the line which is
// a header could be a sound record, too.
func TestNoRecordIsAHeader(t *testing.T) {
	s, err := parse([]byte("header: optional\ncolumns: [{name: a, categories: [a, b]}, {name: b, bounds: [0, 1]}, {name: y}]\nlabel: {column: y, classes: [y, n]}\n"))
	check(t, err)
	records := func(lines ...string) map[string]int {
		m := s.empty()
		if _, err := s.decode([]byte(strings.Join(lines, "\n")), 0, func([]byte) *datasets.Split { return &m }); err != nil {
			t.Fatalf("records made an error: %v", err)
		}
		all := map[string]int{}
		for i, l := range m.Labels {
			if l != badLabel { // a record that adds nothing
				all[fmt.Sprint(m.Values[3*i:][:3], l)]++
			}
		}
		return all
	}
	others := []string{"\xef\xbb\xbfa,1,y", "b,0.5,n", "b,0,y", "a,b,y", "b,a,y"}
	want := records(others...)
	if len(want) < 3 {
		t.Fatalf("the others are %v", want)
	}
	for _, line := range []string{"a,b,y", "b,a,y", "y,b,a", "y,a,b", "a,b,y,more", "b,y,a,a", "\"a\",b, y", "a;b;y", "b,1,n"} {
		own := records(line)
		for at := range len(others) + 1 {
			got := records(slices.Insert(slices.Clone(others), at, line)...)
			for r, n := range own {
				got[r] -= n
				if got[r] == 0 {
					delete(got, r)
				}
			}
			if !maps.Equal(got, want) {
				t.Errorf("with %q as line %d the others became\n%v, not\n%v", line, at+1, got, want)
			}
		}
	}
}

// Where records have places, no line moves those behind it, whatever it holds. Test records have none.
func TestPlaces(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "t.csv.schema.yaml", "header: optional\ncomment: \"#\"\ncolumns: [{name: a, bounds: [0, 1]}, {name: y}]\nlabel: {column: y, classes: [y, n]}\nalso: [u.csv]\n")
	write(t, dir, "w.csv.schema.yaml", "comment: \"#\"\nheader: none\ncolumns: [{name: a, bounds: [0, 1]}, {name: y}]\nlabel: {column: y, classes: [y, n]}\ntest: v.csv\n")
	write(t, dir, "u.csv", "\n0.75,n\n")
	write(t, dir, "v.csv", "# test\n0.5,y\n")
	for _, line := range []string{"", " \t", "# 0,y", "a,y", "0,y,0", "none"} {
		path := write(t, dir, "t.csv", "0.25,y\n"+line+"\n0.5,n\n")
		set := open(t, path, Options{Places: true})
		if want := []uint8{0, badLabel, 1, badLabel, 1}; !slices.Equal(set.Train.Labels, want) {
			t.Errorf("with the line %q the labels are %v, want %v", line, set.Train.Labels, want)
		} else if set.Train.Values[0] != 0.25 || set.Train.Values[2] != 0.5 || set.Train.Values[4] != 0.75 {
			t.Errorf("with the line %q the values are %v", line, set.Train.Values)
		}
	}
	set := open(t, write(t, dir, "w.csv", "# none\n0.5,y\n"), Options{Places: true})
	if set.Train.Len() != 2 || set.Test.Len() != 1 {
		t.Errorf("%d records and %d test records", set.Train.Len(), set.Test.Len())
	}
}

// Faults of schema and structure are refused, and quote no record.
func TestRefusals(t *testing.T) {
	const columns, label = "columns: [{name: a, bounds: [0, 1]}, {name: y}]\n", "label: {column: y, classes: [0, 1]}\n"
	for _, c := range []struct{ schema, text, want string }{
		{"", "", "it is empty"},
		{"columns: 3\n", "", "must be a list"},
		{plain + "colums: 3\n", "", "colums"},
		{label, "", "no columns"},
		{columns, "", `column "y"`},
		{columns + "label: {column: y}\n", "", "give it classes, or bounds"},
		{columns + "label: {column: y, classes: [0, 1], bounds: [0, 1]}\n", "", "give it classes, or bounds"},
		{columns + "label: {column: y, classes: [0]}\n", "", "1 classes"},
		{columns + "label: {column: y, classes: [0, 0]}\n", "", `"0" is named twice`},
		{columns + "label: {column: y, classes: [0, []]}\n", "", "without a name"},
		{columns + "label: {column: y, classes: [0, {1: 30}]}\n", "", "write it in quotes"},
		{columns + "label: {column: y, classes: [0, null]}\n", "", "item that is none: write its value, in quotes if it is a name"},
		{"columns: [{name: a, categories: [b, null]}, {name: y}]\n" + label, "", "item that is none"},
		{columns + "label: {column: y, bounds: [1, 0]}\n", "", "lower one first"},
		{columns + "label: {column: z, classes: [0, 1]}\n", "", `column "y"`},
		{"columns: [{name: a, bounds: [0, .inf]}, {name: y}]\n" + label, "", "two finite numbers"},
		{"columns: [{name: a, bounds: [0, .nan]}, {name: y}]\n" + label, "", "two finite numbers"},
		{"columns: [{name: a, bounds: [0]}, {name: y}]\n" + label, "", "two finite numbers"},
		{"columns: [{name: a, bounds: [-1.7e308, 1.7e308]}, {name: y}]\n" + label, "", "two finite numbers"},
		{"columns: [{name: a}, {name: y}]\n" + label, "", "give it bounds, or categories, or by_file, or only, or ignore"},
		{"columns: [{name: a, bounds: [0, 1], ignore: true}, {name: y}]\n" + label, "", "one of these only"},
		{"columns: [{name: a, categories: []}, {name: y}]\n" + label, "", "no categories"},
		{"columns: [{name: a, categories: [b, [c, b]]}, {name: y}]\n" + label, "", `"b" is named twice`},
		{"columns: [{bounds: [0, 1]}, {name: y}]\n" + label, "", "no name"},
		{"columns: [{name: a, bounds: [0, 1]}, {name: a, ignore: true}, {name: y}]\n" + label, "", "listed twice"},
		{"columns: [{name: y}]\n" + label, "", "no column is a feature"},
		{"header: none\ncolumns: [{name: a, bounds: [0, 1]}]\n" + label, "", "not among the columns"},
		{"columns: [{name: a, bounds: [0, 1]}]\n", "", "it has no label: add label"},
		{"columns: [{name: a, mean: 1, sd: 1}, {name: y}]\n" + label, "", "mean and sd are of numbers: give it bounds"},
		{"columns: [{name: a, categories: [b, c], sd: 1}, {name: y}]\n" + label, "", "mean and sd are of numbers"},
		{"columns: [{name: a, bounds: [0, 1], mean: 0.5}, {name: y}]\n" + label, "", "without sd"},
		{"columns: [{name: a, bounds: [0, 1], mean: 2, sd: 1}, {name: y}]\n" + label, "", "within the bounds"},
		{"columns: [{name: a, bounds: [0, 1], sd: -1}, {name: y}]\n" + label, "", "above 0"},
		{"columns: [{name: a, bounds: [0, 1], sd: .inf}, {name: y}]\n" + label, "", "above 0"},
		{"columns: [{name: a, bounds: [0, 1], sd: 1e-40}, {name: y}]\n" + label, "", "too small"},
		{"columns: [{name: a, by_file: [0, 1]}, {name: y}]\n" + label, "", "by_file has 2 values"},
		{"also: [b.csv]\ncolumns: [{name: a, by_file: [0, 2]}, {name: y}]\n" + label, "", "in [0, 1]"},
		{"columns: [{name: a, by_file: [0.5], bounds: [0, 1]}, {name: y}]\n" + label, "", "one of these only"},
		{"columns: [{name: a, bounds: [0, 1]}, {name: b, only: [c, c]}, {name: y}]\n" + label, "", "named twice"},
		{plain + "also: ['']\n", "", "without a name"},
		{plain + "also: [b.csv]\ntest: c.csv\n", "", "test_share"},
		{plain + "header: maybe\n", "", `"maybe"`},
		{plain + "separator: ''\n", "", "separator"},
		{plain + "separator: ';,'\nheader: none\n", "", "only a header says"},
		{plain + "skip: -1\n", "", "skip -1"},
		{plain + "test_share: 1\n", "", "test_share 1"},
		{plain + "test_share: 0.5\ntest: t.csv\n", "", "give one"},
		{plain + "test_is_public: true\n", "", "without test records"},
		{plain + "test: nowhere.csv\n", "a,b,y\n", "nowhere.csv does not exist"},
		{plain, "", `no column "a"`},
		{plain, "a,secret,y\n", `no column "b"`},
		{plain, "1,secret,0\n", `no column`},
		{plain, "a,b,y,a\n", `"a" twice`},
		{plain, "a;b;y;secret\n", `write separator: ";" in the schema`},
		{plain, "a;\"b,y\n", `no column "a"`},
		{strings.NewReplacer(", {name: y}", "", "column: y", "column: LABEL").Replace(plain), "a,b,y\n", "replace LABEL in the schema by the column to predict"},
		{plain, "\xff\xfea\x00,\x00b\x00", "save it in UTF-8"},
	} {
		dir := t.TempDir()
		path := write(t, dir, "t.csv", c.text)
		write(t, dir, "t.csv.schema.yaml", c.schema)
		for what, err := range map[string]error{"open": third(Open(path, Options{})), "verify": third(Verify(path, ""))} {
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%s: schema %q, text %q: %v, want %q", what, c.schema, c.text, err, c.want)
			}
		}
	}
	dir := t.TempDir()
	path := write(t, dir, "t.csv", "a\n")
	for _, c := range []struct{ path, schema, want string }{
		{path, "", "t.csv has no schema"},
		{path, "nowhere.yaml", "nowhere.yaml"},
		{filepath.Join(dir, "u.csv"), "", "u.csv does not exist"},
		{filepath.Join(dir, "u.csv"), "iris", "u.csv does not exist"},
		{dir, "iris", "not a regular file"},
		{write(t, dir, "v.csv.gz", "plain"), "iris", "not gzip data"},
	} {
		if _, err := Open(c.path, Options{Schema: c.schema}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s by %q: %v, want %q", c.path, c.schema, err, c.want)
		}
	}
}

func third[T any](_ T, err error) error { return err }

// many is a table of so many different records.
func many(n int, key string) string {
	var b strings.Builder
	b.WriteString("a,b,y\n")
	for i := range n {
		fmt.Fprintf(&b, "%v,%s,%d\n", float64(i)/float64(n), key, i%2)
	}
	return b.String()
}

// A record that is held out by its own text goes where it goes, whatever the other
// records are. Of 4,000 independent ones, the share is within 6.4 standard
// deviations but once in 10⁹.
func TestSplits(t *testing.T) {
	dir := t.TempDir()
	const n = 4000
	path := write(t, dir, "t.csv", many(n, "x"))
	write(t, dir, "t.csv.schema.yaml", plain+"test_share: 0.25\nsplit_key: one\ntest_is_public: true\n")
	near := func(what string, got int, share float64) {
		if d := math.Abs(float64(got) - n*share); d > 6.4*math.Sqrt(n*share*(1-share)) {
			t.Errorf("%s: %d of %d records, want a share of %v", what, got, n, share)
		}
	}
	set := open(t, path, Options{})
	near("test", set.Test.Len(), 0.25)
	if set.Train.Len()+set.Test.Len() != n || set.Share != 0.75 || !set.TestIsPublic {
		t.Errorf("%d and %d records, share %v, public %v", set.Train.Len(), set.Test.Len(), set.Share, set.TestIsPublic)
	}
	write(t, dir, "other.yaml", plain+"test_share: 0.25\nsplit_key: two\ntest_is_public: true\n")
	if other := open(t, path, Options{Schema: filepath.Join(dir, "other.yaml")}); slices.Equal(other.Test.Values, set.Test.Values) || other.Reading == set.Reading {
		t.Error("another key makes the same split")
	}
	// Without its first record, and with one more at the front, the rest stays.
	lines := strings.SplitAfter(many(n, "x"), "\n")
	for _, text := range []string{lines[0] + strings.Join(lines[2:], ""), lines[0] + "garbage,\"\n" + strings.Join(lines[1:], "")} {
		changed := open(t, write(t, dir, "u.csv", text), Options{Schema: path + suffix})
		if d := changed.Train.Len() - set.Train.Len() + changed.Test.Len() - set.Test.Len(); d != 1 && d != -1 {
			t.Fatalf("%d records came or went", d)
		}
		for what, m := range map[string][2][]float32{"training": {set.Train.Values, changed.Train.Values}, "test": {set.Test.Values, changed.Test.Values}} {
			a, b := m[0], m[1]
			if len(a) < len(b) {
				a, b = b, a
			}
			if len(a)-len(b) > 3 || !slices.Equal(a[len(a)-len(b):], b) {
				t.Errorf("one record at the front moved others of the %s split", what)
			}
		}
	}

	held := 0
	for fold := 1; fold <= 5; fold++ {
		set := open(t, path, Options{Folds: 5, Fold: fold})
		near("fold", set.Test.Len(), 0.2)
		held += set.Test.Len()
		if set.Train.Len()+set.Test.Len() != n || set.TestIsPublic || math.Abs(set.Share-0.8) > 1e-12 {
			t.Errorf("fold %d: %d and %d records, share %v, public %v", fold, set.Train.Len(), set.Test.Len(), set.Share, set.TestIsPublic)
		}
	}
	if held != n {
		t.Errorf("the folds hold %d records out, want each once", held)
	}
	// A test file's records join the folds.
	write(t, dir, "more.csv", many(n, "y"))
	write(t, dir, "t.csv.schema.yaml", plain+"test: more.csv\n")
	if set := open(t, path, Options{}); set.Train.Len() != n || set.Test.Len() != n || set.Share != 1 || set.TestIsPublic {
		t.Errorf("with a test file: %d and %d records, share %v, public %v", set.Train.Len(), set.Test.Len(), set.Share, set.TestIsPublic)
	}
	if set := open(t, path, Options{Folds: 2, Fold: 1}); set.Train.Len()+set.Test.Len() != 2*n || math.Abs(float64(set.Test.Len())-n) > 6.4*math.Sqrt(2*n/4.0) {
		t.Errorf("folds with a test file: %d and %d records", set.Train.Len(), set.Test.Len())
	}
}

// inUnits compares a number's share of its bounds with the number in standard units; a missing one is the
// lower bound in one and the mean in the other.
func inUnits(c Column, share, units float32) bool {
	x := c.Bounds.low() + float64(share)*(c.Bounds.high()-c.Bounds.low())
	return math.Abs(float64(units)-(x-c.Mean)/c.SD) < 1e-4 || share == 0 && units == 0
}

// Whatever the lines hold, a record is read by itself: a table is its records,
// one after the other.
func FuzzRecords(f *testing.F) {
	text, err := os.ReadFile("testdata/visits.csv")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte("\"\n\"\"\n;;;;\n1;\x00;\xff;\"a\"b\";\"\n5;yes;s.;\"\"\"\";1e999\n"))
	s := &Schema{}
	if text, err := os.ReadFile("testdata/visits.csv.schema.yaml"); err != nil {
		f.Fatal(err)
	} else if s, err = parse(text); err != nil {
		f.Fatal(err)
	}
	s.Comment = "#"
	// The same with all that a schema can say besides.
	more := *s
	more.DropFirst, more.Also = true, []string{"more.csv"}
	more.Columns = append(slices.Clone(s.Columns), Column{Name: "from", ByFile: []float64{0, 1}})
	for i := range more.Columns {
		if c := &more.Columns[i]; c.Bounds != nil {
			c.Mean, c.SD = c.Bounds.low()+1, 0.25
		}
	}
	dated := *s
	dated.Columns = slices.Clone(s.Columns)
	dated.Columns[2] = Column{Name: "note", Kind: dates, Bounds: bounds{{at: 17000, is: isDay}, {at: 19000, is: isDay}}, Missing: &point{at: 18000, is: isDay}}
	f.Add([]byte("5;yes;s.;2019-01-31T10:00;1\n5;yes;s.;2019-02-30;1\n5;yes;s.;0000-01-01 0:00;1\n"))
	const header = "age;back;ward;note;temperature\n"
	f.Fuzz(func(t *testing.T, body []byte) {
		read := func(s *Schema, body []byte) datasets.Split {
			m := s.empty()
			if _, err := s.decode(append([]byte(header), body...), len(s.Also), func([]byte) *datasets.Split { return &m }); err != nil {
				t.Fatalf("records made an error: %v", err)
			}
			return m
		}
		all, other := read(s, body), read(&more, body)
		if len(all.Values) != 5*all.Len() {
			t.Fatalf("%d values in %d records", len(all.Values), all.Len())
		}
		for i, l := range all.Labels {
			r := all.Values[5*i:]
			numbers := r[0] >= 0 && r[0] <= 1 && r[4] >= 0 && r[4] <= 1
			// A number is the same in other units, a category the same without the first, and the file's value last.
			if o := other.Values[5*i:]; !slices.Equal(o[1:3], r[2:4]) || o[4] != 1 || !inUnits(more.Columns[0], r[0], o[0]) || !inUnits(more.Columns[3], r[4], o[3]) {
				t.Errorf("record %d is %v, and %v by the other schema", i, r[:5], o[:5])
			}
			if l > 1 && l != badLabel || !numbers || r[1]+r[2]+r[3] > 1 || r[1]*(1-r[1]) != 0 || r[2]*(1-r[2]) != 0 || r[3]*(1-r[3]) != 0 {
				t.Errorf("record %d is %v labelled %d", i, r[:5], l)
			}
		}
		if len(other.Values) != len(all.Values) || !bytes.Equal(other.Labels, all.Labels) {
			t.Fatal("the other schema reads other records")
		}
		withDates := read(&dated, body)
		for i := range withDates.Labels {
			if day := withDates.Values[6*i+4]; !(day >= 0 && day <= 1) {
				t.Errorf("record %d has the date %v", i, day)
			}
		}
		for s, all := range map[*Schema]datasets.Split{s: all, &dated: withDates} {
			var apart datasets.Split
			for line := range bytes.Lines(body) {
				m := read(s, line)
				apart.Values, apart.Labels = append(apart.Values, m.Values...), append(apart.Labels, m.Labels...)
			}
			if !slices.Equal(apart.Values, all.Values) || !bytes.Equal(apart.Labels, all.Labels) {
				t.Error("a record's neighbours changed it")
			}
		}
	})
}

// The schemas that are built in are sound, and as wide as published work says
// where it says so (Zhang et al. 2017, table 2, with the intercept or, of bank and wine, without;
// Chen and Lee 2020, table 1, with the intercept).
func TestSchemas(t *testing.T) {
	width := map[string]int{
		"adult": 108, "bank": 51, "breast-cancer": 30, "credit-card": 34 - 1, "bike-sharing": 62 - 1, "iris": 4, "wine-red": 11, "wine-white": 11,
		"wine": 12, "ipums-br": 53 - 1, "bank-agd": 33 - 1, "kdd99-sf": 3 + 70,
	}
	dropped := map[string]int{"adult": 8, "bank": 51 - 42, "credit-card": 3, "bike-sharing": 8, "kdd99-sf": 1}
	for _, k := range Schemas() {
		s, err := k.Schema()
		if err != nil {
			t.Error(err)
			continue
		}
		if got := s.Width(); got != width[k.Name] || len(s.Features()) != got {
			t.Errorf("%s is %d wide with %d names, want %d", k.Name, got, len(s.Features()), width[k.Name])
		}
		if (s.Test != "") != (k.TestRecords > 0) || !s.TestIsPublic {
			t.Errorf("%s: test file %q of %d records, public %v", k.Name, s.Test, k.TestRecords, s.TestIsPublic)
		}
		if s.DropFirst = true; s.Width() != width[k.Name]-dropped[k.Name] || len(s.Features()) != s.Width() {
			t.Errorf("%s is %d wide with %d names without first categories, want %d", k.Name, s.Width(), len(s.Features()), width[k.Name]-dropped[k.Name])
		}
	}
	// Two lines of each form of Adult.
	dir := t.TempDir()
	path := write(t, dir, "adult.data", "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, 2174, 0, 40, United-States, <=50K\n\n")
	write(t, dir, "adult.test", "|1x3 Cross validator\n25, ?, 226802, 11th, 7, Never-married, ?, Own-child, Black, Male, 0, 0, 40, United-States, >50K.\n")
	set := open(t, path, Options{})
	if !set.Published || !set.TestIsPublic || set.Name != "adult" || set.PublicN != 32561 || set.Train.Len() != 1 || set.Test.Len() != 1 || set.Train.Labels[0] != 0 || set.Test.Labels[0] != 1 {
		t.Errorf("Adult is %+v", set)
	}
	on := 0
	for _, v := range set.Test.Values {
		if v == 1 {
			on++
		}
	}
	if on != 8 {
		t.Errorf("%d categories of Adult's 8 are set", on)
	}
	folds := Options{Folds: 10, Fold: 3}
	set = open(t, path, folds)
	if set.PublicN != 43957 { // ⌊48,842·9/10⌋
		t.Errorf("nine folds of Adult have N = %d", set.PublicN)
	}
}

// Where the published files are at hand, every record of them is understood.
func TestPublishedFiles(t *testing.T) {
	dir := os.Getenv("PRIVGRAD_DATA")
	for _, k := range Schemas() {
		path := filepath.Join(dir, k.File)
		if _, err := datasets.ReadFile(path); dir == "" || err != nil {
			continue
		}
		r, err := Verify(path, k.Name)
		if err != nil {
			t.Error(err)
			continue
		}
		records := 0
		for _, c := range r.Private.Files {
			records += c.Records.Records
		}
		if whole := records == k.Records+k.TestRecords; k.Digest != "" && whole != *r.Private.Published {
			t.Errorf("%s is known by its records: %v, with %d of them", k.Name, *r.Private.Published, records)
		}
		for _, c := range r.Private.Files {
			if c.Malformed.Count+c.Unreadable()+c.Unknown()+c.BadLabels() > 0 {
				t.Errorf("%s: %s: %+v", k.Name, c.Name, *c.Records)
			}
		}
	}
}
