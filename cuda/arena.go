package cuda

import (
	"fmt"
	"slices"

	"github.com/privgrad/privgrad/internal/cuda/kernels"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ir"
)

// alignment of every buffer: that of the widest vector load, and of memory
// transactions.
const alignment = 256

func align(bytes int) int { return (bytes + alignment - 1) / alignment * alignment }

// arena is where everything lies that the steps of a schedule need, for one chunk
// of examples at a time. Addresses are relative to the arena until it is placed.
type arena struct {
	bytes int64
	chunk int // records that go through the network together
	views views

	run      kernels.Ptr   // the inputs of the runs of a graph: of the first, or of the only one
	values   []kernels.Ptr // by ir.Value, [example][element]; a record's examples are its views
	deltas   []kernels.Ptr // the loss gradient at each value; 0 where nobody needs it
	moments  []kernels.Ptr // by op, of the groups that it normalizes
	targets  kernels.Ptr
	kept     kernels.Ptr // stored gradients, rows of stored values
	keptAt   []int       // by op, its place in a row
	stored   int
	parts    kernels.Ptr // partial sums of a convolution's gradients
	sumParts kernels.Ptr // and of dense ops'
	made     []*made     // by op: its weight, where that is a function of parameters, else nil
	again    kernels.Ptr // records' complete gradients of one op that are not kept
	unread   kernels.Ptr // norms of gradients before they are complete

	weightSum kernels.Ptr // float64, of the gradients of one op's weight, which is taken back to parameters

	unreadBytes int
	shared      []int // by value: the sum whose gradient is also this one's, or none
	math        kernels.Math
	exact       bool
	group       []int // by op, of the clipping
	groups      int
	normAt      []int       // by op, the first part of its group's squared norm that is this op's
	normParts   int         // of each group; those that no op has stay zero
	norm2       kernels.Ptr // float64, [group][part][record]
	addsNorms   bool        // to zeros, before every chunk; else a trunk writes them
	factor      kernels.Ptr // float32, [group][record]
	within      kernels.Ptr // int32, [record]
	scale       kernels.Ptr // float64, [record], of an exact net
	shifted     kernels.Ptr // the parameters at a candidate
	losses      kernels.Ptr // float64, [candidate][record]
	predicted   kernels.Ptr // int32, [record]
	blas        products

	layout
	fusion
	trunk  *kernels.Trunk // or nil
	stages kernels.Ptr    // its table
	places []*kernels.Ptr
}

// layOut computes the arena of a schedule, for a GPU whose blocks have so many bytes of shared memory. Where dense products stay apart,
// from activations and from each other, cuBLAS can take them. It fails where a buffer has more elements than kernels count.
func (a *arena) layOut(s *ir.Schedule, o device.Options, shared int, apart bool) error {
	p := s.Program
	a.chunk = o.Capacity
	if s.Chunk > 0 {
		a.chunk = min(s.Chunk, o.Capacity)
	}
	a.math, a.exact = kernels.Math(o.Precision), o.Exact
	a.take(&a.run, Together*runStride(s, o.Capacity))
	a.layTrunk(s, shared)
	a.pixels = onPixels(p, o.Precision, a.trunkOps(), s.Views()*a.chunk)
	a.fusion = fuse(p, &a.layout, !apart)
	if a.trunk != nil {
		a.fusion.absorb(p, a.trunk)
	}
	if err := a.countable(p, s.Views()); err != nil {
		return err
	}
	a.shareDeltas(p)
	a.layValues(p, s.Views()*a.chunk)
	a.share()
	a.layForms(p, s.Views()*a.chunk)
	a.layViews(s, o.Capacity)
	a.layFunctions(s)
	a.layWeights(p)
	a.layKept(s)
	a.layParts(s, apart)
	a.layNorms(s)
	a.take(&a.factor, 4*a.chunk*a.groups)
	a.take(&a.within, 4*a.chunk)
	if o.Exact {
		a.take(&a.scale, 8*a.chunk)
	}
	a.take(&a.shifted, 4*p.NumParams())
	a.take(&a.losses, 8*a.chunk*(device.MaxCandidates+1))
	a.take(&a.predicted, 4*a.chunk)
	if o.CuBLAS {
		return a.blas.layOut(a, s)
	}
	return nil
}

// countable refuses buffers of more elements than kernels count, in every form that a value has.
func (a *arena) countable(p *ir.Program, views int) error {
	check := func(v ir.Value, f form) error {
		layout, shape := f.image(shapeOf(p, v))
		if size := layout.Elements(shape); size > kernels.MaxElements/views/a.chunk {
			return fmt.Errorf("%d records of network %s with %d values each are more than a kernel takes at once: %s", a.chunk, p.Name, views*size, lessMemory)
		}
		return nil
	}
	for v := range len(p.Ops) + 1 {
		if err := check(ir.Value(v), a.home(ir.Value(v))); err != nil {
			return err
		}
	}
	for i := range p.Ops {
		for _, v := range p.Ops[i].In {
			if err := check(v, a.takes(p, i, v)); err != nil {
				return err
			}
		}
	}
	if n := p.NumParams(); n > kernels.MaxElements {
		return fmt.Errorf("the %d parameters of network %s are more than a kernel takes: use --device cpu", n, p.Name)
	}
	return nil
}

// layTrunk finds the network's trunk, if it measures all norms of what it computes, or nobody does. It gathers rows of one view, as they are.
func (a *arena) layTrunk(s *ir.Schedule, shared int) {
	p, t := s.Program, kernels.FindTrunk(s.Program, shared)
	if t == nil || s.Views() > 1 || words(s) > 0 || !measures(s, t) {
		return
	}
	a.trunk = t
	a.take(&a.stages, kernels.TrunkStageBytes*len(t.Stages))
	for i := range t.Stages {
		if op := t.Stages[i].Op; p.Ops[op].Kind == ir.MaxPool {
			a.take(&t.Stages[i].Largest, 4*a.chunk*ir.Size(p.Ops[op].Out))
		}
	}
}

// trunkOps is how many ops the trunk computes, the first ones.
func (a *arena) trunkOps() int {
	if a.trunk == nil {
		return 0
	}
	return a.trunk.Ops
}

// inTrunk says that the trunk computes an op.
func (a *arena) inTrunk(op int) bool { return op < a.trunkOps() }

func (a *arena) layValues(p *ir.Program, examples int) {
	a.values, a.deltas = make([]kernels.Ptr, len(p.Ops)+1), make([]kernels.Ptr, len(p.Ops)+1)
	a.moments = make([]kernels.Ptr, len(p.Ops))
	for i := range p.Ops {
		if o := a.operation(p, i); o.moments != nil {
			a.take(&a.moments[i], examples*o.moments(&p.Ops[i]))
		}
	}
	for v := range a.values {
		bytes := examples * a.home(ir.Value(v)).bytes(a.math, shapeOf(p, ir.Value(v)))
		if a.fusion.value[v] {
			a.take(&a.values[v], bytes)
		}
		if a.fusion.delta[v] && a.shared[v] == none {
			a.take(&a.deltas[v], bytes)
		}
	}
	a.take(&a.targets, 4*examples)
}

// shareDeltas finds values whose gradient is that of a sum: nobody else reads what is added.
func (a *arena) shareDeltas(p *ir.Program) {
	a.shared = slices.Repeat([]int{none}, len(p.Ops)+1)
	consumers := p.Consumers()
	for i := range p.Ops {
		for _, v := range p.Ops[i].In {
			if p.Ops[i].Kind == ir.Add && consumers[v] == 1 && a.fusion.delta[v] && a.fusion.delta[i+1] && a.home(v) == a.home(ir.Value(i+1)) {
				a.shared[v] = i + 1
			}
		}
	}
}

// share gives them the memory of the sum's, once that has its address.
func (a *arena) share() {
	for v := len(a.shared) - 1; v >= 0; v-- {
		if sum := a.shared[v]; sum != none {
			a.deltas[v] = a.deltas[sum]
		}
	}
}

// layKept lays out the gradients that are kept, as the parameters lie or in the order of the steps.
func (a *arena) layKept(s *ir.Schedule) {
	p := s.Program
	a.keptAt = make([]int, len(p.Ops))
	var kept []int
	parts := 0 // values of all partial sums of an op
	for _, st := range s.Steps {
		switch {
		case st.Kind == ir.GradStore && !a.twice(s, st.Op) || st.Kind == ir.GradSum && (a.inTrunk(st.Op) || a.joins(s, st.Op)):
			kept = append(kept, st.Op)
		case st.Kind == ir.GradStore || st.Kind == ir.GradSum && !a.sumsAgain(s, st.Op):
			if o := a.operation(p, st.Op); o.parts != nil {
				parts = max(parts, o.parts(a.math, &p.Ops[st.Op], a.chunk)*p.OpParams(st.Op))
			}
		}
	}
	if !a.exact { // else norms are added in the order of the steps, as on all devices
		slices.Sort(kept)
	}
	for _, i := range kept {
		a.keptAt[i] = a.stored
		a.stored += p.OpParams(i)
	}
	a.take(&a.kept, 4*a.chunk*a.stored)
	a.take(&a.parts, 4*parts)
}

// layNorms gives every op its parts of its group's squared norm.
func (a *arena) layNorms(s *ir.Schedule) {
	a.group, a.groups = s.Groups()
	a.normAt = make([]int, len(s.Program.Ops))
	parts, ghosts := make([]int, a.groups), 0
	for _, st := range s.Steps {
		n := a.partsOf(s, st)
		if st.Kind == ir.NormGhost {
			if ghosts++; ghosts <= kernels.MostGhosts {
				n = 0 // measured with the factors
			}
		}
		if n == 0 {
			continue
		}
		a.addsNorms = a.addsNorms || !a.inTrunk(st.Op)
		g := a.group[st.Op]
		a.normAt[st.Op] = parts[g]
		parts[g] += n
		a.normParts = max(a.normParts, parts[g])
	}
	a.take(&a.norm2, a.normBytes())
}

// partsOf is in how many parts a step measures an op's squared norm, 0 for a step that measures none.
func (a *arena) partsOf(s *ir.Schedule, st ir.Step) int {
	switch {
	case !st.Kind.Measures():
		return 0
	case a.turning(s, st.Op) == turnedTwice:
		return functions[s.Program.Ops[st.Op].Function].norms(&s.Program.Ops[st.Op], a.chunk)
	case st.Kind == ir.NormGhost || a.inTrunk(st.Op) || a.completes(st.Op): // who does not measure by a kernel of the op
		return 1
	case st.Kind == ir.NormGram && !a.pixels[st.Op]:
		return 1
	}
	return a.storedNorms(s.Program, st.Op)
}

// storedNorms is in how many parts an op's kernels measure gradients that they complete.
func (a *arena) storedNorms(p *ir.Program, i int) int {
	if o := a.operation(p, i); o.norms != nil {
		return o.norms(a.math, &p.Ops[i])
	}
	return 1
}

// twice says of an op that its gradients, which the schedule would keep, are computed again for the sum: on tensor cores that takes less
// time than to write and to read them.
func (a *arena) twice(s *ir.Schedule, i int) bool {
	o := a.operation(s.Program, i)
	return o.twice && s.Private() && !a.exact && !a.completes(i)
}

// take appends a buffer; one of no bytes has no address.
func (a *arena) take(at *kernels.Ptr, bytes int) {
	if bytes == 0 {
		return
	}
	*at = kernels.Ptr(a.bytes)
	a.places = append(a.places, at)
	a.bytes += int64(align(bytes))
}

// measures says whether the trunk is to measure all norms of its convolutions' gradients that are measured. It keeps these gradients even
// where the schedule would sum them at once, though in other blocks of examples.
func measures(s *ir.Schedule, t *kernels.Trunk) bool {
	return !slices.ContainsFunc(s.Steps, func(st ir.Step) bool {
		return st.Op < t.Ops && (st.Kind == ir.NormGram || st.Kind == ir.NormInstantiate)
	})
}

// table is what the trunk's kernels read of the arena, once it is placed.
func (a *arena) table(schedule *ir.Schedule) []byte {
	p := schedule.Program
	for i := range a.trunk.Stages {
		s := &a.trunk.Stages[i]
		op := &p.Ops[s.Op]
		s.Values, s.Bias = a.values[s.Out()+1], -1
		if op.Weight == ir.None {
			continue
		}
		s.Weight, s.Kept = p.Params[op.Weight].Offset, a.keptAt[s.Op]
		if schedule.Private() {
			s.Norm2 = a.norms(s.Op)
		}
		if op.Bias != ir.None {
			s.Bias = p.Params[op.Bias].Offset
		}
	}
	return a.trunk.Table()
}

func (a *arena) normBytes() int { return 8 * a.chunk * a.groups * a.normParts }

// Addresses of an op's part of its group's norms, and of the group's factors.
func (a *arena) norms(op int) kernels.Ptr {
	return a.norm2 + uint64(8*a.chunk*(a.group[op]*a.normParts+a.normAt[op]))
}
func (a *arena) factors(op int) kernels.Ptr { return a.factor + uint64(4*a.chunk*a.group[op]) }

// keep is where the first record's gradient of an op is stored.
func (a *arena) keep(op int) kernels.Ptr { return a.kept + uint64(4*a.keptAt[op]) }
