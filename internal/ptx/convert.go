package ptx

import (
	"errors"
	"math"

	"github.com/privgrad/privgrad/internal/half"
)

// conversion is cvt[.rounding].to.from.
type conversion struct {
	to, from ty
	mode     string // of rounding, "" where none is named
}

// conversionOf reads the words of a name behind cvt.
func conversionOf(part []string) (c conversion, ok bool) {
	n := len(part) - 2
	if n < 0 || n > 1 {
		return c, false
	}
	c.to, c.from = typeNames[part[n]], typeNames[part[n+1]]
	if n == 1 {
		c.mode = part[0]
	}
	return c, c.known()
}

// known says whether there is such a conversion.
func (c conversion) known() bool {
	toFloat, fromFloat := c.to == f32 || c.to == f64, c.from == f32 || c.from == f64
	switch {
	case c.to == tf32:
		return c.from == f32 && c.mode == "rna"
	case c.from == f16:
		return c.to == f32 && c.mode == ""
	case c.to.size() == 0 || c.from.size() == 0 || c.to.float() != toFloat || c.from.float() != fromFloat:
		return false
	case fromFloat && (!toFloat || c.to == c.from):
		return integral[c.mode] != nil
	case fromFloat && c.to == f64:
		return c.mode == ""
	case toFloat:
		return c.mode == "rn"
	}
	return c.mode == ""
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
	in.f = c.lanes(n)
	in.src[0], err = p.source(ops[1], c.from, true)
	in.nsrc = 1
	return err
}

// lanes converts to registers of n bytes. The most frequent conversions have loops of their own.
func (c conversion) lanes(n int) alu {
	f, shift := c.function(), 64-8*c.from.size()
	switch wide := c.to.size() == 8; {
	case c.to == f64 && c.from == f32 && c.mode == "":
		return func(d, a, _, _ *vec) {
			for i := range d {
				if v := float64(float32frombits(a[i])); v == v {
					d[i] = math.Float64bits(v)
				} else {
					d[i] = canonicalNaN64
				}
			}
		}
	case wide && !c.to.float() && !c.from.float() && c.from.signed():
		return func(d, a, _, _ *vec) {
			for i := range d {
				d[i] = uint64(int64(a[i]<<shift) >> shift)
			}
		}
	case wide && !c.to.float() && !c.from.float():
		return func(d, a, _, _ *vec) {
			for i := range d {
				d[i] = a[i] << shift >> shift
			}
		}
	case wide || c.to.float(): // fills its register
		return func(d, a, _, _ *vec) {
			for i := range d {
				d[i] = f(a[i])
			}
		}
	}
	return func(d, a, _, _ *vec) {
		for i := range d {
			d[i] = c.to.extend(f(a[i]), n)
		}
	}
}

// function works on bits of the one type and gives those of the other.
func (c conversion) function() func(x uint64) uint64 {
	to, from := c.to, c.from
	switch {
	case !from.float() && !to.float():
		return func(x uint64) uint64 { return from.extend(x, 8) }
	case !from.float() && from.signed():
		return func(x uint64) uint64 { return fromInteger(int64(from.extend(x, 8)), to) }
	case !from.float():
		return func(x uint64) uint64 { return fromInteger(from.extend(x, 8), to) }
	case to == tf32:
		return toTF32
	case from == f16:
		return func(x uint64) uint64 { return uint64(math.Float32bits(half.ToFloat32(uint16(x)))) }
	}
	value := func(x uint64) float64 { return math.Float64frombits(x) }
	if from == f32 {
		value = func(x uint64) float64 { return float64(float32frombits(x)) }
	}
	round := integral[c.mode]
	switch {
	case round == nil:
		return func(x uint64) uint64 { return toFloat(value(x), to) }
	case to.float():
		return func(x uint64) uint64 { return toFloat(round(value(x)), to) }
	}
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

// integral are the roundings to an integer.
var integral = map[string]func(float64) float64{"rni": math.RoundToEven, "rzi": math.Trunc, "rmi": math.Floor, "rpi": math.Ceil}

// toTF32 rounds bits of a float32 with ties away from zero: 13 bits go.
func toTF32(x uint64) uint64 {
	switch {
	case x&0x7f800000 != 0x7f800000:
		return (x + 0x1000) &^ 0x1fff & 0xffffffff
	case x&0x7fffff != 0:
		return canonicalNaN
	}
	return x & 0xffffffff
}

// toBF16 rounds bits of a float32 with ties to even: a carry goes into the exponent.
func toBF16(x uint64) uint64 {
	if x&0x7fffffff > 0x7f800000 {
		return 0x7fff
	}
	return (x + 0x7fff + x>>16&1) >> 16
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
		return low(8 * t.size())
	case v < lo && t.signed():
		return -(uint64(1) << (8*t.size() - 1))
	case v <= lo && !t.signed():
		return 0
	case v < 0:
		return uint64(int64(v))
	}
	return uint64(v)
}

func fromInteger[T int64 | uint64](x T, to ty) uint64 {
	if to == f32 {
		return uint64(math.Float32bits(float32(x)))
	}
	return math.Float64bits(float64(x))
}

func toFloat(v float64, to ty) uint64 {
	switch {
	case to == f32:
		return nan32(float32(v))
	case v != v:
		return canonicalNaN64
	}
	return math.Float64bits(v)
}
