package cuda

import (
	"github.com/privgrad/privgrad/internal/cuda/kernels"
	"github.com/privgrad/privgrad/internal/ir"
)

// none is no op.
const none = -1

// fusion says which activations launches of other ops do. What lies between an op and an activation that
// nobody else reads has no memory.
type fusion struct {
	after   []int // by op, the activation that its forward launch does too, or none
	through []int // by op, the activation that gave its input and through which its input gradient goes on, or none
	value   []bool
	delta   []bool // by value: whether it, and its gradient, is ever written
}

// fuse leaves dense ops alone where their launches are not the project's, and what lies in another form.
func fuse(p *ir.Program, l *layout, dense bool) fusion {
	alone := func(op *ir.Op) bool { return op.Kind == ir.Dense && !dense }
	n := len(p.Ops)
	f := fusion{make([]int, n), make([]int, n), make([]bool, n+1), p.NeedsGrad()}
	reader := make([]int, n+1)
	for i := range n {
		f.after[i], f.through[i] = none, none
		for _, v := range p.Ops[i].In {
			reader[v] = i
		}
	}
	for v := range f.value {
		f.value[v] = true
	}
	consumers := p.Consumers()
	for i := range p.Ops {
		op := &p.Ops[i]
		if !kernels.Fusible(op.Kind) || op.In[0] == ir.Input || consumers[op.In[0]] != 1 {
			continue
		}
		if from := int(op.In[0] - 1); !alone(&p.Ops[from]) && l.fusesForward(p, from, i) {
			f.after[from] = i
			f.value[op.In[0]] = false
		}
		if y := i + 1; consumers[y] == 1 {
			if to := reader[y]; !alone(&p.Ops[to]) && l.fusesBackward(p, to, i) {
				f.through[to] = i
				f.delta[y] = false
			}
		}
	}
	return f
}

// fusesForward reports whether the launch of op i can do the activation behind it, too.
func (l *layout) fusesForward(p *ir.Program, i, act int) bool {
	op, kind := &p.Ops[i], p.Ops[act].Kind
	if l.pixels[i] {
		return l.pixels[act] && kernels.FusesForwardInPixels(op, kind)
	}
	return !l.pixels[act] && kernels.FusesForward(op, kind)
}

// fusesBackward reports whether the launch of op i's input gradient can take it on through the activation that gave the input.
func (l *layout) fusesBackward(p *ir.Program, i, act int) bool {
	op, kind, y := &p.Ops[i], p.Ops[act].Kind, ir.Value(act+1)
	switch {
	case l.takes(p, i, y) != l.home(y):
		return false
	case l.pixels[i]:
		return kernels.FusesBackwardInPixels(op, kind)
	}
	return kernels.FusesBackward(op, kind)
}

// activated says of an activation that the forward launch of the op before it does it.
func (f *fusion) activated(p *ir.Program, i int) bool {
	v := p.Ops[i].In[0]
	return v != ir.Input && f.after[v-1] == i
}

// passed says of an activation that the backward launch of the op behind it goes through it.
func (f *fusion) passed(p *ir.Program, i int) bool {
	return p.Ops[i].Kind.Activation() && !f.delta[i+1]
}

// absorb notes what lies inside of a trunk and has no memory of its own.
func (f *fusion) absorb(p *ir.Program, t *kernels.Trunk) {
	last := p.Ops[t.Ops-1]
	for v := 1; v < t.Ops; v++ {
		if f.delta[t.Ops] || v != int(last.In[0]) {
			f.delta[v] = false
		}
	}
	for _, s := range t.Stages {
		if s.Out() != s.Op {
			f.value[s.Op+1] = false
		}
	}
}
