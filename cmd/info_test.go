package cmd

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/internal/cli"
	"github.com/privgrad/privgrad/internal/cli/data"
	"github.com/privgrad/privgrad/nn"
)

const fashionFiles = "../datasets/mnist/fashion"

func TestInfo(t *testing.T) {
	r := object(t, ok(t, "info", "--json"))
	wantKeys(t, r, "version", "revision", "revision_time", "modified", "go", "os", "arch",
		"cpu", "kernels", "threads", "memory_bytes", "devices", "gpus", "models", "data_sets")
	gpus := r["gpus"].(map[string]any)
	wantKeys(t, gpus, "cuda_version", "devices", "reason", "cublas_version", "cublas_reason")
	if (len(gpus["devices"].([]any)) == 0) != (gpus["reason"] != "") {
		t.Errorf("neither GPUs nor a reason why there are none, or both: %v", gpus)
	}
	available := map[any]any{}
	for _, d := range r["devices"].([]any) {
		available[d.(map[string]any)["name"]] = d.(map[string]any)["available"]
	}
	if available["cpu"] != true || available["reference"] != true || available["cuda"] != false {
		t.Errorf("devices %v", available)
	}
	if len(r["models"].([]any)) != len(nn.Names()) {
		t.Errorf("models %v", r["models"])
	}
	human := ok(t, "info")
	for _, want := range append([]string{"kernels", "GPUs", "fmnist", "built in", "privgrad data fetch cifar10"}, "cpu", "cuda") {
		if !strings.Contains(human, want) {
			t.Errorf("info does not show %q:\n%s", want, human)
		}
	}
	for _, m := range nn.Names() {
		if !strings.Contains(human, m.Name) {
			t.Errorf("info does not list %s", m.Name)
		}
	}
}

func TestInfoModel(t *testing.T) {
	human := ok(t, "info", "--model", "cnn-mnist")
	for _, want := range []string{"102550", "conv1.weight", "[6 1 5 5]", "fc3.bias", "maxpool", "kFLOP/example"} {
		if !strings.Contains(human, want) {
			t.Errorf("info --model does not show %q:\n%s", want, human)
		}
	}
	r := object(t, ok(t, "info", "--model", "logistic", "--json"))
	wantKeys(t, r, "model", "input", "loss", "parameters", "flops_per_example", "ops", "tensors")
	if r["parameters"] != 785.0 || len(r["tensors"].([]any)) != 2 {
		t.Errorf("plan %v", r)
	}
	fails(t, cli.ExitUsage, []string{"info", "--model", "resnet"}, `"resnet"`, "cnn-mnist")
	fails(t, cli.ExitUsage, []string{"info", "--model", "cnn-mnist", "--activation", "elu"}, `"elu"`)
}

func TestBenchStep(t *testing.T) {
	short := []string{"bench", "step", "--model", "mlp-fmnist", "--batch", "8", "--seconds", "0.01", "--threads", "1"}
	r := object(t, ok(t, append(short, "--json")...))
	wantKeys(t, r, "device", "model", "mode", "strategy", "batch", "threads", "step_seconds_median", "examples_per_second",
		"peak_rss_bytes", "physical_batch", "precision", "parameters", "flops_per_example",
		"activation", "data", "steps_timed", "gemm")
	if r["mode"] != "private" || r["strategy"] != "auto" || r["batch"] != 8.0 || r["activation"] != "relu" || r["data"] != "fmnist" || r["parameters"] != 269322.0 {
		t.Errorf("bench step %v", r)
	}
	fails(t, cli.ExitUsage, append(short, "--precision", "half"), `"half"`, "tf32")
	fails(t, cli.ExitUsage, append(short, "--device", "cpu", "--precision", "tf32"), "precision tf32", "--device cuda")
	if r := object(t, ok(t, append(short, "--json", "--mode", "plain")...)); r["mode"] != "plain" || r["strategy"] != nil {
		t.Errorf("plain step %v", r)
	}
	if human := ok(t, "bench", "step", "--model", "cifar-small", "--batch", "2", "--seconds", "0.01"); !strings.Contains(human, "synthetic") || !strings.Contains(human, "records per second") {
		t.Errorf("bench step shows\n%s", human)
	}
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"--device modelled:h100", cli.ExitUsage, "run `go run ./cmd/gpumodel step --gpu h100` instead"},
		{"--activation elu", cli.ExitUsage, `"elu"`},
		{"--threads -1", cli.ExitUsage, "-1"},
		{"--device cuda", cli.ExitFailed, "cuda"},
	} {
		fails(t, c.code, append([]string{"bench", "step", "--json"}, strings.Fields(c.args)...), c.want)
	}
}

func TestBenchLineSearch(t *testing.T) {
	short := []string{"bench", "linesearch", "--model", "mlp-fmnist", "--batch", "8", "--seconds", "0.01", "--threads", "1"}
	r := object(t, ok(t, append(short, "--json")...))
	wantKeys(t, r, "device", "model", "activation", "data", "batch", "threads", "tried", "steps_timed",
		"step_seconds_median", "dpsgd_step_seconds_median", "ratio", "limit", "form", "batches", "evaluated")
	if r["model"] != "mlp-fmnist" || r["batch"] != 8.0 || r["tried"] != 8.0 || r["threads"] != 1.0 {
		t.Errorf("bench linesearch %v", r)
	}
	if human := ok(t, short...); !strings.Contains(human, "8 candidates on a fresh batch, form differences") || !strings.Contains(human, "ratio") {
		t.Errorf("bench linesearch shows\n%s", human)
	}
	for args, want := range map[string]string{
		"--batch 0": "batch 0", "--seconds 0": "seconds 0",
		"--model resnet": `"resnet"`, "--activation elu": `"elu"`, "--device tpu": `"tpu"`, "--threads -1": "-1",
	} {
		fails(t, cli.ExitUsage, append([]string{"bench", "linesearch", "--json"}, strings.Fields(args)...), want)
	}
}

func TestBenchL2P(t *testing.T) {
	short := []string{"bench", "l2p", "--model", "mlp-small", "--batch", "8", "--seconds", "0.01", "--threads", "1"}
	r := object(t, ok(t, append(short, "--json")...))
	wantKeys(t, r, "device", "model", "activation", "data", "batch", "threads", "parameters", "layers", "hidden", "steps_timed",
		"step_seconds_median", "dpsgd_step_seconds_median", "ratio", "limit")
	if r["model"] != "mlp-small" || r["batch"] != 8.0 || r["parameters"] != 15910.0 || r["limit"] != 3.5 || r["threads"] != 1.0 {
		t.Errorf("bench l2p %v", r)
	}
	if human := ok(t, short...); !strings.Contains(human, "LSTM of 2 layers of 20 units") || !strings.Contains(human, "ratio") {
		t.Errorf("bench l2p shows\n%s", human)
	}
	for args, want := range map[string]string{
		"--batch 0": "batch 0", "--seconds 0": "seconds 0", "--model resnet": `"resnet"`, "--activation elu": `"elu"`, "--device tpu": `"tpu"`, "--threads -1": "-1",
	} {
		fails(t, cli.ExitUsage, append([]string{"bench", "l2p", "--json"}, strings.Fields(args)...), want)
	}
}

func TestDataList(t *testing.T) {
	r := object(t, ok(t, "data", "list", "--json"))
	wantKeys(t, r, "data_sets", "tables")
	for _, s := range r["tables"].([]any) {
		wantKeys(t, s.(map[string]any), "name", "file", "public_n", "sha256", "test", "test_share", "features", "classes", "note")
	}
	for _, s := range r["data_sets"].([]any) {
		s := s.(map[string]any)
		wantKeys(t, s, "name", "built_in", "public_n", "shape", "classes", "files", "sources", "note")
		if s["built_in"] != (s["name"] == "fmnist") || len(s["sources"].([]any)) == 0 || s["note"] == "" {
			t.Errorf("data set %v", s)
		}
	}
	human := ok(t, "data", "list")
	for _, name := range data.Names() {
		if !strings.Contains(human, name+": ") {
			t.Errorf("data list does not show %s, which train knows:\n%s", name, human)
		}
	}
	for _, name := range data.TableNames() {
		if !strings.Contains(human, "  "+name+" ") {
			t.Errorf("data list does not show table %s:\n%s", name, human)
		}
	}
}

func TestDataVerify(t *testing.T) {
	human := ok(t, "data", "verify", "fmnist")
	findings, private, found := strings.Cut(human, "PRIVATE")
	if !found || strings.Count(findings, "known") != 4 || strings.Contains(findings, "60000") || !strings.Contains(private, "60000") {
		t.Errorf("verify shows\n%s", human)
	}
	dir := mnistFiles(t)
	// The directory's name may hold any digits.
	human = strings.ReplaceAll(ok(t, "data", "verify", "mnist", "--data-dir", dir), dir, "")
	if findings, private, _ := strings.Cut(human, "PRIVATE"); strings.Count(findings, "unknown") != 4 || strings.Contains(findings, "311") || !strings.Contains(private, "311") {
		t.Errorf("verify shows\n%s", human)
	}
	text := ok(t, "data", "verify", "mnist", "--data-dir", dir, "--json")
	r := object(t, text)
	wantKeys(t, r, "data_set", "ok", "files", "structure")
	if r["ok"] != true || strings.Contains(strings.ReplaceAll(text, dir, ""), "311") {
		t.Errorf("verify prints %s", text)
	}
	for _, f := range r["files"].([]any) {
		wantKeys(t, f.(map[string]any), "name", "path", "present", "structure", "digest")
	}
	r2 := privgrad("data", "verify", "cifar10", "--data-dir", dir)
	if r2.code != cli.ExitFailed || strings.Count(r2.stdout, "missing") != 6 {
		t.Errorf("verify of nothing: exit %d\n%s", r2.code, r2.stdout)
	}
	fails(t, cli.ExitUsage, []string{"data", "verify", "imagenet"}, `"imagenet"`, "fmnist")
	fails(t, cli.ExitUsage, []string{"data", "verify", "mnist"}, "--data-dir")
}

// transport stands in for the network.
type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func network(t *testing.T, f transport) {
	old := http.DefaultClient.Transport
	http.DefaultClient.Transport = f
	t.Cleanup(func() { http.DefaultClient.Transport = old })
}

func TestDataFetch(t *testing.T) {
	network(t, func(r *http.Request) (*http.Response, error) { return nil, errors.New("the cable is out") })
	if said := ok(t, "data", "fetch", "fmnist", "--data-dir", fashionFiles); !strings.Contains(said, "already there") {
		t.Errorf("fetching what is there says %q", said)
	}
	dir := filepath.Join(t.TempDir(), "new")
	fails(t, cli.ExitFailed, []string{"data", "fetch", "mnist", "--data-dir", dir}, "the cable is out", "https://")
	fails(t, cli.ExitUsage, []string{"data", "fetch", "imagenet", "--data-dir", dir}, `"imagenet"`)
	fails(t, cli.ExitUsage, []string{"data", "fetch", "mnist"}, "--data-dir")
	fails(t, cli.ExitUsage, []string{"data", "fetch", "mnist", "--data-dir", dir, "--progress", "x"}, `unknown --progress "x"`)

	// A file of another content is neither taken for the set's nor replaced.
	mine := filepath.Join(dir, "train-labels-idx1-ubyte")
	check(t, os.WriteFile(mine, []byte("mine"), 0o644))
	fails(t, cli.ExitFailed, []string{"data", "fetch", "mnist", "--data-dir", dir}, mine)
	if readFile(t, mine) != "mine" {
		t.Error("fetch replaced a file")
	}
}
