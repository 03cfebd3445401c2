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

	"github.com/privgrad/privgrad/internal/config"
)

// What the command prints is recorded in testdata/golden, and its help in the page of the
// reference. A change that means to change no word keeps it; any other writes it anew, for
// its diff to be read:
//
//	go test ./cmd -run TestGolden -update
var update = flag.Bool("update", false, "write testdata/golden and pages of the reference anew")

// shortened is a part with its first and last lines alone, and the digest of all, where
// it has more than 4000 bytes.
func shortened(part string) string {
	const most, first, last = 4000, 25, 5
	lines := strings.SplitAfter(part, "\n")
	if len(part) <= most || len(lines) <= first+last+1 {
		return part
	}
	return fmt.Sprintf("%s… %d lines; SHA-256 of all that is printed here: %x\n%s", strings.Join(lines[:first], ""),
		len(lines)-first-last, sha256.Sum256([]byte(part)), strings.Join(lines[len(lines)-last:], ""))
}

// golden compares what was printed with a file of such parts, or writes the file.
func golden(t *testing.T, name string, parts []string) {
	t.Helper()
	path := filepath.Join(home, "testdata", "golden", name)
	short := make([]string, len(parts))
	for i, part := range parts {
		short[i] = shortened(part)
	}
	if *update {
		check(t, os.MkdirAll(filepath.Dir(path), 0o755))
		check(t, os.WriteFile(path, []byte(strings.Join(short, "")), 0o644))
		return
	}
	if d := difference(readFile(t, path), short); d != "" {
		t.Errorf("%s%s", name, d)
	}
}

// difference says where parts first differ from what is recorded.
func difference(text string, parts []string) string {
	recorded := strings.SplitAfter(text, "\n")
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
				where := ""
				if strings.HasPrefix(got, "… ") && strings.HasPrefix(want, "… ") {
					where = ", behind the kept lines: run it in both versions to see where"
				}
				return fmt.Sprintf(", line %d of %s%s:\n  recorded %s  now      %s", i, title, where, want, got)
			}
			line++
		}
	}
	if line < len(recorded) && recorded[line] != "" {
		return fmt.Sprintf(": after the last part, %q is recorded", recorded[line])
	}
	return ""
}

// Any change of a long part shows, too.
func TestGoldenShort(t *testing.T) {
	lines := strings.Split("$ privgrad long\n"+strings.Repeat(strings.Repeat("x", 99)+"\n", 50)+"exit 0\n", "\n")
	long := func(changed int) []string {
		now := slices.Clone(lines)
		if changed >= 0 {
			now[changed] += "y"
		}
		return []string{"$ privgrad\nexit 0\n\n", shortened(strings.Join(now, "\n") + "\n")}
	}
	recorded := strings.Join(long(-1), "")
	if len(recorded) > 3500 {
		t.Errorf("%d bytes are kept", len(recorded))
	}
	if d := difference(recorded, long(-1)); d != "" {
		t.Error("a part differs from itself" + d)
	}
	for i, says := range map[int]string{3: "line 3 of $ privgrad long:", 30: "behind the kept lines", 50: "of $ privgrad long"} {
		if d := difference(recorded, long(i)); !strings.Contains(d, says) {
			t.Errorf("line %d changed, and what is said is %q", i, d)
		}
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
		stream.text = strings.ReplaceAll(stream.text, strings.Join(config.Optimizers(), ", "), "OPTIMIZERS")
		for line := range strings.Lines(stream.text) {
			b.WriteString(stream.mark + strings.TrimSuffix(line, "\n") + "\n")
		}
	}
	fmt.Fprintf(&b, "exit %d\n\n", r.code)
	return b.String()
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
		"schedule rrpsgd --n 10 --epsilon 1 --delta 1e-3",
		"schedule banco --epsilon 2 --dim 5 --steps 30000",
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
	check(t, os.Rename(files, "data"))
	check(t, os.WriteFile("search.yaml", []byte("search: {iterations: 8, trials: 3}\n"), 0o644))
	check(t, os.WriteFile("paper.yaml", []byte("search: {batches: paper}\n"), 0o644))
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
		run("search", "--optimizer", "dp-blsgd", "--epsilon", "3", "-c", "search.yaml"),
		run("paper", "--optimizer", "dp-blsgd", "--epsilon", "3", "--search-budget", "fixed", "-c", "paper.yaml", "--accountant", "pld"),
		run("views", "--noise-multiplier", "1", "--views", "2", "--augment", "flip,crop"),
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
