package shards

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/datasets"
)

// draw is a set of so many training records of a form.
func draw(n int, shape [3]int, floats, regression bool) *datasets.Set {
	r := rand.New(rand.NewPCG(uint64(n), 7))
	fill := func(n int) datasets.Split {
		m := datasets.Split{Shape: shape, Unit: floats}
		width := shape[0] * shape[1] * shape[2]
		if floats {
			m.Values = make([]float32, n*width)
		} else {
			m.Features = make([]uint8, n*width)
		}
		for i := range n * width {
			if floats {
				m.Values[i] = math.Float32frombits(r.Uint32()) // infinities and NaN among them
			} else {
				m.Features[i] = uint8(r.Uint32())
			}
		}
		for range n {
			if regression {
				m.Targets = append(m.Targets, r.Float32())
			} else {
				m.Labels = append(m.Labels, uint8(r.Uint32())) // most are no class
			}
		}
		return m
	}
	set := &datasets.Set{Name: "drawn", Train: fill(n), Test: fill(5), Share: 0.75, Moves: true}
	if !regression {
		set.Classes, set.ClassNames = 2, []string{"a", "b"}
	}
	return set
}

// write writes a set in blocks of so many records.
func write(t testing.TB, set *datasets.Set, publicN, shards, block int) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "set")
	w, err := Create(dir, set, publicN, shards)
	check(t, err)
	n := set.Train.Len()
	for rank := range (n + block - 1) / block {
		part, err := set.Take(datasets.Rank{Rank: rank, Of: (n + block - 1) / block})
		check(t, err)
		check(t, w.Train(part.Train))
	}
	check(t, w.Test(set.Test))
	check(t, w.Close())
	return dir
}

// equal compares splits bit by bit.
func equal(a, b datasets.Split) bool {
	bits := func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) }
	return a.Shape == b.Shape && a.Unit == b.Unit && slices.Equal(a.Features, b.Features) && slices.EqualFunc(a.Values, b.Values, bits) &&
		slices.Equal(a.Labels, b.Labels) && slices.EqualFunc(a.Targets, b.Targets, bits)
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// What was written comes back bit by bit, whatever the form of records, the number of shards and of
// ranks, and the public size; so do shards without a record and those that share a page.
func TestRoundTrip(t *testing.T) {
	for i, c := range []struct {
		n, publicN, shards, block  int
		shape                      [3]int
		floats, regression, noTest bool
	}{
		{n: 1000, publicN: 1000, shards: 3, block: 7, shape: [3]int{1, 28, 28}},
		{n: 700, publicN: 640, shards: 5, block: 700, shape: [3]int{1, 1, 123}, floats: true},
		{n: 50, publicN: 1000, shards: 8, block: 3, shape: [3]int{1, 1, 3}, floats: true, regression: true},
		{n: 9, publicN: 9, shards: 9, block: 1, shape: [3]int{3, 1, 1}, regression: true},
		{n: 0, publicN: 10, shards: 2, block: 1, shape: [3]int{1, 1, 2}, floats: true},
		{n: 300, publicN: 300, shards: 1, block: 11, shape: [3]int{2, 5, 7}, noTest: true},
		{n: 128, publicN: 128, shards: 4, block: 128, shape: [3]int{1, 32, 32}}, // whole pages
	} {
		set := draw(c.n, c.shape, c.floats, c.regression)
		if c.noTest {
			set.Test = datasets.Split{}
		}
		dir := write(t, set, c.publicN, c.shards, c.block)
		for ranks := range 9 {
			n := 0
			for rank := range max(ranks, 1) {
				got, err := open(dir, datasets.Declared{Rank: datasets.Rank{Rank: rank, Of: ranks}})
				if err != nil {
					t.Fatalf("case %d: %v", i, err)
				}
				want := set.Train
				if count := got.Train.Len(); ranks > 1 {
					want = datasets.Split{Shape: c.shape, Unit: c.floats}
					width := c.shape[0] * c.shape[1] * c.shape[2]
					if c.floats {
						want.Values = set.Train.Values[n*width : (n+count)*width]
					} else {
						want.Features = set.Train.Features[n*width : (n+count)*width]
					}
					if c.regression {
						want.Targets = set.Train.Targets[n : n+count]
					} else {
						want.Labels = set.Train.Labels[n : n+count]
					}
				}
				n += got.Train.Len()
				if !equal(got.Train, want) || !equal(got.Test, set.Test) {
					t.Errorf("case %d: rank %d of %d has other records than were written", i, rank, ranks)
				}
				if got.Name != set.Name || got.Classes != set.Classes || got.Share != set.Share || !got.Moves || got.Published {
					t.Errorf("case %d: the set is %+v", i, got)
				}
			}
			if n != c.n {
				t.Errorf("case %d: %d ranks have %d of %d records", i, ranks, n, c.n)
			}
		}
	}
}

// Whoever holds records in memory, or moves them, learns where they lie.
func TestMapped(t *testing.T) {
	for _, set := range []*datasets.Set{draw(60, [3]int{1, 2, 2}, false, false), draw(60, [3]int{1, 1, 6}, true, false)} {
		dir := write(t, set, 60, 2, 30)
		got, err := open(dir, datasets.Declared{})
		check(t, err)
		told, err := facts(dir, datasets.Declared{})
		check(t, err)
		inFiles := mapped && (little || set.Train.Values == nil)
		for what, m := range map[string]datasets.Split{"training": got.Train, "test": got.Test, "one class's": got.Against(1).Train} {
			if m.Mapped != inFiles {
				t.Errorf("%s records lie in files: %v, want %v", what, m.Mapped, inFiles)
			}
		}
		if told.Train.Mapped != mapped {
			t.Errorf("before they are read, records are said to lie in files: %v", told.Train.Mapped)
		}
	}
}

// Mapped rows and copied ones are the same, also where files are in an order that cannot be mapped without
// a gap.
func TestMappedIsCopied(t *testing.T) {
	dir := write(t, draw(500, [3]int{1, 1, 129}, true, false), 500, 4, 100)
	x, err := readIndex(dir)
	check(t, err)
	for _, order := range [][]int{{0, 1, 2, 3}, {1, 2}, {3}, {2, 0}, {}} {
		var spans []span
		for _, i := range order {
			s, err := x.span(filepath.Join(dir, x.Shards[i]), uint64(i))
			check(t, err)
			defer s.file.Close()
			spans = append(spans, s)
		}
		got, inFiles, err := load(spans)
		check(t, err)
		want, err := copied(spans)
		check(t, err)
		if !slices.Equal(got, want) || len(got) != len(order)*125*129*4 {
			t.Errorf("shards %v: %d mapped bytes differ from %d copied ones", order, len(got), len(want))
		}
		if want := mapped && !slices.Equal(order, []int{2, 0}); inFiles != want { // these leave a gap
			t.Errorf("shards %v: rows lie in files: %v", order, inFiles)
		}
	}
}

// Two sets that differ in one record, or in how many there are, have the same index and the same names of
// files; files are their owner's alone.
func TestIndexIsPublic(t *testing.T) {
	var texts []string
	for _, n := range []int{0, 90, 91, 500} {
		set := draw(n, [3]int{1, 1, 6}, true, false)
		if n == 0 {
			set.Train.Values, set.Train.Labels = nil, nil // as a table without records has them
		}
		dir := write(t, set, 90, 4, 50)
		text, err := os.ReadFile(filepath.Join(dir, indexName))
		check(t, err)
		names := ""
		entries, err := os.ReadDir(dir)
		check(t, err)
		for _, e := range entries {
			info, err := e.Info()
			check(t, err)
			if names += e.Name() + " "; info.Mode().Perm() != 0o600 {
				t.Errorf("%s has mode %v", e.Name(), info.Mode())
			}
		}
		texts = append(texts, string(text)+names)
	}
	if texts[0] != texts[1] || texts[0] != texts[2] || texts[0] != texts[3] {
		t.Errorf("what is public depends on the records: %q", texts)
	}
}

// A file that is not the shard it should be is refused, and no message has a number of records or a length.
func TestRefusesDamage(t *testing.T) {
	set := draw(400, [3]int{1, 1, 6}, true, false)
	other := write(t, draw(400, [3]int{1, 1, 6}, false, false), 400, 2, 400)
	for name, damage := range map[string]func(dir string) error{
		"cut off":          func(dir string) error { return os.Truncate(filepath.Join(dir, "train-00001.shard"), grain+3000) },
		"is no shard":      func(dir string) error { return os.Truncate(filepath.Join(dir, "train-00001.shard"), 20) },
		"is damaged, or":   func(dir string) error { return os.WriteFile(filepath.Join(dir, indexName), []byte("{"), 0o600) },
		"is not there":     func(dir string) error { return os.Remove(filepath.Join(dir, "train-00001.shard")) },
		"there is no inde": func(dir string) error { return os.Remove(filepath.Join(dir, indexName)) },
		"another number": func(dir string) error {
			return os.Rename(filepath.Join(dir, "train-00000.shard"), filepath.Join(dir, "train-00001.shard"))
		},
		"another form": func(dir string) error {
			return os.Rename(filepath.Join(other, "train-00000.shard"), filepath.Join(dir, "train-00000.shard"))
		},
		"which is no name":   func(dir string) error { return edit(dir, `"train-00001.shard"`, `"../x"`) },
		"format version 2":   func(dir string) error { return edit(dir, `"format_version": 1`, `"format_version": 2`) },
		"records of shape":   func(dir string) error { return edit(dir, "6\n", "0\n") },
		"and 1 classes":      func(dir string) error { return edit(dir, `"a",`, "") },
		"sizes that are":     func(dir string) error { return edit(dir, "0.75", "75") },
		"values of the form": func(dir string) error { return edit(dir, "floats", "doubles") },
		"are no bounds": func(dir string) error {
			return edit(dir, `"format_version": 1`, `"format_version": 1, "label_bounds": [5, 3]`)
		},
	} {
		dir := write(t, set, 400, 2, 400)
		if name == "another number" {
			if err := edit(dir, `"train-00000.shard",`, ""); err != nil { // the second is asked for as the first
				t.Fatal(err)
			}
		} else if err := damage(dir); err != nil {
			t.Fatal(err)
		}
		_, err := open(dir, datasets.Declared{})
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: the error is %v", name, err)
			continue
		}
		for _, private := range []string{"400", "200", fmt.Sprint(grain + 3000), "3000"} {
			if text := strings.ReplaceAll(err.Error(), dir, ""); strings.Contains(text, private) {
				t.Errorf("%s: %q tells %s", name, text, private)
			}
		}
	}
}

// The bounds of a regression's labels are kept. An index of other data says nothing of them, so that it reads as before.
func TestBounds(t *testing.T) {
	for _, bounds := range []datasets.Bounds{{}, {-20, 300}} {
		set := draw(10, [3]int{1, 1, 2}, true, true)
		set.Bounds = bounds
		dir := write(t, set, 10, 1, 10)
		got, err := open(dir, datasets.Declared{})
		if err != nil || got.Bounds != bounds {
			t.Errorf("bounds %v, %v; want %v", got.Bounds, err, bounds)
		}
		if text, err := os.ReadFile(filepath.Join(dir, indexName)); err != nil || strings.Contains(string(text), "label_bounds") != (bounds != datasets.Bounds{}) {
			t.Errorf("of bounds %v: %s, %v", bounds, text, err)
		}
	}
}

// An index that an earlier version wrote has no bounds: the schema in it does.
func TestBoundsOfTheSchema(t *testing.T) {
	for schema, want := range map[string]datasets.Bounds{
		"label: {column: y, bounds: [100, 500]}\n": {100, 500}, "label: {column: y, bounds: [5, 1]}\n": {}, "label: {column: y}\n": {}, "label: [\n": {}, "": {},
	} {
		set := draw(10, [3]int{1, 1, 2}, true, true)
		set.Schema = schema
		if got, err := open(write(t, set, 10, 1, 10), datasets.Declared{}); err != nil || got.Bounds != want {
			t.Errorf("%q: bounds %v, want %v (%v)", schema, got.Bounds, want, err)
		}
	}
}

func edit(dir, from, to string) error {
	path := filepath.Join(dir, indexName)
	text, err := os.ReadFile(path)
	if err == nil && !strings.Contains(string(text), from) {
		err = fmt.Errorf("the index has no %q", from)
	}
	if err == nil {
		err = os.WriteFile(path, []byte(strings.Replace(string(text), from, to, 1)), 0o600)
	}
	return err
}

// A set without an index is none, and nothing is written over.
func TestCreateRefuses(t *testing.T) {
	set, dir := draw(10, [3]int{1, 1, 2}, true, false), t.TempDir()
	for _, c := range []struct{ publicN, shards int }{{10, 0}, {10, Most + 1}, {0, 2}} {
		if _, err := Create(dir, set, c.publicN, c.shards); err == nil {
			t.Errorf("%+v is taken", c)
		}
	}
	w, err := Create(dir, set, 10, 2)
	check(t, err)
	if err := w.Train(draw(3, [3]int{1, 1, 2}, false, false).Train); err == nil {
		t.Error("bytes are taken among floats")
	}
	w.Abort()
	if _, err := open(dir, datasets.Declared{}); err == nil {
		t.Error("a set that was not written to its end is read")
	}
	if w, err = Create(dir, set, 10, 2); err != nil { // nothing was left behind
		t.Fatal(err)
	}
	if _, err := Create(dir, set, 10, 2); err == nil {
		t.Error("a folder that has files is written to")
	}
	check(t, w.Close())
	w.Abort()
	if got, err := open(dir, datasets.Declared{}); err != nil || got.Train.Len() != 0 {
		t.Errorf("a set without records is %+v, %v", got, err)
	}
}

// What is declared must be what the index says.
func TestDeclared(t *testing.T) {
	dir := write(t, draw(10, [3]int{1, 1, 2}, true, false), 10, 2, 10)
	for _, d := range []datasets.Declared{{Size: "1x1x3"}, {Size: "x"}, {Classes: []string{"b", "a"}}} {
		if _, err := facts(dir, d); err == nil {
			t.Errorf("%+v is taken", d)
		}
	}
	if _, err := facts(dir, datasets.Declared{Size: "2", Classes: []string{"a", "b"}}); err != nil {
		t.Error(err)
	}
	var reading, parts []string // the first identifies a run's data, however many files they are in, and the second these
	for _, shards := range []int{1, 4} {
		set, err := facts(write(t, draw(10, [3]int{1, 1, 2}, true, false), 10, shards, 10), datasets.Declared{})
		check(t, err)
		reading, parts = append(reading, set.Reading), append(parts, set.Parts)
	}
	if other, err := facts(write(t, draw(10, [3]int{1, 1, 2}, false, false), 10, 1, 10), datasets.Declared{}); err != nil || reading[0] != reading[1] || other.Reading == reading[0] {
		t.Errorf("of one and of four files %q, of another form %q, %v", reading, other.Reading, err)
	}
	if other, err := facts(write(t, draw(10, [3]int{1, 1, 2}, true, false), 20, 4, 10), datasets.Declared{}); err != nil || other.Parts == parts[1] {
		t.Errorf("files of another public size are %q, too, or %v", other.Parts, err)
	}
	if again, err := facts(write(t, draw(9, [3]int{1, 1, 2}, true, false), 10, 4, 10), datasets.Declared{}); err != nil || again.Parts != parts[1] || parts[0] == parts[1] {
		t.Errorf("files of the same names are %q and %q, of other names %q, %v", again.Parts, parts[1], parts[0], err)
	}
	r, err := verify(dir, datasets.Declared{})
	if err != nil || r.Structure != nil || r.Private.Counts[0].Train != 10 || r.Private.Counts[0].Test != 5 {
		t.Errorf("%+v, %v", r, err)
	}
}

// Shards say which set they were written from, without its path. Those that do not say it read as they did, and a run goes
// on from one to the other.
func TestSource(t *testing.T) {
	set := draw(20, [3]int{1, 1, 3}, true, false)
	old, err := facts(write(t, set, 20, 2, 20), datasets.Declared{})
	if err != nil || old.Source != "" {
		t.Fatalf("the source is %q: %v", old.Source, err)
	}
	for source, want := range map[string]string{"csv:t.csv": "csv:t.csv", "fmnist": "fmnist", "csv:/home/ann/t.csv": "csv:t.csv", "dir:../ann/images/": "dir:images"} {
		set.Source = source
		dir := write(t, set, 20, 2, 20)
		if index, err := os.ReadFile(filepath.Join(dir, indexName)); err != nil || strings.Contains(string(index), "ann") {
			t.Errorf("the index of %q tells where it lies: %s, %v", source, index, err)
		}
		for _, read := range []func(string, datasets.Declared) (*datasets.Set, error){facts, open} {
			got, err := read(dir, datasets.Declared{})
			check(t, err)
			if got.Source != want || got.Reading != old.Reading || got.Parts != old.Parts {
				t.Errorf("shards of %q have the source %q, and are read as %q, %q; without a source as %q, %q", source, got.Source, got.Reading, got.Parts, old.Reading, old.Parts)
			}
		}
	}
}
