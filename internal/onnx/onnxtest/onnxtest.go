// Package onnxtest runs exported networks in tests, where there is no ONNX Runtime: it reads files of the ONNX format by another
// program's parser, and computes their operations one value after the other, in float64. It knows the operations of networks
// and those of front ends.
package onnxtest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// A tensor has its last index vary fastest.
type tensor struct {
	shape []int
	data  []float64
}

func size(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// Numbers of element types.
const (
	float32s = 1
	int64s   = 7
)

// A message has the values of its fields, by number.
type message struct {
	numbers map[protowire.Number][]uint64
	texts   map[protowire.Number][]string
}

func parse(text string) (message, error) {
	m := message{map[protowire.Number][]uint64{}, map[protowire.Number][]string{}}
	for b := []byte(text); len(b) > 0; {
		field, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return m, protowire.ParseError(n)
		}
		b = b[n:]
		switch kind {
		case protowire.VarintType:
			var v uint64
			v, n = protowire.ConsumeVarint(b)
			m.numbers[field] = append(m.numbers[field], v)
		case protowire.Fixed32Type:
			var v uint32
			v, n = protowire.ConsumeFixed32(b)
			m.numbers[field] = append(m.numbers[field], uint64(v))
		case protowire.BytesType:
			var v []byte
			v, n = protowire.ConsumeBytes(b)
			m.texts[field] = append(m.texts[field], string(v))
		default:
			return m, fmt.Errorf("field %d has wire type %d", field, kind)
		}
		if n < 0 {
			return m, protowire.ParseError(n)
		}
		b = b[n:]
	}
	return m, nil
}

// at is the message in a field.
func (m message) at(field protowire.Number) (message, error) {
	if len(m.texts[field]) != 1 {
		return message{}, fmt.Errorf("field %d is there %d times", field, len(m.texts[field]))
	}
	return parse(m.texts[field][0])
}

// Run gives what the only output of a file's network, which it names, has for some records.
func Run(file []byte, records []float64) (input, output string, values []float64, err error) {
	model, err := parse(string(file))
	if err != nil {
		return "", "", nil, err
	}
	graph, err := model.at(7)
	if err != nil {
		return "", "", nil, err
	}
	input, shape, err := declared(graph, 11)
	if err != nil {
		return "", "", nil, err
	}
	output, _, err = declared(graph, 12)
	if err != nil {
		return "", "", nil, err
	}
	all, err := constants(graph)
	if err != nil {
		return "", "", nil, err
	}
	shape[0] = len(records) / size(shape[1:])
	all[input] = tensor{shape, records}
	for _, text := range graph.texts[1] {
		if err := run(text, all); err != nil {
			return "", "", nil, err
		}
	}
	return input, output, all[output].data, nil
}

// declared is the name and the shape of a graph's only input or output. The length of axis 0 is open.
func declared(graph message, field protowire.Number) (name string, shape []int, err error) {
	value, err := graph.at(field)
	if err != nil {
		return "", nil, err
	}
	m := value
	for _, field := range []protowire.Number{2, 1, 2} { // type, tensor, shape
		if m, err = m.at(field); err != nil {
			return "", nil, err
		}
	}
	for _, text := range m.texts[1] {
		d, err := parse(text)
		if err != nil {
			return "", nil, err
		}
		n := 0
		if len(d.numbers[1]) > 0 {
			n = int(d.numbers[1][0])
		}
		shape = append(shape, n)
	}
	return value.texts[1][0], shape, nil
}

func constants(graph message) (map[string]tensor, error) {
	all := map[string]tensor{}
	for _, text := range graph.texts[5] {
		m, err := parse(text)
		if err != nil {
			return nil, err
		}
		t, raw := tensor{}, []byte(m.texts[9][0])
		for _, n := range m.numbers[1] {
			t.shape = append(t.shape, int(n))
		}
		switch m.numbers[2][0] {
		case float32s:
			for ; len(raw) > 0; raw = raw[4:] {
				t.data = append(t.data, float64(math.Float32frombits(binary.LittleEndian.Uint32(raw))))
			}
		case int64s:
			for ; len(raw) > 0; raw = raw[8:] {
				t.data = append(t.data, float64(int64(binary.LittleEndian.Uint64(raw))))
			}
		default:
			return nil, fmt.Errorf("a constant has type %d", m.numbers[2][0])
		}
		if len(t.data) != size(t.shape) {
			return nil, fmt.Errorf("a constant of shape %v has %d values", t.shape, len(t.data))
		}
		all[m.texts[8][0]] = t
	}
	return all, nil
}

// A node is an operation with its inputs and settings.
type node struct {
	kind    string
	in      []tensor
	setting map[string]message
}

// run computes an operation, and keeps its output.
func run(text string, all map[string]tensor) error {
	m, err := parse(text)
	if err != nil {
		return err
	}
	n := node{kind: m.texts[4][0], setting: map[string]message{}}
	for _, name := range m.texts[1] {
		t, ok := all[name]
		if !ok {
			return fmt.Errorf("%s reads %s before it is made", n.kind, name)
		}
		n.in = append(n.in, t)
	}
	for _, text := range m.texts[5] {
		a, err := parse(text)
		if err != nil {
			return err
		}
		n.setting[a.texts[1][0]] = a
	}
	compute := operations[n.kind]
	if compute == nil {
		return errors.New("there is no operation " + n.kind)
	}
	all[m.texts[2][0]] = compute(n)
	return nil
}

func (n node) float(name string) float64 {
	return float64(math.Float32frombits(uint32(n.setting[name].numbers[2][0])))
}

// ints are the numbers of a setting; of one that is left out, as many of the default.
func (n node) ints(name string, count, standard int) (all []int) {
	for _, v := range n.setting[name].numbers[8] {
		all = append(all, int(int64(v)))
	}
	if all == nil {
		all = slices.Repeat([]int{standard}, count)
	}
	return all
}

var operations map[string]func(n node) tensor

func init() {
	same := func(n node) tensor { return n.in[0] }
	operations = map[string]func(n node) tensor{
		"Identity": same, "Reshape": reshape, "Unsqueeze": unsqueeze,
		"Gemm": gemm, "Conv": conv, "MaxPool": pool, "AveragePool": pool, "InstanceNormalization": normalize,
		"Add": pairwise(func(x, y float64) float64 { return x + y }), "Mul": pairwise(func(x, y float64) float64 { return x * y }),
		"Div": pairwise(func(x, y float64) float64 { return x / y }), "Max": pairwise(math.Max),
		"Relu": each(func(_ node, x float64) float64 { return math.Max(x, 0) }), "Tanh": each(func(_ node, x float64) float64 { return math.Tanh(x) }),
		"Sigmoid": each(func(_ node, x float64) float64 { return 1 / (1 + math.Exp(-x)) }),
		"LeakyRelu": each(func(n node, x float64) float64 {
			if x < 0 {
				x *= n.float("alpha")
			}
			return x
		}),
	}
	maps.Copy(operations, more())
}

func each(f func(n node, x float64) float64) func(n node) tensor {
	return func(n node) tensor {
		out := tensor{n.in[0].shape, make([]float64, len(n.in[0].data))}
		for i, x := range n.in[0].data {
			out.data[i] = f(n, x)
		}
		return out
	}
}

// pairwise has an axis that one of two tensors lacks, or that has length 1 there, repeat.
func pairwise(f func(x, y float64) float64) func(n node) tensor {
	return func(n node) tensor {
		x, y := n.in[0], n.in[1]
		rank := max(len(x.shape), len(y.shape))
		a, b := padded(x.shape, rank), padded(y.shape, rank)
		out := tensor{shape: make([]int, rank)}
		for i := range a {
			out.shape[i] = max(a[i], b[i])
		}
		out.data = make([]float64, size(out.shape))
		for i := range out.data {
			at := func(shape []int) (place int) {
				rest, stride := i, 1
				for k := rank - 1; k >= 0; k-- {
					if shape[k] > 1 {
						place += rest % out.shape[k] * stride
						stride *= shape[k]
					}
					rest /= out.shape[k]
				}
				return place
			}
			out.data[i] = f(x.data[at(a)], y.data[at(b)])
		}
		return out
	}
}

func padded(shape []int, rank int) []int {
	return append(slices.Repeat([]int{1}, rank-len(shape)), shape...)
}

func reshape(n node) tensor {
	out := tensor{data: n.in[0].data}
	for _, d := range n.in[1].data {
		out.shape = append(out.shape, int(d))
	}
	if open := slices.Index(out.shape, -1); open >= 0 {
		out.shape[open] = 1
		out.shape[open] = len(out.data) / size(out.shape)
	}
	return out
}

func unsqueeze(n node) tensor {
	return tensor{slices.Insert(slices.Clone(n.in[0].shape), int(n.in[1].data[0]), 1), n.in[0].data}
}

// gemm is of weights (out, in).
func gemm(n node) tensor {
	x, w := n.in[0], n.in[1]
	rows, in, outs := x.shape[0], x.shape[1], w.shape[0]
	out := tensor{[]int{rows, outs}, make([]float64, rows*outs)}
	for i := range rows {
		for j := range outs {
			sum := 0.0
			for k, v := range x.data[i*in:][:in] {
				sum += v * w.data[j*in+k]
			}
			if len(n.in) > 2 {
				sum += n.in[2].data[j]
			}
			out.data[i*outs+j] = sum
		}
	}
	return out
}

// A window moves over an image with pads around it.
type window struct {
	kernel, stride, pad, dilation []int
	height, width                 int // of the image
	outHeight, outWidth           int
}

func (n node) window(kernel []int) window {
	x := n.in[0].shape
	w := window{kernel: kernel, stride: n.ints("strides", 2, 1), pad: n.ints("pads", 4, 0), dilation: n.ints("dilations", 2, 1), height: x[2], width: x[3]}
	out := func(length, axis int) int {
		return (length+w.pad[axis]+w.pad[axis+2]-w.dilation[axis]*(kernel[axis]-1)-1)/w.stride[axis] + 1
	}
	w.outHeight, w.outWidth = out(w.height, 0), out(w.width, 1)
	return w
}

// visit calls f for each place of the window at (row, column) that is in the image: its place in the window, and there.
func (w window) visit(row, column int, f func(inWindow, inImage int)) {
	for i := range w.kernel[0] {
		for j := range w.kernel[1] {
			y, x := row*w.stride[0]-w.pad[0]+i*w.dilation[0], column*w.stride[1]-w.pad[1]+j*w.dilation[1]
			if y >= 0 && y < w.height && x >= 0 && x < w.width {
				f(i*w.kernel[1]+j, y*w.width+x)
			}
		}
	}
}

func conv(n node) tensor {
	x, k := n.in[0], n.in[1]
	w := n.window(k.shape[2:])
	records, in, outs, image, patch, places := x.shape[0], x.shape[1], k.shape[0], w.height*w.width, size(k.shape[2:]), w.outHeight*w.outWidth
	out := tensor{[]int{records, outs, w.outHeight, w.outWidth}, make([]float64, records*outs*places)}
	for plane := range records * outs {
		r, o, sums := plane/outs, plane%outs, out.data[plane*places:][:places]
		for i := range sums {
			if len(n.in) > 2 {
				sums[i] = n.in[2].data[o]
			}
		}
		for i := range in * patch {
			w.shift(sums, x.data[(r*in+i/patch)*image:][:image], k.data[o*in*patch+i], i%patch)
		}
	}
	return out
}

// shift adds to sums a place of the window, times its weight.
func (w window) shift(sums, image []float64, weight float64, place int) {
	left, stride := place%w.kernel[1]*w.dilation[1]-w.pad[1], w.stride[1]
	first, end := 0, w.outWidth // columns that read the image
	for first < end && first*stride+left < 0 {
		first++
	}
	for first < end && (end-1)*stride+left >= w.width {
		end--
	}
	if first == end {
		return
	}
	for row := range w.outHeight {
		y := row*w.stride[0] - w.pad[0] + place/w.kernel[1]*w.dilation[0]
		if y < 0 || y >= w.height {
			continue
		}
		line, to := image[y*w.width+first*stride+left:], sums[row*w.outWidth:][first:end]
		if stride == 1 {
			for i, v := range line[:len(to)] {
				to[i] += weight * v
			}
			continue
		}
		for i := range to {
			to[i] += weight * line[i*stride]
		}
	}
}

// pool takes the largest value of a window, or the mean with zeros for the pads.
func pool(n node) tensor {
	x := n.in[0]
	w := n.window(n.ints("kernel_shape", 2, 1))
	image := w.height * w.width
	out := tensor{shape: []int{x.shape[0], x.shape[1], w.outHeight, w.outWidth}}
	for plane := range x.shape[0] * x.shape[1] {
		for row := range w.outHeight {
			for column := range w.outWidth {
				sum, most := 0.0, math.Inf(-1)
				w.visit(row, column, func(_, inImage int) {
					v := x.data[plane*image+inImage]
					sum, most = sum+v, math.Max(most, v)
				})
				if n.kind == "AveragePool" {
					most = sum / float64(size(w.kernel))
				}
				out.data = append(out.data, most)
			}
		}
	}
	return out
}

// normalize is over all axes behind the second.
func normalize(n node) tensor {
	x := n.in[0]
	channels, width := x.shape[1], size(x.shape[2:])
	out := tensor{x.shape, make([]float64, len(x.data))}
	for at := 0; at < len(x.data); at += width {
		channel := at / width % channels
		mean, variance := 0.0, 0.0
		for _, v := range x.data[at : at+width] {
			mean += v / float64(width)
		}
		for _, v := range x.data[at : at+width] {
			variance += (v - mean) * (v - mean) / float64(width)
		}
		for i, v := range x.data[at : at+width] {
			out.data[at+i] = (v-mean)/math.Sqrt(variance+n.float("epsilon"))*n.in[1].data[channel] + n.in[2].data[channel]
		}
	}
	return out
}
