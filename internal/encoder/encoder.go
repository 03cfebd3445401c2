// Package encoder is a convolutional network of fixed weights that makes image features. Each layer has 3×3 filters with a
// border of zeros, into which batch normalization is folded, and a ReLU. Features are channels of two layers, averaged over four cells.
package encoder

import (
	"fmt"
	"slices"

	"github.com/privgrad/privgrad/internal/cpu/gemm"
	"github.com/privgrad/privgrad/internal/cpu/vec"
	"github.com/privgrad/privgrad/internal/fixed"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/patches"
)

// layers are channels and the stride of each layer, as scripts/encoder.py has them.
var layers = []layer{{3, 32, 1}, {32, 64, 2}, {64, 64, 1}, {64, 128, 2}, {128, 128, 1}, {128, 256, 2}, {256, 256, 1}}

type layer struct{ in, out, stride int }

// read are the layers, from 0, whose channels are features.
var read = []int{4, 6}

const side = 3 // pixels of a filter, each way

// Least is the smallest side of an image, in pixels.
const Least = 16

// Colors is the number of channels of an image, Channels the number of features of each cell.
var Colors, Channels = layers[0].in, width()

func width() (n int) {
	for _, i := range read {
		n += layers[i].out
	}
	return n
}

// Shapes lists the weights and biases by name.
func Shapes() map[string][]int {
	all := map[string][]int{}
	for i, l := range layers {
		all[weight(i)], all[bias(i)] = []int{l.out, l.in, side, side}, []int{l.out}
	}
	return all
}

func weight(layer int) string { return fmt.Sprintf("conv%d.weight", layer+1) }
func bias(layer int) string   { return fmt.Sprintf("conv%d.bias", layer+1) }

// A Network is the encoder on images of one shape.
type Network struct {
	mirror bool
	layers []openLayer
}

// An openLayer has its filters packed, for values of a place next to each other.
type openLayer struct {
	layer
	rows, cols       int // of what it reads
	outRows, outCols int
	filters          gemm.PackedB
	bias             []float32
}

// New packs the weights and biases of Shapes for images of a shape. With mirror, features are means of an image's and its mirror image's.
func New(shape [3]int, mirror bool, constants map[string][]float32) *Network {
	n, rows, cols := &Network{mirror: mirror, layers: make([]openLayer, len(layers))}, shape[1], shape[2]
	for i, l := range layers {
		o := &n.layers[i]
		*o = openLayer{layer: l, rows: rows, cols: cols, bias: constants[bias(i)]}
		o.outRows, o.outCols = l.window().Out(rows, cols)
		const taps = side * side
		turned := gemm.RowMajor(make([]float32, taps*l.in*l.out), taps*l.in, l.out)
		for k, v := range constants[weight(i)] {
			out, in, tap := k/(l.in*taps), k/taps%l.in, k%taps
			turned.Data[(tap*l.in+in)*l.out+out] = v
		}
		gemm.PackB(&o.filters, turned)
		rows, cols = o.outRows, o.outCols
	}
	return n
}

func (l layer) window() ir.Window { return ir.Square(side, l.stride, 1) }

// Worker gives a function for one goroutine. An image and its mirror image go through each layer together: then filters are
// read once.
func (n *Network) Worker() func(dst, image []float32) {
	images, most, columns := 1, 0, 0
	if n.mirror {
		images = 2
	}
	for i := range n.layers {
		l := &n.layers[i]
		most = max(most, l.rows*l.cols*l.in, l.outRows*l.outCols*l.out)
		columns = max(columns, images*l.outRows*l.outCols*side*side*l.in)
	}
	x, y, space := make([]float32, images*most), make([]float32, images*most), make([]float32, columns)
	var packed gemm.PackedA
	return func(dst, image []float32) {
		n.lay(x, image)
		clear(dst)
		channel := 0
		for i := range n.layers {
			l := &n.layers[i]
			positions := l.outRows * l.outCols
			size, taps := l.rows*l.cols*l.in, side*side*l.in
			for k := range images {
				l.columns(space[k*positions*taps:][:positions*taps], x[k*size:][:size])
			}
			positions *= images
			gemm.PackA(&packed, gemm.RowMajor(space[:positions*taps], positions, taps))
			out := y[:positions*l.out]
			for o := range positions {
				copy(out[o*l.out:], l.bias)
			}
			gemm.MulPacked(gemm.RowMajor(out, positions, l.out), &packed, &l.filters, true)
			vec.ReLU(out, out)
			if slices.Contains(read, i) {
				for image := range slices.Chunk(out, len(out)/images) {
					l.average(dst[channel:], image, 1/float32(images))
				}
				channel += l.out
			}
			x, y = y, x
		}
	}
}

// lay writes what the first layer reads: the image place by place, then its mirror image.
func (n *Network) lay(dst, image []float32) {
	l := &n.layers[0]
	size := l.rows * l.cols
	for i := range size {
		for c := range l.in {
			v := (image[c*size+i] - .5) * 4
			dst[i*l.in+c] = v
			if n.mirror {
				dst[(size+i+l.cols-1-2*(i%l.cols))*l.in+c] = v
			}
		}
	}
}

// columns writes what the filters read at every place, a row a place.
func (l *openLayer) columns(dst, x []float32) {
	for oy := range l.outRows {
		for ox := range l.outCols {
			for ky := range side {
				// The taps of one row of a filter are neighbours.
				y, from, to := oy*l.stride+ky-1, ox*l.stride-1, ox*l.stride+side-1
				line := dst[:side*l.in]
				dst = dst[side*l.in:]
				if y < 0 || y >= l.rows {
					clear(line)
					continue
				}
				left, right := max(from, 0), min(to, l.cols)
				clear(line[:(left-from)*l.in])
				copy(line[(left-from)*l.in:], x[(y*l.cols+left)*l.in:(y*l.cols+right)*l.in])
				clear(line[(right-from)*l.in:])
			}
		}
	}
}

// average adds means over cells to dst, times a share. dst begins at the layer's first channel.
func (l *openLayer) average(dst, x []float32, share float32) {
	for o := range patches.Grid * patches.Grid {
		y0, y1 := patches.Extent(l.outRows, o/patches.Grid)
		x0, x1 := patches.Extent(l.outCols, o%patches.Grid)
		for y := y0; y < y1; y++ {
			for at := x0; at < x1; at++ {
				vec.Axpy(dst[o*Channels:][:l.out], share/float32((y1-y0)*(x1-x0)), x[(y*l.outCols+at)*l.out:][:l.out])
			}
		}
	}
}

// Program is what Worker does, as ops.
func Program(b *fixed.Builder, shape [3]int, mirror bool, constants map[string][]float32, image ir.Value) ir.Value {
	in, grid := shape[:], []int{Channels, patches.Grid, patches.Grid}
	cells := func(x ir.Value) ir.Value {
		x, was := b.Affine(x, in, b.Scalar(4), b.Scalar(-2)), in
		var parts []ir.Value
		for i, l := range layers {
			rows, cols := l.window().Out(was[1], was[2])
			out := []int{l.out, rows, cols}
			x = b.Add(ir.Op{Kind: ir.Conv, In: []ir.Value{x}, Shape: was, Out: out, Window: l.window()},
				b.Constant("encoder."+weight(i), []int{l.out, l.in, side, side}, constants[weight(i)]))
			x = b.Affine(x, out, ir.None, b.Constant("encoder."+bias(i), []int{l.out, 1, 1}, constants[bias(i)]))
			x, was = b.Add(ir.Op{Kind: ir.ReLU, In: []ir.Value{x}, Shape: out, Out: out}), out
			if slices.Contains(read, i) {
				parts = append(parts, patches.Cells(b, x, was, fmt.Sprintf("encoder.cells%d", i+1)))
			}
		}
		return b.Concat(1, grid, parts...)
	}
	if !mirror {
		return cells(image)
	}
	var index []int32
	for i := range shape[0] * shape[1] * shape[2] {
		index = append(index, int32(i+shape[2]-1-2*(i%shape[2])))
	}
	flipped := b.Add(ir.Op{Kind: ir.Pick, In: []ir.Value{image}, Shape: in, Out: in, Index: index})
	sum := b.Add(ir.Op{Kind: ir.Add, In: []ir.Value{cells(image), cells(flipped)}, Shape: grid, Out: grid})
	return b.Affine(sum, grid, b.Scalar(.5), ir.None)
}
