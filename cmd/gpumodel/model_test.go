package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/bench"
	"github.com/privgrad/privgrad/cuda"
	"github.com/privgrad/privgrad/internal/cli"
	"github.com/privgrad/privgrad/internal/cuda/model"
)

var updateModelled = flag.Bool("update-modelled", false, "write the tables of modelled steps anew")

// modelledCase is a row of the table of modelled steps.
type modelledCase struct {
	machine, model  string
	batch           int
	mode, precision string
}

// modelledCases are those of a machine, as they are in its files. Plain steps, whose sums have long blocks, are not
// there for the A100. The H200 has what is to be fast on tensor cores, and the largest batches of dense layers.
func modelledCases(machine string) (all []modelledCase) {
	add := func(name string, batch int, precisions ...string) {
		for _, mode := range []string{"private", "plain"} {
			if mode == "plain" && machine == "a100" {
				continue
			}
			for _, precision := range precisions {
				all = append(all, modelledCase{machine, name, batch, mode, precision})
			}
		}
	}
	if machine == "h200" {
		add("cifar-small", 250, "tf32", "bf16")
		add("cifar-paper", 250, "tf32", "bf16")
		add("resnet-small", 250, "tf32", "bf16")
		add("wrn-16-4", 256, "tf32", "bf16")
		add("mlp-mnist", 4096, "float32", "tf32")
		add("mlp-fmnist", 4096, "float32", "tf32")
		add("cifar-paper", 4096, "bf16")
		return all
	}
	for _, m := range []struct {
		name  string
		small int
	}{{"mlp-mnist", 300}, {"mlp-fmnist", 300}, {"cnn-mnist", 300}, {"mnist-tf", 300}, {"cifar-small", 250}, {"cifar-paper", 250}} {
		for _, batch := range []int{m.small, 4096} {
			add(m.name, batch, "float32", "tf32")
		}
	}
	return all
}

// tables are where the committed ones are, and withTables the machines that have some.
var tables, withTables = filepath.FromSlash("../../bench/results/modelled"), []string{"h100", "a100", "h200"}

// modelledFiles are those of a machine's steps and of their kernels.
func modelledFiles(machine string) (steps, kernels string) {
	at := filepath.Join(tables, machine)
	return at + ".csv", at + "-kernels.csv"
}

const (
	modelledStepsHead   = "model,batch,mode,precision,physical_batch,launches,step_ms,roofline_ms,launch_floor_ms,dram_mb"
	modelledKernelsHead = "model,batch,mode,precision,module,kernel,grid,threads,launches,each_us,bound,throughput_us,latency_us,l2_us,dram_us,instructions,fma_percent,conflict_percent,sectors_per_request"
)

var modelledColumns = strings.Split(modelledKernelsHead, ",")

// rows models a step: a line of the one table, and one a kind of launch of the other.
func (c modelledCase) rows(t *testing.T) (step string, kernels []string) {
	t.Helper()
	r, err := modelStep(c.machine, bench.StepOptions{Model: c.model, Batch: c.batch, Mode: c.mode, Precision: c.precision, Strategy: "auto", Activation: "relu"}, true)
	if err != nil {
		t.Fatalf("%v: %v", c, err)
	}
	name := fmt.Sprintf("%s,%d,%s,%s", c.model, c.batch, c.mode, c.precision)
	for _, g := range model.Group(r.Kernels) {
		n := &g.Counts
		instructions := int64(0)
		for _, x := range n.Instructions {
			instructions += x
		}
		kernels = append(kernels, fmt.Sprintf("%s,%s,%s,%dx%dx%d,%d,%d,%.2f,%s,%.2f,%.2f,%.2f,%.2f,%d,%.0f,%.0f,%.1f", name, g.Module, g.Name,
			g.Grid[0], g.Grid[1], g.Grid[2], g.Threads, g.Launches, 1e6*g.Seconds, g.Bound, 1e6*g.Throughput, 1e6*g.Latency, 1e6*g.L2, 1e6*g.DRAM,
			instructions, 100*n.FMAShare(), 100*n.ConflictShare(), n.SectorsPerRequest()))
	}
	return fmt.Sprintf("%s,%d,%d,%.4f,%.4f,%.4f,%.1f", name, r.Together, r.Launches, 1e3*r.Seconds, 1e3*r.Roofline, 1e3*r.Floors, float64(r.DRAM)/1e6), kernels
}

// The committed tables are what the model gives, and steps take what they took. TestLongModelled looks at more of
// them; with -update-modelled it writes all.
func TestModelled(t *testing.T) {
	checkModelled(t, "h100", func(c modelledCase) bool {
		return c.batch == 300 && c.mode == "private" && (c.model == "mlp-fmnist" || c.model == "mnist-tf" && c.precision == "float32")
	})
}

// TestLongModelled compares what takes seconds, and of a second machine what does not run on tensor cores: kernels are the same
// on both. The other rows, most of them plain steps, take minutes: -update-modelled computes all of them, so that git shows
// what changed.
func TestLongModelled(t *testing.T) {
	for _, machine := range withTables {
		t.Run(machine, func(t *testing.T) {
			if *updateModelled {
				writeModelled(t, machine)
			} else {
				checkModelled(t, machine, func(c modelledCase) bool {
					small, simple := c.batch < 4096, c.precision == "float32"
					return c.mode == "private" && (small && simple || machine != "a100" && (small || simple))
				})
			}
		})
	}
}

// Kernels of private steps and what they do are the same on all machines: only times differ, and what bounds them.
func TestMachinesRunTheSameKernels(t *testing.T) {
	counted := func(machine string) (rows []string) {
		_, file := modelledFiles(machine)
		for _, line := range readLines(t, file)[1:] {
			c := strings.Split(line, ",")
			if c[2] != "plain" {
				rows = append(rows, strings.Join(slices.Delete(c, slices.Index(modelledColumns, "each_us"), slices.Index(modelledColumns, "instructions")), ","))
			}
		}
		return rows
	}
	first := counted(withTables[0])
	for _, machine := range []string{"a100"} {
		if other := counted(machine); !slices.Equal(first, other) {
			t.Errorf("the kernels of %s are not those of %s: write both machines' tables anew (docs/internals/modelled.md)", machine, withTables[0])
		}
	}
	if len(first) < 400 {
		t.Errorf("the table of %s has %d rows", withTables[0], len(first))
	}
}

func readLines(t *testing.T, file string) []string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(b)), "\n")
}

func checkModelled(t *testing.T, machine string, which func(modelledCase) bool) {
	t.Helper()
	stepsFile, kernelsFile := modelledFiles(machine)
	steps, kernels := readLines(t, stepsFile), readLines(t, kernelsFile)
	if !strings.Contains(steps[0], aModel) || !strings.Contains(kernels[0], aModel) {
		t.Errorf("the tables do not begin by saying that they are %s", aModel)
	}
	for _, c := range modelledCases(machine) {
		if !which(c) {
			continue
		}
		step, launches := c.rows(t)
		if !slices.Contains(steps, step) {
			t.Errorf("%s does not have the row\n%s\nWhere a kernel was meant to change, write the tables anew (docs/internals/modelled.md).", stepsFile, step)
		}
		prefix := strings.Join(strings.SplitN(step, ",", 5)[:4], ",") + ","
		var have []string
		for _, k := range kernels {
			if strings.HasPrefix(k, prefix) {
				have = append(have, k)
			}
		}
		if !slices.Equal(have, launches) {
			t.Errorf("%s has of %s\n%s\nand not\n%s", kernelsFile, prefix, strings.Join(have, "\n"), strings.Join(launches, "\n"))
		}
	}
}

func writeModelled(t *testing.T, machine string) {
	t.Helper()
	head := "# " + model.Find(machine).Title + ": " + aModel + "; go test ./cmd/gpumodel -run TestLongModelled/" + machine + " -update-modelled -timeout 0"
	steps, kernels := []string{head, modelledStepsHead}, []string{head, modelledKernelsHead}
	for _, c := range modelledCases(machine) {
		step, launches := c.rows(t)
		steps, kernels = append(steps, step), append(kernels, launches...)
		t.Log(step)
	}
	stepsFile, kernelsFile := modelledFiles(machine)
	for file, lines := range map[string][]string{stepsFile: steps, kernelsFile: kernels} {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// A modelled step says what it is, adds up, and is the same twice.
func TestModelStep(t *testing.T) {
	o := bench.StepOptions{Model: "mlp-small", Batch: 20, Mode: "private", Strategy: "auto", Activation: "relu"}
	r, err := modelStep("a100", o, true)
	if err != nil {
		t.Fatal(err)
	}
	again, err := modelStep("a100", o, true)
	if err != nil {
		t.Fatal(err)
	}
	one, _ := json.Marshal(r)
	two, _ := json.Marshal(again)
	if string(one) != string(two) {
		t.Errorf("two models of one step are\n%s\n%s", one, two)
	}
	if r.Kind != "a model, not a measurement" || len(r.Notes) < 5 || r.Launches != len(r.Kernels) || r.Graphs != 1 || r.Kernels[0].Name != "advance" {
		t.Errorf("a modelled step is %s", one)
	}
	// What begins a graph is shared by its steps.
	sum := (model.GraphFloor.Seconds() + r.Kernels[0].Seconds) / cuda.Together
	for _, k := range r.Kernels[1:] {
		sum += k.Seconds
	}
	if d := sum - r.Seconds; d < -1e-9 || d > 1e-9 || r.Seconds < r.Floors || r.Floors < 1e-5 {
		t.Errorf("%v s of kernels and graphs, %v s a step, %v s of floors", sum, r.Seconds, r.Floors)
	}
	gradient := 0.0
	for _, l := range r.Layers {
		gradient += l.Gradient
		if !(l.Forward > 0) {
			t.Errorf("a layer is %+v", l)
		}
	}
	if !(gradient > 0) {
		t.Error("no time goes to gradients")
	}
}

// gpumodel runs a command line.
func gpumodel(args ...string) (code int, stdout, stderr string) {
	var out, err strings.Builder
	code = run(args, &out, &err)
	return code, out.String(), err.String()
}

func TestCommand(t *testing.T) {
	small := []string{"step", "--model", "mlp-small", "--batch", "8"}
	code, out, stderr := gpumodel(append(small, "--gpu", "h200", "--precision", "tf32", "--json", "--explain")...)
	var r map[string]any
	if err := json.Unmarshal([]byte(out), &r); code != cli.ExitDone || stderr != "" || err != nil {
		t.Fatalf("exit %d, %v, %s", code, err, stderr)
	}
	want := []string{"activation", "assumptions", "batch", "dram_bytes", "examples_per_second", "flops_per_example", "gpu", "graphs", "kernels", "kind", "launch_floor_seconds",
		"launches", "layers", "machine", "mode", "model", "modelled", "parameters", "physical_batch", "precision", "roofline_seconds", "step_seconds", "strategy"}
	if keys := slices.Sorted(maps.Keys(r)); !slices.Equal(keys, want) {
		t.Errorf("the JSON has %v", keys)
	}
	if seconds, ok := r["step_seconds"].(float64); !ok || seconds < 1e-5 || r["modelled"] != true || r["kind"] != "a model, not a measurement" ||
		r["gpu"] != "h200" || r["model"] != "mlp-small" || r["batch"] != 8.0 || r["precision"] != "tf32" || r["mode"] != "private" {
		t.Errorf("the JSON is %s", out)
	}

	code, out, stderr = gpumodel(append(small, "--mode", "plain", "--explain")...)
	for _, want := range []string{"on H100 SXM5 80 GB\nThis is a model, not a measurement.", "dense_sum", "What the model assumes"} {
		if code != cli.ExitDone || !strings.Contains(out, want) {
			t.Errorf("exit %d, no %q in\n%s%s", code, want, out, stderr)
		}
	}
	if code, out, _ := gpumodel("step", "--help"); code != cli.ExitDone || !strings.Contains(out, "h100, h200, a100") {
		t.Errorf("help: exit %d,\n%s", code, out)
	}
	for args, want := range map[string]string{
		"step --gpu t4":         "h100, h200, a100",
		"step --batch 0":        "batch 0",
		"step --mode fast":      `"fast"`,
		"step --precision half": `"half"`,
		"step --model resnet":   `"resnet"`,
		"step --strategy hope":  `"hope"`,
		"step --input 3":        "input [3]",
		"step --device cuda":    "gpumodel step --help",
		"train":                 `"train"`,
	} {
		code, out, stderr := gpumodel(strings.Fields(args)...)
		if code != cli.ExitUsage || out != "" || !strings.HasPrefix(stderr, "gpumodel: ") || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit %d, %q, %q", args, code, out, stderr)
		}
	}
}
