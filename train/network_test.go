package train

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/features"
	"github.com/privgrad/privgrad/internal/collective/local"
	"github.com/privgrad/privgrad/internal/onnx"
	"github.com/privgrad/privgrad/internal/onnx/export"
	"github.com/privgrad/privgrad/internal/onnx/onnxtest"
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/nn"
	"github.com/privgrad/privgrad/trained"
)

// residual is a small network with a residual sum, of a seed, for images of the made set.
func residual(t *testing.T, seed uint64) *nn.Network {
	t.Helper()
	x := G.NewTensor(G.NewGraph(), tensor.Float32, 4, G.WithShape(1, 1, 8, 8), G.WithName("x"))
	logits, err := nn.Apply(x, nn.Conv("edges", 6, 3, 1, 1, nn.Glorot(seed)), nn.Tanh,
		nn.Residual(nn.Conv("same", 6, 3, 1, 1, nn.Glorot(seed+1)), nn.Tanh), nn.AvgPool(2, 2), nn.Flatten, nn.Dense("out", 4, nn.Glorot(seed+2)))
	check(t, err)
	network, err := nn.Lower(logits, nn.WithName("mine"))
	check(t, err)
	return network
}

// fileOf writes a network into an ONNX file.
func fileOf(t *testing.T, n *nn.Network) string {
	t.Helper()
	g := onnx.New("mine")
	out, err := export.Program(g, n.Program, n.Params(), g.Input("x", onnx.Float32, n.Program.Shape...))
	check(t, err)
	g.Output("y", out, n.Program.Outputs())
	var b bytes.Buffer
	check(t, g.Write(&b, "test", "", nil))
	path := filepath.Join(t.TempDir(), "mine.onnx")
	check(t, os.WriteFile(path, b.Bytes(), 0o644))
	return path
}

// imports is a short run of a network's file.
func imports(path string) Config {
	c := small()
	c.Classes, c.Model, c.Steps, c.Noise, c.Network = nil, "", ptr(8), dpoptim.Seeded, path
	return c
}

// A network from a file is trained to the same bits as the graph from which the file was made, if weights and normalization are the
// same. Everything is then done without the file: the model is used, the result is shown again, and the export is a network
// with the same logits, which can be trained in its turn.
func TestNetworkFromFile(t *testing.T) {
	network := residual(t, 1)
	path := fileOf(t, network)
	c := imports(path)
	c.Network, c.Strategy = "", "materialise"
	want := finished(t, c, Options{Sources: sources(made(1, 400)), Out: filepath.Join(t.TempDir(), "run"), Network: network})

	c = imports(path)
	c.WeightsArePublic, c.Normalize, c.Strategy = true, "0.5,0.5", "materialise"
	out := filepath.Join(t.TempDir(), "run")
	got := finished(t, c, Options{Sources: sources(made(1, 400)), Out: out})
	if got.Model != "mine.onnx" || *got.TestLoss != *want.TestLoss || *got.TestAccuracy != *want.TestAccuracy {
		t.Errorf("model %s, loss %v, want %v", got.Model, *got.TestLoss, *want.TestLoss)
	}
	for _, a := range []string{"network_file_is_public", "weights_of_the_file_are_public"} {
		if !slices.Contains(got.Assumptions, a) {
			t.Errorf("the result does not assume %s", a)
		}
	}
	check(t, os.Remove(path))
	again := finished(t, c, Options{Sources: sources(made(1, 400)), Out: out, Resume: ResumeRun})
	if again.Run != got.Run || *again.TestLoss != *got.TestLoss {
		t.Error("the finished run shows another result")
	}
	m, err := trained.Open(out, trained.Options{Sources: sources(made(1, 400))})
	check(t, err)
	if !slices.Equal(m.Network().Params(), network.Params()) {
		t.Error("the trained weights are others than those of the graph")
	}
	e, err := m.Evaluate()
	check(t, err)
	if *e.Accuracy != *got.TestAccuracy {
		t.Errorf("accuracy %v, want %v", *e.Accuracy, *got.TestAccuracy)
	}
	exported := filepath.Join(t.TempDir(), "again.onnx")
	agrees(t, m, exported)

	c = imports(exported) // it reads bytes, and normalizes them by itself
	c.WeightsArePublic = true
	c.LR = ptr(1e-12) // nothing moves
	same := finished(t, c, Options{Sources: sources(made(1, 400)), Out: filepath.Join(t.TempDir(), "run")})
	// Scales are rounded to float32 twice.
	if math.Abs(*same.TestLoss-*got.TestLoss) > 1e-5 || *same.TestAccuracy != *got.TestAccuracy {
		t.Errorf("what was exported has the loss %v, want %v", *same.TestLoss, *got.TestLoss)
	}
	c.Normalize = "0.5,0.5"
	if _, err := resolve(c, Options{Sources: sources(made(1, 400))}); err == nil || !strings.Contains(err.Error(), "leave --normalize out") {
		t.Errorf("two normalizations: %v", err)
	}
}

// agrees exports a model and compares its logits for some images with those of Predict.
func agrees(t *testing.T, m *trained.Model, path string) {
	t.Helper()
	images := made(1, 5).Train.Features
	predictions, err := m.Predict(features.Images{Bytes: images})
	check(t, err)
	var file bytes.Buffer
	check(t, m.ExportONNX(&file))
	check(t, os.WriteFile(path, file.Bytes(), 0o644))
	var x []float64
	for _, b := range images {
		x = append(x, float64(b))
	}
	_, _, logits, err := onnxtest.Run(file.Bytes(), x)
	check(t, err)
	for i, p := range predictions {
		for k, want := range p.Logits {
			// Constants of the graph are float32, and rows of a frozen part halves: of 2⁻¹¹ each where they fall to the other side.
			if got := logits[i*len(p.Logits)+k]; !(math.Abs(got-want) <= 1e-3*(1+math.Abs(want))) {
				t.Errorf("logit %d of image %d is %v in the exported file, want %v", k, i, got, want)
			}
		}
	}
}

// The weights of a file that nobody declared public leave no trace: neither in the model nor in any file of the run.
func TestWeightsOfTheFileStayThere(t *testing.T) {
	model := func(seed uint64) (weights []float32, files []string) {
		n := residual(t, seed)
		out := filepath.Join(t.TempDir(), "run")
		finished(t, imports(fileOf(t, n)), Options{Sources: sources(made(1, 400)), Out: out})
		secret := binary.LittleEndian.AppendUint32(nil, math.Float32bits(n.Params()[0]))
		secret = binary.LittleEndian.AppendUint32(secret, math.Float32bits(n.Params()[1]))
		check(t, filepath.WalkDir(out, func(path string, d os.DirEntry, err error) error {
			if err == nil && !d.IsDir() && bytes.Contains(read(t, path), secret) {
				t.Errorf("%s holds weights of the file", path)
			}
			return err
		}))
		m, err := trained.Open(out, trained.Options{})
		check(t, err)
		return m.Network().Params(), files
	}
	one, _ := model(1)
	other, _ := model(7)
	if !slices.Equal(one, other) {
		t.Error("weights of the file have moved the model")
	}
}

// A frozen part is computed once, kept with the run, and a part of the exported file. What is trained is the rest.
func TestFrozenPart(t *testing.T) {
	n := residual(t, 3)
	path := fileOf(t, n)
	c := imports(path)
	c.WeightsArePublic, c.Freeze = true, frozenNode(t, path)
	out := filepath.Join(t.TempDir(), "run")
	stop, cancel := context.WithCancel(context.Background())
	_, err := Run(stop, c, Options{Sources: sources(made(1, 400)), Out: out, onRelease: func(slot int) error {
		if slot == 4 {
			cancel()
		}
		return nil
	}})
	if !errors.Is(err, ErrInterrupted) {
		t.Fatal(err)
	}
	check(t, os.Remove(path)) // the run goes on without it
	r := finished(t, c, Options{Sources: sources(made(1, 400)), Out: out, Resume: ResumeRun})
	if want := 4*6*4*4 + 4; r.Parameters != want {
		t.Errorf("%d parameters are trained, want the %d of the last layer", r.Parameters, want)
	}
	m, err := trained.Open(out, trained.Options{})
	check(t, err)
	agrees(t, m, filepath.Join(t.TempDir(), "whole.onnx"))
	if m.Metadata()["features_file"] != rundir.Frozen || m.Metadata()[rundir.FeaturesDigest] == "" {
		t.Errorf("the model's file says %v", m.Metadata())
	}

	frozen := filepath.Join(out, rundir.Frozen)
	b := read(t, frozen)
	check(t, os.Remove(frozen))
	if _, err := trained.Open(out, trained.Options{}); err == nil || !strings.Contains(err.Error(), rundir.Frozen) {
		t.Errorf("without its frozen part: %v", err)
	}
	at := bytes.Index(b, binary.LittleEndian.AppendUint32(nil, math.Float32bits(n.Params()[0])))
	if at < 0 {
		t.Fatal("the frozen part lacks its weights")
	}
	b[at] ^= 1
	check(t, os.WriteFile(frozen, b, 0o644))
	if _, err := trained.Open(out, trained.Options{}); err == nil || !strings.Contains(err.Error(), rundir.Frozen) {
		t.Errorf("with another frozen part: %v", err)
	}
}

// frozenNode is the name of the average pool.
func frozenNode(t *testing.T, path string) string {
	t.Helper()
	b := read(t, path)
	i := bytes.Index(b, []byte("AveragePool_"))
	if i < 0 {
		t.Fatal("there is no pool")
	}
	end := i + len("AveragePool_")
	for b[end] >= '0' && b[end] <= '9' {
		end++
	}
	return string(b[i:end])
}

// What does not go together is refused, with what to do.
func TestNetworkIsRefused(t *testing.T) {
	path := fileOf(t, residual(t, 1))
	for want, change := range map[string]func(*Config){
		"name the file by --network": func(c *Config) { c.Network, c.Model, c.NewHead = "", "logistic", true },
		"give one":                   func(c *Config) { c.Model = "logistic" },
		"add --weights-are-public":   func(c *Config) { c.Freeze = "x" },
		"or use --batchnorm group":   func(c *Config) { c.BatchNorm = "frozen" },
		"unknown batchnorm":          func(c *Config) { c.BatchNorm = "sometimes" },
		"a mean and a standard":      func(c *Config) { c.Normalize = "1" },
		"standard deviations in":     func(c *Config) { c.Normalize = "0,0" },
		"no number":                  func(c *Config) { c.Normalize = "a,1" },
		"one mean and one deviation": func(c *Config) { c.Normalize = "0,1,0,1,1,1" },
		"leave one of both out":      func(c *Config) { c.WeightsArePublic, c.Freeze, c.Augment = true, "x", []string{"crop"} },
		"--features none":            func(c *Config) { c.Features = "scatter" },
		"nowhere.onnx":               func(c *Config) { c.Network = "nowhere.onnx" },
		"--new-head":                 func(c *Config) { c.Classes = []int{0, 1} },
		"no node":                    func(c *Config) { c.WeightsArePublic, c.Freeze = true, "elsewhere" },
		"has its own":                func(c *Config) { c.Activation = "relu" },
	} {
		c := imports(path)
		change(&c)
		_, err := resolve(c, Options{Sources: sources(made(1, 400))})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	c := imports(path)
	if _, err := resolve(c, Options{Sources: sources(made(1, 400)), Network: residual(t, 1)}); err == nil {
		t.Error("two networks were taken")
	}
}

// A run goes on, and its model is used, with the network that it began with alone: another in its files, or another file of the same name
// for a run that repeats it, is refused. Ranks of a run that goes on need no file.
func TestNetworkIsKept(t *testing.T) {
	path := fileOf(t, residual(t, 1))
	begin := func(c Config) string {
		t.Helper()
		out := filepath.Join(t.TempDir(), "run")
		stop, cancel := context.WithCancel(context.Background())
		_, err := Run(stop, c, Options{Sources: sources(made(1, 400)), Out: out, onRelease: func(slot int) error {
			if slot == 4 {
				cancel()
			}
			return nil
		}})
		if !errors.Is(err, ErrInterrupted) {
			t.Fatal(err)
		}
		return out
	}
	c := imports(path)
	again := func(out string) error {
		_, err := Run(context.Background(), c, Options{Sources: sources(made(1, 400)), Out: out, Resume: ResumeRun})
		return err
	}
	for what, change := range map[string][2]string{
		"what it reads": {`"scale": 1`, `"scale": 2`},
		"a loss":        {`"softmax-cross-entropy"`, `"hinge"`},
		"weights":       {`"ClassWeights": null`, `"ClassWeights": [1, 2, 3, 4]`},
		"a shape":       {`"Name": "fc1.weight"`, `"Name": "fc9.weight"`},
	} {
		out := begin(c)
		file := filepath.Join(out, rundir.Network)
		text := strings.Replace(string(read(t, file)), change[0], change[1], 1)
		check(t, os.WriteFile(file, []byte(text), 0o644))
		if err := again(out); err == nil {
			t.Errorf("a run went on with another network: %s", what)
		}
		if _, err := trained.Open(out, trained.Options{}); err == nil {
			t.Errorf("a model was opened with another network: %s", what)
		}
	}
	huge := begin(c)
	file := filepath.Join(huge, rundir.Network)
	check(t, os.WriteFile(file, []byte(strings.ReplaceAll(string(read(t, file)), "96", "2000000000")), 0o644))
	if err := again(huge); err == nil || !strings.Contains(err.Error(), rundir.Network) {
		t.Errorf("a network of billions of parameters: %v", err)
	}

	var stored Config
	check(t, ReadConfig(filepath.Join(begin(c), rundir.Config), &stored))
	check(t, os.WriteFile(path, read(t, fileOf(t, residual(t, 2))), 0o644))
	if stored.Network, stored.Model = path, ""; stored.NetworkDigest == "" {
		t.Error("the configuration does not know the file")
	}
	if _, err := resolve(stored, Options{Sources: sources(made(1, 400))}); err == nil || !strings.Contains(err.Error(), "network_sha256") {
		t.Errorf("another file of the same name: %v", err)
	}

	out := begin(c)
	check(t, os.Remove(path))
	for _, err := range ranks(context.Background(), local.New(2, local.Options{}), c, Options{Sources: sources(made(1, 400)), Out: out, Resume: ResumeRun}) {
		if err != nil {
			t.Errorf("two ranks go on without the file: %v", err)
		}
	}
}
