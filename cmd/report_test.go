package cmd

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/internal/cli"
)

func TestReport(t *testing.T) {
	data, dir := mnistFiles(t), t.TempDir()
	first, second := filepath.Join(dir, "first"), filepath.Join(dir, "second")
	ok(t, small(data, "--epsilon", "3", "--out", first)...)
	ok(t, small(data, "--epsilon", "2", "--out", second)...)
	page := readFile(t, first, "report.html")
	check(t, os.Remove(filepath.Join(first, "report.html")))
	if text := ok(t, "report", first); !strings.Contains(text, "Written: "+filepath.Join(first, "report.html")) || readFile(t, first, "report.html") != page {
		t.Errorf("not the page that train wrote: %s", text)
	}
	both := filepath.Join(dir, "both.html")
	r := object(t, ok(t, "report", first, second, "--out", both, "--json"))
	wantKeys(t, r, "runs", "files", "composed", "copies", "forks", "apart")
	c := r["composed"].([]any)[0].(map[string]any)
	if e := c["epsilon"].(float64); !(e > 3 && e < 5) || c["how"] == "" || !strings.Contains(readFile(t, both), "What the runs cost together") {
		t.Errorf("composed: %v", c)
	}
	if text := ok(t, "report", first, second, "--out", both); !strings.Contains(text, "together: ε = ") || !strings.Contains(text, "upper bound") {
		t.Errorf("%s", text)
	}
	if text := ok(t, "report", first, second, first+"/", "--out", both); !strings.Contains(text, first+"/ is "+first+" or a copy of it, and costs nothing more.") || !strings.Contains(text, "The 2 runs on ") {
		t.Errorf("named twice: %s", text)
	}
	edited := readFile(t, second, "result.json")
	check(t, os.WriteFile(filepath.Join(second, "result.json"), []byte(strings.Replace(edited, `"dataset": "mnist"`, `"dataset": "csv:digits.csv"`, 1)), 0o644))
	const apart = "different names: mnist; csv:digits.csv."
	if text := ok(t, "report", first, second, "--out", both); strings.Contains(text, "together") || !strings.Contains(text, apart) || !strings.Contains(text, "--same-data adds up all runs") {
		t.Errorf("of other names: %s", text)
	}
	if text := ok(t, "report", first, second, "--out", both, "--same-data"); strings.Contains(text, apart) || !strings.Contains(text, "The 2 runs on mnist, csv:digits.csv together") {
		t.Errorf("of the same data: %s", text)
	}
	for _, mine := range []string{filepath.Join(dir, "table.csv"), filepath.Join(first, "model.safetensors")} {
		if mine == filepath.Join(dir, "table.csv") {
			check(t, os.WriteFile(mine, []byte("x,y\n1,2\n"), 0o644))
		}
		text := readFile(t, mine)
		fails(t, cli.ExitUsage, []string{"report", first, "--out", mine}, "exists already, and is no page of privgrad")
		if readFile(t, mine) != text {
			t.Errorf("%s was written over", mine)
		}
	}
	fails(t, cli.ExitUsage, []string{"report"}, "takes a run directory")
	fails(t, cli.ExitUsage, []string{"report", first, second}, "--out")
	fails(t, cli.ExitUsage, []string{"report", dir}, "is no run directory")
}

func TestVerify(t *testing.T) {
	data, run := mnistFiles(t), filepath.Join(t.TempDir(), "run")
	ok(t, small(data, "--epsilon", "3", "--out", run)...)
	text := ok(t, "verify", run)
	for _, want := range []string{"The run claims ε = 3, δ = 1e-05 for one record", "ε, computed again", "pld", "rdp", "does not show that training happened"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in:\n%s", want, text)
		}
	}
	if strings.Contains(text, "DIFFERS") {
		t.Errorf("something differs:\n%s", text)
	}
	v := object(t, ok(t, "verify", run, "--json"))
	wantKeys(t, v, "run", "ok", "epsilon", "checks", "statement", "shows")
	if v["ok"] != true {
		t.Errorf("%v", v)
	}
	path := filepath.Join(run, "result.json")
	b := strings.Replace(readFile(t, path), `"epsilon": 2.9`, `"epsilon": 1.9`, 1)
	check(t, os.WriteFile(path, []byte(b), 0o644))
	got := privgrad("verify", run, "--json")
	var after struct {
		OK     bool
		Checks []struct {
			Name string
			OK   bool
		}
	}
	check(t, json.NewDecoder(strings.NewReader(got.stdout)).Decode(&after))
	found := slices.ContainsFunc(after.Checks, func(c struct {
		Name string
		OK   bool
	}) bool {
		return c.Name == "epsilon" && !c.OK
	})
	if got.code != cli.ExitFailed || after.OK || !found {
		t.Errorf("exit %d: %s %s", got.code, got.stdout, got.stderr)
	}
	if got := privgrad("verify", run); got.code != cli.ExitFailed || !strings.Contains(got.stdout, "DIFFERS  epsilon") {
		t.Errorf("exit %d: %s", got.code, got.stdout)
	}
	fails(t, cli.ExitUsage, []string{"verify"}, "run directory")
	fails(t, cli.ExitUsage, []string{"verify", t.TempDir()}, "is no run directory")
}

// A statement is text, JSON or a page, and about one run.
func TestStatement(t *testing.T) {
	run, page := quick(t), filepath.Join(t.TempDir(), "statement.html")
	text := ok(t, "report", run, "--statement")
	if !strings.HasPrefix(text, "Privacy statement of the run ") || !strings.Contains(text, "1. What is promised") || !strings.Contains(text, "How to check this statement") {
		t.Errorf("%s", text)
	}
	s := object(t, ok(t, "report", run, "--statement", "--json"))
	wantKeys(t, s, "schema_version", "run", "guarantee", "epsilon", "delta", "accountant", "neighbouring", "privacy_unit", "risk", "assumptions", "not_a_guarantee_because",
		"tuning_charged", "defaults_chosen_on", "privgrad_version", "sha256", "sections")
	if s["guarantee"] != true || len(s["sections"].([]any)) != 10 {
		t.Errorf("%v", s)
	}
	if text := ok(t, "report", run, "--statement", "--out", page); text != "Written: "+page+"\n" || !strings.Contains(readFile(t, page), "<h1>Privacy statement of the run") {
		t.Errorf("%s", text)
	}
	if again := ok(t, "report", run, "--statement", "--out", page, "--json"); object(t, again)["schema_version"] != s["schema_version"] { // a page of privgrad may be replaced
		t.Errorf("%s", again)
	}
	mine := filepath.Join(run, "model.safetensors")
	fails(t, cli.ExitUsage, []string{"report", run, "--statement", "--out", mine}, "is no page of privgrad")
	fails(t, cli.ExitUsage, []string{"report", run, run, "--statement"}, "about one run, but 2 were given")
	fails(t, cli.ExitUsage, []string{"report", run, "--statement", "--same-data"}, "--same-data is for several runs")
	fails(t, cli.ExitUsage, []string{"report", "--statement"}, "takes a run directory")
	fails(t, cli.ExitUsage, []string{"report", t.TempDir(), "--statement"}, "is no run directory")
	check(t, os.Remove(mine))
	fails(t, cli.ExitUsage, []string{"report", run, "--statement"}, "model.safetensors", "restore it")
}
