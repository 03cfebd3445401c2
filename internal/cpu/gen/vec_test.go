package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// lengths are tested from zero: up to two steps of two vectors, one of one vector, and any tail.
const lengths = 2*2*16 + 16 + 16

// awkward are floats that a kernel may treat unlike others, without their signs: zero, the smallest and the largest subnormal,
// the smallest normal float, one, the largest float, infinity and NaN.
var awkward = []uint32{0, 1, 1<<23 - 1, 1 << 23, 0x3f800000, 0x7f7fffff, 0x7f800000, 0x7fc00000}

// anything is n floats of any kind.
func anything(r *rand.Rand, n int) []float32 {
	x := random(r, n)
	for i := range x {
		switch r.IntN(8) {
		case 0:
			x[i] = math.Float32frombits(r.Uint32())
		case 1, 2:
			x[i] = math.Float32frombits(awkward[r.IntN(len(awkward))] | r.Uint32()&(1<<31))
		case 3, 4:
			x[i] *= 30
		}
	}
	return x
}

// atLeast is x, or the bound where x is below it. NaN stays.
func atLeast(x, bound float32) float32 {
	if x < bound {
		return bound
	}
	return x
}

func root(x float32) float32 { return float32(math.Sqrt(float64(x))) }

func choose(is bool, yes, no float32) float32 {
	if is {
		return yes
	}
	return no
}

// definitions are what kernels set an element to, of what was there, or of a third input, of up to two inputs and of scalars. Each operation, fma
// among them, rounds once; products that are added are converted, as Go might fuse the two.
var definitions = map[string]func(d, x, y float32, s []float32) float32{
	"relu":          func(_, x, _ float32, _ []float32) float32 { return atLeast(x, 0) },
	"tanhGrad":      func(_, y, g float32, _ []float32) float32 { return g * fma(-y, y, 1) },
	"sigmoidGrad":   func(_, y, g float32, _ []float32) float32 { return g * fma(-y, y, y) },
	"reluGrad":      func(_, y, g float32, _ []float32) float32 { return choose(y > 0, g, 0) },
	"leakyRelu":     func(_, x, _ float32, s []float32) float32 { return atLeast(x, s[0]*x) },
	"leakyReluGrad": func(_, y, g float32, s []float32) float32 { return choose(y > 0, g, s[0]*g) },
	"addVec":        func(d, x, _ float32, _ []float32) float32 { return d + x },
	"axpy":          func(d, x, _ float32, s []float32) float32 { return fma(s[0], x, d) },
	"scaled":        func(_, x, _ float32, s []float32) float32 { return s[0] * x },
	"mix":           func(_, x, y float32, s []float32) float32 { return fma(s[0], x, s[1]*y) },
	"descend":       func(d, x, _ float32, s []float32) float32 { return fma(s[0], fma(s[1], x, s[2]*d), d) },
	"mixSquares":    func(d, x, _ float32, s []float32) float32 { return fma(s[0], d, s[1]*float32(x*x)) },
	"mul":           func(_, x, y float32, _ []float32) float32 { return x * y },
	"mulAdd":        func(z, x, y float32, _ []float32) float32 { return fma(x, y, z) },
	"normalize":     func(_, x, _ float32, s []float32) float32 { return fma(x-s[0], s[1], s[2]) },
	"modulus":       func(_, x, y float32, _ []float32) float32 { return root(fma(y, y, x*x)) },
	"addExcess":     func(d, x, _ float32, s []float32) float32 { return d + atLeast(fma(s[0], x, -s[1]), 0) },
	"adam": func(d, x, y float32, s []float32) float32 {
		return d - s[0]*x/(root(atLeast(float32(s[1]*y)-s[2], s[3]))+s[4])
	},
}

// A curve is a kernel that comes near a function, by a part of what size says, or of the function's value where that is nil. A
// second input multiplies the result.
type curve struct {
	at     func(x float64) float64
	size   func(x float64) float64
	within float64
}

var curves = map[string]curve{
	"tanh":    {math.Tanh, nil, 3e-7},
	"sigmoid": {func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }, nil, 3e-7},
	"gelu": {func(x float64) float64 {
		x = max(x, -20)
		below, _ := gaussian(x)
		return x * below
	}, nil, 5e-7},
	"geluGrad": {func(x float64) float64 {
		below, slope := gaussian(x)
		return below + slope
	}, func(x float64) float64 {
		below, slope := gaussian(x)
		return below + math.Abs(slope)
	}, 3e-7},
}

// gaussian is Φ(x) and x·φ(x). Beyond 20, both are what they are at infinity.
func gaussian(x float64) (below, slope float64) {
	x = min(max(x, -20), 20)
	return math.Erfc(-x/math.Sqrt2) / 2, x * math.Exp(-x*x/2) / math.Sqrt(2*math.Pi)
}

// ofFloats are the parameters of a kernel that elementwise has written.
var ofFloats = regexp.MustCompile(`^\(dst \[\]float32((?:, \w+ \[\]float32)+)((?:, \w+ float32)*)\)$`)

// Interpreted, an element has the bits of its definition at any place in vectors of any length; of a curve, those that it has
// alone, near the true value. Inputs may be longer than dst, but no vector has memory beyond the length of dst.
func TestAVX512Elementwise(t *testing.T) {
	functions, m := kernelsOf(t, "../vec", "kernels")
	r := rand.New(rand.NewPCG(29, 30))
	tested := 0
	for _, name := range slices.Sorted(maps.Keys(functions)) {
		f := functions[name]
		kernel, wide := strings.CutSuffix(name, "AVX512")
		parameters := ofFloats.FindStringSubmatch(f.Signature.String())
		if !wide || parameters == nil {
			continue
		}
		tested++
		inputs, scalars := strings.Count(parameters[1], ","), strings.Count(parameters[2], ",")
		t.Run(kernel, func(t *testing.T) {
			run := func(dst []float32, in [][]float32, s []float32) []byte {
				got := floatBytes(dst)
				args := []any{got, len(dst), len(dst) + 1}
				for _, x := range in[:inputs] {
					args = append(args, floatBytes(x), len(x)+1, len(x)+1)
				}
				for _, a := range s {
					args = append(args, a)
				}
				m.run(t, f, args...)
				return got
			}
			definition := definitions[kernel]
			c, curved := curves[kernel]
			switch {
			case curved:
				definition = func(_, x, factor float32, _ []float32) float32 {
					got := run(nans(1), [][]float32{{x}, {1}}, nil)
					y := math.Float32frombits(binary.LittleEndian.Uint32(got))
					if !c.near(float64(y), float64(x)) {
						t.Fatalf("%g gives %g, want %g", x, y, c.at(float64(x)))
					}
					if inputs == 2 {
						y *= factor
					}
					return y
				}
			case definition == nil:
				t.Fatal("no definition")
			}
			for n := range lengths {
				dst, in, s := anything(r, n), [][]float32{anything(r, n), anything(r, n)}, random(r, scalars)
				want := slices.Clone(dst)
				for i := range want {
					want[i] = definition(dst[i], in[0][i], in[1][i], s)
				}
				if inputs == 3 {
					in, dst = append(in, dst), nans(n)
				}
				check(t, run(dst, in, s), want)
			}
		})
	}
	if all := len(definitions) + len(curves); tested != all {
		t.Errorf("%d kernels of %d", tested, all)
	}
}

// near allows y at x a part of the size, and a little more than the smallest subnormal.
func (c curve) near(y, x float64) bool {
	want := c.at(x)
	if want != want {
		return y != y
	}
	if math.IsInf(want, 0) {
		return y == want
	}
	size := math.Abs(want)
	if c.size != nil {
		size = c.size(x)
	}
	return math.Abs(y-want) <= max(c.within*size, 2e-45) && math.Signbit(y) == math.Signbit(want)
}

func TestAVX512Bytes(t *testing.T) {
	functions, m := kernelsOf(t, "../vec", "kernels")
	r := rand.New(rand.NewPCG(31, 32))
	for n := range lengths {
		src, want, s := make([]byte, n), make([]float32, n), random(r, 2)
		for i := range src {
			src[i] = byte(r.Uint32())
			want[i] = fma(float32(src[i]), s[0], s[1])
		}
		got := floatBytes(nans(n))
		m.run(t, functions["bytesAVX512"], got, n, n+1, src, n+1, n+1, s[0], s[1])
		check(t, got, want)
	}
}

// pooled is what windows of 2×2 pick, and where, counted from at: they stand step apart in a row and down from row to row.
func pooled(x []float32, rows, cols, width, down, step, at int) (y []float32, arg []int) {
	for i := range rows {
		for j := range cols {
			first := i*down + j*step
			best := first
			for _, k := range []int{first + 1, first + width, first + width + 1} {
				if x[k] > x[best] {
					best = k
				}
			}
			y, arg = append(y, x[best]), append(arg, at+best)
		}
	}
	return y, arg
}

// Interpreted, pooling picks the first of the largest, and its gradient is added to what was picked, window after window.
func TestAVX512Pools(t *testing.T) {
	functions, m := kernelsOf(t, "../vec", "kernels")
	r := rand.New(rand.NewPCG(33, 34))
	const at = 100
	for cols := 1; cols < 40; cols++ {
		rows := 1 + r.IntN(3)
		for step := 1; step <= 2; step++ {
			width := (cols-1)*step + 2 + r.IntN(3)
			down := width + r.IntN(width)
			x := make([]float32, (rows-1)*down+(cols-1)*step+width+2)
			for i := range x {
				x[i] = []float32{0, 1, 2, float32(math.Inf(-1)), float32(math.Inf(1)), nan}[r.IntN(6)] // with equals
			}
			wantY, wantArg := pooled(x, rows, cols, width, down, step, at)
			y, arg := floatBytes(nans(rows*cols)), floatBytes(nans(rows*cols))
			m.run(t, functions[fmt.Sprintf("maxPool2Step%dAVX512", step)], y, arg, floatBytes(x), rows, cols, width, down, at)
			check(t, y, wantY)
			if !bytes.Equal(arg, wordBytes(wantArg...)) {
				t.Fatalf("%d by %d windows, %d apart: other picks", rows, cols, step)
			}
		}
		if cols > 15 {
			continue
		}
		width := cols + 1
		_, arg := pooled(random(r, (rows+1)*width), rows, cols, width, width, 1, at)
		x, y := random(r, (rows+1)*width), random(r, rows*cols)
		for _, accumulate := range []bool{true, false} {
			want, got := slices.Clone(x), floatBytes(x)
			if !accumulate {
				clear(want)
			}
			for k, a := range arg {
				want[a-at] += y[k]
			}
			m.run(t, functions["addUnpool2AVX512"], got, wordBytes(arg...), floatBytes(y), rows, cols, at, accumulate)
			check(t, got, want)
		}
	}
}
