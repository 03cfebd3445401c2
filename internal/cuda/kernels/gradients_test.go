package kernels

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/privgrad/privgrad/internal/ir"
)

// gradientCases are beside convCases: a first layer, 1×1 windows with a stride and many channels, strides with wide windows, several slabs
// in both directions, blocks of each number of filters, taps that share a warp.
var gradientCases = []convShape{
	{size{2, 3}, 3, 9, 8, 20, ir.Square(3, 1, 1), true},
	{size{1, 2}, 40, 6, 5, 24, ir.Square(1, 2, 0), true},
	{size{1, 1}, 150, 2, 4, 70, ir.Square(1, 1, 0), true},
	{size{4, 5}, 16, 17, 9, 40, ir.Square(3, 2, 1), true},
	{size{1, 2}, 9, 20, 16, 33, ir.Square(3, 1, 1), false},
	{size{1, 1}, 3, 3, 300, 5, ir.Window{H: 2, W: 5, StrideH: 1, StrideW: 2, PadTop: 1, PadLeft: 2, PadRight: 2, DilationH: 1, DilationW: 1}, true},
	{size{2, 2}, 10, 7, 7, 17, ir.Square(5, 1, 2), true},
}

// gradientCase is one of them with its numbers, as tensor cores multiply them.
type gradientCase struct {
	math      Math
	s         size
	op        *ir.Op
	params    int
	x, dy     []byte // in pixels
	gradients func() [][]truth
}

func (c *gradientCase) inBytes() int  { return c.math.ValueBytes(Pixels, c.op.Shape) }
func (c *gradientCase) outBytes() int { return c.math.ValueBytes(Pixels, c.op.Out) }

// roundings bounds what a result goes through: those of its chain over all positions.
func (c *gradientCase) roundings() int {
	_, _, positions := c.op.Columns()
	return c.math.chain(positions)
}

// gradientPixels lays planes of examples out in pixels, rounded.
func gradientPixels(m Math, shape []int, planes []float32) (b []byte) {
	area, channels := area(shape)
	for e := range len(planes) / ir.Size(shape) {
		for p := range area {
			for c := range padded(channels) {
				v := float32(0)
				if c < channels {
					v = m.nearest(planes[(e*channels+c)*area+p])
				}
				if bits := math.Float32bits(v); m.ElementBytes(Pixels) == 2 {
					b = binary.LittleEndian.AppendUint16(b, uint16(bits>>16))
				} else {
					b = binary.LittleEndian.AppendUint32(b, bits)
				}
			}
		}
	}
	return b
}

// noNumbers makes all of a value NaN, in either precision.
func noNumbers(b []byte) {
	for i := range b {
		b[i] = 0xff
	}
}

func newGradientCase(k Math, rng *rand.Rand, d convShape) *gradientCase {
	op := imageOp(ir.Conv, d.channels, d.h, d.w, d.out, d.window, d.bias)
	in, out := ir.Size(op.Shape), ir.Size(op.Out)
	_, columns, positions := op.Columns()
	c := &gradientCase{math: k, s: d.size, op: op, params: d.out * columns}
	if d.bias {
		c.params += d.out
	}
	x, dy := normals(rng, d.capacity*in), normals(rng, d.capacity*out)
	c.x, c.dy = gradientPixels(k, op.Shape, x), gradientPixels(k, op.Out, dy)
	noNumbers(c.x[d.live*c.inBytes():])
	noNumbers(c.dy[d.live*c.outBytes():])
	c.gradients = sync.OnceValue(func() (all [][]truth) {
		nearest := func(x float32) float64 { return float64(k.nearest(x)) }
		for e := range d.live {
			g := make([]truth, c.params)
			taps(op, func(o, i, n int) { g[n].add(nearest(dy[e*out+o]), nearest(x[e*in+i])) })
			for o := 0; d.bias && o < out; o++ {
				g[d.out*columns+o/positions].add(nearest(dy[e*out+o]))
			}
			all = append(all, g)
		}
		return all
	})
	return c
}

func eachGradient(t *testing.T, seed uint64, f func(t *testing.T, rng *rand.Rand, c *gradientCase)) {
	for _, k := range maths[1:] {
		rng := rand.New(rand.NewPCG(seed, seed))
		for _, d := range slices.Concat(gradientCases, convCases, someConvs(rng)) {
			t.Run(fmt.Sprintf("%s, %v, %d×%d×%d to %d, %+v", k, d.size, d.channels, d.h, d.w, d.out, d.window), func(t *testing.T) {
				f(t, rng, newGradientCase(k, rng, d))
			})
		}
	}
}

// inOne makes a launch of one block take so many examples, which real batches leave to it: argument at says how many.
func inOne(l Launch, at, examples, capacity int) Launch {
	l.Args[at], l.Grid[0] = I(examples), ceil(capacity, examples)
	return l
}

// kept are the gradients of all live examples, as GradientStore leaves them, and the norms that it adds to 3 in each part.
func (c *gradientCase) kept(t *testing.T, m *machine, x, dy Ptr) (kept [][]float32, norms []float64) {
	stride, parts := c.params+5, c.math.GradientNorms(c.op)
	to, norm2 := m.floats(fill(c.s.capacity*stride, untouched)), m.doubles(fill64(parts*c.s.capacity, 3))
	m.launch(inOne(c.math.GradientStore(m.batch(c.s), c.op, x, dy, to, stride, norm2), 8, 2, c.s.capacity))
	got := m.read(to, c.s.capacity*stride)
	for e := range c.s.capacity {
		g := got[e*stride : (e+1)*stride]
		if e < c.s.live {
			kept, g = append(kept, g[:c.params]), g[c.params:]
		}
		same(t, "what is not written", g, fill(len(g), untouched))
	}
	return kept, c.norms(t, m, norm2)
}

func (c *gradientCase) norms(t *testing.T, m *machine, norm2 Ptr) []float64 {
	sums, parts := make([]float64, c.s.capacity), c.math.GradientNorms(c.op)
	for i, v := range m.readDoubles(norm2, parts*c.s.capacity) {
		sums[i%c.s.capacity] += v - 3
		if i%c.s.capacity >= c.s.live && v != 3 {
			t.Fatalf("the norm of dead example %d was written", i%c.s.capacity)
		}
	}
	return sums
}

// covers wants a norm to be that of the values or a little more: at most what its comment says, and what float64 does to 3 and more.
func covers(t *testing.T, what string, norm float64, values []float32) {
	t.Helper()
	exact := 0.0
	for _, v := range values {
		exact += float64(v) * float64(v)
	}
	slack := 1e-12 * (exact + 3*float64(len(values)))
	if !(norm >= exact-slack && norm <= exact*(1+200*0x1p-24)+slack) {
		t.Errorf("%s: the squared norm is %v, of what is kept %v", what, norm, exact)
	}
}

func TestGradientStoreAndNorm(t *testing.T) {
	eachGradient(t, 21, func(t *testing.T, _ *rand.Rand, c *gradientCase) {
		m := newMachine(t)
		x, dy, measured := m.bytes(c.x), m.bytes(c.dy), m.doubles(fill64(c.math.GradientNorms(c.op)*c.s.capacity, 3))
		kept, norms := c.kept(t, m, x, dy)
		m.launch(inOne(c.math.GradientNorm(m.batch(c.s), c.op, x, dy, measured), 6, ExampleBlock, c.s.capacity))
		again := c.norms(t, m, measured)
		for e, g := range kept {
			near(t, fmt.Sprint("gradient ", e), g, c.gradients()[e], c.roundings())
			covers(t, fmt.Sprint("store, example ", e), norms[e], g)
			covers(t, fmt.Sprint("norm, example ", e), again[e], g)
		}
	})
}

// addedTo is s + f·v, rounded once.
func addedTo(s, f, v float32) float32 {
	x := new(big.Float).SetPrec(600).Mul(big.NewFloat(float64(f)), big.NewFloat(float64(v)))
	out, _ := x.Add(x, big.NewFloat(float64(s))).Float32()
	return out
}

// What is summed is what was kept, to the bit, times its factor in the order of the examples.
func TestGradientSum(t *testing.T) {
	eachGradient(t, 22, func(t *testing.T, rng *rand.Rand, c *gradientCase) {
		m := newMachine(t)
		kept, _ := c.kept(t, m, m.bytes(c.x), m.bytes(c.dy))
		f := spoil(make([]float32, c.s.capacity), c.s.live, c.s.capacity)
		x, dy := slices.Clone(c.x), slices.Clone(c.dy)
		for e := range c.s.live {
			f[e] = rng.Float32() + 0.1
			if e%7 == 1 && c.s.live > 2 {
				f[e] = 0
				noNumbers(x[e*c.inBytes() : (e+1)*c.inBytes()])
				noNumbers(dy[e*c.outBytes() : (e+1)*c.outBytes()])
			}
		}
		stride, examples := c.params+5, ExampleBlock
		parts := ceil(c.s.capacity, examples)
		to := m.floats(fill(parts*stride, untouched))
		m.launch(inOne(c.math.GradientSum(m.batch(c.s), c.op, m.bytes(x), m.bytes(dy), m.floats(f), to, stride), 8, examples, c.s.capacity))
		got := m.read(to, parts*stride)
		for part := range parts {
			want := make([]float32, c.params)
			for e := part * examples; e < min((part+1)*examples, c.s.live); e++ {
				for i := range want {
					if f[e] > 0 {
						want[i] = addedTo(want[i], f[e], kept[e][i])
					}
				}
			}
			same(t, fmt.Sprint("part ", part), got[part*stride:part*stride+c.params], want)
			same(t, "what is not written", got[part*stride+c.params:(part+1)*stride], fill(5, untouched))
		}
	})
}

// Without clipping, examples whose factor is 1 are added up; of the others no number matters.
func TestGradientAdd(t *testing.T) {
	eachGradient(t, 23, func(t *testing.T, _ *rand.Rand, c *gradientCase) {
		m := newMachine(t)
		stride, examples := c.params, 3
		f := spoil(fill(c.s.capacity, 1), c.s.live, c.s.capacity)
		x, dy := slices.Clone(c.x), slices.Clone(c.dy)
		if c.s.live > 1 {
			f[1] = 0
			noNumbers(x[c.inBytes() : 2*c.inBytes()])
			noNumbers(dy[c.outBytes() : 2*c.outBytes()])
		}
		parts := ceil(c.s.capacity, examples)
		to := m.empty(parts * stride)
		m.launch(inOne(c.math.GradientAdd(m.batch(c.s), c.op, m.bytes(x), m.bytes(dy), m.floats(f), to, stride), 8, examples, c.s.capacity))
		got := m.read(to, parts*stride)
		for part := range parts {
			want := make([]truth, c.params)
			for e := part * examples; e < min((part+1)*examples, c.s.live); e++ {
				if f[e] == 0 {
					continue
				}
				for i, v := range c.gradients()[e] {
					want[i].sum += v.sum
					want[i].size += v.size
				}
			}
			near(t, fmt.Sprint("part ", part), got[part*stride:(part+1)*stride], want, examples*c.roundings())
		}
	})
}

// An example that is no number says so, and leaves the others' bits alone; one whose squares float32 does not hold is measured as any other.
func TestGradientNormOfAllNumbers(t *testing.T) {
	for _, k := range maths[1:] {
		rng := rand.New(rand.NewPCG(24, 24))
		c := newGradientCase(k, rng, convShape{size{7, 7}, 10, 5, 4, 18, ir.Square(3, 1, 1), true})
		in, out := ir.Size(c.op.Shape), ir.Size(c.op.Out)
		x, dy := normals(rng, 7*in), normals(rng, 7*out)
		dy[out+3] = nan32
		x[2*in+7] = float32(math.Inf(1))
		for i := range out {
			dy[3*out+i] *= 0x1p-90
			dy[4*out+i] *= 0x1p80
			dy[5*out+i] = 0
		}
		c.x, c.dy = gradientPixels(k, c.op.Shape, x), gradientPixels(k, c.op.Out, dy)
		m := newMachine(t)
		px, pdy, zeros := m.bytes(c.x), m.bytes(c.dy), make([]float64, k.GradientNorms(c.op)*7)
		stored, measured := m.doubles(zeros), m.doubles(zeros)
		to := m.empty(7 * c.params)
		m.launch(k.GradientStore(m.batch(c.s), c.op, px, pdy, to, c.params, stored))
		m.launch(k.GradientNorm(m.batch(c.s), c.op, px, pdy, measured))
		kept := m.read(to, 7*c.params)
		for what, p := range map[string]Ptr{"store": stored, "norm": measured} {
			norms := make([]float64, 7)
			for i, v := range m.readDoubles(p, len(zeros)) {
				norms[i%7] += v
			}
			for e, n := range norms {
				exact := 0.0
				for _, v := range kept[e*c.params : (e+1)*c.params] {
					exact += float64(v) * float64(v)
				}
				switch bad := math.IsNaN(n) || math.IsInf(n, 0); {
				case e == 1 || e == 2:
					if !bad {
						t.Errorf("%s, %s: the squared norm of example %d is %v", k, what, e, n)
					}
				case bad || n < exact || n > exact*(1+200*0x1p-24):
					t.Errorf("%s, %s: the squared norm of example %d is %v, of what is kept %v", k, what, e, n, exact)
				case (n == 0) != (e == 5):
					t.Errorf("%s, %s: example %d has the squared norm %v", k, what, e, n)
				}
			}
		}
	}
}

// What has no room is said beforehand.
func TestFitsGradient(t *testing.T) {
	far := ir.Window{H: 5, W: 5, StrideH: 1, StrideW: 1, DilationH: 40, DilationW: 40}
	for _, k := range maths[1:] {
		for _, c := range []struct {
			op   *ir.Op
			fits bool
		}{
			{imageOp(ir.Conv, 512, 7, 7, 512, ir.Square(3, 1, 1), true), true},
			{imageOp(ir.Conv, 3, 224, 224, 64, ir.Square(5, 2, 2), true), true},
			{imageOp(ir.Conv, 2048, 4, 4, 1000, ir.Square(1, 1, 0), true), true},
			{imageOp(ir.Conv, 64, 200, 200, 64, far, true), false},
		} {
			if k.FitsGradient(c.op) != c.fits {
				t.Errorf("%s, %v to %v by %+v fits: %v", k, c.op.Shape, c.op.Out, c.op.Window, !c.fits)
			}
			if p := k.planOf(c.op); p != nil && p.launch("store", p.threads(), 1, nil).Shared+p.copies() > 99<<10 {
				t.Errorf("%s, %v to %v has slabs that are too large", k, c.op.Shape, c.op.Out)
			}
		}
	}
}

// A part has as many examples as there are tiles, whatever the capacity, and never more than a block of float32 sums may have.
func TestGradientParts(t *testing.T) {
	for _, k := range maths[1:] {
		for _, c := range []struct {
			channels, capacity, parts int
		}{{256, 250, 8}, {256, 4096, 128}, {128, 250, 32}, {32, 250, 250}, {32, 1, 1}, {32, 4096, 4096}, {256, 100000, 3125}} {
			op := imageOp(ir.Conv, c.channels, 8, 8, c.channels, ir.Square(3, 1, 1), true)
			if got := k.GradientParts(op, c.capacity); got != c.parts {
				t.Errorf("%s: %d examples of %d channels are in %d parts, want %d", k, c.capacity, c.channels, got, c.parts)
			}
			l := k.GradientSum(Batch{Capacity: c.capacity}, op, 0, 0, 1, 0, 0)
			if examples := int(l.Args[8]); examples > ExampleBlock || l.Grid[0] != c.parts || l.Grid[0]*examples < c.capacity {
				t.Errorf("%s: %d examples of %d channels are summed by %v blocks of %d", k, c.capacity, c.channels, l.Grid, examples)
			}
		}
	}
}
