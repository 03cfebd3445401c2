package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ir"
)

// normOp is a normalization of so many groups.
func normOp(groups int, bias bool, shape ...int) *ir.Op {
	op := &ir.Op{Kind: ir.GroupNorm, Shape: shape, Out: shape, Groups: groups, Epsilon: 1e-3, Bias: ir.None}
	if bias {
		op.Bias = 1
	}
	return op
}

// normalized is (x−μ)/√(v+ε) of an example, and 1/√(v+ε) of each element's group.
func normalized(op *ir.Op, x []float32) (y, scale []float64) {
	moments := momentsOf(op, x)
	for i, v := range x {
		m := moments[i*op.Groups/len(x)]
		y, scale = append(y, (float64(v)-m[0])*m[1]), append(scale, m[1])
	}
	return y, scale
}

// momentsOf are μ and 1/√(v+ε) of each group of an example.
func momentsOf(op *ir.Op, x []float32) (moments [][2]float64) {
	size := len(x) / op.Groups
	for first := 0; first < len(x); first += size {
		sum, squares := 0.0, 0.0
		for _, v := range x[first : first+size] {
			sum += float64(v)
		}
		mean := sum / float64(size)
		for _, v := range x[first : first+size] {
			squares += (float64(v) - mean) * (float64(v) - mean)
		}
		moments = append(moments, [2]float64{mean, 1 / math.Sqrt(squares/float64(size)+op.Epsilon)})
	}
	return moments
}

// normed is a group norm of a batch in one of the layouts: in planes under float32, else in pixels.
type normed struct {
	*twin
	op          *ir.Op
	name        string
	x, dy, w, b []float32 // as kernels get them
	xs, dys     Ptr
	ws, bs      Ptr
	moments     Ptr
}

func newNormed(t *testing.T, k Math, op *ir.Op, s size, x, dy []float32, rng *rand.Rand) *normed {
	n := &normed{twin: newTwin(t, k, s), op: op, name: fmt.Sprintf("%s, %v in %d groups, %v", k, op.Shape, op.Groups, s)}
	n.x, n.xs = n.input(x)
	n.dy, n.dys = n.input(dy)
	n.w, n.b = normals(rng, op.Shape[0]), make([]float32, op.Shape[0])
	if n.ws = n.floats(n.w); op.Bias != ir.None {
		n.b = normals(rng, op.Shape[0])
		n.bs = n.floats(n.b)
	}
	n.moments = n.alloc(s.capacity * MomentBytes(op))
	return n
}

func (n *normed) planes() bool { return n.k.plain() }

func (n *normed) input(x []float32) ([]float32, Ptr) {
	planes, pixels := n.value(n.op.Shape, x)
	if n.planes() {
		pixels = planes
	}
	return n.read(planes, len(x)), pixels
}

func (n *normed) output(v float32, all bool) Ptr {
	planes, pixels := n.before(n.op.Shape, v, all)
	if n.planes() {
		return planes
	}
	return pixels
}

// result is what live examples have, dead ones having what was there.
func (n *normed) result(what string, p Ptr, before float32) []float32 {
	n.t.Helper()
	if !n.planes() {
		return n.live(n.name+": "+what, n.op.Shape, p, before)
	}
	size := ir.Size(n.op.Shape)
	all := n.read(p, n.s.capacity*size)
	same(n.t, n.name+": dead "+what, all[n.s.live*size:], fill((n.s.capacity-n.s.live)*size, before))
	return all[:n.s.live*size]
}

func (n *normed) forward(act ir.Kind) []float32 {
	n.t.Helper()
	y, f := n.output(untouched, true), n.k.GroupNormActivated
	if n.planes() {
		f = GroupNormActivated
	}
	n.launch(f(n.twin.b, n.op, act, n.xs, n.ws, n.bs, y, n.moments))
	return n.result("y", y, untouched)
}

// wayBack is what a way back gave: dx, what was kept, a stride for each example, and squared norms.
type wayBack struct {
	dx, kept []float32
	norms    []float64
}

const keptBehind = 3 // values between examples

func (n *normed) stride() int { return n.params() + keptBehind }

func (n *normed) params() int {
	if n.op.Bias == ir.None {
		return n.op.Shape[0]
	}
	return 2 * n.op.Shape[0]
}

// backward fills in where a way back leaves what it computes: w says what is wanted by addresses that are not 0.
func (n *normed) backward(w NormBack) (g wayBack) {
	n.t.Helper()
	f, parts := n.k.GroupNormBackward, n.k.GroupNormNorms
	if n.planes() {
		f, parts = GroupNormBackward, GroupNormNorms
	}
	w.X, w.Weight, w.Moments = n.xs, n.ws, n.moments
	if w.Dy == 0 {
		w.Dy = n.dys
	}
	before := float32(untouched)
	if w.Add {
		before = 0.75
	}
	if w.Dx != 0 {
		w.Dx = n.output(before, !w.Add)
	}
	if w.Kept != 0 {
		w.Kept, w.Stride = n.floats(fill(n.s.capacity*n.stride(), untouched)), n.stride()
	}
	if w.Norm2 != 0 {
		w.Norm2 = n.doubles(fill64(n.s.capacity*parts(n.op), 3))
	}
	n.launch(f(n.twin.b, n.op, w))
	if w.Dx != 0 {
		g.dx = n.result("dx", w.Dx, before)
	}
	if w.Kept != 0 {
		g.kept = n.read(w.Kept, n.s.capacity*n.stride())
	}
	if w.Norm2 != 0 {
		all := n.readDoubles(w.Norm2, n.s.capacity*parts(n.op))
		g.norms = make([]float64, n.s.capacity)
		for i, v := range all {
			g.norms[i%n.s.capacity] += v - 3
		}
	}
	return g
}

// off is the rounding of what is written last, of a sum with what was there.
func (n *normed) off(want float64) float64 {
	digits := map[device.Precision]float64{device.Float32: 24, device.TF32: 11, device.BF16: 8}[device.Precision(n.k)]
	return math.Exp2(-digits) * 1.01 * math.Abs(want)
}

func (n *normed) within(what string, i int, got float32, want, bound float64) {
	n.t.Helper()
	if d := math.Abs(float64(got) - want); !(d <= bound) {
		n.t.Fatalf("%s: %s %d is %v, want %v within %.3g: off by %.3g", n.name, what, i, got, want, bound, d)
	}
}

// disorder is how much smaller the errors of moments of numbers in no order are.
const disorder = 30

// checkForward compares with moments in float64: μ and √v err by shares of the bounds. In units u of float32, the scale times the weight, the difference from the mean's upper half and
// what is added to the product round once each, and the result.
func (n *normed) checkForward(y []float32, share float64) {
	n.t.Helper()
	size, moments := ir.Size(n.op.Shape), n.readDoubles(n.moments, n.s.live*2*n.op.Groups)
	for e := range n.s.live {
		hat, _ := normalized(n.op, n.x[e*size:(e+1)*size])
		for g, m := range momentsOf(n.op, n.x[e*size:(e+1)*size]) {
			mean, scale := moments[2*(e*n.op.Groups+g)], moments[2*(e*n.op.Groups+g)+1]
			if d := math.Abs(mean-m[0]) * m[1]; !(d <= GroupNormMeanError*share) {
				n.t.Fatalf("%s: the mean %v of group %d errs by %.3g of its deviation", n.name, mean, g, d)
			}
			if d := math.Abs(scale/m[1] - 1); !(d <= 1.001*GroupNormError*share) {
				n.t.Fatalf("%s: the scale %v of group %d errs by %.3g of it", n.name, scale, g, d)
			}
		}
		for i, h := range hat {
			w, b := float64(n.w[i*len(n.w)/size]), float64(n.b[i*len(n.w)/size])
			want := h*w + b
			bound := (1.001*GroupNormError*share+3*unit)*math.Abs(h*w) + 1.01*GroupNormMeanError*share*math.Abs(w) + 2*unit*math.Abs(b) + unit*math.Abs(want)
			n.within("y", e*size+i, y[e*size+i], want, bound+n.off(want))
		}
	}
}

// checkBackward compares with sums in float64 that take the moments as they are. A sum of d or of d·(x−μ) passes 16 additions in float32 and a few other roundings.
func (n *normed) checkBackward(g wayBack, add float32) {
	n.t.Helper()
	size, channels := ir.Size(n.op.Shape), n.op.Shape[0]
	group, moments := size/n.op.Groups, n.readDoubles(n.moments, n.s.live*2*n.op.Groups)
	const u = 24 * unit
	for e := range n.s.live {
		sum, slope := make([]truth, n.op.Groups), make([]truth, n.op.Groups)
		own := make([]truth, 2*channels)
		hat := make([]float64, size)
		for i := range size {
			c, k, d := i*channels/size, i/group, float64(n.dy[e*size+i])
			m := moments[2*(e*n.op.Groups+k):]
			hat[i] = (float64(n.x[e*size+i]) - m[0]) * m[1]
			own[c].add(d, hat[i])
			own[channels+c].add(d)
			sum[k].add(d, float64(n.w[c])/float64(group))
			slope[k].add(d, hat[i], float64(n.w[c])/float64(group))
		}
		for i := range size {
			k, d := i/group, float64(n.dy[e*size+i])*float64(n.w[i*channels/size])
			scale := moments[2*(e*n.op.Groups+k)+1]
			want := scale*(d-sum[k].sum-hat[i]*slope[k].sum) + float64(add)
			bound := u * (scale*(math.Abs(d)+sum[k].size+math.Abs(hat[i])*slope[k].size) + float64(add))
			n.within("dx", e*size+i, g.dx[e*size+i], want, bound+n.off(want))
		}
		kept := g.kept[e*n.stride() : (e+1)*n.stride()]
		norm := 0.0
		for i, v := range kept[:n.params()] {
			n.within("gradient", i, v, own[i].sum, u*own[i].size)
			norm += float64(v) * float64(v)
		}
		same(n.t, n.name+": what is not written", kept[n.params():], fill(keptBehind, untouched))
		close64(n.t, n.name+": norm of what is kept", g.norms[e], norm, 1e-13)
	}
	for e := n.s.live; e < n.s.capacity; e++ {
		same(n.t, n.name+": dead gradient", g.kept[e*n.stride():(e+1)*n.stride()], fill(n.stride(), untouched))
		close64(n.t, n.name+": dead norm", g.norms[e], 0, 0)
	}
}

var normOps = []*ir.Op{
	normOp(1, true, 3, 2, 3), normOp(3, false, 3, 2, 2), normOp(2, true, 8, 3, 5), normOp(8, true, 8, 2, 2), normOp(17, true, 17, 1, 4),
	normOp(1, true, 17, 3, 3), normOp(3, true, 24, 4, 4), normOp(8, false, 24, 3, 2), normOp(24, true, 24, 2, 4), normOp(4, true, 12, 2, 2),
	normOp(2, true, 6), normOp(1, true, 300),
	normOp(20, true, 40, 20, 20), // in several slabs
	normOp(3, true, 3, 17, 128),  // more pixels than threads have in a run, in planes
	normOp(1, true, 260, 3, 44),  // and in pixels
}

func eachNorm(t *testing.T, f func(n *normed)) {
	rng := rand.New(rand.NewPCG(15, 15))
	for _, k := range maths {
		for i, op := range normOps {
			s := []size{{2, 3}, {0, 1}, {3, 3}}[i%3]
			if ir.Size(op.Shape) > 4000 {
				s = size{1, 2}
			}
			x, dy := normals(rng, s.capacity*ir.Size(op.Shape)), normals(rng, s.capacity*ir.Size(op.Shape))
			for i := range x {
				x[i] += 3 // a mean far from zero
			}
			f(newNormed(t, k, op, s, x, dy, rng))
		}
	}
}

func TestGroupNorm(t *testing.T) {
	eachNorm(t, func(n *normed) {
		n.checkForward(n.forward(noActivation), 1./disorder)
		for _, add := range halves {
			before := float32(0)
			if add {
				before = 0.75
			}
			n.checkBackward(n.backward(NormBack{Dx: 1, Add: add, Kept: 1, Norm2: 1}), before)
		}
	})
}

// Launches that do a part of it have the same bits, and a ReLU that is fused changes none.
func TestGroupNormParts(t *testing.T) {
	eachNorm(t, func(n *normed) {
		y := n.forward(noActivation)
		for _, w := range []NormBack{{Dx: 1}, {Kept: 1, Norm2: 1}, {Norm2: 1}, {Kept: 1}} {
			whole, got := n.backward(NormBack{Dx: 1, Kept: 1, Norm2: 1}), n.backward(w)
			same(t, n.name+": dx alone", got.dx, whole.dx[:len(got.dx)])
			same(t, n.name+": gradients alone", got.kept, whole.kept[:len(got.kept)])
			for i, v := range got.norms {
				close64(t, n.name+": norm alone", v, whole.norms[i], 0)
			}
		}
		for i, v := range y {
			if !(v > 0) {
				y[i] = 0
			}
		}
		same(t, n.name+": y of a ReLU", n.forward(ir.ReLU), y)
		// x as a ReLU would have given it, where it is above zero.
		want, got := n.backward(NormBack{Dx: 1, Kept: 1, Norm2: 1}), n.backward(NormBack{Dx: 1, Kept: 1, Norm2: 1, Through: ir.ReLU})
		for i := range n.x[:n.s.live*len(n.x)/n.s.capacity] {
			if !(n.x[i] > 0) {
				want.dx[i] = 0
			}
		}
		same(t, n.name+": dx through a ReLU", got.dx, want.dx)
		same(t, n.name+": gradients of a ReLU", got.kept, want.kept)
		for i, v := range got.norms {
			close64(t, n.name+": norm of a ReLU", v, want.norms[i], 0)
		}
	})
}

// In planes, today's launches have the bits of the one that does all.
func TestGroupNormAlone(t *testing.T) {
	eachNorm(t, func(n *normed) {
		if !n.planes() {
			return
		}
		y, dx, kept := n.output(untouched, true), n.output(untouched, true), n.floats(fill(n.s.capacity*n.stride(), untouched))
		norms, moments := n.doubles(fill64(n.s.capacity, 3)), n.alloc(n.s.capacity*MomentBytes(n.op))
		same(t, n.name+": y", func() []float32 {
			n.launch(GroupNorm(n.twin.b, n.op, n.xs, n.ws, n.bs, y, moments))
			return n.result("y", y, untouched)
		}(), n.forward(noActivation))
		n.launch(GroupNormBackward(n.twin.b, n.op, NormBack{X: n.xs, Dy: n.dys, Weight: n.ws, Moments: moments, Dx: dx}))
		n.launch(GroupNormStore(n.twin.b, n.op, n.xs, n.dys, moments, kept, n.stride(), norms))
		want := n.backward(NormBack{Dx: 1, Kept: 1, Norm2: 1})
		same(t, n.name+": dx", n.result("dx", dx, untouched), want.dx)
		same(t, n.name+": gradients", n.read(kept, n.s.capacity*n.stride()), want.kept)
		for e, v := range n.readDoubles(norms, n.s.capacity) {
			close64(t, n.name+": norm", v-3, want.norms[e], 1e-13)
		}
	})
}

// Numbers that lie far from zero, or the first of which lie far from the others, have moments within the bounds.
func TestGroupNormOfChosenNumbers(t *testing.T) {
	rng := rand.New(rand.NewPCG(16, 16))
	for _, k := range maths {
		for _, op := range []*ir.Op{normOp(2, true, 4, 8, 32), normOp(1, true, 16, 8, 16), normOp(4, true, 12, 1, 1)} {
			for name, f := range map[string]func(i int) float64{
				"mean 1000":     func(int) float64 { return 1000 + rng.NormFloat64() },
				"small":         func(int) float64 { return 1e-12 * rng.NormFloat64() },
				"equal":         func(int) float64 { return 3 },
				"far beginning": func(i int) float64 { return 1000 + 400*float64(1-min(i%(8*16), 1)) + rng.NormFloat64() },
				"ends apart":    func(i int) float64 { return 1000 * float64(i/64%2) },
			} {
				x := make([]float32, ir.Size(op.Shape))
				for i := range x {
					x[i] = float32(f(i))
				}
				n := newNormed(t, k, op, size{1, 1}, x, normals(rng, len(x)), rng)
				n.name += ", " + name
				n.checkForward(n.forward(noActivation), 1)
				n.checkBackward(n.backward(NormBack{Dx: 1, Kept: 1, Norm2: 1}), 0)
			}
		}
	}
}

// What is no number stays in its example, and in its group of it.
func TestGroupNormKeepsNaN(t *testing.T) {
	rng := rand.New(rand.NewPCG(17, 17))
	for _, k := range maths {
		for _, bad := range []float32{nan32, float32(math.Inf(1))} {
			op, s := normOp(3, true, 24, 2, 3), size{2, 3}
			size := ir.Size(op.Shape)
			x, dy := normals(rng, s.capacity*size), normals(rng, s.capacity*size)
			clean := newNormed(t, k, op, s, x, dy, rand.New(rand.NewPCG(1, 1)))
			wantY := clean.forward(noActivation)
			want := clean.backward(NormBack{Dx: 1, Kept: 1, Norm2: 1})
			x[size/2] = bad // of the second group
			n := newNormed(t, k, op, s, x, dy, rand.New(rand.NewPCG(1, 1)))
			y := n.forward(noActivation)
			got := n.backward(NormBack{Dx: 1, Kept: 1, Norm2: 1})
			for i := range y {
				if spoilt := i >= size/3 && i < size*2/3; !spoilt && (y[i] != wantY[i] || got.dx[i] != want.dx[i]) {
					t.Fatalf("%s: value %d became %v and %v", n.name, i, y[i], got.dx[i])
				} else if spoilt && (y[i] == y[i] || got.dx[i] == got.dx[i]) {
					t.Fatalf("%s: value %d of a group without moments is %v, its gradient %v", n.name, i, y[i], got.dx[i])
				}
			}
			if got.norms[0] == got.norms[0] || got.norms[1] != want.norms[1] {
				t.Errorf("%s: norms are %v, without %v they were %v", n.name, got.norms, bad, want.norms)
			}
		}
	}
}

// Every GPU has room for a slab, how many channels there are.
func TestGroupNormFits(t *testing.T) {
	const own = 2*8*8*normalizeThreads + 64 // bytes that kernels have beside it
	for _, k := range maths {
		for _, op := range []*ir.Op{normOp(32, true, 8192), normOp(1, true, MostGroupChannels), normOp(3, true, 3*MostGroupChannels), normOp(8, true, 8*1000), normOp(1, true, MostGroupChannels, 2, 2)} {
			forward, back := k.GroupNormActivated, k.GroupNormBackward
			if k.plain() {
				forward, back = GroupNormActivated, GroupNormBackward
			}
			for _, l := range []Launch{forward(Batch{}, op, noActivation, 0, 0, 0, 0, 0), back(Batch{}, op, NormBack{})} {
				if l.Shared+own > optIn {
					t.Errorf("%s, %s of %v in %d groups takes %d bytes of shared memory", k, l.Name, op.Shape, op.Groups, l.Shared+own)
				}
			}
		}
	}
}
