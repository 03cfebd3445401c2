package report

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/train"
)

// failed names the checks that found something.
func (v *Verification) failed() (names []string) {
	for _, c := range v.Checks {
		if !c.OK {
			names = append(names, c.Name)
		}
	}
	return names
}

// What was not touched goes together, whatever was trained.
func TestVerifyAcceptsRuns(t *testing.T) {
	for name, change := range map[string]func(*train.Config){
		"calibrated": nil,
		"noise":      func(c *train.Config) { c.Epsilon, c.NoiseMultiplier = nil, ptr(1.5) },
		"epochs":     func(c *train.Config) { c.Steps, c.Epochs = nil, ptr(2.6) },
		"rate":       func(c *train.Config) { c.Batch, c.SamplingRate = nil, ptr(0.2) },
		"adaptive":   func(c *train.Config) { c.Clipping, c.TrainLossNoise = "adaptive", ptr(4.0) },
		"rdp":        func(c *train.Config) { c.Accountant, c.Neighbouring = "rdp", "replace-one" },
		"seeded":     func(c *train.Config) { c.Noise = "seeded" },
		"silent":     func(c *train.Config) { c.Epsilon, c.NoiseMultiplier = nil, ptr(0.0) },
		"sgd":        func(c *train.Config) { c.Optimizer, c.Epsilon, c.Delta = "sgd", nil, nil },
		"average":    func(c *train.Config) { c.Average = 0.9 },
		"filtered":   func(c *train.Config) { c.Optimizer, c.Classes, c.PublicN = "dp-blsgd-ac", []int{0, 1}, ptr(80) },
		"papers":     func(c *train.Config) { c.Optimizer = "dp-blsgd"; c.Search = train.Search{Batches: "paper"} },
		"papers, noise": func(c *train.Config) {
			c.Optimizer, c.Epsilon, c.NoiseMultiplier, c.Search = "dp-blsgd", nil, ptr(2.0), train.Search{Batches: "paper", Budget: "fixed"}
		},
		"searches":     func(c *train.Config) { c.Optimizer = "dp-blsgd"; c.Search = train.Search{Budget: "fixed"} },
		"majority":     func(c *train.Config) { c.Optimizer, c.Batch, c.Steps, c.LR = "majority", nil, nil, nil },
		"lbfgs":        func(c *train.Config) { c.Optimizer, c.Epsilon, c.Delta, c.Batch, c.LR = "lbfgs", nil, nil, nil, nil },
		"private test": nil,
	} {
		t.Run(name, func(t *testing.T) {
			dir := trained(t, name, change)
			v, err := Verify(dir)
			check(t, err)
			if !v.OK || len(v.failed()) > 0 {
				t.Errorf("%s\n%+v", read(t, dir, "result.json"), v.Checks)
			}
		})
	}
}

// ε is computed again by every accountant that can, and those agree.
func TestVerifyComputesEpsilon(t *testing.T) {
	v, err := Verify(trained(t, "run", nil))
	check(t, err)
	for _, name := range []string{"pld", "rdp", "prv"} {
		if e := v.Epsilon[name]; e == nil || *e < 2.9 || *e > 5 {
			t.Errorf("%s: %v", name, e)
		}
	}
	if math.Abs(*v.Epsilon["pld"]-*v.Epsilon["prv"]) > 0.01 || *v.Epsilon["rdp"] < *v.Epsilon["pld"] || v.Epsilon["gdp"] != nil {
		t.Errorf("ε: %v", v.Epsilon)
	}
}

// Whatever file of a run is touched, a check says so; and a result that was made better in one place
// does not go with the rest.
func TestVerifyFindsTampering(t *testing.T) {
	original := trained(t, "run", func(c *train.Config) { c.Average = 0.9 })
	text := func(name, from, to string) func(*testing.T, string) {
		return func(t *testing.T, dir string) { edit(t, filepath.Join(dir, name), from, to) }
	}
	result := func(change func(r map[string]any)) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			var r map[string]any
			path := filepath.Join(dir, rundir.Result)
			check(t, json.Unmarshal([]byte(read(t, path)), &r))
			change(r)
			b, err := json.Marshal(r)
			check(t, err)
			check(t, os.WriteFile(path, b, 0o644))
		}
	}
	flip := func(name string, at int) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			b := []byte(read(t, dir, name))
			b[(at+len(b))%len(b)] ^= 1
			check(t, os.WriteFile(filepath.Join(dir, name), b, 0o644))
		}
	}
	remove := func(name string) func(*testing.T, string) {
		return func(t *testing.T, dir string) { check(t, os.Remove(filepath.Join(dir, name))) }
	}
	// consistent makes ε smaller wherever result.json says it, by noise that was not there.
	consistent := func(r map[string]any) {
		r["epsilon"], r["epsilon_so_far"] = 1.0, 1.0
		r["noise_multiplier"] = 9.0
		event(r)["batch"].(map[string]any)["mechanisms"].([]any)[0].(map[string]any)["noise_multiplier"] = 9.0
	}
	for name, c := range map[string]struct {
		tamper func(*testing.T, string)
		check  string
	}{
		"config":                {text(rundir.Config, "seed: 1", "seed: 2"), "digest of " + rundir.Config},
		"budget in config":      {text(rundir.Config, "epsilon: 3", "epsilon: 2"), "settings"},
		"delta in config":       {text(rundir.Config, "delta: ", "delta: 0"), "digest of " + rundir.Config},
		"model":                 {flip(rundir.Model, -1), "digest of " + rundir.Model},
		"average":               {flip(rundir.Average, -1), "digest of " + rundir.Average},
		"metrics":               {text(rundir.Metrics, `"step":12`, `"step":11`), "evaluations"},
		"metrics, silently":     {text(rundir.Metrics, `"lr":0.5`, `"lr":0.4`), "digest of " + rundir.Metrics},
		"ledger":                {flip(rundir.Ledger, 5000), "ledger"},
		"ledger damaged":        {flip(rundir.Ledger, 20), "ledger"},
		"no ledger":             {remove(rundir.Ledger), "ledger"},
		"no model":              {remove(rundir.Model), "digest of " + rundir.Model},
		"no average":            {remove(rundir.Average), "digest of " + rundir.Average},
		"epsilon":               {result(func(r map[string]any) { r["epsilon"] = 1.0 }), "epsilon"},
		"larger epsilon":        {result(func(r map[string]any) { r["epsilon"] = 4.0 }), "settings"},
		"delta":                 {result(func(r map[string]any) { r["delta"] = 1e-3 }), "settings"},
		"accountant":            {result(func(r map[string]any) { r["accountant"] = "paper" }), "settings"},
		"noise":                 {result(func(r map[string]any) { r["noise_multiplier"] = 9.0 }), "schedule"},
		"fewer releases":        {result(func(r map[string]any) { event(r)["count"] = 6 }), "schedule"},
		"another sampling rate": {result(func(r map[string]any) { r["sampling_rate"] = 0.1 }), "schedule"},
		"steps":                 {result(func(r map[string]any) { r["steps"] = 13 }), "ledger"},
		"committed":             {result(func(r map[string]any) { r["committed_schedule"] = 11 }), "ledger"},
		"accuracy":              {result(func(r map[string]any) { r["test_accuracy"] = 0.999 }), "evaluations"},
		"no digest":             {result(func(r map[string]any) { delete(r["digests"].(map[string]any), rundir.Model) }), "digest of " + rundir.Model},
		"no releases":           {result(func(r map[string]any) { r["events"] = nil }), "schedule"},
		"reasons":               {result(func(r map[string]any) { r["not_a_guarantee_because"] = []string{"x"} }), "guarantee"},
		"spent":                 {result(func(r map[string]any) { r["epsilon_so_far"] = 5.0 }), "epsilon"},
		"all of epsilon":        {result(consistent), "evaluations"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "run")
			check(t, os.CopyFS(dir, os.DirFS(original)))
			c.tamper(t, dir)
			v, err := Verify(dir)
			check(t, err)
			if v.OK || !slices.Contains(v.failed(), c.check) {
				t.Errorf("%v found something, want %s: %+v", v.failed(), c.check, v.Checks)
			}
		})
	}
}

// A result whose releases cost what it says, but are not those of its configuration, is refused, whatever was
// trained: an auditor need not believe which releases there were.
func TestVerifyPlansAnew(t *testing.T) {
	mechanisms := func(r map[string]any) map[string]any { return event(r)["batch"].(map[string]any) }
	first := func(r map[string]any, i int) map[string]any {
		return mechanisms(r)["mechanisms"].([]any)[i].(map[string]any)
	}
	for name, c := range map[string]struct {
		change func(*train.Config)
		forge  func(r map[string]any)
	}{
		"count of adaptive clipping": {
			func(c *train.Config) { c.Clipping = "adaptive" },
			func(r map[string]any) { b := mechanisms(r); b["mechanisms"] = b["mechanisms"].([]any)[:1] },
		},
		"noise of that count": {
			func(c *train.Config) { c.Clipping = "adaptive" },
			func(r map[string]any) { first(r, 1)["noise_multiplier"] = 1e6 },
		},
		"noisy losses": {
			func(c *train.Config) { c.TrainLossNoise = ptr(2.0) },
			func(r map[string]any) { r["events"] = r["events"].([]any)[:1] },
		},
		"fewer noisy losses": {
			func(c *train.Config) { c.TrainLossNoise = ptr(2.0) },
			func(r map[string]any) { r["events"].([]any)[1].(map[string]any)["count"] = 1 },
		},
		"searches": {
			func(c *train.Config) { c.Optimizer = "dp-blsgd"; c.Search = train.Search{Budget: "fixed"} },
			func(r map[string]any) { r["events"] = r["events"].([]any)[:1] },
		},
		"noise": {
			func(c *train.Config) { c.Epsilon, c.NoiseMultiplier = nil, ptr(1.5) },
			func(r map[string]any) { r["noise_multiplier"], first(r, 0)["noise_multiplier"] = 3.0, 3.0 },
		},
		"calibrated noise": {
			nil,
			func(r map[string]any) { r["noise_multiplier"], first(r, 0)["noise_multiplier"] = 9.0, 9.0 },
		},
		"steps": {
			func(c *train.Config) { c.Steps, c.Epochs = nil, ptr(3.0) },
			func(r map[string]any) { r["committed_schedule"], event(r)["count"] = 11, 11 },
		},
		"rate": {
			func(c *train.Config) { c.Batch, c.SamplingRate = nil, ptr(0.25) },
			func(r map[string]any) {
				r["sampling_rate"], mechanisms(r)["poisson"], r["expected_batch"] = 0.125, 0.125, 20
			},
		},
		"declared records": {
			func(c *train.Config) { c.Classes, c.PublicN = []int{0, 1}, ptr(80) },
			func(r map[string]any) { r["public_n"], r["sampling_rate"], mechanisms(r)["poisson"] = 160, 0.25, 0.25 },
		},
		"budget of a filter": {
			func(c *train.Config) { c.Optimizer, c.Classes, c.PublicN = "dp-blsgd-ac", []int{0, 1}, ptr(80) },
			func(r map[string]any) { r["epsilon"], r["epsilon_so_far"] = 2.9999, 2.0 },
		},
		"filter": {
			func(c *train.Config) { c.Optimizer, c.Classes, c.PublicN = "dp-blsgd-ac", []int{0, 1}, ptr(80) },
			func(r map[string]any) {
				r["events"] = []any{map[string]any{"mechanism": "gaussian", "noise_multiplier": 50, "count": 1}}
			},
		},
		"papers": {
			func(c *train.Config) { c.Optimizer = "dp-blsgd"; c.Search = train.Search{Batches: "paper"} },
			func(r map[string]any) { r["epsilon"], r["epsilon_so_far"] = 0.5, 0.5 },
		},
		"pure": {
			func(c *train.Config) { c.Optimizer, c.Batch, c.Steps, c.LR = "majority", nil, nil, nil },
			func(r map[string]any) { event(r)["epsilon"], r["epsilon"], r["epsilon_so_far"] = 1.0, 1.0, 1.0 },
		},
		"risk":    {nil, func(r map[string]any) { r["risk"].(map[string]any)["advantage"] = 0.01 }},
		"a share": {nil, func(r map[string]any) { r["risk"].(map[string]any)["tpr_at_fpr"].(map[string]any)["0.01"] = 0.011 }},
	} {
		t.Run(name, func(t *testing.T) {
			dir := trained(t, "run", c.change)
			var result map[string]any
			path := filepath.Join(dir, rundir.Result)
			check(t, json.Unmarshal([]byte(read(t, path)), &result))
			c.forge(result)
			b, err := json.Marshal(result)
			check(t, err)
			var r train.Result
			check(t, json.Unmarshal(b, &r))
			if len(r.Events) > 0 && *r.Delta > 0 { // it costs what it says
				got, err := accountant.Account(r.Events, accountant.Options{Accountant: *r.Accountant, Neighbouring: accountant.Neighbouring(*r.Neighbouring), Delta: *r.Delta})
				check(t, err)
				result["epsilon"], result["epsilon_so_far"] = got.Epsilon, got.Epsilon
				b, err = json.Marshal(result)
				check(t, err)
			}
			check(t, os.WriteFile(path, b, 0o644))
			v, err := Verify(dir)
			check(t, err)
			if got := v.failed(); v.OK || !slices.Contains(got, "schedule") || len(r.Events) > 0 && slices.Contains(got, "epsilon") {
				t.Errorf("%v found something, want schedule: %+v", got, v.Checks)
			}
		})
	}
}

func event(r map[string]any) map[string]any { return r["events"].([]any)[0].(map[string]any) }

// What a result says of a run, beside figures, is held against what its configuration says.
func TestVerifyFindsWhatIsLeftOut(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*train.Config)
		forge  func(r map[string]any)
		check  string
	}{
		"a filter's delta": {
			func(c *train.Config) { c.Optimizer, c.Classes, c.PublicN = "dp-blsgd-ac", []int{0, 1}, ptr(80) },
			func(r map[string]any) { r["delta"], r["accountant"] = 0, "pure" }, "settings",
		},
		"an assumption": {
			func(c *train.Config) { c.Classes, c.PublicN = []int{0, 1}, ptr(80) },
			func(r map[string]any) { r["assumptions"] = []string{} }, "guarantee",
		},
		"a reason": {
			func(c *train.Config) { c.Noise = "seeded" },
			func(r map[string]any) { r["not_a_guarantee_because"] = []string{"nothing much"} }, "guarantee",
		},
		"diagnostics": {
			func(c *train.Config) { c.PrivateDiagnostics = true },
			func(r map[string]any) { r["private_diagnostics"] = false }, "settings",
		},
		"clipping":     {nil, func(r map[string]any) { r["clipping"] = "automatic" }, "settings"},
		"precision":    {nil, func(r map[string]any) { r["precision"] = "tf32" }, "settings"},
		"privacy unit": {nil, func(r map[string]any) { r["privacy_unit"] = "one user" }, "settings"},
		"tuning":       {nil, func(r map[string]any) { r["tuning_charged"] = true }, "settings"},
		"a little noise": {
			func(c *train.Config) { c.Epsilon, c.NoiseMultiplier = nil, ptr(1.5) },
			func(r map[string]any) {
				r["noise_multiplier"] = 1.501
				event(r)["batch"].(map[string]any)["mechanisms"].([]any)[0].(map[string]any)["noise_multiplier"] = 1.501
			}, "schedule",
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := trained(t, "run", c.change)
			var r map[string]any
			path := filepath.Join(dir, rundir.Result)
			check(t, json.Unmarshal([]byte(read(t, path)), &r))
			c.forge(r)
			b, err := json.Marshal(r)
			check(t, err)
			check(t, os.WriteFile(path, b, 0o644))
			v, err := Verify(dir)
			check(t, err)
			if !slices.Contains(v.failed(), c.check) {
				t.Errorf("%v found something, want %s: %+v", v.failed(), c.check, v.Checks)
			}
		})
	}
}

// The model of another run says of itself what that run claims.
func TestVerifyFindsAnotherModel(t *testing.T) {
	dir, other := trained(t, "run", nil), trained(t, "other", func(c *train.Config) { c.Optimizer, c.Epsilon, c.Delta = "sgd", nil, nil })
	model, err := os.ReadFile(filepath.Join(other, rundir.Model))
	check(t, err)
	check(t, os.WriteFile(filepath.Join(dir, rundir.Model), model, 0o644))
	mine, err := rundir.Dir(dir).Digest(rundir.Model)
	check(t, err)
	var r map[string]any
	path := filepath.Join(dir, rundir.Result)
	check(t, json.Unmarshal([]byte(read(t, path)), &r))
	r["digests"].(map[string]any)[rundir.Model] = mine
	b, err := json.Marshal(r)
	check(t, err)
	check(t, os.WriteFile(path, b, 0o644))
	v, err := Verify(dir)
	check(t, err)
	if got := v.failed(); !slices.Equal(got, []string{"model"}) {
		t.Errorf("%v found something: %+v", got, v.Checks)
	}
}

// A table's records are no more than were declared for all of it.
func TestMostRecords(t *testing.T) {
	r := &run{}
	r.Config = train.Default()
	r.Config.Data, r.Config.PublicN, r.Config.Epsilon, r.PublicN = "csv:t.csv", ptr(200), ptr(3.0), 400
	if _, err := r.replan(); err == nil || !strings.Contains(err.Error(), "public_n is 400") {
		t.Errorf("more records than declared: %v", err)
	}
}

// A seeded run that is called a guarantee is found out by its configuration.
func TestVerifyFindsAFalseGuarantee(t *testing.T) {
	dir := trained(t, "run", func(c *train.Config) { c.Noise = "seeded" })
	var r map[string]any
	path := filepath.Join(dir, rundir.Result)
	check(t, json.Unmarshal([]byte(read(t, path)), &r))
	r["guarantee"], r["not_a_guarantee_because"] = true, []string{}
	b, err := json.Marshal(r)
	check(t, err)
	check(t, os.WriteFile(path, b, 0o644))
	v, err := Verify(dir)
	check(t, err)
	if got := v.failed(); !slices.Equal(got, []string{"guarantee", "model"}) {
		t.Errorf("%v found something", got)
	}
}

func TestVerifyRefuses(t *testing.T) {
	dir := trained(t, "run", nil)
	for name, c := range map[string]struct {
		tamper func(string) error
		want   string
	}{
		"nothing there":  {func(d string) error { return os.RemoveAll(d) }, "no run directory"},
		"unfinished":     {func(d string) error { return os.Remove(filepath.Join(d, rundir.Result)) }, "has not finished"},
		"no result":      {func(d string) error { return os.WriteFile(filepath.Join(d, rundir.Result), []byte("{}"), 0o644) }, "is not what a run writes"},
		"no JSON":        {func(d string) error { return os.WriteFile(filepath.Join(d, rundir.Result), []byte("x"), 0o644) }, "cannot be read"},
		"wrong settings": {func(d string) error { return os.WriteFile(filepath.Join(d, rundir.Config), []byte("x: 1"), 0o644) }, "unknown"},
	} {
		copied := filepath.Join(t.TempDir(), "run")
		check(t, os.CopyFS(copied, os.DirFS(dir)))
		check(t, c.tamper(copied))
		if _, err := Verify(copied); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
