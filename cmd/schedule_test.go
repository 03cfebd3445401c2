package cmd

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/internal/cli"
)

var planKeys = []string{"schedule", "neighbouring", "guarantee", "not_a_guarantee_because", "conditions"}

// runSchedule runs a schedule command and checks what all of them share.
func runSchedule(t *testing.T, line string, keys ...string) map[string]any {
	t.Helper()
	args := strings.Fields("schedule " + line)
	r := object(t, ok(t, append(args, "--json")...))
	wantKeys(t, r, append(keys, planKeys...)...)
	if r["schedule"] != args[1] || r["neighbouring"] != "replace-one" || len(r["conditions"].([]any)) == 0 ||
		r["guarantee"] != (len(r["not_a_guarantee_because"].([]any)) == 0) {
		t.Errorf("schedule %s: %v", line, r)
	}
	human := ok(t, args...)
	if strings.Contains(human, "NO GUARANTEE") == r["guarantee"].(bool) {
		t.Errorf("schedule %s: its text and its JSON disagree on the guarantee:\n%s", line, human)
	}
	return r
}

var purKeys = []string{"steps", "rho", "rho_spent", "sigma_first", "sigma_last", "learning_rate",
	"n", "dim", "lipschitz", "smoothness", "strong_convexity", "f0", "radius", "ignored", "paper", "epsilon", "delta", "pur_k"}

func TestSchedulePUR(t *testing.T) {
	for _, c := range []struct {
		line              string
		steps             float64
		spent, paper      float64
		first, last, rate float64
	}{
		{"pur-a --n 60000 --dim 784 --rho 0.5", 133, 0.49835009667845087, 92.66533552848557, 0.02973409325563206, 0.00022356461094460197, 2},
		{"pur-b --n 60000 --dim 784 --rho 0.5 --radius 5", 441, 0.4997742325333333, 306.1649600826212, 0.17857142857142858, 0.0004049238743116294, 2},
		{"pur-b --n 569 --dim 30 --rho 1 --radius 5 --smoothness 0.25 --lipschitz 1", 73, 0.9810866657812398, 51.286661586051146, 0.9128709291752769, 0.012505081221579135, 2},
		// The paper's closed form for (c) would spend 125 of this 0.5.
		{"pur-c --n 60000 --dim 784 --rho 0.5 --strong-convexity 0.001", 716, 0.49885182032217545, 3349.6317829638087,
			math.Sqrt(2 * 0.001 * math.Ln2 / 784), math.Sqrt(2 * 0.001 * math.Ln2 / 784 * math.Pow(1-0.001/0.502, 715)), 1 / 0.502},
		{"pur-c --n 569 --dim 30 --rho 1 --strong-convexity 0.01 --smoothness 0.26 --f0 0.6931471805599453", 46, 0.9838107413453706, 186.51339921521037,
			math.Sqrt(0.02 * math.Ln2 / 30), math.Sqrt(0.02 * math.Ln2 / 30 * math.Pow(1-0.01/0.52, 45)), 1 / 0.52},
	} {
		r := runSchedule(t, c.line, purKeys...)
		if r["steps"] != c.steps {
			t.Errorf("%s: %v steps, want %v", c.line, r["steps"], c.steps)
		}
		near(t, "rho_spent", r["rho_spent"], c.spent, 1e-9)
		near(t, "sigma_first", r["sigma_first"], c.first, 1e-9)
		near(t, "sigma_last", r["sigma_last"], c.last, 1e-9)
		near(t, "learning_rate", r["learning_rate"], c.rate, 1e-12)
		paper := r["paper"].(map[string]any)
		wantKeys(t, paper, "steps", "rho_spent", "guarantee", "note")
		near(t, "the paper's steps", paper["steps"], c.paper, 1e-9)
		if paper["guarantee"] != false {
			t.Errorf("%s: the paper's figure passes for a guarantee", c.line)
		}
	}
	// From (ε, δ) the budget is μ²/2 of the one Gaussian that costs as much, and account agrees.
	r := runSchedule(t, "pur-c --n 60000 --dim 784 --strong-convexity 0.001 --epsilon 1 --delta 1e-5 --pur-k 2", purKeys...)
	if r["epsilon"] != 1.0 || r["delta"] != 1e-5 || r["pur_k"] != 2.0 || r["rho_spent"].(float64) > r["rho"].(float64) {
		t.Errorf("from (ε, δ): %v", r)
	}
	near(t, "learning_rate", r["learning_rate"], 1/(0.251*5), 1e-12)
	price := object(t, ok(t, "account", "--noise-multiplier", fmt.Sprint(math.Sqrt(2/r["rho"].(float64))), "--sampling-rate", "1", "--steps", "1",
		"--delta", "1e-5", "--accountant", "gdp", "--neighbouring", "replace-one", "--json"))
	near(t, "epsilon", price["epsilon"], 1, 1e-9)
	for line, want := range map[string]string{
		"--rho 1 --epsilon 1": "give one of both", "--epsilon 1": "--rho is missing", "": "--rho is missing", "--rho 1 --pur-k 0": "pur-k 0",
	} {
		fails(t, 2, append(strings.Fields("schedule pur-a --n 1000 --dim 2"), strings.Fields(line)...), want)
	}
	// The default smoothness is that of logistic loss with features clipped to L.
	r = runSchedule(t, "pur-c --n 1000 --dim 2 --rho 1 --strong-convexity 0.1 --lipschitz 2", purKeys...)
	near(t, "smoothness", r["smoothness"], 1.1, 1e-12)
	// All three take the same command line and say what they do not use.
	r = runSchedule(t, "pur-a --n 1000 --dim 2 --rho 1 --lipschitz 1 --smoothness 0.35 --strong-convexity 0.1 --f0 0.7 --radius 5", purKeys...)
	if ignored := r["ignored"].([]any); len(ignored) != 1 || ignored[0] != "radius" || r["radius"] != nil || r["f0"] != 0.7 {
		t.Errorf("pur-a with a radius: %v", r)
	}
	if human := ok(t, strings.Fields("schedule pur-b --n 1000 --dim 2 --rho 1 --radius 5 --f0 1")...); !strings.Contains(human, "not used by pur-b: --f0") {
		t.Errorf("pur-b with f0:\n%s", human)
	}
	if human := ok(t, strings.Fields("schedule pur-c --n 60000 --dim 784 --strong-convexity 0.001 --rho 0.5")...); !strings.HasPrefix(human, "716 steps") || !strings.Contains(human, "overspends (not a guarantee)") {
		t.Errorf("pur-c says:\n%s", human)
	}
}

func TestScheduleCtCDP(t *testing.T) {
	keys := []string{"epsilon", "delta", "sampling_rate", "steps", "a", "omega_a", "rho_a", "rho_0", "rho_ub", "valid", "constraints",
		"sigma_over_sensitivity", "sigma_min_over_sensitivity"}
	r := runSchedule(t, "ctcdp --epsilon 0.8 --delta 1e-8 --sampling-rate 0.010169687564088922 --steps 400", keys...)
	for key, want := range map[string]float64{
		"a": 23.025850929940457, "omega_a": 47.54638795565015, "rho_a": 0.008502246769232813, "rho_0": 0.015809391010746777,
		"rho_ub": 0.02412561704477936, "sigma_over_sensitivity": 5.623768459541344,
	} {
		near(t, key, r[key], want, 1e-9)
	}
	if r["valid"] != true || r["guarantee"] != true || len(r["constraints"].([]any)) != 5 {
		t.Errorf("a valid plan: %v", r)
	}
	r = runSchedule(t, "ctcdp --epsilon 0.8 --delta 1e-8 --sampling-rate 0.010169687564088922 --steps 30", keys...)
	broken := 0
	for _, x := range r["constraints"].([]any) {
		wantKeys(t, x.(map[string]any), "constraint", "holds", "reason")
		if x.(map[string]any)["holds"] == false {
			broken++
		}
	}
	near(t, "rho_0", r["rho_0"], 0.2107918801432904, 1e-9)
	if r["valid"] != false || broken != 2 || len(r["not_a_guarantee_because"].([]any)) != broken {
		t.Errorf("a plan with %d broken constraints: %v", broken, r)
	}
	if r := runSchedule(t, "ctcdp --epsilon 1 --delta 1e-8 --sampling-rate 1 --steps 1", keys...); r["sigma_min_over_sensitivity"] != nil || r["valid"] != false {
		t.Errorf("without sampling: %v", r)
	}
}

// Theorem 4's noise is that of its formula, and what is enough costs the budget, by account.
func TestScheduleRRPSGD(t *testing.T) {
	keys := []string{"noise_multiplier", "noise_multiplier_needed", "steps", "n", "epsilon", "delta"}
	for _, epsilon := range []float64{1, 2} {
		r := runSchedule(t, fmt.Sprintf("rrpsgd --n 100 --epsilon %v --delta 1e-3", epsilon), keys...)
		near(t, "noise_multiplier", r["noise_multiplier"], math.Sqrt(math.Log(3e5)*math.Log(2e3))/epsilon, 1e-9)
		if r["steps"] != 1e4 || r["guarantee"] != (epsilon <= 1) {
			t.Errorf("rrpsgd, theorem 4 covers ε up to 1: %v", r)
		}
		for share, enough := range map[float64]bool{1: true, 0.999: false} {
			price := object(t, ok(t, "account", "--noise-multiplier", fmt.Sprint(2*share*r["noise_multiplier_needed"].(float64)), "--sampling", "fixed-size",
				"--neighbouring", "replace-one", "--sampling-rate", "0.01", "--steps", "10000", "--delta", "1e-3", "--json"))
			if price["epsilon"].(float64) <= epsilon != enough {
				t.Errorf("%v times the noise that is enough for ε = %v costs %v", share, epsilon, price["epsilon"])
			}
		}
	}
}

func TestScheduleRefuses(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"pur-a --dim 2 --rho 1", "--n is missing"},
		{"pur-a --n 10 --rho 1", "--dim is missing"},
		{"pur-a --n 10 --dim 2", "--rho is missing"},
		{"pur-b --n 10 --dim 2 --rho 1", "--radius is missing"},
		{"pur-c --n 10 --dim 2 --rho 1", "--strong-convexity is missing"},
		{"pur-a --n x --dim 2 --rho 1", "--n"},
		{"ctcdp --epsilon 1 --delta 1e-8 --sampling-rate 0.01", "--steps is missing"},
		{"ctcdp --epsilon 0 --delta 1e-8 --sampling-rate 0.01 --steps 1", "epsilon 0"},
		{"ctcdp --epsilon 1 --delta 2 --sampling-rate 0.01 --steps 1", "delta 2"},
		{"ctcdp --epsilon 1 --delta 1e-8 --sampling-rate 0 --steps 1", "sampling rate 0"},
		{"ctcdp --epsilon 1 --delta 1e-8 --sampling-rate 0.01 --steps 0", "steps 0"},
		{"rrpsgd --n 10 --epsilon 1", "--delta is missing"},
		{"rrpsgd --n 10 --epsilon -1 --delta 0.1", "epsilon -1"},
		{"rrpsgd --n 10 --epsilon 1 --delta 0.1 now", "no argument"},
		{"banco --epsilon 0 --dim 2 --steps 3", "epsilon 0"},
		{"banco --epsilon 1 --dim 0 --steps 3", "dim 0"},
		{"banco --epsilon 1 --dim 2 --steps 0", "steps 0"},
		{"banco --epsilon 1 --dim 2 --steps 3 --clip 0", "gradient bound 0"},
		{"banco --epsilon 1 --dim 2 --steps 3 --radius -1", "radius -1"},
	} {
		fails(t, cli.ExitUsage, strings.Fields("schedule "+c.args+" --json"), c.want)
	}
	fails(t, cli.ExitUsage, []string{"schedule", "pur-oracle"}, `unknown command "pur-oracle"`) // it reads the data
	fails(t, cli.ExitRefused, strings.Fields("schedule pur-a --n 10 --dim 2 --rho 1e-9 --json"), "does not pay for one step")
}

// The figures are those of the formulas for G = 2; the bounds are in the order of what they are bounds for, and
// that over weights of zero is the initial wealth.
func TestScheduleBanco(t *testing.T) {
	keys := []string{"epsilon", "clip", "dim", "steps", "radius", "scale", "noise_rms_norm", "sigma_direction", "tail", "bet_limit", "excess_bound", "hemisphere", "paper"}
	r := runSchedule(t, "banco --epsilon 0.5 --clip 2 --dim 3 --steps 10000", keys...)
	near(t, "scale", r["scale"], 8, 1e-12)
	near(t, "noise_rms_norm", r["noise_rms_norm"], 8*math.Sqrt(12), 1e-12)
	near(t, "sigma_direction", r["sigma_direction"], 4*math.Sqrt(16*math.Log(4./3)*4), 1e-12)
	near(t, "tail", r["tail"], 16, 1e-12)
	near(t, "bet_limit", r["bet_limit"], 1./16, 1e-12)
	sphere, paper := r["hemisphere"].(map[string]any), r["paper"].(map[string]any)
	wantKeys(t, sphere, "report_norm", "sigma_direction", "tail", "bet_limit", "excess_bound")
	// E|u₁| of a uniform direction in space is ½.
	near(t, "report_norm", sphere["report_norm"], 4/math.Tanh(0.25), 1e-12)
	if ours, hemi, theirs := r["excess_bound"].(float64), sphere["excess_bound"].(float64), paper["excess_bound"].(float64); !(hemi < ours && ours < theirs) {
		t.Errorf("bounds of %v, %v on hemispheres and %v by the paper's variance", ours, hemi, theirs)
	}
	near(t, "excess_bound at zero", runSchedule(t, "banco --epsilon 0.5 --dim 3 --steps 10000 --radius 0", keys...)["excess_bound"], 1e-4, 1e-12)
}

// What docs/reference/schedules.md shows is what the command prints.
func TestScheduleDocument(t *testing.T) {
	text := readFile(t, "..", "docs", "reference", "schedules.md")
	shown := 0
	for i, block := range strings.Split(text, "```\n") {
		command, want, isCommand := strings.Cut(block, "\n")
		if i%2 == 0 || !isCommand || !strings.HasPrefix(command, "$ privgrad ") {
			continue
		}
		shown++
		if got := ok(t, strings.Fields(command)[2:]...); got != want {
			t.Errorf("%s\nprints\n%sand the document shows\n%s", command, got, want)
		}
	}
	if shown != 6 {
		t.Errorf("the document shows %d commands, want one a schedule", shown)
	}
}
