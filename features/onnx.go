package features

import (
	"math"
	"slices"

	"github.com/privgrad/privgrad/internal/cpu/gemm"
	"github.com/privgrad/privgrad/internal/deskew"
	"github.com/privgrad/privgrad/internal/onnx"
	"github.com/privgrad/privgrad/internal/usage"
)

// ONNX adds the front end to a graph in the ONNX format, for package trained. The image has values of
// [0, 1] and the shape of In; rows have the width of Width. They are Rows up to rounding.
func (f *Front) ONNX(g *onnx.Graph, image onnx.Value) (rows onnx.Value, err error) {
	if f.own != nil {
		return "", usage.Errorf("features %s are a Go function, which ONNX cannot hold; run the model by privgrad, or train with built-in features", f.spec.Kind)
	}
	all := 0.
	for _, b := range f.blocks {
		all += b.weight
	}
	if f.spec.Deskew {
		image = deskew.Graph(g, f.spec.Shape, image)
	}
	var parts []onnx.Value
	for _, b := range f.blocks {
		maps := b.graph(g, f.spec.Shape, f.spec.Mirror, b.constants, image)
		maps = b.whitenGraph(g, maps)
		parts = append(parts, b.scaleGraph(g, maps, float32(Scale*math.Sqrt(b.weight/all))))
	}
	rows = g.Op("Concat", parts, onnx.Int("axis", 1))
	return g.Cast(g.Cast(rows, onnx.Float16), onnx.Float32), nil // as rows are kept
}

// whitenGraph is whiten: a 1×1 convolution of the channels less their means.
func (b *block) whitenGraph(g *onnx.Graph, maps onnx.Value) onnx.Value {
	mean, c := b.constants[meanName], b.channels
	if mean == nil {
		return maps
	}
	centred := g.Op("Sub", []onnx.Value{maps, g.Floats("", []int{c, 1, 1}, mean)})
	return g.Op("Conv", []onnx.Value{centred, g.Floats("", []int{c, c, 1, 1}, triangular(b.constants[whitenerName], c).Data)})
}

// scaleGraph weighs the middle column, and gives rows the norm. A row of zeros stays one.
func (b *block) scaleGraph(g *onnx.Graph, maps onnx.Value, norm float32) onnx.Value {
	const least = 1e-30 // of a square
	if b.keep != b.cols && b.cols%2 == 1 {
		weights := slices.Repeat([]float32{1}, b.keep)
		weights[b.keep-1] = math.Sqrt2 / 2
		maps = g.Op("Mul", []onnx.Value{maps, g.Floats("", []int{b.keep}, weights)})
	}
	rows := g.Reshape(maps, b.width())
	square := g.Op("ReduceSumSquare", []onnx.Value{rows}, onnx.Ints("axes", 1))
	length := g.Op("Sqrt", []onnx.Value{g.Op("Max", []onnx.Value{square, g.Scalar(least)})})
	return g.Op("Mul", []onnx.Value{rows, g.Op("Div", []onnx.Value{g.Scalar(norm), length})})
}

// downTo is n−1, …, 0: the columns of a mirror image.
func downTo(n int) []int {
	var all []int
	for i := range n {
		all = append(all, n-1-i)
	}
	return all
}

// upTo is 0, …, n−1.
func upTo(n int) []int {
	all := downTo(n)
	slices.Reverse(all)
	return all
}

// half is ½·(a + b).
func halfSum(g *onnx.Graph, a, b onnx.Value) onnx.Value {
	return g.Op("Mul", []onnx.Value{g.Op("Add", []onnx.Value{a, b}), g.Scalar(.5)})
}

// graph is worker and what follows it up to the columns that are kept.
func (s *scatter) graph(g *onnx.Graph, image onnx.Value) onnx.Value {
	colors, height, width, grid := s.shape[0], s.shape[1], s.shape[2], s.rows*s.cols
	low0, low1 := lows(height, width, s.pool)
	// Each color is an image by itself, and then each of its maps.
	planes := g.Reshape(image, 1, height, width)
	full := g.Op("Concat", []onnx.Value{planes, modulusGraph(g, planes, wavelets(0, fineTaps), fineTaps, (fineTaps-1)/2, 1)}, onnx.Int("axis", 1))
	half := modulusGraph(g, g.Reshape(full, 1, height, width), wavelets(1, coarseTaps), coarseTaps, (coarseTaps-2)/2, 2)
	averages := func(maps onnx.Value, count, pixels int, low gemm.Matrix) onnx.Value {
		return g.Op("MatMul", []onnx.Value{g.Reshape(maps, count, pixels), g.Floats("", []int{pixels, grid}, low.Data)})
	}
	maps := g.Op("Concat", []onnx.Value{
		averages(full, 1+angles, height*width, low0), averages(half, angles*(1+angles), height*width/4, low1),
	}, onnx.Int("axis", 1))
	maps = g.Reshape(maps, colors, scatterMaps, s.rows, s.cols)
	keep := s.cols
	if s.mirror {
		var turned []int
		for k := range scatterMaps {
			turned = append(turned, mirrored(k))
		}
		maps = halfSum(g, maps, g.Gather(g.Gather(maps, 2, turned...), 4, downTo(s.cols)...))
		keep = (s.cols + 1) / 2
		maps = g.Gather(maps, 4, upTo(keep)...)
	}
	return g.Reshape(maps, colors*scatterMaps, s.rows, keep)
}

// modulusGraph is the moduli of the wavelet coefficients of planes, at every stride.
func modulusGraph(g *onnx.Graph, planes onnx.Value, waves gemm.Matrix, side, margin, stride int) onnx.Value {
	padded := g.Op("Pad", []onnx.Value{planes, g.Numbers(0, 0, margin, margin, 0, 0, margin, margin)}, onnx.String("mode", "reflect"))
	var squares []onnx.Value
	for part := range slices.Chunk(waves.Data, angles*side*side) { // real, then imaginary
		z := g.Op("Conv", []onnx.Value{padded, g.Floats("", []int{angles, 1, side, side}, part)}, onnx.Ints("strides", stride, stride))
		squares = append(squares, g.Op("Mul", []onnx.Value{z, z}))
	}
	return g.Op("Sqrt", []onnx.Value{g.Op("Add", squares)})
}

// graph is worker: the contrast is a factor at every place, behind the products.
func (p *patches) graph(g *onnx.Graph, image onnx.Value, atoms []float32) onnx.Value {
	colors, n := p.shape[0], p.shape[0]*p.side*p.side
	window := []int{1, colors, p.side, p.side}
	means := g.Floats("", window, slices.Repeat([]float32{1 / float32(n)}, n))
	mean := g.Op("Conv", []onnx.Value{image, means})
	square := g.Op("Conv", []onnx.Value{g.Op("Mul", []onnx.Value{image, image}), means})
	variance := g.Op("Relu", []onnx.Value{g.Op("Sub", []onnx.Value{square, g.Op("Mul", []onnx.Value{mean, mean})})})
	deviation := g.Op("Sqrt", []onnx.Value{g.Op("Add", []onnx.Value{variance, g.Scalar(patchFlat)})})

	window[0] = p.width
	products := g.Op("Conv", []onnx.Value{image, g.Floats("", window, atoms)})
	products = g.Op("Div", []onnx.Value{products, deviation})
	excess := func(z onnx.Value) onnx.Value {
		return g.Op("Relu", []onnx.Value{g.Op("Sub", []onnx.Value{z, g.Scalar(patchShrink)})})
	}
	both := g.Op("Concat", []onnx.Value{excess(products), excess(g.Op("Neg", []onnx.Value{products}))}, onnx.Int("axis", 1))
	places := p.rows * p.cols
	cells := g.Op("MatMul", []onnx.Value{g.Reshape(both, 2*p.width, places), g.Floats("", []int{places, patchGrid * patchGrid}, p.shares())})
	if p.mirror { // sign, then whether mirrored
		cells = g.Reshape(cells, 2, 2, patchAtoms, patchGrid, patchGrid)
		cells = halfSum(g, g.Gather(cells, 2, 0), g.Gather(g.Gather(cells, 2, 1), 5, downTo(patchGrid)...))
	}
	return g.Reshape(cells, 2*patchAtoms, patchGrid, patchGrid)
}

// shares is the matrix from places to means over cells.
func (p *patches) shares() []float32 {
	m := make([]float32, p.rows*p.cols*patchGrid*patchGrid)
	for o := range patchGrid * patchGrid {
		y0, y1 := extent(p.rows, o/patchGrid)
		x0, x1 := extent(p.cols, o%patchGrid)
		for y := y0; y < y1; y++ {
			for x := x0; x < x1; x++ {
				m[(y*p.cols+x)*patchGrid*patchGrid+o] = 1 / float32((y1-y0)*(x1-x0))
			}
		}
	}
	return m
}
