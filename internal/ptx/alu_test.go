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
	if err != nil {
		t.Fatal(err)
	}
	mem := NewMemory()
	p, err := mem.Alloc(8)
	if err != nil {
		t.Fatal(err)
	}
	kernel, err := m.Kernel("k")
	if err != nil {
		t.Fatal(err)
	}
	if err := kernel.Launch(mem, [3]int{1, 1, 1}, [3]int{1, 1, 1}, 0, []uint64{p}, Options{}); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 8)
	if err := mem.Read(b[:k.size()], p); err != nil {
		t.Fatal(err)
	}
	return binary.LittleEndian.Uint64(b)
}

// compute runs one instruction by its full name; cvt and setp are made as the parser makes them.
func compute(t testing.TB, mnemonic string, src ...uint64) uint64 {
	t.Helper()
	f, ok := forms()[mnemonic]
	if !ok {
		t.Fatalf("no form %s", mnemonic)
	}
	var v [4]vec
	for i, x := range src {
		v[i][7] = x
	}
	var d vec
	f.f(&d, &v[0], &v[1], &v[2], &v[3])
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
		{"mad.wide.u32", []uint64{m1, m1, 1}, 0xfffffffe00000002},
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
		{"bfi.b32", []uint64{0xff, 0, 8, 4}, 0xf00},
		{"bfi.b32", []uint64{0xff, m1, 28, 16}, m1},
		{"bfi.b32", []uint64{0, m1, 40, 4}, m1},
		{"bfi.b64", []uint64{0, ^uint64(0), 4, 56}, 0xf00000000000000f},
		{"prmt.b32", []uint64{0x33221100, 0x77665544, 0x7250}, 0x77225500},
		{"prmt.b32", []uint64{0x80, 0, 0x8808}, 0xffff80ff},
		{"shf.l.wrap.b32", []uint64{0x80000000, 1, 33}, 3},
		{"shf.r.clamp.b32", []uint64{0, 5, 40}, 5},
		{"shf.l.clamp.b32", []uint64{9, 5, 40}, 9},
		{"popc.b64", []uint64{^uint64(0)}, 64},
		{"clz.b32", []uint64{0}, 32},
		{"clz.b64", []uint64{1}, 63},
		{"brev.b32", []uint64{1}, 0x80000000},
		{"bfind.u32", []uint64{0}, m1},
		{"bfind.s32", []uint64{0xfffffff0}, 3},
		{"bfind.u64", []uint64{1 << 40}, 40},
		{"sad.u32", []uint64{3, 5, 10}, 12},
		{"lop3.b32", []uint64{0xf0, 0xcc, 0xaa, 0x96}, 0x96},
		{"lop3.b32", []uint64{0xf0, 0xcc, 0xaa, 0x1b}, 0xffffff1b},

		{"add.f32", []uint64{b32of(1), b32of(0x1p-24)}, b32of(1)},
		{"add.rp.f32", []uint64{b32of(1), b32of(0x1p-60)}, 0x3f800001},
		{"add.rm.f32", []uint64{b32of(1), b32of(-0x1p-60)}, 0x3f7fffff},
		{"add.rz.f32", []uint64{b32of(1), b32of(-0x1p-60)}, 0x3f7fffff},
		{"mul.rn.f32", []uint64{1, b32of(0.5)}, 0},
		{"mul.rn.f32", []uint64{1, b32of(0.75)}, 1},
		{"mul.rn.ftz.f32", []uint64{0x00800000, b32of(0.5)}, 0},
		{"mul.rn.ftz.f32", []uint64{0x80000001, b32of(1)}, 0x80000000},
		{"mul.rz.f32", []uint64{0x7f7fffff, b32of(2)}, 0x7f7fffff},
		{"mul.rn.f32", []uint64{0x7f7fffff, b32of(2)}, inf},
		{"add.f32", []uint64{inf, 0xff800000}, nan},
		{"add.sat.f32", []uint64{b32of(3), b32of(1)}, b32of(1)},
		{"add.sat.f32", []uint64{nan, b32of(1)}, 0},
		{"div.rn.f32", []uint64{b32of(1), b32of(3)}, 0x3eaaaaab},
		{"div.rz.f32", []uint64{b32of(1), b32of(3)}, 0x3eaaaaaa},
		{"rcp.rn.f32", []uint64{0x80000000}, 0xff800000},
		{"sqrt.rn.f32", []uint64{b32of(2)}, 0x3fb504f3},
		{"sqrt.rp.f32", []uint64{b32of(2)}, 0x3fb504f4},
		{"sqrt.rn.f32", []uint64{b32of(-1)}, nan},
		{"min.f32", []uint64{nan, b32of(3)}, b32of(3)},
		{"max.f32", []uint64{nan, nan}, nan},
		{"max.NaN.f32", []uint64{nan, b32of(3)}, nan},
		{"min.f32", []uint64{0, 0x80000000}, 0x80000000},
		{"max.f32", []uint64{0, 0x80000000}, 0},
		{"neg.f32", []uint64{0}, 0x80000000},
		{"abs.ftz.f32", []uint64{0x80000001}, 0},
		{"copysign.f32", []uint64{0x80000000, b32of(3)}, b32of(-3)},
		// 1+2⁻²³ squared, less 1: exact in one rounding only.
		{"fma.rn.f32", []uint64{0x3f800001, 0x3f800001, b32of(-1)}, b32of(0x1p-22 + 0x1p-46)},
		// The product lies just above the middle of two float32: a second rounding would lose it.
		{"fma.rn.f32", []uint64{b32of(1 + 0x1p-12), b32of(1 + 0x1p-12), b32of(0x1p-60)}, 0x3f801001},
		{"fma.rn.f32", []uint64{b32of(1 + 0x1p-12), b32of(1 + 0x1p-12), b32of(-0x1p-60)}, 0x3f801000},
		{"fma.rz.f32", []uint64{b32of(1), b32of(1), b32of(-0x1p-60)}, 0x3f7fffff},
		{"fma.rn.f32", []uint64{tiny, b32of(0.5), tiny}, 2},
		// The same among subnormals: 2⁻¹⁵⁰ less 2⁻¹⁹⁶ is under half of the least.
		{"fma.rn.f32", []uint64{b32of(0x1p-75 * (1 + 0x1p-23)), b32of(0x1p-75 * (1 - 0x1p-23)), 0x00080001}, 0x00080001},
		{"ex2.approx.f32", []uint64{b32of(3)}, b32of(8)},
		{"lg2.approx.f32", []uint64{0}, 0xff800000},
		{"rcp.approx.ftz.f32", []uint64{tiny}, inf},
		{"rsqrt.approx.f32", []uint64{b32of(4)}, b32of(0.5)},
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

// big32 rounds an exact value; direct modes need SetMode to act at the precision of subnormals too.
func big32(x *big.Float, mode big.RoundingMode) float32 {
	if x.Sign() == 0 {
		return 0
	}
	prec := 24
	if e := x.MantExp(nil); e < -125 {
		prec = e + 149
	}
	if prec < 1 { // at or below half of the least: add what one bit can hold
		least := new(big.Float).SetMantExp(big.NewFloat(1), -149)
		half := new(big.Float).SetMantExp(big.NewFloat(1), -150)
		abs := new(big.Float).Abs(x)
		up := mode == big.ToNearestEven && abs.Cmp(half) > 0 || mode == big.ToPositiveInf && x.Sign() > 0 || mode == big.ToNegativeInf && x.Sign() < 0
		if !up {
			return float32(math.Copysign(0, float64(x.Sign())))
		}
		v, _ := least.Float32()
		return float32(math.Copysign(float64(v), float64(x.Sign())))
	}
	y := new(big.Float).SetPrec(uint(prec)).SetMode(mode).Set(x)
	f, _ := y.Float64()
	if math.Abs(f) > math.MaxFloat32 {
		if mode == big.ToZero || mode == big.ToPositiveInf && f < 0 || mode == big.ToNegativeInf && f > 0 {
			return float32(math.Copysign(math.MaxFloat32, f))
		}
		return float32(math.Inf(int(math.Copysign(1, f))))
	}
	return float32(f)
}

var modes = map[string]big.RoundingMode{"rn": big.ToNearestEven, "rz": big.ToZero, "rm": big.ToNegativeInf, "rp": big.ToPositiveInf}

// TestExactFloat32 compares all rounding modes of sums, products and their
// fusion with arithmetic in arbitrary precision.
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
		for m, mode := range modes {
			for op, want := range map[string]*big.Float{
				"add": new(big.Float).SetPrec(2000).Add(exact(a), exact(b)),
				"mul": new(big.Float).SetPrec(2000).Mul(exact(a), exact(b)),
				"fma": new(big.Float).SetPrec(2000).Add(new(big.Float).SetPrec(2000).Mul(exact(a), exact(b)), exact(c)),
			} {
				got := float32frombits(compute(t, op+"."+m+".f32", b32of(a), b32of(b), b32of(c)))
				if w := big32(want, mode); got != w {
					t.Fatalf("%s.%s of %g %g %g (%x %x %x): %g, want %g", op, m, a, b, c, b32of(a), b32of(b), b32of(c), got, w)
				}
			}
			if b != 0 && m != "rn" {
				q := new(big.Float).SetPrec(2000).Quo(exact(a), exact(b)) // inexact, but far beyond what decides
				got := float32frombits(compute(t, "div."+m+".f32", b32of(a), b32of(b)))
				if w := big32(q, mode); got != w {
					t.Fatalf("div.%s of %g %g: %g, want %g", m, a, b, got, w)
				}
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
		{"cvt.rz.f32.s32", f32, s32, 0xfeffffff, b32of(-0x1p24)},
		{"cvt.rp.f32.s32", f32, s32, 0x01000001, b32of(0x1p24 + 2)},
		{"cvt.rn.f32.u64", f32, u64, 1<<40 + 1<<16, b32of(0x1p40)},
		{"cvt.rn.f32.u64", f32, u64, 1<<63 + 1<<39 + 1, b32of(0x1p63 + 0x1p40)},
		{"cvt.rn.f32.u64", f32, u64, ^uint64(0), b32of(0x1p64)},
		{"cvt.rn.f32.s64", f32, s64, 1 << 63, b32of(-0x1p63)},
		{"cvt.rn.f64.u64", f64, u64, 1<<53 + 1, math.Float64bits(0x1p53)},
		{"cvt.rp.f64.u64", f64, u64, 1<<53 + 1, math.Float64bits(0x1p53 + 2)},
		{"cvt.rn.f64.s64", f64, s64, ^uint64(0), math.Float64bits(-1)},
		{"cvt.f64.f32", f64, f32, b32of(0.1), math.Float64bits(float64(float32(0.1)))},
		{"cvt.rn.f32.f64", f32, f64, math.Float64bits(0.1), b32of(0.1)},
		{"cvt.rz.f32.f64", f32, f64, math.Float64bits(0.1), b32of(0.1) - 1},
		{"cvt.rn.ftz.f32.f64", f32, f64, math.Float64bits(0x1p-130), 0},
		{"cvt.rn.f32.f64", f32, f64, math.Float64bits(0x1p-149), 1},
		{"cvt.rmi.f32.f32", f32, f32, b32of(-2.5), b32of(-3)},
		{"cvt.rni.f32.f32", f32, f32, b32of(-0.4), 0x80000000},
		{"cvt.sat.f32.f32", f32, f32, b32of(1.5), b32of(1)},
		{"cvt.sat.f32.f32", f32, f32, nan, 0},
		{"cvt.u64.u32", u64, u32, 0xffffffff, 0xffffffff},
		{"cvt.s64.s32", s64, s32, 0xffffffff, ^uint64(0)},
		{"cvt.u32.u64", u32, u64, 0x1234567890, 0x34567890},
		{"cvt.s32.s8", s32, s8, 0x80, 0xffffff80},
		{"cvt.sat.u8.s32", u8, s32, 300, 255},
		{"cvt.sat.s8.s32", s8, s32, 0xffffff00, 0x80},
		{"cvt.sat.u32.s32", u32, s32, 0xffffffff, 0},
		{"cvt.rn.f16.f32", f16, f32, b32of(1), 0x3c00},
		{"cvt.rn.f16.f32", f16, f32, b32of(65504), 0x7bff},
		{"cvt.rn.f16.f32", f16, f32, b32of(65520), 0x7c00},
		{"cvt.rz.f16.f32", f16, f32, b32of(65520), 0x7bff},
		{"cvt.rn.f16.f32", f16, f32, b32of(0x1p-24), 1},
		{"cvt.rn.f16.f32", f16, f32, b32of(0x1p-25), 0},
		{"cvt.rn.f16.f32", f16, f32, b32of(0x1.004p0), 0x3c01},
		{"cvt.rn.f16.f32", f16, f32, b32of(0x1.002p0), 0x3c00},
		{"cvt.rn.f16.f32", f16, f32, nan, 0x7fff},
		{"cvt.rn.bf16.f32", bf16, f32, 0x3f808000, 0x3f80},
		{"cvt.rn.bf16.f32", bf16, f32, 0x3f818000, 0x3f82},
		{"cvt.rn.bf16.f32", bf16, f32, inf, 0x7f80},
		{"cvt.f32.f16", f32, f16, 0x8001, b32of(-0x1p-24)},
		{"cvt.f32.f16", f32, f16, 0xfc00, b32of(float32(math.Inf(-1)))},
		{"cvt.f32.bf16", f32, bf16, 0x4049, 0x40490000},
		{"cvt.rna.tf32.f32", b32, f32, 0x3f801000, 0x3f802000},
		{"cvt.rna.tf32.f32", b32, f32, 0x3f800fff, 0x3f800000},
	} {
		size := func(k ty) int { return 8 * max(k.size(), 2) }
		body := fmt.Sprintf(".reg .b%d %%a; .reg .b%d %%d; mov.b%d %%a, %d; %s %%d, %%a;", size(c.from), size(c.to), size(c.from), c.x, c.name)
		if got := runOne(t, body, "%d", map[int]ty{1: b8, 2: b16, 4: b32, 8: b64}[c.to.size()]); got != c.want {
			t.Errorf("%s %#x: %#x, want %#x", c.name, c.x, got, c.want)
		}
	}
	for x := range uint64(1 << 16) { // every half, there and back
		v := half(uint16(x))
		if v != v {
			continue
		}
		if got := toFloat(v, f16, "rn", false, false); got != x {
			t.Fatalf("half %#x is %g, back %#x", x, v, got)
		}
	}
}

func TestComparisons(t *testing.T) {
	nan := uint64(canonicalNaN)
	for _, c := range []struct {
		op   string
		t    ty
		ftz  bool
		a, b uint64
		want bool
	}{
		{"lt", s32, false, 0xffffffff, 0, true}, {"lt", u32, false, 0xffffffff, 0, false}, {"lo", u32, false, 1, 2, true},
		{"hs", u64, false, 2, 2, true}, {"gt", s16, false, 1, 0xffff, true}, {"eq", b64, false, 5, 5, true},
		{"lt", f32, false, nan, 0, false}, {"ltu", f32, false, nan, 0, true}, {"ne", f32, false, nan, nan, false},
		{"neu", f32, false, nan, nan, true}, {"equ", f32, false, nan, 0, true}, {"num", f32, false, 0, 0, true},
		{"nan", f32, false, 0, nan, true}, {"eq", f32, false, 0, 0x80000000, true}, {"gt", f32, false, 1, 0, true},
		{"gt", f32, true, 1, 0, false}, {"geu", f32, false, nan, 0, true}, {"ge", f64, false, 1 << 63, 0, true},
	} {
		var a, b vec
		a[3], b[3] = c.a, c.b
		if got := comparison(c.op, c.t, c.ftz)(&a, &b)>>3&1 != 0; got != c.want {
			t.Errorf("setp.%s of type %d: %v", c.op, c.t, got)
		}
	}
	if comparison("lt", b32, false) != nil || comparison("ltu", s32, false) != nil {
		t.Error("forms that do not exist")
	}
}

func TestAtomics(t *testing.T) {
	for _, c := range []struct {
		op              string
		t               ty
		old, b, c, want uint64
	}{
		{"add", u32, 0xffffffff, 2, 0, 1}, {"add", u64, 0xffffffff, 2, 0, 0x100000001}, {"min", s32, 0xffffffff, 1, 0, 0xffffffff},
		{"min", u32, 0xffffffff, 1, 0, 1}, {"max", s64, 1, ^uint64(0), 0, 1}, {"inc", u32, 3, 3, 0, 0}, {"inc", u32, 2, 3, 0, 3},
		{"dec", u32, 0, 7, 0, 7}, {"dec", u32, 9, 7, 0, 7}, {"cas", b32, 4, 4, 9, 9}, {"cas", b64, 4, 5, 9, 4}, {"exch", b32, 4, 5, 0, 5},
		{"xor", b32, 6, 5, 0, 3}, {"add", f32, b32of(1), b32of(2), 0, b32of(3)},
	} {
		if got := atomicOp(c.op, c.t)(c.old, c.b, c.c); got != c.want {
			t.Errorf("%s %s: %#x, want %#x", c.op, name(c.t), got, c.want)
		}
	}
}

// TestPerturb: within two units, of both signs, and never of what is exact by rule.
func TestPerturb(t *testing.T) {
	seen := map[int64]int{}
	for i := range uint64(5000) {
		x := b32of(1.5) + i
		seen[int64(perturb(7, x, x+1, 0, f32))-int64(x)]++
	}
	for d := int64(-2); d <= 2; d++ {
		if seen[d] < 800 { // of 1000 expected: more than 7 deviations
			t.Errorf("moved by %d: %d times", d, seen[d])
		}
	}
	if len(seen) != 5 {
		t.Error(seen)
	}
	for _, x := range []uint64{0, 0x80000000, 0x7f800000, canonicalNaN} {
		if perturb(7, x, b32of(2), 0, f32) != x {
			t.Errorf("%#x moved", x)
		}
	}
}
