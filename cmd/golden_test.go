package cmd

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/privgrad/privgrad/internal/plan"
)

// What the command prints is recorded in testdata/golden. A change that means to
// change no word keeps it; any other writes it anew, for its diff to be read:
//
//	go test ./cmd -run TestGolden -update
var update = flag.Bool("update", false, "write testdata/golden anew")

// golden compares what was printed with a file of such parts, or writes the file.
func golden(t *testing.T, name string, parts []string) {
	t.Helper()
	path := filepath.Join(home, "testdata", "golden", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(strings.Join(parts, "")), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	recorded := strings.SplitAfter(readFile(t, path), "\n")
	line := 0
	for _, part := range parts {
		title, _, _ := strings.Cut(part, "\n")
		for i, got := range strings.SplitAfter(part, "\n") {
			if got == "" {
				continue
			}
			want := "nothing\n"
			if line < len(recorded) {
				want = recorded[line]
			}
			if got != want {
				t.Fatalf("%s, line %d of %s:\n  recorded %s  now      %s", name, i, title, want, got)
			}
			line++
		}
	}
	if line < len(recorded) && recorded[line] != "" {
		t.Errorf("%s: after the last part, %q is recorded", name, recorded[line])
	}
}

// home is the package's directory, whatever directory a test changes to.
var home = func() string {
	dir, err := os.Getwd()
	if err != nil {
		return err.Error()
	}
	return dir
}()

// measured is what a run or a machine decides, in texts and JSON.
var measured = []struct {
	of *regexp.Regexp
	to string
}{
	{regexp.MustCompile(`"(seconds|examples_per_second|peak_rss_bytes)": [0-9.e+]+`), `"$1": masked`},
	{regexp.MustCompile(`in [0-9]+ s \(`), "in masked s ("},
	{regexp.MustCompile(`(epoch .*), [0-9]+ s\n`), "$1\n"}, // a slow machine says so at the end of a line
	// The one has the directory of the data in it, the others the program's version.
	{regexp.MustCompile(`"(config\.yaml|model[a-z-]*\.safetensors)": "[0-9a-f]{64}"`), `"$1": "masked"`},
	{regexp.MustCompile(`privgrad version .*`), "privgrad version masked"},
	{regexp.MustCompile(`(/[^/\s:"']+)+/TestGolden[A-Za-z]+[0-9]+/[0-9]+/`), "HERE/"},
}

// transcript is a command, how it ended and what it printed.
func transcript(stdin string, args ...string) string {
	r := privgradOn(stdin, args...)
	var b strings.Builder
	quoted := make([]string, len(args))
	for i, a := range args {
		if quoted[i] = a; a == "" || strings.ContainsAny(a, " \n\"") {
			quoted[i] = fmt.Sprintf("%q", a)
		}
	}
	fmt.Fprintf(&b, "$ privgrad %s\n", strings.Join(quoted, " "))
	for _, stream := range []struct{ mark, text string }{{"", r.stdout}, {"2> ", r.stderr}} {
		for _, m := range measured {
			stream.text = m.of.ReplaceAllString(stream.text, m.to)
		}
		// A new optimizer changes no recorded line.
		stream.text = strings.ReplaceAll(stream.text, strings.Join(plan.Optimizers(), ", "), "OPTIMIZERS")
		for line := range strings.Lines(stream.text) {
			b.WriteString(stream.mark + strings.TrimSuffix(line, "\n") + "\n")
		}
	}
	fmt.Fprintf(&b, "exit %d\n\n", r.code)
	return b.String()
}

// Every command's help is what it was.
func TestGoldenHelp(t *testing.T) {
	var parts []string
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		path := strings.Fields(c.CommandPath())[1:]
		if len(path) > 0 && path[0] == "completion" {
			return // cobra's own
		}
		parts = append(parts, transcript("", append(path, "--help")...))
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(newRoot())
	golden(t, "help.txt", parts)
}

// Commands whose results follow from their arguments, without data.
func TestGoldenResults(t *testing.T) {
	if !recordable() {
		t.Skip("floating-point numbers are rounded otherwise on this machine than where results were recorded")
	}
	var parts []string
	for _, line := range []string{
		"", "--version",
		"account --noise-multiplier 1.1 --sampling-rate 0.01 --steps 1000 --delta 1e-5",
		"account --noise-multiplier 1.1 --sampling-rate 0.01 --steps 1000 --delta 1e-5 --accountant rdp",
		"account --noise-multiplier 1.1 --sampling-rate 0.01 --steps 1000 --delta 1e-5 --accountant rdp --neighbouring replace-one",
		"account --noise-multiplier 1.1 --sampling-rate 0.01 --steps 1000 --epsilon 2",
		"account --sampling-rate 0.01 --steps 1000 --delta 1e-5",
		"account --noise-multiplier -1 --sampling-rate 0.01 --steps 1000 --delta 1e-5",
		"account --noise-multiplier 1.1 --sampling-rate 2 --steps 1000 --delta 1e-5",
		"account --noise-multiplier 1.1 --sampling-rate 0.01 --steps 1000 --delta 1e-5 --accountant none",
		"calibrate --epsilon 3 --delta 1e-5 --sampling-rate 0.01 --steps 1000 --accountant rdp",
		"calibrate --epsilon 3 --delta 1e-5 --sampling-rate 0.01 --noise-multiplier 1.1 --accountant rdp",
		"calibrate --epsilon 3 --delta 1e-5 --steps 1000 --noise-multiplier 1.1 --accountant rdp",
		"calibrate --epsilon 1e-9 --delta 1e-5 --sampling-rate 0.5 --steps 100000 --accountant rdp",
		"calibrate --epsilon 3 --delta 1e-5",
		"schedule pur-a --n 60000 --dim 784 --rho 0.5",
		"schedule pur-b --n 60000 --dim 784 --rho 0.5",
		"schedule pur-c --n 60000 --dim 784 --strong-convexity 0.001 --rho 0.5",
		"schedule ctcdp --epsilon 0.8 --delta 1e-8 --sampling-rate 0.01 --steps 400",
		"schedule ctcdp --epsilon 0.8 --delta 1e-8 --sampling-rate 0.01 --steps 30",
		"schedule ctcdp --epsilon 0.8 --delta 1e-8 --sampling-rate 0.5 --steps 30",
		"schedule pur-constant --n 60000 --pur-sigma 0.001 --rho 0.5",
		"schedule noisy-gd --n 60000 --steps 100 --epsilon 1 --delta 1e-5",
		"schedule rrpsgd --n 10 --epsilon 1 --delta 1e-3",
		"schedule banco --epsilon 2 --dim 5 --steps 30000",
		"schedule outpert-gd --n 60000 --dim 784 --steps 100 --epsilon 1",
		"schedule outpert-gd --n 60000 --dim 784 --steps 100 --strong-convexity 0.01 --epsilon 1 --delta 1e-6",
		"schedule nothing",
		"l2p list", "l2p list missing.safetensors",
		"data list", "data verify nothing", "data verify mnist", "data fetch nothing",
		"reproduce list", "reproduce nothing",
		"eval missing", "eval",
		"info --model nothing",
	} {
		args := strings.Fields(line)
		parts = append(parts, transcript("", args...))
		if len(args) > 0 && !strings.HasPrefix(args[0], "-") && args[0] != "eval" {
			parts = append(parts, transcript("", append(args, "--json")...))
		}
	}
	for _, events := range []string{
		`[{"mechanism": "gaussian", "noise_multiplier": 5, "count": 3}]`,
		`[{"mechanism": "gaussian", "count": 3}]`, `[{"mechanism": "none"}]`, `[`,
	} {
		parts = append(parts, transcript(events, "account", "--events", "-", "--delta", "1e-5", "--json", "--accountant", "rdp"))
	}
	golden(t, "results.txt", parts)
}

// A run's own words, and those of what looks at it.
func TestGoldenRun(t *testing.T) {
	if !recordable() {
		t.Skip("floating-point numbers are rounded otherwise on this machine than where results were recorded")
	}
	files := mnistFiles(t)
	t.Chdir(t.TempDir())
	if err := os.Rename(files, "data"); err != nil {
		t.Fatal(err)
	}
	run := func(out string, more ...string) []string {
		return append(small("data", "--device", "reference", "--memory", "64MiB", "--noise", "seeded", "--accountant", "rdp", "--out", out), more...)
	}
	var parts []string
	for _, args := range [][]string{
		run("first", "--noise-multiplier", "1"),
		run("first", "--noise-multiplier", "1"),
		run("first", "--noise-multiplier", "1", "--resume"),
		run("first", "--noise-multiplier", "2", "--resume"),
		run("absent", "--noise-multiplier", "1", "--resume"),
		run("json", "--noise-multiplier", "1", "--json", "--average", "0.9"),
		run("plain", "--optimizer", "sgd", "--momentum", "0.9"),
		run("minimum", "--optimizer", "lbfgs", "--data-is-public"),
		run("public", "--noise-multiplier", "0", "--data-is-public"),
		run("loss", "--epsilon", "3", "--train-loss-noise", "2", "--clipping", "adaptive"),
		run("search", "--optimizer", "dp-blsgd", "--epsilon", "3", "--search-iterations", "8", "--search-trials", "3"),
		run("paper", "--optimizer", "dp-blsgd", "--epsilon", "3", "--search-budget", "fixed", "--search-batches", "paper", "--accountant", "pld"),
		run("majority", "--optimizer", "majority", "--epsilon", "1"),
		{"eval", "first", "--device", "reference"}, {"eval", "json", "--average", "--device", "reference", "--json"},
		{"eval", "first", "--average"}, {"data", "verify", "mnist", "--data-dir", "data"},
	} {
		if slices.Contains(args, "lbfgs") || slices.Contains(args, "majority") {
			args = without(args, "--lr", "--sampling-rate", "--steps")
		}
		parts = append(parts, transcript("", args...))
	}
	golden(t, "run.txt", parts)
}

// without leaves out flags that have a value.
func without(args []string, names ...string) (rest []string) {
	for i := 0; i < len(args); i++ {
		if slices.Contains(names, args[i]) {
			i++
		} else {
			rest = append(rest, args[i])
		}
	}
	return rest
}

// recordable says whether arithmetic is rounded here as it was where results were
// recorded: other processors fuse products and sums, or have another exponential.
func recordable() bool {
	h := sha256.New()
	x := 0.1
	for i := range 2000 {
		x = math.Exp(-x) + x*float64(i)*1e-4
		binary.Write(h, binary.LittleEndian, []float64{x, math.Log1p(x), math.Tanh(x), math.Pow(x, 0.3), math.Erfc(x)})
	}
	return runtime.GOARCH == "amd64" && hex.EncodeToString(h.Sum(nil)[:8]) == "47c8e72e335ca4dd"
}
