package vec

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/privgrad/privgrad/internal/half"
)

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 7)) }

func values(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(3 * r.NormFloat64())
	}
	return x
}

func eachImplementation(t *testing.T, test func(t *testing.T)) {
	defer func(was kernels) { use = was }(use)
	for name, k := range implementations() {
		use = k
		t.Run(name, test)
	}
}

const a, b = 0.7, -1.3 // scalars

// elementwise lists every function of the package as a map of up to two inputs and the former dst, with its meaning in
// float64 and the roundings that its result may be off, in units of 2⁻²⁴ of the larger of result and terms.
var elementwise = []struct {
	name   string
	run    func(dst, x, y []float32)
	mean   func(dst, x, y float64) float64
	size   func(dst, x, y float64) float64 // what the roundings are relative to; nil: the result
	rounds float64
}{
	{"Tanh", func(dst, x, _ []float32) { Tanh(dst, x) }, func(_, x, _ float64) float64 { return math.Tanh(x) }, nil, 5},
	{"Sigmoid", func(dst, x, _ []float32) { Sigmoid(dst, x) }, func(_, x, _ float64) float64 { return 1 / (1 + math.Exp(-x)) }, nil, 5},
	{"ReLU", func(dst, x, _ []float32) { ReLU(dst, x) }, func(_, x, _ float64) float64 { return max(x, 0) }, nil, 0},
	{"TanhGrad", TanhGrad, func(_, y, g float64) float64 { return g * (1 - y*y) }, nil, 2.01},
	{"SigmoidGrad", SigmoidGrad, func(_, y, g float64) float64 { return g * y * (1 - y) }, nil, 2.01},
	{"ReLUGrad", ReLUGrad, func(_, y, g float64) float64 {
		if y > 0 {
			return g
		}
		return 0
	}, nil, 0},
	{"LeakyReLU", func(dst, x, _ []float32) { LeakyReLU(dst, x, a) }, func(_, x, _ float64) float64 { return max(x, float64(float32(a))*x) }, nil, 1},
	{"LeakyReLUGrad", func(dst, y, g []float32) { LeakyReLUGrad(dst, y, g, a) }, func(_, y, g float64) float64 {
		if y > 0 {
			return g
		}
		return float64(float32(a)) * g
	}, nil, 1},
	{"GELU", func(dst, x, _ []float32) { GELU(dst, x) }, func(_, x, _ float64) float64 {
		below, _ := gaussian(x)
		return x * below
	}, nil, 8},
	{"GELUGrad", GELUGrad, func(_, x, g float64) float64 {
		below, slope := gaussian(x)
		return g * (below + slope)
	}, func(_, x, g float64) float64 {
		below, slope := gaussian(x)
		return math.Abs(g) * (below + math.Abs(slope))
	}, 7},
	{"AddVec", func(dst, x, _ []float32) { AddVec(dst, x) }, func(d, x, _ float64) float64 { return d + x }, nil, 1},
	{"Axpy", func(dst, x, _ []float32) { Axpy(dst, a, x) }, func(d, x, _ float64) float64 { return d + float64(float32(a))*x }, nil, 1.01},
	{"Scale", func(dst, _, _ []float32) { Scale(dst, a) }, func(d, _, _ float64) float64 { return d * float64(float32(a)) }, nil, 1},
	{"Scaled", func(dst, x, _ []float32) { Scaled(dst, a, x) }, func(_, x, _ float64) float64 { return x * float64(float32(a)) }, nil, 1},
	{"Mix", func(dst, x, y []float32) { Mix(dst, a, x, b, y) }, func(_, x, y float64) float64 {
		return float64(float32(a))*x + float64(float32(b))*y
	}, func(_, x, y float64) float64 { return math.Abs(a*x) + math.Abs(b*y) }, 2.01},
	{"Mul", Mul, func(_, x, y float64) float64 { return x * y }, nil, 1},
	{"MulAdd to dst", func(dst, x, y []float32) { MulAdd(dst, x, y, dst) }, func(d, x, y float64) float64 { return d + x*y }, nil, 1.01},
	{"MulAdd", func(dst, x, y []float32) { MulAdd(dst, x, y, x) }, func(_, x, y float64) float64 { return x*y + x }, nil, 1.01},
	{"Normalize", func(dst, x, _ []float32) { Normalize(dst, x, a, b, 0.25) }, func(_, x, _ float64) float64 { return (x-a32)*b32 + 0.25 }, func(_, x, _ float64) float64 {
		return math.Abs((x-a32)*b32) + 0.25 // the difference is rounded before it may cancel
	}, 2.01},
	{"Descend", func(dst, x, _ []float32) { Descend(dst, a, b, x, 0.25) }, func(d, x, _ float64) float64 {
		return d + float64(float32(a))*(float64(float32(b))*x+0.25*d)
	}, func(d, x, _ float64) float64 { return math.Abs(d) + math.Abs(a*b*x) + math.Abs(a*0.25*d) }, 3.01},
	{"MixSquares", func(dst, x, _ []float32) { MixSquares(dst, a, b, x) }, func(d, x, _ float64) float64 {
		return float64(float32(a))*d + float64(float32(b))*x*x
	}, func(d, x, _ float64) float64 { return math.Abs(a*d) + math.Abs(b*x*x) }, 3.01},
	{"Modulus", Modulus, func(_, x, y float64) float64 { return math.Sqrt(x*x + y*y) }, nil, 2.01},
	{"AddExcess", func(dst, x, _ []float32) { AddExcess(dst, a, x, b) }, func(d, x, _ float64) float64 {
		return d + max(float64(float32(a))*x-float64(float32(b)), 0)
	}, func(d, x, _ float64) float64 { return math.Abs(d) + 2*math.Abs(a*x) + 2*math.Abs(b) }, 2.01},
	{"Adam", func(dst, x, y []float32) { Adam(dst, a, x, 3, squares(y), 0, 0, 1e-3) }, func(d, x, y float64) float64 {
		return d - float64(float32(a))*x/(math.Sqrt(3*y*y)+1e-3)
	}, func(d, x, y float64) float64 { return math.Abs(d) + math.Abs(a*x)/(math.Sqrt(3*y*y)+1e-3) }, 6},
	{"Adam less", func(dst, x, y []float32) { Adam(dst, a, x, 3, squares(y), 0.25, 0.125, 1e-3) }, func(d, x, y float64) float64 {
		return d - float64(float32(a))*x/(math.Sqrt(math.Max(3*y*y-0.25, 0.125))+1e-3)
	}, func(d, x, y float64) float64 {
		return math.Abs(d) + math.Abs(a*x)/(math.Sqrt(math.Max(3*y*y-0.25, 0.125))+1e-3)
	}, 9},
	{"Gated", func(dst, x, y []float32) { Gated(dst, x, a, y, b) }, func(_, x, y float64) float64 { return sigma(x+a32) * math.Tanh(y+b32) }, func(_, x, y float64) float64 {
		return sigma(x+a32) * (math.Abs(math.Tanh(y+b32)) + math.Abs(b32)) // a sum with the bias may cancel
	}, 10},
	{"Keep", func(dst, x, y []float32) { Keep(dst, x, b, y) }, func(d, x, y float64) float64 { return d*sigma(x+b32) + y }, func(d, x, y float64) float64 {
		return math.Abs(d*sigma(x+b32)) + math.Abs(y)
	}, 10},
	{"Bytes", func(dst, x, _ []float32) { Bytes(dst, asBytes(x), a, b) }, func(_, x, _ float64) float64 {
		return float64(asBytes([]float32{float32(x)})[0])*float64(float32(a)) + float64(float32(b))
	}, nil, 1.01},
	{"Halves", func(dst, x, _ []float32) { Halves(dst, asHalves(x)) }, func(_, x, _ float64) float64 {
		return float64(half.ToFloat32(asHalves([]float32{float32(x)})[0]))
	}, nil, 0},
}

const a32, b32 = float64(float32(a)), float64(float32(b))

func sigma(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

func squares(x []float32) []float32 {
	y := make([]float32, len(x))
	for i, v := range x {
		y[i] = v * v
	}
	return y
}

// asBytes makes bytes of floats, each of its own value alone.
func asBytes(x []float32) []uint8 {
	y := make([]uint8, len(x))
	for i, v := range x {
		y[i] = uint8(math.Float32bits(v) >> 13)
	}
	return y
}

func asHalves(x []float32) []uint16 {
	y := make([]uint16, len(x))
	for i, v := range x {
		y[i] = half.FromFloat32(v)
	}
	return y
}

// TestEveryHalf compares all 65,536 with their meaning, at every place of a vector.
func TestEveryHalf(t *testing.T) {
	var all []uint16
	for h := range 1<<16 + 17 {
		all = append(all, uint16(h))
	}
	eachImplementation(t, func(t *testing.T) {
		for first := range 17 {
			got := make([]float32, 1<<16)
			Halves(got, all[first:])
			for i, y := range got {
				h := all[first+i]
				want := math.Ldexp(float64(h&0x3ff), -24)
				if e := int(h >> 10 & 31); e > 0 {
					want = math.Ldexp(float64(h&0x3ff|0x400), e-25)
				}
				if h&0x7c00 == 0x7c00 {
					want = math.Inf(1)
					if h&0x3ff != 0 {
						want = math.NaN()
					}
				}
				want = math.Copysign(want, -float64(h>>15)+0.5)
				if math.Float32bits(y) != math.Float32bits(float32(want)) && (y == y || want == want) {
					t.Fatalf("%#04x is %g, want %g", h, y, want)
				}
			}
		}
	})
}

func TestElementwise(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		for _, f := range elementwise {
			t.Run(f.name, func(t *testing.T) {
				r := newRand(1)
				for n := range 100 {
					dst, x, y := values(r, n), values(r, n), values(r, n)
					got := slices.Clone(dst)
					f.run(got, x, y)
					for i := range got {
						want := f.mean(float64(dst[i]), float64(x[i]), float64(y[i]))
						size := math.Abs(want)
						if f.size != nil {
							size = f.size(float64(dst[i]), float64(x[i]), float64(y[i]))
						}
						if bound := f.rounds * size / (1 << 24); !(math.Abs(float64(got[i])-want) <= bound) {
							t.Fatalf("n = %d, element %d of %g, %g and %g is %g, want %g", n, i, dst[i], x[i], y[i], got[i], want)
						}
					}
				}
			})
		}
	})
}

// A step of descent is that of two kernels, bit for bit.
func TestDescendIsMixAndAxpy(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		r := newRand(6)
		for n := range 100 {
			p, x, d := values(r, n), values(r, n), make([]float32, n)
			want, got := slices.Clone(p), slices.Clone(p)
			Mix(d, b, x, 0.3, p)
			Axpy(want, a, d)
			if Descend(got, a, b, x, 0.3); !slices.Equal(got, want) {
				t.Fatalf("n = %d: %g, want %g", n, got, want)
			}
		}
	})
}

// Any cut at any alignment gives the bits of the whole, and touches nothing beside it.
func TestPlaceDoesNotMatter(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		for _, f := range elementwise {
			t.Run(f.name, func(t *testing.T) {
				r := newRand(2)
				const n = 100
				dst, x, y := values(r, n), values(r, n), values(r, n)
				whole := slices.Clone(dst)
				f.run(whole, x, y)
				for from := range n {
					for _, to := range []int{from, from + 1 + r.IntN(n-from), n} {
						part := slices.Clone(dst)
						f.run(part[from:to], x[from:], y[from:])
						if !slices.Equal(part[from:to], whole[from:to]) {
							t.Fatalf("elements %d to %d alone have other bits", from, to)
						}
						if !slices.Equal(part[:from], dst[:from]) || !slices.Equal(part[to:], dst[to:]) {
							t.Fatalf("elements beside %d to %d were written", from, to)
						}
					}
				}
			})
		}
	})
}

func TestDstMayBeAnInput(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		r := newRand(3)
		for _, f := range elementwise {
			x, y := values(r, 77), values(r, 77)
			want, got := slices.Clone(x), slices.Clone(x)
			f.run(want, x, y)
			f.run(got, got, y)
			if !slices.Equal(got, want) {
				t.Errorf("%s over its first input differs", f.name)
			}
			want, got = slices.Clone(y), slices.Clone(y)
			f.run(want, x, y)
			f.run(got, x, got)
			if !slices.Equal(got, want) {
				t.Errorf("%s over its second input differs", f.name)
			}
		}
	})
}

// sample visits every stride-th float32, infinities included and NaN excluded.
func sample(stride uint32, visit func(x []float32)) {
	x := make([]float32, 0, 1<<12)
	for bits := uint64(0); bits < 1<<32; bits += uint64(stride) {
		if v := math.Float32frombits(uint32(bits)); v == v {
			x = append(x, v)
		}
		if len(x) == cap(x) {
			visit(x)
			x = x[:0]
		}
	}
	visit(append(x, float32(math.Inf(1)), float32(math.Inf(-1)), math.MaxFloat32, math.SmallestNonzeroFloat32, 0))
}

func TestTanhOverTheWholeRange(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		y := make([]float32, 1<<13)
		sample(4093, func(x []float32) {
			Tanh(y, append(x, make([]float32, len(y)-len(x))...))
			for i, v := range x {
				want := math.Tanh(float64(v))
				if err := math.Abs(float64(y[i]) - want); !(err <= 3e-7*math.Abs(want)) || math.Abs(float64(y[i])) > 1 {
					t.Fatalf("tanh(%g) is %g, want %g", v, y[i], want)
				}
			}
		})
	})
}

func TestSigmoidOverTheWholeRange(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		y := make([]float32, 1<<13)
		sample(4093, func(x []float32) {
			Sigmoid(y, append(x, make([]float32, len(y)-len(x))...))
			for i, v := range x {
				want := 1 / (1 + math.Exp(-float64(v)))
				if err := math.Abs(float64(y[i]) - want); !(err <= max(3e-7*want, 2e-45)) || y[i] > 1 {
					t.Fatalf("sigmoid(%g) is %g, want %g", v, y[i], want)
				}
			}
		})
	})
}

// A gate and what it lets through run over the whole range while the other stands at some values, the whole range among them.
func TestGatesOverTheWholeRange(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		worst := 0.0
		near := func(got float32, want, size, kept float64) bool {
			off := math.Abs(float64(got)-want) - 2e-38*(1+kept) // what a gate does not fall below
			if size > 0 {
				worst = max(worst, off/size)
			}
			return off <= 5e-7*size
		}
		y := make([]float32, 1<<12+5)
		sample(65521, func(x []float32) {
			at := func(v float32) []float32 { return slices.Repeat([]float32{v}, len(x)) }
			y := y[:len(x)]
			gates, values := make([]float64, len(x)), make([]float64, len(x))
			for i, v := range x {
				gates[i], values[i] = sigma(float64(v)), math.Tanh(float64(v))
			}
			for _, other := range []float32{0, -0.3, 2, -9, 30, -100, float32(math.Inf(1)), 1e-30, 1e30} {
				fixed, o := at(other), float64(other)
				gate, value := sigma(o), math.Tanh(o)
				Gated(y, x, 0, fixed, 0)
				for i, v := range x {
					if want := gates[i] * value; !near(y[i], want, math.Abs(want), 0) {
						t.Fatalf("gate %g of %g is %g, want %g", v, other, y[i], want)
					}
				}
				Gated(y, fixed, 0, x, 0)
				for i, v := range x {
					if want := gate * values[i]; !near(y[i], want, math.Abs(want), 0) {
						t.Fatalf("gate %g of %g is %g, want %g", other, v, y[i], want)
					}
				}
				if math.IsInf(o, 0) {
					continue
				}
				copy(y, fixed)
				more := [...]float32{0, 1, -0.3, 1e20, -1e-30}
				for i := range fixed {
					fixed[i] = more[i%len(more)]
				}
				Keep(y, x, 0, fixed)
				for i, v := range x {
					kept, more := o*gates[i], float64(fixed[i])
					if !near(y[i], kept+more, math.Abs(kept)+math.Abs(more), math.Abs(o)) {
						t.Fatalf("%g kept by %g and %g is %g, want %g", other, v, more, y[i], kept+more)
					}
				}
			}
		})
		t.Logf("at most %.3g off", worst)
		nan := float32(math.NaN())
		for _, v := range [][]float32{{nan, 1}, {1, nan}} {
			y := []float32{1}
			if Gated(y, v[:1], 0, v[1:], 0); y[0] == y[0] {
				t.Errorf("a gate of %v is %v", v, y[0])
			}
			y[0] = v[0]
			if Keep(y, v[1:], 0, []float32{1}); y[0] == y[0] {
				t.Errorf("of %v %v is kept", v, y[0])
			}
		}
	})
}

func TestSpecialValues(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	negative0 := float32(math.Copysign(0, -1))
	eachImplementation(t, func(t *testing.T) {
		for _, c := range []struct {
			name    string
			f       func(dst, x []float32)
			x, want float32
		}{
			{"Tanh", Tanh, nan, nan}, {"Tanh", Tanh, inf, 1}, {"Tanh", Tanh, -inf, -1}, {"Tanh", Tanh, 0, 0},
			{"Tanh", Tanh, negative0, negative0}, {"Tanh", Tanh, 1e-45, 1e-45}, {"Tanh", Tanh, -3e-39, -3e-39},
			{"Sigmoid", Sigmoid, nan, nan}, {"Sigmoid", Sigmoid, inf, 1}, {"Sigmoid", Sigmoid, -inf, 0}, {"Sigmoid", Sigmoid, 0, 0.5},
			{"Sigmoid", Sigmoid, negative0, 0.5},
			{"ReLU", ReLU, nan, nan}, {"ReLU", ReLU, inf, inf}, {"ReLU", ReLU, -inf, 0}, {"ReLU", ReLU, -1e-45, 0}, {"ReLU", ReLU, 1e-45, 1e-45},
		} {
			for _, n := range []int{1, 8, 9, 16, 17} {
				x, y := slices.Repeat([]float32{c.x}, n), make([]float32, n)
				c.f(y, x)
				for i := range y {
					same := math.Float32bits(y[i]) == math.Float32bits(c.want)
					if !same && !(c.want != c.want && y[i] != y[i]) {
						t.Errorf("%s(%g) at %d of %d is %g, want %g", c.name, c.x, i, n, y[i], c.want)
					}
				}
			}
		}
	})
}

// A second moment that is no number is not taken for one below the least.
func TestAdamKeepsNaN(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		p, v := make([]float32, 9), make([]float32, 9)
		for i := range v {
			v[i] = float32(math.NaN())
		}
		Adam(p, 1, make([]float32, 9), 1, v, 0.5, 1, 1e-8)
		for i, x := range p {
			if !math.IsNaN(float64(x)) {
				t.Errorf("element %d is %v", i, x)
			}
		}
	})
}

// The gradient of ReLU selects: a closed unit passes nothing, not even NaN, and one of unknown sign is closed.
func TestReLUGradSelects(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	eachImplementation(t, func(t *testing.T) {
		y := []float32{0, -1, 1, 1, nan, 0, inf, 1e-45, 0}
		g := []float32{nan, inf, nan, inf, 3, -inf, 2, -5, 7}
		want := []float32{0, 0, nan, inf, 0, 0, 2, -5, 0}
		got := make([]float32, len(y))
		ReLUGrad(got, y, g)
		if s := fmt.Sprint(got); s != fmt.Sprint(want) {
			t.Errorf("got %s, want %v", s, want)
		}
	})
}

// exact returns Σ x·y and Σ |x·y|.
func exact(x, y []float32) (sum, weight *big.Float) {
	wide := func() *big.Float { return new(big.Float).SetPrec(1000) }
	sum, weight = wide(), wide()
	for i := range x {
		p := wide().Mul(wide().SetFloat64(float64(x[i])), wide().SetFloat64(float64(y[i])))
		sum.Add(sum, p)
		weight.Add(weight, p.Abs(p))
	}
	return sum, weight
}

func TestSums(t *testing.T) {
	ones := slices.Repeat([]float32{1}, 5000)
	eachImplementation(t, func(t *testing.T) {
		r := newRand(4)
		for round := range 300 {
			n := round
			if round > 200 {
				n = r.IntN(5000)
			}
			x, y := values(r, n), values(r, n)
			for i := range x { // far apart in size, so that cancellation shows
				x[i] *= float32(math.Exp(8 * r.NormFloat64()))
			}
			for name, c := range map[string]struct {
				got      float64
				x, y     []float32
				lanewise func(x, y []float32) float64
			}{
				"Sum":        {Sum(x), x, ones, func(x, _ []float32) float64 { return portable.sum(x) }},
				"SumSquares": {SumSquares(x), x, x, func(x, _ []float32) float64 { return portable.sumSquares(x) }},
				"Dot":        {Dot(x, y), x, y, portable.dot},
			} {
				want, weight := exact(c.x, c.y[:n])
				diff, _ := new(big.Float).Sub(want, big.NewFloat(c.got)).Float64()
				scale, _ := weight.Float64()
				if bound := 1.01 * float64(n/32+6) * scale / (1 << 53); !(math.Abs(diff) <= bound) {
					t.Fatalf("%s of %d elements is off by %g, more than %g", name, n, diff, bound)
				}
				if p := c.lanewise(c.x, c.y[:n]); math.Float64bits(p) != math.Float64bits(c.got) {
					t.Fatalf("%s of %d elements is %v, but %v without assembly", name, n, c.got, p)
				}
			}
		}
	})
}

func TestSumSquaresDoesNotOverflow(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		x := []float32{math.MaxFloat32, -math.MaxFloat32, math.SmallestNonzeroFloat32}
		if got, want := SumSquares(x), 2*float64(math.MaxFloat32)*float64(math.MaxFloat32); got != want {
			t.Errorf("got %g, want %g", got, want)
		}
		x[1] = float32(math.NaN())
		if got := SumSquares(x); !math.IsNaN(got) {
			t.Errorf("NaN vanished: %g", got)
		}
	})
}

func TestShortInputsFailFirst(t *testing.T) {
	long, short := []float32{1, 2, 3}, make([]float32, 2, 3)
	for name, f := range map[string]func(dst []float32){
		"Tanh":        func(dst []float32) { Tanh(dst, short) },
		"Sigmoid":     func(dst []float32) { Sigmoid(dst, short) },
		"ReLU":        func(dst []float32) { ReLU(dst, short) },
		"TanhGrad":    func(dst []float32) { TanhGrad(dst, long, short) },
		"SigmoidGrad": func(dst []float32) { SigmoidGrad(dst, short, long) },
		"ReLUGrad":    func(dst []float32) { ReLUGrad(dst, long, short) },
		"GELU":        func(dst []float32) { GELU(dst, short) },
		"GELUGrad":    func(dst []float32) { GELUGrad(dst, long, short) },
		"AddVec":      func(dst []float32) { AddVec(dst, short) },
		"Axpy":        func(dst []float32) { Axpy(dst, 1, short) },
		"Scaled":      func(dst []float32) { Scaled(dst, 1, short) },
		"Mul":         func(dst []float32) { Mul(dst, long, short) },
		"MulAdd":      func(dst []float32) { MulAdd(dst, long, long, short) },
		"Normalize":   func(dst []float32) { Normalize(dst, short, 0, 1, 0) },
		"AddColumns":  func(dst []float32) { AddColumns(dst, long, long, short) },
		"sum of none": func(dst []float32) { AddColumns(dst, short, long, long) },
		"MixColumns":  func(dst []float32) { MixColumns(dst, long, long, short, long) },
		"mix of none": func(dst []float32) { MixColumns(dst, long, long, long, short) },
		"Gated":       func(dst []float32) { Gated(dst, short, 0, long, 0) },
		"Keep":        func(dst []float32) { Keep(dst, long, 0, short) },
		"Bytes":       func(dst []float32) { Bytes(dst, make([]uint8, 2, 3), 1, 0) },
		"Halves":      func(dst []float32) { Halves(dst, make([]uint16, 2, 3)) },
		"Dot":         func(dst []float32) { Dot(dst, short) },
		"AddUnpool2":  func(dst []float32) { AddUnpool2(dst, make([]int32, 1), short, 1, 1, 0, true) },
	} {
		t.Run(name, func(t *testing.T) {
			dst := []float32{4, 5, 6}
			defer func() {
				if recover() == nil {
					t.Error("accepted")
				}
				if !slices.Equal(dst, []float32{4, 5, 6}) {
					t.Error("dst was written")
				}
			}()
			f(dst)
		})
	}
}

// odd are floats that a kernel may treat unlike others.
var odd = []float32{0, float32(math.Copysign(0, -1)), 1, 1, float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN())}

// oddOnes is n of them.
func oddOnes(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = odd[r.IntN(len(odd))]
	}
	return x
}

// sameFloats: NaN is like NaN, and zeros have signs.
func sameFloats(x, y []float32) bool {
	return slices.EqualFunc(x, y, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) || x != x && y != y })
}

// The pool of every implementation is the portable one to the bit: ties, signed zeros, infinities and NaN included.
func TestMaxPool2(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		r := newRand(9)
		for cols := range 40 {
			for _, special := range []bool{false, true} {
				for _, step := range []int{1, 2} {
					rows, width := 1+r.IntN(4), cols*step+2
					down := step * width
					x := values(r, rows*down+width+4)
					if special {
						x = oddOnes(r, len(x))
					}
					n := rows * cols
					y, want := make([]float32, n), make([]float32, n)
					arg, wantArg := make([]int32, n), make([]int32, n)
					MaxPool2(y, arg, x, rows, cols, width, down, step, 1000)
					portable.maxPool2(want, wantArg, x, rows, cols, width, down, step, 1000)
					for i := range y {
						if math.Float32bits(y[i]) != math.Float32bits(want[i]) || arg[i] != wantArg[i] {
							t.Fatalf("%d by %d windows, %d apart: window %d gives %v at %d, want %v at %d", rows, cols, step, i, y[i], arg[i], want[i], wantArg[i])
						}
					}
				}
			}
		}
	})
}

// Every implementation adds in the order of the windows, to the bit, to what is there or to zero, and touches nothing beside
// them.
func TestAddUnpool2(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		r := newRand(12)
		for cols := 1; cols < 20; cols++ {
			for round := range 6 {
				rows, width := 1+r.IntN(4), cols+1
				x, y, arg := values(r, (rows+1)*width+r.IntN(3)), values(r, rows*cols), make([]int32, rows*cols)
				if round%2 == 1 {
					x, y = oddOnes(r, len(x)), oddOnes(r, len(y))
				}
				MaxPool2(make([]float32, rows*cols), arg, values(r, len(x)), rows, cols, width, width, 1, 50)
				for _, accumulate := range []bool{true, false} {
					got, want := slices.Clone(x), slices.Clone(x)
					if !accumulate {
						clear(want[:(rows+1)*width])
					}
					for k, a := range arg {
						want[a-50] += y[k]
					}
					if AddUnpool2(got, arg, y, rows, cols, 50, accumulate); !sameFloats(got, want) {
						t.Fatalf("%d by %d windows, %v: %v, want %v", rows, cols, accumulate, got, want)
					}
				}
			}
		}
	})
}

// The gradient of a pool goes where the pool found its value, and nothing beside the windows is written.
func TestMaxUnpool2(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		r := newRand(10)
		for cols := 1; cols < 40; cols++ {
			rows, width := 1+r.IntN(4), 2*cols+r.IntN(2)
			x := values(r, 2*rows*width)
			y, dy := make([]float32, rows*cols), values(r, rows*cols)
			arg := make([]int32, rows*cols)
			MaxPool2(y, arg, append(slices.Clone(x), 0, 0), rows, cols, width, 2*width, 2, 50)
			got, want := values(r, len(x)), slices.Clone(x)
			for i := range want {
				want[i] = 0
				if i%width >= 2*cols {
					want[i] = got[i]
				}
			}
			for i, a := range arg {
				want[a-50] = dy[i]
			}
			MaxUnpool2(got, arg, dy, rows, cols, width, 50)
			if !slices.Equal(got, want) {
				t.Fatalf("%d by %d windows: %v, want %v", rows, cols, got, want)
			}
		}
	})
}
