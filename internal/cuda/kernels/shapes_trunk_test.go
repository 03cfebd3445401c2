package kernels

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/devicetest"
	"github.com/privgrad/privgrad/internal/ir"
)

// wideTrunk is a trunk in sparse memory.
type wideTrunk struct {
	*wide
	p                         *ir.Program
	trunk                     *Trunk
	images, to, params, delta *place
	values                    []*place // by op, where the trunk leaves any
	kept                      *place
	stride                    int
	bytes, targets            *place // of the table
	width                     int
}

func (s *wide) addTrunk(p *ir.Program, trunk *Trunk) *wideTrunk {
	n, width := s.b.Capacity, ir.Size(p.Shape)
	r := &wideTrunk{wide: s, p: p, trunk: trunk, width: width, values: make([]*place, len(p.Ops))}
	r.images, r.to, r.params = s.floats(n*width), s.floats(n), s.floats(p.NumParams())
	r.bytes, r.targets = s.floats(tableRows*width/4), s.floats(tableRows)
	for i := range trunk.Stages {
		st := &trunk.Stages[i]
		op := &p.Ops[st.Op]
		y := s.floats(n * ir.Size(op.Out))
		r.values[st.Out()] = y
		st.Values, st.Bias = y.Ptr, -1
		if op.Kind == ir.MaxPool {
			st.Largest = s.zeros(y.words).Ptr
		}
		if op.Weight == ir.None {
			continue
		}
		st.Norm2 = s.zeros(2 * n).Ptr
		st.Weight, st.Kept = p.Params[op.Weight].Offset, r.stride
		if op.Bias != ir.None {
			st.Bias = p.Params[op.Bias].Offset
		}
		r.stride += p.OpParams(st.Op)
	}
	r.kept, r.delta = s.floats(n*r.stride), s.floats(n*ir.Size(p.Ops[trunk.Ops-1].Out))
	return r
}

// launches are those of the trunk.
func (r *wideTrunk) launches() (forward, backward Launch) {
	text := r.trunk.Table()
	stages := r.place(len(text)/4, func(i int) uint32 { return binary.LittleEndian.Uint32(text[4*i:]) }).Ptr
	table := &Table{Form: Bytes, Values: r.bytes.Ptr, Targets: r.targets.Ptr, Width: r.width, Maps: MapsOf(ir.Gather{ir.ScaledBy(1./255, 0)})}
	return TrunkForward(r.b, r.trunk, table, r.images.Ptr, r.to.Ptr, r.params.Ptr, stages),
		TrunkBackward(r.b, r.trunk, r.images.Ptr, r.delta.Ptr, false, r.params.Ptr, r.kept.Ptr, r.stride, stages)
}

// rows are those of so many elements in which something was written.
func (r *wideTrunk) rows(p *place, size int) map[int]bool {
	rows := map[int]bool{}
	for _, c := range r.changes(&result{place: p}) {
		rows[c.element/size] = true
	}
	return rows
}

// realTrunk takes examples through the trunk, and one by one through the launches that it stands for: the bits are the same.
func realTrunk(t *testing.T, p *ir.Program, capacity, shared int) {
	t.Helper()
	trunk := FindTrunk(p, shared)
	if trunk == nil {
		return
	}
	s := newWide(t, Math(device.Float32), capacity)
	s.shared = shared
	r := s.addTrunk(p, trunk)
	forward, backward := r.launches()
	last := trunk.Ops - 1
	seen := map[int]bool{}
	for _, share := range []float64{0, rand.New(rand.NewPCG(uint64(capacity), 6)).Float64(), 1} {
		s.run(forward, only(int(share*float64(forward.Grid[0]-1))))
		s.run(backward, only(int(share*float64(backward.Grid[0]-1))))
		there, back := r.rows(r.values[last], ir.Size(p.Ops[last].Out)), r.rows(r.kept, r.stride)
		for e := range back {
			if there[e] && !seen[e] {
				seen[e] = true
				r.oneByOne(e)
			}
		}
	}
	if !seen[0] || !seen[capacity-1] {
		t.Errorf("%s, %d examples: blocks at the ends of %v and %v have examples %v", p.Name, capacity, forward.Grid, backward.Grid, seen)
	}
}

// copied is a place of its own for row e of another.
func (r *wideTrunk) copied(p *place, e, size int) *place {
	x := r.now(p, e*size, size)
	return r.place(size, func(i int) uint32 { return math.Float32bits(x[i]) })
}

// oneByOne compares what trunks have left of an example.
func (r *wideTrunk) oneByOne(e int) {
	t, p := r.t, r.p
	t.Helper()
	b := Batch{Run: r.b.Run, First: e, Capacity: 1}
	param := func(q int) Ptr {
		if q == ir.None {
			return 0
		}
		return r.params.Ptr + Ptr(4*p.Params[q].Offset)
	}
	what := fmt.Sprintf("%s, example %d of %d: ", p.Name, e, r.b.Capacity)
	image := make([]float32, r.width)
	for j := range image {
		i := tableRow(e)*r.width + j
		image[j] = float32(float64(byte(r.bytes.word(i/4)>>(i%4*8))) * float64(float32(1./255)))
	}
	same(t, what+"image", r.now(r.images, e*r.width, r.width), image)
	same(t, what+"target", r.now(r.to, e, 1), []float32{float32(r.targets.at(tableRow(e)))})
	x := []*place{r.copied(r.images, e, r.width)}
	for i := range r.trunk.Ops {
		op := &p.Ops[i]
		n := ir.Size(op.Out)
		y := r.floats(n)
		var l Launch
		switch op.Kind {
		case ir.Conv:
			l = ConvForward(b, op, x[i].Ptr, param(op.Weight), param(op.Bias), y.Ptr)
		case ir.MaxPool:
			l = MaxPool(b, op, x[i].Ptr, y.Ptr)
		case ir.AvgPool:
			l = AvgPool(b, op, x[i].Ptr, y.Ptr)
		default:
			l = activation(t, Activation)(b, op, x[i].Ptr, y.Ptr)
		}
		r.run(l, nil)
		if got := r.values[i]; got != nil {
			same(t, fmt.Sprintf("%soutput of op %d", what, i), r.now(got, e*n, n), r.now(y, 0, n))
		}
		x = append(x, y)
	}
	dy, kept, at := r.copied(r.delta, e, r.delta.words/r.b.Capacity), r.floats(r.stride), r.stride
	for i := r.trunk.Ops - 1; i >= 0; i-- {
		op := &p.Ops[i]
		dx := r.floats(ir.Size(op.Shape))
		var l Launch
		switch op.Kind {
		case ir.Conv:
			at -= p.OpParams(i)
			r.run(ConvStore(b, op, x[i].Ptr, dy.Ptr, kept.Ptr+Ptr(4*at), r.stride, r.zeros(2*ConvNorms(op)).Ptr), nil)
			l = ConvInputGrad(b, op, dy.Ptr, param(op.Weight), dx.Ptr, false)
		case ir.MaxPool:
			l = MaxPoolGrad(b, op, x[i].Ptr, dy.Ptr, dx.Ptr, false)
		case ir.AvgPool:
			l = AvgPoolGrad(b, op, dy.Ptr, dx.Ptr, false)
		default:
			var err error
			if l, err = ActivationGrad(b, op, x[i+1].Ptr, dy.Ptr, dx.Ptr, false); err != nil {
				t.Fatal(err)
			}
		}
		r.run(l, nil)
		dy = dx
	}
	same(t, what+"kept gradient", r.now(r.kept, e*r.stride, r.stride), r.now(kept, 0, r.stride))
}

// TestLongLargeTrunk takes a trunk that only GPUs with more than 99 KiB of shared memory a block have.
func TestLongLargeTrunk(t *testing.T) {
	const large = 227 << 10
	channels := 8
	p := devicetest.LeNet("large", 28, channels, channels, 8, 8)
	for FindTrunk(p, optIn) != nil {
		channels += 4
		p = devicetest.LeNet("large", 28, channels, channels, 8, 8)
	}
	if FindTrunk(p, large) == nil {
		t.Fatalf("there is no trunk of %d channels", channels)
	}
	for _, capacity := range []int{300, 4096} {
		realTrunk(t, p, capacity, large)
	}
}
