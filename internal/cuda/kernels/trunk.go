package kernels

import (
	"encoding/binary"
	"slices"

	"github.com/privgrad/privgrad/internal/ir"
)

// Trunk is how a network of small images begins: convolutions and pools, each with at most an activation
// behind it, and each read by the next alone. One block takes an example through all of it, what lies between
// them staying in shared memory: TrunkForward is Gather, the forward passes and their activations, TrunkBackward
// is ConvStore of every convolution and the input gradients between them.
//
// Values and gradients have the bits that the launches one by one give; only the squares of a norm are added in
// another order, in float64.
type Trunk struct {
	Ops    int // that it covers: the first ones of the program
	Stages []TrunkStage

	weights, scratch  int         // places in shared memory, in floats
	forward, backward int         // bytes of it
	fixed             *fixedTrunk // kernels for just this geometry, or nil
}

// TrunkStage is a convolution or a pool. The device fills in where its parts lie.
type TrunkStage struct {
	Op  int
	Act ir.Kind // behind it, or 0

	Weight, Bias, Kept int // places among the parameters, and in a row of kept gradients; Bias −1 is none
	Values             Ptr // the stage's output, activated
	Largest            Ptr // int32, of a maximum pool: for each output the pixel that won, which TrunkForward leaves for TrunkBackward
	Norm2              Ptr // of a convolution: where its squared norms are written, float64 [example]

	op              *ir.Op
	x, y, input, dy int
}

// Out is the last op of a stage.
func (s *TrunkStage) Out() int {
	if s.Act != noActivation {
		return s.Op + 1
	}
	return s.Op
}

// mostTrunkFLOPs bounds what one block of threads should do for an example on its way forward: beyond that, launches op by op keep a
// GPU busier.
const mostTrunkFLOPs = 4e6

const (
	trunkThreads = 256
	trunkSums    = 2 * trunkThreads // floats, at the beginning of shared memory on the way back
)

// FindTrunk gives the trunk of a program, or nil where it has none that fits into so many bytes of shared memory.
func FindTrunk(p *ir.Program, shared int) *Trunk {
	t := &Trunk{}
	consumers, flops, convs := p.Consumers(), 0.0, 0
	for i := 0; i+1 < len(p.Ops); {
		op := &p.Ops[i]
		if len(op.In) != 1 || int(op.In[0]) != i || consumers[i] != 1 || op.Function != ir.Identity || op.Kind != ir.Conv && op.Kind != ir.MaxPool && op.Kind != ir.AvgPool {
			break
		}
		s := TrunkStage{Op: i, op: op}
		if next := &p.Ops[i+1]; Fusible(next.Kind) && consumers[i+1] == 1 && int(next.In[0]) == i+1 {
			s.Act = next.Kind
		}
		if s.Out() == len(p.Ops)-1 {
			break // the logits
		}
		if flops += float64(op.FLOPs()); op.Kind == ir.Conv {
			convs++
		}
		t.Stages = append(t.Stages, s)
		i = s.Out() + 1
		t.Ops = i
	}
	if convs == 0 || flops > mostTrunkFLOPs {
		return nil
	}
	if t.fixed = fixedFor(p, t.Stages); t.fixed != nil {
		t.forward, t.backward = t.fixed.forward, t.fixed.backward
	} else {
		t.layOut()
	}
	if t.forward > shared || t.backward > shared {
		return nil
	}
	return t
}

// General is the trunk without kernels for just its geometry.
func (t *Trunk) General() *Trunk {
	g := &Trunk{Ops: t.Ops, Stages: slices.Clone(t.Stages)}
	g.layOut()
	return g
}

// layOut gives everything a place in shared memory. Outputs, and gradients, of neighbours lie in two places in turn.
func (t *Trunk) layOut() {
	fours := func(n int) int { return ceil(n, 4) * 4 }
	room := func(n int) int { return 4 * (ceil(n, 4) | 1) } // quads in trunk.cu
	var values, deltas [2]int
	values[0] = fours(ir.Size(t.Stages[0].op.Shape))
	inputs, weights, scratch := 0, 0, 0
	for i := range t.Stages {
		s := &t.Stages[i]
		values[(i+1)%2] = max(values[(i+1)%2], fours(ir.Size(s.op.Out)))
		dy := ir.Size(s.op.Out)
		if s.op.Kind == ir.Conv {
			out, k, positions := s.op.Columns()
			s.input = trunkSums + inputs
			w := s.op.Window // Read in trunk.cu
			inputs += fours(s.op.Shape[0] * ((s.op.Out[1]-1)*w.StrideH + (w.H-1)*w.DilationH + 1) * ((s.op.Out[2]-1)*w.StrideW + (w.W-1)*w.DilationW + 1))
			weights = max(weights, k*room(out))
			again := 0 // δ position by position
			if i == 0 {
				dy = positions * room(out)
			} else {
				again = positions * room(out)
				scratch = max(scratch, out*s.op.Window.H*s.op.Window.W*fours(s.op.Shape[0]))
			}
			if blocks := ceil(positions, PositionBlock); blocks > 1 {
				again += blocks * out * (k + 1)
			}
			scratch = max(scratch, again)
		}
		deltas[i%2] = max(deltas[i%2], fours(dy))
	}
	for i := range t.Stages {
		s := &t.Stages[i]
		s.x, s.y = i%2*values[0], (i+1)%2*values[0]
		s.dy = trunkSums + inputs + i%2*deltas[0]
	}
	t.weights, t.scratch = values[0]+values[1], trunkSums+inputs+deltas[0]+deltas[1]
	t.forward, t.backward = 4*(t.weights+weights), 4*(t.scratch+scratch)
}

// TrunkStageBytes is the size of a stage in device memory.
const TrunkStageBytes = 120

// Table is the stages as TrunkForward and TrunkBackward read them.
func (t *Trunk) Table() []byte {
	var b []byte
	for i := range t.Stages {
		s := &t.Stages[i]
		kind := map[ir.Kind]int{ir.Conv: 0, ir.MaxPool: 1, ir.AvgPool: 2}[s.op.Kind]
		numbers := []uint64{I(kind), I(int(s.Act))}
		numbers = append(numbers, geometry(s.op)...)
		for _, n := range []int{s.Weight, s.Bias, s.Kept, s.x, s.y, s.input, s.dy, 0} {
			numbers = append(numbers, I(n))
		}
		for _, n := range numbers {
			b = binary.LittleEndian.AppendUint32(b, uint32(n))
		}
		for _, p := range []Ptr{s.Values, s.Largest, s.Norm2} {
			b = binary.LittleEndian.AppendUint64(b, p)
		}
	}
	return b
}

// TrunkForward is Gather and the trunk's forward pass with a flat vector of parameters: it writes images, targets and every
// stage's Values. stages is the Table. Of dead rows it writes the targets alone.
func TrunkForward(b Batch, t *Trunk, table *Table, images, to, params, stages Ptr) Launch {
	if t.fixed != nil {
		return t.fixed.forwardOf(b, t, table, images, to, params)
	}
	return Launch{
		Module: "trunk", Name: "trunk_forward", Grid: [3]int{b.Capacity, 1, 1}, Block: [3]int{trunkThreads, 1, 1}, Shared: t.forward,
		Args: b.args(append(table.args(), images, to, params, stages, I(len(t.Stages)), I(t.weights))...),
	}
}

// TrunkBackward takes the gradient delta at the trunk's output, or, where through is set, at the input of its last stage's
// activation, back to the first convolution: it keeps every convolution's gradient, as ConvStore does, in rows of
// stride values.
func TrunkBackward(b Batch, t *Trunk, images, delta Ptr, through bool, params, kept Ptr, stride int, stages Ptr) Launch {
	if t.fixed != nil { // whose last stage has no activation
		return t.fixed.backwardOf(b, t, images, delta, params, kept, stride)
	}
	return Launch{
		Module: "trunk", Name: "trunk_backward", Grid: [3]int{b.Capacity, 1, 1}, Block: [3]int{trunkThreads, 1, 1}, Shared: t.backward,
		Args: b.args(images, delta, flag(!through), params, kept, I(stride), stages, I(len(t.Stages)), I(t.scratch)),
	}
}
