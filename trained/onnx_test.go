package trained

import (
	"bytes"
	"encoding/binary"
	"fmt"
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

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/features"
	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/internal/device/reference"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/onnx/onnxtest"
	"github.com/privgrad/privgrad/internal/plan"
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/internal/synthetic"
	"github.com/privgrad/privgrad/nn"
)

// untrained is a model as Open gives it, with random parameters.
func untrained(t testing.TB, network *nn.Network, shape [3]int, reading string, front *features.Front) *Model {
	t.Helper()
	m := &Model{
		dir: "run", shape: shape, reading: reading, front: front, network: network,
		config: config.Config{Data: "fmnist", Settings: dpoptim.Settings{Model: network.Program.Name}}, facts: map[string]string{"model": network.Program.Name, "privgrad_version": "v0"},
	}
	if network.Program.Loss == ir.Huber {
		m.bounds = datasets.Bounds{-20, 300}
	} else {
		for i := range max(network.Program.Outputs(), 2) {
			m.classes = append(m.classes, strconv.Itoa(i))
		}
	}
	random := rand.New(rand.NewPCG(5, 6))
	m.params = network.Params()
	for i := range m.params {
		m.params[i] += 0.02 * float32(random.NormFloat64())
	}
	return m
}

// named is a named model behind a front end, if there is one.
func named(t testing.TB, name, activation string, shape [3]int, reading string, front *features.Front) *Model {
	t.Helper()
	input, classes := shape, 10
	if front != nil {
		input = front.Out()
	}
	for _, i := range nn.Names() {
		switch {
		case i.Name != name || i.Loss == nn.SoftmaxCrossEntropy || name == "logistic":
		case i.Loss == nn.Huber:
			classes = 0
		default:
			classes = 2
		}
	}
	network, err := plan.BuildNetwork(name, nn.Options{Input: input, Classes: classes, Activation: activation, Seed: 3})
	check(t, err)
	return untrained(t, network, shape, reading, front)
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A graph with what named models lack: uneven windows and pads, averages, a sum, a reshape.
func own(t testing.TB) *nn.Network {
	g := G.NewGraph()
	x := G.NewTensor(g, tensor.Float32, 4, G.WithShape(1, 2, 9, 7), G.WithName("x"))
	h, err := nn.Apply(x, nn.Conv("a", 3, 3, 2, 1, nn.He(1)), nn.ReLU)
	check(t, err)
	other, err := nn.Apply(x, nn.Conv("b", 3, 3, 2, 1, nn.He(2)), nn.Sigmoid)
	check(t, err)
	sum, err := G.Add(h, other)
	check(t, err)
	logits, err := nn.Apply(sum, nn.AvgPool(3, 2), nn.Flatten, nn.Dense("c", 3, nn.Glorot(3)))
	check(t, err)
	network, err := nn.Lower(logits, nn.WithName("own"))
	check(t, err)
	return network
}

// norms has every other kind of operation: of images and of vectors, with both shortcuts.
func norms(t testing.TB) *nn.Network {
	x := G.NewTensor(G.NewGraph(), tensor.Float32, 4, G.WithShape(1, 3, 10, 8), G.WithName("image"))
	logits, err := nn.Apply(x, nn.GroupNorm("n0", 1), nn.Conv("logits", 4, 3, 1, 1, nn.He(1)), nn.GroupNorm("n1", 2), nn.LeakyReLU(.2),
		nn.Residual(nn.Conv("b", 6, 1, 2, 0, nn.He(2)), nn.Conv("a", 6, 3, 2, 1, nn.He(3)), nn.GroupNorm("n2", 3), nn.LeakyReLU(.01)),
		nn.MaxPool(2, 2), nn.Flatten, nn.Dense("c", 12, nn.Glorot(4)), nn.GroupNorm("n3", 4),
		nn.Residual(nil, nn.Dense("d", 12, nn.Glorot(5)), nn.Tanh), nn.Dense("e", 3, nn.Glorot(6)), nn.GroupNorm("n4", 1))
	check(t, err)
	network, err := nn.Lower(logits, nn.WithName("norms"))
	check(t, err)
	return network
}

// exported are models of every name, activation, front end and way of reading.
func exported(t testing.TB, long bool) map[string]*Model {
	all := map[string]*Model{
		"own":   untrained(t, own(t), [3]int{2, 9, 7}, rundir.Symmetric, nil),
		"norms": untrained(t, norms(t), [3]int{3, 10, 8}, rundir.Symmetric, nil),
	}
	for _, i := range nn.Names() {
		if i.Parameters > 300_000 && !long {
			continue
		}
		shape := i.Input
		if shape == [3]int{} {
			shape = [3]int{1, 12, 11}
		}
		activations := []string{"relu", "tanh", "sigmoid"}
		if i.Linear { // which have none
			activations = activations[1:2]
		}
		for _, activation := range activations {
			all[i.Name+"-"+activation] = named(t, i.Name, activation, shape, rundir.Symmetric, nil)
		}
	}
	front := func(kind string, whiten features.Whitening, mirror bool, shape [3]int) *features.Front {
		f, err := features.New(features.Spec{Kind: kind, Whiten: whiten, Mirror: mirror, Shape: shape}, nil)
		check(t, err)
		return f
	}
	gray, color, odd := [3]int{1, 28, 28}, [3]int{3, 32, 32}, [3]int{3, 12, 20}
	both := front("scatter+patches", features.Leaves, true, gray)
	fronts := map[string]*features.Front{ // constants of whitened ones come with the package
		"both-28-mirror": both,
		"all-32-mirror":  front("scatter+patches+pairs", features.Leaves, true, color),
		"encoder-32":     front("encoder", features.Leaves, true, color),
		"pairs-plain":    front("pairs", features.None, false, [3]int{1, 21, 24}),
		"scatter-28":     front("scatter", features.Leaves, false, gray),
		"scatter-plain":  front("scatter", features.None, false, odd),
		"scatter-mirror": front("scatter", features.None, true, odd), // with a middle column
		"patches-plain":  front("patches", features.None, false, odd),
		"patches-mirror": front("patches", features.None, true, odd),
	}
	if long { // fitting takes seconds
		fronts["both-28"] = front("scatter+patches", features.Leaves, false, gray)
		fronts["patches-mirror-1"] = front("patches", features.None, true, gray)
	}
	for name, f := range fronts {
		all["features-"+name] = named(t, "logistic", "tanh", f.In(), rundir.Fraction, f)
	}
	for name, shape := range map[string][3]int{"gray": gray, "odd": odd} {
		f, err := features.New(features.Spec{Kind: "scatter", Whiten: features.None, Deskew: true, Shape: shape}, nil)
		check(t, err)
		all["features-deskew-"+name] = named(t, "logistic", "tanh", f.In(), rundir.Fraction, f)
	}
	all["features-of-values"] = named(t, "logistic", "tanh", gray, rundir.AsIs, both)
	plain := front("scatter", features.None, false, gray) // whitened rows are next to equally long
	all["table"] = named(t, "logistic", "tanh", [3]int{1, 1, 7}, rundir.AsIs, nil)
	// Behind a bound: of the pictures, some are longer and some are not.
	for name, m := range map[string]*Model{
		"table": named(t, "logistic", "tanh", [3]int{1, 1, 7}, rundir.AsIs, nil), "values": named(t, "mlp-small", "tanh", gray, rundir.AsIs, nil),
		"images": named(t, "cnn-mnist", "tanh", gray, rundir.Symmetric, nil), "features": named(t, "logistic", "tanh", gray, rundir.AsIs, plain),
		"own": untrained(t, own(t), [3]int{2, 9, 7}, rundir.Symmetric, nil),
	} {
		m.config.FeatureNorm = new(m.middle(t))
		all["norm-"+name] = m
	}
	all["values"] = named(t, "mlp-small", "tanh", gray, rundir.AsIs, nil)
	return all
}

// pictures are synthetic images of a shape, random ones, a black and a white one: bytes and as values.
func pictures(shape [3]int) features.Images {
	size := shape[0] * shape[1] * shape[2]
	image := make([]float32, size)
	random := rand.New(rand.NewPCG(7, 8))
	var p features.Images
	for i := range 5 {
		if shape[1] > 1 {
			synthetic.Leaves(shape).Draw(image, 3, uint64(i))
		}
		for k := range image {
			switch {
			case i == 0:
				image[k] = 0
			case i == 1:
				image[k] = 1
			case i%2 == 0 || shape[1] == 1:
				image[k] = float32(random.IntN(256)) / 255
			}
			b := uint8(image[k]*255 + .5)
			p.Bytes, p.Values = append(p.Bytes, b), append(p.Values, float32(b)/255)
		}
	}
	return p
}

// records are what the model reads.
func (m *Model) records() features.Images {
	p := pictures(m.shape)
	if m.reading == rundir.AsIs {
		return features.Images{Values: p.Values}
	}
	return features.Images{Bytes: p.Bytes}
}

// middle is a norm that some rows of the records have less than, and some more.
func (m *Model) middle(t testing.TB) float64 {
	p := m.records()
	r := m.reader()
	rows, values, err := r.Table(datasets.Split{
		Shape: m.shape, Features: p.Bytes, Values: p.Values, Unit: m.reading == rundir.Fraction && m.front == nil,
		Labels: make([]uint8, (len(p.Bytes)+len(p.Values))/(m.shape[0]*m.shape[1]*m.shape[2])),
	})
	check(t, err)
	table, err := reference.Load(rows, values)
	check(t, err)
	var norms []float64
	for i := range table.Count {
		sum := 0.
		for _, x := range table.Row(int32(i)) {
			sum += x * x
		}
		norms = append(norms, math.Sqrt(sum))
	}
	slices.Sort(norms)
	low, high := norms[0], norms[len(norms)-1]
	if !(low < 0.9*high) {
		t.Fatalf("norms are from %v to %v", low, high)
	}
	return (low + high) / 2
}

// npy is a file of numpy's.
func npy(t testing.TB, path, kind string, values any, shape ...int) {
	t.Helper()
	var dims string
	for _, n := range shape {
		dims += fmt.Sprint(n, ",")
	}
	head := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", kind, dims)
	head += strings.Repeat(" ", 63-(len(head)+10)%64) + "\n"
	b := append([]byte("\x93NUMPY\x01\x00"), byte(len(head)), byte(len(head)>>8))
	b, err := binary.Append(append(b, head...), binary.LittleEndian, values)
	check(t, err)
	check(t, os.WriteFile(path, b, 0o644))
}

// python runs a script where Python has the modules that it imports.
func python(t *testing.T, modules string, args ...string) string {
	t.Helper()
	havePython(t, modules)
	var stderr bytes.Buffer
	c := exec.Command("python3", args...)
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, stderr.String())
	}
	return string(out)
}

// havePython skips a test where Python has no such modules.
func havePython(t *testing.T, modules string) {
	t.Helper()
	if out, err := exec.Command("python3", "-c", "import "+modules).CombinedOutput(); err != nil {
		t.Skipf("python3 has no %s: %v %.200s", modules, err, out)
	}
}

// onnxAgrees compares what ONNX Runtime makes of exported models with Predict.
func onnxAgrees(t *testing.T, long bool) {
	havePython(t, "numpy, onnxruntime")
	dir, models := t.TempDir(), exported(t, long)
	for name, m := range models {
		var file bytes.Buffer
		check(t, m.ExportONNX(&file))
		path := filepath.Join(dir, name)
		check(t, os.WriteFile(path+".onnx", file.Bytes(), 0o644))
		records := m.records()
		predictions, err := m.Predict(records)
		check(t, err)
		var logits []float64
		for _, p := range predictions {
			logits = append(logits, p.Logits...)
		}
		n := len(predictions)
		shape := append([]int{n}, m.shape[:]...)
		if m.table() {
			shape = []int{n, m.shape[2]}
		}
		if records.Bytes != nil {
			npy(t, path+".input.npy", "|u1", records.Bytes, shape...)
		} else {
			npy(t, path+".input.npy", "<f4", records.Values, shape...)
		}
		npy(t, path+".logits.npy", "<f8", logits, n, len(logits)/n)
	}
	lines := strings.Split(strings.TrimSpace(python(t, "numpy, onnxruntime", "testdata/check_onnx.py", dir)), "\n")
	if len(lines) != len(models) {
		t.Errorf("%d of %d models were run", len(lines), len(models))
	}
	// Float32 networks and halves that round otherwise: a hundred times the unit of the one, and some units of 2⁻¹¹ among
	// thousands of features, weighed down by the weights.
	const most = 1e-4
	for _, line := range lines {
		f := strings.Fields(line)
		far, err := strconv.ParseFloat(f[2], 64)
		check(t, err)
		if size, err := strconv.ParseFloat(f[3], 64); err != nil || size < .01 {
			t.Errorf("%s: logits are at most %v: nothing is compared", f[0], size)
		}
		if !(far <= most) {
			t.Errorf("%s: logits are %v off", f[0], far)
		}
		t.Log(line)
		if want := map[bool]string{true: "features", false: "image"}[models[f[0]].table()]; f[1] != want {
			t.Errorf("%s: the input is %s, want %s", f[0], f[1], want)
		}
	}
}

// What an exported network gives is what Predict says, also where there is no ONNX Runtime. Behind a front end, rows are about
// 1e-5 of a row apart before they are rounded: then some halves round otherwise, so that about √(1e-5·2⁻¹¹) = 7e-5 of a row's
// length 63 changes. Weights of 0.02 make a normal deviation of 9e-5 of it, beside logits of 2 or more: 2e-4 is four of them.
func TestExportAgrees(t *testing.T) {
	for name, m := range exported(t, false) {
		var file bytes.Buffer
		check(t, m.ExportONNX(&file))
		records := m.records()
		if m.front != nil { // of which each takes long: a black image, and leaves
			records = third(records, ir.Size(m.shape[:]))
		}
		predictions, err := m.Predict(records)
		check(t, err)
		input, output, got, err := onnxtest.Run(file.Bytes(), plainly(records))
		check(t, err)
		if want := map[bool]string{true: "features", false: "image"}[m.table()]; input != want || output != "logits" {
			t.Errorf("%s: the input is %s, the output %s", name, input, output)
		}
		most, far := 0.0, 0.0
		for i, p := range predictions {
			for j, x := range p.Logits {
				most, far = math.Max(most, math.Abs(x)), math.Max(far, math.Abs(x-got[i*len(p.Logits)+j]))
			}
		}
		limit := 1e-5
		if m.front != nil {
			limit = 2e-4
		}
		if !(most > .01) || !(far <= limit*math.Max(most, 1)) {
			t.Errorf("%s: of logits up to %v, one is %v off", name, most, far)
		}
	}
}

// third are every third of some images.
func third(r features.Images, size int) (some features.Images) {
	for at := 0; at < len(r.Bytes)+len(r.Values); at += 3 * size {
		if r.Bytes != nil {
			some.Bytes = append(some.Bytes, r.Bytes[at:at+size]...)
		} else {
			some.Values = append(some.Values, r.Values[at:at+size]...)
		}
	}
	return some
}

// plainly are records as numbers.
func plainly(r features.Images) (all []float64) {
	for _, b := range r.Bytes {
		all = append(all, float64(b))
	}
	for _, x := range r.Values {
		all = append(all, float64(x))
	}
	return all
}

func TestONNXRuntimeAgrees(t *testing.T)     { onnxAgrees(t, false) }
func TestLongONNXRuntimeAgrees(t *testing.T) { onnxAgrees(t, true) }

// A model that diverged predicts nothing, and says so.
func TestNotFinite(t *testing.T) {
	m := named(t, "logistic", "tanh", [3]int{1, 4, 4}, rundir.Symmetric, nil)
	m.params[0] = float32(math.Inf(1))
	if p, err := m.Predict(features.Images{Bytes: make([]byte, 16)}); err == nil || !strings.Contains(err.Error(), "not finite: its training diverged") {
		t.Errorf("got %v, %v", p, err)
	}
}

// A function of the user's own is refused, and the reason names what to do.
func TestONNXRefusesFunctions(t *testing.T) {
	f, err := features.Own("sums", [3]int{1, 4, 4}, [3]int{1, 1, 2}, func(dst, image []float32) { dst[0], dst[1] = image[0], image[1]+image[2] })
	check(t, err)
	m := named(t, "logistic", "tanh", [3]int{1, 4, 4}, rundir.Fraction, f)
	var file bytes.Buffer
	if err := m.ExportONNX(&file); err == nil || !strings.Contains(err.Error(), "Go function") || file.Len() > 0 {
		t.Errorf("got %v, and %d bytes", err, file.Len())
	}
}

// Every kind of operation is exported, or is on the list of those that are not.
func TestONNXKnowsAllKinds(t *testing.T) {
	m := named(t, "cnn-mnist", "tanh", [3]int{1, 28, 28}, rundir.Symmetric, nil)
	m.network.Program.Ops = slices.Clone(m.network.Program.Ops)
	m.network.Program.Ops[1].Kind = 200
	if err := m.ExportONNX(&bytes.Buffer{}); err == nil {
		t.Error("an unknown operation was exported")
	}
}
