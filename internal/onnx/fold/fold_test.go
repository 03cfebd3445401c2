package fold

import (
	"fmt"
	"testing"

	"github.com/privgrad/privgrad/internal/onnx/file"
)

func list(v ...int64) *Constant {
	return Of(file.IntTensor("list", []int{len(v)}, v), "list")
}

func matrix(rows, cols int, v ...float32) *Constant {
	return Of(file.FloatTensor("matrix", []int{rows, cols}, v), "matrix")
}

func ints(name string, v ...int64) map[string]file.Attribute {
	return map[string]file.Attribute{name: {Type: file.IsInts, Ints: v}}
}

func number(name string, v int64) map[string]file.Attribute {
	return map[string]file.Attribute{name: {Type: file.IsInt, Int: v}}
}

// Every kind that is folded gives what the standard says. The number of records is N.
func TestNode(t *testing.T) {
	records := Numbers([]int{3}, []Dim{{0, 1}, {N: 6}, {N: 4}}) // of a shape
	n := Numbers([]int{}, []Dim{{0, 1}})
	m := matrix(2, 3, 1, 2, 3, 4, 5, 6)
	for _, c := range []struct {
		kind     string
		settings map[string]file.Attribute
		in       []*Constant
		want     string
	}{
		{"Shape", nil, []*Constant{m}, "[2] [2 3]"},
		{"Shape", number("start", -1), []*Constant{m}, "[1] [3]"},
		{"Gather", nil, []*Constant{records, list(0, -1)}, "[2] [N 4]"},
		{"Slice", nil, []*Constant{records, list(1), list(1 << 62)}, "[2] [6 4]"},
		{"Slice", nil, []*Constant{records, list(-1), list(-1 << 62), list(0), list(-1)}, "[3] [4 6 N]"},
		{"Slice", nil, []*Constant{m, list(1), list(3), list(1)}, "[2 2] [2 3 5 6]"},
		{"Slice", nil, []*Constant{m, list(0), list(3), list(-1), list(2)}, "[2 2] [1 3 4 6]"},
		{"Concat", number("axis", 0), []*Constant{records, list(7)}, "[4] [N 6 4 7]"},
		{"Mul", nil, []*Constant{records, list(2)}, "[3] [2·N+0 12 8]"},
		{"Add", nil, []*Constant{n, list(5)}, "[1] [1·N+5]"},
		{"Sub", nil, []*Constant{list(5), list(7)}, "[1] [-2]"},
		{"Div", nil, []*Constant{records, list(2)}, "error computes with the number of records, or with numbers that are too large"},
		{"Mul", nil, []*Constant{records, records}, "error computes with the number of records, or with numbers that are too large"},
		{"Div", nil, []*Constant{m, matrix(1, 1, 2)}, "[2 3] [0.5 1 1.5 2 2.5 3]"},
		{"Transpose", nil, []*Constant{m}, "[3 2] [1 4 2 5 3 6]"},
		{"Transpose", ints("perm", 0, 1), []*Constant{m}, "[2 3] [1 2 3 4 5 6]"},
		{"Reshape", nil, []*Constant{m, list(-1, 2)}, "[3 2] [1 2 3 4 5 6]"},
		{"Reshape", nil, []*Constant{m, list(0, 1, -1)}, "[2 1 3] [1 2 3 4 5 6]"},
		{"Reshape", nil, []*Constant{m, list(4, -1)}, "error gives a constant a shape of another size"},
		{"Unsqueeze", nil, []*Constant{m, list(-1, 0)}, "[1 2 3 1] [1 2 3 4 5 6]"},
		{"Squeeze", nil, []*Constant{matrix(1, 2, 1, 2)}, "[2] [1 2]"},
		{"Squeeze", ints("axes", 0), []*Constant{m}, "error gives a constant a shape of another size"},
		{"Range", nil, []*Constant{Numbers([]int{}, []Dim{{N: 1}}), Numbers([]int{}, []Dim{{N: 6}}), Numbers([]int{}, []Dim{{N: 2}})}, "[3] [1 3 5]"},
		{"ConstantOfShape", nil, []*Constant{list(2, 2)}, "[2 2] [0 0 0 0]"},
		{"Expand", nil, []*Constant{matrix(1, 1, 7), list(3)}, "[3] [7 7 7]"},
		{"ConstantOfShape", nil, []*Constant{list(1 << 20)}, "error computes constants of more elements than the file holds"},
		{"Cast", number("to", int64(file.Int64)), []*Constant{matrix(1, 2, 1.5, -2)}, "[1 2] [1 -2]"},
		{"Cast", number("to", int64(file.Float32)), []*Constant{list(3)}, "[1] [3]"},
		{"Cast", number("to", int64(file.Float32)), []*Constant{records}, "error computes with the number of records as a floating-point number"},
		{"Resize", nil, []*Constant{m}, "error computes a constant by an operation that is not folded here"},
		{"Gather", nil, []*Constant{records, list(3)}, "error picks an element that is not there"},
		{"Add", nil, []*Constant{m}, "error misses an input"},
	} {
		f := Folder{Left: 100}
		got := ""
		k, err := f.Node(&file.Node{Kind: c.kind, Attributes: c.settings}, c.in)
		switch {
		case err != nil:
			got = "error " + err.(*Error).Reason
		case k.Read() != nil:
			t.Error(k.Read())
		case k.Whole:
			got = fmt.Sprint(k.Shape, " ", Words(k.Dims))
		default:
			values, _ := k.Floats()
			got = fmt.Sprint(k.Shape, " ", values)
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.kind, got, c.want)
		}
	}
}

// A constant repeats along a record from its last axis.
func TestAlong(t *testing.T) {
	k := matrix(2, 1, 5, 6)
	if err := k.Read(); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(k.Along([]int{2, 2, 3})); got != "[5 5 5 6 6 6 5 5 5 6 6 6]" {
		t.Errorf("it repeats as %s", got)
	}
}
