package golden

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/accountant/ledger"
	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/internal/device/reference"
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/internal/safetensors"
	"github.com/privgrad/privgrad/nn"
	"github.com/privgrad/privgrad/train"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// What seeded runs leave is recorded in testdata/recorded: every byte of every file but
// for times and memory, and what was asked of the device, in order. A change that
// means to change nothing keeps it; any other writes it anew, for its diff to be read:
//
//	go test ./internal/golden -run TestGolden -update
//
// Of long records the digest of every run is kept with the lines that a reader looks at.
// To see the others, write the whole records of two versions and compare them:
//
//	go test ./internal/golden -run TestGolden -whole DIR
var (
	update  = flag.Bool("update", false, "write testdata/recorded anew")
	wholeTo = flag.String("whole", "", "write the whole records to this directory, too")
)

// A golden is one recorded run.
type golden struct {
	name string
	set  func(*train.Config) // over plain()
	// network takes the place of a named model.
	network func(*testing.T) *nn.Network
	// stops are numbers of reported steps after which processes are interrupted.
	stops []int
	// random runs follow from no seed: only what is the same in all of them is kept.
	random bool
}

func of[T any](x T) *T { return &x }

// plain is a short seeded run on two classes of a small set.
func plain() train.Config {
	c := train.Default()
	c.Data, c.Classes, c.Model = "made", []int{0, 1}, "logistic"
	c.NoiseMultiplier, c.Batch, c.Steps, c.LR = of(1.0), of(20.0), of(6), of(0.5)
	c.EvalEvery, c.Threads, c.Memory, c.Device = 3, 1, "64MiB", "reference"
	c.Noise, c.Accountant = "seeded", "rdp"
	return c
}

// goldenSet is a small image set: class k is bright in row k.
func goldenSet() *datasets.Set {
	const side, classes = 4, 4
	draw := func(seed uint64, n int) datasets.Split {
		random := rand.New(rand.NewPCG(seed, 1))
		s := datasets.Split{Shape: [3]int{1, side, side}}
		for range n {
			label := random.IntN(classes)
			s.Labels = append(s.Labels, uint8(label))
			for i := range side * side {
				v := random.IntN(120)
				if i/side == label {
					v += 130
				}
				s.Features = append(s.Features, uint8(v))
			}
		}
		return s
	}
	return &datasets.Set{
		Name: "made", Classes: classes, ClassNames: []string{"a", "b", "c", "d"},
		Train: draw(1, 160), Test: draw(99, 40),
		PublicN: 160, PerClass: []int{40, 40, 40, 40}, TestIsPublic: true,
	}
}

// twoLayers is a network on all classes of that set.
func twoLayers(t *testing.T) *nn.Network {
	t.Helper()
	x := G.NewTensor(G.NewGraph(), tensor.Float32, 4, G.WithShape(2, 1, 4, 4), G.WithName("x"))
	logits, err := nn.Apply(x, nn.Flatten, nn.Dense("hidden", 5, nn.Glorot(2)), nn.Tanh, nn.Dense("out", 4, nn.Glorot(3)))
	if err != nil {
		t.Fatal(err)
	}
	n, err := nn.Lower(logits, nn.WithName("two-layers"))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// goldenTable writes t.csv with its schema to the working directory: y follows from a and b.
func goldenTable(t *testing.T) {
	t.Helper()
	random := rand.New(rand.NewPCG(5, 2))
	lines := []string{"a,b,y"}
	for range 120 {
		a, kind := random.Float64(), random.IntN(3)
		y := 0
		if a+0.5*float64(kind)+0.2*random.NormFloat64() > 0.8 {
			y = 1
		}
		lines = append(lines, fmt.Sprintf("%.4f,%c,%d", a, 'p'+kind, y))
	}
	columns := "columns: [{name: a, bounds: [0, 1]}, {name: b, categories: [p, q, r]}]\n"
	for name, text := range map[string]string{
		"t.csv": strings.Join(lines, "\n"), "classes.yaml": columns + "label: {column: y, classes: [0, 1]}\n",
		"number.yaml": columns + "label: {column: y, bounds: [0, 1]}\n",
		"shares.yaml": columns + "label: {column: y, classes: [0, 1]}\ntest_share: 0.25\ntest_is_public: true\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestGolden holds runs to what is recorded of them.
func TestGolden(t *testing.T) {
	if !recordable() {
		t.Skip("floating-point numbers are rounded otherwise on this machine than where runs were recorded")
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	goldenTable(t)
	goldenProtectors(t, here)
	for _, optimizer := range slices.Sorted(maps.Keys(goldens)) {
		t.Run(optimizer, func(t *testing.T) {
			runs := goldens[optimizer]
			path := filepath.Join(here, "testdata", "recorded", optimizer+".txt")
			var all []string
			var first map[string]string
			for _, g := range runs {
				files, asked := g.run(t, optimizer)
				all = append(all, g.record(files, first, asked))
				if first == nil {
					first = files
				}
			}
			compareGolden(t, path, all)
		})
	}
}

// recordable says whether arithmetic is rounded here as it was where runs were
// recorded: other processors fuse products and sums, or have another exponential.
func recordable() bool {
	h := sha256.New()
	x := 0.1
	for i := range 2000 {
		x = math.Exp(-x) + x*float64(i)*1e-4
		binary.Write(h, binary.LittleEndian, []float64{x, math.Log1p(x), math.Tanh(x), math.Pow(x, 0.3), math.Erfc(x)})
	}
	return runtime.GOARCH == "amd64" && hex.EncodeToString(h.Sum(nil)[:8]) == arithmetic
}

// arithmetic is the digest that recordable finds where runs were recorded.
const arithmetic = "47c8e72e335ca4dd"

// progress interrupts a run after so many reported steps.
type progress struct{ step func() }

func (p *progress) Start(int)                    {}
func (p *progress) Step(int, *float64, *float64) { p.step() }
func (p *progress) Finish()                      {}

// config is the run's configuration.
func (g golden) config(optimizer string) train.Config {
	c := plain()
	c.Optimizer = optimizer
	if g.set != nil {
		g.set(&c)
	}
	return c
}

// goldenOptions are of a run in a directory.
func goldenOptions(dir string, d *recorder) train.Options {
	return train.Options{
		Sources: map[string]train.Source{"made": {BuiltIn: true, Open: func(string) (*datasets.Set, error) { return goldenSet(), nil }}},
		Out:     dir, Resume: train.ResumeAuto, Device: d, RunID: strings.Repeat("ab", 16),
	}
}

// run gives the files of a run, and what it asked of the device.
func (g golden) run(t *testing.T, optimizer string) (map[string]string, string) {
	t.Helper()
	dir := optimizer + " " + g.name
	d := &recorder{Device: reference.Open(), shape: g.random}
	o := goldenOptions(dir, d)
	if n := g.config(optimizer).PublicN; n != nil { // as published: more than there are
		set := goldenSet()
		set.PerClass[0] += *n - set.PerClass[0] - set.PerClass[1]
		o.Sources["made"] = train.Source{BuiltIn: true, Open: func(string) (*datasets.Set, error) { return set, nil }}
	}
	for _, stop := range append(slices.Clone(g.stops), -1) {
		if g.network != nil {
			o.Network = g.network(t)
		}
		err := interrupted(g.config(optimizer), o, stop)
		switch {
		case stop >= 0 && !errors.Is(err, train.ErrInterrupted):
			t.Fatalf("%s was to be interrupted after %d steps: %v", dir, stop, err)
		case stop >= 0:
			said, goesOn, _ := strings.Cut(err.Error(), "; continue by ")
			if goesOn != "" { // which depends on whose the data are, and is not what is recorded
				said += fmt.Sprintf("; continue by `privgrad resume %s`", dir)
			}
			d.note("%s", said)
		case err != nil:
			t.Fatalf("%s: %v", dir, err)
		}
	}
	files := runFiles(t, dir)
	for name, text := range runFiles(t, dir+".private") {
		files[filepath.Join(".private", name)] = text
	}
	if !g.random {
		d.noteLedger(dir)
	}
	return files, d.text()
}

// noteLedger notes what the ledger of a run charges.
func (d *recorder) noteLedger(dir string) {
	s, _, err := ledger.Read(filepath.Join(dir, "ledger.db"))
	if err != nil {
		d.note("ledger: %v", err)
		return
	}
	d.note("ledger committed=%d reserved=%d settled=%d crashed=%d", s.Committed, s.Reserved, s.Settled, s.CrashedSlots)
}

// interrupted trains until so many steps were reported; below 0 to the end.
func interrupted(c train.Config, o train.Options, stop int) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if stop == 0 {
		cancel()
	}
	o.Progress = &progress{func() {
		if stop--; stop == 0 {
			cancel()
		}
	}}
	_, err := train.Run(ctx, c, o)
	return err
}

var (
	measured = regexp.MustCompile(`"(seconds|examples_per_second|peak_rss_bytes)": [0-9.e+]+`)
	digested = regexp.MustCompile(`": "[0-9a-f]{64}"`)
	placed   = regexp.MustCompile(`(?m)^data_dir: .*\n`)
)

// runFiles reads a directory, with times, rates and memory masked, without the place of the data, and what only repeats other
// files, their digests and the settings that a run began with.
func runFiles(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if errors.Is(err, os.ErrNotExist) && path == dir {
			return nil
		}
		if err != nil || d.IsDir() || d.Name() == rundir.Processes || d.Name() == "cost.json" { // random numbers, and what was measured
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil || name == filepath.Join("checkpoint", "config.yaml") {
			return err
		}
		b, err := os.ReadFile(path)
		all[name] = placed.ReplaceAllString(digested.ReplaceAllString(measured.ReplaceAllString(string(b), `"$1": masked`), `": masked`), "")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// record is a run as its method's file holds it: the digests of its files, the lines
// in which the texts among them differ from those of the method's first run, and what
// was asked of the device.
func (g golden) record(files, first map[string]string, asked string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "== %s\n", g.name)
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		digest := "of numbers that were drawn"
		if !g.random || name == "config.yaml" {
			digest = fileDigest(name, files[name])
		}
		fmt.Fprintf(&b, "%s %s\n", filepath.ToSlash(name), digest)
	}
	for _, name := range names {
		if !slices.Contains([]string{".yaml", ".json", ".jsonl"}, filepath.Ext(name)) || g.random && name != "config.yaml" {
			continue
		}
		fmt.Fprintf(&b, "-- %s\n", filepath.ToSlash(name))
		base, lines := strings.Split(first[name], "\n"), strings.Split(files[name], "\n")
		for _, line := range base {
			if line != "" && !slices.Contains(lines, line) && name != "metrics.jsonl" {
				fmt.Fprintf(&b, "-%s\n", line)
			}
		}
		for _, line := range lines {
			if line != "" && !slices.Contains(base, line) {
				fmt.Fprintf(&b, "+%s\n", line)
			}
		}
	}
	fmt.Fprintf(&b, "-- device\n%s\n", asked)
	return b.String()
}

// withoutFacts is a model's file with such metadata alone as there was when runs were recorded: the
// rest says what config.yaml and result.json do, and which version of the program ran.
func withoutFacts(text string) []byte {
	tensors, facts, err := safetensors.Read(strings.NewReader(text), math.MaxInt64)
	if err != nil {
		return []byte(err.Error())
	}
	kept := map[string]string{}
	for key, value := range facts {
		if key == "noise" || strings.HasPrefix(key, "features") && facts["features_digest"] != "" {
			kept[key] = value
		}
	}
	var b bytes.Buffer
	if err := safetensors.Write(&b, tensors, kept); err != nil {
		return []byte(err.Error())
	}
	return b.Bytes()
}

// fileDigest is of a file's bytes; of a picture's pixels, as how they are packed
// follows from the Go version.
func fileDigest(name, text string) string {
	sum := func(b []byte) string {
		h := sha256.Sum256(b)
		return hex.EncodeToString(h[:16])
	}
	if base := filepath.Base(name); base == "model.safetensors" || base == "model-average.safetensors" {
		return sum(withoutFacts(text))
	}
	return sum([]byte(text))
}

// A record of more than mostBytes is kept in short: its first run whole, and of every part
// of the others the first and the last lines, each of at most mostColumns bytes.
const (
	mostBytes             = 50000
	firstLines, lastLines = 3, 1
	mostColumns           = 64
)

// inShort is what of a method's runs is in its file.
func inShort(runs []string) []string {
	if len(strings.Join(runs, "")) <= mostBytes {
		return runs
	}
	short := []string{runs[0]}
	for _, run := range runs[1:] {
		short = append(short, shortened(run))
	}
	return short
}

// shortened is a run's name, the digest of its record, and what is kept of that.
func shortened(run string) string {
	title, text, _ := strings.Cut(run, "\n")
	digests, rest, _ := strings.Cut(text, "-- ")
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%x %s\n%s", title, sha256.Sum256([]byte(run)), ofRecord, digests)
	for _, part := range strings.Split(rest, "\n-- ") {
		name, text, _ := strings.Cut(strings.TrimSuffix(part, "\n"), "\n")
		fmt.Fprintf(&b, "-- %s\n", name)
		if text == "" {
			continue
		}
		lines := strings.Split(text, "\n")
		from, to := firstLines, len(lines)-lastLines
		for i, line := range lines {
			switch {
			case i >= from && i < to && to-from > 1:
				if i == from {
					fmt.Fprintf(&b, "… %d lines\n", to-from)
				}
			case len(line) > mostColumns:
				fmt.Fprintf(&b, "%s…\n", strings.ToValidUTF8(line[:mostColumns], ""))
			default:
				fmt.Fprintf(&b, "%s\n", line)
			}
		}
	}
	return b.String()
}

// ofRecord follows the digest of a run that is kept in short.
const ofRecord = "is the SHA-256 of the whole record"

// compareGolden compares what runs left with a file, run by run, or writes the file.
func compareGolden(t *testing.T, path string, got []string) {
	t.Helper()
	write := func(path string, runs []string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(strings.Join(runs, "")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if dir := *wholeTo; dir != "" {
		if !filepath.IsAbs(dir) { // the test is elsewhere now
			dir = filepath.Join(filepath.Dir(path), "..", "..", dir)
		}
		write(filepath.Join(dir, filepath.Base(path)), got)
	}
	if got = inShort(got); *update {
		write(path, got)
		return
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, difference := range differences(string(b), got) {
		t.Errorf("%s: %s", filepath.Base(path), difference)
	}
}

// differences says where runs differ from a file's.
func differences(file string, got []string) (all []string) {
	want := map[string]string{}
	for _, run := range strings.Split("\n"+file, "\n== ")[1:] {
		name, text, _ := strings.Cut(run, "\n")
		want[name] = strings.TrimSuffix(text, "\n")
	}
	for _, run := range got {
		name, text, _ := strings.Cut(strings.TrimPrefix(run, "== "), "\n")
		recorded, ok := want[name]
		delete(want, name)
		if !ok {
			all = append(all, fmt.Sprintf("run %q is not recorded", name))
		} else if recorded != strings.TrimSuffix(text, "\n") {
			all = append(all, fmt.Sprintf("run %q: %s", name, firstDifference(recorded, strings.TrimSuffix(text, "\n"))))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		all = append(all, fmt.Sprintf("run %q is recorded, and was not run", name))
	}
	return all
}

// firstDifference says in which files two records of a run differ, and shows where
// first, by their texts if they can.
func firstDifference(want, got string) string {
	wantDigest, wantRest, short := strings.Cut(want, " "+ofRecord+"\n")
	gotDigest, gotRest, both := strings.Cut(got, " "+ofRecord+"\n")
	behind := ""
	if short && both && wantDigest != gotDigest {
		want, got = wantRest, gotRest
		behind = "behind the kept lines; -whole DIR writes all lines, to be compared with those of another version"
		if want == got {
			return behind
		}
		behind = "; in text, at most " + behind
	}
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	var files []string
	part, from := "", 0
	for i := 0; i < max(len(w), len(g)); i++ {
		a, b := "nothing", "nothing"
		if i < len(w) {
			a = w[i]
		}
		if i < len(g) {
			b = g[i]
		}
		if name, ok := strings.CutPrefix(a, "-- "); ok && a == b {
			part, from = name, i
		}
		if a == b {
			continue
		}
		if part == "" && i < len(w) && i < len(g) { // a digest
			files = append(files, strings.Fields(a)[0])
			continue
		}
		if part == "" {
			part = "the list of files"
		}
		return fmt.Sprintf("files that differ: %v; in %s, line %d,\n  recorded %s\n  now      %s", files, part, i-from, a, b)
	}
	return fmt.Sprintf("files that differ: %v%s", files, behind)
}

// goldenProtectors copies the protectors of random weights to the working directory.
func goldenProtectors(t *testing.T, here string) {
	t.Helper()
	for _, name := range []string{"identity", "projector", "scheduler", "both"} {
		for _, ext := range []string{".json", ".safetensors"} {
			b, err := os.ReadFile(filepath.Join(here, "..", "..", "train", "testdata", name+ext))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name+ext, b, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}
