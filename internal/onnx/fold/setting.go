package fold

import (
	"slices"

	"github.com/privgrad/privgrad/internal/onnx/file"
)

// Int, Float and Ints are attributes of a node; where it does not have one, usual, or false.
func Int(n *file.Node, name string, usual int) int {
	if a, ok := n.Attributes[name]; ok && a.Type == file.IsInt {
		return int(a.Int)
	}
	return usual
}

func Float(n *file.Node, name string, usual float32) float32 {
	if a, ok := n.Attributes[name]; ok && a.Type == file.IsFloat {
		return a.Float
	}
	return usual
}

func Ints(n *file.Node, name string) ([]int, bool) {
	a, ok := n.Attributes[name]
	if !ok || a.Type != file.IsInts {
		return nil, false
	}
	list := make([]int, len(a.Ints))
	for i, v := range a.Ints {
		list[i] = int(v)
	}
	return list, true
}

// An Error says what is wrong with a node's numbers, and what to do.
type Error struct{ Reason, Do string }

func (e *Error) Error() string { return e.Reason + "; " + e.Do }

// What to do.
const (
	exportAgain = "export the network again"
	fixedSizes  = "export the network again with fixed sizes"
	simplify    = "simplify the graph, for example with onnxsim, and export the network again"
)

// Whole are the numbers of a constant of whole ones, none of which depends on the number of records; what says which constant it is.
func Whole(k *Constant, what string) ([]int, error) {
	if k == nil || !k.Whole {
		return nil, &Error{"needs " + what + " as a constant of whole numbers", fixedSizes}
	}
	if err := k.Read(); err != nil {
		return nil, &Error{err.Error(), exportAgain}
	}
	list := make([]int, len(k.Dims))
	for i, d := range k.Dims {
		if d.Records != 0 {
			return nil, &Error{"has a setting, " + what + ", that depends on the number of records", "keep records along axis 0 from the input to the output, each by itself"}
		}
		list[i] = int(d.N)
	}
	return list, nil
}

// Axes are those that a node names in an attribute or, without one, in a constant, among so many; usual where it names none.
func Axes(n *file.Node, k *Constant, rank int, usual []int) ([]int, error) {
	list, ok := Ints(n, "axes")
	if !ok && k != nil {
		var err error
		if list, err = Whole(k, "its axes"); err != nil {
			return nil, err
		}
		ok = len(list) > 0
	}
	if !ok {
		return usual, nil
	}
	out := make([]int, len(list))
	for i, a := range list {
		if out[i] = a; a < 0 {
			out[i] += rank
		}
		if out[i] < 0 || out[i] >= rank || slices.Contains(out[:i], out[i]) {
			return nil, &Error{"names an axis that is not there, or one twice", exportAgain}
		}
	}
	return out, nil
}

// Order is that of the axes behind a Transpose of so many.
func Order(n *file.Node, rank int) ([]int, error) {
	order, ok := Ints(n, "perm")
	if !ok {
		order = UpTo(rank)
		slices.Reverse(order)
	}
	if !slices.Equal(slices.Sorted(slices.Values(order)), UpTo(rank)) {
		return nil, &Error{"moves axes to places that are not there", exportAgain}
	}
	return order, nil
}

// UpTo lists the numbers from 0 to n−1.
func UpTo(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}
