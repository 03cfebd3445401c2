package plan

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/internal/device/reference"
	"github.com/privgrad/privgrad/internal/source"
	"github.com/privgrad/privgrad/internal/usage"
)

// A table in the form of a published one is that one by word, not by its records.
func TestPublishedTableByWord(t *testing.T) {
	t.Chdir(t.TempDir())
	lines := []string{"5.1,3.5,1.4,0.2,0", "7.0,3.2,4.7,1.4,1", "6.3,3.3,6.0,2.5,2"}
	for _, rows := range []int{0, 1, 3} {
		text := strings.Join(append([]string{"150,4,setosa,versicolor,virginica"}, lines[:rows]...), "\n")
		check(t, os.WriteFile("iris.csv", []byte(text), 0o644))
		c := config.Default()
		c.Data, c.NoiseMultiplier, c.Steps = source.TablePrefix+"iris.csv", ptr(1.0), ptr(1)
		if _, err := Resolve(c, Options{}); err == nil || !strings.Contains(err.Error(), "--published-set") {
			t.Errorf("%d records: %v", rows, err)
		}
		c.PublishedSet = true
		p, err := Resolve(c, Options{})
		check(t, err)
		if p.PublicN != 120 || !p.Set.TestIsPublic || *p.Config.Delta != defaultDelta { // a fifth of 150 is held out
			t.Errorf("%d records: N = %d, test records are public: %v", rows, p.PublicN, p.Set.TestIsPublic)
		}
	}
}

// What is built in needs no word, and takes none for other files.
func TestBuiltInTakesNoDeclaration(t *testing.T) {
	for want, change := range map[string]func(*config.Config){
		"data-dir mine": func(c *config.Config) { c.DataDir = "mine" },
		"leave out --published-set and --test-is-public":  func(c *config.Config) { c.PublishedSet = true },
		"built in, and known to be the published one: le": func(c *config.Config) { c.TestIsPublic = true },
	} {
		c := small()
		change(&c)
		if _, err := Resolve(c, Options{Sources: sources(made(1, 400))}); !errors.As(err, new(*usage.Error)) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// A path of data leads where the system finds it: through a link before it goes up.
func TestPathsOfData(t *testing.T) {
	here, err := filepath.EvalSymlinks(t.TempDir())
	check(t, err)
	t.Setenv(config.DataDirVariable, "")
	t.Chdir(here)
	check(t, os.MkdirAll("elsewhere/deep", 0o755))
	if err := os.Symlink("elsewhere/deep", "link"); err != nil {
		t.Skip(err)
	}
	for _, name := range []string{"t.csv", "elsewhere/t.csv"} {
		check(t, os.WriteFile(name, nil, 0o644))
	}
	for _, c := range []struct{ data, dataDir, want string }{
		{"t.csv", "", "t.csv"}, {"missing/../t.csv", "", "t.csv"}, {"./t.csv", "", "t.csv"}, {"link/../t.csv", "", "elsewhere/t.csv"},
		{"t.csv", "link/..", "elsewhere/t.csv"}, {"t.csv", "missing/../elsewhere/", "elsewhere/t.csv"}, {"../t.csv", "link", "elsewhere/t.csv"},
		{filepath.Join(here, "link") + "/../t.csv", "", "elsewhere/t.csv"},
	} {
		of := config.Config{Data: source.TablePrefix + c.data, DataDir: c.dataDir}
		if got, err := source.Path(&of); got != filepath.Join(here, c.want) || err != nil {
			t.Errorf("%s in %q leads to %s (%v)", c.data, c.dataDir, got, err)
		}
	}
}

// A relative path is one from the directory that the configuration keeps, so that it
// means the same elsewhere.
func TestPathsAreKept(t *testing.T) {
	here := t.TempDir()
	t.Setenv(config.DataDirVariable, "")
	t.Chdir(here)
	makeTable(t, "")
	kept := func(c config.Config) string {
		t.Helper()
		p, err := Resolve(c, Options{})
		check(t, err)
		return p.Config.DataDir
	}
	c := tableConfig()
	if dir := kept(c); dir != here {
		t.Errorf("of the working directory %s was kept: %s", here, dir)
	}
	away := t.TempDir()
	t.Chdir(away)
	c.DataDir = here
	if dir := kept(c); dir != here {
		t.Errorf("of --data-dir %s was kept: %s", here, dir)
	}
	c.DataDir, _ = filepath.Rel(away, here)
	if dir := kept(c); dir != here {
		t.Errorf("of --data-dir %s was kept: %s", c.DataDir, dir)
	}
	c.DataDir = ""
	t.Setenv(config.DataDirVariable, here)
	if dir := kept(c); dir != here {
		t.Errorf("of %s=%s was kept: %s", config.DataDirVariable, here, dir)
	}
	check(t, os.Mkdir(filepath.Join(here, "tabular"), 0o755))
	for _, name := range []string{"t.csv", "t.csv.schema.yaml"} {
		check(t, os.Rename(filepath.Join(here, name), filepath.Join(here, "tabular", name)))
	}
	if dir := kept(c); dir != here {
		t.Errorf("of a folder for tables in %s was kept: %s", here, dir)
	}
	c.DataDir, c.Data = "mine", source.TablePrefix+filepath.Join(here, "tabular", "t.csv")
	if _, err := Resolve(c, Options{}); !errors.As(err, new(*usage.Error)) || !strings.Contains(err.Error(), "data-dir mine") {
		t.Errorf("a directory beside a whole path: %v", err)
	}
	c.DataDir = ""
	if dir := kept(c); dir != "" {
		t.Errorf("of a whole path %s was kept", dir)
	}
}

// One class against the rest, by name or number, of images and tables, before or after
// other classes are left out.
func TestPositive(t *testing.T) {
	labels := func(change func(*config.Config)) []int {
		t.Helper()
		c := small()
		c.Classes = nil
		change(&c)
		set, _, err := source.OpenData(&c, sources(made(1, 400)))
		check(t, err)
		if set.Classes != 2 || set.PublicN != set.PerClass[0]+set.PerClass[1] {
			t.Errorf("classes %v of %v, N %d", set.ClassNames, set.PerClass, set.PublicN)
		}
		counts := make([]int, 2)
		for _, l := range set.Train.Labels {
			counts[l]++
		}
		return append(counts, set.PublicN)
	}
	for name, test := range map[string]struct {
		change func(*config.Config)
		want   []int
	}{
		"name":      {func(c *config.Config) { c.Positive = "c" }, []int{300, 100, 400}},
		"number":    {func(c *config.Config) { c.Positive = "2" }, []int{300, 100, 400}},
		"of others": {func(c *config.Config) { c.Positive, c.Classes = "2", []int{3, 2, 0} }, []int{200, 100, 300}},
	} {
		if got := labels(test.change); !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
	t.Chdir(t.TempDir())
	for want, test := range map[string]struct{ schema, positive string }{
		"":                  {"", "1"},
		"no such class":     {"", "2"},
		"no such class; ch": {"", "-1"},
	} {
		makeTable(t, test.schema)
		c := tableConfig()
		c.Positive = test.positive
		set, _, err := source.OpenData(&c, nil)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("positive %s of a table: %v, want %q", test.positive, err, want)
		}
		if err == nil && set.ClassNames[1] != "1" {
			t.Errorf("the classes are %v", set.ClassNames)
		}
	}
	for want, change := range map[string]func(*config.Config){
		"--classes leaves it out": func(c *config.Config) { c.Positive = "c" },
		"no such class":           func(c *config.Config) { c.Positive = "e" },
		"leave out --class-names": func(c *config.Config) { c.ClassNames = []string{"a", "b"} },
		"and --image-size":        func(c *config.Config) { c.ImageSize = "8x8" },
	} {
		c := small()
		change(&c)
		if _, err := Resolve(c, Options{Sources: sources(made(1, 400))}); !errors.As(err, new(*usage.Error)) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// Files in the layout of a published set without its test files are a user's own, and
// train; they are not the published set.
func TestWithoutTestFiles(t *testing.T) {
	set := made(1, 400)
	set.Published, set.Test, set.TestIsPublic = true, datasets.Split{}, false
	from := map[string]source.Source{"made": {Open: func(string) (*datasets.Set, error) { return set, nil }}}
	c := small()
	c.Classes, c.DataDir, c.PublicN, c.Delta = nil, "here", ptr(400), ptr(1e-5)
	c.Model = "logistic"
	p, err := Resolve(c, Options{Sources: from})
	check(t, err)
	if p.Set.TestIsPublic || !filepath.IsAbs(p.Config.DataDir) {
		t.Errorf("test records are public: %v; directory %s", p.Set.TestIsPublic, p.Config.DataDir)
	}
	for want, change := range map[string]func(*config.Config){
		"published-set true: the test files": func(c *config.Config) { c.PublishedSet = true },
		"test-is-public true: data set made": func(c *config.Config) { c.TestIsPublic = true },
	} {
		other := c
		change(&other)
		if _, err := Resolve(other, Options{Sources: from}); !errors.As(err, new(*usage.Error)) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// Every kind of own files has a command that checks it, with what the user declared of them.
func TestCheck(t *testing.T) {
	here, err := os.Getwd()
	check(t, err)
	for want, c := range map[string]config.Config{
		"privgrad data verify dir:p --class-names cat,dog --image-size 3x8x8":               {Data: "dir:p", ClassNames: []string{"cat", "dog"}, ImageSize: "3x8x8", DataDir: here},
		"privgrad data verify 'npz:my file.npz' --class-names 'a b,c'":                      {Data: "npz:my file.npz", ClassNames: []string{"a b", "c"}, DataDir: here},
		"privgrad data verify shards:s --class-names 0,1 --image-size 64 --data-dir /there": {Data: "shards:s", ClassNames: []string{"0", "1"}, ImageSize: "64", DataDir: "/there"},
		"privgrad data verify csv:t.csv --schema s.yaml":                                    {Data: "csv:t.csv", Schema: "s.yaml", DataDir: here},
		"privgrad data verify mnist --data-dir /there":                                      {Data: "mnist", DataDir: "/there"},
		"": {Data: "fmnist"},
	} {
		if got := source.CheckCommand(&c); got != want {
			t.Errorf("%s is checked by %q, want %q", c.Data, got, want)
		}
	}
}

// A public number that contradicts a published one is refused, with that; the same is none.
func TestPublishedNumber(t *testing.T) {
	open := func(c config.Config) error {
		_, err := Resolve(c, Options{Sources: sources(made(1, 40)), Device: reference.Open()})
		return err
	}
	c := small() // two classes of four, of 100 records each
	for n, refused := range map[int]bool{200: false, 199: true, 201: true, 400: true, 50000: true} {
		c.PublicN = &n
		if err := open(c); (err != nil) != refused || refused && !strings.Contains(err.Error(), fmt.Sprintf("public-n %d: data set made has 200 training records of these classes, a published number: leave --public-n out", n)) {
			t.Errorf("%d: %v", n, err)
		}
	}
	c.Classes = nil
	for n, refused := range map[int]bool{200: true, 400: false} {
		if c.PublicN = &n; (open(c) != nil) != refused {
			t.Errorf("%d of all classes: %v", n, open(c))
		}
	}
	c.Optimizer = "rrpsgd" // whose rounds are over the first records
	for n, refused := range map[int]bool{300: false, 401: true} {
		c.PublicN = &n
		p := &Plan{Config: c, Set: &datasets.Set{PublicN: 400}, PublicN: n}
		if err := p.checkPublished(); (err != nil) != refused {
			t.Errorf("rounds over %d of 400 records: %v", n, err)
		}
	}
}

// So it is with files that are said to be the published ones, and with a part of a published table.
func TestPublishedNumberOfFiles(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, folds := range []int{0, 5} {
		c := tableConfig()
		c.Data, c.PublishedSet, c.Batch, c.Folds, c.Fold = source.TablePrefix+"iris.csv", true, ptr(20.0), folds, min(folds, 1)
		for _, n := range []*int{nil, ptr(150), ptr(100)} {
			c.PublicN = n
			if _, err := Resolve(c, Options{Facts: true, Device: reference.Open()}); (err != nil) != (n != nil && *n == 100) || err != nil && !strings.Contains(err.Error(), "public-n 100") {
				t.Errorf("%d folds: %v", folds, err)
			}
		}
	}
	for n, refused := range map[int]bool{60000: false, 59999: true} {
		c := small()
		c.Data, c.DataDir, c.Classes, c.PublishedSet, c.PublicN, c.Model = "mnist", "here", nil, true, &n, "logistic"
		if _, err := Resolve(c, Options{Sources: source.Sources(), Facts: true, Device: reference.Open()}); (err != nil) != refused {
			t.Errorf("%d of mnist: %v", n, err)
		}
		c.PublishedSet, c.Delta = false, ptr(1e-6)
		if _, err := Resolve(c, Options{Sources: source.Sources(), Facts: true, Device: reference.Open()}); err != nil {
			t.Errorf("%d of files of that name: %v", n, err)
		}
	}
}

// A count that was asked for on purpose, and that is none of the run's, is not left out without a word.
func TestCountWithoutUse(t *testing.T) {
	for text, want := range map[string]bool{"count_records: true\n": true, "": false, "count_records: false\n": false} {
		c := small()
		check(t, config.Parse([]byte("data: made\n"+text), "c.yaml", &c))
		p, err := Resolve(c, Options{Sources: sources(made(1, 40)), Device: reference.Open()})
		check(t, err)
		if got := slices.ContainsFunc(p.Warnings, func(w string) bool { return strings.Contains(w, "no count is made") }); got != want || p.Count != nil {
			t.Errorf("%q warns: %v; counts: %v", text, got, p.Count != nil)
		}
	}
}
