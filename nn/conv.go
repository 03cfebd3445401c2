package nn

import (
	"fmt"
	"slices"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/nn/internal/graph"
)

// Conv is a square cross-correlation with bias over (N, C, H, W), padded by
// zeros: out kernels of kernel×kernel. It makes the nodes name.weight
// (out, C, kernel, kernel) and name.bias (1, out, 1, 1), the bias zero.
func Conv(name string, out, kernel, stride, pad int, init Init) Layer {
	return convolution(name, kernels{out, kernel, stride, pad}, init, func(_, w *G.Node) (*G.Node, error) { return w, nil })
}

// kernels are what a convolution's layer is told: so many, each size×size.
type kernels struct{ out, size, stride, pad int }

// convolution is a layer whose filter is made of the node of its weight. Both stand in the graph of x.
func convolution(name string, k kernels, init Init, filter func(x, w *G.Node) (*G.Node, error)) Layer {
	return layer(name, 4, func(x *G.Node, s tensor.Shape) (*G.Node, error) {
		out, kernel, stride, pad := k.out, k.size, k.stride, k.pad
		if out < 1 || kernel < 1 || stride < 1 || pad < 0 {
			return nil, fmt.Errorf("needs at least one kernel, a window and a stride of at least 1 and no negative padding; has %d kernels, window %d, stride %d, padding %d", out, kernel, stride, pad)
		}
		if s[2]+2*pad < kernel || s[3]+2*pad < kernel {
			return nil, fmt.Errorf("the %d×%d window does not fit the %d×%d image padded by %d", kernel, kernel, s[2], s[3], pad)
		}
		values := make([]float32, out*s[1]*kernel*kernel)
		init(name+".weight", s[1]*kernel*kernel, out*kernel*kernel, values)
		w, err := parameter(x, name+".weight", values, out, s[1], kernel, kernel)
		if err != nil {
			return nil, err
		}
		b, err := parameter(x, name+".bias", make([]float32, out), 1, out, 1, 1)
		if err != nil {
			return nil, err
		}
		if w, err = filter(x, w); err != nil {
			return nil, err
		}
		h, err := G.Conv2d(x, w, tensor.Shape{kernel, kernel}, []int{pad, pad}, []int{stride, stride}, []int{1, 1})
		if err != nil {
			return nil, err
		}
		return G.BroadcastAdd(h, b, nil, []byte{0, 2, 3})
	})
}

// conv reads Conv2d back from its expansion, of which n is the last node:
//
//	im2col (N, OH, OW, C·kh·kw) → reshape (N·OH·OW, C·kh·kw) → × flat kernelsᵀ
//	→ reshape (N, OH, OW, out) → transpose (N, out, OH, OW)
//
// Column (c·kh+y)·kw+x holds pixel (y, x) of channel c. It reports false when
// n is some other transposition.
func (l *lowerer) conv(n *G.Node) (value, bool, error) {
	rows := graph.Children(n)[0]
	if !slices.Equal(graph.FieldsOf(n).Ints("pattern"), []int{0, 3, 1, 2}) || graph.Type(rows) != graph.Reshape {
		return value{}, false, nil
	}
	product := graph.Children(rows)[0]
	if graph.Type(product) != graph.LinAlg || graph.Type(graph.Children(product)[0]) != graph.Reshape || graph.Type(graph.Children(product)[1]) != graph.Reshape {
		return value{}, false, nil
	}
	f := graph.FieldsOf(product)
	cols := graph.Children(graph.Children(product)[0])[0]
	if f.Int("āBinaryOperator") != matMul || f.Bool("transA") || !f.Bool("transB") || graph.Type(cols) != graph.Im2col {
		return value{}, false, nil
	}

	in, err := l.lower(graph.Children(cols)[0])
	if err != nil {
		return value{}, true, err
	}
	filter, err := l.weight(graph.Children(graph.Children(product)[1])[0], product)
	if err != nil {
		return value{}, true, err
	}
	f = graph.FieldsOf(cols)
	pad, padW := f.Int("padH"), f.Int("padW")
	w := ir.Window{
		H: f.Int("h"), W: f.Int("w"),
		StrideH: f.Int("strideH"), StrideW: f.Int("strideW"),
		PadTop: pad, PadBottom: pad, PadLeft: padW, PadRight: padW,
		DilationH: f.Int("dilationH"), DilationW: f.Int("dilationW"),
	}
	shape, out := cols.Shape(), n.Shape()
	if !slices.Equal([]int(rows.Shape()), []int{shape[0], shape[1], shape[2], out[1]}) {
		return value{}, true, graph.Refuse(n, "this is no Conv2d: the product's rows are not the image's positions; build it with gorgonia.Conv2d")
	}
	if want := []int{out[1], in.shape[0], w.H, w.W}; !slices.Equal(filter.Shape, want) {
		return value{}, true, graph.Refuse(n, "its filter %s has shape %v, its window needs %v; make the filter (out, in, kh, kw) with the window of the call",
			graph.Describe(filter.Leaf), filter.Shape, want)
	}
	v := l.emit(n, ir.Op{Kind: ir.Conv, In: []ir.Value{in.v}, Shape: in.shape, Window: w, Function: filter.function}, &filter.View)
	l.given[v.v-1] = filter.given
	return v, true, nil
}
