package ptx

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// runOne executes statements in one thread and gives a register.
func runOne(t testing.TB, body, reg string, k ty) uint64 {
	t.Helper()
	m, err := Parse([]byte(fmt.Sprintf("%s.entry k(.param .u64 p) { .reg .b64 %%out; ld.param.u64 %%out, [p]; %s st.global.%s [%%out], %s; ret; }",
		header, body, name(k), reg)))
	check(t, err)
	mem := NewMemory()
	p, err := mem.Alloc(8)
	check(t, err)
	kernel, err := m.Kernel("k")
	check(t, err)
	check(t, kernel.Launch(mem, [3]int{1, 1, 1}, [3]int{1, 1, 1}, 0, []uint64{p}, Options{}))
	b := make([]byte, 8)
	check(t, mem.Read(b[:k.size()], p))
	return binary.LittleEndian.Uint64(b)
}

// compute runs one instruction by its full name; cvt and setp are made as the parser makes them.
func compute(t testing.TB, mnemonic string, src ...uint64) uint64 {
	t.Helper()
	f, ok := forms()[mnemonic]
	if !ok {
		t.Fatalf("no form %s", mnemonic)
	}
	var v [3]vec
	for i, x := range src {
		v[i][7] = x
	}
	var d vec
	f.f(&d, &v[0], &v[1], &v[2])
	return d[7]
}

func b32of(x float32) uint64 { return uint64(math.Float32bits(x)) }

// TestGolden has results worked out by hand or given in the ISA's text.
func TestGolden(t *testing.T) {
	const m1 = 0xffffffff
	inf, nan, tiny := uint64(0x7f800000), uint64(canonicalNaN), uint64(1)
	for _, c := range []struct {
		name string
		src  []uint64
		want uint64
	}{
		{"add.s32", []uint64{m1, 2}, 1},
		{"sub.u16", []uint64{1, 2}, 0xffff},
		{"mul.lo.s32", []uint64{m1, 5}, 0xfffffffb},
		{"mul.hi.s32", []uint64{m1, 5}, m1},
		{"mul.hi.u32", []uint64{m1, 5}, 4},
		{"mul.hi.s64", []uint64{^uint64(0), 5}, ^uint64(0)},
		{"mul.hi.u64", []uint64{^uint64(0), 5}, 4},
		{"mul.wide.s32", []uint64{m1, 5}, 0xfffffffffffffffb},
		{"mul.wide.u32", []uint64{m1, 5}, 0x4fffffffb},
		{"mul.wide.s16", []uint64{0xffff, 5}, 0xfffffffb},
		{"mad.lo.s32", []uint64{3, 4, m1}, 11},
		{"div.s32", []uint64{0xfffffff9, 2}, 0xfffffffd},
		{"rem.s32", []uint64{0xfffffff9, 2}, m1},
		{"div.s32", []uint64{0x80000000, m1}, 0x80000000},
		{"div.u32", []uint64{7, 0}, m1},
		{"min.s32", []uint64{m1, 1}, m1},
		{"min.u32", []uint64{m1, 1}, 1},
		{"abs.s32", []uint64{0x80000000}, 0x80000000},
		{"shl.b32", []uint64{1, 32}, 0},
		{"shl.b32", []uint64{1, 31}, 0x80000000},
		{"shl.b64", []uint64{1, 63}, 1 << 63},
		{"shr.s32", []uint64{0x80000000, 40}, m1},
		{"shr.u32", []uint64{0x80000000, 40}, 0},
		{"shr.s16", []uint64{0x8000, 3}, 0xf000},
		{"bfe.u32", []uint64{0xabcdef12, 8, 8}, 0xef},
		{"bfe.s32", []uint64{0xabcdef12, 8, 8}, 0xffffffef},
		{"bfe.s32", []uint64{0x80000000, 28, 16}, 0xfffffff8},
		{"bfe.s32", []uint64{0x80000000, 40, 4}, m1},
		{"bfe.u32", []uint64{m1, 4, 0}, 0},
		{"bfe.u32", []uint64{m1, 0, 255}, m1},
		{"bfe.u64", []uint64{1 << 63, 60, 64}, 8},
		{"bfe.s64", []uint64{1 << 63, 60, 64}, 0xfffffffffffffff8},
		{"prmt.b32", []uint64{0x33221100, 0x77665544, 0x7250}, 0x77225500},
		{"prmt.b32", []uint64{0x80, 0, 0x8808}, 0xffff80ff},
		{"shf.l.wrap.b32", []uint64{0x80000000, 1, 33}, 3},
		{"popc.b64", []uint64{^uint64(0)}, 64},
		{"clz.b32", []uint64{0}, 32},
		{"clz.b64", []uint64{1}, 63},

		{"add.rn.f32", []uint64{b32of(1), b32of(0x1p-24)}, b32of(1)},
		{"mul.rn.f32", []uint64{1, b32of(0.5)}, 0},
		{"mul.rn.f32", []uint64{1, b32of(0.75)}, 1},
		{"mul.rn.f32", []uint64{0x7f7fffff, b32of(2)}, inf},
		{"add.rn.f32", []uint64{inf, 0xff800000}, nan},
		{"div.rn.f32", []uint64{b32of(1), b32of(3)}, 0x3eaaaaab},
		{"rcp.rn.f32", []uint64{0x80000000}, 0xff800000},
		{"sqrt.rn.f32", []uint64{b32of(2)}, 0x3fb504f3},
		{"sqrt.rn.f32", []uint64{b32of(-1)}, nan},
		{"min.f32", []uint64{nan, b32of(3)}, b32of(3)},
		{"max.f32", []uint64{nan, nan}, nan},
		{"min.f32", []uint64{0, 0x80000000}, 0x80000000},
		{"max.f32", []uint64{0, 0x80000000}, 0},
		{"neg.f32", []uint64{0}, 0x80000000},
		// 1+2⁻²³ squared, less 1: exact in one rounding only.
		{"fma.rn.f32", []uint64{0x3f800001, 0x3f800001, b32of(-1)}, b32of(0x1p-22 + 0x1p-46)},
		// The product lies just above the middle of two float32: a second rounding would lose it.
		{"fma.rn.f32", []uint64{b32of(1 + 0x1p-12), b32of(1 + 0x1p-12), b32of(0x1p-60)}, 0x3f801001},
		{"fma.rn.f32", []uint64{b32of(1 + 0x1p-12), b32of(1 + 0x1p-12), b32of(-0x1p-60)}, 0x3f801000},
		{"fma.rn.f32", []uint64{tiny, b32of(0.5), tiny}, 2},
		// The same among subnormals: 2⁻¹⁵⁰ less 2⁻¹⁹⁶ is under half of the least.
		{"fma.rn.f32", []uint64{b32of(0x1p-75 * (1 + 0x1p-23)), b32of(0x1p-75 * (1 - 0x1p-23)), 0x00080001}, 0x00080001},
	} {
		if got := compute(t, c.name, c.src...); got != c.want {
			t.Errorf("%s %#x: %#x, want %#x", c.name, c.src, got, c.want)
		}
	}
}

// special32 are float32 bits at which things happen.
var special32 = []uint32{0, 1, 2, 0x007fffff, 0x00800000, 0x00800001, 0x33800000, 0x3f000000, 0x3f7fffff, 0x3f800000, 0x3f800001,
	0x3fffffff, 0x40000000, 0x4b7fffff, 0x4b800000, 0x7f7ffffe, 0x7f7fffff, 0x7f800000, 0x00ffffff, 0x01000000, 0x34000000}

func exact(x float32) *big.Float { return new(big.Float).SetPrec(2000).SetFloat64(float64(x)) }

// big32 rounds an exact value to nearest, at the precision of subnormals too.
func big32(x *big.Float) float32 {
	if x.Sign() == 0 {
		return 0
	}
	prec := 24
	if e := x.MantExp(nil); e < -125 {
		prec = e + 149
	}
	if prec < 1 { // at or below half of the least
		least := new(big.Float).SetMantExp(big.NewFloat(1), -149)
		half := new(big.Float).SetMantExp(big.NewFloat(1), -150)
		if new(big.Float).Abs(x).Cmp(half) <= 0 {
			return float32(math.Copysign(0, float64(x.Sign())))
		}
		v, _ := least.Float32()
		return float32(math.Copysign(float64(v), float64(x.Sign())))
	}
	y := new(big.Float).SetPrec(uint(prec)).SetMode(big.ToNearestEven).Set(x)
	f, _ := y.Float64()
	if math.Abs(f) > math.MaxFloat32 {
		return float32(math.Inf(int(math.Copysign(1, f))))
	}
	return float32(f)
}

// TestExactFloat32 compares sums, products and their fusion, quotients and roots
// with arithmetic in arbitrary precision.
func TestExactFloat32(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	pick := func() float32 {
		for {
			var b uint32
			switch rng.IntN(4) {
			case 0:
				b = special32[rng.IntN(len(special32))]
			case 1: // few bits: ties
				b = rng.Uint32() & 0xfff80000
			case 2: // moderate exponents, so that the terms meet
				b = rng.Uint32()&0x007fffff | uint32(100+rng.IntN(50))<<23
			default:
				b = rng.Uint32()
			}
			b ^= rng.Uint32() & 1 << 31
			if b&0x7f800000 != 0x7f800000 {
				return math.Float32frombits(b)
			}
		}
	}
	for range 20000 {
		a, b, c := pick(), pick(), pick()
		if rng.IntN(3) == 0 { // nearly a tie, or nearly nothing left
			c = -float32(float64(a) * float64(b))
			if math.IsInf(float64(c), 0) {
				continue
			}
		}
		for op, want := range map[string]*big.Float{
			"add.rn.f32":  new(big.Float).SetPrec(2000).Add(exact(a), exact(b)),
			"mul.rn.f32":  new(big.Float).SetPrec(2000).Mul(exact(a), exact(b)),
			"fma.rn.f32":  new(big.Float).SetPrec(2000).Add(new(big.Float).SetPrec(2000).Mul(exact(a), exact(b)), exact(c)),
			"sqrt.rn.f32": new(big.Float).SetPrec(2000).Sqrt(exact(max(a, -a))), // inexact, but far beyond what decides
		} {
			x := a
			if op == "sqrt.rn.f32" {
				x = max(a, -a)
			}
			got := float32frombits(compute(t, op, b32of(x), b32of(b), b32of(c)))
			if w := big32(want); got != w {
				t.Fatalf("%s of %g %g %g (%x %x %x): %g, want %g", op, x, b, c, b32of(x), b32of(b), b32of(c), got, w)
			}
		}
	}
}

func TestConversions(t *testing.T) {
	const nan, inf = 0x7fc00000, 0x7f800000
	for _, c := range []struct {
		name     string
		to, from ty
		x, want  uint64
	}{
		{"cvt.rzi.s32.f32", s32, f32, b32of(-2.7), 0xfffffffe},
		{"cvt.rni.s32.f32", s32, f32, b32of(2.5), 2},
		{"cvt.rni.s32.f32", s32, f32, b32of(3.5), 4},
		{"cvt.rmi.s32.f32", s32, f32, b32of(-2.1), 0xfffffffd},
		{"cvt.rpi.s32.f32", s32, f32, b32of(2.1), 3},
		{"cvt.rzi.s32.f32", s32, f32, b32of(3e9), 0x7fffffff},
		{"cvt.rzi.s32.f32", s32, f32, b32of(-3e9), 0x80000000},
		{"cvt.rzi.u32.f32", u32, f32, b32of(-1), 0},
		{"cvt.rzi.u32.f32", u32, f32, b32of(3e9), 3000000000},
		{"cvt.rzi.u32.f32", u32, f32, b32of(5e9), 0xffffffff},
		{"cvt.rzi.s32.f32", s32, f32, nan, 0},
		{"cvt.rzi.s64.f32", s64, f32, nan, 1 << 63},
		{"cvt.rzi.s32.f64", s32, f64, 0x7ff8 << 48, 1 << 31},
		{"cvt.rzi.u64.f64", u64, f64, math.Float64bits(0x1p63 + 0x1p20), 1<<63 + 1<<20},
		{"cvt.rzi.u64.f64", u64, f64, math.Float64bits(0x1p64), ^uint64(0)},
		{"cvt.rzi.s16.f32", s16, f32, b32of(-40000), 0x8000},
		{"cvt.rn.f32.s32", f32, s32, 0x01000001, b32of(0x1p24)},
		{"cvt.rn.f32.u64", f32, u64, 1<<40 + 1<<16, b32of(0x1p40)},
		{"cvt.rn.f32.u64", f32, u64, 1<<63 + 1<<39 + 1, b32of(0x1p63 + 0x1p40)},
		{"cvt.rn.f32.u64", f32, u64, ^uint64(0), b32of(0x1p64)},
		{"cvt.rn.f32.s64", f32, s64, 1 << 63, b32of(-0x1p63)},
		{"cvt.rn.f64.u64", f64, u64, 1<<53 + 1, math.Float64bits(0x1p53)},
		{"cvt.rn.f64.s64", f64, s64, ^uint64(0), math.Float64bits(-1)},
		{"cvt.f32.f16", f32, f16, 0x3555, b32of(0x555p-12)}, // the half next to a third
		{"cvt.f32.f16", f32, f16, 0x8001, b32of(-0x1p-24)},
		{"cvt.f32.f16", f32, f16, 0xfc00, 0xff800000},
		{"cvt.f64.f32", f64, f32, b32of(0.1), math.Float64bits(float64(float32(0.1)))},
		{"cvt.rn.f32.f64", f32, f64, math.Float64bits(0.1), b32of(0.1)},
		{"cvt.rn.f32.f64", f32, f64, math.Float64bits(0x1p-149), 1},
		{"cvt.rmi.f32.f32", f32, f32, b32of(-2.5), b32of(-3)},
		{"cvt.rni.f32.f32", f32, f32, b32of(-0.4), 0x80000000},
		{"cvt.u64.u32", u64, u32, 0xffffffff, 0xffffffff},
		{"cvt.s64.s32", s64, s32, 0xffffffff, ^uint64(0)},
		{"cvt.u32.u64", u32, u64, 0x1234567890, 0x34567890},
		{"cvt.s32.s8", s32, s8, 0x80, 0xffffff80},
		{"cvt.rna.tf32.f32", b32, f32, 0x3f801000, 0x3f802000},
		{"cvt.rna.tf32.f32", b32, f32, 0x3f800fff, 0x3f800000},
		{"cvt.f64.f32", f64, f32, nan, canonicalNaN64},
		{"cvt.s64.s8", s64, s8, 0x80, ^uint64(0x7f)},
		{"cvt.s64.u32", s64, u32, 0xffffffff, 0xffffffff},
		{"cvt.u64.s16", u64, s16, 0x8000, ^uint64(0x7fff)},
		{"cvt.u64.u8", u64, u8, 0x1ff, 0xff},
	} {
		size := func(k ty) int { return 8 * max(k.size(), 2) }
		body := fmt.Sprintf(".reg .b%d %%a; .reg .b%d %%d; mov.b%d %%a, %d; %s %%d, %%a;", size(c.from), size(c.to), size(c.from), c.x, c.name)
		if got := runOne(t, body, "%d", map[int]ty{1: b8, 2: b16, 4: b32, 8: b64}[c.to.size()]); got != c.want {
			t.Errorf("%s %#x: %#x, want %#x", c.name, c.x, got, c.want)
		}
	}
}

func TestComparisons(t *testing.T) {
	nan := uint64(canonicalNaN)
	for _, c := range []struct {
		op   string
		t    ty
		a, b uint64
		want bool
	}{
		{"lt", s32, 0xffffffff, 0, true}, {"lt", u32, 0xffffffff, 0, false}, {"lt", u32, 1, 2, true},
		{"ge", u64, 2, 2, true}, {"gt", s16, 1, 0xffff, true}, {"eq", b64, 5, 5, true},
		{"lt", f32, nan, 0, false}, {"ltu", f32, nan, 0, true}, {"ne", f32, nan, nan, false},
		{"neu", f32, nan, nan, true}, {"equ", f32, nan, 0, true}, {"num", f32, 0, 0, true},
		{"nan", f32, 0, nan, true}, {"eq", f32, 0, 0x80000000, true}, {"gt", f32, 1, 0, true},
		{"geu", f32, nan, 0, true}, {"ge", f64, 1 << 63, 0, true},
	} {
		var a, b vec
		a[3], b[3] = c.a, c.b
		if got := comparison(c.op, c.t)(&a, &b)>>3&1 != 0; got != c.want {
			t.Errorf("setp.%s of type %d: %v", c.op, c.t, got)
		}
	}
	if comparison("lt", b32) != nil || comparison("ltu", s32) != nil {
		t.Error("forms that do not exist")
	}
}

func TestAtomics(t *testing.T) {
	for _, c := range []struct {
		op           string
		t            ty
		old, b, want uint64
	}{
		{"add", u32, 0xffffffff, 2, 1}, {"add", u64, 0xffffffff, 2, 0x100000001}, {"or", b32, 6, 5, 7},
	} {
		if got := atomicOp(c.op, c.t)(c.old, c.b); got != c.want {
			t.Errorf("%s %s: %#x, want %#x", c.op, name(c.t), got, c.want)
		}
	}
}
