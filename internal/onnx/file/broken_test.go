package file

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// A part is a field that a planted file has: a message of further parts, a text, or a number.
type part struct {
	number protowire.Number
	value  any
}

func parts(list ...part) (b message) {
	for _, p := range list {
		switch v := p.value.(type) {
		case int:
			b.int(p.number, int64(v))
		case string:
			b.text(p.number, v)
		case message:
			b.bytes(p.number, v)
		}
	}
	return b
}

// node is y = Kind(x).
func nodeOf(kind, x, y string, more ...part) part {
	return part{graphNodes, append(parts(part{nodeInputs, x}, part{nodeOutputs, y}, part{nodeKind, kind}), parts(more...)...)}
}

func constantOf(list ...part) part { return part{graphTensors, parts(list...)} }

func besideOf(key, value string) part {
	return part{tensorBeside, parts(part{entryKey, key}, part{entryValue, value})}
}

// modelOf has the input x, the output y, and what is given of a graph.
func modelOf(list ...part) message {
	graph := append(parts(list...), parts(part{graphInputs, parts(part{1, "x"})}, part{graphOutputs, parts(part{1, "y"})})...)
	return parts(part{modelFormat, 8}, part{modelGraph, graph}, part{modelOpsets, parts(part{2, 17})})
}

// fails wants every text in the error of a file.
func fails(t *testing.T, name string, b []byte, dir string, want ...string) {
	t.Helper()
	_, err := Decode(b, dir)
	if err == nil {
		t.Errorf("%s: was read", name)
		return
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%s: the error is %q, and lacks %q", name, err, w)
		}
	}
	if len(err.Error()) > 800 {
		t.Errorf("%s: the error has %d bytes", name, len(err.Error()))
	}
}

func TestBrokenGraphs(t *testing.T) {
	relu := nodeOf("Relu", "x", "y")
	for _, c := range []struct {
		name  string
		parts []part
		want  []string
	}{
		{"circle", []part{nodeOf("Add", "b", "a", part{nodeName, "first"}), nodeOf("Mul", "a", "b", part{nodeName, "second"}), relu}, []string{"first", "second", "circle"}},
		{"own output", []part{nodeOf("Add", "y", "y", part{nodeName, "alone"})}, []string{"alone", "circle"}},
		{"missing value", []part{nodeOf("Relu", "z", "y", part{nodeName, "n"})}, []string{`node "n" (Relu) reads "z"`, "no node makes"}},
		{"value twice", []part{relu, nodeOf("Tanh", "x", "y")}, []string{`makes the value "y"`, "Tanh"}},
		{"input made again", []part{nodeOf("Tanh", "x", "x"), relu}, []string{`makes the value "x"`}},
		{"missing output", []part{nodeOf("Relu", "x", "z")}, []string{`output "y"`}},
		{"input twice", []part{relu, {graphInputs, parts(part{1, "x"})}}, []string{`input "x"`, "twice"}},
		{"no operation", []part{nodeOf("", "x", "y", part{nodeName, "n"})}, []string{`"n"`, "does not say which operation"}},
		{"sparse", []part{relu, {graphSparse, message{}}}, []string{"sparse", "dense weights"}},
		{"domain without version", []part{nodeOf("Gelu", "x", "y", part{nodeDomain, "com.example"})}, []string{`"com.example"`, "Gelu"}},
		{"name of no text", []part{nodeOf("Relu", "x", "y", part{nodeName, "\xff"})}, []string{"node 1", "damaged"}},
		{"input without a name", []part{relu, {graphInputs, message{}}}, []string{"no name"}},
		{"long name", []part{nodeOf("Relu", strings.Repeat("z", 1e4), "y")}, []string{"zzz"}},
		{"attribute twice", []part{nodeOf("Relu", "x", "y", attributeOf("a", IsInt), attributeOf("a", IsInt))}, []string{`attribute "a"`, "twice"}},
		{"attribute without a type", []part{nodeOf("Relu", "x", "y", attributeOf("a", 0))}, []string{`attribute "a"`, "type is 0"}},
		{"attribute without its tensor", []part{nodeOf("Relu", "x", "y", attributeOf("a", IsTensor))}, []string{`attribute "a"`, "no tensor"}},
		{"attribute of a function", []part{nodeOf("Relu", "x", "y", part{nodeAttributes, append(attributeOf("a", IsInt).value.(message), parts(part{attributeReference, "b"})...)})}, []string{`attribute "a"`, "function"}},
		{"a number for a text", []part{{graphNodes, parts(part{nodeKind, 7})}}, []string{"node 1", "field 4"}},
		{"too many axes", []part{relu, {graphInputs, parts(part{1, "z"}, part{2, parts(part{1, parts(part{2, bytesOf(66, 0x0a, 0)})})})}}, []string{`"z"`, "33 axes"}},
	} {
		fails(t, c.name, modelOf(c.parts...), "", c.want...)
	}
}

func bytesOf(n int, pattern ...byte) message { return bytes.Repeat(pattern, n/len(pattern)) }

func attributeOf(name string, kind AttributeType) part {
	return part{nodeAttributes, parts(part{attributeName, name}, part{attributeType, int(kind)})}
}

func TestBrokenConstants(t *testing.T) {
	floats, shape := part{tensorType, int(Float32)}, part{tensorDims, 2}
	name := part{tensorName, "w"}
	for _, c := range []struct {
		name  string
		parts []part
		want  string
	}{
		{"short", []part{floats, shape, {tensorRaw, "1234567"}}, "takes 8 bytes, the file holds 7"},
		{"none", []part{floats, shape}, "takes 8 bytes, the file holds 0"},
		{"list too long", []part{floats, shape, {4, "123456789abc"}}, "has 2 numbers, the file holds 3"},
		{"list of another type", []part{floats, shape, {7, "ab"}}, "takes 8 bytes, the file holds 0"},
		{"two forms", []part{floats, shape, {tensorRaw, "12345678"}, {4, "12345678"}}, "two forms"},
		{"raw twice", []part{floats, shape, {tensorRaw, "12345678"}, {tensorRaw, "12345678"}}, "twice"},
		{"out of range", []part{{tensorType, int(Uint8)}, shape, {5, "\x01\x80\x02"}}, "holds 256"},
		{"below range", []part{{tensorType, int(Bool)}, {tensorDims, 1}, {5, -1}}, "holds -1"},
		{"cut list", []part{{tensorType, int(Int64)}, shape, {7, "\x01\x80"}}, "damaged"},
		{"huge", []part{floats, {tensorDims, math.MaxInt32}, {tensorRaw, ""}}, "the file holds 0"},
		{"too huge", []part{floats, {tensorDims, math.MaxInt32}, {tensorDims, math.MaxInt32}, {tensorDims, 4}}, "more than 2³¹"},
		{"long axis", []part{floats, {tensorDims, math.MaxInt32 + 1}}, "an axis has the length 2147483648"},
		{"negative axis", []part{floats, {tensorDims, -1}}, "an axis has the length -1"},
		{"axes", []part{floats, {tensorDims, string(bytes.Repeat([]byte{1}, 33))}}, "more than 32 axes"},
		{"no type", []part{shape}, "type of its numbers"},
		{"part", []part{floats, shape, {tensorSegment, message{}}}, "larger constant"},
		{"nowhere", []part{floats, shape, {tensorLocation, 2}}, "kind 2"},
	} {
		fails(t, c.name, modelOf(nodeOf("Relu", "x", "y"), constantOf(append(c.parts, name)...)), "", `constant 1: "w"`, c.want)
	}
	fails(t, "twice", modelOf(nodeOf("Relu", "x", "y"), constantOf(floats, part{tensorRaw, "1234"}, name), constantOf(floats, part{tensorRaw, "1234"}, name)), "", `constant "w"`, "twice")
	fails(t, "no name", modelOf(nodeOf("Relu", "x", "y"), constantOf(floats, part{tensorRaw, "1234"})), "", "constant 1 has no name")
	// What can be read but not asked for.
	m, err := Decode(modelOf(nodeOf("Relu", "x", "y"), constantOf(part{tensorType, int(Float64)}, part{tensorRaw, "\xff\xff\xff\xff\xff\xff\xef\x7f"}, name),
		constantOf(part{tensorType, int(Uint8)}, part{tensorDims, mostInts + 1}, part{tensorRaw, strings.Repeat("a", mostInts+1)}, part{tensorName, "n"})), "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Graph.Constants["w"].Floats(); err == nil || !strings.Contains(err.Error(), "too large for float32") {
		t.Errorf("the largest float64 as float32: %v", err)
	}
	if _, err := m.Graph.Constants["n"].Ints(); err == nil || !strings.Contains(err.Error(), "at most 1048576") {
		t.Errorf("a million whole numbers: %v", err)
	}
}

func TestBrokenModels(t *testing.T) {
	good := modelOf(nodeOf("Relu", "x", "y"))
	for _, c := range []struct {
		name string
		b    []byte
		want string
	}{
		{"empty", nil, "empty"},
		{"checkpoint", []byte("PK\x03\x04archive/data.pkl"), "torch.onnx.export"},
		{"no graph", parts(part{modelFormat, 8}), "no graph"},
		{"two graphs", append(good, good...), "twice"},
		{"newer format", append(good, parts(part{modelFormat, newestFormat + 1})...), "newer than 14"},
		{"no opset", bytes.TrimSuffix(good, parts(part{modelOpsets, parts(part{2, 17})})), "opset 13"},
		{"two opsets", append(good, parts(part{modelOpsets, parts(part{1, "ai.onnx"}, part{2, 18})})...), "said twice"},
		{"function", append(good, parts(part{modelFunctions, parts(part{1, "Relu"})})...), "inline_local_functions"},
		{"group", append(good, 0x0b, 0x0c), "damaged"},
	} {
		fails(t, c.name, c.b, "", c.want)
	}
	// What is for training, and functions that nobody calls, are no hindrance.
	if _, err := Decode(append(good, parts(part{20, message{}}, part{modelFunctions, parts(part{1, "Other"})})...), ""); err != nil {
		t.Error(err)
	}
}

// No beginning of a file is taken for a whole one.
func TestTruncated(t *testing.T) {
	b, err := os.ReadFile("testdata/types.onnx")
	if err != nil {
		t.Fatal(err)
	}
	for n := range b {
		if _, err := Decode(b[:n], ""); err == nil {
			t.Errorf("the first %d of %d bytes were read", n, len(b))
		}
	}
}

// Constants lie in plain files inside the model's folder, or are refused.
func TestOutside(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "model")
	for _, err := range []error{
		os.MkdirAll(filepath.Join(dir, "sub"), 0o755), os.WriteFile(filepath.Join(top, "secret"), make([]byte, 100), 0o644),
		os.WriteFile(filepath.Join(dir, "w"), []byte("12345678abcdefgh"), 0o644), os.WriteFile(filepath.Join(dir, "sub", "w"), make([]byte, 16), 0o644),
		os.Symlink(filepath.Join(top, "secret"), filepath.Join(dir, "link")), os.Symlink(filepath.Join("..", "secret"), filepath.Join(dir, "up")),
		os.Symlink(top, filepath.Join(dir, "folder")),
	} {
		if err != nil {
			t.Skip(err) // links need a privilege on some systems
		}
	}
	file := func(location, offset, length string) []byte {
		return modelOf(nodeOf("Relu", "x", "y"), constantOf(part{tensorType, int(Float32)}, part{tensorDims, 2}, part{tensorName, "w"}, part{tensorLocation, 1},
			besideOf("location", location), besideOf("offset", offset), besideOf("length", length)))
	}
	for _, location := range []string{"w", "sub/w", "./w", "sub/../w"} {
		m, err := Decode(file(location, "8", "8"), dir)
		if err != nil {
			t.Errorf("%s: %v", location, err)
			continue
		}
		if v, err := m.Graph.Constants["w"].Floats(); err != nil || len(v) != 2 {
			t.Errorf("%s: %v %v", location, v, err)
		}
	}
	fails(t, "no folder", file("w", "0", "8"), "", `"w"`, "save the model as one file")
	for _, location := range []string{"../secret", filepath.Join(top, "secret"), "link", "up", "folder/secret", "sub", ".", "", "none", "sub/../../secret", "w\x00"} {
		fails(t, location, file(location, "0", "8"), dir, `constant 1: "w"`)
	}
	for _, c := range [][3]string{{"9", "8", "from 9 on"}, {"-1", "8", `offset of its numbers in another file is "-1"`}, {"0", "9", "takes 8 bytes, and 9"}, {"x", "8", `"x"`}, {"9223372036854775807", "8", "copy that file again"}} {
		fails(t, fmt.Sprint(c), file("w", c[0], c[1]), dir, c[2])
	}
	three := parts()
	for i := range 3 {
		three = append(three, parts(constantOf(part{tensorType, int(Float32)}, part{tensorDims, 2}, part{tensorName, string(rune('a' + i))}, part{tensorLocation, 1}, besideOf("location", "w")))...)
	}
	graph := append(three, parts(nodeOf("Relu", "x", "y"), part{graphInputs, parts(part{1, "x"})}, part{graphOutputs, parts(part{1, "y"})})...)
	fails(t, "overlap", parts(part{modelGraph, graph}, part{modelOpsets, parts(part{2, 17})}), dir, "longer together than the file")
	// A file that changes after it was looked at.
	m, err := Decode(file("w", "0", "8"), dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(dir, "w"), 4); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Graph.Constants["w"].Floats(); err == nil || !strings.Contains(err.Error(), "shorter") {
		t.Errorf("a file that became shorter: %v", err)
	}
}

// A long chain in the wrong order is sorted, and nodes that are in order stay.
func TestOrder(t *testing.T) {
	const n = 20000
	var list []part
	for i := n; i > 0; i-- {
		x, y := fmt.Sprint(i-1), fmt.Sprint(i)
		if i == 1 {
			x = "x"
		}
		if i == n {
			y = "y"
		}
		list = append(list, nodeOf("Relu", x, y))
	}
	m, err := Decode(modelOf(list...), "")
	if err != nil {
		t.Fatal(err)
	}
	whole(t, m)
	m, err = Decode(modelOf(nodeOf("Relu", "x", "b"), nodeOf("Relu", "x", "a"), nodeOf("Relu", "a", "c"), nodeOf("Relu", "b", "y")), "")
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"b", "a", "c", "y"} {
		if got := m.Graph.Nodes[i].Outputs[0]; got != want {
			t.Errorf("node %d makes %q, want %q", i, got, want)
		}
	}
}
