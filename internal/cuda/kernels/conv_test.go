package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/privgrad/privgrad/internal/ir"
)

type convShape struct {
	size
	channels, h, w, out int
	window              ir.Window
	bias                bool
}

// convCases have strides, padding of each side, dilation, and tails in filters, taps and positions; one has more than a block
// of positions, one more than a tile of filters and of taps.
var convCases = []convShape{
	{size{2, 3}, 2, 7, 6, 3,
		ir.Window{H: 3, W: 2, StrideH: 2, StrideW: 1, PadTop: 1, PadLeft: 2, PadRight: 1, DilationH: 1, DilationW: 2}, true},
	{size{3, 3}, 3, 6, 7, 4, ir.Window{H: 2, W: 3, StrideH: 1, StrideW: 2, PadBottom: 2, PadRight: 3, DilationH: 2, DilationW: 1}, false},
	{size{34, 66}, 1, 4, 4, 2, ir.Square(3, 1, 0), true},
	{size{0, 2}, 1, 4, 4, 2, ir.Square(3, 1, 1), true},
	{size{2, 2}, 1, 11, 13, 5, ir.Square(3, 1, 1), true},
	{size{2, 2}, 8, 4, 3, 66, ir.Square(3, 1, 1), true},
	{size{2, 2}, 20, 3, 4, 33, ir.Square(2, 1, 0), true}, // tiles of 32 and 64 rows
	{size{2, 2}, 33, 3, 4, 20, ir.Square(2, 1, 0), true},
	{size{1, 2}, 66, 2, 3, 2, ir.Square(1, 1, 0), false},
	{size{1, 1}, 66, 2, 2, 66, ir.Square(3, 1, 1), true}, // more tiles than blocks share
	{size{1, 2}, 24, 11, 8, 33, ir.Window{H: 3, W: 3, StrideH: 1, StrideW: 1, PadTop: 2, PadLeft: 1, PadRight: 1, DilationH: 1, DilationW: 1}, true},
	{size{2, 2}, 40, 5, 16, 25, ir.Square(3, 1, 1), true}, // by 3×3 windows: of two tiles, of rows that fill no block, without a bias
	{size{1, 1}, 33, 3, 32, 34, ir.Window{H: 3, W: 3, StrideH: 1, StrideW: 1, PadLeft: 1, PadRight: 1, DilationH: 1, DilationW: 1}, false},
	{size{2, 2}, 1, 3, 9, 2, ir.Window{H: 1, W: 3, StrideH: 1, StrideW: 3, PadLeft: 1, PadRight: 1, DilationH: 1, DilationW: 2}, true},
}

// convCase is one of them with its numbers.
type convCase struct {
	s              size
	op             *ir.Op
	in, out        int // elements of an example
	k, positions   int
	params         int
	x, dy, w, bias []float32
	gradient       func() [][]truth // by live example: weights, then bias
}

// someConvs are convolutions of random geometry, whose tests show what a table forgets.
func someConvs(rng *rand.Rand) []convShape {
	var list []convShape
	for len(list) < 8 {
		d := convShape{size{1 + rng.IntN(2), 2}, 1 + rng.IntN(3), 1 + rng.IntN(9), 1 + rng.IntN(9), 1 + rng.IntN(4), ir.Window{
			H: 1 + rng.IntN(4), W: 1 + rng.IntN(4), StrideH: 1 + rng.IntN(3), StrideW: 1 + rng.IntN(3), DilationH: 1 + rng.IntN(3), DilationW: 1 + rng.IntN(3),
			PadTop: rng.IntN(4), PadBottom: rng.IntN(4), PadLeft: rng.IntN(4), PadRight: rng.IntN(4),
		}, rng.IntN(2) == 0}
		if h, w := d.window.Out(d.h, d.w); h > 0 && w > 0 {
			list = append(list, d)
		}
	}
	return list
}

func eachConv(t *testing.T, seed uint64, f func(t *testing.T, rng *rand.Rand, c *convCase)) {
	rng := rand.New(rand.NewPCG(seed, seed))
	for _, d := range slices.Concat(convCases, someConvs(rng)) {
		op := imageOp(ir.Conv, d.channels, d.h, d.w, d.out, d.window, d.bias)
		c := &convCase{s: d.size, op: op, in: ir.Size(op.Shape), out: ir.Size(op.Out)}
		_, c.k, c.positions = op.Columns()
		c.params = d.out * c.k
		c.x = spoil(normals(rng, d.capacity*c.in), d.live, d.capacity)
		c.dy = spoil(normals(rng, d.capacity*c.out), d.live, d.capacity)
		c.w, c.bias = normals(rng, c.params), make([]float32, d.out)
		if d.bias {
			c.params += d.out
			c.bias = normals(rng, d.out)
		}
		c.gradient = sync.OnceValue(func() (all [][]truth) {
			for e := range d.live {
				g := make([]truth, c.params)
				taps(op, func(o, i, k int) { g[k].add(float64(c.dy[e*c.out+o]), float64(c.x[e*c.in+i])) })
				for o := 0; d.bias && o < c.out; o++ {
					g[d.out*c.k+o/c.positions].add(float64(c.dy[e*c.out+o]))
				}
				all = append(all, g)
			}
			return all
		})
		t.Run(fmt.Sprintf("%v, %v to %v, %+v", d.size, op.Shape, op.Out, d.window), func(t *testing.T) { f(t, rng, c) })
	}
}

func TestConvForwardAndInputGrad(t *testing.T) {
	eachConv(t, 4, func(t *testing.T, _ *rand.Rand, c *convCase) {
		m := newMachine(t)
		b, bias := m.batch(c.s), Ptr(0)
		if c.op.Bias != ir.None {
			bias = m.floats(c.bias)
		}
		w, dy := m.floats(c.w), m.floats(c.dy)
		y := m.floats(fill(c.s.capacity*c.out, untouched))
		dx, sum := m.floats(fill(c.s.capacity*c.in, untouched)), m.floats(fill(c.s.capacity*c.in, untouched))
		m.launch(ConvForward(b, c.op, m.floats(c.x), w, bias, y))
		m.launch(ConvInputGrad(b, c.op, dy, w, dx, false))
		m.launch(ConvInputGrad(b, c.op, dy, w, sum, true))

		wantY, wantX, wantSum := make([]truth, c.s.live*c.out), make([]truth, c.s.live*c.in), make([]truth, c.s.live*c.in)
		for e := range c.s.live {
			for o := range c.out {
				wantY[e*c.out+o].add(float64(c.bias[o/c.positions]))
			}
			taps(c.op, func(o, i, k int) {
				wantY[e*c.out+o].add(float64(c.x[e*c.in+i]), float64(c.w[k]))
				wantX[e*c.in+i].add(float64(c.dy[e*c.out+o]), float64(c.w[k]))
			})
		}
		for i := range wantX {
			wantSum[i] = wantX[i]
			wantSum[i].add(untouched)
		}
		near(t, "y", m.read(y, len(wantY)), wantY, c.op.Shape[0]*c.op.Window.H*c.op.Window.W+1)
		near(t, "dx", m.read(dx, len(wantX)), wantX, c.op.Out[0]*c.op.Window.H*c.op.Window.W)
		near(t, "dx added", m.read(sum, len(wantX)), wantSum, c.op.Out[0]*c.op.Window.H*c.op.Window.W+1)
		dead := c.s.capacity - c.s.live
		same(t, "dead y", m.read(y, c.s.capacity*c.out)[c.s.live*c.out:], fill(dead*c.out, untouched))
		same(t, "dead dx", m.read(dx, c.s.capacity*c.in)[c.s.live*c.in:], fill(dead*c.in, untouched))
	})
}

func TestConvStoreAndNorm(t *testing.T) {
	eachConv(t, 5, func(t *testing.T, _ *rand.Rand, c *convCase) {
		m := newMachine(t)
		b, x, dy, stride := m.batch(c.s), m.floats(c.x), m.floats(c.dy), c.params+5
		kept := m.floats(fill(c.s.capacity*stride, untouched))
		stored, measured := m.norms(c), m.norms(c)
		m.launch(ConvStore(b, c.op, x, dy, kept, stride, stored))
		m.launch(ConvNorm(b, c.op, x, dy, measured))
		got := m.read(kept, c.s.capacity*stride)
		norms, again := m.readNorms(stored, c), m.readNorms(measured, c)
		for e := range c.s.capacity {
			g, want := got[e*stride:(e+1)*stride], 3.0*float64(ConvNorms(c.op))
			if e < c.s.live {
				near(t, fmt.Sprintf("gradient %d", e), g[:c.params], c.gradient()[e], ConvTerms(c.op))
				for _, v := range g[:c.params] {
					want += float64(v) * float64(v)
				}
				g = g[c.params:]
			}
			same(t, "what is not written", g, fill(len(g), untouched))
			close64(t, "norm of what is kept", norms[e], want, gamma(c.params+2, 0x1p-53))
			if again[e] != norms[e] {
				t.Fatalf("example %d: ConvNorm measures %v, ConvStore %v", e, again[e], norms[e])
			}
		}
	})
}

// norms are the parts of squared norms, each with 3 in it.
func (m *machine) norms(c *convCase) Ptr {
	return m.doubles(fill64(ConvNorms(c.op)*c.s.capacity, 3))
}

// readNorms adds them up.
func (m *machine) readNorms(p Ptr, c *convCase) []float64 {
	m.t.Helper()
	sums := make([]float64, c.s.capacity)
	for i, x := range m.readDoubles(p, ConvNorms(c.op)*len(sums)) {
		sums[i%len(sums)] += x
	}
	return sums
}

func fill64(n int, v float64) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = v
	}
	return x
}

// convSum runs both kernels over sums that begin with start.
func convSum(m *machine, c *convCase, x, dy, factors []float32, start []float64) []float64 {
	stride, parts, weights := c.params+5, ConvParts(c.op, c.s.capacity), c.op.Out[0]*c.k
	p, sumW, sumB := m.empty(parts*stride), m.doubles(start[:weights]), Ptr(0)
	if c.op.Bias != ir.None {
		sumB = m.doubles(start[weights:])
	}
	m.launch(ConvSum(m.batch(c.s), c.op, m.floats(x), m.floats(dy), m.floats(factors), p, stride))
	m.launch(SumParts(c.op, p, stride, parts, sumW, sumB))
	sum := m.readDoubles(sumW, weights)
	if sumB != 0 {
		sum = append(sum, m.readDoubles(sumB, c.op.Out[0])...)
	}
	return sum
}

func TestConvSum(t *testing.T) {
	eachConv(t, 6, func(t *testing.T, rng *rand.Rand, c *convCase) {
		x, dy, start := append([]float32{}, c.x...), append([]float32{}, c.dy...), fill64(c.params, 0.1)
		f := factorsFor(rng, c.s, x, dy)
		want := make([]truth, c.params)
		for i := range want {
			want[i].add(start[i])
			for e := range c.s.live {
				if v := float64(f[e]); v > 0 {
					want[i].sum += v * c.gradient()[e][i].sum
					want[i].size += v * c.gradient()[e][i].size
				}
			}
		}
		near64(t, "sum", convSum(newMachine(t), c, x, dy, f, start), want, ConvTerms(c.op)+ExampleBlock)
	})
}

// What is summed is what was measured, to the bit.
func TestConvSumComputesAgainWhatWasStored(t *testing.T) {
	eachConv(t, 7, func(t *testing.T, _ *rand.Rand, c *convCase) {
		m := newMachine(t)
		kept := m.empty(c.s.capacity * c.params)
		m.launch(ConvStore(m.batch(c.s), c.op, m.floats(c.x), m.floats(c.dy), kept, c.params, m.norms(c)))
		for e := range min(c.s.live, 2) {
			f := make([]float32, c.s.capacity)
			f[e] = 1
			want := m.read(kept+Ptr(4*e*c.params), c.params)
			for i, g := range convSum(newMachine(t), c, c.x, c.dy, f, make([]float64, c.params)) {
				if g != float64(want[i]) {
					t.Fatalf("example %d: value %d is %v in the sum, was stored as %v", e, i, g, want[i])
				}
			}
		}
	})
}

// Which kernels compute a gradient does not show in its bits.
func TestWaysGiveTheSameBits(t *testing.T) {
	rng := rand.New(rand.NewPCG(10, 10))
	for _, shape := range [][2]int{{9, 8}, {5, 16}, {4, 32}} {
		op := imageOp(ir.Conv, 26, shape[0], shape[1], 27, ir.Square(3, 1, 1), true)
		out, k, _ := op.Columns()
		m := newMachine(t)
		b, x, dy, n := m.batch(size{1, 1}), m.floats(normals(rng, ir.Size(op.Shape))), m.floats(normals(rng, ir.Size(op.Out))), out*(k+1)
		ways := []gradients{gradientsOf(op), ofImages(op), ofColumns(op)}
		if ways[0].module != "convgrad3" {
			t.Fatalf("%v is left to %s", op.Shape, ways[0].module)
		}
		var want []float32
		for i, way := range ways {
			kept := m.empty(n)
			m.launch(way.store(b, op, x, dy, kept, n, m.doubles(make([]float64, mostNorms))))
			if got := m.read(kept, n); i == 0 {
				want = got
			} else {
				same(t, way.module, got, want)
			}
		}
	}
}

// gram is what NormGram documents.
func gram(c *convCase, e int) float64 {
	bias := 0.0
	if c.op.Bias != ir.None {
		bias = 1
	}
	columns := make([]float64, c.positions*c.k)
	taps(c.op, func(o, i, k int) { columns[o%c.positions*c.k+k%c.k] = float64(c.x[e*c.in+i]) })
	total, bound := 0.0, 0.0
	for s := range c.positions {
		for u := range c.positions {
			a, d := bias, 0.0
			for k := range c.k {
				a += columns[s*c.k+k] * columns[u*c.k+k]
			}
			for o := range c.op.Out[0] {
				d += float64(c.dy[e*c.out+o*c.positions+s]) * float64(c.dy[e*c.out+o*c.positions+u])
			}
			total += a * d
			if s == u {
				bound += math.Sqrt(a * d)
			}
		}
	}
	omega, g := GramRounding(c.op)
	norm := math.Sqrt(max(total, 0)+omega*bound*bound) + g*bound
	return norm * norm
}

func TestNormGram(t *testing.T) {
	eachConv(t, 8, func(t *testing.T, _ *rand.Rand, c *convCase) {
		m := newMachine(t)
		b, x, dy := m.batch(c.s), m.floats(c.x), m.floats(c.dy)
		before := fill64(c.s.capacity, 3)
		bound, stored := m.doubles(before), m.norms(c)
		m.launch(NormGram(b, c.op, x, dy, bound))
		m.launch(ConvNorm(b, c.op, x, dy, stored))
		got, norms := m.readDoubles(bound, len(before)), m.readNorms(stored, c)
		for e := range c.s.capacity {
			want := 3.0
			if e < c.s.live {
				want += gram(c, e)
			}
			close64(t, fmt.Sprintf("example %d", e), got[e], want, 1e-11)
			if n := norms[e] - 3*float64(ConvNorms(c.op)) + 3; got[e] < n*(1-1e-12) {
				t.Errorf("example %d: the bound %v is below the squared norm %v of the float32 gradient", e, got[e], n)
			}
		}
	})
}

// cancelling is a constant image under a gradient that adds up to zero: what float32 leaves over is all there is.
func cancelling(t *testing.T, examples int) *convCase {
	op := imageOp(ir.Conv, 1, 18, 18, 2, ir.Square(3, 1, 0), true)
	c := &convCase{s: size{examples, examples}, op: op, in: 18 * 18, out: 2 * 256, k: 9, positions: 256, params: 20}
	c.x = fill(examples*c.in, 1.1)
	rng := rand.New(rand.NewPCG(9, 9))
	for range examples {
		dy := normals(rng, c.out)
		for i := range 128 {
			dy[255-i], dy[256+i] = -dy[i], -dy[511-i]
		}
		c.dy = append(c.dy, dy...)
	}
	return c
}

func TestNormGramCoversWhatRoundingLeaves(t *testing.T) {
	c := cancelling(t, 4)
	m := newMachine(t)
	b, x, dy := m.batch(c.s), m.floats(c.x), m.floats(c.dy)
	bound, stored := m.doubles(make([]float64, 4)), m.doubles(make([]float64, 4))
	m.launch(NormGram(b, c.op, x, dy, bound))
	m.launch(ConvNorm(b, c.op, x, dy, stored))
	norms := m.readDoubles(stored, 4)
	for e, n := range m.readDoubles(bound, 4) {
		if norms[e] == 0 {
			t.Errorf("example %d: float32 leaves nothing over, which tests nothing", e)
		}
		if n < norms[e] || n > 1e-4 {
			t.Errorf("example %d: bound %.3g, squared norm of what is left %.3g", e, n, norms[e])
		}
	}
}

// An example that is no number, or might overflow, says so and leaves the others alone.
func TestNormGramOfNoNumbers(t *testing.T) {
	c := cancelling(t, 5)
	c.dy[c.out] = nan32
	c.x[2*c.in+7] = float32(math.Inf(1))
	for i := range c.out {
		c.dy[3*c.out+i] *= 1e37
	}
	m := newMachine(t)
	norm2 := m.doubles(make([]float64, 5))
	m.launch(NormGram(m.batch(c.s), c.op, m.floats(c.x), m.floats(c.dy), norm2))
	for e, n := range m.readDoubles(norm2, 5) {
		if bad := e == 1 || e == 2 || e == 3; bad != (n != n) {
			t.Errorf("example %d has the squared norm %v", e, n)
		}
	}
}
