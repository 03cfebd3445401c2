package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// turning is records whose gradients are measured and summed as they are turned.
type turning struct {
	*testing.T
	m *machine
	s size
	Standardized
	w, gain, g       []float32 // g is records' rows
	hat, kept, turns []float32 // as the device has them
	moments, squares []float64
	n                int // columns from the weights on, some of which another op has
}

// measured makes records, one of which has no number in its gradient, and measures them.
func measured(t *testing.T, rng *rand.Rand, out, k, bias int, s size) *turning {
	n := out*k + bias + out + 4
	c := &turning{T: t, m: newMachine(t), s: s, w: filters(rng, out, k, 1), gain: normals(rng, out), g: normals(rng, s.capacity*n), n: n}
	for i := range c.g {
		c.g[i] += 0.5
	}
	if s.live > 3 {
		c.g[2*n+rng.IntN(out*k)] = nan32
	}
	spoil(c.g, s.live, s.capacity)
	m := c.m
	c.Standardized = Standardized{
		Out: out, K: k, Bias: bias, Gain: m.floats(c.gain), Moments: m.alloc(StandardizeMomentBytes(out)), Hat: m.empty(out * k), Kept: m.floats(c.g), Stride: n,
		Turns: m.alloc(s.capacity * StandardizeTurnBytes(out)),
	}
	parts := StandardizeNorms(out, s.capacity)
	norms := m.doubles(fill64(parts*s.capacity, 3))
	m.launch(Standardize(out, k, m.floats(c.w), c.Gain, m.empty(out*k), c.Moments, c.Hat))
	m.launch(StandardizeMeasure(m.batch(s), &c.Standardized, norms))
	c.hat, c.kept, c.turns = m.read(c.Hat, out*k), m.read(c.Kept, len(c.g)), m.read(c.Turns, 2*s.live*out)
	c.moments, c.squares = m.readDoubles(c.Moments, 3*out), make([]float64, s.capacity)
	for i, x := range m.readDoubles(norms, parts*s.capacity) {
		c.squares[i%s.capacity] += x - 3
	}
	return c
}

// row is what is summed of a record: what is documented, of what the device keeps.
func (c *turning) row(e int) []float32 {
	x := append([]float32{}, c.kept[e*c.n:(e+1)*c.n]...)
	for i := range c.Out * c.K {
		o := i / c.K
		t := c.turns[2*(e*c.Out+o):]
		by := float32(float64(c.gain[o]) * c.moments[3*o+1])
		x[i] = by * Fused(-t[1], c.hat[i], x[i]-t[0])
	}
	return x
}

// near compares a record's gradients with what they are in real numbers, and says that the rest of its row is what it was.
func (c *turning) near(e int, x []float32) {
	c.Helper()
	const u = 0x1p-24
	at, gains := e*c.n, c.Out*c.K+c.Bias
	same(c.T, "gradient at W", c.kept[at:at+gains], c.g[at:at+gains])
	same(c.T, "what is not written", c.kept[at+gains+c.Out:at+c.n], c.g[at+gains+c.Out:at+c.n])
	for o := range c.Out {
		w, g, dw := doubled(c.w[o*c.K:(o+1)*c.K]), doubled(c.g[at+o*c.K:at+(o+1)*c.K]), make([]float64, c.K)
		slope, size, along := unstandardized(dw, g, w, float64(c.gain[o])), 0.0, 0.0
		mean, s, _ := channel(w)
		for j, v := range g {
			size += math.Abs(v) / float64(c.K)
			along += math.Abs(v * (w[j] - mean) * s)
		}
		// Of dgain: ŵ, four products, and itself are rounded to float32. A mean has two additions and its own rounding; then round the difference, ŵ, the
		// fused operation, the factor and the product.
		within(c.T, "dgain", x[gains+o], slope, gamma(6, u)*along+1e-12)
		for j := range dw {
			hat := math.Abs((w[j] - mean) * s)
			within(c.T, fmt.Sprintf("dw of filter %d", o), x[o*c.K+j], dw[j],
				gamma(10, u)*math.Abs(float64(c.gain[o])*s)*(math.Abs(g[j])+size+hat*along)+1e-12)
		}
	}
}

// shapesOfTurning have filters by fours and by ones, of fewer taps than lanes and of more, and enough columns to be summed by fours.
var shapesOfTurning = [][2]int{{1, 1}, {3, 27}, {17, 8}, {5, 300}, {40, 36}, {18, 7}, {72, 480}}

func TestStandardizeMeasureAndCombine(t *testing.T) {
	for i, l := range shapesOfTurning {
		for j, s := range []size{{3, 4}, {0, 2}, {67, 70}} {
			out, k, bias := l[0], l[1], (i+j)%2*l[0]
			if out*k > 10000 {
				if j == 0 {
					continue
				}
				bias = 0
			}
			t.Run(fmt.Sprintf("%d filters of %d taps, %d biases, %v", out, k, bias, s), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(58, uint64(i)))
				c := measured(t, rng, out, k, bias, s)
				c.combined(rng)
			})
		}
	}
}

// combined compares norms and sums with what is documented of the rows.
func (c *turning) combined(rng *rand.Rand) {
	c.Helper()
	own, factors, want := c.n-4, make([]float32, c.s.capacity), normals64(rng, c.n)
	sum := c.m.doubles(want)
	for e := range factors {
		factors[e] = rng.Float32()
	}
	part, blocks := make([]float32, c.n), 0
	for e := range c.s.capacity {
		if e >= c.s.live {
			same(c.T, "dead row", c.kept[e*c.n:(e+1)*c.n], c.g[e*c.n:(e+1)*c.n])
			close64(c.T, "dead norm", c.squares[e], 0, 0)
			continue
		}
		x, squares := c.row(e), 0.0
		for _, v := range x[:own] {
			squares += float64(v) * float64(v)
		}
		if math.IsNaN(squares) {
			if factors[e] = 0; !math.IsNaN(c.squares[e]) {
				c.Errorf("record %d without a number has norm %v", e, c.squares[e])
			}
		} else {
			c.near(e, x)
			// The test's own sum has a rounding for each value; 3 is added to and taken from each part.
			within64(c.T, "norm of what is summed", c.squares[e], squares, gamma((c.K/32+5)*c.Out+c.Out/32+own+10, 0x1p-53)*(squares+200))
		}
		for i, v := range x {
			if factors[e] > 0 {
				part[i] = Fused(factors[e], v, part[i])
			}
		}
		if e%ExampleBlock == ExampleBlock-1 || e == c.s.live-1 {
			for i := range part {
				want[i] += float64(part[i])
			}
			clear(part)
			blocks++
		}
	}
	l := StandardizeCombine(c.m.batch(c.s), &c.Standardized, c.m.floats(factors), c.n, sum)
	if fours := l.Name == "standardize_combine_fours"; fours != (c.n >= combineMany) {
		c.Fatalf("%s sums %d columns", l.Name, c.n)
	}
	c.m.launch(l)
	for i, v := range c.m.readDoubles(sum, c.n) {
		if math.Float64bits(v) != math.Float64bits(want[i]) {
			c.Fatalf("column %d of %d blocks is %v, want %v", i, blocks, v, want[i])
		}
	}
}

func normals64(rng *rand.Rand, n int) []float64 { return doubled(normals(rng, n)) }

// A sum is turned in float64: what is left of rounding is of its sums over k taps.
func TestStandardizeSum(t *testing.T) {
	for i, l := range shapesOfFilters {
		out, k := l[0], l[1]
		rng := rand.New(rand.NewPCG(58, uint64(100+i)))
		w, gain, g, start := filters(rng, out, k, 1), normals(rng, out), normals64(rng, out*k), normals64(rng, out*(k+1))
		m := newMachine(t)
		wAt, gainAt, moments, sum := m.floats(w), m.floats(gain), m.alloc(StandardizeMomentBytes(out)), m.doubles(start)
		m.launch(Standardize(out, k, wAt, gainAt, m.empty(out*k), moments, 0))
		m.launch(StandardizeSum(out, k, wAt, gainAt, moments, m.doubles(g), sum, sum+Ptr(8*out*k)))
		got := m.readDoubles(sum, out*(k+1))
		for o := range out {
			row, dw := doubled(w[o*k:(o+1)*k]), make([]float64, k)
			slope := unstandardized(dw, g[o*k:(o+1)*k], row, float64(gain[o]))
			_, s, _ := channel(row)
			// Weights lose some 2⁻⁵³ of 0.25 beside the mean, which s ≤ 100 magnifies, in each of k terms of some normal g; a test of filters by the same
			// means measures moments no nearer than 10⁻¹².
			bound := 1e-12 * float64(k+10)
			within64(t, fmt.Sprintf("dgain %d of %v", o, l), got[out*k+o], start[out*k+o]+slope, bound)
			for j := range dw {
				within64(t, fmt.Sprintf("dw %d of filter %d of %v", j, o, l), got[o*k+j], start[o*k+j]+dw[j], bound*max(1, math.Abs(float64(gain[o])*s)))
			}
		}
	}
}

// A filter for which there is no room is turned as before.
func TestStandardizeFits(t *testing.T) {
	most := measureBytes / 4
	if !StandardizeFits(most) || StandardizeFits(most+1) {
		t.Errorf("%d taps are not the most", most)
	}
	for _, k := range []int{1, 2304, 2305, 4608, most} {
		l := StandardizeMeasure(Batch{Capacity: 9}, &Standardized{Out: 3, K: k, Stride: 1}, 0)
		if warps := l.Block[0] / warp; warps < 1 || warps*16*ceil(k, 4) > l.Shared || l.Grid[0]*warps < 9 {
			t.Errorf("%d taps: %d warps of %d blocks with %d bytes", k, warps, l.Grid[0], l.Shared)
		}
	}
}
