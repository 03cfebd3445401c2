package cmd

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/internal/cli"
)

var accountKeys = []string{"epsilon", "delta", "accountant", "neighbouring", "order", "interval", "events", "guarantee", "not_a_guarantee_because", "risk", "warnings"}

func near(t *testing.T, what string, got any, want, tolerance float64) {
	t.Helper()
	if x, ok := got.(float64); !ok || math.Abs(x-want) > tolerance*math.Abs(want) {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

func TestAccount(t *testing.T) {
	one := []string{"account", "--accountant", "rdp", "--noise-multiplier", "2", "--sampling-rate", "1", "--steps", "8", "--json"}
	// Without sampling the curve is T·α/(2σ²), so that at σ = 2, T = 8 the order α costs α.
	r := object(t, ok(t, append(one, "--delta", "1e-5", "--order", "3.5")...))
	wantKeys(t, r, append([]string{"rdp"}, accountKeys...)...)
	near(t, "rdp", r["rdp"], 3.5, 1e-12)
	least := math.Inf(1)
	for a := 1.1; a < 64; a += 0.1 {
		least = min(least, a+math.Log1p(-1/a)-math.Log(1e-5*a)/(a-1))
	}
	near(t, "epsilon", r["epsilon"], least, 1e-9)
	if r["guarantee"] != true || r["accountant"] != "rdp" || r["neighbouring"] != "add-remove" || r["interval"] != nil || r["delta"] != 1e-5 {
		t.Errorf("account %v", r)
	}

	// The default is the loss distribution's interval: here the exact analytic Gaussian's (μ = √2).
	exact := object(t, ok(t, "account", "--noise-multiplier", "2", "--sampling-rate", "1", "--steps", "8", "--delta", "1e-5", "--json"))
	wantKeys(t, exact, accountKeys...)
	near(t, "epsilon", exact["epsilon"], 6.5729700670, 1e-9)
	ends, isObject := exact["interval"].(map[string]any)
	if !isObject || ends["upper"] != exact["epsilon"] || exact["accountant"] != "pld" || exact["order"] != nil {
		t.Errorf("account %v", exact)
	}

	// δ at that ε is the δ we came from.
	back := object(t, ok(t, append(one, "--epsilon", "8")...))
	wantKeys(t, back, accountKeys...)
	again := object(t, ok(t, append(one, "--delta", ftoa(back["delta"]))...))
	near(t, "epsilon of delta of 8", again["epsilon"], 8, 1e-9)

	// An exchanged record moves a sum by twice as much.
	twice := object(t, ok(t, append(one, "--delta", "1e-5", "--neighbouring", "replace-one", "--order", "3.5")...))
	near(t, "replace-one rdp", twice["rdp"], 4*3.5, 1e-12)

	r = object(t, ok(t, append(one, "--delta", "1e-5", "--accountant", "paper")...))
	if r["guarantee"] != false || len(r["not_a_guarantee_because"].([]any)) != 1 {
		t.Errorf("paper account %v", r)
	}
	r = object(t, ok(t, "account", "--noise-multiplier", "0", "--delta", "1e-5", "--order", "2", "--json"))
	wantKeys(t, r, append([]string{"rdp"}, accountKeys...)...)
	if r["epsilon"] != nil || r["rdp"] != nil || r["order"] != nil || r["guarantee"] != false {
		t.Errorf("account without noise %v", r)
	}
}

func ftoa(x any) string {
	b, _ := json.Marshal(x)
	return string(b)
}

func TestAccountEvents(t *testing.T) {
	list := `[{"batch":{"poisson":0.01,"mechanisms":[{"mechanism":"gaussian","noise_multiplier":1.0}]},"count":1000},
		{"mechanism":"gaussian","noise_multiplier":5,"count":3}]`
	file := filepath.Join(t.TempDir(), "events.json")
	check(t, os.WriteFile(file, []byte(list), 0o644))
	text := ok(t, "account", "--events", file, "--delta", "1e-5", "--json", "--order", "8")
	r := object(t, text)
	wantKeys(t, r, append([]string{"rdp"}, accountKeys...)...)
	if len(r["events"].([]any)) != 2 {
		t.Errorf("events %v", r["events"])
	}
	alone := object(t, ok(t, "account", "--noise-multiplier", "1", "--sampling-rate", "0.01", "--steps", "1000", "--delta", "1e-5", "--order", "8", "--json"))
	near(t, "rdp of the list", r["rdp"], alone["rdp"].(float64)+3*8/(2*25.), 1e-12)
	piped := privgradOn(list, "account", "--events", "-", "--delta", "1e-5", "--json", "--order", "8")
	if piped.code != cli.ExitDone || piped.stdout != text {
		t.Errorf("from standard input: exit %d, %s%s", piped.code, piped.stdout, piped.stderr)
	}

	human := ok(t, "account", "--events", file, "--delta", "1e-5")
	for _, want := range []string{"ε = ", "1000 × gaussian with noise multiplier 1 on a poisson batch at rate 0.01", "3 × gaussian with noise multiplier 5 on all records"} {
		if !strings.Contains(human, want) {
			t.Errorf("account does not show %q:\n%s", want, human)
		}
	}
	if human := ok(t, "account", "--noise-multiplier", "1", "--delta", "1e-5", "--accountant", "paper"); !strings.Contains(human, "NO GUARANTEE") {
		t.Errorf("the paper's figure passes for a guarantee:\n%s", human)
	}
}

func TestAccountRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "events.json")
	check(t, os.WriteFile(file, []byte(`[{"mechanism":"gaussian","sigma":5}]`), 0o644))
	for _, c := range []struct{ args, want string }{
		{"--delta 1e-5", "--noise-multiplier"},
		{"--noise-multiplier 1", "--delta"},
		{"--noise-multiplier 1 --delta 1e-5 --epsilon 1", "--epsilon"},
		{"--noise-multiplier x --delta 1e-5", "--noise-multiplier"},
		{"--noise-multiplier 1 --steps 0 --delta 1e-5", "steps 0"},
		{"--events nowhere.json --delta 1e-5", "nowhere.json"},
		{"--events " + file + " --delta 1e-5", `"sigma"`},
		{"--events " + file + " --steps 3 --delta 1e-5", "--steps"},
	} {
		fails(t, cli.ExitUsage, append([]string{"account", "--json"}, strings.Fields(c.args)...), c.want)
	}
	if r := privgradOn("[]", "account", "--events", "-", "--delta", "1e-5"); r.code != cli.ExitUsage || !strings.Contains(r.stderr, "empty") {
		t.Errorf("an empty list: exit %d, %q", r.code, r.stderr)
	}
}

// What people know of a training is a schedule, the one that train runs on a set without held-out records.
func TestScheduleOfATraining(t *testing.T) {
	quick := []string{"--delta", "1e-5", "--accountant", "rdp", "--json"}
	run := func(command string, args ...string) map[string]any {
		t.Helper()
		return object(t, ok(t, append(append([]string{command}, quick...), args...)...))
	}
	dry := object(t, ok(t, "train", "--batch", "256", "--epochs", "3", "--noise-multiplier", "1.1", "--delta", "1e-5", "--accountant", "rdp", "--dry-run", "--json"))
	known := run("account", "--noise-multiplier", "1.1", "--batch", "256", "--public-n", "60000", "--epochs", "3")
	if known["epsilon"] != dry["epsilon"] {
		t.Errorf("ε is %v, that of train %v", known["epsilon"], dry["epsilon"])
	}
	// Of a table whose test records are held out, the others count.
	held := object(t, ok(t, "train", "--data", "csv:"+tableFiles(t, 0), "--public-n", "200", "--batch", "40", "--epochs", "3", "--noise-multiplier", "1.1", "--delta", "1e-5", "--accountant", "rdp", "--dry-run", "--json"))
	if left := run("account", "--noise-multiplier", "1.1", "--batch", "40", "--public-n", ftoa(held["public_n"]), "--epochs", "3"); left["epsilon"] != held["epsilon"] || held["public_n"] != 160.0 {
		t.Errorf("of %v records ε is %v, that of train %v", held["public_n"], left["epsilon"], held["epsilon"])
	}
	rate := ftoa(256. / 60000)
	for _, args := range [][]string{{"--sampling-rate", rate, "--steps", "703"}, {"--sampling-rate", rate, "--epochs", "3"}, {"--batch", "256", "--public-n", "60000", "--steps", "703"}} {
		if same := run("account", append(args, "--noise-multiplier", "1.1")...); same["epsilon"] != known["epsilon"] {
			t.Errorf("%v: ε is %v, not %v", args, same["epsilon"], known["epsilon"])
		}
	}
	planned := object(t, ok(t, "train", "--batch", "256", "--epochs", "3", "--epsilon", "3", "--delta", "1e-5", "--accountant", "rdp", "--dry-run", "--json"))
	if c := run("calibrate", "--epsilon", "3", "--batch", "256", "--public-n", "60000", "--epochs", "3"); c["steps"] != 703.0 || ftoa(c["sampling_rate"]) != rate || c["noise_multiplier"] != planned["noise_multiplier"] {
		t.Errorf("calibrated noise %v, %v steps at rate %v; train's noise is %v", c["noise_multiplier"], c["steps"], c["sampling_rate"], planned["noise_multiplier"])
	}
	for args, want := range map[string]string{
		"--batch 256 --public-n 60000": "give --steps or --epochs", "--events x.json --epochs 3": "leave out --epochs", "--batch 256 --public-n 60000 --epochs NaN": "make no step", "--batch 256 --public-n 60000 --epochs Inf": "steps: give fewer",
		"--batch 256": "--batch needs --public-n", "--public-n 60000": "--public-n needs --batch", "--batch 256 --public-n 60000 --sampling-rate 0.1": "beside --batch",
		"--batch 300 --public-n 256": "at most the number of records", "--batch NaN --public-n 256": "batch NaN", "--batch -1 --public-n 256": "batch -1",
		"--batch 256 --public-n 60000 --epochs 0": "make no step", "--batch 256 --public-n 60000 --epochs 1 --steps 1": "give one", "--epochs 3": "needs a sampling rate",
		"--sampling-rate 0 --epochs 3": "sampling rate 0", "--sampling fixed-size --neighbouring replace-one --batch 2.5 --public-n 60000": "whole number",
	} {
		fails(t, cli.ExitUsage, append([]string{"account", "--delta", "1e-5"}, strings.Fields(args)...), want)
	}
}

func TestCalibrate(t *testing.T) {
	base := []string{"--delta", "1e-5", "--json"}
	solve := func(args ...string) map[string]any {
		t.Helper()
		r := object(t, ok(t, append(append([]string{"calibrate", "--epsilon", "3"}, base...), args...)...))
		wantKeys(t, r, "noise_multiplier", "epsilon", "delta", "accountant", "sampling_rate", "steps", "neighbouring", "guarantee", "not_a_guarantee_because", "risk")
		if e := r["epsilon"].(float64); e > 3 || e < 2.99 {
			t.Errorf("reached ε = %v for 3", e)
		}
		check := object(t, ok(t, append(append([]string{"account"}, base...), "--noise-multiplier", ftoa(r["noise_multiplier"]),
			"--sampling-rate", ftoa(r["sampling_rate"]), "--steps", ftoa(r["steps"]))...))
		near(t, "account of the calibration", check["epsilon"], r["epsilon"].(float64), 1e-12)
		return r
	}
	solve("--sampling-rate", "0.01", "--steps", "1000")
	base = append(base, "--accountant", "rdp") // which is quick
	sigma := solve("--sampling-rate", "0.01", "--steps", "1000")["noise_multiplier"]
	near(t, "steps", solve("--sampling-rate", "0.01", "--noise-multiplier", ftoa(sigma))["steps"], 1000, 2e-3)
	near(t, "sampling rate", solve("--steps", "1000", "--noise-multiplier", ftoa(sigma))["sampling_rate"], 0.01, 1e-4)
	attack := object(t, ok(t, "calibrate", "--advantage", "0.1", "--sampling-rate", "0.01", "--steps", "100", "--json"))
	if risk := attack["risk"].(map[string]any); attack["epsilon"] != nil || attack["delta"] != nil || risk["advantage"].(float64) > 0.1 || risk["advantage"].(float64) < 0.0999 {
		t.Errorf("calibrated for an advantage of 0.1: %v", attack)
	}
	if human := ok(t, "calibrate", "--epsilon", "3", "--delta", "1e-5", "--sampling-rate", "0.01", "--steps", "1000"); !strings.HasPrefix(human, "noise multiplier 0.8") {
		t.Errorf("calibrate says %q", human)
	}
	for _, c := range []struct{ args, want string }{
		{"--epsilon 3 --steps 10 --sampling-rate 0.1", "--delta"},
		{"--delta 1e-5 --steps 10 --sampling-rate 0.1", "--epsilon"},
		{"--epsilon 3 --advantage 0.1 --delta 1e-5 --steps 10 --sampling-rate 0.1", "--advantage"},
		{"--advantage 1.5 --steps 10 --sampling-rate 0.1", "advantage 1.5"},
		{"--epsilon 3 --delta 1e-5", "two of"},
		{"--epsilon 3 --delta 1e-5 --steps 10", "two of"},
		{"--epsilon 3 --delta 1e-5 --steps 10 --sampling-rate 0.1 --noise-multiplier 1", "two of"},
		{"--epsilon 3 --delta 1e-5 --epochs 10", "--epochs needs a sampling rate"},
		{"--epsilon 3 --delta 1e-5 --epochs 10 --noise-multiplier 1", "--epochs needs a sampling rate"},
		{"--epsilon 3 --delta 1e-5 --steps 0 --sampling-rate 0.1", "count 0"},
		{"--epsilon 3 --delta 1e-5 --steps 10 --sampling-rate 2", "rate 2"},
	} {
		fails(t, cli.ExitUsage, append([]string{"calibrate", "--json"}, strings.Fields(c.args)...), c.want)
	}
	// A proper question whose answer is that the budget does not reach.
	for _, c := range []struct{ args, want string }{
		{"--epsilon 0.01 --delta 1e-5 --noise-multiplier 0.5 --sampling-rate 1", "one step"},
		{"--accountant rdp --epsilon 1e-4 --delta 1e-5 --steps 10 --sampling-rate 0.1", "out of reach"},
	} {
		fails(t, cli.ExitRefused, append([]string{"calibrate", "--json"}, strings.Fields(c.args)...), c.want)
	}
}
