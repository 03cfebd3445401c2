package devicetest

import (
	"fmt"
	"strings"

	"github.com/privgrad/privgrad/internal/ir"
)

// Builder writes a Program op by op. A mistake in a call shows when a device
// validates the program.
type Builder struct {
	p      ir.Program
	shapes [][]int // by ir.Value
	count  map[ir.Kind]int
}

// NewBuilder begins a program over an input of a shape.
func NewBuilder(name string, loss ir.Loss, shape ...int) *Builder {
	return &Builder{
		p:      ir.Program{Name: name, Shape: shape, Loss: loss},
		shapes: [][]int{shape},
		count:  map[ir.Kind]int{},
	}
}

// Program is what was built; the last op gives the logits.
func (b *Builder) Program() *ir.Program { return &b.p }

// Reshape makes later readers see v in another shape.
func (b *Builder) Reshape(v ir.Value, shape ...int) ir.Value {
	b.shapes[v] = shape
	return v
}

// Conv adds a convolution.
func (b *Builder) Conv(x ir.Value, out int, w ir.Window, bias bool) ir.Value {
	s := b.shapes[x]
	h, wd := w.Out(s[1], s[2])
	return b.layer(ir.Op{Kind: ir.Conv, In: []ir.Value{x}, Out: []int{out, h, wd}, Window: w}, []int{out, s[0], w.H, w.W}, bias)
}

// Dense adds a dense layer over the flattened x.
func (b *Builder) Dense(x ir.Value, out int, bias bool) ir.Value {
	return b.layer(ir.Op{Kind: ir.Dense, In: []ir.Value{x}, Out: []int{out}}, []int{out, ir.Size(b.shapes[x])}, bias)
}

// Pool adds a pool of either kind.
func (b *Builder) Pool(kind ir.Kind, x ir.Value, w ir.Window) ir.Value {
	s := b.shapes[x]
	h, wd := w.Out(s[1], s[2])
	return b.op(ir.Op{Kind: kind, In: []ir.Value{x}, Out: []int{s[0], h, wd}, Window: w})
}

// Act adds an activation.
func (b *Builder) Act(kind ir.Kind, x ir.Value) ir.Value {
	return b.op(ir.Op{Kind: kind, In: []ir.Value{x}, Out: b.shapes[x]})
}

// Leaky adds a leaky ReLU.
func (b *Builder) Leaky(x ir.Value, slope float32) ir.Value {
	return b.op(ir.Op{Kind: ir.LeakyReLU, In: []ir.Value{x}, Out: b.shapes[x], Slope: slope})
}

// GroupNorm adds a normalization of groups of channels.
func (b *Builder) GroupNorm(x ir.Value, groups int, bias bool) ir.Value {
	s := b.shapes[x]
	return b.layer(ir.Op{Kind: ir.GroupNorm, In: []ir.Value{x}, Out: s, Groups: groups, Epsilon: 1e-5}, s[:1], bias)
}

// LayerNorm adds a normalization of the lines of the last axis.
func (b *Builder) LayerNorm(x ir.Value, bias bool) ir.Value {
	s := b.shapes[x]
	return b.layer(ir.Op{Kind: ir.LayerNorm, In: []ir.Value{x}, Out: s, Epsilon: 1e-5}, s[len(s)-1:], bias)
}

// StandardConv adds a convolution with standardized weights.
func (b *Builder) StandardConv(x ir.Value, out int, w ir.Window, bias bool) ir.Value {
	return b.Made(b.Conv(x, out, w, bias), ir.Standardize, []int{out})
}

// Made has the weight of op v, which was added last, computed by a function of parameters of some more shapes.
func (b *Builder) Made(v ir.Value, f ir.Function, given ...[]int) ir.Value {
	op := &b.p.Ops[v-1]
	op.Function = f
	for i, shape := range given {
		name := fmt.Sprintf("%s.given%d", strings.TrimSuffix(b.p.Params[op.Weight].Name, ".weight"), i)
		op.Given = append(op.Given, len(b.p.Params))
		b.p.Params = append(b.p.Params, ir.Param{Name: name, Node: name, Shape: shape, Offset: b.p.NumParams()})
	}
	return v
}

// Add adds the sum of two values.
func (b *Builder) Add(x, y ir.Value) ir.Value {
	return b.op(ir.Op{Kind: ir.Add, In: []ir.Value{x, y}, Out: b.shapes[x]})
}

func (b *Builder) op(op ir.Op) ir.Value {
	op.Weight, op.Bias = ir.None, ir.None
	return b.push(op)
}

func (b *Builder) layer(op ir.Op, weight []int, bias bool) ir.Value {
	op.Weight, op.Bias = b.param(op.Kind, "weight", weight), ir.None
	if bias {
		op.Bias = b.param(op.Kind, "bias", weight[:1])
	}
	return b.push(op)
}

func (b *Builder) push(op ir.Op) ir.Value {
	b.count[op.Kind]++
	op.Name = fmt.Sprintf("%s%d", op.Kind, b.count[op.Kind])
	op.Shape = b.shapes[op.In[0]]
	b.p.Ops = append(b.p.Ops, op)
	b.shapes = append(b.shapes, op.Out)
	return b.p.Logits()
}

func (b *Builder) param(kind ir.Kind, what string, shape []int) int {
	node := fmt.Sprintf("%s%d.%s", kind, b.count[kind]+1, what)
	b.p.Params = append(b.p.Params, ir.Param{Name: node, Node: node, Shape: shape, Offset: b.p.NumParams()})
	return len(b.p.Params) - 1
}
