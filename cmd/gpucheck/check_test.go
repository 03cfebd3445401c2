package main

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/privgrad/privgrad/bench/compare"
	"github.com/privgrad/privgrad/internal/safetensors"
)

// scripts stand in for the bundle. MODE is none, without a GPU, or a fault.
var scripts = map[string]string{
	"privgrad": `
case $1 in
info)
	if [ "$MODE" = none ]; then echo '{"gpus": {"devices": [], "reason": "no libcuda"}}'; else echo '{"gpus": {"devices": [{"name": "a GPU"}]}}'; fi ;;
train)
	if [ "$MODE$3" = nonecuda ]; then echo 'no GPU to train on' >&2; exit 1; fi
	while [ "$1" != --out ]; do shift; done
	mkdir -p "$2"
	file=one.safetensors
	case $MODE:$2 in unlike:*/cuda-again|far:*/cpu) file=other.safetensors ;; esac
	cp "$MODELS/$file" "$2/model.safetensors"
	echo '{"steps": 60}' ;;
bench)
	if [ "$MODE" = none ]; then echo 'no GPU to measure' >&2; exit 1; fi
	case $MODE:$2 in
	skip:gemm) echo '{"cublas_version": null, "cublas_reason": "cuBLAS was not found", "products": [{}]}' ;;
	wrong:gemm) echo '{"cublas_version": "12.4.1", "products": [{"layer": "fc1", "product": "forward", "largest_difference": 0.001}]}' ;;
	*:gemm) echo '{"cublas_version": "12.4.1", "products": [{"layer": "fc1", "product": "forward", "largest_difference": 1e-7}]}' ;;
	*) echo '{"step_seconds_median": 1}' ;;
	esac ;;
esac`,
	"cudrv.test":   test,
	"kernels.test": `if [ "$1" = -test.list=. ]; then echo TestOne; echo TestTwo; exit; fi` + test,
	"cuda.test":    test,
}

const test = `
if [ "$PRIVGRAD_GPU" != 1 ]; then echo 'not asked for the GPU'; exit 1; fi
case $MODE:$2 in
none:*) echo '    x_test.go:1: no GPU to test on'; exit 1 ;;
skip:*TestGPU*) printf '=== RUN   TestGPU\n    x_test.go:2: this build has no CUDA\n--- SKIP: TestGPU (0.00s)\nPASS\n' ;;
gone:*TestTwo*) echo 'testing: warning: no tests to run' ;;
slow:*TestTwo*) exec sleep 60 ;;
broken:*TestTwo*) echo '    x_test.go:3: kernel two: value 7 is 1, want 2'; seq 500; exit 1 ;;
broken:*TestConformance\$) printf -- '--- FAIL: TestConformance (0.00s)\n    --- PASS: TestConformance/a (0.0s)\n    --- FAIL: TestConformance/b_c (0.0s)\n'; exit 1 ;;
*TestRealSums*) printf '    real_test.go:9: it in tf32: 0.001 of the sum of 4096 records, at most 0.02\n--- PASS: TestRealSums (0.00s)\n' ;;
*) echo '--- PASS: Test (0.00s)' ;;
esac`

func writeModel(t *testing.T, name string, values ...float32) {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := safetensors.Write(f, []safetensors.Tensor{{Name: "w", Shape: []int{len(values)}, Data: values}}, nil); err != nil {
		t.Fatal(err)
	}
}

// checked runs all steps on the stand-ins and reads what they wrote.
func checked(t *testing.T, mode string) (passed bool, text string, steps map[string]step) {
	t.Helper()
	dir := t.TempDir()
	for name, script := range scripts {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/bash\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	writeModel(t, filepath.Join(dir, "one.safetensors"), 1, 2, 3)
	writeModel(t, filepath.Join(dir, "other.safetensors"), 1, 2.5, 3)
	t.Setenv("MODE", mode)
	t.Setenv("MODELS", dir)
	c := &check{system: machine{}, bundle: dir, out: filepath.Join(dir, "out"), seconds: 1, rounds: 1, python: "no-such-python", limit: 20 * time.Second, atOnce: 2, chosen: chosen(t, "", "", "", "")}
	if mode == "slow" {
		c.limit = 3 * time.Second
	}
	passed, err := c.all(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(c.out, "gpu-check.json"))
	if err != nil {
		t.Fatal(err)
	}
	var r struct {
		Passed, Done bool
		Steps        []step
	}
	if err := json.Unmarshal(b, &r); err != nil {
		t.Fatal(err)
	}
	if r.Passed != passed || !r.Done {
		t.Errorf("%s: the report says passed %v, done %v; the check %v", mode, r.Passed, r.Done, passed)
	}
	steps = map[string]step{}
	for _, s := range r.Steps {
		steps[s.Name] = s
	}
	b, err = os.ReadFile(filepath.Join(c.out, "gpu-check.md"))
	if err != nil {
		t.Fatal(err)
	}
	return passed, string(b), steps
}

func TestSteps(t *testing.T) {
	if _, err := os.Stat("/bin/bash"); err != nil {
		t.Skipf("the check of a GPU is a script for bash: %v", err)
	}
	// What fails, and what its reason or log says; everything else passes or cannot run.
	for mode, failures := range map[string]map[string]string{
		"good": {},
		"none": {
			"info": "no libcuda", "driver": "no GPU to test on", "kernels/TestOne": "no GPU to test on", "kernels/TestTwo": "no GPU to test on",
			"conformance": "no GPU to test on", "conformance/precisions": "no GPU to test on", "train/TestLongTrainsLikeTheCPU": "no GPU", "train/TestRunsDoNotWait": "no GPU",
			"gemm/conformance": "no GPU to test on", "kernels/TestOne cubin": "no GPU", "kernels/TestTwo cubin": "no GPU",
			"real/cifar-small": "no GPU", "real/cifar-paper": "no GPU", "real/resnet-small": "no GPU", "real/wrn-16-4": "no GPU",
			"train/cuda": "no GPU to train on", "train/cuda again": "no GPU to train on",
		},
		"skip":   {},
		"gone":   {"kernels/TestTwo": "no such test", "kernels/TestTwo cubin": "no such test"},
		"slow":   {"kernels/TestTwo": "not done after 3s", "kernels/TestTwo cubin": "not done after 3s"},
		"broken": {"kernels/TestTwo": "value 7 is 1, want 2", "kernels/TestTwo cubin": "value 7 is 1, want 2", "conformance": "TestConformance/b_c"},
		"wrong":  {},
		"unlike": {"train/same bits": "value 1 of w: 2 and 2.5"},
		"far":    {"train/like the CPU": "value 1 of w: 2 on the GPU, 2.5 on the CPU"},
	} {
		for _, model := range compare.Models() {
			if why := map[string]string{"none": "no GPU", "wrong": "the forward of fc1"}[mode]; why != "" {
				failures["gemm/"+model] = why
			}
			for _, how := range []string{
				" private", " private tf32", " private bf16", " private 4096", " private tf32 4096",
				" private bf16 4096", " plain", " plain tf32", " plain bf16", " plain 4096", " plain tf32 4096", " plain bf16 4096", " l2p",
			} {
				if mode == "none" {
					failures["bench/"+model+how] = "no GPU to measure"
				}
			}
		}
		passes, text, steps := checked(t, mode)
		if passes != (len(failures) == 0) {
			t.Errorf("%s: passed is %v", mode, passes)
		}
		for name, s := range steps {
			want, fails := failures[name]
			if (s.Status == failed) != fails {
				t.Errorf("%s: %s is %q: %s %s", mode, name, s.Status, s.Reason, s.Log)
			}
			if !strings.Contains(s.Reason+s.Log, want) || !strings.Contains(text, want) {
				t.Errorf("%s: %s does not say %q: %s %s", mode, name, want, s.Reason, s.Log)
			}
		}
		for name := range failures {
			if _, ok := steps[name]; !ok {
				t.Errorf("%s: there is no step %s", mode, name)
			}
		}
		for name, why := range map[string]string{"peers": "no-such-python"} {
			if s := steps[name]; s.Status != skipped || !strings.Contains(s.Reason, why) {
				t.Errorf("%s: %s is %q: %s", mode, name, s.Status, s.Reason)
			}
		}
		if _, again := steps["conformance/b_c alone"]; again != (mode == "broken") {
			t.Errorf("%s: the failing part of the suite ran alone: %v", mode, again)
		}
		if s := steps["driver"]; mode == "skip" && (s.Status != skipped || !strings.Contains(s.Reason, "no CUDA")) {
			t.Errorf("a skipped test is %q: %s", s.Status, s.Reason)
		}
		if s := steps["gemm/mlp-mnist"]; mode == "skip" && (s.Status != skipped || !strings.Contains(s.Reason, "cuBLAS was not found")) {
			t.Errorf("a comparison without cuBLAS is %q: %s", s.Status, s.Reason)
		}
		if s := steps["real/wrn-16-4"]; mode == "good" && s.Result == nil {
			t.Errorf("the report has no figure of %s", s.Name)
		}
		if s := steps["bench/cnn-mnist private"]; mode == "good" && s.Result == nil {
			t.Error("a measurement has no result")
		}
	}
}

// compute-sanitizer fails where a test makes no call of CUDA.
func TestIdle(t *testing.T) {
	if _, err := os.Stat("/bin/sh"); err != nil {
		t.Skipf("the command that stands for compute-sanitizer is a script for sh: %v", err)
	}
	for _, x := range []struct{ prints, status, reason string }{
		{"--- PASS: TestOne\nnothing to do\n", skipped, "nothing to do"},
		{"    x_test.go:1: no GPU needed\n--- SKIP: TestOne\nnothing to do\n", skipped, "x_test.go:1: no GPU needed"},
		{"    x_test.go:2: wrong\n--- FAIL: TestOne\nnothing to do\n", failed, "x_test.go:2: wrong"},
		{"nothing to do\n", failed, "nothing to do"},
		{"--- PASS: TestOne\nan error\n", failed, "an error"},
	} {
		c := &check{system: machine{}, out: t.TempDir(), limit: time.Minute}
		if err := os.Mkdir(filepath.Join(c.out, "logs"), 0o755); err != nil {
			t.Fatal(err)
		}
		s, _ := c.run(t.Context(), job{name: "one", limit: time.Minute, idle: "nothing to do", command: []string{"/bin/sh", "-c", "printf %s '" + x.prints + "'; exit 9"}}, nil)
		if s.Status != x.status || s.Reason != x.reason {
			t.Errorf("a command that prints %q is %q: %q; want %q: %q", x.prints, s.Status, s.Reason, x.status, x.reason)
		}
	}
}

// NaN agrees with nothing.
func TestNearRefusesNaN(t *testing.T) {
	w := func(x float32) []safetensors.Tensor { return []safetensors.Tensor{{Name: "w", Data: []float32{1, x}}} }
	for _, c := range []struct {
		x, y float32
		ok   bool
	}{{2, 2, true}, {2, 2.002, true}, {2, 2.05, false}, {float32(math.NaN()), 2, false}, {2, float32(math.NaN()), false}} {
		if err := near(w(c.x), w(c.y), &step{}); (err == nil) != c.ok {
			t.Errorf("%v and %v: %v", c.x, c.y, err)
		}
	}
}

func TestTail(t *testing.T) {
	log := "    x_test.go:3: the cause\n" + strings.Repeat("noise\n", 500) + "the end\n"
	lines := strings.Split(tail([]byte(log)), "\n")
	if !slices.Contains(lines, "    x_test.go:3: the cause") || lines[len(lines)-1] != "the end" || len(lines) > 110 {
		t.Errorf("%d lines, from %q to %q", len(lines), lines[0], lines[len(lines)-1])
	}
}
