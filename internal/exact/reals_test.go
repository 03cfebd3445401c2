package exact

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/privgrad/privgrad/internal/stream"
)

func reals(t *testing.T, l Law, c stream.Cipher, purpose string) *Reals {
	t.Helper()
	s, err := stream.New(c, stream.KeyFromSeed(1, purpose))
	if err != nil {
		t.Fatal(err)
	}
	r, err := NewReals(l, s, 6)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

const valuePrec = 1400

// value is the real Z of a draw within 2⁻⁴⁴⁰, made with nothing that Reals computes with: digits by Fill alone, the
// normal by the series of alternating, whose point is found by secants, and the exponential variable as a logarithm.
func value(t *testing.T, r *Reals, step uint64, draw int) *big.Float {
	t.Helper()
	size := r.stream.Cipher().BlockSize()
	raw := make([]byte, 8*(draw+1))
	r.stream.Fill(raw, step, uint64(r.tensor)<<32)
	more := make([]byte, 64)
	r.stream.Fill(more, step, uint64(r.tensor+MaxTensor)<<32+uint64(draw*64/size))
	digits := append([]byte{}, raw[8*draw:]...)
	for i := range 4 { // to big-endian
		digits[i], digits[7-i] = digits[7-i], digits[i]
	}
	negative := digits[0]>>7 == 1
	digits[0] &= 0x7f
	v := new(big.Float).SetPrec(valuePrec).SetInt(new(big.Int).SetBytes(append(digits, more...)))
	v.SetMantExp(v, -575)
	var z *big.Float
	if r.law == &laplace {
		z = minusLog(v)
	} else {
		f, _ := v.Float64()
		z0 := new(big.Float).SetPrec(valuePrec).SetFloat64(math.Sqrt2 * math.Erfcinv(f))
		z = new(big.Float).Add(z0, new(big.Float).SetPrec(valuePrec).SetFloat64(1e-9))
		off := func(x *big.Float) *big.Float { return alternatingAt(t, x).Sub(alternatingAt(t, x), v) }
		a, b := off(z0), off(z)
		for range 12 { // of superlinear steps the tenth is beyond 2⁻¹⁰⁰⁰
			d := new(big.Float).Sub(b, a)
			if d.Sign() == 0 {
				break
			}
			step := new(big.Float).Sub(z, z0)
			step.Quo(step.Mul(step, b), d)
			z0, z = z, new(big.Float).Sub(z, step)
			a, b = b, off(z)
		}
	}
	if negative {
		z.Neg(z)
	}
	return z
}

// pieces is numbers that add up to x, rounded to a multiple of 2^-places.
func pieces(x *big.Float, places int) (c []float64) {
	n, _ := new(big.Float).SetPrec(valuePrec).SetMantExp(x, places).Int(nil)
	rest := new(big.Float).SetPrec(valuePrec).SetInt(n)
	rest.SetMantExp(rest, -places)
	for rest.Sign() != 0 {
		f, _ := rest.Float64()
		c = append(c, f)
		rest.Sub(rest, big.NewFloat(f))
	}
	return c
}

// Sums that are 2⁻⁶⁰ to 2⁻⁴⁰⁰ beside 0 are told apart, of all laws, ciphers, signs and scales.
func TestNearTies(t *testing.T) {
	for _, c := range []stream.Cipher{stream.AES256CTR, stream.ChaCha20} {
		for _, l := range []Law{Normal, Laplace} {
			r := reals(t, l, c, "ties")
			values := make([]*big.Float, 9)
			for i := range values {
				values[i] = value(t, r, 3, i)
			}
			for i, terms := range [][]Term{
				{{Scale: 1, Draw: 0}},
				{{Scale: -1, Draw: 1}},
				{{Scale: 0.7, Draw: 2}, {Scale: -3.1, Draw: 0}},
				{{Scale: 0x1.234p30, Draw: 3, Magnitude: true}, {Scale: -0x1.234p30, Draw: 4, Magnitude: true}},
				{{Scale: 0x1p-40, Draw: 5}, {Scale: 0x1p40, Draw: 6}, {Scale: 0, Draw: 7}, {Scale: -5, Draw: 8}},
			} {
				sum := new(big.Float).SetPrec(valuePrec)
				for _, term := range terms {
					z := new(big.Float).SetPrec(valuePrec).Set(values[term.Draw])
					if term.Magnitude {
						z.Abs(z)
					}
					sum.Add(sum, z.Mul(z, big.NewFloat(term.Scale)))
				}
				for _, places := range []int{20, 60, 100, 200, 300, 400} {
					// Cut off towards 0, so that 2 units on either side of it are beyond the sum.
					constants := pieces(new(big.Float).Neg(sum), places)
					unit := math.Ldexp(2, -places)
					if !r.AtLeastZero(3, append([]float64{unit}, constants...), terms...) {
						t.Errorf("%v, law %d, case %d: a sum of more than 2^-%d is not at least 0", c, l, i, places)
					}
					if r.AtLeastZero(3, append(constants, -unit), terms...) {
						t.Errorf("%v, law %d, case %d: a sum of less than -2^-%d is at least 0", c, l, i, places)
					}
				}
			}
		}
	}
}

// Every number of digits bounds what more digits give, and closely.
func TestBoundsOfReals(t *testing.T) {
	rnd := rand.New(rand.NewPCG(21, 22))
	for l, law := range map[*law]end{&normal: normalEnd, &laplace: laplaceEnd} {
		for i := range 24 {
			v := rnd.Uint64() >> 1 >> (5 * i / 2)
			if v>>(i%10) == 0 {
				v = 1 << (5 * i / 2)
			}
			var more [digitBytes]byte
			for j := range more {
				more[j] = byte(rnd.Uint32())
			}
			n := &noise{&Reals{law: l, end: law}, 1, v, func() *[digitBytes]byte { return &more }}
			least, most := n.bounds(mostDigits)
			for _, digits := range []uint{63, 191, 319, 447, 575} {
				a, b := n.bounds(digits)
				if a.Cmp(least) > 0 || b.Cmp(most) < 0 {
					t.Fatalf("V %#x: %d digits give [%v, %v], all [%v, %v]", v, digits, a, b, least, most)
				}
				// The slope is at most 2/V, and 2⁶³V+1 is v+1.
				width, _ := new(big.Float).Sub(b, a).Float64()
				if limit := math.Ldexp(2/float64(v), 63) * math.Ldexp(1, 5-int(digits)); digits > 63 && width > limit {
					t.Errorf("V %#x: %d digits leave %g open, more than %g", v, digits, width, limit)
				}
			}
		}
	}
}

// V beyond the end of a law is its end, and V next to it is less.
func TestEndsOfReals(t *testing.T) {
	for l, e := range map[*law]end{&normal: normalEnd, &laplace: laplaceEnd} {
		at := func(all *big.Int) (least, most *big.Float) {
			var more [digitBytes]byte
			all.FillBytes(more[:])
			return (&noise{&Reals{law: l, end: e}, 1, 0, func() *[digitBytes]byte { return &more }}).bounds(mostDigits)
		}
		last := new(big.Int).Lsh(big.NewInt(1), uint(mostDigits-e.digits)) // V = 2^-digits
		if least, most := at(new(big.Int).Sub(last, big.NewInt(1))); least.Cmp(big.NewFloat(e.most)) != 0 || most.Cmp(least) != 0 {
			t.Errorf("beyond V = 2^-%d |Z| is in [%v, %v]", e.digits, least, most)
		}
		if least, most := at(last); most.Cmp(big.NewFloat(e.most)) >= 0 || least.Cmp(big.NewFloat(0.99*e.most)) < 0 {
			t.Errorf("at V = 2^-%d |Z| is in [%v, %v]", e.digits, least, most)
		}
	}
}

func TestComparisonsDecidedByConstants(t *testing.T) {
	r := reals(t, Normal, stream.AES256CTR, "constants")
	inf, nan := math.Inf(1), math.NaN()
	for _, test := range []struct {
		constants []float64
		terms     []Term
		want      bool
	}{
		{nil, nil, true},
		{[]float64{0x1p1000, 1, -0x1p1000}, nil, true},
		{[]float64{0x1p1000, -0x1p-1074, -0x1p1000}, nil, false},
		{[]float64{inf, -math.MaxFloat64}, []Term{{Scale: 1}}, true},
		{[]float64{1, -inf}, []Term{{Scale: 1}}, false},
		{[]float64{inf, -inf}, nil, false},
		{[]float64{nan}, nil, false},
		{[]float64{inf, nan}, nil, false},
		{[]float64{math.MaxFloat64, math.MaxFloat64, -math.MaxFloat64}, nil, true},
		{[]float64{1e300}, []Term{{Scale: nan}}, false},
		{[]float64{1e300}, []Term{{Scale: inf}}, false},
		{[]float64{1e300}, []Term{{Scale: 1, Draw: -1}}, false},
		{[]float64{1e300}, []Term{{Scale: 1, Draw: 1 << 30}}, false},
		{[]float64{-1}, []Term{{Scale: 0, Draw: -1}}, false},
		{[]float64{1000}, []Term{{Scale: 1, Draw: 1<<30 - 1}}, true},
		{[]float64{-0x1p-1074}, []Term{{Scale: 0x1p-1074, Draw: 3, Magnitude: true}, {Scale: math.MaxFloat64, Draw: 4, Magnitude: true}}, true},
	} {
		if got := r.AtLeastZero(1, test.constants, test.terms...); got != test.want {
			t.Errorf("%v + %v: %v", test.constants, test.terms, got)
		}
	}
	if _, err := NewReals(7, r.stream, 0); err == nil {
		t.Error("a law that does not exist is accepted")
	}
	if _, err := NewReals(Normal, nil, 0); err == nil {
		t.Error("comparisons without a stream")
	}
}

// A draw is that of a Sampler: round(s·Z) >= k is s·Z - k + ½ >= 0.
func TestRealsAreTheSamplersDraws(t *testing.T) {
	r := reals(t, Normal, stream.AES256CTR, "same")
	g, err := New(0x1.8p20, r.stream, r.tensor)
	if err != nil {
		t.Fatal(err)
	}
	for i, k := range draws(t, g, 300, 2) {
		term := Term{Scale: 0x1.8p20, Draw: i}
		if !r.AtLeastZero(2, []float64{0.5, -float64(k)}, term) || r.AtLeastZero(2, []float64{-0.5, -float64(k)}, term) {
			t.Errorf("draw %d is not %d", i, k)
		}
	}
}

// Frequencies of comparisons at their probabilities: by Hoeffding's inequality off by more than the limit with
// probability below 10⁻⁹.
func TestComparisonsAreDistributed(t *testing.T) {
	const n = 20000
	limit := math.Sqrt(math.Log(2e9) / (2 * n))
	check := func(what string, p float64, l Law, constant float64, terms ...Term) {
		t.Helper()
		r := reals(t, l, stream.ChaCha20, "distributed "+what)
		count := 0
		for step := range uint64(n) {
			if r.AtLeastZero(step, []float64{constant}, terms...) {
				count++
			}
		}
		if f := float64(count) / n; math.Abs(f-p) > limit {
			t.Errorf("%s: %v, probability %v", what, f, p)
		}
	}
	// 2 + 3Z₁ - 4Z₀ is normal of mean 2 and deviation 5.
	check("normal", 0.5*math.Erfc(-2./5/math.Sqrt2), Normal, 2, Term{Scale: 3, Draw: 1}, Term{Scale: -4})
	// |L₁| - |L₂| is Laplace.
	check("exponential", 1-0.5*math.Exp(-0.5), Laplace, 1, Term{Scale: 2, Draw: 1, Magnitude: true}, Term{Scale: -2, Draw: 2, Magnitude: true})
	// P(L₁ + 2L₂ > x) of scales 1 and b = 2 is (b²e^(-x/b) - e^(-x))/2(b²-1), x > 0.
	check("laplace", 1-(4*math.Exp(-0.75)-math.Exp(-1.5))/6, Laplace, 1.5, Term{Scale: 1, Draw: 9}, Term{Scale: 2, Draw: 4})
}

func BenchmarkAtLeastZero(b *testing.B) {
	s, err := stream.New(stream.AES256CTR, stream.KeyFromSeed(1, "bench"))
	if err != nil {
		b.Fatal(err)
	}
	r, err := NewReals(Normal, s, 0)
	if err != nil {
		b.Fatal(err)
	}
	r.AtLeastZero(0, []float64{0}, Term{Scale: 1})
	b.ReportAllocs()
	for i := range b.N {
		r.AtLeastZero(uint64(i), []float64{0.3, -0.1}, Term{Scale: 1, Draw: 1}, Term{Scale: -2, Draw: 0})
	}
}
