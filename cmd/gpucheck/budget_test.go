package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/privgrad/privgrad/bench/compare"
)

var update = flag.Bool("update", false, "write the golden reports anew")

// planned is a machine whose commands take what a test plans, on a clock of its own. Its figures
// are no GPU's: every step takes 1 s, every peer's 2 s.
type planned struct {
	t     *testing.T
	now   time.Time
	takes func(name string) time.Duration
	fails string // a job, which prints what a failed test does
	cut   int    // the machine is gone at this command; 0 for never
	runs  int
}

type gone struct{}

func (p *planned) Now() time.Time { return p.now }

func (p *planned) Find(name string) (string, error) {
	if name == "nvidia-smi" {
		return "", errors.New("not found")
	}
	return "/planned/" + name, nil
}

func (p *planned) Run(_ context.Context, dir string, j job, limit time.Duration, stdout, _ io.Writer) error {
	p.runs++
	if p.runs == p.cut {
		panic(gone{})
	}
	if limit < 0 {
		p.t.Errorf("%s may take %v", j.name, limit)
	}
	if j.name != "" && j.name == p.fails {
		fmt.Fprintln(stdout, "--- FAIL: TestGPU (0.00s)\n    x_test.go:1: value 7 is 1, want 2")
		p.now = p.now.Add(min(p.takes(j.name), limit))
		return errors.New("exit status 1")
	}
	took := p.takes(j.name)
	p.now = p.now.Add(min(took, limit))
	if took > limit {
		return tooLate(limit)
	}
	fmt.Fprint(stdout, p.prints(j))
	return nil
}

func (p *planned) prints(j job) string {
	flag := func(name string) string { return j.command[slices.Index(j.command, name)+1] }
	switch line := strings.Join(j.command, " "); {
	case strings.Contains(line, "-test.list"):
		return "TestOne\nTestTwo\nTestRealShapes\n"
	case strings.Contains(line, "-test.run"):
		return "--- PASS: TestOne (0.00s)\n"
	case strings.Contains(line, " info "):
		return `{"gpus": {"devices": [{"name": "H100 80GB HBM3, planned and not a GPU"}]}}`
	case strings.Contains(line, " train "):
		if err := os.Mkdir(flag("--out"), 0o755); err != nil {
			p.t.Error(err)
		}
		writeModel(p.t, filepath.Join(flag("--out"), "model.safetensors"), 1, 2, 3)
		return "{}"
	case strings.Contains(line, " gemm "):
		return `{"cublas_reason": "no cuBLAS"}`
	case strings.Contains(line, " compare "):
		peer, mode, _ := strings.Cut(flag("--peers"), " ")
		return fmt.Sprintf(`{"models": [{"batch": `+flag("--batch")+`, "entries": [
			{"peer": "privgrad", "mode": "private", "step_seconds_median": 1, "step_seconds_waited_median": 1.5, "peak_device_bytes": 1048576},
			{"peer": "privgrad", "mode": "plain", "step_seconds_median": 1},
			{"peer": %q, "mode": %q, "private": %v, "step_seconds_median": 2, "form": "channels last", "peak_device_bytes": 2097152}]}]}`, peer, mode, !strings.Contains(mode, "plain"))
	case strings.Contains(line, " bench "):
		return `{"step_seconds_median": 1, "step_seconds_waited_median": 1.25, "flops_per_example": 1000000}`
	}
	return "torch 0\n"
}

func planning(t *testing.T, p *planned, budget time.Duration, only ...string) *check {
	t.Helper()
	p.t, p.now = t, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	dir := t.TempDir()
	return &check{system: p, budget: budget, only: only, bundle: dir, out: filepath.Join(dir, "out"), seconds: 1, rounds: 1, python: "python3", limit: time.Hour, chosen: chosen(t, "", "", "", "")}
}

func each(d time.Duration) func(string) time.Duration { return func(string) time.Duration { return d } }

// written reads what lies in OUTDIR.
func written(t *testing.T, c *check) (r report, text string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(c.out, "gpu-check.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &r); err != nil {
		t.Fatal(err)
	}
	md, err := os.ReadFile(filepath.Join(c.out, "gpu-check.md"))
	if err != nil {
		t.Fatal(err)
	}
	return r, string(md)
}

func TestShares(t *testing.T) {
	all := 0
	for _, g := range groups {
		all += g.share
	}
	if all != 100 {
		t.Errorf("shares are %d percent", all)
	}
	at := ends(100*time.Minute, func(string) bool { return true })
	if at["info"] != 5*time.Minute || at["kernels"] != 14*time.Minute || at["gemm"] != 100*time.Minute {
		t.Errorf("groups end at %v", at)
	}
	at = ends(time.Hour, func(name string) bool { return name == "kernels" || name == "driver" })
	if at["kernels"] != time.Hour*9/10 || at["driver"] != time.Hour || len(at) != 2 {
		t.Errorf("two groups end at %v", at)
	}
}

// Whatever commands take, a check ends within its budget, every group comes to its turn, and what did not run says why.
func TestKeepsTheBudget(t *testing.T) {
	const budget = 9 * time.Minute
	rng := rand.New(rand.NewPCG(1, 2))
	for i, takes := range []func(string) time.Duration{
		each(time.Millisecond), each(time.Hour),
		func(string) time.Duration { return time.Duration(rng.ExpFloat64() * 1e10) },
	} {
		p := &planned{takes: takes}
		c := planning(t, p, budget)
		began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		if _, err := c.all(context.Background()); err != nil {
			t.Fatal(err)
		}
		if took := p.now.Sub(began); took > budget {
			t.Errorf("plan %d took %v", i, took)
		}
		r, text := written(t, c)
		if !r.Done || r.Budget != 540 || r.Seconds > 540 {
			t.Errorf("plan %d: %+v", i, r)
		}
		seen := map[string]bool{}
		for _, s := range r.Steps {
			group, _, _ := strings.Cut(s.Name, "/")
			seen[group] = true
			if s.Status != passed && s.Reason == "" {
				t.Errorf("plan %d: %s is %s without a reason", i, s.Name, s.Status)
			}
			if s.Status == skipped && !strings.Contains(text, s.Name) {
				t.Errorf("plan %d: the report does not name %s", i, s.Name)
			}
			if late := strings.Contains(s.Reason, "its share of"); late && i == 0 {
				t.Errorf("%s lacked time: %s", s.Name, s.Reason)
			}
		}
		for _, g := range groupNames() {
			if !seen[g] {
				t.Errorf("plan %d: nothing is said of %s", i, g)
			}
		}
	}
}

func TestOrder(t *testing.T) {
	want := "info kernels driver train real bench peers conformance sanitizer gemm"
	if got := strings.Join(groupNames(), " "); got != want {
		t.Errorf("the order is %s", got)
	}
}

// A check that is cut off leaves what it had.
func TestCutOffAfterEveryStep(t *testing.T) {
	whole := &planned{takes: each(time.Second)}
	if _, err := planning(t, whole, 0, "info", "kernels", "driver", "train", "conformance", "gemm").all(context.Background()); err != nil {
		t.Fatal(err)
	}
	if whole.runs < 10 {
		t.Fatalf("%d commands ran", whole.runs)
	}
	before := 0
	for k := 2; k <= whole.runs; k++ {
		p := &planned{takes: each(time.Second), cut: k}
		c := planning(t, p, 0, "info", "kernels", "driver", "train", "conformance", "gemm")
		func() {
			defer func() {
				if recover() != any(gone{}) {
					t.Errorf("not cut off at command %d", k)
				}
			}()
			_, _ = c.all(context.Background())
		}()
		r, text := written(t, c)
		if r.Done || len(r.Steps) < max(before, 1) || len(r.Steps) != len(c.report.Steps) {
			t.Errorf("cut off at command %d: %d steps of %d, done %v", k, len(r.Steps), len(c.report.Steps), r.Done)
		}
		if !strings.Contains(text, "not complete") || !strings.Contains(text, fmt.Sprintf("%d steps:", len(r.Steps))) {
			t.Errorf("cut off at command %d:\n%s", k, text)
		}
		before = len(r.Steps)
	}
}

// The end of a share is no failure, but a test that failed before it is.
func TestStoppedAtTheEndOfAShare(t *testing.T) {
	p := &planned{takes: each(time.Hour)}
	c := planning(t, p, time.Minute, "conformance")
	if ok, err := c.all(context.Background()); err != nil || !ok {
		t.Errorf("passed %v, %v", ok, err)
	}
	r, _ := written(t, c)
	if s := r.Steps[0]; s.Status != skipped || !strings.Contains(s.Reason, "stopped after 1m0s") {
		t.Errorf("%+v", s)
	}
	if s := r.Steps[1]; s.Status != skipped || !strings.Contains(s.Reason, "needs about 5s") {
		t.Errorf("%+v", s)
	}
	c = planning(t, &planned{takes: each(time.Hour), fails: "conformance"}, time.Minute, "conformance")
	if ok, err := c.all(context.Background()); err != nil || ok {
		t.Errorf("passed %v, %v", ok, err)
	}
}

func TestMachineOf(t *testing.T) {
	for name, want := range map[string]string{
		"NVIDIA H100 80GB HBM3": "h100", "NVIDIA A100-SXM4-80GB": "a100", "NVIDIA H100 PCIe": "", "NVIDIA A100-PCIE-40GB": "", "NVIDIA H200": "h200", "NVIDIA H200 NVL": "", "": "",
	} {
		if got := machineOf(name); got != want {
			t.Errorf("%q is modelled as %q", name, got)
		}
	}
}

// The reports of a plan, with the first step of each group and outcome. Shares of the model are left out: its tables change.
func TestGoldenReports(t *testing.T) {
	p := &planned{takes: each(2 * time.Second), fails: "driver"}
	c := planning(t, p, 3*time.Minute, "info", "driver", "bench", "peers", "gemm")
	if ok, err := c.all(context.Background()); err != nil || ok {
		t.Fatalf("passed %v, %v", ok, err)
	}
	for i := range c.report.Measurements {
		m := &c.report.Measurements[i]
		if m.Roofline == nil || *m.Roofline <= 0 {
			t.Errorf("there is no roofline of %+v", m)
		}
		if m.Modelled == nil && m.Precision == "float32" && slices.Contains(compare.Usual(), m.Model) { // no step of the others is modelled yet
			t.Errorf("there is no model of %+v", m)
		}
		m.Roofline, m.Modelled = new(0.5), nil
	}
	seen := map[string]bool{}
	c.report.Steps = slices.DeleteFunc(c.report.Steps, func(s *step) bool {
		group, _, _ := strings.Cut(s.Name, "/")
		before := seen[group+s.Status]
		seen[group+s.Status] = true
		return before
	})
	c.report.Measurements, c.report.Peers = c.report.Measurements[:2], c.report.Peers[:2]
	if err := c.write(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"gpu-check.md", "gpu-check.json"} {
		b, err := os.ReadFile(filepath.Join(c.out, name))
		if err != nil {
			t.Fatal(err)
		}
		got := string(b) // which names no path of the machine
		golden := filepath.Join("testdata", name)
		if *update {
			if err := os.MkdirAll("testdata", 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s is\n%s\nwant\n%s", name, got, want)
		}
	}
}
