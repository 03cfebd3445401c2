package compare

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"image/png"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/bench"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/plan"
	"github.com/privgrad/privgrad/nn"
	"github.com/privgrad/privgrad/train"
)

// comparing runs a comparison against the fakes; it gives the notices and the
// calls, too.
func comparing(t *testing.T, change func(*Options)) (c *Result, notices, calls []string) {
	t.Helper()
	self, err := os.Executable()
	check(t, err)
	dir := t.TempDir()
	t.Setenv(fakeVariable, dir)
	o := Options{
		Models: []string{"mnist-tf"}, Device: "cpu", Threads: 1, Seconds: 0.25, Rounds: 3, Python: self, Program: []string{self},
		Machine: bench.Machine{CPU: "a processor", Cores: 2, OS: "linux", Arch: "amd64", Kernels: "portable"}, Version: "v0",
		Draws:  func(int) (float64, error) { return 26010 / 0.005, nil },
		Notice: func(line string) { notices = append(notices, line) },
	}
	next := 0
	o.Progress = func(done, total int, what string) {
		if done != next || done >= total || what == "" {
			t.Errorf("progress says %d of %d (%s) after %d measurements", done, total, what, next)
		}
		next++
	}
	if change != nil {
		change(&o)
	}
	if c, err = Run(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "calls"))
	check(t, err)
	return c, notices, strings.Split(strings.TrimSpace(string(b)), "\n")
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func near(t *testing.T, what string, got *float64, want float64) {
	t.Helper()
	if got == nil || math.Abs(*got-want) > 1e-12*want {
		t.Errorf("%s: got %v, want %v", what, deref(got), want)
	}
}

func deref(x *float64) any {
	if x == nil {
		return nil
	}
	return *x
}

func TestTakesTurns(t *testing.T) {
	c, notices, calls := comparing(t, nil)
	if len(notices) != 0 || len(c.Skipped) != 0 {
		t.Errorf("left out: %q, %v", notices, c.Skipped)
	}
	processors := 1 // that a child may use
	if runtime.GOOS != "linux" {
		processors = runtime.NumCPU()
	}
	var round []string
	for _, p := range []string{
		"opacus hooks", "opacus ghost", "torch func", "torch func-compiled", "jax vmap", "torch plain", "torch plain-compiled", "jax plain",
	} {
		both := []string{"privgrad plain", "privgrad private"}
		if strings.Contains(p, "plain") {
			slices.Reverse(both)
		}
		for _, p := range append(both, p) {
			round = append(round, fmt.Sprintf("%s on mnist-tf: 1 1 %d", p, processors))
		}
	}
	if want := slices.Concat(round, round, round); !slices.Equal(calls, want) {
		t.Errorf("called\n%s\nwant\n%s", strings.Join(calls, "\n"), strings.Join(want, "\n"))
	}
	m := c.Models[0]
	if len(m.Entries) != 10 || m.Model != "mnist-tf" || m.Batch != 300 || m.Parameters != 26010 {
		t.Fatalf("%+v", m)
	}
	for i, e := range m.Entries {
		first := fakeSeconds[e.label()]
		rounds := []float64{first * 1, first * 3, first * 2}
		if e.Peer != ours && !slices.Equal(e.Rounds, rounds) || e.Peer == ours && len(e.Rounds) != 24 {
			t.Errorf("%s: rounds are %v, want %v", e.label(), e.Rounds, rounds)
		}
		if e.Peer == ours && e.Private && i != 0 || e.Private != (i < 6) {
			t.Errorf("%s is entry %d with %d rounds", e.label(), i, len(e.Rounds))
		}
		near(t, e.label()+" median", &e.Median, 2*first)
		near(t, e.label()+" least", &e.Min, first)
		near(t, e.label()+" most", &e.Max, 3*first)
	}
	if hooks := m.entry("opacus hooks"); hooks.PeakRSS != (12+2)<<20 {
		t.Errorf("peak memory is %d, not the largest of the rounds", hooks.PeakRSS)
	}
	r := m.Ratios
	near(t, "private over plain", r.PrivateOverPlain, 2)
	near(t, "private over plain and noise", r.PrivateOverPlainAndNoise, 20./(10+5)) // draws take 5 ms
	near(t, "private peer over ours", r.PrivatePeerOverPrivate, 3)
	near(t, "plain peer over ours", r.PlainPeerOverPlain, 2.5)
	near(t, "private over plain peer", r.PrivateOverPlainPeer, 0.8)
	near(t, "memory", r.PrivatePeerMemory, float64(19+2)/float64(16+2))
	if r.FastestPrivatePeer != "torch func-compiled" || r.FastestPlainPeer != "torch plain-compiled" {
		t.Errorf("fastest are %q and %q", r.FastestPrivatePeer, r.FastestPlainPeer)
	}
	if c.Threads != 1 || c.Versions["jax"] != "0.5" || c.Versions["python"] != "3.99" || c.Versions[ours] != "v0" {
		t.Errorf("%d threads, versions %v", c.Threads, c.Versions)
	}
}

// On a GPU the peers are measured in CUDA graphs, too; what is chosen, alone, and in its precision.
func TestChosenPeers(t *testing.T) {
	c, _, calls := comparing(t, func(o *Options) {
		o.Device, o.Rounds, o.Precision, o.Peers = "cuda", 1, "tf32", []string{"torch func-graphs"}
	})
	own, theirs := c.Models[0].Pair("torch func-graphs")
	if len(calls) != 2 || own == nil || theirs == nil || !own.Private || c.Precision != "tf32" {
		t.Errorf("called %q, %+v", calls, c.Models[0])
	}
	c, _, calls = comparing(t, func(o *Options) { o.Device, o.Rounds = "cuda", 1 })
	if _, graphs := c.Models[0].Pair("torch plain-graphs"); len(calls) != 33 || graphs == nil {
		t.Errorf("on a GPU called %q", calls)
	}
	c, _, _ = comparing(t, func(o *Options) {
		o.Device, o.Rounds, o.Batch, o.Peers = "cuda", 2, 4096, []string{"torch plain-best", "torch plain-graphs"}
	})
	own, theirs = c.Models[0].Pair("torch plain-best")
	if own == nil || theirs == nil || c.Models[0].Batch != 4096 || theirs.Form != "one of several" || own.Form == "" {
		t.Fatalf("on a GPU %+v", c.Models[0])
	}
	near(t, "with a wait each", theirs.Waited, 0.016)
	near(t, "ours with a wait each", own.Waited, 0.01)
	if r := c.Models[0].Ratios; r.FastestPlainPeer != "torch plain-best" {
		t.Errorf("the fastest plain peer is %s", r.FastestPlainPeer)
	}
	for want, change := range map[string]func(*Options){
		"peer":      func(o *Options) { o.Peers = []string{"tensorflow"} },
		"precision": func(o *Options) { o.Precision = "tf32" },
	} {
		o := Options{Device: "cpu", Seconds: 1, Rounds: 1}
		change(&o)
		if _, err := Run(context.Background(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// What privacy costs is a median over pairs, and not of medians.
func TestPrivacyIsComparedInPairs(t *testing.T) {
	entries := []Entry{
		{Peer: ours, Mode: "private", Private: true, Median: 4, Rounds: []float64{1, 6, 4}},
		{Peer: ours, Mode: "plain", Median: 2, Rounds: []float64{1, 2, 4}},
	}
	r := ratios(entries, 2)
	near(t, "private over plain", r.PrivateOverPlain, 1)
	near(t, "private over plain and noise", r.PrivateOverPlainAndNoise, 4./6)
	if r := ratios(entries, math.Inf(1)); r.PrivateOverPlainAndNoise != nil || r.PrivateOverPlain == nil {
		t.Errorf("of unknown noise: %v and %v", deref(r.PrivateOverPlain), deref(r.PrivateOverPlainAndNoise))
	}
	if r := ratios(entries[:1], 2); r.PrivateOverPlain != nil || r.PrivateOverPlainAndNoise != nil {
		t.Error("a private step is compared with no plain one")
	}
	here := []peer{{name: "a", private: true}, {name: "b", private: true}, {name: "c"}}
	var order []string
	for _, p := range turns(here) {
		order = append(order, p.name+p.mode)
	}
	if got := strings.Join(order, " "); got != "privgradplain privgradprivate a privgradplain privgradprivate b privgradprivate privgradplain c" {
		t.Errorf("chosen peers of both kinds: %s", got)
	}
}

func TestMemoryRatio(t *testing.T) {
	host := &Entry{PeakRSS: 1 << 20}
	small, big := &Entry{PeakRSS: 1 << 30, PeakDevice: new(int64(2))}, &Entry{PeakDevice: new(int64(6))}
	near(t, "on a GPU", memoryRatio(big, small), 3)
	near(t, "on the host", memoryRatio(host, host), 1)
	if r := memoryRatio(host, small); r != nil {
		t.Errorf("a host's memory over a GPU's is %v", *r)
	}
}

func TestPeersCompile(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skipf("only Python can compile the scripts of the peers: %v", err)
	}
	const compiles = "import sys\nfor f in sys.argv[1:]: compile(open(f).read(), f, 'exec')"
	files, _ := filepath.Glob("peers/*.py")
	if out, err := exec.Command(python, append([]string{"-c", compiles}, files...)...).CombinedOutput(); err != nil || len(files) != 4 {
		t.Errorf("%d scripts: %v\n%s", len(files), err, out)
	}
}

// GPUs are timed alike by all: as many steps between two waits.
func TestTogether(t *testing.T) {
	source, err := scripts.ReadFile("peers/common.py")
	check(t, err)
	if want := fmt.Sprintf("\nTOGETHER = %d\n", bench.Together); !bytes.Contains(source, []byte(want)) {
		t.Errorf("common.py does not have %q", want)
	}
}

// The script of PyTorch runs on a CPU, where its ways of a plain step are the same but for graphs.
func TestTorchRuns(t *testing.T) {
	python := cmp.Or(os.Getenv("PYTHON"), "python3")
	if err := exec.Command(python, "-c", "import torch").Run(); err != nil {
		t.Skipf("%s has no PyTorch; PYTHON may name another: %v", python, err)
	}
	for _, c := range []struct{ model, precision string }{{"mnist-tf", "float32"}, {"cnn-mnist", "bf16"}} {
		out, err := exec.Command(python, "peers/torch_steps.py", "--mode", "plain-best", "--model", c.model, "--precision", c.precision,
			"--batch", "4", "--threads", "1", "--seconds", "0.02").Output()
		check(t, err)
		var s step
		check(t, json.Unmarshal(out, &s))
		info, err := plan.Model(c.model)
		check(t, err)
		if s.Model != c.model || s.Batch != 4 || s.Parameters != info.Parameters || !(s.StepSeconds > 0) || s.Precision != c.precision || !strings.HasPrefix(s.Form, "channels ") {
			t.Errorf("%s", out)
		}
	}
}

// The file is for other programs, too: docs/explain/performance.md describes its keys.
func TestComparisonFile(t *testing.T) {
	c, _, _ := comparing(t, func(o *Options) { o.Rounds = 1 })
	c.Date = "2026-01-02T03:04:05Z"
	c.Models[0].Entries = c.Models[0].Entries[:2]
	got, err := json.MarshalIndent(c, "", "  ")
	check(t, err)
	want, err := os.ReadFile("testdata/comparison.json")
	check(t, err)
	if string(got) != strings.TrimSpace(string(want)) {
		t.Errorf("testdata/comparison.json has\n%s\nRun gives\n%s", want, got)
	}
}

func TestWithoutPython(t *testing.T) {
	c, notices, calls := comparing(t, func(o *Options) { o.Python = filepath.Join(t.TempDir(), "python3") })
	if len(notices) != 1 || !strings.HasPrefix(notices[0], "every peer is left out: Python interpreter ") || !strings.Contains(notices[0], "--help") || strings.Contains(notices[0], "\n") {
		t.Errorf("notices are %q", notices)
	}
	if len(calls) != 6 || !strings.HasPrefix(calls[0], "privgrad private on mnist-tf") || !strings.HasPrefix(calls[1], "privgrad plain on mnist-tf") {
		t.Errorf("calls are %q", calls)
	}
	r := c.Models[0].Ratios
	near(t, "private over plain", r.PrivateOverPlain, 2)
	if r.PrivatePeerOverPrivate != nil || r.PlainPeerOverPlain != nil || r.PrivateOverPlainPeer != nil || r.PrivatePeerMemory != nil || r.FastestPlainPeer != "" {
		t.Errorf("ratios to no peer: %+v", r)
	}
}

func TestLeavesOutMissingPackages(t *testing.T) {
	for missing, want := range map[string]struct {
		notices []string // beginnings
		entries int
	}{
		"opacus": {[]string{"opacus is left out: "}, 8},
		"jax":    {[]string{"jax is left out: "}, 8},
		"torch":  {[]string{"opacus is left out: ", "torch is left out: "}, 4},
	} {
		t.Setenv(missingFake, missing)
		c, notices, _ := comparing(t, func(o *Options) { o.Rounds = 1 })
		if len(notices) != len(want.notices) || len(c.Skipped) != len(notices) || len(c.Models[0].Entries) != want.entries {
			t.Errorf("without %s: %d entries, %q", missing, len(c.Models[0].Entries), notices)
			continue
		}
		for i, n := range notices {
			if !strings.HasPrefix(n, want.notices[i]) || !strings.Contains(n, "package "+missing) || !strings.Contains(n, "--help") {
				t.Errorf("without %s: %q", missing, n)
			}
		}
	}
}

func TestLeavesOutWhatFails(t *testing.T) {
	t.Setenv(brokenFake, "ghost")
	t.Setenv(differentFake, "vmap")
	c, notices, calls := comparing(t, nil)
	if len(notices) != 2 || notices[0] != "opacus ghost on mnist-tf is left out: exit status 3: MemoryError: too big" ||
		!strings.HasPrefix(notices[1], "jax vmap on mnist-tf is left out: it did another step: mnist-tf of 26011 parameters") {
		t.Errorf("notices are %q", notices)
	}
	if len(c.Models[0].Entries) != 8 || len(c.Skipped) != 2 || c.Skipped[0] != (Skipped{"mnist-tf", "opacus", "ghost", "exit status 3: MemoryError: too big"}) {
		t.Errorf("%d entries, skipped %v", len(c.Models[0].Entries), c.Skipped)
	}
	if n := strings.Count(strings.Join(calls, "\n"), "opacus ghost"); n != 1 {
		t.Errorf("what failed was run %d times", n)
	}
}

// This program failing is no reason to leave it out.
func TestFailsWithItsOwnProgram(t *testing.T) {
	t.Setenv(brokenFake, "private")
	self, _ := os.Executable()
	t.Setenv(fakeVariable, t.TempDir())
	o := Options{Models: []string{"mnist-tf"}, Device: "cpu", Threads: 1, Seconds: 1, Rounds: 1, Python: self, Program: []string{self},
		Notice: func(string) {}, Progress: func(int, int, string) {}}
	if _, err := Run(context.Background(), o); err == nil || !strings.Contains(err.Error(), "privgrad private on mnist-tf") || !strings.Contains(err.Error(), "too big") {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	o.Progress = func(int, int, string) { cancel() }
	if _, err := Run(ctx, o); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// What is measured is kept model by model. Of a later one there is only that it is left out.
func TestKeepsEveryModel(t *testing.T) {
	self, _ := os.Executable()
	t.Setenv(fakeVariable, t.TempDir())
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var kept [][]string
	o := Options{Models: []string{"mnist-tf", "mlp-mnist", "cnn-mnist"}, Device: "cpu", Threads: 1, Seconds: 1, Rounds: 1, Python: self, Program: []string{self},
		Notice: func(string) {}, Progress: func(int, int, string) {}, Keep: func(c *Result) error {
			var models []string
			for _, m := range c.Models {
				if len(m.Entries) == 0 || m.Entries[0].Median == 0 {
					t.Errorf("%s is kept before it is measured: %+v", m.Model, m)
				}
				models = append(models, m.Model)
			}
			for _, s := range c.Skipped {
				if s.Peer != "everything" || s.Reason == "" {
					t.Errorf("left out: %+v", s)
				}
				models = append(models, "not "+s.Model)
			}
			if kept = append(kept, models); len(kept) == 2 {
				cancel()
			}
			return nil
		}}
	if _, err := Run(ctx, o); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if want := [][]string{{"mnist-tf", "not mlp-mnist", "not cnn-mnist"}, {"mnist-tf", "mlp-mnist", "not cnn-mnist"}}; !reflect.DeepEqual(kept, want) {
		t.Errorf("kept %v, want %v", kept, want)
	}
	full := errors.New("disk full")
	o.Keep = func(*Result) error { return full }
	if _, err := Run(context.Background(), o); !errors.Is(err, full) {
		t.Errorf("without room: %v", err)
	}
}

func TestRefuses(t *testing.T) {
	for want, change := range map[string]func(*Options){
		"rounds 0":         func(o *Options) { o.Rounds = 0 },
		"seconds -1":       func(o *Options) { o.Seconds = -1 },
		`model "logistic"`: func(o *Options) { o.Models = []string{"logistic"} },
		"device":           func(o *Options) { o.Device = "auto" },
		"threads -1":       func(o *Options) { o.Threads = -1 },
		"batch -1":         func(o *Options) { o.Batch = -1 },
		"threads 100000":   func(o *Options) { o.Threads = 100000 },
	} {
		o := Options{Device: "cpu", Rounds: 1, Seconds: 1}
		change(&o)
		_, err := Run(context.Background(), o)
		var u *train.UsageError
		if !errors.As(err, &u) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// hasTexts fails unless a picture is XML that says what a comparison does.
func hasTexts(t *testing.T, svg []byte, c *Result) {
	t.Helper()
	texts := map[string]int{}
	for d := xml.NewDecoder(bytes.NewReader(svg)); ; {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("not XML: %v", err)
		}
		if x, ok := token.(xml.CharData); ok {
			texts[strings.TrimSpace(string(x))]++
		}
	}
	want := map[string]int{}
	for _, m := range c.Models {
		want[fmt.Sprintf("%s, %d parameters, batch %d", m.Model, m.Parameters, m.Batch)]++
		for _, e := range m.Entries {
			want[e.kind()]++
			want[milliseconds(e.Median)]++
		}
	}
	for text, n := range want {
		if texts[text] < n {
			t.Errorf("the picture has %q %d times, want %d", text, texts[text], n)
		}
	}
}

func TestPictures(t *testing.T) {
	c, _, _ := comparing(t, func(o *Options) { o.Models, o.Rounds = []string{"mnist-tf", "cnn-mnist", "mlp-mnist"}, 1 })
	var svg bytes.Buffer
	check(t, c.Draw(&svg, "svg"))
	hasTexts(t, svg.Bytes(), c)
	if bytes.Contains(svg.Bytes(), []byte("href")) {
		t.Error("the picture needs another file")
	}
	var image bytes.Buffer
	check(t, c.Draw(&image, "png"))
	if _, err := png.Decode(&image); err != nil {
		t.Error(err)
	}
	if err := c.Draw(io.Discard, "bmp"); err == nil {
		t.Error("a format that there is not was drawn")
	}
}

func TestMarkdown(t *testing.T) {
	t.Setenv(brokenFake, "ghost")
	busy := 1.25
	c, _, _ := comparing(t, func(o *Options) { o.Machine.Load = &busy })
	var b strings.Builder
	check(t, c.Markdown(&b))
	for _, want := range []string{
		"a processor, threads: 1 on 2 cores, linux/amd64, portable kernels, load before 1.25, python 3.99, torch 2.0, opacus 1.0, jax 0.5.",
		"\n| `mnist-tf` | 300 | 20.0 (10.0–30.0) | 10.0 (5.00–15.0) | 2.00 | 1.33 | torch func-compiled, 60.0 (30.0–90.0) | 3.00 | torch plain-compiled, 25.0 (12.5–37.5) | 2.50 | 0.80 |\n",
		"\n- opacus ghost on mnist-tf: exit status 3: MemoryError: too big\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	for line := range strings.Lines(b.String()) {
		if n := strings.Count(line, "|"); n != 0 && n != 12 {
			t.Errorf("a row with %d bars: %s", n, line)
		}
	}
}

// docs/explain/performance.md shows the tables of every file of measurements beside it, and the picture there is drawn
// from performance.json.
func TestDocumentedTablesAreThoseOfTheFiles(t *testing.T) {
	doc, err := os.ReadFile("../../docs/explain/performance.md")
	check(t, err)
	drawn, err := os.ReadFile("../../docs/explain/performance.svg")
	check(t, err)
	files, err := filepath.Glob("../../docs/explain/performance*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no measurements: %v", err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		check(t, err)
		c := &Result{}
		d := json.NewDecoder(bytes.NewReader(b))
		d.DisallowUnknownFields()
		check(t, d.Decode(c))
		var tables bytes.Buffer
		command := "privgrad bench compare docs/explain/" + filepath.Base(file) + " --out bin/tables.md"
		fmt.Fprintf(&tables, "<!-- printed by: %s -->\n", command)
		check(t, c.Markdown(&tables))
		tables.WriteString("<!-- end -->\n")
		if !bytes.Contains(doc, tables.Bytes()) {
			t.Errorf("docs/explain/performance.md does not hold what `%s` writes: run make tables", command)
		}
		if filepath.Base(file) == "performance.json" {
			hasTexts(t, drawn, c)
		}
	}
}

// The scripts write the networks down once more; they must be this program's.
func TestScriptsHaveTheSameNetworks(t *testing.T) {
	source, err := scripts.ReadFile("peers/common.py")
	check(t, err)
	found := regexp.MustCompile(`"([a-z0-9-]+)": \((\(\d+, \d+, \d+\)), ((?:"[^"]*"\s*)+)\)`).FindAllStringSubmatch(string(source), -1)
	if len(found) != len(Models()) {
		t.Errorf("the scripts have %d networks, the comparison %d", len(found), len(Models()))
	}
	for _, f := range found {
		name, shape, words := f[1], f[2], strings.ReplaceAll(regexp.MustCompile(`"\s*"`).ReplaceAllString(f[3], ""), `"`, "")
		info, err := plan.Model(name)
		check(t, err)
		network, err := plan.BuildNetwork(name, nn.Options{Input: info.Input, Classes: info.Classes, Activation: "relu", Seed: 1})
		check(t, err)
		if want := fmt.Sprintf("(%d, %d, %d)", info.Input[0], info.Input[1], info.Input[2]); shape != want {
			t.Errorf("%s reads %s in the scripts, not %s", name, shape, want)
		}
		words = blockWords(strings.ReplaceAll(words, "flat ", ""))
		if want := layerWords(network.Program); words != want {
			t.Errorf("%s is %q in the scripts, not %q", name, words, want)
		}
	}
}

// blockWords writes the blocks of wide residual networks in words, as the scripts do.
func blockWords(words string) string {
	var all []string
	channels := "16"
	for _, word := range strings.Fields(words) {
		block, ok := strings.CutPrefix(word, "wide")
		if !ok {
			all = append(all, word)
			continue
		}
		out, stride, _ := strings.Cut(block, "/")
		if stride = "/" + stride; stride == "/1" {
			stride = ""
		}
		all = append(all, "keep relu norm16 sconv"+out+"x3"+stride+"+1 relu norm16 sconv"+out+"x3+1")
		if out != channels {
			all = append(all, "swap relu norm16 sconv"+out+"x1"+stride)
		}
		all, channels = append(all, "add"), out
	}
	return strings.Join(all, " ")
}

// layerWords writes a network the way the scripts do, but for flat, which is
// no op here. A ReLU that body and shortcut of a block begin with is one op here, and two words.
func layerWords(p *ir.Program) string {
	var words []string
	readers := make([]int, len(p.Ops)+1)
	for i := range p.Ops {
		for _, v := range p.Ops[i].In {
			readers[v]++
		}
	}
	for i := range p.Ops {
		op := &p.Ops[i]
		w := op.Window
		if op.Kind == ir.ReLU && (readers[op.In[0]] > 1 || readers[i+1] > 1) {
			words = append(words, "keep")
		}
		if op.Kind != ir.Add && op.In[0] != ir.Value(i) {
			words = append(words, "swap", "relu")
		}
		switch op.Kind {
		case ir.GroupNorm:
			words = append(words, fmt.Sprintf("norm%d", op.Groups))
		case ir.AvgPool:
			words = append(words, "mean")
			if w.H != op.Shape[1] || w.W != op.Shape[2] {
				words = append(words, "of a part")
			}
		case ir.Conv:
			word := fmt.Sprintf("conv%dx%d", op.Out[0], w.H)
			if op.Function == ir.Standardize {
				word = "s" + word
			}
			if w.StrideH > 1 {
				word += fmt.Sprintf("/%d", w.StrideH)
			}
			if w.PadTop > 0 {
				word += fmt.Sprintf("+%d", w.PadTop)
			}
			words = append(words, word)
		case ir.MaxPool:
			words = append(words, fmt.Sprintf("pool%d/%d", w.H, w.StrideH))
		case ir.Dense:
			words = append(words, fmt.Sprintf("fc%d", op.Out[0]))
		default:
			words = append(words, op.Kind.String())
		}
	}
	return strings.Join(words, " ")
}
