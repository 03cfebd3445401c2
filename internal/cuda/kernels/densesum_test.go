package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/privgrad/privgrad/internal/ir"
)

// tensorSum is one op's sum in pixels, and what it has to be.
type tensorSum struct {
	Sum
	w, bias []truth
}

// newTensorSum is of values of which dead examples, and those that are left out, hold NaN.
func newTensorSum(m *machine, k Math, rng *rand.Rand, c denseCase, f []float32, at Ptr) (s tensorSum) {
	x, dy := normals(rng, c.capacity*c.in), normals(rng, c.capacity*c.out)
	for e := range c.capacity {
		if !(f[e] > 0) || e >= c.live {
			copy(x[e*c.in:(e+1)*c.in], fill(c.in, nan32))
			copy(dy[e*c.out:(e+1)*c.out], fill(c.out, nan32))
		}
	}
	op := denseOp(c.in, c.out, c.bias)
	s.Sum = Sum{Op: op, X: m.pixels(k, op.Shape, x), Dy: m.pixels(k, op.Out, dy), Factors: at, SumW: m.doubles(fill64(c.in*c.out, 0.1))}
	s.w, s.bias = make([]truth, c.in*c.out), make([]truth, c.out)
	if c.bias {
		s.SumB = m.doubles(fill64(c.out, 0.1))
	}
	for o := range c.out {
		s.bias[o].add(0.1)
		for i := range c.in {
			s.w[o*c.in+i].add(0.1)
		}
		for e := range c.live {
			if !(f[e] > 0) {
				continue
			}
			d := f[e] * k.nearest(dy[e*c.out+o])
			s.bias[o].add(float64(d))
			for i := range c.in {
				s.w[o*c.in+i].add(float64(k.cut(d)), float64(k.nearest(x[e*c.in+i])))
			}
		}
	}
	return s
}

// check compares with the truth. A share passes a chain on a tensor core, and the additions of a part's blocks but the first: in a bias, the
// additions of a block instead of the chain. One rounding more is that of a float64 sum, and of the product in a bias.
func (s *tensorSum) check(t *testing.T, m *machine, k Math, name string) {
	t.Helper()
	const added = SumPart/sumBlock - 1
	near64(t, name+": weights", m.readDoubles(s.SumW, len(s.w)), s.w, chainRoundings(16)+added+1)
	if s.SumB != 0 {
		near64(t, name+": bias", m.readDoubles(s.SumB, len(s.bias)), s.bias, sumBlock+added+1)
	}
}

func TestTensorDenseSums(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 1))
	cases := append(slices.Clone(denseCases),
		denseCase{size{561, 700}, 37, 40, true}, // the last example is alone in the second block of a slab
		denseCase{size{20, 600}, 70, 130, true})
	for _, k := range pixelMaths {
		tilesOf(&tensorSumTiles, func(tile string) {
			for _, c := range cases {
				name := fmt.Sprintf("%s, %s, %v, %d to %d", k, tile, c.size, c.in, c.out)
				m := newMachine(t)
				f := factorsFor(rng, c.size)
				s := newTensorSum(m, k, rng, c, f, m.floats(f))
				parts := Ptr(0)
				if bytes := PartBytes(c.capacity, s.Op); bytes > 0 {
					parts = m.empty(bytes / 4)
				}
				for _, l := range k.DenseSums(m.batch(c.size), parts, s.Sum) {
					m.launch(l)
				}
				s.check(t, m, k, name)
			}
		})
	}
}

// Sums have the same bits whether parts are computed at once or one after the other, alone or with other ops, and by all tiles.
func TestTensorDenseSumsHaveTheSameBits(t *testing.T) {
	c := size{300, 650}
	for _, k := range pixelMaths {
		var want [][]float64
		tilesOf(&tensorSumTiles, func(tile string) {
			for _, way := range []string{"alone", "together", "in parts"} {
				rng := rand.New(rand.NewPCG(21, 2))
				m := newMachine(t)
				f := factorsFor(rng, c)
				at := m.floats(f)
				var sums []Sum
				var ops []*ir.Op
				for _, d := range [][2]int{{70, 33}, {5, 70}, {9, 10}, {1, 1}} {
					s := newTensorSum(m, k, rng, denseCase{c, d[0], d[1], true}, f, at)
					sums, ops = append(sums, s.Sum), append(ops, s.Op)
				}
				b, parts := m.batch(c), Ptr(0)
				var all []Launch
				switch way {
				case "alone":
					for _, s := range sums {
						all = append(all, k.DenseSums(b, 0, s)...)
					}
				case "in parts":
					parts = m.empty(PartBytes(c.capacity, ops...) / 4)
					fallthrough
				default:
					all = k.DenseSums(b, parts, sums...)
				}
				for _, l := range all {
					m.launch(l)
				}
				var got [][]float64
				for i, s := range sums {
					out, in, _ := ops[i].Columns()
					got = append(got, m.readDoubles(s.SumW, in*out), m.readDoubles(s.SumB, out))
				}
				if want == nil {
					want = got
				}
				for i := range got {
					if !slices.Equal(got[i], want[i]) {
						t.Errorf("%s, %s, %s: sums %d differ", k, tile, way, i)
					}
				}
			}
		})
	}
}

// A block is a chain from zero on a tensor core, the blocks of a part are added in float32, parts in float64.
func TestTensorDenseSumsOrder(t *testing.T) {
	for _, k := range pixelMaths {
		const live = 3 * SumPart
		x, dy := fill(live, 0x1p-13), fill(live, 0x1p-12)
		for p := range 2 { // the first two parts begin with 1, beside which a block's other values are lost, but not 15 other blocks
			x[p*SumPart], dy[p*SumPart] = 1, 1
		}
		m := newMachine(t)
		op, sum := denseOp(1, 1, false), m.doubles([]float64{0x1p-50})
		m.launch(k.DenseSums(m.batch(size{live, live}), 0, Sum{op, m.pixels(k, op.Shape, x), m.pixels(k, op.Out, dy), m.floats(fill(live, 1)), sum, 0})[0])
		// 2⁻²⁵ is cut off where a tensor core adds it to 1, alone or with 14 others only if they are added first: so at least 1 and at most 1 + 15·2⁻²⁵
		// are of the first block. 15 blocks of 16 values add 2⁻²¹ each.
		got := m.readDoubles(sum, 1)[0]
		least := 2*(1+15*0x1p-21) + 16*0x1p-21 + 0x1p-50
		if got < least || got > least+2*15*0x1p-25 {
			t.Errorf("%s: the sum is %v, want %v", k, got, least)
		}
		if last := math.Mod(got, 0x1p-40); last != 0x1p-50 {
			t.Errorf("%s: parts are not added in float64: %v", k, got)
		}
	}
}

// As TestDenseShareIsNotLonger, of what lies in pixels.
func TestTensorDenseShareIsNotLonger(t *testing.T) {
	rng := rand.New(rand.NewPCG(22, 1))
	const in, out = 43, 21
	op := denseOp(in, out, false)
	for _, k := range pixelMaths {
		for try := range 16 {
			x, dy := normals(rng, in), normals(rng, out)
			f := float32(0) // one over the norm
			switch try {
			case 0: // f·δ just above half a place of either precision
				f, dy = 1+0x1.1p-11, fill(out, 1)
			case 1:
				f, dy = 1+0x1.1p-8, fill(out, -1)
			case 2:
				f, x, dy = 1, fill(in, 0x1p59), fill(out, 0x1p-40)
			}
			m := newMachine(t)
			b, px, pd, norm2, sum := m.batch(size{1, 1}), m.pixels(k, op.Shape, x), m.pixels(k, op.Out, dy), m.doubles([]float64{0}), m.doubles(make([]float64, in*out))
			m.launch(NormGhosts(b, Ghost{Op: op, Math: k, X: px, Dy: pd, Norm2: norm2}))
			norm := math.Sqrt(m.readDoubles(norm2, 1)[0])
			if f == 0 {
				f = float32(1 / norm)
			}
			m.launch(k.DenseSums(b, 0, Sum{op, px, pd, m.floats([]float32{f}), sum, 0})[0])
			squares := 0.0
			for _, v := range m.readDoubles(sum, in*out) {
				squares += v * v
			}
			// f·δ rounds, and the float64 norm; factors have a margin of four units for both. It is not next to nothing.
			if got := math.Sqrt(squares); !(got <= float64(f)*norm*(1+2*unit)) || got < float64(f)*norm*(1-0x1p-6) {
				t.Errorf("%s %d: the share has the norm %v, %v is promised", k, try, got, float64(f)*norm)
			}
		}
	}
}

func TestTensorDenseSumsLeaveOutWhatOverflows(t *testing.T) {
	op := denseOp(2, 2, true)
	for _, k := range pixelMaths {
		m := newMachine(t)
		sum := m.doubles(make([]float64, 6))
		x, dy := m.pixels(k, op.Shape, []float32{0, 0x1p-100}), m.pixels(k, op.Out, []float32{0x1p127, 1})
		m.launch(k.DenseSums(m.batch(size{1, 1}), 0, Sum{op, x, dy, m.floats([]float32{3}), sum, sum + 8*4})[0])
		if got, want := m.readDoubles(sum, 6), []float64{0, 0, 0, 3 * 0x1p-100, 0, 3}; !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", k, got, want)
		}
	}
}

// Norms of ghosts are of what lies in memory, in every layout, alone and with the factors.
func TestNormGhostsInPixels(t *testing.T) {
	rng := rand.New(rand.NewPCG(22, 2))
	const capacity = 5
	for _, k := range maths {
		for _, c := range [][2]int{{1, 1}, {300, 7}, {1111, 260}} {
			for _, bias := range []bool{false, true} {
				op := denseOp(c[0], c[1], bias)
				m := newMachine(t)
				x, dy := normals(rng, capacity*c[0]), normals(rng, capacity*c[1])
				put := func(shape []int, v []float32) Ptr {
					if k.plain() {
						return m.floats(v)
					}
					return m.pixels(k, shape, v)
				}
				norm2 := m.doubles(fill64(capacity, 0.5))
				m.launch(NormGhosts(m.batch(size{capacity, capacity}), Ghost{Op: op, Math: k, X: put(op.Shape, x), Dy: put(op.Out, dy), Norm2: norm2}))
				for e, got := range m.readDoubles(norm2, capacity) {
					squares := func(v []float32, n int) (sum float64) {
						for _, v := range v[e*n : (e+1)*n] {
							sum += float64(k.nearest(v)) * float64(k.nearest(v))
						}
						return sum
					}
					xx := squares(x, c[0])
					if bias {
						xx++
					}
					close64(t, fmt.Sprintf("%s %v: norm %d", k, c, e), got, 0.5+xx*squares(dy, c[1]), gamma(c[0]+c[1], 0x1p-53))
				}
			}
		}
	}
}
