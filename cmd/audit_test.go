package cmd

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/audit"
	"github.com/privgrad/privgrad/internal/cli"
)

func TestAudit(t *testing.T) {
	args := []string{"audit", "--noise", "seeded", "--runs", "400", "--steps", "3", "--progress", "off"}
	r := object(t, ok(t, append(args, "--json")...))
	wantKeys(t, r, "optimizer", "heard", "model", "parameters", "data", "device", "threads", "noise_multiplier", "sampling_rate", "steps", "clip", "clipping", "strategy", "noise", "not_private",
		"neighbouring", "accountant", "delta", "seed", "canary", "canary_norm", "canary_share", "epsilon_claimed", "epsilon_lower_bound", "confidence",
		"convicted", "runs", "threshold_runs", "fpr_runs", "fpr", "fpr_lower", "fpr_upper", "fnr_runs", "fnr", "fnr_lower", "fnr_upper", "fnr_least_allowed",
		"power_against_twice_mu", "privacy_unit", "notes", "seconds")
	if r["optimizer"] != "dp-sgd" || r["heard"] != "gradients" || r["convicted"] != false || r["canary"] != "gradient" || r["data"] != "synthetic" || r["confidence"] != 0.998 || r["runs"] != 400.0 {
		t.Errorf("audit says %v", r)
	}
	again := object(t, ok(t, append(args, "--json", "--threads", "1")...))
	if r["fpr"] != again["fpr"] || r["epsilon_lower_bound"] != again["epsilon_lower_bound"] {
		t.Errorf("a seeded audit says %v, then %v", r, again)
	}
	human := ok(t, args...)
	for _, want := range []string{"400 runs of 3 steps", "synthetic", "δ = 1e-05", "Not convicted", "no proof", "power"} {
		if !strings.Contains(human, want) {
			t.Errorf("audit does not say %q:\n%s", want, human)
		}
	}
	bar := privgrad(append(args[:len(args)-1:len(args)-1], "on")...)
	if bar.code != cli.ExitDone || !strings.Contains(bar.stderr, "run ") {
		t.Errorf("exit %d, the bar is %q", bar.code, bar.stderr)
	}

	fails(t, cli.ExitUsage, []string{"audit", "--canary", "dog"}, "dog", "zero-input")
	fails(t, cli.ExitUsage, []string{"audit", "extra"}, "extra")
}

// A conviction prints its result and fails.
func TestAuditConvicts(t *testing.T) {
	root := newRoot()
	for _, c := range root.Commands() {
		if c.Name() == "audit" {
			root.RemoveCommand(c)
		}
	}
	root.AddCommand(auditCommand(func(context.Context, audit.Config) (*audit.Result, error) {
		return &audit.Result{Convicted: true, Confidence: 0.998, EpsilonClaimed: 2, EpsilonLowerBound: 3, Notes: []string{"short"}}, nil
	}))
	var out, err strings.Builder
	root.SetOut(&out)
	root.SetErr(&err)
	if code := cli.Execute(root, []string{"audit"}); code != cli.ExitFailed || !strings.HasPrefix(err.String(), "privgrad: convicted: ") || strings.Count(err.String(), "\n") != 1 {
		t.Errorf("exit %d, %q", code, err.String())
	}
	for _, want := range []string{"CONVICTED", "ε is at least 3", "once in 500 audits", "Note: short"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("a conviction does not say %q:\n%s", want, out.String())
		}
	}
	// As JSON the result is the only object, although the command fails.
	out.Reset()
	root.SetOut(&out)
	if code := cli.Execute(root, []string{"audit", "--json"}); code != cli.ExitFailed || object(t, out.String())["error"] != nil {
		t.Errorf("exit %d, %q", code, out.String())
	}
}

func TestSeededAuditIsLabelled(t *testing.T) {
	for _, noise := range []string{"seeded", "secure"} {
		args := []string{"audit", "--runs", "400", "--steps", "2", "--noise", noise}
		for _, form := range [][]string{nil, {"--json"}} {
			if out := ok(t, append(args, form...)...); strings.Contains(out, "NOT PRIVATE") != (noise == "seeded") {
				t.Errorf("%s noise, %v: %s", noise, form, out)
			}
		}
	}
}

// An audit hears what an optimizer is answered, on settings of its own.
func TestAuditOfAnOptimizer(t *testing.T) {
	args := []string{"audit", "--optimizer", "majority", "--noise", "seeded", "--runs", "400"}
	r := object(t, ok(t, append(args, "--json")...))
	if r["optimizer"] != "majority" || r["heard"] != "the class" || r["canary"] != "tight" || r["convicted"] != false || math.Abs(r["epsilon_claimed"].(float64)-2) > 1e-3 || r["power_against_twice_mu"] != nil {
		t.Errorf("audit says %v", r)
	}
	if again := object(t, ok(t, append(args, "--json", "--threads", "1")...)); r["fpr"] != again["fpr"] || r["fnr"] != again["fnr"] {
		t.Errorf("a seeded audit says %v, then %v", r, again)
	}
	human := ok(t, append(args, "--epsilon", "1", "--neighbouring", "replace-one")...)
	for _, want := range []string{"audit of majority", "ε = 1 at", "replace-one", "the class", "Not convicted", "NOT PRIVATE"} {
		if !strings.Contains(human, want) {
			t.Errorf("audit does not say %q:\n%s", want, human)
		}
	}
	fails(t, cli.ExitUsage, []string{"audit", "--optimizer", "sgd"}, "sgd", "not private")
	fails(t, cli.ExitUsage, []string{"audit", "--optimizer", "dog"}, "unknown optimizer", "majority")
	fails(t, cli.ExitUsage, []string{"audit", "--optimizer", "majority", "--clip", "3"}, "--clip", "leave it out")
	fails(t, cli.ExitUsage, []string{"audit", "--epsilon", "3"}, "--noise-multiplier")
}
