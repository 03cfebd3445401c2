package lower

import (
	"slices"

	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/onnx/fold"
	"github.com/privgrad/privgrad/internal/onnx/strides"
)

// window reads the geometry of a convolution or a pool over rows and columns of an image; of one axis it is the columns'.
func (c *call) window(kernel, image []int) (ir.Window, *Refusal) {
	axes := len(kernel)
	setting := func(name string, usual, n int) ([]int, *Refusal) {
		list, ok := c.ints(name)
		if !ok {
			for range n {
				list = append(list, usual)
			}
		}
		if len(list) != n {
			return nil, c.refuse(exportAgain, "has %d numbers as %s, want %d", len(list), name, n)
		}
		for _, v := range list {
			if v < usual || v > strides.Most {
				return nil, c.refuse(exportAgain, "has %d among its %s", v, name)
			}
		}
		return list, nil
	}
	steps, r := setting("strides", 1, axes)
	if r != nil {
		return ir.Window{}, r
	}
	dilations, r := setting("dilations", 1, axes)
	if r != nil {
		return ir.Window{}, r
	}
	pads, r := setting("pads", 0, 2*axes)
	if r != nil {
		return ir.Window{}, r
	}
	for a, k := range kernel {
		if k < 1 || k > strides.Most {
			return ir.Window{}, c.refuse(exportAgain, "has the window %v", kernel)
		}
		switch auto := c.text("auto_pad"); auto {
		case "", "NOTSET":
		case "VALID":
			pads[a], pads[axes+a] = 0, 0
		case "SAME_UPPER", "SAME_LOWER":
			n := image[len(image)-axes+a]
			all := max((ceiling(n, steps[a])-1)*steps[a]+(k-1)*dilations[a]+1-n, 0)
			small, large := all/2, all-all/2
			pads[a], pads[axes+a] = small, large
			if auto == "SAME_LOWER" {
				pads[a], pads[axes+a] = large, small
			}
		default:
			return ir.Window{}, c.refuse(exportAgain+" with plain pads", "has the padding %q, which is none that is known", auto)
		}
	}
	w := ir.Square(1, 1, 0)
	x := axes - 1
	w.W, w.StrideW, w.DilationW, w.PadLeft, w.PadRight = kernel[x], steps[x], dilations[x], pads[x], pads[axes+x]
	if axes == 2 {
		w.H, w.StrideH, w.DilationH, w.PadTop, w.PadBottom = kernel[0], steps[0], dilations[0], pads[0], pads[2]
	}
	return w, nil
}

func ceiling(a, b int) int { return (a + b - 1) / b }

// slid gives the shape of an image behind a window, in the file's axes.
func (c *call) slid(w ir.Window, channels int, image []int, axes int) (stored []int, out strides.View, r *Refusal) {
	if max(w.PadTop, w.PadBottom, w.PadLeft, w.PadRight) > strides.Most {
		return nil, strides.View{}, c.refuse(exportAgain, "pads by more than an image can have")
	}
	rows, cols := w.Out(image[1], image[2])
	if rows < 1 || cols < 1 {
		return nil, strides.View{}, c.refuse("give it larger images", "has a window %d×%d that does not fit the %d×%d image", w.H, w.W, image[1], image[2])
	}
	stored = []int{channels, rows, cols}
	if _, ok := strides.Count(stored); !ok {
		return nil, strides.View{}, c.refuse("make it smaller", "gives records of shape %v, which are too large", stored)
	}
	shape := stored
	if axes == 1 {
		shape = []int{channels, cols}
	}
	return stored, strides.Of(shape), nil
}

// padded is input 0 with what a Pad before it adds to the borders.
func (c *call) padded() (*value, *pads, *Refusal) {
	v := c.in[0]
	if v.form != nil && v.form.kind == padding && !v.form.last {
		return v.form.base, &v.form.pads, nil
	}
	v, r := c.activation(0)
	return v, nil, r
}

// pads are pixels before and behind an image: top, left, bottom, right.
type pads [4]int

func (p *pads) widen(w *ir.Window) {
	if p != nil {
		w.PadTop, w.PadLeft, w.PadBottom, w.PadRight = w.PadTop+p[0], w.PadLeft+p[1], w.PadBottom+p[2], w.PadRight+p[3]
	}
}

// grown is an image with its borders.
func (p *pads) grown(image []int) []int {
	if p == nil {
		return image
	}
	return []int{image[0], image[1] + p[0] + p[2], image[2] + p[1] + p[3]}
}

// pad keeps zeros around an image for the convolution or pool behind it.
func pad(c *call) (*value, *Refusal) {
	v, r := c.activation(0)
	if r != nil {
		return nil, r
	}
	if mode := c.text("mode"); mode != "" && mode != "constant" {
		return c.elsewhereOf(nil, "fills borders by the mode "+mode)
	}
	if k := c.at(2); k != nil {
		if n, ok := c.scalar(k); !ok || n != 0 {
			return c.elsewhereOf(nil, "fills borders with another number than zero")
		}
	}
	before, behind, r := c.borders(len(v.view.Shape) + 1)
	if r != nil {
		return nil, r
	}
	f := &form{kind: padding, node: c.node, base: v}
	for a, n := range v.view.Shape {
		f.shape = append(f.shape, n+before[1+a]+behind[1+a])
	}
	if _, ok := strides.Count(f.shape); !ok {
		return nil, c.refuse("make it smaller", "gives records of shape %v, which are too large", f.shape)
	}
	switch n := len(f.shape); {
	case uniformInts(before) && uniformInts(behind):
		return v.same(), nil
	case n == 3 && before[1]+behind[1] == 0:
		f.pads = pads{before[2], before[3], behind[2], behind[3]}
	case n == 2 && before[1]+behind[1] == 0:
		f.pads = pads{0, before[2], 0, behind[2]}
	case n == 3 && before[3]+behind[3] == 0: // channels last; they are moved behind the padding
		f.pads, f.last = pads{before[1], before[2], behind[1], behind[2]}, true
	default:
		return c.elsewhereOf(f.shape, "pads channels")
	}
	return formed(f), nil
}

// borders are how many elements a Pad puts before and behind each axis, that of the records aside.
func (c *call) borders(rank int) (before, behind []int, r *Refusal) {
	list, r := c.numbers(1)
	if r != nil {
		return nil, nil, r
	}
	axes, r := c.axes(3, rank, fold.UpTo(rank))
	if r != nil {
		return nil, nil, r
	}
	if len(list) != 2*len(axes) {
		return nil, nil, c.refuse(exportAgain, "has %d pads for %d axes", len(list), len(axes))
	}
	before, behind = make([]int, rank), make([]int, rank)
	for i, n := range list {
		a := axes[i%len(axes)]
		switch {
		case n != 0 && a == 0:
			return nil, nil, c.crossing("pads")
		case n < 0 || n > strides.Most:
			return nil, nil, c.refuse("crop the data instead", "cuts borders off by %d", n)
		case i < len(axes):
			before[a] = n
		default:
			behind[a] = n
		}
	}
	return before, behind, nil
}

func uniformInts(list []int) bool {
	for _, v := range list {
		if v != 0 {
			return false
		}
	}
	return true
}

// pool is a row of the table for a pool of a kind.
func pool(kind ir.Kind) func(c *call) (*value, *Refusal) {
	return func(c *call) (*value, *Refusal) {
		v, before, r := c.padded()
		if r != nil {
			return nil, r
		}
		v, image, r := c.image(v)
		if r != nil {
			return nil, r
		}
		kernel, ok := c.ints("kernel_shape")
		if !ok || len(kernel) != len(v.view.Shape)-1 {
			return nil, c.refuse(exportAgain, "has the window %v for records of shape %v", kernel, v.view.Shape)
		}
		own, r := c.window(kernel, before.grown(image))
		if r != nil {
			return nil, r
		}
		w := own
		before.widen(&w)
		reaches := c.ceil(&w, image)
		out, shape, r := c.slid(w, image[0], image, len(kernel))
		if r != nil {
			return nil, r
		}
		why := unsaid(w)
		switch l := c.of(v); {
		case why != "":
		case kind == ir.AvgPool && reaches:
			why = "takes means over windows that reach beyond the image (ceil_mode)"
		case kind == ir.AvgPool && max(own.PadTop, own.PadBottom, own.PadLeft, own.PadRight) > 0 && c.int("count_include_pad", 0) == 0:
			why = "takes means without the padding, and only those over whole windows are known (count_include_pad=1)"
		case kind == ir.MaxPool && before != nil && (l == nil || l.op.Kind != ir.ReLU && l.op.Kind != ir.Sigmoid):
			why = "takes maxima over zeros around an image that may have negative pixels"
		}
		if why != "" {
			return c.elsewhereOf(shape.Shape, why)
		}
		return c.emit(ir.Op{Kind: kind, Shape: image, Out: out, Window: w}, shape, v), nil
	}
}

// unsaid is why no pool has a window, or nothing.
func unsaid(w ir.Window) string {
	switch {
	case w.DilationH != 1 || w.DilationW != 1:
		return "is a dilated pool, and only convolutions can be dilated"
	case max(w.PadTop, w.PadBottom) >= w.H || max(w.PadLeft, w.PadRight) >= w.W:
		return "is padded by a whole window, so that some windows see no pixel"
	}
	return ""
}

// ceil counts windows that reach beyond the image, where a node says so: pads become as large as they need. It says whether any do.
func (c *call) ceil(w *ir.Window, image []int) (grows bool) {
	if auto := c.text("auto_pad"); c.int("ceil_mode", 0) == 0 || auto != "" && auto != "NOTSET" {
		return false
	}
	more := func(n, k, stride, dilation, before int, behind *int) {
		free := n + before + *behind - (k-1)*dilation - 1
		if free < 0 || free%stride == 0 {
			return
		}
		if next := (free/stride + 1) * stride; next < n+before { // where a further window begins: in the image
			*behind += next - free
			grows = true
		}
	}
	more(image[1], w.H, w.StrideH, w.DilationH, w.PadTop, &w.PadBottom)
	more(image[2], w.W, w.StrideW, w.DilationW, w.PadLeft, &w.PadRight)
	return grows
}

// globalPool is a row of the table for a pool over the whole image, as an operation of its own.
func globalPool(kind ir.Kind) func(c *call) (*value, *Refusal) {
	return func(c *call) (*value, *Refusal) {
		v, r := c.activation(0)
		if r != nil {
			return nil, r
		}
		return c.whole(kind, v, fold.UpTo(len(v.view.Shape) + 1)[min(2, len(v.view.Shape)+1):], true)
	}
}

// whole pools over axes, which are all but axis 0 and one other.
func (c *call) whole(kind ir.Kind, v *value, axes []int, keep bool) (*value, *Refusal) {
	channels, others, shape := 0, 0, []int{}
	for a, n := range v.view.Shape {
		switch {
		case !slices.Contains(axes, a+1):
			channels, others, shape = a, others+1, append(shape, n)
		case keep:
			shape = append(shape, 1)
		}
	}
	if others != 1 || len(axes) == 0 {
		return c.elsewhereOf(shape, "reduces some axes of a record, and only means and maxima over all pixels are known")
	}
	if !v.view.Outermost(channels) {
		var r *Refusal
		if v, r = c.flat(v); r != nil {
			return nil, r
		}
		if !v.view.Outermost(channels) {
			return c.elsewhereOf(shape, "reduces axes before the channels")
		}
	}
	n := v.view.Shape[channels]
	image := c.stored(v)
	if len(image) != 3 || image[0] != n {
		image = []int{n, 1, v.view.Size() / n}
	}
	w := ir.Window{H: image[1], W: image[2], StrideH: 1, StrideW: 1, DilationH: 1, DilationW: 1}
	return c.emit(ir.Op{Kind: kind, Shape: image, Out: []int{n, 1, 1}, Window: w}, strides.Of(shape), v), nil
}
