package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/privgrad/privgrad/internal/ir"
)

// layerOp is a normalization of rows.
func layerOp(rows, n int, bias bool) *ir.Op {
	op := &ir.Op{Kind: ir.LayerNorm, Shape: []int{rows, n}, Out: []int{rows, n}, Epsilon: 1e-3, Bias: ir.None}
	if bias {
		op.Bias = 1
	}
	return op
}

// layered is a layer norm of a batch.
type layered struct {
	*machine
	t               *testing.T
	s               size
	op, rowsAs      *ir.Op // rowsAs has the rows as groups
	rows, n         int
	name            string
	b               Batch
	x, dy, w, bias  []float32
	xs, dys, ws, bs Ptr
	moments         Ptr
}

const untouchedMoment = 7

func newLayered(t *testing.T, op *ir.Op, s size, x, dy []float32, rng *rand.Rand) *layered {
	l := &layered{machine: newMachine(t), t: t, s: s, op: op, name: fmt.Sprintf("%v, %v", op.Shape, s), x: x, dy: dy}
	l.rows, l.n = op.Lines()
	l.rowsAs = &ir.Op{Groups: l.rows, Epsilon: op.Epsilon}
	one := l.rows * l.n
	for i := s.live * one; i < len(x); i++ { // no live example sees it
		x[i], dy[i] = nan32, nan32
	}
	l.w, l.bias = normals(rng, l.n), make([]float32, l.n)
	l.b, l.xs, l.dys, l.ws = l.batch(s), l.floats(x), l.floats(dy), l.floats(l.w)
	if op.Bias != ir.None {
		l.bias = normals(rng, l.n)
		l.bs = l.floats(l.bias)
	}
	l.moments = l.doubles(fill64(s.capacity*LayerNormMomentBytes(op)/8, untouchedMoment))
	return l
}

func (l *layered) params() int {
	if l.op.Bias == ir.None {
		return l.n
	}
	return 2 * l.n
}

func (l *layered) stride() int { return l.params() + keptBehind }

// live are the values of live examples; dead ones have what was there.
func (l *layered) live(what string, p Ptr, before float32) []float32 {
	l.t.Helper()
	one := l.rows * l.n
	all := l.read(p, l.s.capacity*one)
	same(l.t, l.name+": dead "+what, all[l.s.live*one:], fill((l.s.capacity-l.s.live)*one, before))
	return all[:l.s.live*one]
}

func (l *layered) forward(act ir.Kind) []float32 {
	l.t.Helper()
	y := l.floats(fill(len(l.x), untouched))
	l.launch(LayerNormActivated(l.b, l.op, act, l.xs, l.ws, l.bs, y, l.moments))
	return l.live("y", y, untouched)
}

// backward fills in where a way back leaves what it computes: w says what is wanted by addresses that are not 0.
func (l *layered) backward(w NormBack) (g wayBack) {
	l.t.Helper()
	w.X, w.Dy, w.Weight, w.Moments = l.xs, l.dys, l.ws, l.moments
	before, parts := float32(untouched), LayerNormNorms(l.op)
	if w.Add {
		before = 0.75
	}
	if w.Dx != 0 {
		w.Dx = l.floats(fill(len(l.x), before))
	} else {
		w.Weight = 0
	}
	if w.Kept != 0 {
		w.Kept, w.Stride = l.floats(fill(l.s.capacity*l.stride(), untouched)), l.stride()
	}
	if w.Norm2 != 0 {
		w.Norm2 = l.doubles(fill64(l.s.capacity*parts, 3))
	}
	l.launch(LayerNormBackward(l.b, l.op, w))
	if w.Dx != 0 {
		g.dx = l.live("dx", w.Dx, before)
	}
	if w.Kept != 0 {
		g.kept = l.read(w.Kept, l.s.capacity*l.stride())
	}
	if w.Norm2 != 0 {
		g.norms = make([]float64, l.s.capacity)
		for i, v := range l.readDoubles(w.Norm2, l.s.capacity*parts) {
			g.norms[i%l.s.capacity] += v - 3
		}
	}
	return g
}

func (l *layered) within(what string, i int, got float32, want, bound float64) {
	l.t.Helper()
	if d := math.Abs(float64(got) - want); !(d <= bound) {
		l.t.Fatalf("%s: %s %d is %v, want %v within %.3g: off by %.3g", l.name, what, i, got, want, bound, d)
	}
}

// checkForward compares with moments in float64: μ and √v err by shares of the bounds. x̂ errs by 3u beside, of itself and of what the mean's rounding to float32
// takes from it: the difference from the rounded mean rounds, the scale, and the sum with what was lost. The product with the weight and the bias rounds once.
func (l *layered) checkForward(y []float32, share float64) {
	l.t.Helper()
	one, moments := l.rows*l.n, l.readDoubles(l.moments, l.s.capacity*2*l.rows)
	for e := range l.s.live {
		x := l.x[e*one : (e+1)*one]
		hat, _ := normalized(l.rowsAs, x)
		for r, m := range momentsOf(l.rowsAs, x) {
			at := 2 * (e*l.rows + r)
			if d := math.Abs(moments[at]-m[0]) * m[1]; !(d <= LayerNormMeanError*share) {
				l.t.Fatalf("%s: the mean %v of row %d errs by %.3g of its deviation", l.name, moments[at], r, d)
			}
			if d := math.Abs(moments[at+1]/m[1] - 1); !(d <= 1.001*LayerNormError*share) {
				l.t.Fatalf("%s: the scale %v of row %d errs by %.3g of it", l.name, moments[at+1], r, d)
			}
			for j := range l.n {
				i, w, b := r*l.n+j, math.Abs(float64(l.w[j])), float64(l.bias[j])
				want := hat[i]*float64(l.w[j]) + b
				bound := 1.001*share*(LayerNormError*math.Abs(hat[i])+LayerNormMeanError)*w + 3*unit*(math.Abs(hat[i])+lost(moments[at:]))*w + unit*math.Abs(want)
				l.within("y", e*one+i, y[e*one+i], want, 1.001*bound)
			}
		}
	}
	for _, v := range moments[l.s.live*2*l.rows:] {
		close64(l.t, l.name+": dead moment", v, untouchedMoment, 0)
	}
}

// lost is what the rounding of a mean to float32 takes from x̂.
func lost(moments []float64) float64 {
	return math.Abs(moments[0]-float64(float32(moments[0]))) * moments[1]
}

// checkBackward compares with sums in float64 that take the moments as they are, within the bounds of LayerNormBackward.
func (l *layered) checkBackward(g wayBack, add float32) {
	l.t.Helper()
	one, moments := l.rows*l.n, l.readDoubles(l.moments, l.s.live*2*l.rows)
	for e := range l.s.live {
		own := make([]truth, 2*l.n) // size is what roundings are shares of
		for r := range l.rows {
			m := moments[2*(e*l.rows+r):]
			first, lost := e*one+r*l.n, lost(m)
			var sum, slope truth
			hat := make([]float64, l.n)
			for j := range l.n {
				d := float64(l.dy[first+j])
				w := d * float64(l.w[j]) / float64(l.n)
				hat[j] = (float64(l.x[first+j]) - m[0]) * m[1]
				own[j].sum, own[j].size = own[j].sum+d*hat[j], own[j].size+math.Abs(d)*(math.Abs(hat[j])+lost)
				own[l.n+j].add(d)
				sum.add(w)
				slope.sum, slope.size = slope.sum+w*hat[j], slope.size+math.Abs(w)*(math.Abs(hat[j])+lost)
			}
			for j := range l.n {
				d := float64(l.dy[first+j]) * float64(l.w[j])
				want := m[1]*(d-sum.sum-hat[j]*slope.sum) + float64(add)
				bound := 16*unit*m[1]*(math.Abs(d)+sum.size+(math.Abs(hat[j])+lost)*slope.size) + unit*math.Abs(want)
				l.within("dx", first+j, g.dx[first+j], want, 1.001*bound)
			}
		}
		kept := g.kept[e*l.stride() : (e+1)*l.stride()]
		norm := 0.0
		for i, v := range kept[:l.params()] {
			l.within("gradient", i, v, own[i].sum, 1.001*20*unit*own[i].size)
			norm += float64(v) * float64(v)
		}
		same(l.t, l.name+": what is not written", kept[l.params():], fill(keptBehind, untouched))
		// The test's own order has a rounding for each element, and parts begin at 3.
		close64(l.t, l.name+": norm of what is kept", g.norms[e]+3, norm+3, gamma(l.n/16+16+l.params()+2*LayerNormNorms(l.op)+2, 0x1p-53))
	}
	for e := l.s.live; e < l.s.capacity; e++ {
		same(l.t, l.name+": dead gradient", g.kept[e*l.stride():(e+1)*l.stride()], fill(l.stride(), untouched))
		close64(l.t, l.name+": dead norm", g.norms[e], 0, 0)
	}
}

// layers are rows by elements.
var layers = [][2]int{
	{1, 1}, {5, 7}, {96, 32}, {7, 33}, {8, 1}, {9, 70}, {2, 512}, {3, 513}, {1, 2000}, {10, 600}, {17, 8},
	{1, 1100},  // a row that several warps share, in more than one strip
	{2, 2001},  // and one by one
	{20, 515},  // a warp, in several strips
	{1, 2600},  // blocks share the sums, of which each has several rounds
	{65, 520},  // and rows
	{600, 12},  // more rows than are noted at once
	{70, 260},  // two chunks of rows
	{300, 130}, // of two blocks
}

func eachLayer(t *testing.T, f func(l *layered)) {
	for i, c := range layers {
		rng := rand.New(rand.NewPCG(uint64(i), 16))
		s := []size{{3, 4}, {0, 2}, {2, 2}}[i%3]
		if c[0]*c[1] > 4000 {
			s = size{1, 2}
		}
		all := s.capacity * c[0] * c[1]
		x, dy := normals(rng, all), normals(rng, all)
		for i := range x {
			x[i] += 3 // a mean far from zero
		}
		f(newLayered(t, layerOp(c[0], c[1], i%4 > 0), s, x, dy, rng))
	}
}

func TestLayerNorm(t *testing.T) {
	eachLayer(t, func(l *layered) {
		l.checkForward(l.forward(noActivation), 1./10) // of numbers in no order
		for _, add := range halves {
			before := float32(0)
			if add {
				before = 0.75
			}
			l.checkBackward(l.backward(NormBack{Dx: 1, Add: add, Kept: 1, Norm2: 1}), before)
		}
	})
}

// Launches that do a part of it have the same bits, and a ReLU that is fused changes none.
func TestLayerNormParts(t *testing.T) {
	eachLayer(t, func(l *layered) {
		y := l.forward(noActivation)
		whole := l.backward(NormBack{Dx: 1, Kept: 1, Norm2: 1})
		for _, w := range []NormBack{{Dx: 1}, {Kept: 1, Norm2: 1}, {Norm2: 1}, {Kept: 1}} {
			got := l.backward(w)
			same(t, l.name+": dx alone", got.dx, whole.dx[:len(got.dx)])
			same(t, l.name+": gradients alone", got.kept, whole.kept[:len(got.kept)])
			for i, v := range got.norms {
				close64(t, l.name+": norm alone", v, whole.norms[i], 0)
			}
		}
		for i, v := range y {
			if !(v > 0) {
				y[i] = 0
			}
		}
		same(t, l.name+": y of a ReLU", l.forward(ir.ReLU), y)
		// x as a ReLU would have given it, where it is above zero.
		got := l.backward(NormBack{Dx: 1, Kept: 1, Norm2: 1, Through: ir.ReLU})
		for i := range whole.dx {
			if !(l.x[i] > 0) {
				whole.dx[i] = 0
			}
		}
		same(t, l.name+": dx through a ReLU", got.dx, whole.dx)
		same(t, l.name+": gradients of a ReLU", got.kept, whole.kept)
	})
}

// Weights that do not lie evenly are read one by one, and nothing else is different.
func TestLayerNormOfUnevenWeights(t *testing.T) {
	rng := rand.New(rand.NewPCG(18, 18))
	x, dy := normals(rng, 3*64), normals(rng, 3*64)
	l := newLayered(t, layerOp(3, 64, true), size{1, 1}, x, dy, rng)
	y, g := l.forward(noActivation), l.backward(NormBack{Dx: 1})
	l.ws, l.bs = l.floats(append(fill(1, nan32), l.w...))+4, l.floats(append(fill(2, nan32), l.bias...))+8
	same(t, "y", l.forward(noActivation), y)
	same(t, "dx", l.backward(NormBack{Dx: 1}).dx, g.dx)
}

// Numbers that lie far from zero, or the first of which lie far from the others, have moments within the bounds.
func TestLayerNormOfChosenNumbers(t *testing.T) {
	rng := rand.New(rand.NewPCG(19, 19))
	for _, c := range [][2]int{{4, 256}, {3, 255}, {2, 1100}, {5, 1}, {9, 12}} {
		n := c[1]
		for name, f := range map[string]func(i int) float64{
			"mean 1000":        func(int) float64 { return 1000 + rng.NormFloat64() },
			"hardly different": func(int) float64 { return 1000 + 1e-3*rng.NormFloat64() },
			"small":            func(int) float64 { return 1e-12 * rng.NormFloat64() },
			"large":            func(int) float64 { return 1e18 * rng.NormFloat64() },
			"equal":            func(int) float64 { return 3 },
			"far beginning":    func(i int) float64 { return 1000 + 400*float64(1-min(i%n, 1)) + rng.NormFloat64() },
			"far from all":     func(i int) float64 { return 1e6*float64(1-min(i%n, 1)) + rng.NormFloat64() },
			"ends apart":       func(i int) float64 { return 1000 * float64(i/64%2) },
		} {
			x := make([]float32, c[0]*n)
			for i := range x {
				x[i] = float32(f(i))
			}
			l := newLayered(t, layerOp(c[0], n, true), size{1, 1}, x, normals(rng, len(x)), rng)
			l.name += ", " + name
			l.checkForward(l.forward(noActivation), 1)
			l.checkBackward(l.backward(NormBack{Dx: 1, Kept: 1, Norm2: 1}), 0)
		}
	}
}

// What is no number stays in its example, and in its row of it.
func TestLayerNormKeepsNaN(t *testing.T) {
	for _, bad := range []float32{nan32, float32(math.Inf(1))} {
		for _, c := range [][2]int{{3, 8}, {5, 33}, {3, 600}} {
			rng, s, n := rand.New(rand.NewPCG(17, 17)), size{2, 3}, c[1]
			one := c[0] * n
			x, dy := normals(rng, s.capacity*one), normals(rng, s.capacity*one)
			clean := newLayered(t, layerOp(c[0], n, true), s, x, dy, rand.New(rand.NewPCG(1, 1)))
			wantY := clean.forward(noActivation)
			want := clean.backward(NormBack{Dx: 1, Kept: 1, Norm2: 1})
			x[n+n/2] = bad // of the second row
			l := newLayered(t, layerOp(c[0], n, true), s, x, dy, rand.New(rand.NewPCG(1, 1)))
			y := l.forward(noActivation)
			got := l.backward(NormBack{Dx: 1, Kept: 1, Norm2: 1})
			for i := range y {
				if spoilt := i/n == 1; !spoilt && (y[i] != wantY[i] || got.dx[i] != want.dx[i]) {
					t.Fatalf("%s: value %d became %v and %v", l.name, i, y[i], got.dx[i])
				} else if spoilt && (y[i] == y[i] || got.dx[i] == got.dx[i]) {
					t.Fatalf("%s: value %d of a row without moments is %v, its gradient %v", l.name, i, y[i], got.dx[i])
				}
			}
			if got.norms[0] == got.norms[0] || got.norms[1] != want.norms[1] {
				t.Errorf("%s: norms are %v, without %v they were %v", l.name, got.norms, bad, want.norms)
			}
		}
	}
}

// Every GPU has room for what a block has, and blocks have all rows and all elements between them.
func TestLayerNormFits(t *testing.T) {
	for _, c := range append(layers, [2]int{1, 1 << 22}, [2]int{1, 1<<20 + 1}, [2]int{1 << 20, 2}, [2]int{1 << 14, 1 << 14}, [2]int{1 << 20, 257}) {
		n := rowsOf(layerOp(c[0], c[1], true))
		b := n.back()
		if b.shared+4096 > optIn {
			t.Errorf("%d rows of %d take %d bytes of shared memory", n.rows, n.size, b.shared)
		}
		if b.chunk%(1<<b.parts) != 0 || b.columns<<b.parts < n.size/n.unit || 1<<b.team > b.threads || 1<<b.across > b.threads {
			t.Errorf("%d rows of %d are divided into %+v", n.rows, n.size, b)
		}
	}
}
