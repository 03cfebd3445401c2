package cmd

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/privgrad/privgrad/internal/cli"
	"github.com/privgrad/privgrad/internal/cli/model"
	"github.com/privgrad/privgrad/nn"
)

// quick are the flags of a short run on Fashion-MNIST.
func quick(t *testing.T, flags ...string) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "run")
	args := []string{"train", "--noise-multiplier", "1", "--batch", "64", "--steps", "3", "--threads", "1", "--out", dir}
	ok(t, append(args, flags...)...)
	return dir
}

// predictions are those of a command line.
func predictionsOf(t *testing.T, args ...string) (all []model.Predicted) {
	t.Helper()
	check(t, json.Unmarshal([]byte(ok(t, append([]string{"predict", "--json"}, args...)...)), &all))
	return all
}

// array writes black images of 28×28 for predict.
func array(t *testing.T) string {
	t.Helper()
	head := "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 28, 28), }"
	path := filepath.Join(t.TempDir(), "x.npy")
	b := slices.Concat([]byte("\x93NUMPY\x01\x00"), []byte{byte(len(head)), 0}, []byte(head), make([]byte, 2*28*28))
	check(t, os.WriteFile(path, b, 0o644))
	return path
}

func TestPredictAndExport(t *testing.T) {
	dir, images := quick(t, "--model", "mlp-small"), array(t)
	all := predictionsOf(t, dir, images)
	if len(all) != 2 || all[0].Name != images+"[0]" || all[0].Class == nil || len(all[0].Probabilities) != 10 {
		t.Fatalf("predictions %+v", all)
	}
	sum := 0.
	for _, p := range all[0].Probabilities {
		sum += p
	}
	if math.Abs(sum-1) > 1e-9 || !slices.Equal(all[0].Probabilities, all[1].Probabilities) {
		t.Errorf("predictions %+v", all)
	}
	table := filepath.Join(t.TempDir(), "p.csv")
	if said := ok(t, "predict", dir, images, "--csv", table); !strings.Contains(said, "2 predictions") {
		t.Errorf("it says %q", said)
	}
	f, err := os.Open(table)
	check(t, err)
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil || len(rows) != 3 || len(rows[0]) != 12 || rows[0][0] != "name" || rows[0][1] != "class" || rows[0][2] != "p(T-shirt/top)" {
		t.Fatalf("the table is %v, %v", rows, err)
	}
	for i, row := range rows[1:] {
		for j, p := range all[i].Probabilities {
			if got, err := strconv.ParseFloat(row[2+j], 64); err != nil || got != p || row[0] != all[i].Name || row[1] != *all[i].Class {
				t.Errorf("prediction %d is %v, in JSON %+v", i, row, all[i])
			}
		}
	}
	fails(t, cli.ExitUsage, []string{"predict", dir, images, "--csv", images}, "exists already")
	fails(t, cli.ExitFailed, []string{"predict", dir, images, "--csv", filepath.Join(dir, "none", "p.csv")}, "there is no folder")
	file := filepath.Join(t.TempDir(), "m.onnx")
	wantKeys(t, object(t, ok(t, "export", dir, "--onnx", file, "--json")), "run", "file", "format")
	if i, err := os.Stat(file); err != nil || i.Size() < 15910*4 {
		t.Errorf("the file: %v", err)
	}
	fails(t, cli.ExitUsage, []string{"predict", dir}, "a run directory and images")
	fails(t, cli.ExitUsage, []string{"predict", dir, "nowhere.png"}, "nowhere.png", "give an image")
	fails(t, cli.ExitUsage, []string{"predict", dir, images, "--average"}, "kept no average")
	fails(t, cli.ExitUsage, []string{"export", dir}, "--onnx is missing")
	fails(t, cli.ExitUsage, []string{"export", "nowhere", "--onnx", file + ".new"}, "nowhere", "no run directory")
}

// Other data are evaluated only where they are declared public, and a run that has not finished is called that, beside the
// result of every command that uses its model.
func TestUseOfModels(t *testing.T) {
	dir := quick(t, "--model", "mlp-small")
	const fmnist = "fmnist"
	want := object(t, ok(t, "eval", dir, "--json"))
	got := object(t, ok(t, "eval", dir, "--data", fmnist, "--test-is-public", "--json"))
	for key, value := range want {
		if fmt.Sprint(got[key]) != fmt.Sprint(value) {
			t.Errorf("%s is %v, want %v", key, got[key], value)
		}
	}
	fails(t, cli.ExitUsage, []string{"eval", dir, "--data", fmnist}, "add --test-is-public", "without noise")
	fails(t, cli.ExitUsage, []string{"eval", dir, "--test-is-public"}, "--data")
	fails(t, cli.ExitUsage, []string{"eval", dir, "--data", "dir:none", "--test-is-public", "--json"}, "there is no folder")
	fails(t, cli.ExitUsage, []string{"eval", dir, "--device", "gpu"}, "did you mean cuda?")
	fails(t, cli.ExitUsage, []string{"eval", dir, "--device", "GPU:1"}, "did you mean cuda:1?")
	check(t, os.WriteFile(filepath.Join(dir, "x.npz"), []byte("PK"), 0o644))
	fails(t, cli.ExitUsage, []string{"predict", dir, filepath.Join(dir, "x.npz")}, "numpy.save(")

	if err := os.Remove(filepath.Join(dir, "result.json")); err != nil { // as if killed before it had finished
		t.Fatal(err)
	}
	const says = "is unfinished: its model is that after 3 of 3 steps; continue it by `privgrad resume "
	for _, args := range [][]string{
		{"eval", dir, "--json"}, {"eval", dir}, {"predict", dir, array(t), "--json"}, {"predict", dir, array(t)},
		{"export", dir, "--onnx", filepath.Join(t.TempDir(), "m.onnx"), "--json"}, {"export", dir, "--onnx", filepath.Join(t.TempDir(), "m.onnx")},
	} {
		r := privgrad(args...)
		if r.code != cli.ExitDone || !strings.Contains(r.stderr, says+dir) || strings.Count(r.stderr, "\n") != 1 {
			t.Errorf("%v: exit %d, %q", args, r.code, r.stderr)
		}
		if slices.Contains(args, "--json") && args[0] != "predict" && object(t, r.stdout)["unfinished"] != true {
			t.Errorf("%v: %s", args, r.stdout)
		}
	}
}

// ownNetwork registers a network, once: names are the process's.
var ownNetwork = sync.OnceValue(func() error {
	return nn.Register("cmd-test", func(o nn.Options) (*nn.Model, error) {
		g := G.NewGraph()
		x := G.NewTensor(g, tensor.Float32, 4, G.WithShape(o.Batch, o.Input[0], o.Input[1], o.Input[2]), G.WithName("x"))
		logits, err := nn.Apply(x, nn.Flatten, nn.Dense("a", 8, nn.Glorot(o.Seed)), nn.Tanh, nn.Dense("b", o.Classes, nn.Glorot(o.Seed)))
		return &nn.Model{Graph: g, Input: x, Logits: logits}, err
	})
})

// A registered network of one's own has all commands of a named model.
func TestOwnNetworkOnTheCommandLine(t *testing.T) {
	check(t, ownNetwork())
	dir := quick(t, "--model", "cmd-test")
	e := object(t, ok(t, "eval", dir, "--json"))
	if e["model"] != "cmd-test" || e["examples"] != 10000.0 {
		t.Errorf("eval says %v", e)
	}
	if all := predictionsOf(t, dir, array(t)); len(all) != 2 {
		t.Errorf("predictions %+v", all)
	}
	ok(t, "export", dir, "--onnx", filepath.Join(t.TempDir(), "m.onnx"))
	if info := object(t, ok(t, "info", "--model", "cmd-test", "--json")); info["parameters"] != 784*8+8+8*10+10.0 {
		t.Errorf("info says %v", info)
	}
	if err := os.Remove(filepath.Join(dir, "result.json")); err != nil { // as if killed before it had finished
		t.Fatal(err)
	}
	ok(t, "train", "-c", filepath.Join(dir, "config.yaml"), "--out", dir, "--resume")
}
