package ptx

import (
	"math"
	"math/bits"
	"sync"
)

// form is an instruction that computes a register from registers.
type form struct {
	f   alu
	dst ty
	src []ty
}

// integer types, with what Go's generics need to know of them.
type integer interface {
	~uint16 | ~uint32 | ~uint64 | ~int16 | ~int32 | ~int64
}

// width of the values in bits: as many shifts leave nothing of -1.
func width[T integer]() (n int) {
	for x := T(1); x != 0; x <<= 1 {
		n++
	}
	return n
}

// low are the bits that a value of so many takes; those above are zero in registers.
func low(width int) uint64 { return ^uint64(0) >> (64 - width) }

// pack zero-extends.
func pack[T integer](x T) uint64 { return uint64(x) & low(width[T]()) }

func un[T, D integer](f func(T) D) alu {
	mask := low(width[D]())
	return func(d, a, _, _ *vec) {
		for i := range d {
			d[i] = uint64(f(T(a[i]))) & mask
		}
	}
}

func bin[T, U, D integer](f func(T, U) D) alu {
	mask := low(width[D]())
	return func(d, a, b, _ *vec) {
		for i := range d {
			d[i] = uint64(f(T(a[i]), U(b[i]))) & mask
		}
	}
}

func tri[T, U, V, D integer](f func(T, U, V) D) alu {
	mask := low(width[D]())
	return func(d, a, b, c *vec) {
		for i := range d {
			d[i] = uint64(f(T(a[i]), U(b[i]), V(c[i]))) & mask
		}
	}
}

type table map[string]form

func (t table) add(name string, f alu, dst ty, src ...ty) { t[name] = form{f, dst, src} }

// forms is the table of all instructions that only compute, by full name.
var forms = sync.OnceValue(func() map[string]form {
	t := table{}
	integers[uint16, uint32](t, u16, u32)
	integers[int16, int32](t, s16, s32)
	integers[uint32, uint64](t, u32, u64)
	integers[int32, int64](t, s32, s64)
	integers[uint64, uint64](t, u64, tNone)
	integers[int64, int64](t, s64, tNone)
	signedIntegers[int16](t, s16)
	signedIntegers[int32](t, s32)
	signedIntegers[int64](t, s64)
	bitwise(t, b16)
	bitwise(t, b32)
	bitwise(t, b64)
	fields(t)
	floats(t)
	return t
})

func name(t ty) string {
	for n, x := range typeNames {
		if x == t {
			return n
		}
	}
	return ""
}

// quotient of a division by zero is all ones, which PTX leaves open.
func integers[T, W integer](t table, k, wide ty) {
	s := "." + name(k)
	modular(t, k)
	t.add("mul.hi"+s, bin(mulHigh[T]), k, k, k)
	t.add("min"+s, bin(func(a, b T) T { return min(a, b) }), k, k, k)
	t.add("max"+s, bin(func(a, b T) T { return max(a, b) }), k, k, k)
	t.add("div"+s, bin(func(a, b T) T {
		if b == 0 {
			return ^T(0)
		}
		return a / b
	}), k, k, k)
	t.add("rem"+s, bin(func(a, b T) T {
		if b == 0 {
			return a
		}
		return a % b
	}), k, k, k)
	t.add("shr"+s, bin(func(a T, n uint32) T { return a >> n }), k, k, u32)
	if wide != tNone {
		t.add("mul.wide"+s, bin(func(a, b T) W { return W(a) * W(b) }), wide, k, k)
	}
	if k.size() >= 4 {
		t.add("bfe"+s, tri(func(a T, pos, n uint32) T { return extract(a, pos&255, n&255, uint32(8*k.size()), k.signed()) }), k, k, u32, u32)
	}
}

// modular adds the most frequent instructions, whose low bits do not depend on signs.
func modular(t table, k ty) {
	s, mask := "."+name(k), low(8*k.size())
	t.add("add"+s, func(d, a, b, _ *vec) {
		for i := range d {
			d[i] = (a[i] + b[i]) & mask
		}
	}, k, k, k)
	t.add("sub"+s, func(d, a, b, _ *vec) {
		for i := range d {
			d[i] = (a[i] - b[i]) & mask
		}
	}, k, k, k)
	t.add("mul.lo"+s, func(d, a, b, _ *vec) {
		for i := range d {
			d[i] = a[i] * b[i] & mask
		}
	}, k, k, k)
	t.add("mad.lo"+s, func(d, a, b, c *vec) {
		for i := range d {
			d[i] = (a[i]*b[i] + c[i]) & mask
		}
	}, k, k, k, k)
}

func signedIntegers[T int16 | int32 | int64](t table, k ty) {
	s := "." + name(k)
	t.add("neg"+s, un(func(a T) T { return -a }), k, k)
	t.add("abs"+s, un(func(a T) T { return max(a, -a) }), k, k)
}

func mulHigh[T integer](a, b T) T {
	switch x := any(a).(type) {
	case int16:
		return T(int32(x) * int32(b) >> 16)
	case uint16:
		return T(uint32(x) * uint32(b) >> 16)
	case int32:
		return T(int64(x) * int64(b) >> 32)
	case uint32:
		return T(uint64(x) * uint64(b) >> 32)
	case int64:
		h, _ := bits.Mul64(uint64(x), uint64(b))
		if x < 0 {
			h -= uint64(b)
		}
		if b < 0 {
			h -= uint64(x)
		}
		return T(h)
	}
	h, _ := bits.Mul64(uint64(a), uint64(b))
	return T(h)
}

// extract is bfe: ISA 9.7.1.17. What lies above the value is its sign.
func extract[T integer](a T, pos, n, width uint32, signed bool) T {
	x := pack(a)
	inside := uint32(0) // bits of the field that exist
	if pos < width {
		inside = min(n, width-pos)
	}
	out := x >> pos & (1<<inside - 1)
	if signed && n > 0 && x>>min(pos+n-1, width-1)&1 != 0 {
		out |= ^uint64(0) << inside
	}
	return T(out)
}

func bitwise(t table, k ty) {
	s, mask := "."+name(k), low(8*k.size())
	t.add("and"+s, func(d, a, b, _ *vec) {
		for i := range d {
			d[i] = a[i] & b[i]
		}
	}, k, k, k)
	t.add("or"+s, func(d, a, b, _ *vec) {
		for i := range d {
			d[i] = a[i] | b[i]
		}
	}, k, k, k)
	t.add("xor"+s, func(d, a, b, _ *vec) {
		for i := range d {
			d[i] = a[i] ^ b[i]
		}
	}, k, k, k)
	t.add("not"+s, func(d, a, _, _ *vec) {
		for i := range d {
			d[i] = ^a[i] & mask
		}
	}, k, k)
	t.add("shl"+s, func(d, a, b, _ *vec) {
		for i := range d {
			d[i] = a[i] << b[i] & mask
		}
	}, k, k, u32)
	t.add("shr"+s, func(d, a, b, _ *vec) {
		for i := range d {
			d[i] = a[i] >> b[i]
		}
	}, k, k, u32)
}

func fields(t table) {
	t.add("popc.b32", un(func(a uint32) uint32 { return uint32(bits.OnesCount32(a)) }), u32, b32)
	t.add("popc.b64", un(func(a uint64) uint32 { return uint32(bits.OnesCount64(a)) }), u32, b64)
	t.add("clz.b32", un(func(a uint32) uint32 { return uint32(bits.LeadingZeros32(a)) }), u32, b32)
	t.add("clz.b64", un(func(a uint64) uint32 { return uint32(bits.LeadingZeros64(a)) }), u32, b64)
	t.add("prmt.b32", tri(func(a, b, c uint32) uint32 {
		x := uint64(b)<<32 | uint64(a)
		var r uint32
		for i := range 4 {
			sel := c >> (4 * i)
			v := uint32(x>>(8*(sel&7))) & 0xff
			if sel&8 != 0 {
				v = uint32(int32(v<<24)>>31) & 0xff
			}
			r |= v << (8 * i)
		}
		return r
	}), b32, b32, b32, b32)
	t.add("shf.l.wrap.b32", tri(func(a, b, c uint32) uint32 {
		return uint32((uint64(b)<<32 | uint64(a)) << (c & 31) >> 32)
	}), b32, b32, b32, u32)
}

// comparison compiles setp; nil if there is none of that name.
func comparison(op string, t ty) func(a, b *vec) uint32 {
	switch t {
	case u16:
		return compareInt[uint16](op, false)
	case b16:
		return compareInt[uint16](op, true)
	case u32:
		return compareInt[uint32](op, false)
	case b32:
		return compareInt[uint32](op, true)
	case u64:
		return compareInt[uint64](op, false)
	case b64:
		return compareInt[uint64](op, true)
	case s16:
		return compareInt[int16](op, false)
	case s32:
		return compareInt[int32](op, false)
	case s64:
		return compareInt[int64](op, false)
	case f32, f64:
		test := floatTests[op]
		if test == nil {
			return nil
		}
		if t == f32 {
			return func(a, b *vec) (m uint32) {
				for i := range a {
					m |= bit(test(float64(float32frombits(a[i])), float64(float32frombits(b[i])))) << i
				}
				return m
			}
		}
		return func(a, b *vec) (m uint32) {
			for i := range a {
				m |= bit(test(math.Float64frombits(a[i]), math.Float64frombits(b[i]))) << i
			}
			return m
		}
	}
	return nil
}

func compareInt[T integer](op string, equality bool) func(a, b *vec) uint32 {
	equal := func(a, b *vec) (m uint32) {
		for i := range a {
			m |= bit(T(a[i]) == T(b[i])) << i
		}
		return m
	}
	less := func(a, b *vec) (m uint32) {
		for i := range a {
			m |= bit(T(a[i]) < T(b[i])) << i
		}
		return m
	}
	switch op {
	case "eq":
		return equal
	case "ne":
		return func(a, b *vec) uint32 { return ^equal(a, b) }
	}
	if equality {
		return nil
	}
	switch op {
	case "lt":
		return less
	case "le":
		return func(a, b *vec) uint32 { return ^less(b, a) }
	case "gt":
		return func(a, b *vec) uint32 { return less(b, a) }
	case "ge":
		return func(a, b *vec) uint32 { return ^less(a, b) }
	}
	return nil
}

func bit(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}

var floatTests = map[string]func(a, b float64) bool{
	"eq":  func(a, b float64) bool { return a == b },
	"ne":  func(a, b float64) bool { return a < b || a > b },
	"lt":  func(a, b float64) bool { return a < b },
	"le":  func(a, b float64) bool { return a <= b },
	"gt":  func(a, b float64) bool { return a > b },
	"ge":  func(a, b float64) bool { return a >= b },
	"equ": func(a, b float64) bool { return !(a < b || a > b) },
	"neu": func(a, b float64) bool { return a != b },
	"ltu": func(a, b float64) bool { return !(a >= b) },
	"leu": func(a, b float64) bool { return !(a > b) },
	"gtu": func(a, b float64) bool { return !(a <= b) },
	"geu": func(a, b float64) bool { return !(a < b) },
	"num": func(a, b float64) bool { return a == a && b == b },
	"nan": func(a, b float64) bool { return a != a || b != b },
}

// atomicOp gives the new value; nil if there is none of that name.
func atomicOp(op string, t ty) func(old, b uint64) uint64 {
	switch {
	case op == "or" && t == b32:
		return func(old, b uint64) uint64 { return old | b }
	case op == "add" && (t == u32 || t == u64):
		mask := low(8 * t.size())
		return func(old, b uint64) uint64 { return (old + b) & mask }
	}
	return nil
}
