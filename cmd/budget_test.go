package cmd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/internal/cli"
)

// spent is what a budget says of itself.
func spent(t *testing.T, file string) map[string]any {
	t.Helper()
	return object(t, ok(t, "budget", "show", file, "--json"))
}

// pays runs a command that pays and must go well, and gives what it says on standard error.
func pays(t *testing.T, args ...string) string {
	t.Helper()
	r := privgrad(args...)
	if r.code != cli.ExitDone {
		t.Fatalf("privgrad %s: exit %d, %s", strings.Join(args, " "), r.code, r.stderr)
	}
	return r.stderr
}

// Runs pay from a budget until it is spent. What is refused leaves no trace.
func TestBudget(t *testing.T) {
	data, dir := mnistFiles(t), t.TempDir()
	file, at := filepath.Join(dir, "b.json"), func(name string) string { return filepath.Join(dir, name) }
	train := func(name string, more ...string) []string {
		return small(data, append([]string{"--epsilon", "1", "--delta", "1e-6", "--budget", file, "--out", at(name)}, more...)...)
	}
	created := ok(t, "budget", "create", file, "--data", "mnist", "--epsilon", "2", "--delta", "1e-5")
	if !strings.Contains(created, "ε = 2, δ = 1e-05 for one record (add-remove)") {
		t.Errorf("create says %s", created)
	}
	empty := readFile(t, file)
	fails(t, cli.ExitUsage, []string{"budget", "create", file, "--data", "mnist", "--epsilon", "2", "--delta", "1e-5"}, "exists already")

	unchanged := func(was, run string) {
		t.Helper()
		if readFile(t, file) != was {
			t.Error("the budget has changed")
		}
		if _, err := os.Stat(at(run)); err == nil {
			t.Errorf("%s was made", run)
		}
	}
	for _, c := range []struct {
		more []string
		want string
	}{
		{[]string{"--noise", "seeded"}, "has none: NOT PRIVATE"},
		{[]string{"--accountant", "paper"}, "has none"},
		{[]string{"--data-is-public"}, "un-noised training statistics"},
		{[]string{"--neighbouring", "replace-one"}, "for neighbouring relation add-remove, and the run has replace-one"},
		{[]string{"--data", "fmnist", "--data-dir", "", "--published-set=false"}, "for data set mnist, and the run has fmnist"},
		{[]string{"--budget", at("none.json")}, "there is no budget"},
	} {
		for _, dry := range [][]string{nil, {"--dry-run"}} {
			args := append(train("refused", c.more...), dry...)
			if r := privgrad(args...); r.code != cli.ExitUsage || !strings.Contains(r.stderr, c.want) {
				t.Errorf("%v: exit %d, %s, want %q", c.more, r.code, r.stderr, c.want)
			}
			unchanged(empty, "refused")
		}
	}
	noEpsilon := small(data, "--noise-multiplier", "0", "--budget", file, "--out", at("refused"))
	fails(t, cli.ExitUsage, noEpsilon, "no noise was added")

	planned := object(t, ok(t, append(train("first"), "--dry-run", "--json")...))["budget"].(map[string]any)
	unchanged(empty, "first")
	if said := pays(t, train("first")...); !strings.Contains(said, "takes ε from 0 to ") {
		t.Errorf("paying says %s", said)
	}
	s := spent(t, file)
	wantKeys(t, s, "file", "id", "created", "data", "neighbouring", "privacy_unit", "epsilon", "delta", "order", "divergence", "spent_epsilon", "runs_delta", "left_epsilon",
		"runs", "declared", "joint_epsilon", "checks")
	if s["spent_epsilon"] != planned["spent_epsilon"] || s["epsilon"] != 2.0 || s["delta"] != 1e-5 || len(s["runs"].([]any)) != 1 {
		t.Errorf("after one run: %v; the dry run said %v", s, planned)
	}
	first := s["runs"].([]any)[0].(map[string]any)
	if first["name"] != "first" || first["settings"] == "" || first["spent_epsilon"] != s["spent_epsilon"] {
		t.Errorf("the first entry: %v", first)
	}
	csv := at("runs.csv")
	ok(t, "budget", "show", file, "--csv", csv)
	if lines := strings.Split(readFile(t, csv), "\n"); len(lines) != 3 || !strings.HasPrefix(lines[0], "number,paid,name,run,") || !strings.Contains(lines[1], first["run"].(string)) {
		t.Errorf("the table: %q", lines)
	}

	one := readFile(t, file)
	pays(t, train("second")...)
	whole := readFile(t, file)
	refused := privgrad(append(train("third"), "--epsilon", "2")...)
	if refused.code != cli.ExitRefused || !strings.Contains(refused.stderr, "left of 2") {
		t.Errorf("a run too many: exit %d, %s", refused.code, refused.stderr)
	}
	unchanged(whole, "third")
	if r := privgrad(append(train("third"), "--epsilon", "2", "--dry-run")...); r.code != cli.ExitRefused {
		t.Errorf("a dry run of one too many: exit %d, %s", r.code, r.stderr)
	}

	// An older copy of the budget is found by the run that it lacks.
	ok(t, "budget", "show", file, at("first"), at("second"))
	check(t, os.WriteFile(file, []byte(one), 0o600))
	ok(t, "verify", at("first"))
	for _, args := range [][]string{{"budget", "show", file, at("first"), at("second")}, {"verify", at("second")}} {
		if r := privgrad(args...); r.code != cli.ExitFailed || !strings.Contains(r.stdout, "has lost entry 2") {
			t.Errorf("%v of an older copy: exit %d, %s", args, r.code, r.stdout)
		}
	}
	check(t, os.Remove(filepath.Join(at("second"), "result.json")))
	fails(t, cli.ExitUsage, []string{"resume", at("second")}, "has lost entry 2")
	check(t, os.WriteFile(file, []byte(whole), 0o600))
	ok(t, "verify", at("first"))
}

// A run that goes on pays nothing, unless its directory is another.
func TestBudgetResumes(t *testing.T) {
	data, dir := mnistFiles(t), t.TempDir()
	file, run, twin := filepath.Join(dir, "b.json"), filepath.Join(dir, "run"), filepath.Join(dir, "twin")
	ok(t, "budget", "create", file, "--data", "mnist", "--epsilon", "2", "--delta", "1e-5")
	args := small(data, "--epsilon", "1", "--delta", "1e-6", "--out", run)
	pays(t, append(args, "--budget", file)...)
	check(t, os.Remove(filepath.Join(run, "result.json"))) // as if it had been killed
	paid := readFile(t, file)
	if said := pays(t, "resume", run); !strings.Contains(said, "has paid for this run before") || readFile(t, file) != paid {
		t.Errorf("going on: %s", said)
	}
	check(t, os.Remove(filepath.Join(run, "result.json")))
	fails(t, cli.ExitUsage, append(args, "--resume"), "is paid for by a budget: name its file by --budget")

	// The budget may move; the run says where it is.
	moved := filepath.Join(dir, "moved.json")
	check(t, os.Rename(file, moved))
	pays(t, "resume", run, "--budget", moved)
	if readFile(t, moved) != paid {
		t.Error("a budget that moved was paid from again")
	}

	check(t, os.CopyFS(twin, os.DirFS(run)))
	check(t, os.Remove(filepath.Join(twin, "result.json")))
	if said := pays(t, "resume", twin, "--budget", moved); !strings.Contains(said, "it has paid again") {
		t.Errorf("a copy goes on: %s", said)
	}
	runs := spent(t, moved)["runs"].([]any)
	if last := runs[len(runs)-1].(map[string]any); len(runs) != 2 || last["again"] != true || last["run"] != runs[0].(map[string]any)["run"] {
		t.Errorf("a copy has paid: %v", runs)
	}
	ok(t, "budget", "show", moved, run, twin)
}

// Runs that are declared together are priced as one, and begin once each.
func TestBudgetDeclared(t *testing.T) {
	data, dir := mnistFiles(t), t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	settings := "data: mnist\ndata_dir: " + data + "\npublished_set: true\nmodel: logistic\nclasses: [3, 5]\nsampling_rate: 0.5\nsteps: 4\ndelta: 1e-6\nthreads: 1\n"
	check(t, os.WriteFile(at("a.yaml"), []byte(settings+"epsilon: 1\nlr: 0.5\n"), 0o600))
	check(t, os.WriteFile(at("b.yaml"), []byte(settings+"epsilon: 1\nlr: 0.25\n"), 0o600))
	create := func(epsilon, file string) []string {
		return []string{"budget", "create", at(file), "--data", "mnist", "--epsilon", epsilon, "--delta", "1e-5", "--runs", at("a.yaml") + "," + at("b.yaml")}
	}
	fails(t, cli.ExitRefused, create("1", "small.json"), "together")
	if _, err := os.Stat(at("small.json")); err == nil {
		t.Error("a budget that is too small was made")
	}
	ok(t, create("1.5", "b.json")...)
	train := func(name string, more ...string) []string {
		return append([]string{"train", "-c", at(name + ".yaml"), "--budget", at("b.json"), "--out", at(name)}, more...)
	}
	fails(t, cli.ExitRefused, train("a", "--lr", "0.75"), "takes only the runs that were declared")
	if _, err := os.Stat(at("a")); err == nil {
		t.Error("a refused run has a directory")
	}
	pays(t, train("a")...)
	s := spent(t, at("b.json"))
	if joint := s["joint_epsilon"].(float64); !(joint > 1 && joint < 1.5) || s["spent_epsilon"] != joint {
		t.Errorf("one of two declared runs: %v", s)
	}
	fails(t, cli.ExitRefused, train("a", "--out", at("again")), "(left: "+at("b.yaml")+")")
	pays(t, train("b")...)
	fails(t, cli.ExitRefused, train("b", "--out", at("again")), "(left: none)")
}
