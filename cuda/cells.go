package cuda

import (
	"slices"

	"github.com/privgrad/privgrad/internal/cuda/kernels"
	"github.com/privgrad/privgrad/internal/ir"
)

// cells are what patches have in common with atoms: a Divide of products by a Contrast, its excesses over a threshold by both signs, and their
// means over cells. They are one launch, so that what is as wide as all products is written once and read once.
type cells struct {
	quotient *ir.Op
	share    int // parameter
	excesses [2]kernels.Excess
	replaced []int // the ops that it stands for
}

// cellsAt finds the cells that end with op i; nil where there are none. Nobody else reads what the ops before it leave.
func cellsAt(p *ir.Program, constants []float32, i int) *cells {
	end := &p.Ops[i]
	if end.Kind != ir.Planes || end.Out[1]*end.Out[2] != 1 || end.Out[0] != kernels.Cells*end.Shape[0] || !kernels.HasCells(end.Shape[1]*end.Shape[2]) {
		return nil
	}
	f := &finder{p, p.Consumers(), constants, []int{i}}
	both := f.behind(end.In[0], ir.Concat, 1)
	if both == nil || len(both.In) != 2 || both.Groups != 1 {
		return nil
	}
	c := &cells{share: end.Weight}
	var from [2]ir.Value
	for k, v := range both.In {
		line := f.line(v)
		if line == nil {
			return nil
		}
		from[k] = line.In[0]
		c.excesses[k] = kernels.Excess{Weight: f.scalar(line.Weight, 1), Bias: f.scalar(line.Bias, 0)}
	}
	c.quotient = f.behind(from[0], ir.Divide, 2)
	if from[0] != from[1] || c.quotient == nil || !slices.Equal(c.quotient.Shape, []int{end.Shape[0] / 2, end.Shape[1], end.Shape[2]}) {
		return nil
	}
	c.replaced = f.replaced
	return c
}

// finder goes back through a program.
type finder struct {
	*ir.Program
	consumers []int
	constants []float32
	replaced  []int
}

// behind is the op that made a value, if it is of a kind and the value has just so many readers; else nil.
func (f *finder) behind(v ir.Value, k ir.Kind, readers int) *ir.Op {
	if v == ir.Input || f.Ops[v-1].Kind != k || f.consumers[v] != readers {
		return nil
	}
	f.replaced = append(f.replaced, int(v-1))
	return &f.Ops[v-1]
}

// line is the Affine of one weight and one bias for all elements before the ReLU that made a value; else nil.
func (f *finder) line(v ir.Value) *ir.Op {
	above := f.behind(v, ir.ReLU, 1)
	if above == nil {
		return nil
	}
	line := f.behind(above.In[0], ir.Affine, 1)
	if line == nil {
		return nil
	}
	for _, q := range [...]int{line.Weight, line.Bias} {
		if q != ir.None && f.Params[q].Size() != 1 {
			return nil
		}
	}
	return line
}

// scalar is a constant of one value, or what stands for none.
func (f *finder) scalar(q int, none float32) float32 {
	if q == ir.None {
		return none
	}
	return f.constants[f.Params[q].Offset]
}
