package kernels

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/privgrad/privgrad/internal/device/devicetest"
	"github.com/privgrad/privgrad/internal/ir"
)

const optIn = 99 << 10 // what the smallest of the architectures gives a block

// trunkPrograms begin with trunks that have, among them, padding of each side, strides, dilation, overlapping pools, means, every
// activation behind convolutions and pools, more positions than a block, filters and channels that fill no four, one stage,
// a pool first.
func trunkPrograms() []*ir.Program {
	var list []*ir.Program
	build := func(name string, shape []int, body func(b *devicetest.Builder) ir.Value) {
		b := devicetest.NewBuilder(name, ir.SoftmaxCrossEntropy, shape...)
		b.Dense(body(b), 3, true)
		list = append(list, b.Program())
	}
	asymmetric := ir.Window{H: 3, W: 2, StrideH: 2, StrideW: 1, PadTop: 1, PadLeft: 2, PadRight: 1, DilationH: 1, DilationW: 2}
	other := ir.Window{H: 2, W: 3, StrideH: 1, StrideW: 2, PadBottom: 2, PadRight: 3, DilationH: 2, DilationW: 1}
	build("lenet", []int{1, 16, 16}, func(b *devicetest.Builder) ir.Value {
		x := b.Pool(ir.MaxPool, b.Act(ir.ReLU, b.Conv(ir.Input, 3, ir.Square(5, 1, 0), true)), ir.Square(2, 2, 0))
		return b.Pool(ir.MaxPool, b.Act(ir.Tanh, b.Conv(x, 6, ir.Square(3, 1, 0), true)), ir.Square(2, 2, 0))
	})
	build("overlapping", []int{1, 14, 13}, func(b *devicetest.Builder) ir.Value {
		x := b.Act(ir.Sigmoid, b.Pool(ir.MaxPool, b.Conv(ir.Input, 5, ir.Square(4, 1, 2), true), ir.Square(2, 1, 0)))
		return b.Act(ir.ReLU, b.Pool(ir.MaxPool, b.Act(ir.ReLU, b.Conv(x, 9, ir.Square(4, 2, 1), false)), ir.Square(3, 1, 1)))
	})
	build("asymmetric", []int{2, 7, 6}, func(b *devicetest.Builder) ir.Value {
		x := b.Act(ir.ReLU, b.Conv(ir.Input, 3, asymmetric, true))
		return b.Act(ir.Tanh, b.Conv(b.Conv(x, 4, other, false), 5, ir.Square(2, 1, 1), true))
	})
	build("means", []int{2, 9, 8}, func(b *devicetest.Builder) ir.Value {
		x := b.Pool(ir.AvgPool, ir.Input, ir.Square(2, 1, 1))
		x = b.Act(ir.Tanh, b.Pool(ir.AvgPool, b.Conv(x, 5, ir.Square(3, 1, 1), true), ir.Square(3, 2, 1)))
		return b.Conv(x, 8, ir.Square(2, 1, 0), true)
	})
	build("one", []int{1, 11, 10}, func(b *devicetest.Builder) ir.Value {
		return b.Act(ir.Sigmoid, b.Conv(ir.Input, 6, ir.Square(3, 1, 1), true))
	})
	for _, act := range []ir.Kind{ir.ReLU, ir.Tanh} {
		build(fmt.Sprint("5x5 with ", act), []int{1, 28, 28}, func(b *devicetest.Builder) ir.Value {
			x := b.Pool(ir.MaxPool, b.Act(act, b.Conv(ir.Input, 6, ir.Square(5, 1, 0), true)), ir.Square(2, 2, 0))
			return b.Pool(ir.MaxPool, b.Act(act, b.Conv(x, 16, ir.Square(5, 1, 0), true)), ir.Square(2, 2, 0))
		})
		build(fmt.Sprint("8x8 with ", act), []int{1, 28, 28}, func(b *devicetest.Builder) ir.Value {
			x := b.Pool(ir.MaxPool, b.Act(act, b.Conv(ir.Input, 16, ir.Square(8, 2, 3), true)), ir.Square(2, 1, 0))
			return b.Pool(ir.MaxPool, b.Act(act, b.Conv(x, 32, ir.Square(4, 2, 0), true)), ir.Square(2, 1, 0))
		})
	}
	return list
}

// trunkRun is a trunk with its memory, beside what the launches one by one have.
type trunkRun struct {
	t      *testing.T
	m      *machine
	p      *ir.Program
	trunk  *Trunk
	s      size
	b      Batch
	params Ptr
	size   int // of the parameters that the trunk has
	stages Ptr
	values []Ptr // by op: outputs as the trunk gives them, activated
	norms  []Ptr // by op
}

func newTrunkRun(t *testing.T, rng *rand.Rand, p *ir.Program, s size, rows ...int32) *trunkRun {
	return newTrunkRunOn(t, newMachine(t), rng, p, s, rows...)
}

func newTrunkRunOn(t *testing.T, m *machine, rng *rand.Rand, p *ir.Program, s size, rows ...int32) *trunkRun {
	r := &trunkRun{t: t, m: m, p: p, trunk: FindTrunk(p, optIn), s: s}
	if r.trunk == nil || r.trunk.Ops != len(p.Ops)-1 {
		t.Fatalf("%s: the trunk is %+v, want %d ops", p.Name, r.trunk, len(p.Ops)-1)
	}
	r.b = r.m.batch(s, rows...)
	r.params = r.m.floats(normals(rng, p.NumParams()))
	r.values, r.norms = make([]Ptr, len(p.Ops)), make([]Ptr, len(p.Ops))
	for i := range r.trunk.Stages {
		st := &r.trunk.Stages[i]
		op := &p.Ops[st.Op]
		n := s.capacity * ir.Size(op.Out)
		st.Values, st.Bias = r.m.floats(fill(n, untouched)), -1
		r.values[st.Out()] = st.Values
		if op.Kind == ir.MaxPool {
			st.Largest = r.m.empty(n)
		}
		if op.Weight == ir.None {
			continue
		}
		st.Norm2 = r.m.doubles(fill64(s.capacity, 3))
		r.norms[st.Op] = st.Norm2
		st.Weight, st.Kept = p.Params[op.Weight].Offset, r.size
		if op.Bias != ir.None {
			st.Bias = p.Params[op.Bias].Offset
		}
		r.size += p.OpParams(st.Op)
	}
	r.stages = r.m.bytes(r.trunk.Table())
	return r
}

func (r *trunkRun) param(q int) Ptr {
	if q == ir.None {
		return 0
	}
	return r.params + Ptr(4*r.p.Params[q].Offset)
}

// Every value, kept gradient and target has the bits of the launches one by one.
func TestTrunk(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 1))
	for _, p := range trunkPrograms() {
		for _, s := range []size{{3, 4}, {1, 1}, {0, 2}} {
			t.Run(fmt.Sprintf("%s, %v", p.Name, s), func(t *testing.T) { testTrunk(t, rng, p, s, Bytes) })
		}
		for _, form := range []Form{Floats, Halves} {
			t.Run(fmt.Sprintf("%s, form %d", p.Name, form), func(t *testing.T) { testTrunk(t, rng, p, size{2, 3}, form) })
		}
	}
}

func testTrunk(t *testing.T, rng *rand.Rand, p *ir.Program, s size, form Form) {
	rows := []int32{4, 0, 2}[:s.live]
	r := newTrunkRun(t, rng, p, s, rows...)
	m, b, width := r.m, r.b, ir.Size(p.Shape)
	features, targets := make([]float32, 5*width), []float32{0, 1, 2, 1, 2}
	for i := range features {
		features[i] = float32(rng.IntN(6)) // ties
	}
	if form != Bytes {
		features[1], targets[0] = nan32, nan32 // a row of zeros
	}
	tables, _ := m.tables(features, targets, width)
	table := tables[form]
	images, to := m.floats(fill(s.capacity*width, untouched)), m.floats(fill(s.capacity, untouched))
	m.launch(TrunkForward(b, r.trunk, table, images, to, r.params, r.stages))

	x, wantTo := m.empty(s.capacity*width), m.empty(s.capacity)
	m.launch(Gather(b, table, x, wantTo))
	same(t, "targets", m.read(to, s.capacity), m.read(wantTo, s.capacity))
	same(t, "images", m.read(images, s.live*width), m.read(x, s.live*width))
	same(t, "dead images", m.read(images, s.capacity*width)[s.live*width:], fill((s.capacity-s.live)*width, untouched))
	values := []Ptr{x}
	for i := range r.trunk.Ops {
		op := &p.Ops[i]
		n := ir.Size(op.Out)
		y := m.empty(s.capacity * n)
		switch op.Kind {
		case ir.Conv:
			m.launch(ConvForward(b, op, values[i], r.param(op.Weight), r.param(op.Bias), y))
		case ir.MaxPool:
			m.launch(MaxPool(b, op, values[i], y))
		case ir.AvgPool:
			m.launch(AvgPool(b, op, values[i], y))
		default:
			m.launch(activation(t, Activation)(b, op, values[i], y))
		}
		values = append(values, y)
		if got := r.values[i]; got != 0 {
			same(t, fmt.Sprintf("values of op %d", i), m.read(got, s.live*n), m.read(y, s.live*n))
			same(t, "dead values", m.read(got, s.capacity*n)[s.live*n:], fill((s.capacity-s.live)*n, untouched))
		}
	}

	last := r.trunk.Ops - 1
	out := ir.Size(p.Ops[last].Out)
	through := p.Ops[last].Kind.Activation() && s.live == 1 // with gradients as the op behind it may leave them
	dy := m.floats(spoil(normals(rng, s.capacity*out), s.live, s.capacity))
	stride := r.size + 2
	kept, want := m.floats(fill(s.capacity*stride, untouched)), m.floats(fill(s.capacity*stride, untouched))
	m.launch(TrunkBackward(b, r.trunk, images, dy, through, r.params, kept, stride, r.stages))
	for i, at := last, r.size; i >= 0; i-- {
		op := &p.Ops[i]
		dx := m.empty(s.capacity * ir.Size(op.Shape))
		switch {
		case op.Kind == ir.Conv:
			at -= p.OpParams(i)
			norms := m.doubles(fill64(s.capacity*ConvNorms(op), 0))
			m.launch(ConvStore(b, op, values[i], dy, want+Ptr(4*at), stride, norms))
			sums := make([]float64, s.capacity)
			for j, n := range m.readDoubles(norms, s.capacity*ConvNorms(op)) {
				sums[j%s.capacity] += n
			}
			for e, n := range m.readDoubles(r.norms[i], s.capacity) {
				want := sums[e]
				if e >= s.live {
					want = 3 // as it was
				}
				close64(t, fmt.Sprintf("squared norm of op %d, example %d", i, e), n, want, 1e-13)
			}
			m.launch(ConvInputGrad(b, op, dy, r.param(op.Weight), dx, false))
		case op.Kind == ir.MaxPool:
			m.launch(MaxPoolGrad(b, op, values[i], dy, dx, false))
		case op.Kind == ir.AvgPool:
			m.launch(AvgPoolGrad(b, op, dy, dx, false))
		case i == last && through:
			dx = dy
		default:
			l, err := ActivationGrad(b, op, values[i+1], dy, dx, false)
			if err != nil {
				t.Fatal(err)
			}
			m.launch(l)
		}
		dy = dx
	}
	same(t, "kept gradients", m.read(kept, s.capacity*stride), m.read(want, s.capacity*stride))
}

// What FindTrunk takes, and what it leaves.
func TestFindTrunk(t *testing.T) {
	ops := func(p *ir.Program, shared int) int {
		if trunk := FindTrunk(p, shared); trunk != nil {
			return trunk.Ops
		}
		return 0
	}
	names := map[string]int{
		"cnn-mnist": 6, "mnist-tf": 6,
		"mlp-mnist":   0, // no convolution
		"conv-logits": 0, // the logits are not a trunk's
		"residual":    2, // what is read twice ends it
		"thrice":      1,
		"reshape":     0, // it does not begin with one
	}
	for _, p := range devicetest.Programs() {
		want, ok := names[p.Name]
		if !ok {
			continue
		}
		if got := ops(p, optIn); got != want {
			t.Errorf("%s: the trunk has %d ops, want %d", p.Name, got, want)
		}
		delete(names, p.Name)
	}
	if len(names) > 0 {
		t.Errorf("there are no programs %v", names)
	}
	p := devicetest.LeNet("cnn-mnist", 28, 6, 16, 256, 128)
	trunk := FindTrunk(p, optIn)
	if trunk == nil || ops(p, trunk.backward) != 6 || ops(p, trunk.backward-1) != 0 {
		t.Error("the shared memory that a trunk needs decides whether it is taken")
	}
	if ops(devicetest.LeNet("large", 64, 32, 64, 8, 8), 1<<30) != 0 {
		t.Error("a trunk with too much work for a block is taken")
	}
	if trunk.fixed == nil || FindTrunk(devicetest.LeNet("wider", 28, 7, 16, 8, 8), optIn).fixed != nil {
		t.Error("kernels of a fixed geometry are for just that")
	}
	if g := trunk.General(); g.fixed != nil || g.forward <= 4*g.weights || g.backward <= 4*g.scratch || g.Ops != 6 {
		t.Errorf("the general trunk is %+v", g)
	}
	if b := trunk.Table(); len(b) != 4*TrunkStageBytes || binary.LittleEndian.Uint32(b[TrunkStageBytes:]) != 1 {
		t.Error("the table has another layout")
	}
}
