package nn

import (
	"fmt"
	"math"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/nn/internal/graph"
)

// MaxPool takes the largest element of size×size windows over (N, C, H, W).
func MaxPool(size, stride int) Layer {
	return pool("max pool", size, stride, func(x *G.Node) (*G.Node, error) {
		return G.MaxPool2D(x, tensor.Shape{size, size}, []int{0, 0}, []int{stride, stride})
	})
}

// AvgPool takes the mean over size×size windows of (N, C, H, W). Gorgonia's
// AveragePool2D divides a window's sum by the width of the image; this layer
// multiplies the mistake away, which Lower recognises.
func AvgPool(size, stride int) Layer {
	return pool("average pool", size, stride, func(x *G.Node) (*G.Node, error) {
		h, err := G.AveragePool2D(x, tensor.Shape{size, size}, []int{0, 0}, []int{stride, stride})
		if err != nil {
			return nil, err
		}
		factor := float64(x.Shape()[3]) / float64(size*size)
		if x.Dtype() == tensor.Float64 {
			return G.HadamardProd(h, G.NewConstant(factor))
		}
		return G.HadamardProd(h, G.NewConstant(float32(factor)))
	})
}

// GlobalAvgPool takes the mean of every channel: (N, C, H, W) to (N, C, 1, 1).
func GlobalAvgPool(x *G.Node) (*G.Node, error) {
	return layer("global average pool", 4, func(x *G.Node, _ tensor.Shape) (*G.Node, error) {
		return G.GlobalAveragePool2D(x)
	})(x)
}

func pool(name string, size, stride int, f func(*G.Node) (*G.Node, error)) Layer {
	return layer(name, 4, func(x *G.Node, s tensor.Shape) (*G.Node, error) {
		if size < 1 || stride < 1 || size > s[2] || size > s[3] {
			return nil, fmt.Errorf("a %d×%d window with stride %d does not fit the %d×%d image", size, size, stride, s[2], s[3])
		}
		return f(x)
	})
}

// avgPool lowers the pool, multiplied by scale in node out, provided that this
// makes Gorgonia's result the mean.
func (l *lowerer) avgPool(pool, out *G.Node, scale float64) (value, error) {
	f := graph.FieldsOf(pool)
	window, width := f.Int("h")*f.Int("w"), graph.Children(pool)[0].Shape()[3]
	if math.Abs(scale*float64(window)/float64(width)-1) > 1e-6 {
		return value{}, graph.Refuse(pool, "gorgonia v0.9.18 divides by the image's width, %d, instead of the window's %d elements, so that the result is no mean; use nn.AvgPool, which corrects it, or gorgonia.GlobalAveragePool2D", width, window)
	}
	return l.pool(pool, out, ir.AvgPool)
}

func (l *lowerer) pool(n, out *G.Node, kind ir.Kind) (value, error) {
	in, err := l.lower(graph.Children(n)[0])
	if err != nil {
		return value{}, err
	}
	f := graph.FieldsOf(n)
	w := ir.Window{
		H: f.Int("h"), W: f.Int("w"), StrideH: f.Int("strideH"), StrideW: f.Int("strideW"),
		PadTop: f.Int("padNorth"), PadBottom: f.Int("padSouth"), PadLeft: f.Int("padWest"), PadRight: f.Int("padEast"),
		DilationH: 1, DilationW: 1,
	}
	if w.PadTop != w.PadBottom || w.PadLeft != w.PadRight {
		return value{}, graph.Refuse(n, "gorgonia v0.9.18 swaps the sides of unequal pool paddings (top %d, bottom %d, left %d, right %d); pad both sides alike", w.PadTop, w.PadBottom, w.PadLeft, w.PadRight)
	}
	return l.emit(out, ir.Op{Kind: kind, In: []ir.Value{in.v}, Shape: in.shape, Window: w}, nil), nil
}

func (l *lowerer) globalAvgPool(n *G.Node) (value, error) {
	in, err := l.lower(graph.Children(n)[0])
	if err != nil {
		return value{}, err
	}
	w := ir.Window{H: in.shape[1], W: in.shape[2], StrideH: 1, StrideW: 1, DilationH: 1, DilationW: 1}
	return l.emit(n, ir.Op{Kind: ir.AvgPool, In: []ir.Value{in.v}, Shape: in.shape, Window: w}, nil), nil
}
