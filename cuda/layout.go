package cuda

import (
	"github.com/privgrad/privgrad/internal/cuda/kernels"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ir"
)

// On tensor cores values lie in pixels, and all others in planes. Each op has a form in which it takes its inputs and gives its output. A
// value lies as the op that gives it says, in its home form; for readers that take another form it is converted, once a pass, and
// so are their gradients on the way back.

// form is how a value lies.
type form uint8

const (
	planes form = iota
	pixels
	vector // pixels of the vector of a value's elements, in the order of planes: what dense ops take of images
)

// image is what of a value of a shape lies in memory in a form: the layout, and the shape of the image.
func (f form) image(shape []int) (kernels.Layout, []int) {
	switch f {
	case pixels:
		return kernels.Pixels, shape
	case vector:
		return kernels.Pixels, []int{ir.Size(shape)}
	}
	return kernels.Planes, shape
}

// bytes is the memory of an example's value of a shape in a form.
func (f form) bytes(m kernels.Math, shape []int) int {
	layout, shape := f.image(shape)
	return m.ValueBytes(layout, shape)
}

func shapeOf(p *ir.Program, v ir.Value) []int {
	if v == ir.Input {
		return p.Shape
	}
	return p.Ops[v-1].Out
}

// layout is what an arena knows of forms.
type layout struct {
	pixels []bool // by op: whether it is one of pixelOperations
	copies map[converted]*copied
	laid   []laid // by op: its weights
}

// converted is a value in another form than its home.
type converted struct {
	ir.Value
	form
}

type copied struct {
	value, delta kernels.Ptr
	reader       int // the first op that reads it
}

// leastFilters is how many outputs a convolution has at least whose products fill tiles of tensor cores; leastRows how many examples go
// together at least where those of any dense op do.
const (
	leastFilters = 16
	leastRows    = 1024
)

// leastProducts is how many products a dense op of fewer examples has at least, so that tensor cores save more than conversions take: those are
// launches, whatever their size. By the model, a step of 235 million products is slower with them in tf32, and one of 401 million is not. In bf16
// that is so for 60 and 103 million.
var leastProducts = map[device.Precision]int{device.TF32: 1 << 28, device.BF16: 1 << 26}

// fills says whether a dense op is worth tensor cores, of so many examples at a time at most. How many there are in fact changes nothing.
func fills(op *ir.Op, m device.Precision, examples int) bool {
	out, in, _ := op.Columns()
	return examples >= leastRows || examples*in*out >= leastProducts[m]
}

// onPixels chooses the ops that take pixels: products that fill tiles of tensor cores, and what follows them. The op that gives the logits
// is in float32. The first ops, of a trunk, are left alone.
func onPixels(p *ir.Program, m device.Precision, trunk, examples int) []bool {
	on := make([]bool, len(p.Ops))
	if m == device.Float32 {
		return on
	}
	for i := trunk; i < len(p.Ops)-1; i++ {
		op := &p.Ops[i]
		o, ok := pixelOperations[op.Kind]
		switch {
		case !ok || o.takes != nil && !o.takes(kernels.Math(m), op):
		case op.Kind == ir.Conv:
			on[i] = op.Out[0] >= leastFilters
		case op.Kind == ir.Dense:
			on[i] = fills(op, m, examples)
		default:
			on[i] = op.In[0] != ir.Input && on[op.In[0]-1]
		}
	}
	return on
}

// layForms chooses forms, and makes room for values in forms that are not their home. Who writes a value, or its gradient, is known.
func (a *arena) layForms(p *ir.Program, examples int) {
	a.copies = map[converted]*copied{}
	for i := range p.Ops {
		for _, v := range p.Ops[i].In {
			at := converted{v, a.takes(p, i, v)}
			if at.form == a.home(v) || a.copies[at] != nil {
				continue
			}
			c, bytes := &copied{reader: i}, examples*at.bytes(a.math, shapeOf(p, v))
			a.take(&c.value, bytes)
			if a.fusion.delta[v] {
				a.take(&c.delta, bytes)
			}
			a.copies[at] = c
		}
	}
}

// home is the form of a value.
func (l *layout) home(v ir.Value) form {
	if v != ir.Input && l.pixels[v-1] {
		return pixels
	}
	return planes
}

// takes is the form in which an op takes one of its inputs.
func (l *layout) takes(p *ir.Program, i int, v ir.Value) form {
	switch op := &p.Ops[i]; {
	case !l.pixels[i]:
		return planes
	case op.Kind == ir.Dense && len(shapeOf(p, v)) > 1:
		return vector
	}
	return pixels
}

// operation is the one of an op, in its form.
func (l *layout) operation(p *ir.Program, i int) *operation {
	all := operations
	if l.pixels[i] {
		all = pixelOperations
	}
	o := all[p.Ops[i].Kind]
	return &o
}

// input is where an op finds one of its inputs, and leaves the gradient there.
func (a *arena) input(p *ir.Program, i int, v ir.Value) (x, dx kernels.Ptr) {
	if c := a.copies[converted{v, a.takes(p, i, v)}]; c != nil {
		return c.value, c.delta
	}
	return a.values[v], a.deltas[v]
}

// convert makes what an op takes of values whose home is another form, unless an op before it has.
func (l *list) convert(b kernels.Batch, i int) {
	a, p := &l.net.arena, l.net.Schedule.Program
	for _, v := range p.Ops[i].In {
		at := converted{v, a.takes(p, i, v)}
		if c := a.copies[at]; c != nil && c.reader == i {
			l.launch(a.conversion(b, shapeOf(p, v), a.home(v), at.form, a.values[v], c.value, false))
		}
	}
}

// conversion is from one form to another; add is of gradients.
func (a *arena) conversion(b kernels.Batch, shape []int, from, to form, x, y kernels.Ptr, add bool) kernels.Launch {
	m := a.math
	switch {
	case from == planes:
		_, shape = to.image(shape)
		return m.ToPixels(b, shape, x, y, add)
	case to == planes:
		_, shape = from.image(shape)
		return m.FromPixels(b, shape, x, y, add)
	case to == vector:
		return m.Flat(b, shape, x, y)
	}
	return m.FlatGrad(b, shape, x, y, add)
}

// laid are a product's weights, as tensor cores take them.
type laid struct{ forward, back kernels.Ptr }

// layWeights makes room for them.
func (a *arena) layWeights(p *ir.Program) {
	a.laid = make([]laid, len(p.Ops))
	needs := p.NeedsGrad()
	for i := range p.Ops {
		op := &p.Ops[i]
		if !a.pixels[i] || op.Weight == ir.None || !kernels.Products(op) {
			continue
		}
		size := a.math.ElementBytes(kernels.Pixels)
		a.take(&a.laid[i].forward, size*kernels.WeightElements(op, kernels.Filters))
		if needs[op.In[0]] {
			a.take(&a.laid[i].back, size*kernels.WeightElements(op, kernels.Channels))
		}
	}
}

// weights lays them out: once for all chunks that read these.
func (l *list) weights(params kernels.Ptr, back bool) {
	a, p := &l.net.arena, l.net.Schedule.Program
	for i, w := range a.laid {
		if w.forward == 0 {
			continue
		}
		op := &p.Ops[i]
		from := l.param(params, op.Weight, 4)
		if m := a.made[i]; m != nil {
			from = m.weight
		}
		l.step = l.find(ir.Forward, i)
		l.launch(a.math.Weights(op, kernels.Filters, from, w.forward))
		if back && w.back != 0 {
			l.step = l.find(ir.InputGrad, i)
			l.launch(a.math.Weights(op, kernels.Channels, from, w.back))
		}
	}
	l.step = noStep
}
