package report

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"image/color"
	"image/png"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/train"
)

// made is a small image set: class k is bright in row k. Names of classes are hostile.
func made(testIsPublic bool) map[string]train.Source {
	draw := func(seed uint64, n int) datasets.Split {
		random := rand.New(rand.NewPCG(seed, 1))
		s := datasets.Split{Shape: [3]int{1, 4, 4}}
		for i := range n {
			s.Labels = append(s.Labels, uint8(i%4))
			for j := range 16 {
				s.Features = append(s.Features, uint8(random.IntN(120)+130*min(max(1-j/4+i%4, 0), 1)))
			}
		}
		return s
	}
	set := &datasets.Set{
		Name: "made", Classes: 4, ClassNames: []string{"a <b>", "b", "c|d", "`e`"}, Train: draw(1, 160), Test: draw(2, 40),
		PublicN: 160, PerClass: []int{40, 40, 40, 40}, TestIsPublic: testIsPublic,
	}
	return map[string]train.Source{"made": {BuiltIn: true, Open: func(string) (*datasets.Set, error) { return set, nil }}}
}

func ptr[T any](x T) *T { return &x }

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// short is a short private run on it.
func short() train.Config {
	c := train.Default()
	c.Data, c.Model, c.Device, c.Threads = "made", "logistic", "reference", 1
	c.Epsilon, c.Delta, c.Batch, c.Steps, c.EvalEvery, c.LR = ptr(3.0), ptr(1e-5), ptr(40.0), ptr(12), 3, ptr(0.5)
	return c
}

// once has the runs of the configuration as it is, by name, that a test has trained already.
var once = map[string]fstest.MapFS{}

// files are those of a directory.
func files(t *testing.T, dir string) fstest.MapFS {
	t.Helper()
	all := fstest.MapFS{}
	check(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		all[filepath.ToSlash(name)] = &fstest.MapFile{Data: []byte(read(t, path)), Mode: 0o644}
		return err
	}))
	return all
}

// trained trains into a directory of the test's, with a report.
func trained(t *testing.T, name string, change func(*train.Config)) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	if change == nil {
		if once[name] == nil {
			once[name] = files(t, trained(t, name, func(*train.Config) {}))
		}
		check(t, os.CopyFS(dir, once[name]))
		return dir
	}
	c := short()
	if change != nil {
		change(&c)
	}
	o := train.Options{Out: dir, Sources: made(!strings.Contains(name, "private test"))}
	Attach(c, &o)
	_, err := train.Run(context.Background(), c, o)
	check(t, err)
	return dir
}

func read(t *testing.T, elem ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(elem...))
	check(t, err)
	return string(b)
}

// edit replaces a text that must be in a file.
func edit(t *testing.T, path, from, to string) {
	t.Helper()
	text := read(t, path)
	if !strings.Contains(text, from) {
		t.Fatalf("%s has no %q:\n%s", path, from, text)
	}
	check(t, os.WriteFile(path, []byte(strings.Replace(text, from, to, 1)), 0o644))
}

// words is a page's text, each run of white space one space.
func words(page string) string {
	page = regexp.MustCompile(`(?s)<style>.*?</style>|<[^>]*>`).ReplaceAllString(page, " ")
	return strings.Join(strings.Fields(page), " ")
}

func TestReportOfARun(t *testing.T) {
	dir := trained(t, "run", nil)
	var r train.Result
	check(t, json.Unmarshal([]byte(read(t, dir, "result.json")), &r))
	for _, name := range []string{PageFile, CardFile, PictureFile} {
		if !slices.Contains(r.Released, name) || !rundir.Dir(dir).Has(name) {
			t.Errorf("%s is not both written and released: %v", name, r.Released)
		}
	}
	page, card := read(t, dir, PageFile), read(t, dir, CardFile)
	text := words(page)
	for _, want := range []string{
		"logistic on made", "ε 3", "δ 1e-05", "This run has a privacy guarantee.", "e ε = 20.1 times as likely with any one record as without it",
		"add-remove:", "pld: privacy loss distributions", "40 of 160 records (the public number) per step", "Confusion on the test data", "a &lt;b&gt;",
		r.Digests["model.safetensors"], "no setting was chosen by looking at the private data",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not say %q:\n%s", want, text)
		}
	}
	for _, want := range []string{"**ε = 3, δ = 1e-05, for one record.**", "| test accuracy | ", `a &lt;b&gt;, b, c\|d`, "## Intended use", "## Caveats", "TODO"} {
		if !strings.Contains(card, want) {
			t.Errorf("the card does not say %q:\n%s", want, card)
		}
	}
	for name, text := range map[string]string{"page": page, "card": card} {
		for _, bad := range []string{"<script", "http:", "https:", "src=", "url(", "a <b>", "<no value>", "ZgotmplZ", "%!", "0x"} {
			if strings.Contains(text, bad) {
				t.Errorf("the %s holds %q", name, bad)
			}
		}
	}
	// Every row of the matrix is of the ten test records of a class.
	last := lastEvaluation(t, dir)
	for class, row := range last.Confusion {
		sum := 0
		for _, n := range row {
			sum += n
		}
		if sum != 10 {
			t.Errorf("class %d has %d records", class, sum)
		}
	}
	if right := last.Confusion[0][0] + last.Confusion[1][1] + last.Confusion[2][2] + last.Confusion[3][3]; float64(right)/40 != *r.TestAccuracy {
		t.Errorf("%d of 40 are right, the accuracy is %v", right, *r.TestAccuracy)
	}
}

func lastEvaluation(t *testing.T, dir string) train.Measurement {
	t.Helper()
	all, err := rundir.ReadMetrics[train.Measurement](rundir.Dir(dir))
	check(t, err)
	return all[len(all)-1]
}

// A report is a function of released figures: those of time and memory, which no proof covers, leave
// nothing in it, and it can be made again.
func TestReportFollowsFromReleases(t *testing.T) {
	dir := trained(t, "run", nil)
	before := map[string]string{}
	for _, name := range []string{PageFile, CardFile, PictureFile} {
		before[name] = read(t, dir, name)
		check(t, os.Remove(filepath.Join(dir, name)))
	}
	path := filepath.Join(dir, "result.json")
	text := regexp.MustCompile(`"(seconds|examples_per_second|peak_rss_bytes)": [0-9.e+]+`).ReplaceAllString(read(t, path), `"$1": 777777777`)
	check(t, os.WriteFile(path, []byte(text), 0o644))
	check(t, os.MkdirAll(dir+".private", 0o700))
	check(t, os.WriteFile(filepath.Join(dir+".private", "diagnostics.jsonl"), []byte("{}"), 0o600))
	files, err := Write(dir)
	check(t, err)
	if len(files) != 3 {
		t.Errorf("written: %v", files)
	}
	for name, want := range before {
		if read(t, dir, name) != want {
			t.Errorf("%s is another one", name)
		}
	}
}

func TestReportWithoutAGuarantee(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*train.Config)
		want   []string
	}{
		"seeded": {func(c *train.Config) { c.Noise = "seeded" }, []string{"This run has no privacy guarantee.", "whoever knows the seed can subtract it", "Do not rely on it"}},
		"sgd":    {func(c *train.Config) { c.Optimizer, c.Epsilon, c.Delta = "sgd", nil, nil }, []string{"no privacy guarantee", "optimizer sgd", "steps"}},
		"silent": {func(c *train.Config) { c.Epsilon, c.NoiseMultiplier = nil, ptr(0.0) }, []string{"no noise was added", "infinite"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := trained(t, name, c.change)
			text := words(read(t, dir, PageFile))
			for _, want := range c.want {
				if !strings.Contains(text, want) {
					t.Errorf("the page does not say %q:\n%s", want, text)
				}
			}
			if strings.Contains(text, "has a privacy guarantee") || !strings.Contains(read(t, dir, CardFile), "**No privacy guarantee.**") {
				t.Errorf("a guarantee is promised:\n%s", text)
			}
		})
	}
}

// Who asked for ε = 1 reads of 1, and of what was computed beside it.
func TestReportOfTheAskedEpsilon(t *testing.T) {
	dir := trained(t, "asked", func(c *train.Config) { c.Epsilon = ptr(1.0) })
	var r train.Result
	check(t, json.Unmarshal([]byte(read(t, dir, rundir.Result)), &r))
	computed := *r.Epsilon
	if computed > 1 || computed < 0.99 {
		t.Fatalf("ε %v was computed for 1", computed)
	}
	for computed, want := range map[string]string{"0.999": "1 (computed: 0.999)", "0.5": "0.5"} {
		b := regexp.MustCompile(`"epsilon": [0-9.]+`).ReplaceAllString(read(t, dir, rundir.Result), `"epsilon": `+computed)
		check(t, os.WriteFile(filepath.Join(dir, rundir.Result), []byte(b), 0o644))
		_, err := Write(dir)
		check(t, err)
		v, err := Verify(dir)
		check(t, err)
		bound, _, _ := strings.Cut(want, " ")
		for _, c := range []struct{ where, text, want string }{
			{"page", read(t, dir, PageFile), "<dd>" + bound + "</dd>"},
			{"page", read(t, dir, PageFile), "<td>" + want + ", of the whole schedule</td>"},
			{"card", read(t, dir, CardFile), "**ε = " + want + ", δ = "},
			{"statement", v.Statement, "ε = " + want + ", δ = "},
		} {
			if !strings.Contains(c.text, c.want) {
				t.Errorf("%s: %q is missing in:\n%s", c.where, c.want, c.text)
			}
		}
	}
}

// blocked puts a directory in the place of files that a run is to write.
type blocked []string

func (b blocked) Evaluated(m train.Measurement) {
	for _, name := range b {
		_ = os.MkdirAll(filepath.Join(m.Run, name), 0o755)
	}
}

// Where the report cannot be written, the run is complete: it says so, lists what is there, and a report that is made later is listed
// then.
func TestReportThatCannotBeWritten(t *testing.T) {
	all := []string{PageFile, CardFile, PictureFile, EventsFile}
	for _, missing := range [][]string{{PageFile}, {CardFile}, {PictureFile}, {EventsFile}, all} {
		t.Run(missing[0], func(t *testing.T) {
			c := short()
			c.TensorBoard = true
			dir := filepath.Join(t.TempDir(), "run")
			o := train.Options{Out: dir, Sources: made(true), Watch: []train.Watcher{blocked(missing)}}
			Attach(c, &o)
			r, err := train.Run(context.Background(), c, o)
			if r == nil || !errors.Is(err, train.ErrReport) {
				t.Fatalf("a result %v, error %v", r != nil, err)
			}
			for _, want := range []string{"the run in " + dir + " is complete and saved, and its guarantee holds", "`privgrad report " + dir + "`", missing[0]} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is missing in %v", want, err)
				}
			}
			stored := func() []string {
				var r train.Result
				check(t, json.Unmarshal([]byte(read(t, dir, rundir.Result)), &r))
				for _, name := range r.Released {
					if info, err := os.Stat(filepath.Join(dir, name)); err != nil || slices.Contains(all, name) && !info.Mode().IsRegular() {
						t.Errorf("%s is listed, and no file", name)
					}
				}
				return r.Released
			}
			if !slices.Equal(stored(), r.Released) {
				t.Errorf("stored are %q, returned %q", stored(), r.Released)
			}
			for _, name := range all {
				if slices.Contains(r.Released, name) == slices.Contains(missing, name) {
					t.Errorf("%s is listed, or not: %q", name, r.Released)
				}
			}
			before := read(t, dir, rundir.Result)
			for _, name := range missing {
				check(t, os.Remove(filepath.Join(dir, name)))
			}
			_, err = Write(dir)
			check(t, err)
			now := stored()
			for _, name := range []string{PageFile, CardFile, PictureFile} {
				if !slices.Contains(now, name) {
					t.Errorf("%s was made, and is not listed: %q", name, now)
				}
			}
			if list := regexp.MustCompile(`(?s)"released": .*?\]`); list.ReplaceAllString(before, "") != list.ReplaceAllString(read(t, dir, rundir.Result), "") {
				t.Error("more than the list changed")
			}
			again := read(t, dir, rundir.Result)
			_, err = Write(dir)
			check(t, err)
			if v, err := Verify(dir); err != nil || !v.OK || read(t, dir, rundir.Result) != again {
				t.Errorf("a second report changed the result, or it does not hold: %v", err)
			}
			var r2 train.Result
			check(t, json.Unmarshal([]byte(again), &r2))
			check(t, rundir.Dir(dir).WriteResult(&r2))
			if read(t, dir, rundir.Result) != again {
				t.Errorf("a result of another form:\n%s", again)
			}
		})
	}
}

// What only the program that trained has, no command of privgrad can train again: page and card do not say so.
func TestReportOfAForeignRun(t *testing.T) {
	for name, c := range map[string]struct {
		from, to, assumes string
		foreign           string
	}{
		"own data":         {"data: made", "data: made", "", "data set made"},
		"privgrad's alone": {"data: made", "data: fmnist", "", ""},
		"network":          {"model: logistic", "model: myres", "", "network myres"},
		"a network's name": {"data: made", "data: fmnist", "initial_parameters_are_public", "network logistic"},
		"features":         {"data: made", "data: fmnist", "own_features_are_public", "features of a record"},
		"method":           {"optimizer: dp-sgd", "optimizer: mine", "", "optimizer mine"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := trained(t, "plain", nil)
			edit(t, filepath.Join(dir, rundir.Config), c.from, c.to)
			edit(t, filepath.Join(dir, rundir.Result), `"assumptions": []`, `"assumptions": ["`+c.assumes+`"]`)
			_, err := Write(dir)
			check(t, err)
			for file, says := range map[string]string{PageFile: "<p>The " + c.foreign + " is of the program that trained: that program", CardFile: "run the program that trained again, as the " + c.foreign + " is its own"} {
				text := read(t, dir, file)
				if strings.Contains(text, "privgrad train -c") != (c.foreign == "") || strings.Contains(text, says) != (c.foreign != "") {
					t.Errorf("%s says how to repeat a run, or not:\n%s", file, text)
				}
			}
		})
	}
}

// Local reports are made in turn, and the model is an average.
func TestReportOfLocalReports(t *testing.T) {
	dir := trained(t, "local", func(c *train.Config) {
		c.Optimizer, c.Positive, c.Batch, c.LR, c.Delta = "banco", "b", nil, nil, nil
	})
	for _, file := range []string{PageFile, CardFile} {
		text := words(read(t, dir, file))
		for _, want := range []string{"each in turn: 1 of 160 records", "average of the iterates", "defaults were chosen on no data"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s does not say %q:\n%s", file, want, text)
			}
		}
		if strings.Contains(text, "fixed size") || strings.Contains(text, "after the last step") {
			t.Errorf("%s speaks of subsets, or of the last iterate:\n%s", file, text)
		}
	}
}

// Where test records are private there is no figure of them, and no picture.
func TestReportWithoutTestFigures(t *testing.T) {
	dir := trained(t, "private test", nil)
	text := words(read(t, dir, PageFile))
	for _, bad := range []string{"accuracy", "Confusion"} {
		if strings.Contains(text, bad) {
			t.Errorf("the page speaks of %s:\n%s", bad, text)
		}
	}
	if rundir.Dir(dir).Has(PictureFile) || !strings.Contains(read(t, dir, CardFile), "no test records were declared public") {
		t.Error("there is a picture, or the card does not say why there is none")
	}
	if card := read(t, dir, CardFile); strings.Contains(card, "look at each class in") || !strings.Contains(card, "no figures for single classes") || !strings.Contains(card, "its ε adds") && !strings.Contains(card, "that run adds to this one's") {
		t.Errorf("the card points to figures that are not there, or does not say what another run costs:\n%s", card)
	}
	var r train.Result
	check(t, json.Unmarshal([]byte(read(t, dir, "result.json")), &r))
	if slices.Contains(r.Released, PictureFile) {
		t.Error("a picture is said to be released")
	}
}

// The risk of a result is shown.
func TestReportShowsRisk(t *testing.T) {
	dir := trained(t, "run", nil)
	var result map[string]any
	path := filepath.Join(dir, "result.json")
	check(t, json.Unmarshal([]byte(read(t, path)), &result))
	result["risk"] = map[string]any{"advantage": 0.25, "tpr_at_fpr": map[string]any{"0.05": 0.5, "0.001": 0.02}}
	b, err := json.Marshal(result)
	check(t, err)
	check(t, os.WriteFile(path, b, 0o644))
	_, err = Write(dir)
	check(t, err)
	text := words(read(t, dir, PageFile))
	for _, want := range []string{"best attacker is at most 25.00%", "right at most 62.50% of the time", "0.10% 2.00% 5.00% 50.00%"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not say %q:\n%s", want, text)
		}
	}
}

// Titles and marks are within the picture, which says ε and δ.
func TestPicture(t *testing.T) {
	dir := trained(t, "run", nil)
	m, err := png.Decode(strings.NewReader(read(t, dir, PictureFile)))
	check(t, err)
	b := m.Bounds()
	blue := 0
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			c := color.RGBAModel.Convert(m.At(x, y)).(color.RGBA)
			if int(c.B) > int(c.R)+60 {
				blue++
				if x < b.Min.X+10 || x > b.Max.X-4 || y < b.Min.Y+10 || y > b.Max.Y-40 {
					t.Fatalf("the line is at the edge: %d, %d", x, y)
				}
			}
		}
	}
	if blue < 100 {
		t.Errorf("%d pixels are the line's", blue)
	}
}

// Axes have round ticks, some of them, and room around every value.
func TestAxes(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	cases := [][]float64{{5}, {0}, {0, 0}, {1.2, 2.8}, {99.9, 100}, {0.001, 1000}, {1e-9, 2e-9}, {3, 3.0000001}}
	for range 200 {
		cases = append(cases, []float64{random.Float64() * 100, random.Float64() * 100})
	}
	for _, values := range cases {
		a := newAxis(values)
		ticks := a.ticks()
		if len(ticks) < 2 || len(ticks) > 12 {
			t.Errorf("%v: %d ticks %v", values, len(ticks), ticks)
		}
		if digit := a.step / math.Pow(10, math.Floor(math.Log10(a.step)+1e-9)); !slices.ContainsFunc([]float64{1, 2, 5, 10}, func(d float64) bool { return math.Abs(digit-d) < 1e-9 }) {
			t.Errorf("%v: a tick every %v", values, a.step)
		}
		for _, v := range values {
			if at := a.at(v); !(at > 0.005 && at < 0.995) {
				t.Errorf("%v: %v is at %v", values, v, at)
			}
		}
		seen := map[string]bool{}
		for _, tick := range ticks {
			if name := a.name(tick); seen[name] || strings.Contains(name, "-0") && tick == 0 {
				t.Errorf("%v: tick %s", values, name)
			} else {
				seen[name] = true
			}
		}
	}
}

func TestPageOfSeveralRuns(t *testing.T) {
	a, b := trained(t, "first", nil), trained(t, "second", func(c *train.Config) { c.Epsilon = ptr(1.0) })
	var page bytes.Buffer
	compared, err := Together(&page, Options{}, a, b)
	check(t, err)
	composed := compared.Composed
	if len(composed) != 1 || composed[0].Epsilon == nil || !(*composed[0].Epsilon > 3) || !(*composed[0].Epsilon < 4) || *composed[0].Delta != 1e-5 {
		t.Fatalf("composed: %+v", composed)
	}
	text := words(page.String())
	for _, want := range []string{"2 runs", "first", "second", "What the runs cost together", composed[0].Budget(), "upper bound", "Side by side"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not say %q:\n%s", want, text)
		}
	}
	ids := regexp.MustCompile(` id="([^"]+)"`).FindAllStringSubmatch(page.String(), -1)
	seen := map[string]bool{}
	for _, id := range ids {
		if seen[id[1]] {
			t.Errorf("id %s is there twice", id[1])
		}
		seen[id[1]] = true
	}
	for _, link := range regexp.MustCompile(`href="#([^"]+)"`).FindAllStringSubmatch(page.String(), -1) {
		if !seen[link[1]] {
			t.Errorf("a link leads to %s, which is not there", link[1])
		}
	}
	if _, err := Together(&page, Options{}); err == nil {
		t.Error("a page of no run was written")
	}
	if _, err := Together(&page, Options{}, t.TempDir()); err == nil {
		t.Error("a page of no run directory was written")
	}
}

// Files that no run writes are refused, not believed.
func TestUnsoundFiles(t *testing.T) {
	for _, c := range []struct{ file, from, to string }{
		{rundir.Result, `"accountant": "pld"`, `"accountant": null`},
		{rundir.Result, `"neighbouring": "add-remove"`, `"neighbouring": null`},
		{rundir.Metrics, `"confusion":[[`, `"confusion":[[1],[`},
	} {
		dir := trained(t, "run", nil)
		edit(t, filepath.Join(dir, c.file), c.from, c.to)
		if _, err := Verify(dir); err == nil || !strings.Contains(err.Error(), "not what a run writes") {
			t.Errorf("verified with %s: %v", c.to, err)
		}
		if _, err := Write(dir); err == nil || !strings.Contains(err.Error(), "not what a run writes") {
			t.Errorf("reported with %s: %v", c.to, err)
		}
	}
}

// A page and a card are made to be published: they do not tell where on its owner's machine
// the run and its data are.
func TestReportHasNoPaths(t *testing.T) {
	home := filepath.Join(t.TempDir(), "jane-doe")
	table := filepath.Join(home, "visits.csv")
	check(t, os.MkdirAll(home, 0o755))
	check(t, os.WriteFile(table, []byte("a,y\n"+strings.Repeat("0.4,1\n0.7,0\n", 20)), 0o644))
	schema := filepath.Join(home, "public.yaml")
	check(t, os.WriteFile(schema, []byte("columns: [{name: a, bounds: [0, 1]}]\nlabel: {column: y, classes: [0, 1]}\n"), 0o644))
	c := short()
	c.Data, c.Model, c.Steps, c.PublicN, c.Schema = "csv:"+table, "", ptr(3), ptr(100), schema
	dirs := []string{filepath.Join(home, "first"), filepath.Join(home, "second")}
	for i, dir := range dirs {
		o := train.Options{Out: dir}
		if i == 1 {
			c.Init, c.Data, c.DataDir = filepath.Join(dirs[0], rundir.Model), "csv:visits.csv", home
		}
		Attach(c, &o)
		_, err := train.Run(context.Background(), c, o)
		check(t, err)
	}
	var both bytes.Buffer
	_, err := Together(&both, Options{}, dirs...)
	check(t, err)
	all := map[string]string{"of both": both.String()}
	for _, dir := range dirs {
		for _, name := range []string{PageFile, CardFile} {
			all[filepath.Base(dir)+" "+name] = read(t, dir, name)
		}
	}
	for name, text := range all {
		if i := strings.Index(text, "jane"); i >= 0 || strings.Contains(text, home) {
			t.Errorf("%s: ...%s...", name, text[max(i-80, 0):min(i+80, len(text))])
		}
		if !strings.Contains(text, "visits.csv") {
			t.Errorf("%s does not name the table", name)
		}
	}
	if page := read(t, dirs[1], PageFile); !strings.Contains(page, "public.yaml") || !strings.Contains(page, rundir.Model) {
		t.Error("the settings do not name schema and initial model")
	}
}
