package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/privgrad/privgrad/internal/ir"
)

// layers are rows by elements. Up to 512 elements have a warp, and from 8 rows on gradients are added by groups.
var layers = [][2]int{{1, 1}, {5, 7}, {96, 32}, {7, 33}, {8, 1}, {9, 70}, {2, 512}, {3, 513}, {1, 2000}, {10, 600}}

func TestLayerNorm(t *testing.T) {
	for i, l := range layers {
		for k, s := range []size{{3, 4}, {0, 2}, {2, 2}} {
			// Numbers whose sums, and whose squares, float32 does not have, and biases or none.
			r := newLayerRun(t, rand.New(rand.NewPCG(uint64(i), 16)), l[0], l[1], s, []float32{1, 1e38, 1}[k], (i+k)%2 == 0)
			t.Run(fmt.Sprintf("%d rows of %d, %v", r.rows, r.n, s), func(t *testing.T) { r.check(t) })
		}
	}
}

// layerRun is a layer's way there and back.
type layerRun struct {
	size
	rows, n, params, stride      int
	x, dy, w, bias               []float32
	y, dx, sum, kept             []float32
	moments, norms               []float64
	startMoments, startOfTheNorm float64
}

const layerEpsilon = 1e-3

func newLayerRun(t *testing.T, rng *rand.Rand, rows, n int, s size, scale float32, bias bool) *layerRun {
	t.Helper()
	all := s.capacity * rows * n
	r := &layerRun{size: s, rows: rows, n: n, params: n, x: normals(rng, all), dy: normals(rng, all), w: normals(rng, n), bias: make([]float32, n),
		startMoments: 7, startOfTheNorm: 3}
	for i := range r.x {
		r.x[i], r.dy[i] = (r.x[i]+3)/8*scale, r.dy[i]/256*scale // a mean far from zero
	}
	copy(r.x, fill(n, 3*scale)) // a row without variance
	spoil(r.x, s.live, s.capacity)
	spoil(r.dy, s.live, s.capacity)
	m, at := newMachine(t), Ptr(0)
	if bias {
		r.params, r.bias = 2*n, normals(rng, n)
		at = m.floats(r.bias)
	}
	r.stride = r.params + 3
	room := func(n int) Ptr { return m.floats(fill(n, untouched)) }
	b, x, dy, w := m.batch(s), m.floats(r.x), m.floats(r.dy), m.floats(r.w)
	moments, norms := m.doubles(fill64(s.capacity*LayerNormMomentBytes(rows)/8, r.startMoments)), m.doubles(fill64(s.capacity, r.startOfTheNorm))
	y, dx, sum, kept := room(all), room(all), room(all), room(s.capacity*r.stride)
	m.launch(LayerNorm(b, rows, n, layerEpsilon, x, w, at, y, moments))
	m.launch(LayerNormGrad(b, rows, n, x, dy, w, moments, dx, false))
	m.launch(LayerNormGrad(b, rows, n, x, dy, w, moments, sum, true))
	m.launch(LayerNormStore(b, rows, n, x, dy, moments, kept, r.stride, norms, bias))
	r.y, r.dx, r.sum, r.kept = m.read(y, all), m.read(dx, all), m.read(sum, all), m.read(kept, s.capacity*r.stride)
	r.moments, r.norms = m.readDoubles(moments, s.capacity*rows*2), m.readDoubles(norms, s.capacity)
	return r
}

func (r *layerRun) check(t *testing.T) {
	t.Helper()
	one := r.rows * r.n
	for e := range r.live {
		r.checkExample(t, e)
	}
	for e := r.live; e < r.capacity; e++ {
		same(t, "dead gradient", r.kept[e*r.stride:(e+1)*r.stride], fill(r.stride, untouched))
		close64(t, "dead norm", r.norms[e], r.startOfTheNorm, 0)
		for _, v := range r.moments[e*r.rows*2 : (e+1)*r.rows*2] {
			close64(t, "dead moment", v, r.startMoments, 0)
		}
	}
	for what, got := range map[string][]float32{"y": r.y, "dx": r.dx, "dx added": r.sum} {
		same(t, "dead "+what, got[r.live*one:], fill((r.capacity-r.live)*one, untouched))
	}
}

func (r *layerRun) checkExample(t *testing.T, e int) {
	t.Helper()
	one, at := r.rows*r.n, e*r.rows*r.n
	hat, scale := normalized(&ir.Op{Groups: r.rows, Epsilon: layerEpsilon}, r.x[at:at+one])
	y, dx, g := make([]float64, one), make([]float64, one), make([]float64, 2*r.n)
	for row := range r.rows {
		var mean, slope, sum float64
		for j := range r.n {
			i := row*r.n + j
			d := float64(r.dy[at+i])
			y[i] = hat[i]*float64(r.w[j]) + float64(r.bias[j])
			mean += d * float64(r.w[j]) / float64(r.n)
			slope += d * float64(r.w[j]) * hat[i] / float64(r.n)
			sum += float64(r.x[at+i]) / float64(r.n)
			g[j] += d * hat[i]
			g[r.n+j] += d
		}
		for j := range r.n {
			i := row*r.n + j
			dx[i] = scale[i] * (float64(r.dy[at+i])*float64(r.w[j]) - mean - hat[i]*slope)
		}
		// Both are sums of n float64 terms of one sign, more or less, of another order.
		close64(t, "mean", r.moments[2*(e*r.rows+row)], sum, 1e-11)
		close64(t, "scale", r.moments[2*(e*r.rows+row)+1], scale[row*r.n], 1e-11)
	}
	once(t, "y", r.y[at:], y, 0)
	once(t, "dx", r.dx[at:], dx, 0)
	once(t, "dx added", r.sum[at:], dx, untouched)
	kept, norm := r.kept[e*r.stride:(e+1)*r.stride], r.startOfTheNorm
	once(t, "gradient", kept, g[:r.params], 0)
	for _, v := range kept[:r.params] {
		norm += float64(v) * float64(v)
	}
	same(t, "what is not written", kept[r.params:], fill(3, untouched))
	// The test's own order has a rounding for each element, and its sum another.
	close64(t, "norm of what is kept", r.norms[e], norm, gamma(r.n/16+11+r.params+2, 0x1p-53))
}

// once compares with what was computed in float64 and rounded once, and perhaps added to before.
func once(t *testing.T, what string, got []float32, want []float64, before float32) {
	t.Helper()
	for i, w := range want {
		bound := 0x1.01p-24*math.Abs(w) + 1e-12
		if before != 0 {
			w += float64(before)
			bound += 0x1p-24 * math.Abs(w)
		}
		if !(math.Abs(float64(got[i])-w) <= bound) {
			t.Fatalf("%s: value %d is %v, want %v", what, i, got[i], w)
		}
	}
}
