package ptx

import "math"

const (
	canonicalNaN   = 0x7fffffff
	canonicalNaN64 = 0x7fffffffffffffff
)

func float32frombits(x uint64) float32 { return math.Float32frombits(uint32(x)) }

// nan32 gives the bits, of the canonical NaN for all NaNs.
func nan32(x float32) uint64 {
	if x != x {
		return canonicalNaN
	}
	return uint64(math.Float32bits(x))
}

func nan64(x float64) uint64 {
	if x != x {
		return canonicalNaN64
	}
	return math.Float64bits(x)
}

// oddSum is a+b in float64, rounded to odd: the nearest smaller in magnitude
// with the last bit set if anything was lost. A second rounding to float32 is then
// that of the exact sum (Boldo and Melquiond, Emulation of a FMA and correctly
// rounded sums, IEEE Trans. Comput. 57, 2008).
func oddSum(a, b float64) float64 {
	s := a + b
	x := math.Float64bits(s)
	if math.IsInf(s, 0) || s != s || x&1 != 0 {
		return s
	}
	t := s - a
	err := (a - (s - t)) + (b - t) // Knuth's two-sum: exact
	switch {
	case err == 0:
		return s
	case (err > 0) == (s > 0):
		return math.Float64frombits(x + 1)
	}
	return math.Float64frombits(x - 1)
}

// fma32 is a·b+c with one rounding. The product is exact in float64; the sum is
// rounded to odd only where the double rounding could go wrong.
func fma32(a, b, c float32) float32 {
	p := float64(a) * float64(b)
	s := p + float64(c)
	if x := math.Float64bits(s); x&0x1fffffff == 0x10000000 || math.Abs(s) < 0x1p-125 {
		s = oddSum(p, float64(c))
	}
	return float32(s)
}

// wrap32 makes all NaNs the canonical one.
func wrap32(f func(a, b, c float32) float32) alu {
	return func(d, a, b, c *vec) {
		for i := range d {
			d[i] = nan32(f(float32frombits(a[i]), float32frombits(b[i]), float32frombits(c[i])))
		}
	}
}

func wrap64(f func(a, b, c float64) float64) alu {
	return func(d, a, b, c *vec) {
		for i := range d {
			d[i] = nan64(f(math.Float64frombits(a[i]), math.Float64frombits(b[i]), math.Float64frombits(c[i])))
		}
	}
}

// arithmetic has the operations of both types; a function may leave sources unread. What leaves its rounding
// open is not there: assemblers may fuse it.
var arithmetic = []struct {
	op      string
	sources int
	f32     func(a, b, c float32) float32
	f64     func(a, b, c float64) float64
}{
	{"add.rn", 2, func(a, b, _ float32) float32 { return a + b }, func(a, b, _ float64) float64 { return a + b }},
	{"sub.rn", 2, func(a, b, _ float32) float32 { return a - b }, func(a, b, _ float64) float64 { return a - b }},
	{"mul.rn", 2, func(a, b, _ float32) float32 { return a * b }, func(a, b, _ float64) float64 { return a * b }},
	{"fma.rn", 3, fma32, func(a, b, c float64) float64 { return math.FMA(a, b, c) }}, // as a value it would not be one instruction
	{"div.rn", 2, func(a, b, _ float32) float32 { return a / b }, func(a, b, _ float64) float64 { return a / b }},
	{"rcp.rn", 1, func(a, _, _ float32) float32 { return 1 / a }, func(a, _, _ float64) float64 { return 1 / a }},
	// In float64 it has so many digits that rounding it again is rounding it once.
	{"sqrt.rn", 1, func(a, _, _ float32) float32 { return float32(math.Sqrt(float64(a))) }, func(a, _, _ float64) float64 { return math.Sqrt(a) }},
	{"min", 2, func(a, b, _ float32) float32 { return least(a, b) }, func(a, b, _ float64) float64 { return least(a, b) }},
	{"max", 2, func(a, b, _ float32) float32 { return -least(-a, -b) }, func(a, b, _ float64) float64 { return -least(-a, -b) }},
}

// least ignores a NaN where it can, and -0 is less than 0.
func least[T float32 | float64](a, b T) T {
	switch {
	case a != a:
		return b
	case b != b:
		return a
	}
	return min(a, b)
}

func floats(t table) {
	for _, o := range arithmetic {
		t.add(o.op+".f32", wrap32(o.f32), f32, []ty{f32, f32, f32}[:o.sources]...)
		t.add(o.op+".f64", wrap64(o.f64), f64, []ty{f64, f64, f64}[:o.sources]...)
	}
	frequent(t)
	signs(t)
	t.add("cvt.rn.bf16x2.f32", func(d, a, b, _ *vec) { // the first becomes the upper half: ISA 9.7.8.21
		for i := range d {
			d[i] = toBF16(a[i])<<16 | toBF16(b[i])
		}
	}, b32, f32, f32)
}

// frequent adds the most frequent ones once more, without a call for each lane.
func frequent(t table) {
	t.add("fma.rn.f32", func(d, a, b, c *vec) {
		for i := range d {
			x, y, z := float32frombits(a[i]), float32frombits(b[i]), float32frombits(c[i])
			s := float64(x)*float64(y) + float64(z)
			u := math.Float64bits(s)
			// No tie, and neither subnormal in float32 nor special; a sum of 0 is exact.
			if e := u << 1; u&0x1fffffff != 0x10000000 && (e == 0 || e-(1023-125)<<53 < (0x7ff-1023+125)<<53) {
				d[i] = uint64(math.Float32bits(float32(s)))
			} else {
				d[i] = nan32(fma32(x, y, z))
			}
		}
	}, f32, f32, f32, f32)
	t.add("add.rn.f32", func(d, a, b, _ *vec) {
		for i := range d {
			d[i] = nan32(float32frombits(a[i]) + float32frombits(b[i]))
		}
	}, f32, f32, f32)
	t.add("sub.rn.f32", func(d, a, b, _ *vec) {
		for i := range d {
			d[i] = nan32(float32frombits(a[i]) - float32frombits(b[i]))
		}
	}, f32, f32, f32)
	t.add("mul.rn.f32", func(d, a, b, _ *vec) {
		for i := range d {
			d[i] = nan32(float32frombits(a[i]) * float32frombits(b[i]))
		}
	}, f32, f32, f32)
	t.add("add.rn.f64", func(d, a, b, _ *vec) {
		for i := range d {
			d[i] = nan64(math.Float64frombits(a[i]) + math.Float64frombits(b[i]))
		}
	}, f64, f64, f64)
	t.add("sub.rn.f64", func(d, a, b, _ *vec) {
		for i := range d {
			d[i] = nan64(math.Float64frombits(a[i]) - math.Float64frombits(b[i]))
		}
	}, f64, f64, f64)
	t.add("mul.rn.f64", func(d, a, b, _ *vec) {
		for i := range d {
			d[i] = nan64(math.Float64frombits(a[i]) * math.Float64frombits(b[i]))
		}
	}, f64, f64, f64)
	t.add("fma.rn.f64", func(d, a, b, c *vec) {
		for i := range d {
			d[i] = nan64(math.FMA(math.Float64frombits(a[i]), math.Float64frombits(b[i]), math.Float64frombits(c[i])))
		}
	}, f64, f64, f64, f64)
}

// signs adds what works on the sign alone, and keeps the bits of NaNs.
func signs(t table) {
	for k, sign := range map[ty]uint64{f32: 1 << 31, f64: 1 << 63} {
		for op, f := range map[string]func(uint64) uint64{
			"neg": func(x uint64) uint64 { return x ^ sign }, "abs": func(x uint64) uint64 { return x &^ sign },
		} {
			t.add(op+"."+name(k), func(d, a, _, _ *vec) {
				for i := range d {
					d[i] = f(a[i])
				}
			}, k, k)
		}
	}
}
