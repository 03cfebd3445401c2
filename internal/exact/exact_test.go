package exact

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/privgrad/privgrad/internal/stream"
)

func testStream(t *testing.T, purpose string) *stream.Stream {
	t.Helper()
	s, err := stream.New(stream.ChaCha20, stream.KeyFromSeed(1, purpose))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func sampler(t *testing.T, std float64, s *stream.Stream, tensor uint32) *Sampler {
	t.Helper()
	g, err := New(std, s, tensor)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func draws(t *testing.T, g *Sampler, n int, step uint64) []int64 {
	t.Helper()
	x := make([]int64, n)
	g.Add(x, step, 0)
	return x
}

// alternating gives P(|Z| > x) by the Maclaurin series of Φ, whose cancellation
// 1,400 bits absorb, and a printed π: nothing is shared with tail.
func alternating(t *testing.T, x float64) *big.Float {
	t.Helper()
	return alternatingAt(t, new(big.Float).SetPrec(1400).SetFloat64(x))
}

func alternatingAt(t *testing.T, at *big.Float) *big.Float {
	t.Helper()
	const prec = 1400
	digits := "3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803482534211706798214808651328230664709384460955058223172535940812848111745028410270193852110555964462294895493038196442881097566593344612847564823378678316527120190914564856692346034861045432664821339360726024914127372458700660631558817488152092096282925409171536436789259036001133053054882046652138414695194151160943305727036575959195309218611738193261179310511854807446237996274956735188575272489122793818301194912"
	pi, _, err := big.ParseFloat(digits, 10, prec, big.ToNearestEven)
	if err != nil {
		t.Fatal(err)
	}
	square := new(big.Float).Mul(at, at)
	power, sum := new(big.Float).Set(at), new(big.Float).SetPrec(prec)
	for k := int64(0); power.Sign() != 0 && power.MantExp(nil) > -prec; k++ {
		term := new(big.Float).Quo(power, new(big.Float).SetInt64(2*k+1))
		sum.Add(sum, term)
		power.Mul(power, square)
		power.Quo(power, new(big.Float).SetInt64(-2*(k+1)))
	}
	two := big.NewFloat(2).SetPrec(prec)
	sum.Mul(sum, two)
	sum.Quo(sum, new(big.Float).Sqrt(pi.Mul(pi, two)))
	return sum.Sub(big.NewFloat(1).SetPrec(prec), sum)
}

func TestTailIsTheNormal(t *testing.T) {
	for _, prec := range []uint{128, 255, mostDigits + guard} {
		for _, x := range []float64{0, 1e-9, 0.25, 1, 1.7, 3, 6.5, 10, normalEnd.most, normalEnd.most + 1} {
			want := alternating(t, x)
			got := tail(new(big.Float).SetPrec(prec).SetFloat64(x))
			off := new(big.Float).SetPrec(1400)
			if off.Sub(got, want).Abs(off).Cmp(tailError(prec)) > 0 {
				t.Errorf("precision %d: tail(%v) is off by %.3g, more than the stated %.3g", prec, x, off, tailError(prec))
			}
		}
	}
	if p, limit := alternating(t, normalEnd.most), new(big.Float).SetMantExp(big.NewFloat(1), -128); p.Cmp(limit) >= 0 {
		t.Errorf("a normal exceeds normalEnd.most with probability %.3g, not below 2⁻¹²⁸", p)
	}
}

// hard lists first digits of V from every cell: its edges, V₀, values near
// those, and random ones.
func hard(rnd *rand.Rand) []uint64 { return hardOf(&normal, rnd) }

func hardOf(l *law, rnd *rand.Rand) []uint64 {
	var vs []uint64
	for i := range octaves * perOctave {
		first := uint64(perOctave+i%perOctave) << (57 - i/perOctave)
		width := uint64(1) << (57 - i/perOctave)
		c := l.cellOf(first)
		vs = append(vs, first, first+width-1, first+rnd.Uint64N(width))
		if v := uint64(c.at) - 1 + rnd.Uint64N(3); v >= first && v < first+width {
			vs = append(vs, v)
		}
	}
	return vs
}

// Every number that begins with v as V, and so both ends of [v, v+1]·2⁻⁶³, must
// lie in the tails of (whole+rest±bound)/s. The bound is not far from what it
// bounds: half of it fails.
func TestBoundOfTheFastPath(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	const prec = 160 // tails are off by 2⁻¹⁴⁰
	vs := hard(rnd)
	tight := false
	for i, v := range vs {
		s := []float64{0.3, 1, 17.5, 0x1.3p20, 0x1.fffffffffffffp23, math.Pi * 0x1p30, MaxStd}[i%7]
		c := normal.cellOf(v)
		whole, rest, bound := c.scaled(v, s, 0)
		if whole != math.Trunc(whole) {
			t.Fatalf("s %v, v %#x: whole is %v", s, v, whole)
		}
		inside := func(bound float64) bool {
			at := func(shift float64) *big.Float {
				x := new(big.Float).SetPrec(prec).SetFloat64(whole)
				x.Add(x, big.NewFloat(rest))
				x.Add(x, big.NewFloat(shift))
				return x.Quo(x, big.NewFloat(s))
			}
			edge := func(n uint64) *big.Float {
				return new(big.Float).SetMantExp(new(big.Float).SetUint64(n), -63)
			}
			if tail(at(bound)).Cmp(edge(v)) > 0 {
				return false
			}
			low := at(-bound)
			return low.Sign() <= 0 || tail(low).Cmp(edge(v+1)) >= 0
		}
		if !inside(bound) {
			t.Fatalf("s %v, v %#x: %v + %v is not within %v", s, v, whole, rest, bound)
		}
		tight = tight || s > 1e6 && !inside(bound/2)
	}
	if !tight {
		t.Error("half the bound holds everywhere: the test sees no error at all")
	}
}

// The fast path, where it decides, agrees with math/big: on a third of the values for which
// TestBoundOfTheFastPath tries what it decides by.
func TestFastAgreesWithSlow(t *testing.T) { fastAgreesWithSlow(t, 3) }

// TestLongFastAgreesWithSlow takes all of them.
func TestLongFastAgreesWithSlow(t *testing.T) { fastAgreesWithSlow(t, 1) }

func fastAgreesWithSlow(t *testing.T, oneIn int) {
	rnd := rand.New(rand.NewPCG(3, 4))
	decided := 0
	vs := slices.DeleteFunc(hard(rnd), func(uint64) bool { return rnd.IntN(oneIn) > 0 })
	for i := range 500 {
		vs = append(vs, rnd.Uint64()>>1>>(i%40))
	}
	for i, v := range vs {
		g := sampler(t, []float64{MinStd, 0.3, 2.5, 0x1.23456p21, 0x1.7p33, MaxStd}[i%6], testStream(t, "fast"), 0)
		var more [64]byte
		for j := range more {
			more[j] = byte(rnd.Uint32())
		}
		if k, ok := g.fast(v); ok {
			decided++
			if want := g.slow(v, &more); k != want {
				t.Fatalf("std %v, v %#x: the fast path gives %d, math/big %d", g.std, v, k, want)
			}
		}
	}
	if decided < len(vs)/2 {
		t.Errorf("the fast path decided %d of %d draws", decided, len(vs))
	}
}

// Digits of V on both sides of a rounding boundary, equal for a number of
// places: the fast path must leave them open, and the slow one tell them apart
// however late they differ.
func TestBoundaries(t *testing.T) {
	for _, s := range []float64{0.3, 1, 17.5, 0x1.3p20, MaxStd} {
		g := sampler(t, s, testStream(t, "boundary"), 0)
		for _, z := range []float64{0, 0.01, 0.7, 1, 3, 4.5, 12} {
			k := int64(z * s)
			x := new(big.Float).SetPrec(mostDigits + guard).SetInt64(2*k + 1)
			x.Quo(x, big.NewFloat(2*s))
			if f, _ := x.Float64(); f > 12.9 {
				continue
			}
			v := tail(x)
			all, _ := v.SetMantExp(v, mostDigits).Int(nil)
			for _, last := range []uint{20, 300, 500} { // the digit that is changed, from the end
				if all.BitLen() < int(last)+40 {
					continue // it would move V too far
				}
				change := new(big.Int).Lsh(big.NewInt(1), last)
				for want, digits := range map[int64]*big.Int{
					k:     new(big.Int).Add(all, change), // V larger, |Z| smaller
					k + 1: new(big.Int).Sub(all, change),
				} {
					var more [64]byte
					new(big.Int).And(digits, new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 512), big.NewInt(1))).FillBytes(more[:])
					first := new(big.Int).Rsh(digits, 512).Uint64()
					if k, ok := g.fast(first); ok {
						t.Errorf("std %v: the fast path calls a boundary at %v decided, %d", s, z, k)
					}
					if got := g.slow(first, &more); got != want {
						t.Errorf("std %v, boundary at %v, digit %d from the end: got %d, want %d", s, z, last, got, want)
					}
				}
			}
		}
	}
}

func TestEndsOfTheUnitInterval(t *testing.T) {
	ones := [64]byte{}
	for i := range ones {
		ones[i] = 255
	}
	for _, s := range []float64{MinStd, 0.3, 1000, MaxStd} {
		g := sampler(t, s, testStream(t, "ends"), 0)
		if got, want := g.slow(0, &[64]byte{}), int64(normalEnd.most*s); got != want {
			t.Errorf("std %v: V = 0 gives %d, want the bound %d", s, got, want)
		}
		// 2⁻¹²⁸, the smallest V that is no such event; erfc gives the point.
		var least [64]byte
		least[8] = 1 << 7
		const z = 13.10862617 // P(|Z| > z) = 2⁻¹²⁸
		if got := float64(g.slow(0, &least)); math.Abs(got-z*s) > 0.5+1e-7*s || got > normalEnd.most*s+0.5 {
			t.Errorf("std %v: V = 2⁻¹²⁸ gives %v, want about %v", s, got, z*s)
		}
		if got := g.slow(1<<63-1, &ones); got != 0 {
			t.Errorf("std %v: V next to 1 gives %d", s, got)
		}
	}
}

// A draw's word and its further digits lie where Add says. The draws compared
// are those that the fast path leaves open; in the deep tail at least one of
// them would be another integer with other digits.
func TestLayout(t *testing.T) {
	s := testStream(t, "layout")
	g := sampler(t, MaxStd, s, 5)
	const n, parts = 1 << 17, 1 << 6
	raw := make([]byte, 8*n)
	ones := [64]byte(bytes.Repeat([]byte{255}, 64))
	for _, i := range []int{0, 7, maxDraws - 1} {
		var want [64]byte
		if s.Fill(want[:], 9, (5+MaxTensor)<<32|uint64(i)); *g.digits(9, i) != want {
			t.Errorf("further digits of draw %d come from elsewhere", i)
		}
	}
	open, decisive := 0, 0
	for part := range parts {
		s.Fill(raw, 9, 5<<32|uint64(part*n/8))
		got := make([]int64, n)
		g.Add(got, 9, part*n)
		for i, k := range got {
			word := binary.LittleEndian.Uint64(raw[8*i:])
			v := word << 1 >> 1
			want, ok := g.fast(v)
			if !ok {
				if v >= 1<<48 && open > 20 {
					continue // slow, and seldom in need of its digits
				}
				open++
				var more [64]byte
				s.Fill(more[:], 9, (5+MaxTensor)<<32|uint64(part*n+i))
				want = g.slow(v, &more)
				if g.slow(v, &[64]byte{}) != g.slow(v, &ones) {
					decisive++
				}
			}
			if word>>63 == 1 {
				want = -want
			}
			if k != want {
				t.Fatalf("draw %d is %d, want %d", part*n+i, k, want)
			}
		}
	}
	if decisive == 0 {
		t.Errorf("of %d draws left open none needed its further digits", open)
	}
}

func TestDrawsDependOnPositionOnly(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	g := sampler(t, 0x1p20, testStream(t, "split"), 3)
	whole := draws(t, g, 5000, 3)
	for range 200 {
		lo := rnd.IntN(len(whole))
		part := make([]int64, rnd.IntN(len(whole)-lo+1))
		for i := range part {
			part[i] = int64(i)
		}
		g.Add(part, 3, lo)
		for i, x := range part {
			if x-int64(i) != whole[lo+i] {
				t.Fatalf("draw %d alone differs", lo+i)
			}
		}
	}
	split := make([]int64, len(whole))
	var wg sync.WaitGroup
	for lo := 0; lo < len(split); lo += 617 {
		wg.Go(func() { g.Add(split[lo:min(lo+617, len(split))], 3, lo) })
	}
	wg.Wait()
	if !slices.Equal(split, whole) {
		t.Error("a split over goroutines changes the draws")
	}
	for what, other := range map[string][]int64{
		"another step":   draws(t, g, 5000, 4),
		"another tensor": draws(t, sampler(t, 0x1p20, g.stream, 4), 5000, 3),
		"another key":    draws(t, sampler(t, 0x1p20, testStream(t, "other"), 3), 5000, 3),
	} {
		same := 0
		for i := range other {
			if other[i] == whole[i] {
				same++
			}
		}
		if same > 5 { // 5,000 pairs that agree with probability 2.7e-7: 6 or more in 1e-20
			t.Errorf("%s repeats %d of %d draws", what, same, len(whole))
		}
	}
}

// chiSquare compares counts with probabilities of which none is left out.
// Given the probabilities, the statistic exceeds its limit with probability
// below e⁻²⁵, 1.4e-11 (Laurent and Massart 2000, lemma 1).
func chiSquare(t *testing.T, what string, counts []int, p []float64, n int) {
	t.Helper()
	x, total := 0.0, 0.0
	for i, c := range counts {
		e := p[i] * float64(n)
		if e < 20 {
			t.Fatalf("%s: bin %d expects %v", what, i, e)
		}
		x += (float64(c) - e) * (float64(c) - e) / e
		total += p[i]
	}
	if math.Abs(total-1) > 1e-12 {
		t.Fatalf("%s: probabilities add up to %v", what, total)
	}
	df := float64(len(counts) - 1)
	if limit := df + 2*math.Sqrt(df*25) + 50; x > limit {
		t.Errorf("%s: χ² is %.1f with %v degrees of freedom, limit %.1f", what, x, df, limit)
	}
}

// Probabilities of the rounded Gaussian at deviations where a discrete
// Gaussian, a truncated one or a missing zero would show.
func TestDistribution(t *testing.T) {
	const n = 1 << 20
	for _, s := range []float64{0.3, 1, 3, 17.5} {
		g := sampler(t, s, testStream(t, "distribution"), 0)
		limit := int64(0)
		upper := func(k int64) float64 { return 0.5 * math.Erfc((float64(k)-0.5)/s/math.Sqrt2) } // P(draw ≥ k)
		for n*(upper(limit+1)-upper(limit+2)) > 20 {
			limit++
		}
		// Bins -limit…limit, the outer ones with all that lies beyond.
		p := make([]float64, 2*limit+1)
		for i := range p {
			switch k := int64(i) - limit; {
			case k == 0:
				p[i] = 1 - 2*upper(1)
			case k < 0:
				p[i] = upper(-k) - upper(-k+1)
			default:
				p[i] = upper(k) - upper(k+1)
			}
		}
		p[0], p[2*limit] = upper(limit), upper(limit)
		counts := make([]int, len(p))
		for _, k := range draws(t, g, n, 1) {
			counts[min(max(k, -limit), limit)+limit]++
		}
		chiSquare(t, fmt.Sprintf("std %v", s), counts, p, n)
	}
}

// Bins of equal probability over the whole line, and the last digits of large
// draws, which are as good as uniform.
func TestDistributionOfLargeDraws(t *testing.T) {
	const n, bins = 1 << 19, 1 << 10
	for _, s := range []float64{0x1.fp20, MaxStd} {
		g := sampler(t, s, testStream(t, "large"), 0)
		p := slices.Repeat([]float64{1. / bins}, bins)
		size, low := make([]int, bins), make([]int, bins)
		for _, k := range draws(t, g, n, 2) {
			size[min(int(0.5*math.Erfc(-float64(k)/s/math.Sqrt2)*bins), bins-1)]++
			low[k&(bins-1)]++
		}
		chiSquare(t, fmt.Sprintf("size at std %v", s), size, p, n)
		chiSquare(t, fmt.Sprintf("last digits at std %v", s), low, p, n)
	}
}

func TestRefusals(t *testing.T) {
	good := testStream(t, "refusals")
	for _, test := range []struct {
		std    float64
		stream *stream.Stream
		tensor uint32
		want   string
	}{
		{0, good, 0, "standard deviation 0"},
		{MinStd / 2, good, 0, "must be in"},
		{math.Nextafter(MaxStd, math.Inf(1)), good, 0, "must be in"},
		{math.NaN(), good, 0, "NaN"},
		{math.Inf(1), good, 0, "+Inf"},
		{1, nil, 0, "needs a stream"},
		{1, good, MaxTensor, "tensor 2147483648"},
	} {
		if _, err := New(test.std, test.stream, test.tensor); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("std %v, tensor %d: %v, want %q", test.std, test.tensor, err, test.want)
		}
	}
	g := sampler(t, 1, good, 0)
	for _, first := range []int{-1, maxDraws - 2, math.MaxInt} {
		x := [3]int64{1, 2, 3}
		g.Add(x[:], 0, first)
		if want := int64(math.MinInt64); x != [3]int64{want, want, want} {
			t.Errorf("draws from %d on give %v", first, x)
		}
	}
	var last [3]int64
	if g.Add(last[:], 0, maxDraws-3); slices.Contains(last[:], math.MinInt64) {
		t.Errorf("the last draws give %v", last)
	}
}

// The draws of testdata/normals.json are made by scripts/exact_golden.py, in another language, of all digits.
func TestGoldenNormals(t *testing.T) {
	b, err := os.ReadFile("testdata/normals.json")
	if err != nil {
		t.Fatal(err)
	}
	var golden []struct {
		Cipher string
		Scale  float64
		Step   uint64
		Tensor uint32
		First  int
		Draws  []int64
	}
	if err := json.Unmarshal(b, &golden); err != nil || len(golden) == 0 {
		t.Fatalf("%d cases: %v", len(golden), err)
	}
	eachImplementation(t, func(t *testing.T) {
		for _, c := range golden {
			cipher := stream.AES256CTR
			if c.Cipher != cipher.String() {
				cipher = stream.ChaCha20
			}
			s, err := stream.New(cipher, stream.KeyFromSeed(1, "golden"))
			if err != nil {
				t.Fatal(err)
			}
			got := make([]int64, len(c.Draws))
			if sampler(t, c.Scale, s, c.Tensor).Add(got, c.Step, c.First); !slices.Equal(got, c.Draws) {
				t.Errorf("%s, deviation %v, from %d:\n got %d\nwant %d", c.Cipher, c.Scale, c.First, got, c.Draws)
			}
		}
	})
}
