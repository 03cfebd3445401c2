package ptx

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// product runs one mma by a warp whose lane i has words 6i… of in for A and B and values 4i… of c.
func product(t testing.TB, form, before string, in []uint32, c []float32, o Options) ([]float32, error) {
	t.Helper()
	m, err := Parse([]byte(header + `.entry k(.param .u64 a, .param .u64 c) {
	.reg .pred %p<3>; .reg .b32 %r<19>; .reg .f32 %f<9>; .reg .b64 %rd<9>;
	ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [c];
	mov.u32 %r10, %tid.x;
	mul.wide.u32 %rd3, %r10, 24; add.s64 %rd3, %rd1, %rd3;
	mul.wide.u32 %rd4, %r10, 16; add.s64 %rd4, %rd2, %rd4;
	ld.global.v2.u32 {%r1, %r2}, [%rd3]; ld.global.v2.u32 {%r3, %r4}, [%rd3+8]; ld.global.v2.u32 {%r5, %r6}, [%rd3+16];
	ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd4];
	` + before + `
	mma.sync.aligned.` + form + ` {%f1, %f2, %f3, %f4}, {%r1, %r2, %r3, %r4}, {%r5, %r6}, {%f1, %f2, %f3, %f4};
	st.global.v4.f32 [%rd4], {%f1, %f2, %f3, %f4};
	ret; }`))
	check(t, err)
	k, err := m.Kernel("k")
	check(t, err)
	d := device{t, NewMemory()}
	at := d.put(c)
	err = k.Launch(d.Memory, [3]int{1, 1, 1}, [3]int{32, 1, 1}, 0, []uint64{d.put(in), at}, o)
	return fetch[float32](d, at, 128), err
}

const (
	formTF32 = "m16n8k8.row.col.f32.tf32.tf32.f32"
	formBF16 = "m16n8k16.row.col.f32.bf16.bf16.f32"
)

// fragments lays 16×k and k×8 matrices out as the ISA's figures have them; words holds the terms of a word.
func fragments(words int, a, b func(i, k int) float32, c func(i, j int) float32) (in []uint32, acc []float32) {
	word := func(f func(k int) float32, k int) uint32 {
		if words == 1 {
			return math.Float32bits(f(k))
		}
		return math.Float32bits(f(2*k))>>16 | math.Float32bits(f(2*k+1))&0xffff0000
	}
	for lane := range 32 {
		g, t := lane/4, lane%4
		for _, at := range [][2]int{{g, t}, {g + 8, t}, {g, t + 4}, {g + 8, t + 4}} {
			in = append(in, word(func(k int) float32 { return a(at[0], k) }, at[1]))
		}
		for _, k := range []int{t, t + 4} {
			in = append(in, word(func(k int) float32 { return b(g, k) }, k))
		}
		acc = append(acc, c(g, 2*t), c(g, 2*t+1), c(g+8, 2*t), c(g+8, 2*t+1))
	}
	return in, acc
}

func TestMMA(t *testing.T) {
	for form, words := range map[string]int{formTF32: 1, formBF16: 2} {
		for seed := range uint64(4) {
			rng := rand.New(rand.NewPCG(seed, 1))
			for try := range 50 {
				var a [16][16]float32
				var b [8][16]float32
				var c [16][8]float32
				// Small integers, which nothing rounds, then numbers of very different sizes.
				draw := func() float32 { return float32(rng.IntN(15) - 7) }
				if try > 0 {
					draw = func() float32 {
						x := math.Float32bits(float32(rng.NormFloat64() * math.Exp2(float64(rng.IntN(20)))))
						return math.Float32frombits(x & 0xffff0000)
					}
				}
				for i := range a {
					for k := range a[i] {
						a[i][k], b[i%8][k] = draw(), draw()
					}
					for j := range c[i] {
						c[i][j] = draw()
					}
				}
				low := func(x float32) float32 { // what tf32 ignores
					if words == 1 {
						return math.Float32frombits(math.Float32bits(x) | uint32(rng.IntN(1<<13)))
					}
					return x
				}
				in, acc := fragments(words, func(i, k int) float32 { return low(a[i][k]) }, func(j, k int) float32 { return low(b[j][k]) },
					func(i, j int) float32 { return c[i][j] })
				got, err := product(t, form, "", in, acc, Options{})
				check(t, err)
				rounded := 0
				for lane := range 32 {
					for e := range 4 {
						i, j := lane/4+e/2*8, lane%4*2+e%2
						want, size := float64(c[i][j]), math.Abs(float64(c[i][j]))
						for k := range 8 * words {
							p := float64(a[i][k]) * float64(b[j][k])
							want += p
							size += math.Abs(p)
						}
						g := float64(got[4*lane+e])
						// Every pass cuts its terms and its sum at 2⁻²³ of the largest: four units a term in all.
						limit := 4 * float64(8*words) * 0x1p-24 * size
						if try == 0 {
							limit = 0
						}
						if math.Abs(g-want) > limit {
							t.Fatalf("%s %d: element %d, %d is %v, want %v within %v", form, try, i, j, g, want, limit)
						}
						if g != float64(float32(want)) {
							rounded++
						}
					}
				}
				if try > 0 && rounded < 16 {
					t.Errorf("%s %d: only %d results are not rounded to nearest: a tensor core cuts bits off", form, try, rounded)
				}
			}
		}
	}
}

func TestMMACutsBitsOff(t *testing.T) {
	one := float32(1)
	for _, c := range []struct {
		c    float32
		p    []float32 // times one
		want float32
	}{
		{1, []float32{0x1p-23}, 1 + 0x1p-23},
		{1, []float32{0x1p-24, 0x1p-24}, 1},                                              // each is cut off alone
		{1, []float32{0, 0, 0, 0, 0x1p-24, 0x1p-24}, 1},                                  // in the second pass too
		{0, []float32{1, 0x1.8p-23}, 1 + 0x1p-23},                                        // toward zero
		{-1, []float32{-0x1.8p-23}, -1 - 0x1p-23},                                        // on either side
		{0, []float32{0x1p30, 3, -0x1p30}, 0},                                            // 3 lies below the last place of 2³⁰: 2⁷
		{0, []float32{1.5, 1.5, 0x1p-22, 0x1p-23}, 3 + 0x1p-22},                          // the sum has fewer places than its terms
		{0, []float32{float32(math.Inf(1)), 1}, float32(math.Inf(1))},                    //
		{float32(math.Inf(-1)), []float32{1}, float32(math.Inf(-1))},                     //
		{0, []float32{0x1p-130, 0x1p-136, 0x1p-140}, 0x1p-130 + 0x1p-136},                // subnormal
		{0x1p127, []float32{0x1p127}, float32(math.Inf(1))},                              //
		{float32(math.NaN()), []float32{1}, float32(math.NaN())},                         //
		{0, []float32{float32(math.Inf(1)), float32(math.Inf(-1))}, float32(math.NaN())}, //
	} {
		a := func(i, k int) float32 {
			if k < len(c.p) {
				return c.p[k]
			}
			return 0
		}
		in, acc := fragments(1, a, func(int, int) float32 { return one }, func(int, int) float32 { return c.c })
		got, err := product(t, formTF32, "", in, acc, Options{})
		check(t, err)
		for _, g := range got {
			if g != c.want && (g == g || c.want == c.want) {
				t.Errorf("%v + Σ %v is %v, want %v", c.c, c.p, g, c.want)
				break
			}
		}
	}
}

func TestMMAFaults(t *testing.T) {
	in, acc := fragments(1, func(i, k int) float32 { return 1 }, func(int, int) float32 { return 1 }, func(int, int) float32 { return 1 })
	for before, want := range map[string]string{
		"setp.eq.u32 %p1, %r10, 3; @%p1 ret;":            "exited",
		"mov.b32 %r1, %r12;":                             "never written",
		"mov.b32 %f4, %f7;":                              "never written",
		"setp.lt.u32 %p1, %r10, 5; @%p1 bra L; ":         "",
		"setp.lt.u32 %p1, %r10, 5; @%p1 bra L; ret; L: ": "exited",
	} {
		if want == "" {
			before += "add.u32 %r10, %r10, 1; L: " // they meet again
		}
		_, err := product(t, formTF32, before, in, acc, Options{})
		var f *Fault
		if want == "" && err != nil || want != "" && (!errors.As(err, &f) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", before, err, want)
		}
	}
}

func TestPackBF16(t *testing.T) {
	for _, c := range []struct {
		hi, lo float32
		want   uint64
	}{
		{1, -2, 0x3f80c000},
		{1 + 0x1p-8, 1 + 0x3p-8, 0x3f803f82}, // ties to even
		{1 + 0x1p-8 + 0x1p-20, math.MaxFloat32, 0x3f817f80},
		{0, float32(math.NaN()), 0x00007fff},
	} {
		if got := compute(t, "cvt.rn.bf16x2.f32", b32of(c.hi), b32of(c.lo)); got != c.want {
			t.Errorf("%v, %v: %#x, want %#x", c.hi, c.lo, got, c.want)
		}
	}
}
