package ptx

import (
	"errors"
	"math"
	"slices"
)

// conversion is cvt[.rounding][.ftz][.sat].to.from.
type conversion struct {
	to, from ty
	mode     string // of rounding, "" where none is named
	ftz, sat bool
}

var roundings = []string{"rn", "rz", "rm", "rp", "rni", "rzi", "rmi", "rpi", "rna"}

// conversionOf reads the words of a name behind cvt.
func conversionOf(part []string) (c conversion, ok bool) {
	if len(part) < 2 {
		return c, false
	}
	n := len(part) - 2
	c.to, c.from = typeNames[part[n]], typeNames[part[n+1]]
	for i, m := range part[:n] {
		switch {
		case m == "ftz" && (c.to == f32 || c.from == f32):
			c.ftz = true
		case m == "sat":
			c.sat = true
		case i == 0 && slices.Contains(roundings, m):
			c.mode = m
		default:
			return c, false
		}
	}
	return c, c.known()
}

// integral says whether it rounds to an integer, which has modes of its own.
func (c conversion) integral() bool { return len(c.mode) == 3 && c.mode != "rna" }

// known says whether there is such a conversion.
func (c conversion) known() bool {
	switch {
	case c.to.size() == 0 || c.from.size() == 0 || c.from == tf32:
		return false
	case c.to == tf32:
		return c.from == f32 && c.mode == "rna"
	case c.mode == "rna":
		return false
	case c.from.float() && c.to.float():
		return c.floats()
	case c.from.float():
		return c.integral()
	case c.to.float():
		return c.mode != "" && !c.integral()
	}
	return c.mode == ""
}

// floats is known for conversions between floats.
func (c conversion) floats() bool {
	switch {
	case (c.to == bf16 || c.from == bf16) && c.to != f32 && c.from != f32:
		return false
	case c.integral():
		return c.to == c.from
	}
	return c.mode != "" || c.to.size() >= c.from.size()
}

func (p *parser) decodeCvt(in *inst, part []string, ops []operand) (err error) {
	c, ok := conversionOf(part[1:])
	if err := arity(ops, 2); err != nil || !ok {
		return errors.Join(errForm, err)
	}
	in.op = opALU
	if in.dst, err = p.dest(ops[0], c.to, true); err != nil {
		return err
	}
	n := 8
	if ops[0].kind == oReg {
		n = ops[0].ty.size()
	}
	f := c.function()
	in.f = func(d, a, _, _, _ *vec) {
		for i := range d {
			d[i] = c.to.extend(f(a[i]), n)
		}
	}
	in.src[0], err = p.source(ops[1], c.from, true)
	in.nsrc = 1
	return err
}

// function works on bits of the one type and gives those of the other.
func (c conversion) function() func(x uint64) uint64 {
	to, from, mode, sat := c.to, c.from, c.mode, c.sat
	switch {
	case !from.float() && !to.float():
		return func(x uint64) uint64 {
			x = from.extend(x, 8)
			if sat {
				x = clamp(x, from.signed(), to)
			}
			return x
		}
	case !from.float():
		return func(x uint64) uint64 {
			x = from.extend(x, 8)
			neg := from.signed() && int64(x) < 0
			if neg {
				x = -x
			}
			return fromInteger(x, neg, to, mode, sat)
		}
	case to == tf32:
		return toTF32
	}
	value := c.value()
	switch {
	case !c.integral():
		if mode == "" {
			mode = "rn"
		}
		return func(x uint64) uint64 { return toFloat(value(x), to, mode, c.ftz, sat) }
	case to.float():
		round := integralRoundings[mode]
		return func(x uint64) uint64 { return toFloat(round(value(x)), to, "rn", c.ftz, sat) }
	}
	round := integralRoundings[mode]
	return func(x uint64) uint64 {
		v := value(x)
		if v != v {
			if from == f64 || to.size() == 8 {
				return 1 << (8*to.size() - 1)
			}
			return 0
		}
		return toInteger(round(v), to)
	}
}

var integralRoundings = map[string]func(float64) float64{"rni": math.RoundToEven, "rzi": math.Trunc, "rmi": math.Floor, "rpi": math.Ceil}

// value gives the number that bits of a float type stand for.
func (c conversion) value() func(x uint64) float64 {
	from, ftz := c.from, c.ftz
	return func(x uint64) float64 {
		switch from {
		case f16:
			return half(uint16(x))
		case bf16:
			return float64(math.Float32frombits(uint32(x&0xffff) << 16))
		case f32:
			if ftz {
				x = flush32(x & 0xffffffff)
			}
			return float64(float32frombits(x))
		}
		return math.Float64frombits(x)
	}
}

// toTF32 rounds bits of a float32 with ties away from zero: 13 bits go.
func toTF32(x uint64) uint64 {
	switch {
	case x&0x7f800000 != 0x7f800000:
		return (x + 0x1000) &^ 0x1fff & 0xffffffff
	case x&0x7fffff != 0:
		return canonicalNaN
	}
	return x
}

// bounds of an integer type as float64, the upper one exclusive.
func bounds(t ty) (lo, hi float64) {
	n := 8 * t.size()
	if t.signed() {
		return -math.Ldexp(1, n-1), math.Ldexp(1, n-1)
	}
	return 0, math.Ldexp(1, n)
}

func toInteger(v float64, t ty) uint64 {
	lo, hi := bounds(t)
	switch {
	case v >= hi && t.signed():
		return 1<<(8*t.size()-1) - 1
	case v >= hi:
		return ^uint64(0) >> (64 - 8*t.size())
	case v < lo && t.signed():
		return -(uint64(1) << (8*t.size() - 1))
	case v <= lo && !t.signed():
		return 0
	case v < 0:
		return uint64(int64(v))
	}
	return uint64(v)
}

// clamp puts an integer, sign-extended if signed, into the range of a type.
func clamp(x uint64, signed bool, to ty) uint64 {
	top := ^uint64(0) >> (64 - 8*to.size())
	if to.signed() {
		top >>= 1
	}
	if signed && int64(x) < 0 {
		if !to.signed() {
			return 0
		}
		return uint64(max(int64(x), -int64(top)-1))
	}
	return min(x, top)
}

// fromInteger rounds a magnitude to a float type.
func fromInteger(x uint64, neg bool, to ty, mode string, sat bool) uint64 {
	hi := float64(x>>32) * 0x1p32
	lo := float64(x & 0xffffffff)
	if neg {
		hi, lo = -hi, -lo
	}
	if to == f64 {
		s := hi + lo
		if err := lo - (s - hi); err != 0 {
			switch {
			case mode == "rz" && (err > 0) != (s > 0):
				s = math.Nextafter(s, 0)
			case mode == "rm" && err < 0:
				s = math.Nextafter(s, math.Inf(-1))
			case mode == "rp" && err > 0:
				s = math.Nextafter(s, math.Inf(1))
			}
		}
		return toFloat(s, to, mode, false, sat)
	}
	return toFloat(oddSum(hi, lo), to, mode, false, sat)
}

// toFloat rounds a value that is exact or rounded to odd.
func toFloat(v float64, to ty, mode string, ftz, sat bool) uint64 {
	if sat {
		if !(v > 0) {
			v = 0
		}
		v = min(v, 1)
	}
	switch to {
	case f64:
		if v != v {
			return canonicalNaN64
		}
		return math.Float64bits(v)
	case f32:
		x := nan32(round32(v, mode))
		if ftz {
			x = flush32(x)
		}
		return x
	case bf16:
		return narrow(v, 8, 127, mode)
	}
	return narrow(v, 5, 15, mode)
}

// narrow rounds to 16 bits of which so many are the exponent.
func narrow(v float64, exponent, bias int, mode string) uint64 {
	fraction := 15 - exponent
	sign := uint64(0)
	if math.Signbit(v) {
		sign = 0x8000
	}
	infinity := uint64(1<<exponent-1) << fraction
	a := math.Abs(v)
	switch {
	case v != v:
		return 0x7fff
	case math.IsInf(v, 0):
		return sign | infinity
	case a == 0:
		return sign
	}
	_, e := math.Frexp(a)
	e = max(e-1, 1-bias)           // of the leading bit, or of subnormals
	q := math.Ldexp(a, fraction-e) // in units of the last place: exact
	n := uint64(math.Trunc(q))     // < 2^(fraction+1)
	switch rest := q - math.Trunc(q); {
	case rest == 0:
	case mode == "rn" && (rest > 0.5 || rest == 0.5 && n&1 != 0), mode == "rp" && v > 0, mode == "rm" && v < 0:
		n++
	}
	// Adding the exponent lets a carry go where it belongs.
	x := uint64(e+bias-1)<<fraction + n
	if x >= infinity {
		if mode == "rz" || mode == "rp" && v < 0 || mode == "rm" && v > 0 {
			return sign | infinity - 1
		}
		return sign | infinity
	}
	return sign | x
}

func half(x uint16) float64 {
	sign := 1.0
	if x&0x8000 != 0 {
		sign = -1
	}
	m := float64(x & 0x3ff)
	switch e := int(x >> 10 & 31); e {
	case 31:
		if m != 0 {
			return math.NaN()
		}
		return math.Inf(int(sign))
	case 0:
		return sign * math.Ldexp(m, -24)
	default:
		return sign * math.Ldexp(m+1024, e-25)
	}
}
