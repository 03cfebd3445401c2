package devicetest

import (
	"fmt"

	"github.com/privgrad/privgrad/internal/plan"
)

// Builder writes a Program op by op. A mistake in a call shows when a device
// validates the program.
type Builder struct {
	p      plan.Program
	shapes [][]int // by plan.Value
	count  map[plan.Kind]int
}

// NewBuilder begins a program over an input of a shape.
func NewBuilder(name string, loss plan.Loss, shape ...int) *Builder {
	return &Builder{
		p:      plan.Program{Name: name, Shape: shape, Loss: loss},
		shapes: [][]int{shape},
		count:  map[plan.Kind]int{},
	}
}

// Program is what was built; the last op gives the logits.
func (b *Builder) Program() *plan.Program { return &b.p }

// Reshape makes later readers see v in another shape.
func (b *Builder) Reshape(v plan.Value, shape ...int) plan.Value {
	b.shapes[v] = shape
	return v
}

// Conv adds a convolution.
func (b *Builder) Conv(x plan.Value, out int, w plan.Window, bias bool) plan.Value {
	s := b.shapes[x]
	h, wd := w.Out(s[1], s[2])
	return b.layer(plan.Op{Kind: plan.Conv, In: []plan.Value{x}, Out: []int{out, h, wd}, Window: w}, []int{out, s[0], w.H, w.W}, bias)
}

// Dense adds a dense layer over the flattened x.
func (b *Builder) Dense(x plan.Value, out int, bias bool) plan.Value {
	return b.layer(plan.Op{Kind: plan.Dense, In: []plan.Value{x}, Out: []int{out}}, []int{out, plan.Size(b.shapes[x])}, bias)
}

// Pool adds a pool of either kind.
func (b *Builder) Pool(kind plan.Kind, x plan.Value, w plan.Window) plan.Value {
	s := b.shapes[x]
	h, wd := w.Out(s[1], s[2])
	return b.op(plan.Op{Kind: kind, In: []plan.Value{x}, Out: []int{s[0], h, wd}, Window: w})
}

// Act adds an activation.
func (b *Builder) Act(kind plan.Kind, x plan.Value) plan.Value {
	return b.op(plan.Op{Kind: kind, In: []plan.Value{x}, Out: b.shapes[x]})
}

// Add adds the sum of two values.
func (b *Builder) Add(x, y plan.Value) plan.Value {
	return b.op(plan.Op{Kind: plan.Add, In: []plan.Value{x, y}, Out: b.shapes[x]})
}

func (b *Builder) op(op plan.Op) plan.Value {
	op.Weight, op.Bias = plan.None, plan.None
	return b.push(op)
}

func (b *Builder) layer(op plan.Op, weight []int, bias bool) plan.Value {
	op.Weight, op.Bias = b.param(op.Kind, "weight", weight), plan.None
	if bias {
		op.Bias = b.param(op.Kind, "bias", op.Out[:1])
	}
	return b.push(op)
}

func (b *Builder) push(op plan.Op) plan.Value {
	b.count[op.Kind]++
	op.Name = fmt.Sprintf("%s%d", op.Kind, b.count[op.Kind])
	op.Shape = b.shapes[op.In[0]]
	b.p.Ops = append(b.p.Ops, op)
	b.shapes = append(b.shapes, op.Out)
	return b.p.Logits()
}

func (b *Builder) param(kind plan.Kind, what string, shape []int) int {
	node := fmt.Sprintf("%s%d.%s", kind, b.count[kind]+1, what)
	b.p.Params = append(b.p.Params, plan.Param{Name: node, Node: node, Shape: shape, Offset: b.p.NumParams()})
	return len(b.p.Params) - 1
}
