package compare

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/internal/plan"
)

// fakeVariable names a directory; with it the test binary stands in for the
// Python interpreter and for the program, and notes there how it was called.
const (
	fakeVariable  = "PRIVGRAD_TEST_FAKE"
	brokenFake    = "PRIVGRAD_TEST_BROKEN" // a mode that fails
	missingFake   = "PRIVGRAD_TEST_MISSING"
	differentFake = "PRIVGRAD_TEST_DIFFERENT" // a mode that does another step
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(fakeVariable); dir != "" {
		os.Exit(fake(dir, os.Args[1:]))
	}
	os.Exit(m.Run())
}

// fakeSeconds are the times of steps in the first round; the second round
// takes three times as long, the third twice.
var fakeSeconds = map[string]float64{
	"privgrad private": 0.010, "privgrad plain": 0.005,
	"torch func-graphs": 0.025, "torch plain-graphs": 0.01, "torch plain-best": 0.008, "opacus hooks": 0.08, "opacus ghost": 0.04, "torch func": 0.2, "torch func-compiled": 0.03, "jax vmap": 0.05,
	"torch plain": 0.02, "torch plain-compiled": 0.0125, "jax plain": 0.04,
}

func fake(dir string, args []string) int {
	script := filepath.Base(args[0])
	if script == "installed.py" {
		found := map[string]string{"python": "3.99", "torch": "2.0", "opacus": "1.0", "jax": "0.5"}
		delete(found, os.Getenv(missingFake))
		_ = json.NewEncoder(os.Stdout).Encode(found)
		return 0
	}
	flag := func(name string) string { return args[slices.Index(args, name)+1] }
	mode, model := flag("--mode"), flag("--model")
	name := "torch"
	switch {
	case script == "bench":
		name = ours
	case script == "jax_steps.py":
		name = "jax"
	case mode == "hooks" || mode == "ghost":
		name = "opacus"
	}
	label := name + " " + mode
	log := filepath.Join(dir, "calls")
	before, _ := os.ReadFile(log)
	f, err := os.OpenFile(log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return 9
	}
	fmt.Fprintf(f, "%s on %s: %s %s %d\n", label, model, os.Getenv("OMP_NUM_THREADS"), os.Getenv("GOMAXPROCS"), runtime.NumCPU())
	f.Close()
	if mode == os.Getenv(brokenFake) {
		fmt.Fprintln(os.Stderr, "Traceback (most recent call last):\n  somewhere\nMemoryError: too big")
		return 3
	}
	info, err := plan.Model(model)
	if err != nil {
		return 8
	}
	parameters := info.Parameters
	if mode == os.Getenv(differentFake) {
		parameters++
	}
	round := strings.Count(string(before), label+" on "+model)
	if name == ours { // several in a round
		round = strings.Count(string(before), "jax plain on "+model)
	}
	if flag("--device") == "cuda" {
		fmt.Printf(`{"step_seconds_waited_median": %v, "form": "one of several", `, 2*fakeSeconds[label])
	} else {
		fmt.Print("{")
	}
	fmt.Printf(`"model": %q, "precision": %q, "batch": %s, "parameters": %d, "step_seconds_median": %v, "peak_rss_bytes": %d, "more": 1}`+"\n",
		model, flag("--precision"), flag("--batch"), parameters, fakeSeconds[label]*[]float64{1, 3, 2}[round%3], int64(len(label)+round)<<20)
	return 0
}
