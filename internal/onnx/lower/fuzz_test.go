package lower

import (
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"path/filepath"
	"runtime/metrics"
	"slices"
	"testing"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/reference"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/onnx/file"
)

// FuzzLower changes the test data's graphs, as a stream of bytes says: kinds and inputs of nodes, their settings, shapes of constants, nodes
// that go. Whatever comes of it, a network comes out or an error that says what is wrong, no call panics, memory is bounded,
// and a network is whole: it can run, and its parameters are as many as its program says.
func FuzzLower(f *testing.F) {
	paths := graphs(f)
	for i := range paths {
		f.Add(uint8(i), uint8(3*i), []byte{0, 0, 0, 0})
		f.Add(uint8(i), uint8(5*i+1), []byte("a few changes, as letters come"))
	}
	f.Fuzz(func(t *testing.T, which, choices uint8, edits []byte) {
		changed(t, paths[int(which)%len(paths)], choices, edits[:min(len(edits), 200)])
	})
}

// TestChangedGraphs is FuzzLower with changes that are drawn: up to 5 of a graph, because more leave nothing that is lowered.
func TestChangedGraphs(t *testing.T) { changedGraphs(t, 1000) }

func TestLongChangedGraphs(t *testing.T) { changedGraphs(t, 100000) }

func changedGraphs(t *testing.T, n int) {
	paths, r := graphs(t), rand.New(rand.NewPCG(uint64(n), 5))
	counts := map[outcome]int{}
	for range n {
		edits := make([]byte, 1+r.IntN(20))
		for i := range edits {
			edits[i] = byte(r.Uint32())
		}
		which, choices := r.IntN(len(paths)), uint8(r.Uint32())
		if counts[changed(t, paths[which], choices, edits)]++; t.Failed() {
			t.Fatalf("%s with choices %d and changes %v", paths[which], choices, edits)
		}
	}
	t.Logf("%d lowered, %d refused, %d no graphs", counts[isLowered], counts[isRefused], counts[isNone])
	if counts[isLowered] < n/20 || counts[isRefused] < n/20 {
		t.Error("too few graphs of one kind")
	}
}

func graphs(t testing.TB) []string {
	paths, err := filepath.Glob("testdata/*.onnx")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no test data: %v", err)
	}
	return paths
}

// An outcome is what becomes of a graph.
type outcome uint8

const (
	isNone outcome = iota
	isRefused
	isLowered
)

// changed lowers a file's graph after some changes.
func changed(t testing.TB, path string, choices uint8, edits []byte) outcome {
	m, err := file.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	e := &editor{graph: &m.Graph, stream: edits}
	for len(e.stream) > 0 {
		e.change()
	}
	b, err := m.Encode()
	if err != nil {
		return isNone // a constant whose shape does not fit its numbers
	}
	if m, err = file.Decode(b, ""); err != nil {
		return isNone // circles, and values that nobody makes
	}
	before := allocated()
	c := choicesOf(m, choices)
	n, err := Lower(m, c)
	// Folded constants take 24 bytes for each of mostFolded elements, once for each of two outputs, of a frozen part and of the rest. Else each
	// node takes some kB, and each constant is read a few times: files have at most 500 nodes and 60 kB.
	if took := allocated() - before; took > 4*24*mostFolded+32<<20 {
		t.Errorf("a file of %d bytes took %d", len(b), took)
	}
	if r := Inspect(m, c); (err == nil) != (len(r.Refusals) == 0 && r.Err == nil) {
		t.Errorf("Lower says %v, and Inspect %v %v", err, r.Refusals, r.Err)
	}
	if sound(t, n, err); err != nil {
		return isRefused
	}
	return isLowered
}

// sound checks what came of a file.
func sound(t testing.TB, n *Network, err error) {
	t.Helper()
	var all Refusals
	switch {
	case errors.As(err, &all):
		for _, r := range all {
			if r.Reason == "" || r.Do == "" {
				t.Errorf("a refusal without a reason or a remedy: %+v", r)
			}
		}
		if len(all) == 0 {
			t.Error("refused for no reason")
		}
		return
	case err != nil:
		return
	}
	if err := n.Program.Validate(); err != nil {
		t.Fatal(err)
	}
	if len(n.Params) != n.Program.NumParams() {
		t.Fatalf("%d parameters, and %d numbers for them", n.Program.NumParams(), len(n.Params))
	}
	work := 0
	for i := range n.Program.Ops {
		work += ir.Size(n.Program.Ops[i].Out)
	}
	if work > 1<<17 {
		return // it would take long
	}
	values := reference.Values(n.Program, widened(n.Params), recordOf(3, ir.Size(n.Program.Shape)), device.Float32)
	if got := values[n.Program.Logits()]; len(got) != n.Program.Outputs() {
		t.Errorf("%d outputs, want %d", len(got), n.Program.Outputs())
	}
}

// choicesOf reads a user's choices from a byte.
func choicesOf(m *file.Model, b uint8) Choices {
	c := Choices{Weights: Weights(b & 1), BatchNorm: BatchNorm(b>>1&3) % 3}
	if b&8 != 0 {
		c.NewHead, c.Classes = true, 2+int(b>>6)
	}
	if b&16 != 0 && len(m.Graph.Nodes) > 0 {
		n := m.Graph.Nodes[int(b>>2)%len(m.Graph.Nodes)]
		c.Freeze, c.Weights = n.Outputs[0], OfFile
	}
	return c
}

// An editor changes a graph as its stream says.
type editor struct {
	graph  *file.Graph
	stream []byte
}

// next is a number below n.
func (e *editor) next(n int) int {
	if len(e.stream) == 0 || n == 0 {
		return 0
	}
	b := int(e.stream[0])
	e.stream = e.stream[1:]
	return b % n
}

// fuzzedKinds are operations that nodes become.
var fuzzedKinds = []string{
	"Add", "AveragePool", "BatchNormalization", "Cast", "Concat", "Constant", "ConstantOfShape", "Conv", "Div", "Dropout", "Expand", "Flatten", "Gather", "Gelu", "Gemm",
	"GlobalAveragePool", "GlobalMaxPool", "GroupNormalization", "Identity", "InstanceNormalization", "LayerNormalization", "LeakyRelu", "MatMul", "MaxPool", "Mul", "Pad",
	"Range", "ReduceMean", "Relu", "Reshape", "Shape", "Sigmoid", "Slice", "Softmax", "Split", "Sqrt", "Squeeze", "Sub", "Tanh", "Tile", "Transpose", "Unsqueeze",
}

// fuzzedNumbers are what settings become: small numbers, and those at which sums and products break.
var fuzzedNumbers = []int64{0, 1, 2, 3, 4, 7, 16, 1000, -1, -2, -3, 1 << 20, math.MaxInt32, math.MaxInt64, math.MinInt64, 1 << 62}

// fuzzedSettings are names of settings of whole numbers.
var fuzzedSettings = []string{"axis", "axes", "group", "pads", "strides", "dilations", "kernel_shape", "keepdims", "perm", "transA", "transB", "allowzero", "ceil_mode",
	"count_include_pad", "num_groups", "stash_type", "training_mode", "to", "start", "end", "noop_with_empty_axes"}

func (e *editor) change() {
	nodes := e.graph.Nodes
	kind := e.next(9)
	if len(nodes) == 0 {
		e.stream = nil
		return
	}
	at := (e.next(256)*256 + e.next(256)) % len(nodes)
	n := &nodes[at]
	switch kind {
	case 0:
		n.Kind = fuzzedKinds[e.next(len(fuzzedKinds))]
	case 1, 2:
		e.setting(n)
	case 3:
		if len(n.Inputs) > 0 {
			n.Inputs[e.next(len(n.Inputs))] = e.value()
		}
	case 4:
		e.shape()
	case 5:
		n.Inputs = append(n.Inputs, e.value())
	case 6:
		if len(n.Inputs) > 0 {
			n.Inputs = n.Inputs[:e.next(len(n.Inputs))]
		}
	case 7:
		e.graph.Nodes = slices.Delete(nodes, at, at+1)
	case 8:
		if v := e.graph.Inputs; len(v) > 0 && len(v[0].Shape) > 0 {
			v[0].Shape[e.next(len(v[0].Shape))] = file.Axis{Length: int(uint32(fuzzedNumbers[e.next(13)]) >> 1)}
		}
	}
}

// setting changes a setting of a node, or gives it one.
func (e *editor) setting(n *file.Node) {
	if n.Attributes == nil {
		n.Attributes = map[string]file.Attribute{}
	}
	names := slices.Sorted(maps.Keys(n.Attributes))
	name := fuzzedSettings[e.next(len(fuzzedSettings))]
	if len(names) > 0 && e.next(2) == 0 {
		name = names[e.next(len(names))]
	}
	a := n.Attributes[name]
	v := fuzzedNumbers[e.next(len(fuzzedNumbers))]
	switch {
	case a.Type == file.IsInts && len(a.Ints) > 0:
		a.Ints = slices.Clone(a.Ints)
		a.Ints[e.next(len(a.Ints))] = v
	case a.Type == file.IsFloat:
		a.Float = float32(v)
	case a.Type == file.IsText:
		a.Text = []string{"SAME_UPPER", "SAME_LOWER", "VALID", "none", "tanh", ""}[e.next(6)]
	case a.Type == file.IsInt || e.next(2) == 0:
		a = file.Attribute{Type: file.IsInt, Int: v}
	default:
		a = file.Attribute{Type: file.IsInts, Ints: slices.Repeat([]int64{v}, e.next(6))}
	}
	n.Attributes[name] = a
}

// value names one of the graph.
func (e *editor) value() string {
	nodes := e.graph.Nodes
	switch e.next(4) {
	case 0:
		return ""
	case 1:
		names := slices.Sorted(maps.Keys(e.graph.Constants))
		if len(names) > 0 {
			return names[e.next(len(names))]
		}
	case 2:
		if len(e.graph.Inputs) > 0 {
			return e.graph.Inputs[0].Name
		}
	}
	if n := nodes[e.next(len(nodes))]; len(n.Outputs) > 0 {
		return n.Outputs[0]
	}
	return ""
}

// shape gives a constant another shape, of as many numbers, or others instead.
func (e *editor) shape() {
	names := slices.Sorted(maps.Keys(e.graph.Constants))
	if len(names) == 0 {
		return
	}
	t := e.graph.Constants[names[e.next(len(names))]]
	switch e.next(4) {
	case 0:
		slices.Reverse(t.Shape)
	case 1:
		t.Shape = []int{t.Len()}
	case 2:
		t.Shape = append(slices.Clone(t.Shape), 1)
	case 3:
		if t.Type == file.Int64 && t.Len() > 0 {
			values := make([]int64, t.Len())
			for i := range values {
				values[i] = fuzzedNumbers[e.next(len(fuzzedNumbers))]
			}
			*t = *file.IntTensor(t.Name, t.Shape, values)
		}
	}
}

func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
