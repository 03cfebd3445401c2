package onnxtest

import (
	"math"

	"github.com/privgrad/privgrad/internal/half"
)

// more are the operations that front ends and newer layers need besides.
func more() map[string]func(n node) tensor {
	return map[string]func(n node) tensor{
		"Cast": cast, "Concat": concat, "Gather": gather, "Pad": reflect, "GridSample": gridSample, "MatMul": matMul, "LayerNormalization": layerNorm,
		"Sub": pairwise(func(x, y float64) float64 { return x - y }), "Sqrt": each(func(_ node, x float64) float64 { return math.Sqrt(x) }),
		"Erf":       each(func(_ node, x float64) float64 { return math.Erf(x) }),
		"ReduceSum": reduce(func(x float64) float64 { return x }, func(x float64) float64 { return x }),
		"ReduceL2":  reduce(square, math.Sqrt), "ReduceSumSquare": reduce(square, func(x float64) float64 { return x }),
	}
}

func square(x float64) float64 { return x * x }

// int is a number of a setting, or its default.
func (n node) int(name string, standard int) int {
	if m, ok := n.setting[name]; ok {
		return int(int64(m.numbers[3][0]))
	}
	return standard
}

// sides are the elements before, along and behind an axis.
func sides(shape []int, axis int) (before, along, behind int) {
	return size(shape[:axis]), shape[axis], size(shape[axis+1:])
}

// cast rounds to half precision, which is the only type but float32 that a file asks for.
func cast(n node) tensor {
	const float16 = 10
	if n.int("to", 0) != float16 {
		return n.in[0]
	}
	return each(func(_ node, x float64) float64 { return float64(half.ToFloat32(half.FromFloat32(float32(x)))) })(n)
}

func concat(n node) tensor {
	axis := n.int("axis", 0)
	out := tensor{shape: append([]int(nil), n.in[0].shape...)}
	out.shape[axis] = 0
	for _, x := range n.in {
		out.shape[axis] += x.shape[axis]
	}
	for b := range size(out.shape[:axis]) {
		for _, x := range n.in {
			stretch := size(x.shape[axis:])
			out.data = append(out.data, x.data[b*stretch:(b+1)*stretch]...)
		}
	}
	return out
}

func gather(n node) tensor {
	x, axis := n.in[0], n.int("axis", 0)
	before, along, behind := sides(x.shape, axis)
	out := tensor{shape: append([]int(nil), x.shape...)}
	out.shape[axis] = len(n.in[1].data)
	for b := range before {
		for _, i := range n.in[1].data {
			at := (b*along + int(i)) * behind
			out.data = append(out.data, x.data[at:at+behind]...)
		}
	}
	return out
}

// reflect pads images by their mirror images.
func reflect(n node) tensor {
	x, pads := n.in[0], n.in[1].data
	height, width := x.shape[2], x.shape[3]
	top, left, bottom, right := int(pads[2]), int(pads[3]), int(pads[6]), int(pads[7])
	out := tensor{shape: []int{x.shape[0], x.shape[1], top + height + bottom, left + width + right}}
	mirrored := func(i, n int) int {
		i = max(i, -i)
		return min(i, 2*(n-1)-i)
	}
	for plane := range x.shape[0] * x.shape[1] {
		for row := range out.shape[2] {
			for column := range out.shape[3] {
				out.data = append(out.data, x.data[(plane*height+mirrored(row-top, height))*width+mirrored(column-left, width)])
			}
		}
	}
	return out
}

// reduce is a function of the sum of squares along the only axis that is named.
func reduce(each, f func(x float64) float64) func(n node) tensor {
	return func(n node) tensor {
		x, axis := n.in[0], n.ints("axes", 1, 0)[0]
		if len(n.in) > 1 { // as in newer versions of an operation
			axis = int(n.in[1].data[0])
		}
		before, along, behind := sides(x.shape, axis)
		out := tensor{append([]int(nil), x.shape...), make([]float64, before*behind)}
		if out.shape[axis] = 1; n.int("keepdims", 1) == 0 {
			out.shape = append(out.shape[:axis], out.shape[axis+1:]...)
		}
		for i, v := range x.data {
			out.data[i/(along*behind)*behind+i%behind] += each(v)
		}
		for i, v := range out.data {
			out.data[i] = f(v)
		}
		return out
	}
}

// matMul is of two matrices.
func matMul(n node) tensor {
	x, w := n.in[0], n.in[1]
	rows, in, outs := x.shape[0], x.shape[1], w.shape[1]
	out := tensor{[]int{rows, outs}, make([]float64, rows*outs)}
	for i := range rows {
		for k, v := range x.data[i*in : (i+1)*in] {
			for j := range outs {
				out.data[i*outs+j] += v * w.data[k*outs+j]
			}
		}
	}
	return out
}

// layerNorm is along the last axis.
func layerNorm(n node) tensor {
	x := n.in[0]
	width := x.shape[len(x.shape)-1]
	out := tensor{x.shape, make([]float64, len(x.data))}
	for at := 0; at < len(x.data); at += width {
		mean, variance := 0.0, 0.0
		for _, v := range x.data[at : at+width] {
			mean += v / float64(width)
		}
		for _, v := range x.data[at : at+width] {
			variance += (v - mean) * (v - mean) / float64(width)
		}
		for i, v := range x.data[at : at+width] {
			if out.data[at+i] = (v - mean) / math.Sqrt(variance+n.float("epsilon")) * n.in[1].data[i]; len(n.in) > 2 {
				out.data[at+i] += n.in[2].data[i]
			}
		}
	}
	return out
}

// gridSample interpolates between four pixels at places from −1 to 1, the middles of the first and of the last one, with zeros
// outside.
func gridSample(n node) tensor {
	x, grid := n.in[0], n.in[1]
	height, width, rows, columns := x.shape[2], x.shape[3], grid.shape[1], grid.shape[2]
	out := tensor{shape: []int{x.shape[0], x.shape[1], rows, columns}}
	for plane := range x.shape[0] * x.shape[1] {
		for i := range rows * columns {
			at := grid.data[(plane/x.shape[1]*rows*columns+i)*2:]
			across, down := (at[0]+1)/2*float64(width-1), (at[1]+1)/2*float64(height-1)
			sum := 0.0
			for k := range 4 {
				column, row := math.Floor(across)+float64(k%2), math.Floor(down)+float64(k/2)
				if row >= 0 && row < float64(height) && column >= 0 && column < float64(width) {
					share := (1 - math.Abs(across-column)) * (1 - math.Abs(down-row))
					sum += share * x.data[(plane*height+int(row))*width+int(column)]
				}
			}
			out.data = append(out.data, sum)
		}
	}
	return out
}
