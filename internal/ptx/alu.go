package ptx

import (
	"math"
	"math/bits"
	"sync"
)

// form is an instruction that computes a register from registers.
type form struct {
	f      alu
	dst    ty
	src    []ty
	approx bool
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
	return func(d, a, _, _, _ *vec) {
		for i := range d {
			d[i] = uint64(f(T(a[i]))) & mask
		}
	}
}

func bin[T, U, D integer](f func(T, U) D) alu {
	mask := low(width[D]())
	return func(d, a, b, _, _ *vec) {
		for i := range d {
			d[i] = uint64(f(T(a[i]), U(b[i]))) & mask
		}
	}
}

func tri[T, U, V, D integer](f func(T, U, V) D) alu {
	mask := low(width[D]())
	return func(d, a, b, c, _ *vec) {
		for i := range d {
			d[i] = uint64(f(T(a[i]), U(b[i]), V(c[i]))) & mask
		}
	}
}

type table map[string]form

func (t table) add(name string, f alu, dst ty, src ...ty) { t[name] = form{f: f, dst: dst, src: src} }

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
	t.add("mad.hi"+s, tri(func(a, b, c T) T { return mulHigh(a, b) + c }), k, k, k, k)
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
	t.add("sad"+s, tri(func(a, b, c T) T { return max(a, b) - min(a, b) + c }), k, k, k, k)
	if wide != tNone {
		t.add("mul.wide"+s, bin(func(a, b T) W { return W(a) * W(b) }), wide, k, k)
		t.add("mad.wide"+s, tri(func(a, b T, c W) W { return W(a)*W(b) + c }), wide, k, k, wide)
	}
	if k.size() >= 4 {
		t.add("bfe"+s, tri(func(a T, pos, n uint32) T { return extract(a, pos&255, n&255, uint32(8*k.size()), k.signed()) }), k, k, u32, u32)
		t.add("bfind"+s, un(func(a T) uint32 {
			x := pack(a)
			if k.signed() && x>>(8*k.size()-1) != 0 {
				x = ^x << (64 - 8*k.size()) >> (64 - 8*k.size())
			}
			return uint32(bits.Len64(x) - 1)
		}), u32, k)
	}
}

// modular adds the most frequent instructions, whose low bits do not depend on signs.
func modular(t table, k ty) {
	s, mask := "."+name(k), low(8*k.size())
	t.add("add"+s, func(d, a, b, _, _ *vec) {
		for i := range d {
			d[i] = (a[i] + b[i]) & mask
		}
	}, k, k, k)
	t.add("sub"+s, func(d, a, b, _, _ *vec) {
		for i := range d {
			d[i] = (a[i] - b[i]) & mask
		}
	}, k, k, k)
	t.add("mul.lo"+s, func(d, a, b, _, _ *vec) {
		for i := range d {
			d[i] = a[i] * b[i] & mask
		}
	}, k, k, k)
	t.add("mad.lo"+s, func(d, a, b, c, _ *vec) {
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
	t.add("and"+s, func(d, a, b, _, _ *vec) {
		for i := range d {
			d[i] = a[i] & b[i]
		}
	}, k, k, k)
	t.add("or"+s, func(d, a, b, _, _ *vec) {
		for i := range d {
			d[i] = a[i] | b[i]
		}
	}, k, k, k)
	t.add("xor"+s, func(d, a, b, _, _ *vec) {
		for i := range d {
			d[i] = a[i] ^ b[i]
		}
	}, k, k, k)
	t.add("not"+s, func(d, a, _, _, _ *vec) {
		for i := range d {
			d[i] = ^a[i] & mask
		}
	}, k, k)
	t.add("shl"+s, func(d, a, b, _, _ *vec) {
		for i := range d {
			d[i] = a[i] << b[i] & mask
		}
	}, k, k, u32)
	t.add("shr"+s, func(d, a, b, _, _ *vec) {
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
	t.add("brev.b32", un(bits.Reverse32), b32, b32)
	t.add("brev.b64", un(bits.Reverse64), b64, b64)
	t.add("bfi.b32", bfi(32), b32, b32, b32, u32, u32)
	t.add("bfi.b64", bfi(64), b64, b64, b64, u32, u32)
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
	for n, amount := range map[string]func(uint32) uint32{
		"wrap": func(c uint32) uint32 { return c & 31 }, "clamp": func(c uint32) uint32 { return min(c, 32) },
	} {
		t.add("shf.l."+n+".b32", tri(func(a, b, c uint32) uint32 {
			return uint32((uint64(b)<<32 | uint64(a)) << amount(c) >> 32)
		}), b32, b32, b32, u32)
		t.add("shf.r."+n+".b32", tri(func(a, b, c uint32) uint32 {
			return uint32((uint64(b)<<32 | uint64(a)) >> amount(c))
		}), b32, b32, b32, u32)
	}
	t.add("lop3.b32", func(d, a, b, c, e *vec) {
		for i := range d {
			var r uint64
			for k := range 8 {
				if e[i]>>k&1 == 0 {
					continue
				}
				x, y, z := a[i], b[i], c[i]
				if k&4 == 0 {
					x = ^x
				}
				if k&2 == 0 {
					y = ^y
				}
				if k&1 == 0 {
					z = ^z
				}
				r |= x & y & z
			}
			d[i] = r & 0xffffffff
		}
	}, b32, b32, b32, b32, u32)
}

// bfi puts the low bits of a into b: ISA 9.7.1.18.
func bfi(width uint64) alu {
	return func(d, a, b, c, e *vec) {
		for i := range d {
			pos, n := c[i]&255, e[i]&255
			var mask uint64
			if pos < width {
				mask = (1<<n - 1) << pos
				if n >= 64 {
					mask = ^uint64(0) << pos
				}
				if width < 64 {
					mask &= 1<<width - 1
				}
			}
			d[i] = b[i]&^mask | a[i]<<pos&mask
		}
	}
}

// comparison compiles setp; nil if there is none of that name.
func comparison(op string, t ty, ftz bool) func(a, b *vec) uint32 {
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
		get := func(x uint64) float64 { return math.Float64frombits(x) }
		if t == f32 {
			get = func(x uint64) float64 {
				if ftz {
					x = flush32(x)
				}
				return float64(math.Float32frombits(uint32(x)))
			}
		}
		return func(a, b *vec) (m uint32) {
			for i := range a {
				if test(get(a[i]), get(b[i])) {
					m |= 1 << i
				}
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
	case "lt", "lo":
		return less
	case "le", "ls":
		return func(a, b *vec) uint32 { return ^less(b, a) }
	case "gt", "hi":
		return func(a, b *vec) uint32 { return less(b, a) }
	case "ge", "hs":
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

// reduction is the operation of redux.
func reduction(op string, t ty) func(a, b uint64) uint64 {
	switch {
	case t == b32 && op == "and":
		return func(a, b uint64) uint64 { return a & b }
	case t == b32 && (op == "or" || op == "xor"), (t == u32 || t == s32) && (op == "add" || op == "min" || op == "max"):
		f := atomicOp(op, t)
		return func(a, b uint64) uint64 { return f(a, b, 0) }
	}
	return nil
}

// atomicOp gives the new value; nil if there is none of that name.
func atomicOp(op string, t ty) func(old, b, c uint64) uint64 {
	switch {
	case t.size() < 4:
		return nil
	case op == "add" && t == f32:
		return func(old, b, _ uint64) uint64 { return nan32(float32frombits(old) + float32frombits(b)) }
	case op == "add" && t == f64:
		return func(old, b, _ uint64) uint64 {
			return math.Float64bits(math.Float64frombits(old) + math.Float64frombits(b))
		}
	case t.float():
		return nil
	case atomicBits[op] != nil:
		return atomicBits[op]
	case t == b32 || t == b64:
		return nil
	case t == u32 && counters[op] != nil:
		return counters[op]
	case op == "add":
		mask := low(8 * t.size())
		return func(old, b, _ uint64) uint64 { return (old + b) & mask }
	case op == "min" || op == "max":
		return func(old, b, _ uint64) uint64 {
			less := old < b
			if t.signed() {
				less = int64(t.extend(old, 8)) < int64(t.extend(b, 8))
			}
			if less == (op == "min") {
				return old
			}
			return b
		}
	}
	return nil
}

// atomicBits take every type but floats.
var atomicBits = map[string]func(old, b, c uint64) uint64{
	"exch": func(_, b, _ uint64) uint64 { return b },
	"cas": func(old, b, c uint64) uint64 {
		if old == b {
			return c
		}
		return old
	},
	"and": func(old, b, _ uint64) uint64 { return old & b },
	"or":  func(old, b, _ uint64) uint64 { return old | b },
	"xor": func(old, b, _ uint64) uint64 { return old ^ b },
}

// counters are modulo b+1.
var counters = map[string]func(old, b, c uint64) uint64{
	"inc": func(old, b, _ uint64) uint64 {
		if old >= b {
			return 0
		}
		return old + 1
	},
	"dec": func(old, b, _ uint64) uint64 {
		if old == 0 || old > b {
			return b
		}
		return old - 1
	},
}
