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

// flush32 makes subnormal float32 bits zeros of their sign.
func flush32(x uint64) uint64 {
	if x&0x7f800000 == 0 {
		return x & 0x80000000
	}
	return x
}

// oddSum is a+b in float64, rounded to odd: the nearest smaller in magnitude
// with the last bit set if anything was lost. A second rounding to float32, in
// any direction, is then that of the exact sum (Boldo and Melquiond, Emulation
// of a FMA and correctly rounded sums, IEEE Trans. Comput. 57, 2008).
func oddSum(a, b float64) float64 {
	s := a + b
	if math.IsInf(s, 0) || s != s {
		return s
	}
	t := s - a
	err := (a - (s - t)) + (b - t) // Knuth's two-sum: exact
	return odd(s, err)
}

// odd takes a rounded value and the sign of what was lost.
func odd(s, err float64) float64 {
	x := math.Float64bits(s)
	if err == 0 || x&1 != 0 {
		return s
	}
	if (err > 0) == (s > 0) {
		return math.Float64frombits(x + 1)
	}
	return math.Float64frombits(x - 1)
}

// round32 rounds a float64, which must be exact or rounded to odd.
func round32(x float64, mode string) float32 {
	f := float32(x)
	if float64(f) == x || x != x {
		return f
	}
	up, down := float32(math.Inf(1)), float32(math.Inf(-1))
	toward := f
	switch {
	case mode == "rz" && math.Abs(float64(f)) > math.Abs(x):
		toward = 0
	case mode == "rm" && float64(f) > x:
		toward = down
	case mode == "rp" && float64(f) < x:
		toward = up
	}
	if toward != f {
		return math.Nextafter32(f, toward)
	}
	return f
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

func saturate(x float32) float32 {
	if !(x > 0) { // NaN too
		return 0
	}
	return min(x, 1)
}

// float32 forms: f works on values, flushing and NaNs are added here.
func wrap32(ftz, sat bool, f func(a, b, c float32) float32) alu {
	return func(d, a, b, c, _ *vec) {
		for i := range d {
			x, y, z := a[i], b[i], c[i]
			if ftz {
				x, y, z = flush32(x), flush32(y), flush32(z)
			}
			r := f(float32frombits(x), float32frombits(y), float32frombits(z))
			if sat {
				r = saturate(r)
			}
			v := nan32(r)
			if ftz {
				v = flush32(v)
			}
			d[i] = v
		}
	}
}

func wrap64(f func(a, b, c float64) float64) alu {
	return func(d, a, b, c, _ *vec) {
		for i := range d {
			r := f(math.Float64frombits(a[i]), math.Float64frombits(b[i]), math.Float64frombits(c[i]))
			if r != r {
				d[i] = canonicalNaN64
				continue
			}
			d[i] = math.Float64bits(r)
		}
	}
}

// exact32 computes in float64, rounded to odd.
func exact32(op string) func(a, b, c float64) float64 {
	switch op {
	case "add":
		return func(a, b, _ float64) float64 { return oddSum(a, b) }
	case "sub":
		return func(a, b, _ float64) float64 { return oddSum(a, -b) }
	case "mul":
		return func(a, b, _ float64) float64 { return a * b }
	case "div":
		return oddQuotient
	case "rcp":
		return func(a, _, _ float64) float64 { return oddQuotient(1, a, 0) }
	case "sqrt":
		return func(a, _, _ float64) float64 {
			r := math.Sqrt(a)
			if r == 0 || r != r || math.IsInf(r, 0) {
				return r
			}
			return odd(r, math.FMA(-r, r, a))
		}
	}
	return func(a, b, c float64) float64 { return oddSum(a*b, c) }
}

func oddQuotient(a, b, _ float64) float64 {
	q := a / b
	if q == 0 || q != q || math.IsInf(q, 0) || math.IsInf(b, 0) {
		return q
	}
	rest := math.FMA(-q, b, a)
	if b < 0 {
		rest = -rest
	}
	return odd(q, rest)
}

func floats(t table) {
	arithmetic32(t)
	arithmetic64(t)
	for _, ftz := range []bool{false, true} {
		z := ""
		if ftz {
			z = ".ftz"
		}
		t.add("min"+z+".f32", minMax32(ftz, false, true), f32, f32, f32)
		t.add("max"+z+".f32", minMax32(ftz, false, false), f32, f32, f32)
		t.add("min"+z+".NaN.f32", minMax32(ftz, true, true), f32, f32, f32)
		t.add("max"+z+".NaN.f32", minMax32(ftz, true, false), f32, f32, f32)
		approximations32(t, z, ftz)
	}
	t.add("min.f64", wrap64(func(a, b, _ float64) float64 { return minMax(a, b, true) }), f64, f64, f64)
	t.add("max.f64", wrap64(func(a, b, _ float64) float64 { return minMax(a, b, false) }), f64, f64, f64)
	approximations64(t)
	signs(t)
	t.add("cvt.rn.bf16x2.f32", func(d, a, b, _, _ *vec) { // the first becomes the upper half: ISA 9.7.8.21
		for i := range d {
			d[i] = narrow(float64(float32frombits(a[i])), 8, 127, "rn")<<16 | narrow(float64(float32frombits(b[i])), 8, 127, "rn")
		}
	}, b32, f32, f32)
}

// arithmetic has the operations that are exact but for their rounding, in both types.
var arithmetic = []struct {
	op      string
	sources int
	plain   bool // the name of a rounding may be left out: it is to nearest
	f32     func(a, b, c float32) float32
	f64     func(a, b, c float64) float64
}{
	{"add", 2, true, func(a, b, _ float32) float32 { return a + b }, func(a, b, _ float64) float64 { return a + b }},
	{"sub", 2, true, func(a, b, _ float32) float32 { return a - b }, func(a, b, _ float64) float64 { return a - b }},
	{"mul", 2, true, func(a, b, _ float32) float32 { return a * b }, func(a, b, _ float64) float64 { return a * b }},
	{"fma", 3, false, fma32, math.FMA},
	{"mad", 3, false, fma32, math.FMA},
	{"div", 2, false, func(a, b, _ float32) float32 { return a / b }, func(a, b, _ float64) float64 { return a / b }},
	{"rcp", 1, false, func(a, _, _ float32) float32 { return 1 / a }, func(a, _, _ float64) float64 { return 1 / a }},
	{"sqrt", 1, false, nil, func(a, _, _ float64) float64 { return math.Sqrt(a) }},
}

func repeated(k ty, n int) []ty { return []ty{k, k, k}[:n] }

// arithmetic32 adds arithmetic in every rounding, flushing and saturating or not.
func arithmetic32(t table) {
	for _, o := range arithmetic {
		exact := exact32(o.op)
		for _, mode := range []string{"rn", "rz", "rm", "rp"} {
			f := o.f32
			if f == nil || mode != "rn" {
				f = func(a, b, c float32) float32 { return round32(exact(float64(a), float64(b), float64(c)), mode) }
			}
			names := []string{o.op + "." + mode}
			if o.plain && mode == "rn" {
				names = append(names, o.op)
			}
			for _, name := range names {
				for _, ftz := range []string{"", ".ftz"} {
					t.add(name+ftz+".f32", wrap32(ftz != "", false, f), f32, repeated(f32, o.sources)...)
					if o.sources > 1 && o.op != "div" {
						t.add(name+ftz+".sat.f32", wrap32(ftz != "", true, f), f32, repeated(f32, o.sources)...)
					}
				}
			}
		}
	}
	t.add("fma.rn.f32", func(d, a, b, c, _ *vec) { // as above, but the most frequent of all
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
}

func arithmetic64(t table) {
	for _, o := range arithmetic {
		t.add(o.op+".rn.f64", wrap64(o.f64), f64, repeated(f64, o.sources)...)
		if o.plain {
			t.add(o.op+".f64", wrap64(o.f64), f64, f64, f64)
		}
	}
}

var approximate32 = map[string]func(a float64) float64{
	"rcp": func(a float64) float64 { return 1 / a }, "sqrt": math.Sqrt, "rsqrt": func(a float64) float64 { return 1 / math.Sqrt(a) },
	"ex2": math.Exp2, "lg2": math.Log2, "sin": math.Sin, "cos": math.Cos, "tanh": math.Tanh,
}

// approximations32 adds the .approx forms; z is the modifier of those that flush.
func approximations32(t table, z string, ftz bool) {
	for op, f := range approximate32 {
		t[op+".approx"+z+".f32"] = form{f: wrap32(ftz, false, func(a, _, _ float32) float32 { return float32(f(float64(a))) }),
			dst: f32, src: []ty{f32}, approx: true}
	}
	divide := wrap32(ftz, false, func(a, b, _ float32) float32 { return a / b })
	t["div.approx"+z+".f32"] = form{f: divide, dst: f32, src: []ty{f32, f32}, approx: true}
	t["div.full"+z+".f32"] = form{f: divide, dst: f32, src: []ty{f32, f32}, approx: true}
}

func approximations64(t table) {
	// The low word of the operand is ignored and that of the result is zero: ISA 9.7.3.15, 9.7.3.18.
	for op, f := range map[string]func(a float64) float64{
		"rcp.approx.ftz.f64": func(a float64) float64 { return 1 / a }, "rsqrt.approx.ftz.f64": func(a float64) float64 { return 1 / math.Sqrt(a) },
	} {
		t[op] = form{f: wrap64(func(a, _, _ float64) float64 {
			a = math.Float64frombits(math.Float64bits(a) >> 32 << 32)
			if math.Abs(a) < 0x1p-1022 {
				a = math.Copysign(0, a)
			}
			return math.Float64frombits(math.Float64bits(f(a)) >> 32 << 32)
		}), dst: f64, src: []ty{f64}}
	}
	t["rsqrt.approx.f64"] = form{f: wrap64(func(a, _, _ float64) float64 { return 1 / math.Sqrt(a) }), dst: f64, src: []ty{f64}, approx: true}
}

// signs adds what works on the sign alone, and keeps the bits of NaNs.
func signs(t table) {
	for k, sign := range map[ty]uint64{f32: 1 << 31, f64: 1 << 63} {
		s := "." + name(k)
		t.add("copysign"+s, func(d, a, b, _, _ *vec) { // the sign of the first
			for i := range d {
				d[i] = b[i]&^sign | a[i]&sign
			}
		}, k, k, k)
		for op, f := range map[string]func(uint64) uint64{
			"neg": func(x uint64) uint64 { return x ^ sign }, "abs": func(x uint64) uint64 { return x &^ sign },
		} {
			t.add(op+s, func(d, a, _, _, _ *vec) {
				for i := range d {
					d[i] = f(a[i])
				}
			}, k, k)
			if k == f32 {
				t.add(op+".ftz"+s, func(d, a, _, _, _ *vec) {
					for i := range d {
						d[i] = f(flush32(a[i]))
					}
				}, k, k)
			}
		}
	}
}

// minMax ignores NaNs where it can, and -0 is less than 0.
func minMax(a, b float64, smallest bool) float64 {
	switch {
	case a != a:
		return b
	case b != b:
		return a
	case smallest:
		return math.Min(a, b)
	}
	return math.Max(a, b)
}

func minMax32(ftz, nan, smallest bool) alu {
	return wrap32(ftz, false, func(a, b, _ float32) float32 {
		if nan && (a != a || b != b) {
			return float32(math.NaN())
		}
		return float32(minMax(float64(a), float64(b), smallest))
	})
}

// perturb moves a result by -2 … 2 units in the last place, unless it or the first operand is special.
func perturb(seed, x, a, b uint64, t ty) uint64 {
	mantissa, exponent := uint64(0x7fffff), uint64(0x7f800000)
	if t == f64 {
		mantissa, exponent = 1<<52-1, 0x7ff<<52
	}
	special := func(v uint64) bool { return v&(mantissa|exponent) == 0 || v&exponent == exponent }
	if special(x) || special(a) {
		return x
	}
	h := seed ^ x*0x9e3779b97f4a7c15 ^ a*0xbf58476d1ce4e5b9 ^ b*0x94d049bb133111eb
	h ^= h >> 31
	h *= 0xbf58476d1ce4e5b9
	h ^= h >> 29
	h *= 0x94d049bb133111eb
	h ^= h >> 32
	y := x + h%5 - 2
	if special(y) || (x^y)&^(mantissa|exponent) != 0 {
		return x
	}
	return y
}
