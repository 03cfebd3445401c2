package trained_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"image"
	"image/color"
	"image/png"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/features"
	"github.com/privgrad/privgrad/nn"
	"github.com/privgrad/privgrad/train"
	"github.com/privgrad/privgrad/trained"
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// bands is a set of 8×8 images whose class is where they are bright.
func bands(classes int) *datasets.Set {
	const side = 8
	draw := func(seed uint64, n int) datasets.Split {
		random := rand.New(rand.NewPCG(seed, 1))
		s := datasets.Split{Shape: [3]int{1, side, side}}
		for range n {
			label := random.IntN(classes)
			s.Labels = append(s.Labels, uint8(label))
			for i := range side * side {
				v := random.IntN(120)
				if i/(side*side/classes) == label {
					v += 130
				}
				s.Features = append(s.Features, uint8(v))
			}
		}
		return s
	}
	names := []string{"top", "high", "low", "bottom"}[:classes]
	return &datasets.Set{
		Name: "bands", Classes: classes, ClassNames: names, Train: draw(1, 400), Test: draw(2, 60), PublicN: 400, TestIsPublic: true,
	}
}

func sources(set *datasets.Set) map[string]train.Source {
	return map[string]train.Source{"bands": {BuiltIn: true, Open: func(string) (*datasets.Set, error) { return set, nil }}}
}

// ran trains shortly and gives the run's directory.
func ran(t testing.TB, set *datasets.Set, change func(c *train.Config, o *train.Options)) (string, *train.Result) {
	t.Helper()
	c := train.Default()
	sigma, batch, steps, rate := 1.0, 100.0, 20, 1.0
	c.Data, c.NoiseMultiplier, c.Batch, c.Steps, c.LR, c.Threads = "bands", &sigma, &batch, &steps, &rate, 1
	o := train.Options{Sources: sources(set), Out: filepath.Join(t.TempDir(), "run")}
	change(&c, &o)
	r, err := train.Run(context.Background(), c, o)
	check(t, err)
	return o.Out, r
}

// right is the share of the test images that are predicted right.
func right(t testing.TB, m *trained.Model, test datasets.Split) float64 {
	t.Helper()
	predictions, err := m.Predict(features.Images{Bytes: test.Features})
	check(t, err)
	n := 0
	for i, p := range predictions {
		if p.Index == int(test.Labels[i]) {
			n++
		}
		if p.Class != m.Classes()[p.Index] {
			t.Errorf("image %d: class %d is called %q", i, p.Index, p.Class)
		}
		sum := 0.
		for _, x := range p.Probabilities {
			sum += x
		}
		if math.Abs(sum-1) > 1e-9 || slices.Max(p.Probabilities) != p.Probabilities[p.Index] {
			t.Errorf("image %d: probabilities %v of class %d", i, p.Probabilities, p.Index)
		}
	}
	return float64(n) / float64(len(predictions))
}

// A run is opened without its data, is evaluated on them, and predicts what the evaluation counts.
func TestOpen(t *testing.T) {
	for name, change := range map[string]func(c *train.Config, o *train.Options){
		"softmax": func(c *train.Config, _ *train.Options) { c.Model = "logistic" },
		"features": func(c *train.Config, _ *train.Options) {
			c.Model, c.Features, c.Whiten, c.Mirror = "logistic", "scatter", "pink", true
		},
		"average": func(c *train.Config, _ *train.Options) { c.Model, c.Average = "logistic", 0.9 },
		"norm":    func(c *train.Config, _ *train.Options) { c.Model, c.FeatureNorm = "logistic", new(0.5) },
		"features of a norm": func(c *train.Config, _ *train.Options) {
			c.Model, c.Features, c.Whiten, c.FeatureNorm = "logistic", "scatter", "none", new(0.25)
		},
	} {
		t.Run(name, func(t *testing.T) {
			set := bands(4)
			dir, r := ran(t, set, change)
			m, err := trained.Open(dir, trained.Options{Threads: 2})
			check(t, err)
			if m.Shape() != [3]int{1, 8, 8} || !slices.Equal(m.Classes(), set.ClassNames) {
				t.Errorf("shape %v, classes %q", m.Shape(), m.Classes())
			}
			if got := right(t, m, set.Test); got != *r.TestAccuracy {
				t.Errorf("predictions are right for %v of the test images, the run ended with %v", got, *r.TestAccuracy)
			}
			if _, err := m.Evaluate(); err == nil || !strings.Contains(err.Error(), "unknown data set") {
				t.Errorf("evaluated without the data: %v", err)
			}
			average := name == "average"
			m, err = trained.Open(dir, trained.Options{Sources: sources(set), Average: average})
			check(t, err)
			e, err := m.Evaluate()
			check(t, err)
			want := r.TestAccuracy
			if average {
				want = r.AverageAccuracy
			}
			if *e.Accuracy != *want || e.Average != average {
				t.Errorf("accuracy %v, want %v; average %v", *e.Accuracy, *want, e.Average)
			}
			other := bands(2)
			m, err = trained.Open(dir, trained.Options{Sources: sources(other)})
			check(t, err)
			if _, err := m.Evaluate(); err == nil || !strings.Contains(err.Error(), "another one") {
				t.Errorf("evaluated on other data: %v", err)
			}
		})
	}
}

// What a model's file says follows from the settings, and ε stands there only as a guarantee.
func TestMetadata(t *testing.T) {
	dir, r := ran(t, bands(4), func(c *train.Config, _ *train.Options) { c.Model = "logistic" })
	tensors, meta, err := trained.ReadTensors(filepath.Join(dir, "model.safetensors"))
	check(t, err)
	if len(tensors) != 2 || tensors[0].Name != "fc1.weight" || !slices.Equal(tensors[0].Shape, []int{4, 64}) {
		t.Errorf("tensors %v", tensors)
	}
	for key, want := range map[string]string{
		"format": "pt", "model": "logistic", "activation": "tanh", "input": "x/127.5-1", "features": "none", "whiten": "none", "shape": "1x8x8",
		"feature_norm": "none",
		"classes":      `["top","high","low","bottom"]`, "guarantee": "true", "delta": "1e-05", "accountant": "pld", "neighbouring": "add-remove",
	} {
		if meta[key] != want {
			t.Errorf("%s is %q, want %q", key, meta[key], want)
		}
	}
	var epsilon float64
	if err := json.Unmarshal([]byte(meta["epsilon"]), &epsilon); err != nil || epsilon != *r.Epsilon {
		t.Errorf("epsilon is %q, the result's %v", meta["epsilon"], *r.Epsilon)
	}
	if meta["privgrad_version"] == "" {
		t.Error("no version")
	}
	dir, _ = ran(t, bands(4), func(c *train.Config, _ *train.Options) { c.Model, c.Noise = "logistic", "seeded" })
	_, meta, err = trained.ReadTensors(filepath.Join(dir, "model.safetensors"))
	check(t, err)
	if meta["guarantee"] != "false" || meta["epsilon"]+meta["delta"]+meta["accountant"]+meta["neighbouring"] != "" || !strings.Contains(meta["noise"], "NOT PRIVATE") {
		t.Errorf("of a seeded run: %v", meta)
	}
}

// A bound on features is in the model's file, and predictions are those of records that are scaled by hand.
func TestFeatureNorm(t *testing.T) {
	set := bands(4)
	dir, _ := ran(t, set, func(c *train.Config, _ *train.Options) { c.Model, c.FeatureNorm = "logistic", new(1.5) })
	m, err := trained.Open(dir, trained.Options{})
	check(t, err)
	if got := m.Metadata()["feature_norm"]; got != "1.5" {
		t.Errorf("feature_norm is %q", got)
	}
	predictions, err := m.Predict(features.Images{Bytes: set.Test.Features})
	check(t, err)
	weight, bias := m.Parameters()[0].Data, m.Parameters()[1].Data
	for i, p := range predictions {
		row, sum := make([]float64, 64), 0.
		for k, b := range set.Test.Features[64*i:][:64] {
			row[k] = float64(b)/127.5 - 1
			sum += row[k] * row[k]
		}
		scale := min(1, 1.5/math.Sqrt(sum))
		if i == 0 && scale > 0.9 {
			t.Fatalf("a row of norm %v is not long", math.Sqrt(sum))
		}
		for k := range 4 {
			want := float64(bias[k])
			for j, x := range row {
				want += float64(weight[64*k+j]) * x * scale
			}
			if math.Abs(p.Logits[k]-want) > 1e-5*(1+math.Abs(want)) {
				t.Errorf("image %d, class %d: %v, want %v", i, k, p.Logits[k], want)
			}
		}
	}
	rewrite(t, filepath.Join(dir, "model.safetensors"), func(head map[string]any) { head["__metadata__"].(map[string]any)["feature_norm"] = "2" })
	if _, err := trained.Open(dir, trained.Options{}); err == nil || !strings.Contains(err.Error(), "feature_norm") {
		t.Errorf("another norm in the file: %v", err)
	}
}

// rewrite writes a model file with other metadata.
func rewrite(t *testing.T, path string, change func(head map[string]any)) {
	t.Helper()
	b, err := os.ReadFile(path)
	check(t, err)
	n := binary.LittleEndian.Uint64(b)
	var head map[string]any
	check(t, json.Unmarshal(b[8:8+n], &head))
	change(head)
	text, err := json.Marshal(head)
	check(t, err)
	out := binary.LittleEndian.AppendUint64(nil, uint64(len(text)))
	check(t, os.WriteFile(path, slices.Concat(out, text, b[8+n:]), 0o644))
}

// Runs of earlier versions said nothing of shape and classes: their data do. What is damaged is refused.
func TestOtherModelFiles(t *testing.T) {
	set := bands(4)
	dir, r := ran(t, set, func(c *train.Config, _ *train.Options) { c.Model = "logistic" })
	file := filepath.Join(dir, "model.safetensors")
	rewrite(t, file, func(head map[string]any) { delete(head, "__metadata__") })
	if _, err := trained.Open(dir, trained.Options{}); err == nil {
		t.Error("opened without metadata and without data")
	}
	m, err := trained.Open(dir, trained.Options{Sources: sources(set)})
	check(t, err)
	if got := right(t, m, set.Test); got != *r.TestAccuracy {
		t.Errorf("right for %v, the run ended with %v", got, *r.TestAccuracy)
	}
	var u *train.UsageError
	four := `["a","b","c","d"]`
	for _, bad := range []map[string]any{
		{"shape": "1x8x0", "classes": "[]", "input": "x/255"}, {"shape": "many", "classes": "[]", "input": "x/255"}, {"shape": "1x8x8", "classes": "top", "input": "x/255"},
		{"shape": "1x8x8", "classes": four}, {"shape": "1x8x8", "classes": four, "input": "x/254"},
		{"shape": "1x8x8 ", "classes": four, "input": "x/255"}, {"shape": "4294967296x4294967296x1", "classes": four, "input": "x/255"},
		{"shape": "1x1x100000000", "classes": four, "input": "x/255"}, // which would take memory
		{"shape": "1x8x8", "classes": "[" + strings.Repeat(`"",`, 1000) + `""]`, "input": "x/255"},
	} {
		rewrite(t, file, func(head map[string]any) { head["__metadata__"] = bad })
		if _, err := trained.Open(dir, trained.Options{Sources: sources(set)}); !errors.As(err, &u) || !strings.Contains(err.Error(), "restore") {
			t.Errorf("%v: %v", bad, err)
		}
	}
	// A model of another network: what differs is named.
	other, _ := ran(t, bands(2), func(c *train.Config, _ *train.Options) { c.Model = "logistic" })
	b, err := os.ReadFile(filepath.Join(other, "model.safetensors"))
	check(t, err)
	check(t, os.WriteFile(file, b, 0o644))
	rewrite(t, file, func(head map[string]any) {
		head["__metadata__"] = map[string]any{"shape": "1x8x8", "classes": `["a","b","c","d"]`, "input": "x/127.5-1"}
	})
	if _, err := trained.Open(dir, trained.Options{}); !errors.As(err, &u) || !strings.Contains(err.Error(), "fc1.weight [4 64] (in the file [1 64]), fc1.bias [4] (in the file [1])") {
		t.Errorf("another network's model: %v", err)
	}
	if _, err := trained.Open(t.TempDir(), trained.Options{}); !errors.As(err, &u) || !strings.Contains(err.Error(), "no run directory") {
		t.Errorf("an empty directory: %v", err)
	}
}

// mine is a network that privgrad has no name for.
func mine(o nn.Options) (*nn.Model, error) {
	g := G.NewGraph()
	x := G.NewTensor(g, tensor.Float32, 4, G.WithShape(o.Batch, o.Input[0], o.Input[1], o.Input[2]), G.WithName("x"))
	logits, err := nn.Apply(x, nn.Conv("a", 3, 3, 1, 1, nn.Glorot(o.Seed)), nn.Tanh, nn.Flatten, nn.Dense("b", o.Classes, nn.Glorot(o.Seed+1)))
	return &nn.Model{Graph: g, Input: x, Logits: logits}, err
}

// A run with a network of the user's own lives on: it is evaluated, predicts, is exported and resumed.
func TestOwnNetwork(t *testing.T) {
	set := bands(4)
	lower := func() *nn.Network {
		m, err := mine(nn.Options{Batch: 1, Input: [3]int{1, 8, 8}, Classes: 4, Seed: 1})
		check(t, err)
		network, err := nn.Lower(m.Logits, nn.WithName("mine"))
		check(t, err)
		return network
	}
	var config train.Config
	var options train.Options
	dir, r := ran(t, set, func(c *train.Config, o *train.Options) {
		o.Network = lower()
		config, options = *c, *o
	})
	if _, err := trained.Open(dir, trained.Options{}); err == nil || !strings.Contains(err.Error(), "network of your own, mine") {
		t.Errorf("opened without its network: %v", err)
	}
	saved := filepath.Join(dir, "model.safetensors")
	whole, err := os.ReadFile(saved)
	check(t, err)
	for key, value := range map[string]string{"shape": "1x4x4", "classes": `["a","b"]`} {
		rewrite(t, saved, func(head map[string]any) { head["__metadata__"].(map[string]any)[key] = value })
		if _, err := trained.Open(dir, trained.Options{Network: lower()}); err == nil || !strings.Contains(err.Error(), "does not fit") {
			t.Errorf("opened with %s %s: %v", key, value, err)
		}
		check(t, os.WriteFile(saved, whole, 0o644))
	}
	network := lower()
	m, err := trained.Open(dir, trained.Options{Network: network, Sources: sources(set)})
	check(t, err)
	e, err := m.Evaluate()
	check(t, err)
	if got := right(t, m, set.Test); *e.Accuracy != *r.TestAccuracy || got != *e.Accuracy || m.Network() != network {
		t.Errorf("accuracy %v, predictions %v, the run's %v", *e.Accuracy, got, *r.TestAccuracy)
	}
	if slices.Equal(network.Params(), lower().Params()) {
		t.Error("the graph's nodes do not hold the trained parameters")
	}
	var file bytes.Buffer
	if err := m.ExportONNX(&file); err != nil || file.Len() < 1000 {
		t.Errorf("export: %v, %d bytes", err, file.Len())
	}
	// Killed before it had finished, the run goes on.
	check(t, os.Remove(filepath.Join(dir, "result.json")))
	options.Resume, options.Network = train.ResumeRun, lower()
	again, err := train.Run(context.Background(), config, options)
	check(t, err)
	if *again.TestAccuracy != *r.TestAccuracy || again.Steps != r.Steps {
		t.Errorf("resumed: accuracy %v after %d steps, was %v after %d", *again.TestAccuracy, again.Steps, *r.TestAccuracy, r.Steps)
	}
}

// A registered network stands wherever a named model may, and its parameters are the user's word.
func TestRegisteredNetwork(t *testing.T) {
	check(t, nn.Register("trained-test", mine))
	if err := nn.Register("trained-test", mine); err == nil {
		t.Error("registered twice")
	}
	set := bands(4)
	dir, r := ran(t, set, func(c *train.Config, _ *train.Options) { c.Model = "trained-test" })
	if r.Model != "trained-test" || !r.Guarantee || !slices.Contains(r.Assumptions, "initial_parameters_are_public") {
		t.Errorf("model %s, guarantee %v, assumptions %q", r.Model, r.Guarantee, r.Assumptions)
	}
	m, err := trained.Open(dir, trained.Options{Sources: sources(set)})
	check(t, err)
	e, err := m.Evaluate()
	check(t, err)
	if *e.Accuracy != *r.TestAccuracy {
		t.Errorf("accuracy %v, the run's %v", *e.Accuracy, *r.TestAccuracy)
	}
}

// Features of the user's own are given again, and must be the same.
func TestOwnFeatures(t *testing.T) {
	means := func(scale float32) *features.Front {
		f, err := features.Own("rows", [3]int{1, 8, 8}, [3]int{1, 1, 8}, func(dst, image []float32) {
			for i := range dst {
				dst[i] = 0
				for _, x := range image[8*i : 8*i+8] {
					dst[i] += scale * x
				}
			}
		})
		check(t, err)
		return f
	}
	set := bands(4)
	dir, r := ran(t, set, func(c *train.Config, o *train.Options) { c.Model, o.Features = "logistic", means(1) })
	if _, err := trained.Open(dir, trained.Options{}); err == nil {
		t.Error("opened without its features")
	}
	if _, err := trained.Open(dir, trained.Options{Features: means(2)}); err == nil || !strings.Contains(err.Error(), "was not trained behind the features") {
		t.Errorf("opened with other features: %v", err)
	}
	m, err := trained.Open(dir, trained.Options{Features: means(1)})
	check(t, err)
	if got := right(t, m, set.Test); got != *r.TestAccuracy {
		t.Errorf("right for %v, the run ended with %v", got, *r.TestAccuracy)
	}
	if err := m.ExportONNX(&bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "Go function") {
		t.Errorf("exported: %v", err)
	}
}

// picture writes a record as a PNG, each pixel as a square of a side.
func picture(t *testing.T, path string, pixels []uint8, side int) {
	t.Helper()
	img := image.NewGray(image.Rect(0, 0, 8*side, 8*side))
	for y := range 8 * side {
		for x := range 8 * side {
			img.SetGray(x, y, color.Gray{Y: pixels[y/side*8+x/side]})
		}
	}
	f, err := os.Create(path)
	check(t, err)
	check(t, png.Encode(f, img))
	check(t, f.Close())
}

// Images are read from files and folders; larger ones are resized.
func TestRead(t *testing.T) {
	set := bands(4)
	dir, _ := ran(t, set, func(c *train.Config, _ *train.Options) { c.Model = "logistic" })
	m, err := trained.Open(dir, trained.Options{})
	check(t, err)
	folder := t.TempDir()
	for i := range 3 {
		picture(t, filepath.Join(folder, string(rune('c'-i))+".png"), set.Test.Features[64*i:][:64], i+1)
	}
	check(t, os.WriteFile(filepath.Join(folder, "notes.txt"), nil, 0o644))
	names, records, err := m.Read(folder)
	check(t, err)
	want := slices.Concat(set.Test.Features[128:192], set.Test.Features[64:128], set.Test.Features[:64])
	if len(names) != 3 || names[0] != filepath.Join(folder, "a.png") || !bytes.Equal(records.Bytes, want) {
		t.Errorf("read %q, equal pixels %v", names, bytes.Equal(records.Bytes, want))
	}
	names, records, err = m.Read(names[2])
	check(t, err)
	if len(names) != 1 || !bytes.Equal(records.Bytes, want[128:]) {
		t.Errorf("read %q", names)
	}
	head := "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 8, 8), }"
	array := append([]byte("\x93NUMPY\x01\x00"), byte(len(head)), 0)
	array = slices.Concat(array, []byte(head), want[:128])
	path := filepath.Join(folder, "x.npy")
	check(t, os.WriteFile(path, array, 0o644))
	names, records, err = m.Read(path)
	check(t, err)
	if len(names) != 2 || names[1] != path+"[1]" || !bytes.Equal(records.Bytes, want[:128]) {
		t.Errorf("read %q", names)
	}

	check(t, os.WriteFile(path, array[:len(array)-1], 0o644))
	broken := filepath.Join(folder, "broken.jpg")
	check(t, os.WriteFile(broken, []byte("no image"), 0o644))
	var u *train.UsageError
	for path, want := range map[string]string{
		path: "ends too early", broken: "no PNG and no JPEG", folder: "broken.jpg", t.TempDir(): "has no images", filepath.Join(folder, "gone"): "give an image",
	} {
		if _, _, err := m.Read(path); !errors.As(err, &u) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
	for _, records := range []features.Images{{Bytes: make([]uint8, 63)}, {Values: make([]float32, 64)}} {
		if _, err := m.Predict(records); !errors.As(err, &u) {
			t.Errorf("predicted of %d bytes and %d values: %v", len(records.Bytes), len(records.Values), err)
		}
	}
}

// Two classes have one logit: its sign is the class, and only the logistic loss makes a probability of it.
func TestOneLogit(t *testing.T) {
	set := bands(2)
	for _, model := range []string{"logistic", "svm"} {
		dir, r := ran(t, set, func(c *train.Config, _ *train.Options) { c.Model = model })
		m, err := trained.Open(dir, trained.Options{})
		check(t, err)
		predictions, err := m.Predict(features.Images{Bytes: set.Test.Features})
		check(t, err)
		n := 0
		for i, p := range predictions {
			if p.Index == int(set.Test.Labels[i]) {
				n++
			}
			if p.Index != map[bool]int{true: 1, false: 0}[p.Logits[0] >= 0] || (p.Probabilities != nil) != (model == "logistic") {
				t.Errorf("%s: %+v", model, p)
			}
			if p.Probabilities != nil && math.Abs(p.Probabilities[1]-1/(1+math.Exp(-p.Logits[0]))) > 1e-12 {
				t.Errorf("%+v", p)
			}
		}
		if got := float64(n) / float64(len(predictions)); got != *r.TestAccuracy {
			t.Errorf("%s: right for %v, the run ended with %v", model, got, *r.TestAccuracy)
		}
	}
}
