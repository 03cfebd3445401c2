package cmd

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"encoding/csv"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/privgrad/privgrad/datasets/mnist/fashion"
	"github.com/privgrad/privgrad/features"
	"github.com/privgrad/privgrad/internal/cli/model"
	"github.com/privgrad/privgrad/internal/onnx/onnxtest"
	"github.com/privgrad/privgrad/internal/onnx/runtime"
	"github.com/privgrad/privgrad/nn"
	"github.com/privgrad/privgrad/trained"
)

// A material is trained on, and its test records are read in every way.
type material struct {
	train   []string  // flags of train
	labeled string    // the same test records, for eval --data
	files   string    // the same, for predict: a table, or a folder; "" where there is none
	array   string    // the same as an array
	truth   []float64 // class or value of each
}

// TestWholeWay is the whole way of a model: train, eval, predict, export. Each step must say of the same records what those before said.
func TestWholeWay(t *testing.T) {
	wholeWay(t, func(model string) bool { return !strings.HasPrefix(model, "wrn-") })
}

// TestLongWholeWay takes the wide residual networks, of which a step and a score are billions of multiplications.
func TestLongWholeWay(t *testing.T) {
	wholeWay(t, func(model string) bool { return strings.HasPrefix(model, "wrn-") })
}

// wholeWay goes the way of the models that it takes, and misses no model in its table.
func wholeWay(t *testing.T, takes func(model string) bool) {
	rows := []struct {
		model string
		data  func(t *testing.T, dir string) material
		flags []string
	}{
		{"logistic", table("two"), nil},
		{"logistic", table("three"), nil},
		{"logistic", table("two"), []string{"--feature-norm", "0.5"}},
		{"svm", table("two"), nil},
		{"huber-svm", dropped(table("two")), nil},
		{"huber-regression", table("number"), nil},
		{"huber-regression", dropped(table("number")), []string{"--feature-norm", "0.5"}},
		{"huber-regression", table("number"), []string{"--optimizer", "dp-adam"}},
		{"huber-regression", table("number"), []string{"--device", "reference"}},
		{"huber-regression", sharded(table("number")), nil},
		{"logistic", sharded(table("three")), nil},
		{"mlp-table", table("two"), nil},
		{"mlp-table", table("three"), []string{"--feature-norm", "0.5"}},
		{"mlp-regression", table("number"), nil},
		{"logistic", folder(8), nil},
		{"logistic", folder(12), []string{"--features", "scatter", "--whiten", "none"}},
		{"logistic", arrays([3]int{1, 12, 12}, 3, 12), []string{"--features", "scatter", "--whiten", "none", "--feature-norm", "0.5"}},
		{"logistic", arrays([3]int{1, 8, 8}, 2, 12), []string{"--feature-norm", "2"}},
		{"logistic", builtIn, nil},
		{"mlp-small", builtIn, nil},
		{"mlp-small", arrays([3]int{1, 28, 28}, 2, 12), []string{"--activation", "sigmoid"}},
		{"mlp-small", arrays([3]int{1, 28, 28}, 2, 12), []string{"--activation", "gelu"}},
		{"mlp-mnist", arrays([3]int{1, 28, 28}, 10, 12), nil},
		{"mlp-fmnist", arrays([3]int{1, 28, 28}, 10, 12), nil},
		{"cnn-mnist", arrays([3]int{1, 28, 28}, 10, 6), nil},
		{"cnn-mnist", arrays([3]int{1, 28, 28}, 10, 6), []string{"--feature-norm", "5"}},
		{"mnist-tf", arrays([3]int{1, 28, 28}, 10, 6), nil},
		{"cifar-small", arrays([3]int{3, 32, 32}, 10, 1), nil},
		{"cifar-paper", arrays([3]int{3, 32, 32}, 10, 1), []string{"--steps", "1", "--lr", "0.01"}},
		{"resnet-small", arrays([3]int{3, 32, 32}, 10, 2), nil},
		{"wrn-16-4", arrays([3]int{3, 32, 32}, 10, 1), []string{"--steps", "1"}},
		{"wrn-40-4", arrays([3]int{3, 32, 32}, 10, 1), []string{"--steps", "1"}},
		{lineNet(t), arrays([3]int{2, 12, 12}, 3, 12), nil},
		{lineNet(t), arrays([3]int{2, 12, 12}, 3, 12), []string{"--noise", "exact", "--strategy", "materialise"}},
		{onnxFile("cnn-script"), arrays([3]int{1, 28, 28}, 10, 6), nil},
		{onnxFile("cnn-dynamo-23"), arrays([3]int{1, 28, 28}, 10, 6), []string{"--weights-are-public", "--normalize", "0.5,0.25"}},
		{onnxFile("cnn-script"), arrays([3]int{1, 28, 28}, 3, 6), []string{"--weights-are-public", "--freeze", "/0/Conv", "--new-head"}},
		{onnxFile("mlp-script-13"), arrays([3]int{1, 1, 20}, 3, 12), nil},
		{onnxFile("mlp-dynamo"), arrays([3]int{1, 1, 20}, 3, 12), []string{"--feature-norm", "2"}},
		{onnxFile("keras"), arrays([3]int{3, 12, 10}, 4, 6), []string{"--weights-are-public"}},
		{onnxFile("sklearn-2"), arrays([3]int{1, 1, 8}, 2, 12), nil},
		{onnxFile("sklearn-10"), arrays([3]int{1, 1, 8}, 10, 12), []string{"--weights-are-public"}},
		{onnxFile("resnet18-group-script"), arrays([3]int{3, 32, 32}, 10, 2), nil},
		{onnxFile("resnet18-group-dynamo"), arrays([3]int{3, 32, 32}, 10, 2), []string{"--noise", "exact"}},
		{onnxFile("resnet18-batch-kept-script"), arrays([3]int{3, 32, 32}, 10, 2), []string{"--batchnorm", "group"}},
		{onnxFile("resnet18-batch-kept-dynamo"), arrays([3]int{3, 32, 32}, 10, 2), []string{"--batchnorm", "frozen", "--weights-are-public"}},
		{onnxFile("mobile-script"), arrays([3]int{3, 32, 32}, 4, 2), []string{"--weights-are-public", "--freeze", "/21/GlobalAveragePool", "--new-head", "--normalize", "0.5,0.5,0.4,0.2,0.3,0.2"}},
		{onnxFile("vgg11-script"), arrays([3]int{3, 32, 32}, 5, 2), []string{"--new-head", "--weights-are-public"}},
	}
	losses := map[string]nn.Loss{}
	for _, m := range nn.Names() {
		losses[m.Name] = m.Loss
	}
	missing := maps.Clone(losses)
	maps.DeleteFunc(missing, func(name string, _ nn.Loss) bool { return nn.Registered(name) }) // of other tests
	exports := t.TempDir()
	for i, row := range rows {
		delete(missing, row.model)
		if !takes(row.model) {
			continue
		}
		name := fmt.Sprintf("%02d-%s", i, strings.TrimSuffix(filepath.Base(row.model), ".onnx"))
		t.Run(name, func(t *testing.T) {
			if testing.Short() && row.model == "cifar-paper" {
				t.Skip("5.9 million parameters")
			}
			if strings.Contains(row.model, "mobile") {
				if _, err := runtime.Find(); err != nil {
					t.Skip(err)
				}
			}
			dir := t.TempDir()
			data := row.data(t, dir)
			w := whole{t, filepath.Join(dir, "run"), data, losses[row.model]}
			w.way(row.model, row.flags, filepath.Join(exports, name))
		})
	}
	for name := range missing {
		t.Errorf("no row has model %s", name)
	}
	t.Run("ONNX Runtime", func(t *testing.T) { runtimeAgrees(t, exports) })
}

// onnxFile is a network that another program exported.
func onnxFile(name string) string {
	return filepath.Join("..", "internal", "onnx", "lower", "testdata", name+".onnx")
}

// lineNet registers a user's network with a standardized convolution, GELU and layer normalizations of lines and vectors.
func lineNet(t *testing.T) string {
	t.Helper()
	const name = "line-net"
	if nn.Registered(name) {
		return name
	}
	check(t, nn.Register(name, func(o nn.Options) (*nn.Model, error) {
		g := G.NewGraph()
		x := G.NewTensor(g, tensor.Float32, 4, G.WithShape(o.Batch, o.Input[0], o.Input[1], o.Input[2]), G.WithName("input"))
		init := nn.He(o.Seed)
		logits, err := nn.Apply(x, nn.StandardConv("a", 4, 3, 2, 1, init), nn.GELU, nn.LayerNorm("b"), nn.StandardConv("c", 6, 3, 1, 0, init),
			nn.GroupNorm("d", 2), nn.ReLU, nn.Flatten, nn.Dense("e", 12, init), nn.LayerNorm("f"), nn.GELU, nn.Dense("g", o.Classes, init))
		if err != nil {
			return nil, err
		}
		return &nn.Model{Graph: g, Input: x, Logits: logits, Loss: nn.SoftmaxCrossEntropy}, nil
	}))
	return name
}

// A whole way is that of one run.
type whole struct {
	*testing.T
	run  string
	data material
	loss nn.Loss
}

func (w whole) way(name string, flags []string, export string) {
	w.Helper()
	model := "--model"
	if filepath.Ext(name) == ".onnx" {
		model = "--network"
	}
	args := slices.Concat([]string{"train", model, name, "--noise-multiplier", "0.5", "--batch", "16", "--steps", "2", "--threads", "1", "--out", w.run, "--json"}, w.data.train, flags)
	result := object(w.T, ok(w.T, args...))
	found := object(w.T, ok(w.T, "eval", w.run, "--json"))
	again := object(w.T, ok(w.T, "eval", w.run, "--data", w.data.labeled, "--test-is-public", "--json"))
	for _, key := range []string{"test_loss", "test_accuracy", "test_rmse", "test_mae", "test_r2", "test_auc", "test_balanced_accuracy"} {
		if (found[key] != nil) != (result[key] != nil) || result[key] != nil && !close32(found[key].(float64), result[key].(float64)) || again[key] != found[key] {
			w.Errorf("%s is %v by train, %v by eval, %v by eval --data", key, result[key], found[key], again[key])
		}
	}
	if regression := w.loss == nn.Huber; regression != (found["test_rmse"] != nil) || regression == (found["test_accuracy"] != nil) {
		w.Errorf("of a model with loss %v the figures are %v", w.loss, found)
	}
	all := predictionsOf(w.T, w.run, w.data.array)
	w.sameFrom(all)
	if w.data.truth != nil {
		w.judge(all, found)
	}
	ok(w.T, "verify", w.run)
	ok(w.T, "export", w.run, "--onnx", export+".onnx")
	w.exported(all, export)
}

// sameFrom compares what was predicted from an array with what files give, and a table of predictions with both.
func (w whole) sameFrom(all []model.Predicted) {
	w.Helper()
	paths := []string{w.data.array}
	if w.data.files != "" {
		paths = append(paths, w.data.files)
		for i, p := range predictionsOf(w.T, w.run, w.data.files) {
			if p.Name = all[i].Name; text(p) != text(all[i]) {
				w.Errorf("record %d: %s from files, %s from an array", i, text(p), text(all[i]))
			}
		}
	}
	for _, path := range paths {
		file := filepath.Join(w.TempDir(), "p.csv")
		ok(w.T, "predict", w.run, path, "--csv", file)
		rows := readTable(w.T, file)
		for i, p := range all {
			for j, column := range rows[0][1:] {
				if want := columnOf(p, j, column); rows[1+i][1+j] != want {
					w.Errorf("record %d: %s is %s, want %s", i, column, rows[1+i][1+j], want)
				}
			}
		}
	}
}

// columnOf is what the table of predictions must say of one.
func columnOf(p model.Predicted, column int, name string) string {
	number := func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
	switch {
	case name == "class":
		return *p.Class
	case name == "value":
		return number(*p.Value)
	}
	return number(p.Probabilities[column-1])
}

func text(p model.Predicted) string {
	if p.Value != nil {
		return fmt.Sprint(p.Name, *p.Value)
	}
	return fmt.Sprint(p.Name, *p.Class, p.Probabilities)
}

func readTable(t *testing.T, path string) [][]string {
	t.Helper()
	f, err := os.Open(path)
	check(t, err)
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	check(t, err)
	return rows
}

// judge computes the figures of eval from predictions.
func (w whole) judge(all []model.Predicted, found map[string]any) {
	w.Helper()
	truth := w.data.truth
	if len(all) != len(truth) {
		w.Fatalf("%d predictions of %d records", len(all), len(truth))
	}
	n := float64(len(truth))
	right, squares, sizes, mean, variance := 0., 0., 0., 0., 0.
	for i, y := range truth {
		if p := all[i]; p.Value != nil {
			squares, sizes, mean = squares+(*p.Value-y)*(*p.Value-y), sizes+math.Abs(*p.Value-y), mean+y/n
		} else if *p.Class == fmt.Sprint(y) {
			right++
		}
	}
	for _, y := range truth {
		variance += (y - mean) * (y - mean)
	}
	want := map[string]float64{"test_accuracy": right / n}
	if w.loss == nn.Huber {
		want = map[string]float64{"test_rmse": math.Sqrt(squares / n), "test_mae": sizes / n, "test_r2": 1 - squares/variance}
	}
	if area, ok := areaOf(all, truth); ok {
		want["test_auc"] = area
	}
	for key, x := range want {
		if got, ok := found[key].(float64); !ok || !close32(got, x) {
			w.Errorf("%s is %v by eval, and by predictions %v", key, found[key], x)
		}
	}
}

// areaOf is the share of pairs of a record of either of two classes that the second one's probabilities order rightly.
func areaOf(all []model.Predicted, truth []float64) (area float64, ok bool) {
	pairs, right := 0., 0.
	for i, p := range all {
		for j, q := range all {
			if len(p.Probabilities) != 2 || truth[i] <= truth[j] {
				continue
			}
			pairs++
			switch a, b := p.Probabilities[1], q.Probabilities[1]; {
			case a > b:
				right++
			case a == b:
				right += 0.5
			}
		}
	}
	return right / pairs, pairs > 0
}

// close32 allows for the rounding of float32.
func close32(a, b float64) bool { return math.Abs(a-b) <= 1e-5*math.Max(1, math.Abs(b)) }

// exported compares the exported model with predictions, and leaves them beside it for ONNX Runtime.
func (w whole) exported(all []model.Predicted, export string) {
	w.Helper()
	m, err := trained.Open(w.run, trained.Options{})
	if err != nil {
		w.Fatal(err)
	}
	_, records, err := m.Read(w.data.array)
	if err != nil {
		w.Fatal(err)
	}
	predictions, err := m.Predict(records)
	if err != nil {
		w.Fatal(err)
	}
	var logits []float64
	for i, p := range predictions {
		if all[i].Value != nil && *all[i].Value != p.Logits[0] {
			w.Errorf("record %d: value %v, output %v", i, *all[i].Value, p.Logits[0])
		}
		logits = append(logits, p.Logits...)
	}
	array, err := os.ReadFile(w.data.array)
	if err != nil {
		w.Fatal(err)
	}
	put(w.T, export+".input.npy", array)
	put(w.T, export+".logits.npy", npy("<f8", logits, len(all), len(logits)/len(all)))
	if m.Metadata()["features"] != "none" { // whose operations onnxtest does not know
		return
	}
	file, err := os.ReadFile(export + ".onnx")
	if err != nil {
		w.Fatal(err)
	}
	_, output, got, err := onnxtest.Run(file, numbersOf(records))
	if err != nil || output != "logits" || len(got) != len(logits) {
		w.Fatalf("the exported model gives %d values of %q: %v", len(got), output, err)
	}
	scale := math.Max(1, slices.Max(logits)-slices.Min(logits))
	for i, x := range logits {
		if math.Abs(x-got[i]) > 1e-4*scale {
			w.Errorf("output %d of the exported model is %v, want %v", i, got[i], x)
		}
	}
}

func numbersOf(r features.Images) (all []float64) {
	for _, b := range r.Bytes {
		all = append(all, float64(b))
	}
	for _, x := range r.Values {
		all = append(all, float64(x))
	}
	return all
}

// runtimeAgrees has ONNX Runtime, where Python has it, run all exported models.
func runtimeAgrees(t *testing.T, dir string) {
	if out, err := exec.Command("python3", "-c", "import numpy, onnxruntime").CombinedOutput(); err != nil {
		t.Skipf("python3 has no numpy or no onnxruntime: %v %.200s", err, out)
	}
	out, err := exec.Command("python3", filepath.Join("..", "trained", "testdata", "check_onnx.py"), dir).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		if far, err := strconv.ParseFloat(f[2], 64); err != nil || !(far <= 1e-4) {
			t.Errorf("the outputs of %s are %s off", f[0], f[2])
		}
	}
}

// table makes tables of two or three classes, or of numbers from -20 to 300.
func table(label string) func(t *testing.T, dir string) material {
	return func(t *testing.T, dir string) material {
		random := rand.New(rand.NewPCG(1, 2))
		k := material{train: []string{"--data", "csv:" + filepath.Join(dir, "t.csv"), "--public-n", "60", "--delta", "1e-4"}}
		var encoded []float32
		draw := func(n int, test bool) string {
			text := "a,b,y\n"
			for range n {
				a, b := float64(random.IntN(401))/100-1, random.IntN(3)
				y := float64(random.IntN(3))
				switch label {
				case "two":
					y = min(y, 1)
				case "number":
					y = math.Round(10*(20*a+50*float64(b)+10*random.Float64())) / 10
				}
				text += fmt.Sprintf("%v,%c,%v\n", a, 'p'+b, y)
				if test {
					k.truth = append(k.truth, y)
					hot := [3]float32{}
					hot[b] = 1
					encoded = append(append(encoded, float32((a+1)/4)), hot[:]...)
				}
			}
			return text
		}
		labels := map[string]string{"two": "classes: [0, 1]", "three": "classes: [0, 1, 2]", "number": "bounds: [-20, 300]"}[label]
		put(t, filepath.Join(dir, "t.csv"), []byte(draw(60, false)))
		k.files = filepath.Join(dir, "test.csv")
		put(t, k.files, []byte(draw(20, true)))
		put(t, filepath.Join(dir, "t.csv.schema.yaml"), []byte("columns: [{name: a, bounds: [-1, 3]}, {name: b, categories: [p, q, r]}]\nlabel: {column: y, "+labels+"}\ntest: test.csv\ntest_is_public: true\n"))
		k.labeled, k.array = "csv:"+k.files, filepath.Join(dir, "test.npy")
		put(t, k.array, npy("<f4", encoded, 20, 4))
		return k
	}
}

// dropped leaves out the first category of a table.
func dropped(of func(t *testing.T, dir string) material) func(t *testing.T, dir string) material {
	return func(t *testing.T, dir string) material {
		k := of(t, dir)
		settings := filepath.Join(dir, "drop.yaml")
		put(t, settings, []byte("drop_first: true\n"))
		k.train = append(k.train, "-c", settings)
		rows := make([]float32, 20*4)
		array, err := os.ReadFile(k.array)
		check(t, err)
		if _, err := binary.Decode(array[len(array)-4*len(rows):], binary.LittleEndian, rows); err != nil {
			t.Fatal(err)
		}
		var kept []float32
		for row := range slices.Chunk(rows, 4) {
			kept = append(kept, row[0], row[2], row[3])
		}
		put(t, k.array, npy("<f4", kept, 20, 3))
		return k
	}
}

// sharded cuts a table into shards.
func sharded(of func(t *testing.T, dir string) material) func(t *testing.T, dir string) material {
	return func(t *testing.T, dir string) material {
		k := of(t, dir)
		to := filepath.Join(dir, "shards")
		ok(t, "data", "shard", k.train[1], "--public-n", "60", "--shards", "2", "--out", to)
		k.train[1], k.labeled = "shards:"+to, "shards:"+to
		return k
	}
}

// drawn are images whose classes differ in brightness.
func drawn(seed uint64, shape [3]int, classes, n int) (pixels, labels []uint8) {
	random := rand.New(rand.NewPCG(seed, 3))
	for i := range n {
		labels = append(labels, uint8(i%classes))
		for range shape[0] * shape[1] * shape[2] {
			pixels = append(pixels, uint8(random.IntN(100)+i%classes*155/classes))
		}
	}
	return pixels, labels
}

// arrays makes an archive of images.
func arrays(shape [3]int, classes, tests int) func(t *testing.T, dir string) material {
	return func(t *testing.T, dir string) material {
		var names []string
		for i := range classes {
			names = append(names, fmt.Sprint(i))
		}
		path := filepath.Join(dir, "t.npz")
		k := material{
			train:   []string{"--data", "npz:" + path, "--public-n", "20", "--delta", "1e-4", "--test-is-public", "--class-names", strings.Join(names, ","), "--image-size", fmt.Sprintf("%dx%dx%d", shape[0], shape[1], shape[2])},
			labeled: "npz:" + path, array: filepath.Join(dir, "test.npy"),
		}
		x, y := drawn(1, shape, classes, 20)
		testX, testY := drawn(2, shape, classes, tests)
		for _, label := range testY {
			k.truth = append(k.truth, float64(label))
		}
		put(t, k.array, npy("|u1", testX, tests, shape[0], shape[1], shape[2]))
		put(t, path, archive(t, map[string][]byte{
			"x_train": npy("|u1", x, 20, shape[0], shape[1], shape[2]), "y_train": npy("|u1", y, 20),
			"x_test": npy("|u1", testX, tests, shape[0], shape[1], shape[2]), "y_test": npy("|u1", testY, tests),
		}))
		return k
	}
}

// folder makes gray images in class folders.
func folder(side int) func(t *testing.T, dir string) material {
	return func(t *testing.T, dir string) material {
		shape, path := [3]int{1, side, side}, filepath.Join(dir, "photos")
		k := material{
			train:   []string{"--data", "dir:" + path, "--public-n", "20", "--delta", "1e-4", "--test-is-public", "--class-names", "0,1", "--image-size", fmt.Sprintf("%dx%d", side, side)},
			labeled: "dir:" + path, files: filepath.Join(path, "test"), array: filepath.Join(dir, "test.npy"),
		}
		var sorted [2][]uint8
		for name, n := range map[string]int{"train": 20, "test": 12} {
			pixels, labels := drawn(uint64(n), shape, 2, n)
			for i, label := range labels {
				one := pixels[i*side*side:][:side*side]
				picture := image.NewGray(image.Rect(0, 0, side, side))
				for j, v := range one {
					picture.SetGray(j%side, j/side, color.Gray{Y: v})
				}
				var b bytes.Buffer
				check(t, png.Encode(&b, picture))
				put(t, filepath.Join(path, name, fmt.Sprint(label), fmt.Sprintf("%02d.png", i)), b.Bytes())
				if name == "test" {
					sorted[label] = append(sorted[label], one...)
				}
			}
		}
		for label, pixels := range sorted { // predict takes the images of a folder by their paths
			k.truth = append(k.truth, slices.Repeat([]float64{float64(label)}, len(pixels)/(side*side))...)
		}
		put(t, k.array, npy("|u1", slices.Concat(sorted[:]...), 12, 1, side, side))
		return k
	}
}

// builtIn is Fashion-MNIST.
func builtIn(t *testing.T, dir string) material {
	set, err := fashion.Open()
	check(t, err)
	k := material{train: []string{"--data", "fmnist", "--delta", "1e-6"}, labeled: "fmnist", array: filepath.Join(dir, "test.npy")}
	put(t, k.array, npy("|u1", set.Test.Features[:6*28*28], 6, 1, 28, 28))
	return k
}

func put(t *testing.T, path string, b []byte) {
	t.Helper()
	check(t, os.MkdirAll(filepath.Dir(path), 0o755))
	check(t, os.WriteFile(path, b, 0o644))
}

// npy is an array as numpy.save writes it.
func npy(kind string, values any, shape ...int) []byte {
	var dims string
	for _, n := range shape {
		dims += fmt.Sprint(n, ",")
	}
	head := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", kind, dims)
	head += strings.Repeat(" ", 63-(len(head)+10)%64) + "\n"
	b := append([]byte("\x93NUMPY\x01\x00"), byte(len(head)), byte(len(head)>>8))
	b, err := binary.Append(append(b, head...), binary.LittleEndian, values)
	if err != nil {
		panic(err) // values are slices of numbers
	}
	return b
}

// archive is an .npz file.
func archive(t *testing.T, arrays map[string][]byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for name, array := range arrays {
		w, err := z.Create(name + ".npy")
		check(t, err)
		if _, err := w.Write(array); err != nil {
			t.Fatal(err)
		}
	}
	check(t, z.Close())
	return b.Bytes()
}
