package cmd

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/internal/cli"
)

// What a file has is listed, with what is refused of it, why, and what to do.
func TestInfoOfNetworks(t *testing.T) {
	r := object(t, ok(t, "info", "--network", onnxFile("mlp-script"), "--json"))
	wantKeys(t, r, "network", "input", "outputs", "parameters", "trainable", "layers", "refusals", "tensors")
	if r["outputs"] != 3.0 || r["trainable"] != true || len(r["refusals"].([]any)) != 0 {
		t.Errorf("it is %v", r)
	}
	sum := 0.
	for _, l := range r["layers"].([]any) {
		sum += l.(map[string]any)["parameters"].(float64)
	}
	if sum != r["parameters"] {
		t.Errorf("layers have %v parameters, the network %v", sum, r["parameters"])
	}
	first := r["tensors"].([]any)[0].(map[string]any)
	if first["name"] != "fc1.weight" || first["name_in_file"] != "0.weight" {
		t.Errorf("the first tensor is %v", first)
	}

	mobile := onnxFile("mobile-script")
	r = object(t, ok(t, "info", "--network", mobile, "--json"))
	if all := r["refusals"].([]any); r["trainable"] != false || len(all) == 0 || all[0].(map[string]any)["what_to_do"] == "" {
		t.Errorf("it is %v", r)
	}
	for _, want := range []string{"cannot be trained as it is", "grouped convolution", "--freeze"} {
		if text := ok(t, "info", "--network", mobile); !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	text := ok(t, "info", "--network", mobile, "--weights-are-public", "--freeze", "/21/GlobalAveragePool")
	if !strings.Contains(text, "frozen") || !strings.Contains(text, "170 parameters are trained") {
		t.Errorf("the frozen part is not shown:\n%s", text)
	}
	batch := onnxFile("resnet18-batch-kept-script")
	if text := ok(t, "info", "--network", batch); !strings.Contains(text, "--batchnorm group") {
		t.Errorf("nothing is said of batch normalization:\n%s", text)
	}
	if text := ok(t, "info", "--network", batch); !strings.Contains(text, "20 BatchNormalization nodes (") || strings.Count(text, "one record would see another") != 1 {
		t.Errorf("a reason is said more than once:\n%s", text)
	}
	text = ok(t, "info", "--network", batch, "--batchnorm", "group", "--new-head")
	if strings.Count(text, "GroupNorm(") != 20 {
		t.Errorf("what takes the place of batch normalization is not shown:\n%s", text)
	}
	r = object(t, ok(t, "info", "--network", batch, "--batchnorm", "group", "--json"))
	norms, inFile := 0, map[any]bool{}
	for _, l := range r["layers"].([]any) {
		if norm, of := l.(map[string]any)["group_norm"].(map[string]any); of {
			wantKeys(t, norm, "groups", "channels", "epsilon")
			if norms++; norm["epsilon"] != 1e-5 {
				t.Errorf("the norm is %v", norm)
			}
		}
	}
	for _, q := range r["tensors"].([]any) {
		inFile[q.(map[string]any)["name_in_file"]] = true
	}
	if norms != 20 || len(inFile) != len(r["tensors"].([]any)) {
		t.Errorf("%d norms, %d names of %d tensors", norms, len(inFile), len(r["tensors"].([]any)))
	}
	fails(t, cli.ExitUsage, []string{"info", "--network", onnxFile("mlp-script"), "--batchnorm", "group"}, "the file has no batch normalization", "leave --batchnorm out")
	fails(t, cli.ExitUsage, []string{"info", "--batchnorm", "group"}, "name the file by --network")
	fails(t, cli.ExitUsage, []string{"info", "--network", "none.onnx"}, "none.onnx")
	fails(t, cli.ExitUsage, []string{"info", "--network", batch, "--freeze", "nowhere", "--weights-are-public"}, "no node has that name", "info --network")
}

// Where records have another size than a model takes, the message says which flag changes it.
func TestSizeOfRecords(t *testing.T) {
	dir := t.TempDir()
	k := arrays([3]int{1, 8, 8}, 2, 4)(t, dir)
	begin := append([]string{"train", "--epsilon", "1", "--out", filepath.Join(dir, "run")}, k.train...)
	fails(t, cli.ExitUsage, append(begin, "--model", "cnn-mnist"), "model cnn-mnist takes images of size 28x28", "8x8", "--image-size 28x28")
	fails(t, cli.ExitUsage, append(begin, "--network", onnxFile("cnn-script"), "--new-head"), "reads 784 values", "add --image-size 28x28")
	fails(t, cli.ExitUsage, append(begin, "--network", onnxFile("cnn-script"), "--weights-are-public", "--freeze", "/0/Conv", "--new-head"), "change --image-size")
}
