package kernels_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/privgrad/privgrad/internal/cuda/kernels"
	"github.com/privgrad/privgrad/internal/device/host"
	"github.com/privgrad/privgrad/internal/ir"
)

func TestNormGhost(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 1))
	for _, shape := range [][2]int{{1, 1}, {1, 300}, {127, 10}, {128, 129}, {1000, 3}} {
		for _, bias := range []int{ir.None, 1} {
			for _, live := range []int{0, 1, 4} {
				const capacity = 5
				in, out := shape[0], shape[1]
				op := &ir.Op{Kind: ir.Dense, Weight: 0, Bias: bias, Shape: []int{in}, Out: []int{out}}
				x, dy := normals32(rnd, in*capacity, 1e16), normals32(rnd, out*capacity, 1e-3)
				for i := range in {
					x[i] = float32(rnd.NormFloat64() / float64(in)) // beside which a bias counts
				}
				x[2*in] = 0x1.000002p63 // too long, with anything beside it
				for i := live * in; i < len(x); i++ {
					x[i] = nan32
				}
				for i := live * out; i < len(dy); i++ {
					dy[i] = nan32
				}
				if live == 4 {
					x[3*in] = nan32
					dy[out] = float32(math.Inf(1))
				}
				before := []float64{1, 2, 3, 4, 5}
				m := newMachine(t)
				norm2 := put(m, before)
				m.run(kernels.NormGhost(m.batch(live, capacity, 1), op, put(m, x), put(m, dy), norm2))
				for e, got := range get[float64](m, norm2, capacity) {
					want := before[e]
					if e < live {
						xx, dd := 0.0, 0.0
						for _, v := range x[e*in:][:in] {
							xx += float64(v) * float64(v)
						}
						for _, v := range dy[e*out:][:out] {
							dd += float64(v) * float64(v)
						}
						if bias != ir.None {
							xx++
						}
						if want += xx * dd; e == 2 {
							want = math.Inf(1)
						}
					}
					if !same(got, want) && !(math.Abs(got-want) <= 1e-13*want) {
						t.Errorf("%v, bias %d, %d live: norm² %d is %v, want %v", shape, bias, live, e, got, want)
					}
				}
			}
		}
	}
}

// Several ops go in one launch, each into its own norms.
func TestNormGhosts(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 4))
	const live, capacity = 3, 4
	m, together := newMachine(t), newMachine(t)
	var ghosts, again []kernels.Ghost
	for i := range kernels.MostGhosts {
		op := &ir.Op{Kind: ir.Dense, Weight: 0, Bias: i%2 - 1, Shape: []int{40 + i}, Out: []int{3 * (i + 1)}}
		x, dy := normals32(rnd, op.Shape[0]*capacity, 1), normals32(rnd, op.Out[0]*capacity, 1)
		before := []float64{1, 2, 3, 4}
		ghosts = append(ghosts, kernels.Ghost{Op: op, X: put(m, x), Dy: put(m, dy), Norm2: put(m, before)})
		again = append(again, kernels.Ghost{Op: op, X: put(together, x), Dy: put(together, dy), Norm2: put(together, before)})
	}
	b := m.batch(live, capacity, 1)
	for _, g := range ghosts {
		m.run(kernels.NormGhost(b, g.Op, g.X, g.Dy, g.Norm2))
	}
	together.run(kernels.NormGhosts(together.batch(live, capacity, 1), again...))
	for i := range ghosts {
		allSame(t, fmt.Sprintf("op %d", i), get[float64](together, again[i].Norm2, capacity), get[float64](m, ghosts[i].Norm2, capacity))
	}
}

// Factors are those of the host, bit for bit, and so never above them.
func TestFactors(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 2))
	for _, clipping := range []ir.Clipping{ir.Unclipped, ir.Flat, ir.PerLayer, ir.Automatic} {
		for _, groups := range []int{1, 7} {
			if groups > 1 && clipping != ir.PerLayer {
				continue
			}
			for i, clip := range []float32{1, 0.3, 1e-30, 3e38, 1e-45} {
				const capacity = 300
				for _, live := range []int{capacity - 1, 0, 1} {
					if i > 0 && live <= 1 {
						break // how few there are has nothing to do with the norm
					}
					s := &ir.Schedule{Program: &ir.Program{Ops: make([]ir.Op, groups)}, Clipping: clipping}
					c := host.NewClipper(s)
					if c.Groups != groups {
						t.Fatalf("the clipper has %d groups, want %d", c.Groups, groups)
					}
					norm2, targets := make([]float64, groups*capacity), make([]float32, capacity)
					bound := float64(clip) / math.Sqrt(float64(groups))
					for i := range norm2 {
						switch i % 8 {
						case 0: // close to the bound
							n := bound * (1 + float64(rnd.IntN(9)-4)*0x1p-24)
							norm2[i] = n * n
						case 1:
							norm2[i] = math.Pow(10, 600*rnd.Float64()-300)
						default:
							n := bound * math.Exp(3*rnd.NormFloat64())
							norm2[i] = n * n
						}
						if e := i % capacity; e%17 == 3 && rnd.IntN(groups) == 0 {
							norm2[i] = []float64{math.NaN(), math.Inf(1), 0, 5e-324}[e/17%4]
						}
					}
					for e := range targets {
						targets[e] = []float32{0, 1, 2, 2.5, 3, nan32, -1, 1, 2, 0, 1, 1, 1}[e%13]
						if e >= live {
							targets[e] = 1
						}
					}
					m := newMachine(t)
					b := m.batch(live, capacity, clip)
					factors, within := put(m, filled(groups*capacity, nan32)), put(m, filled(capacity, int32(9)))
					m.run(kernels.Factors(b, clipping, groups, 1, put(m, norm2), ir.SoftmaxCrossEntropy, 3, put(m, targets), factors, within))
					got, counted := get[float32](m, factors, groups*capacity), get[int32](m, within, capacity)
					what := fmt.Sprintf("%s, %d groups, clip %v, %d live", clipping, groups, clip, live)
					count := 0.0
					for e := range capacity {
						own, want := make([]float64, groups), make([]float32, groups)
						for g := range own {
							own[g] = norm2[g*capacity+e]
						}
						used := host.Factors(c, want, own, clip) && e < live && ir.SoftmaxCrossEntropy.ValidTarget(targets[e], 3)
						share := 0.0
						if used {
							share = host.Within(want[0])
						} else {
							clear(want)
						}
						count += share
						for g, w := range want {
							if !same(got[g*capacity+e], w) {
								t.Fatalf("%s: factor %d of example %d with norms² %v is %v, want %v", what, g, e, own, got[g*capacity+e], w)
							}
						}
						if float64(counted[e]) != 2*share {
							t.Fatalf("%s: example %d counts %d halves, want %v", what, e, counted[e], share)
						}
					}
					total := put(m, []float64{10})
					m.run(kernels.Count(b, within, total))
					if x := get[float64](m, total, 1)[0]; x != 10+count {
						t.Errorf("%s: the count is %v, want %v", what, x-10, count)
					}
					// In parts, which are added up.
					const parts = 3
					split := make([]float64, parts*len(norm2))
					for i, n := range norm2 {
						at := i/capacity*parts*capacity + i%capacity
						split[at+rnd.IntN(parts)*capacity] = n
					}
					m.run(kernels.Factors(b, clipping, groups, parts, put(m, split), ir.SoftmaxCrossEntropy, 3, put(m, targets), factors, within))
					allSame(t, what+", in parts", get[float32](m, factors, groups*capacity), got)
					// Without a place for the count, and under no clipping without norms.
					if clipping == ir.Unclipped {
						norm2 = nil
					}
					m.run(kernels.Factors(b, clipping, groups, 1, put(m, norm2), ir.SoftmaxCrossEntropy, 3, put(m, targets), factors, 0))
					allSame(t, what, get[float32](m, factors, groups*capacity), got)
				}
			}
		}
	}
}

// Norms that Factors computes by itself are those of NormGhosts, each in its group.
func TestFactorsMeasureGhosts(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 5))
	const live, capacity, groups = 5, 6, 3
	m := newMachine(t)
	b := m.batch(live, capacity, 1)
	norms := make([]float64, groups*capacity)
	for i := range norms {
		norms[i] = rnd.Float64()
	}
	norms[2] = math.NaN()
	parts := make([]float64, 2*len(norms)) // what others measured, then the ghost's
	for i, n := range norms {
		parts[i/capacity*2*capacity+i%capacity] = n
	}
	split := put(m, parts)
	var ghosts []kernels.Ghost
	for i, g := range []int{2, 0} {
		op := &ir.Op{Kind: ir.Dense, Weight: 0, Bias: i - 1, Shape: []int{130 + i}, Out: []int{3}}
		x, dy := normals32(rnd, op.Shape[0]*capacity, 0.1), normals32(rnd, op.Out[0]*capacity, 1)
		if i == 1 {
			x[op.Shape[0]] = nan32 // example 1
		}
		ghosts = append(ghosts, kernels.Ghost{Op: op, X: put(m, x), Dy: put(m, dy), Norm2: split + uint64(8*capacity*(2*g+1)), Group: g})
	}
	m.run(kernels.NormGhosts(b, ghosts...))
	targets, want, got := put(m, filled(capacity, float32(1))), put(m, filled(groups*capacity, nan32)), put(m, filled(groups*capacity, nan32))
	m.run(kernels.Factors(b, ir.PerLayer, groups, 2, split, ir.SoftmaxCrossEntropy, 3, targets, want, 0))
	m.run(kernels.Factors(b, ir.PerLayer, groups, 1, put(m, norms), ir.SoftmaxCrossEntropy, 3, targets, got, 0, ghosts...))
	factors := get[float32](m, want, groups*capacity)
	allSame(t, "factors", get[float32](m, got, groups*capacity), factors)
	for e := range capacity {
		if zero := e == 1 || e == 2 || e == live; (factors[e] == 0) != zero {
			t.Errorf("example %d has the factor %v", e, factors[e])
		}
	}
}

func TestCombine(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 3))
	const many = 36_000 // which are added by fours
	for _, n := range []int{1, 31, 70, many} {
		for _, live := range []int{0, 1, 32, 33, 299} {
			const capacity = 300
			stride := n + 3
			if n == many {
				if stride = n + 4; live != 33 && live != 299 {
					continue
				}
			}
			kept, factors := normals32(rnd, capacity*stride, 1), make([]float32, capacity)
			for b := range factors {
				factors[b] = rnd.Float32()
				if b%5 == 2 || b >= live { // what they hold must not matter
					factors[b] = 0
					for i := range stride {
						kept[b*stride+i] = []float32{nan32, float32(math.Inf(1)), float32(math.Inf(-1))}[rnd.IntN(3)]
					}
				}
				if b >= live {
					factors[b] = 1
				}
			}
			want := make([]float64, n+1)
			for i := range want {
				want[i] = rnd.NormFloat64()
			}
			m := newMachine(t)
			sum := put(m, want)
			l := kernels.Combine(m.batch(live, capacity, 1), put(m, factors), put(m, kept), stride, n, sum)
			if fours := l.Name == "combine_fours"; fours != (n == many) {
				t.Fatalf("%s adds %d values", l.Name, n)
			}
			m.run(l)
			for i := range n {
				for lo := 0; lo < live; lo += kernels.ExampleBlock {
					part := float32(0)
					for b := lo; b < min(lo+kernels.ExampleBlock, live); b++ {
						if factors[b] > 0 {
							part = fma32(factors[b], kept[b*stride+i], part)
						}
					}
					want[i] += float64(part)
				}
			}
			allSame(t, fmt.Sprintf("%d values of %d examples", n, live), get[float64](m, sum, n+1), want)
		}
	}
}
