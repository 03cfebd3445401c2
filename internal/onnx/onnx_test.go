package onnx

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// fields reads a message by another program's parser: by number, each value as a number or as bytes.
func fields(t *testing.T, b []byte) (numbers map[protowire.Number][]uint64, texts map[protowire.Number][]string) {
	t.Helper()
	numbers, texts = map[protowire.Number][]uint64{}, map[protowire.Number][]string{}
	for len(b) > 0 {
		field, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			t.Fatal(protowire.ParseError(n))
		}
		b = b[n:]
		switch kind {
		case protowire.VarintType:
			v, m := protowire.ConsumeVarint(b)
			numbers[field], n = append(numbers[field], v), m
		case protowire.Fixed32Type:
			v, m := protowire.ConsumeFixed32(b)
			numbers[field], n = append(numbers[field], uint64(v)), m
		case protowire.BytesType:
			v, m := protowire.ConsumeBytes(b)
			texts[field], n = append(texts[field], string(v)), m
		default:
			t.Fatalf("field %d has wire type %d", field, kind)
		}
		if n < 0 {
			t.Fatal(protowire.ParseError(n))
		}
		b = b[n:]
	}
	return numbers, texts
}

// What is written is what onnx.proto says, field by field. That other programs run it is tested in package trained.
func TestStructure(t *testing.T) {
	g := New("small")
	x := g.Input("image", Uint8, 3, 4, 5)
	weights := []float32{1, -2, float32(math.Inf(1))}
	w := g.Floats("fc1.weight", []int{1, 3}, weights)
	y := g.Op("Gemm", []Value{g.Reshape(g.Cast(x, Float32), 60), w}, Int("transB", 1), Float("alpha", .5), String("mode", "reflect"), Ints("pads", 0, -1, 300))
	g.Output("logits", y, 1)
	var file, again bytes.Buffer
	if err := g.Write(&file, "privgrad", "v1", map[string]string{"model": "small", "classes": "[]"}); err != nil {
		t.Fatal(err)
	}
	if err := g.Write(&again, "privgrad", "v1", map[string]string{"classes": "[]", "model": "small"}); err != nil || !bytes.Equal(file.Bytes(), again.Bytes()) {
		t.Error("equal graphs give other bytes")
	}

	numbers, texts := fields(t, file.Bytes())
	if numbers[1][0] != 8 || texts[2][0] != "privgrad" || texts[3][0] != "v1" || len(texts[14]) != 2 {
		t.Errorf("the model says %v, %q", numbers, texts)
	}
	if n, s := fields(t, []byte(texts[8][0])); n[2][0] != 17 || s[1][0] != "" {
		t.Errorf("operators %v, %q", n, s)
	}
	if _, s := fields(t, []byte(texts[14][0])); s[1][0] != "classes" || s[2][0] != "[]" {
		t.Errorf("metadata %q", s)
	}

	_, graph := fields(t, []byte(texts[7][0]))
	if graph[2][0] != "small" || len(graph[1]) != 4 || len(graph[5]) != 2 || len(graph[11]) != 1 || len(graph[12]) != 1 {
		t.Fatalf("the graph has %d operations, %d constants", len(graph[1]), len(graph[5]))
	}
	made := map[string]bool{"image": true}
	for _, c := range graph[5] {
		_, s := fields(t, []byte(c))
		made[s[8][0]] = true
	}
	var kinds []string
	for _, op := range graph[1] { // each reads what is there before it
		_, s := fields(t, []byte(op))
		for _, in := range s[1] {
			if !made[in] {
				t.Errorf("%s reads %s before it is made", s[4][0], in)
			}
		}
		if made[s[2][0]] {
			t.Errorf("%s is made twice", s[2][0])
		}
		made[s[2][0]] = true
		kinds = append(kinds, s[4][0])
	}
	if !slices.Equal(kinds, []string{"Cast", "Reshape", "Gemm", "Identity"}) || !made["logits"] {
		t.Errorf("operations %q", kinds)
	}

	n, s := fields(t, []byte(graph[5][0]))
	raw := []byte(s[9][0])
	if s[8][0] != "fc1.weight" || !slices.Equal(n[1], []uint64{1, 3}) || n[2][0] != 1 || len(raw) != 12 {
		t.Errorf("a constant is %v, %q", n, s)
	}
	for i, want := range weights {
		if got := math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:])); got != want {
			t.Errorf("value %d is %v, want %v", i, got, want)
		}
	}
	attributes := map[string][2]any{}
	_, gemm := fields(t, []byte(graph[1][2]))
	for _, a := range gemm[5] {
		n, s := fields(t, []byte(a))
		attributes[s[1][0]] = [2]any{n, s}
	}
	number := func(name string, field protowire.Number) []uint64 {
		return attributes[name][0].(map[protowire.Number][]uint64)[field]
	}
	minusOne := int64(-1)
	if number("transB", 3)[0] != 1 || number("transB", 20)[0] != 2 ||
		math.Float32frombits(uint32(number("alpha", 2)[0])) != .5 || number("alpha", 20)[0] != 1 ||
		attributes["mode"][1].(map[protowire.Number][]string)[4][0] != "reflect" || number("mode", 20)[0] != 3 ||
		!slices.Equal(number("pads", 8), []uint64{0, uint64(minusOne), 300}) || number("pads", 20)[0] != 7 {
		t.Errorf("attributes %v", attributes)
	}

	_, declared := fields(t, []byte(graph[11][0]))
	_, kind := fields(t, []byte(declared[2][0]))
	element, shape := fields(t, []byte(kind[1][0]))
	_, dims := fields(t, []byte(shape[2][0]))
	if declared[1][0] != "image" || element[1][0] != uint64(Uint8) || len(dims[1]) != 4 {
		t.Fatalf("the input is %q", declared)
	}
	if _, s := fields(t, []byte(dims[1][0])); s[2][0] != "N" {
		t.Errorf("the batch is %q", s)
	}
	for i, want := range []uint64{3, 4, 5} {
		if n, _ := fields(t, []byte(dims[1][i+1])); n[1][0] != want {
			t.Errorf("axis %d is %v", i+1, n)
		}
	}
}
