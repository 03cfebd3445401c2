package nn

import (
	"fmt"
	"slices"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/privgrad/privgrad/internal/ir"
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
	rows := children(n)[0]
	if !slices.Equal(fields(n).ints("pattern"), []int{0, 3, 1, 2}) || opType(rows) != opReshape {
		return value{}, false, nil
	}
	product := children(rows)[0]
	if opType(product) != opLinAlg || opType(children(product)[0]) != opReshape || opType(children(product)[1]) != opReshape {
		return value{}, false, nil
	}
	f := fields(product)
	cols := children(children(product)[0])[0]
	if f.int("āBinaryOperator") != matMul || f.bool("transA") || !f.bool("transB") || opType(cols) != opIm2col {
		return value{}, false, nil
	}

	in, err := l.lower(children(cols)[0])
	if err != nil {
		return value{}, true, err
	}
	filter, err := l.weight(children(children(product)[1])[0], product)
	if err != nil {
		return value{}, true, err
	}
	f = fields(cols)
	pad, padW := f.int("padH"), f.int("padW")
	w := ir.Window{
		H: f.int("h"), W: f.int("w"),
		StrideH: f.int("strideH"), StrideW: f.int("strideW"),
		PadTop: pad, PadBottom: pad, PadLeft: padW, PadRight: padW,
		DilationH: f.int("dilationH"), DilationW: f.int("dilationW"),
	}
	shape, out := cols.Shape(), n.Shape()
	if !slices.Equal([]int(rows.Shape()), []int{shape[0], shape[1], shape[2], out[1]}) {
		return value{}, true, refuse(n, "this is no Conv2d: the product's rows are not the image's positions; build it with gorgonia.Conv2d")
	}
	if want := []int{out[1], in.shape[0], w.H, w.W}; !slices.Equal(filter.shape, want) {
		return value{}, true, refuse(n, "its filter %s has shape %v, its window needs %v; make the filter (out, in, kh, kw) with the window of the call",
			describe(filter.leaf), filter.shape, want)
	}
	v := l.emit(n, ir.Op{Kind: ir.Conv, In: []ir.Value{in.v}, Shape: in.shape, Window: w, Function: filter.function}, &filter.view)
	l.given[v.v-1] = filter.given
	return v, true, nil
}
