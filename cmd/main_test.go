package cmd

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/accountant/ledger"
	"github.com/privgrad/privgrad/internal/cli"
	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/train"
)

// TestMain lets the test binary stand in for the command, so that tests can
// send it signals and limit its files.
func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		child()
	}
	os.Unsetenv(config.DataDirVariable)
	os.Exit(m.Run())
}

const childVariable = "PRIVGRAD_TEST_CHILD"

// ran is how a command ended.
type ran struct {
	code           int
	stdout, stderr string
}

func privgrad(args ...string) ran { return privgradOn("", args...) }

func privgradOn(stdin string, args ...string) ran {
	var out, err strings.Builder
	code := run(append([]string{}, args...), strings.NewReader(stdin), &out, &err)
	return ran{code, out.String(), err.String()}
}

// A run whose ε is none begins with one of these on standard error.
const (
	seededWarning = "privgrad: warning: NOT PRIVATE: seeded noise, whoever knows the seed can subtract it\n"
	paperWarning  = "privgrad: warning: NO GUARANTEE: " + accountant.WhyNotPaper + "\n"
)

// evaluationLine is what a run says as it goes, and once it had finished.
var evaluationLine = regexp.MustCompile(`(?m)^privgrad: (recipe: best .*|epoch [0-9.e+-]+(, .*)?|preparing the features: [0-9]+%|features of the (training|test) images: [0-9]+%|measuring the time of some steps on made-up records|training says nothing of records .* privgrad data verify .*|the run in .* had finished; .*)\n`)

// doubt warns of what short runs with too little or too much noise have.
var doubt = regexp.MustCompile(`privgrad: warning: (epsilon \S+ promises next to nothing|the noise drowns the gradients).*\n`)

// ok runs a command that must succeed, in silence but for its result.
func ok(t *testing.T, args ...string) string {
	t.Helper()
	r := privgrad(args...)
	if warned := strings.TrimPrefix(strings.TrimPrefix(doubt.ReplaceAllString(evaluationLine.ReplaceAllString(r.stderr, ""), ""), seededWarning), paperWarning); r.code != cli.ExitDone || warned != "" {
		t.Fatalf("privgrad %s: exit %d, %s", strings.Join(args, " "), r.code, r.stderr)
	}
	return r.stdout
}

// fails runs a command that must fail with one line that says all of want, and
// with nothing on standard output.
func fails(t *testing.T, code int, args []string, want ...string) {
	t.Helper()
	r := privgrad(args...)
	if slices.Contains(args, "--json") {
		failure := object(t, r.stdout)["error"].(map[string]any)
		if failure["exit_code"] != float64(code) || "privgrad: "+failure["message"].(string)+"\n" != r.stderr {
			t.Errorf("privgrad %s: the object says %v, standard error %q", strings.Join(args, " "), failure, r.stderr)
		}
		r.stdout = ""
	}
	if r.code != code || r.stdout != "" {
		t.Errorf("privgrad %s: exit %d, want %d; printed %q; said %q", strings.Join(args, " "), r.code, code, r.stdout, r.stderr)
	}
	if !strings.HasPrefix(r.stderr, "privgrad: ") || strings.Count(r.stderr, "\n") != 1 {
		t.Errorf("privgrad %s: want one line, got %q", strings.Join(args, " "), r.stderr)
	}
	for _, w := range want {
		if !strings.Contains(r.stderr, w) {
			t.Errorf("privgrad %s: %q does not say %q", strings.Join(args, " "), r.stderr, w)
		}
	}
}

// object decodes what must be exactly one JSON object.
func object(t *testing.T, text string) map[string]any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	var o map[string]any
	if err := d.Decode(&o); err != nil {
		t.Fatalf("%v in %q", err, text)
	}
	if _, err := d.Token(); err != io.EOF {
		t.Fatalf("something follows the JSON object in %q", text)
	}
	return o
}

func wantKeys(t *testing.T, o map[string]any, want ...string) {
	t.Helper()
	slices.Sort(want)
	if got := slices.Sorted(maps.Keys(o)); !slices.Equal(got, want) {
		t.Errorf("keys are\n%q, want\n%q", got, want)
	}
}

// The number of training records in the files that tests write, which nothing
// may say.
const trainRows = 311

// idx writes an IDX file of unsigned bytes.
func idx(t *testing.T, path string, payload []byte, dims ...int) {
	t.Helper()
	b := []byte{0, 0, 8, byte(len(dims))}
	for _, d := range dims {
		b = binary.BigEndian.AppendUint32(b, uint32(d))
	}
	check(t, os.WriteFile(path, append(b, payload...), 0o644))
}

// mnistFiles writes a small set in MNIST's layout: class k is bright in band k.
func mnistFiles(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	random := rand.New(rand.NewPCG(1, 2))
	for _, part := range []struct {
		prefix string
		rows   int
	}{{"train", trainRows}, {"t10k", 97}} {
		prefix, rows := part.prefix, part.rows
		labels, pixels := make([]byte, rows), make([]byte, rows*784)
		for i := range labels {
			labels[i] = byte(i % 10)
			for j := range 784 {
				pixels[i*784+j] = byte(random.IntN(100))
				if j/79 == i%10 {
					pixels[i*784+j] += 150
				}
			}
		}
		idx(t, filepath.Join(dir, prefix+"-images-idx3-ubyte"), pixels, rows, 28, 28)
		idx(t, filepath.Join(dir, prefix+"-labels-idx1-ubyte"), labels, rows)
	}
	return dir
}

// small is a short training run on such files.
func small(dataDir string, more ...string) []string {
	return append([]string{"train", "--data", "mnist", "--data-dir", dataDir, "--published-set", "--model", "logistic", "--classes", "3,5",
		"--sampling-rate", "0.5", "--steps", "4", "--lr", "0.5", "--threads", "1"}, more...)
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func readFile(t *testing.T, elem ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(elem...))
	check(t, err)
	return string(b)
}

func TestUnknownCommandsAndFlags(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"trian"}, "did you mean train?"},
		{[]string{"portray"}, `unknown command "portray"`},
		{[]string{"report"}, "a run directory"},
		{[]string{"data", "lst"}, "did you mean list?"},
		{[]string{"bench", "gemv"}, "did you mean gemm?"},
		{[]string{"completion", "perl"}, `unknown command "perl"`},
		{[]string{"help", "nothing"}, `unknown command "nothing"`},
		{[]string{"help", "data", "nothing"}, `unknown command "nothing"`},
		{[]string{"trian", "--epsilon", "3"}, "did you mean train?"}, // and not: an unknown flag
		{[]string{"train", "--learning-rate", "1"}, "unknown flag: --learning-rate (here it is --lr)"},
		{[]string{"account", "--target-delta", "1e-5"}, "(here it is --delta)"},
		{[]string{"account", "--n", "5000"}, "unknown flag: --n (here it is --public-n)"},
		{[]string{"train", "--dataset-size", "5000"}, "(here it is --public-n)"},
		{[]string{"version"}, "(it is a flag: --version)"},
		{[]string{"train", "--protectors", "x"}, "unknown flag: --protectors (did you mean --protector?)"},
		{[]string{"train", "--epsilom", "3"}, "did you mean --epsilon?"},
		{[]string{"help", "privcy"}, "did you mean privacy?"},
		{[]string{"info", "-z"}, "-z"},
		{[]string{"train", "now"}, "no argument"},
		{[]string{"eval"}, "a run directory"},
		{[]string{"eval", "a", "b"}, "given 2"},
		{[]string{"data", "fetch"}, "the name of a data set"},
		{[]string{"train", "--epsilon"}, "--epsilon"},
	} {
		fails(t, cli.ExitUsage, c.args, c.want, "--help")
	}
}

func TestHelpTeaches(t *testing.T) {
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		path := strings.Fields(c.CommandPath())[1:]
		if len(path) > 0 && path[0] == "completion" {
			return // cobra's own
		}
		help := ok(t, append(path, "--help")...)
		if again := ok(t, append([]string{"help"}, path...)...); again != help {
			t.Errorf("help %s differs from --help", c.CommandPath())
		}
		if c.Long == "" || c.Short == "" || !strings.Contains(help, "Examples:\n") {
			t.Errorf("%s does not teach", c.CommandPath())
		}
		for line := range strings.Lines(c.Example) {
			line, _, _ = strings.Cut(line, " #")
			_, line, found := strings.Cut(line, "privgrad ")
			if !found {
				t.Errorf("%s: example %q does not call privgrad", c.CommandPath(), line)
				continue
			}
			called, rest, err := newRoot().Find(strings.Fields(line))
			if err == nil {
				err = called.ParseFlags(rest)
			}
			if err == nil {
				err = called.ValidateArgs(called.Flags().Args())
			}
			if err != nil {
				t.Errorf("example `privgrad %s`: %v", line, err)
			}
		}
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(newRoot())
	if got := ok(t); got != ok(t, "--help") {
		t.Error("privgrad alone does not show its help")
	}
	if got := ok(t, "--version"); !strings.HasPrefix(got, "privgrad version ") {
		t.Errorf("--version prints %q", got)
	}
}

// ending runs a command that ends in a given way.
func ending(f func() error) ran {
	var out, errs strings.Builder
	root := newRoot()
	root.SetOut(&out)
	root.SetErr(&errs)
	root.AddCommand(&cobra.Command{Use: "end", RunE: func(*cobra.Command, []string) error { return f() }})
	return ran{cli.Execute(root, []string{"end"}), out.String(), errs.String()}
}

func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		err  error
		code int
	}{
		{nil, 0},
		{errors.New("broke"), 1},
		{fmt.Errorf("run: %w", train.ErrInterrupted), 130},
		{fmt.Errorf("audit: %w", context.Canceled), 130},
		{fmt.Errorf("run: %w", &train.UsageError{Err: errors.New("bad")}), 2},
		{fmt.Errorf("ledger: %w", ledger.ErrExhausted), 3},
		{&train.UsageError{Err: fmt.Errorf("ledger: %w", ledger.ErrExhausted)}, 3},
	} {
		r := ending(func() error { return c.err })
		if r.code != c.code {
			t.Errorf("%v: exit %d, want %d", c.err, r.code, c.code)
		}
		if c.err == nil {
			continue
		}
		text := strings.Replace(c.err.Error(), "context canceled", "interrupted", 1) // Go's words are not for users
		if r.stderr != "privgrad: "+text+"\n" {
			t.Errorf("%v: said %q", c.err, r.stderr)
		}
	}
	if r := ending(func() error { return errors.New("one\n\n  two\n") }); r.stderr != "privgrad: one; two\n" {
		t.Errorf("lines were not joined: %q", r.stderr)
	}
}

func TestPanicIsALine(t *testing.T) {
	secret := []int{41, 42, 43}
	for name, f := range map[string]func() error{
		"index": func() error { return fmt.Errorf("%d", secret[len(secret)]) },
		"value": func() error { panic(fmt.Sprint("a record: ", secret)) },
	} {
		r := ending(f)
		if r.code != cli.ExitFailed || r.stdout != "" || strings.Count(r.stderr, "\n") != 1 ||
			!strings.Contains(r.stderr, "internal error") || !strings.Contains(r.stderr, "report") ||
			!strings.Contains(r.stderr, "cmd/main_test.go:") {
			t.Errorf("%s: exit %d, %q", name, r.code, r.stderr)
		}
		if strings.Contains(r.stderr, "range") || strings.Contains(r.stderr, "length") {
			t.Errorf("%s: the line counts what the program worked on: %q", name, r.stderr)
		}
		if strings.Contains(r.stderr, "42") || strings.Contains(r.stderr, "goroutine") {
			t.Errorf("%s: the line says too much: %q", name, r.stderr)
		}
	}
}

// failing is an output on a full disk.
type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestResultThatCannotBeWritten(t *testing.T) {
	var errs strings.Builder
	code := run([]string{"data", "list", "--json"}, strings.NewReader(""), failing{}, &errs)
	if code != cli.ExitFailed || errs.String() != "privgrad: writing the result: no space left\n" {
		t.Errorf("exit %d, %q", code, errs.String())
	}
}

// Every flag with a closed list of values says which one was meant, at least for a slip.
func TestMeantValues(t *testing.T) {
	for meant, args := range map[string][]string{
		"pld":          {"calibrate", "--epsilon", "3", "--delta", "1e-5", "--sampling-rate", "0.01", "--steps", "10", "--accountant", "pdl"},
		"rdp":          {"account", "--noise-multiplier", "1", "--delta", "1e-5", "--accountant", "rpd"},
		"replace-one":  {"account", "--noise-multiplier", "1", "--delta", "1e-5", "--neighboring", "replace-on"},
		"cosine":       {"train", "--epsilon", "3", "--lr-schedule", "cosin"},
		"quadratic":    {"train", "--epsilon", "3", "--optimizer", "l2p", "--protector", "quadratc"},
		"curve":        {"train", "--epsilon", "3", "--optimizer", "dp-blsgd", "--search-form", "crve"},
		"cuda":         {"train", "--epsilon", "3", "--device", "cdua"},
		"json":         {"train", "--epsilon", "3", "--log-format", "jsn"},
		"auto":         {"train", "--epsilon", "3", "--progress", "atuo"},
		"csv:mine.csv": {"train", "--epsilon", "3", "--data", "mine.csv"},
		"npz:":         {"train", "--epsilon", "3", "--data", "nzp:x"},
		"gradient":     {"audit", "--canary", "gradent"},
		"cnn-mnist":    {"info", "--model", "cnn-mnits"},
		"tanh":         {"info", "--model", "cnn-mnist", "--activation", "tahn"},
		"private":      {"bench", "step", "--mode", "privat"},
		"mlp":          {"l2p", "train", "--data", "gaussians", "--model", "mpl", "--out", "x.safetensors"},
		"fmnist":       {"data", "verify", "fmnst", "--class-names", "a,b"},
	} {
		fails(t, cli.ExitUsage, args, "did you mean "+meant)
	}
}
