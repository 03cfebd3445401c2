package exact

import (
	"encoding/binary"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/privgrad/privgrad/internal/stream"
)

var ciphers = []stream.Cipher{stream.AES256CTR, stream.ChaCha20}

func eachImplementation(t *testing.T, f func(t *testing.T)) {
	before := use
	defer func() { use = before }()
	for name, k := range implementations() {
		t.Run(name, func(t *testing.T) {
			use = k
			f(t)
		})
	}
}

func samplerOf(t *testing.T, std float64, c stream.Cipher, purpose string) *Sampler {
	t.Helper()
	s, err := stream.New(c, stream.KeyFromSeed(1, purpose))
	if err != nil {
		t.Fatal(err)
	}
	return sampler(t, std, s, 5)
}

// byCells is the same sampler without its first path.
func byCells(g *Sampler) *Sampler {
	h := *g
	h.fixed = nil
	return &h
}

var deviations = []float64{MinStd, 0.3, 1, 17.5, 0x1.2p10, 0x1.2p21, 0x1.fffffp21, math.Pi * 0x1p24, maxFast, 0x1.1p28}

// Every implementation draws what cells draw, at every length and place.
func TestFirstPathDrawsTheSame(t *testing.T) { drawTheSame(t, 1) }

func TestLongFirstPathDrawsTheSame(t *testing.T) { drawTheSame(t, 8) }

func drawTheSame(t *testing.T, parts int) {
	const n = 1 << 17
	for _, c := range ciphers {
		for i, std := range deviations {
			g := samplerOf(t, std, c, "same")
			for part := range parts {
				want := make([]int64, n)
				byCells(g).Add(want, uint64(i), part*n)
				eachImplementation(t, func(t *testing.T) {
					got := make([]int64, n)
					if g.Add(got, uint64(i), part*n); !slices.Equal(got, want) {
						t.Errorf("%v, deviation %v: draws differ from those of cells", c, std)
					}
				})
			}
		}
		// A larger β is no less right, and leaves one draw in 16 open: kernels stop everywhere.
		g := samplerOf(t, 0x1.2p21, c, "same")
		g.fixed = newFixed(g.std, 5)
		want := make([]int64, 3000)
		byCells(g).Add(want, 0, 0)
		eachImplementation(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(1, 2))
			for range 500 {
				from := rnd.IntN(len(want))
				got := make([]int64, rnd.IntN(min(100, len(want)-from)+1))
				for i := range got {
					got[i] = int64(i)
				}
				g.Add(got, 0, from)
				for i, k := range got {
					if k != want[from+i]+int64(i) {
						t.Fatalf("%v: draw %d of %d from %d on differs", c, i, len(got), from)
					}
				}
			}
		})
	}
}

// bytesOf is words as a keystream has them.
func bytesOf(words []uint64) (b []byte) {
	for _, w := range words {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return b
}

// decide compares a kernel with Fixed.Draw on words: the draws, and where it stops.
func decide(t *testing.T, f *Fixed, words []uint64) {
	t.Helper()
	b := bytesOf(words)
	for i := 0; i+group <= len(words); i += group {
		var got [group]int64
		done := use.add(got[:], b[8*i:][:8*group], f)
		if use == portable {
			continue
		}
		open := group
		for j, w := range words[i:][:group] {
			k, ok := f.Draw(w)
			if !ok {
				open = min(open, j)
			}
			if j < done && k != got[j] {
				t.Fatalf("deviation %v, word %#x: the kernel draws %d, want %d", f.Std, w, got[j], k)
			}
		}
		if done > open || open-done >= group {
			t.Fatalf("deviation %v: the kernel stops after %d of %#x, draw %d is open", f.Std, done, words[i:][:group], open)
		}
	}
}

// edges is words at both ends of every cell, of both signs, within it, and what lies beyond all cells.
func edges(rnd *rand.Rand) (words []uint64) {
	for e := range rowOctaves {
		for j := range uint64(1 << cellDigits) {
			width := uint64(1) << (62 - cellDigits - e)
			first := 1<<(62-e) + j*width
			for _, v := range []uint64{first - 600, first - 3, first - 2, first - 1, first, first + 1, first + rnd.Uint64N(width), first + width/2} {
				words = append(words, v|rnd.Uint64()&(1<<63))
			}
		}
	}
	for i := range 63 {
		words = append(words, 1<<i-1, 1<<i, 1<<63|1<<i)
	}
	for i := range uint64(2048) {
		words = append(words, 1<<63-1-i, math.MaxUint64-i)
	}
	return words
}

func TestFirstPathAtEdgesOfCells(t *testing.T) {
	for _, std := range []float64{MinStd, 1, 0x1.2p21, maxFast} {
		f, _ := NewFixed(std)
		g := samplerOf(t, std, stream.ChaCha20, "edges")
		words := edges(rand.New(rand.NewPCG(7, 8)))
		decided := 0
		for _, w := range words {
			if k, ok := f.Draw(w); ok {
				decided++
				if want := byCells(g).draw(w, 0, 0); k != want {
					t.Fatalf("deviation %v, word %#x: %d, cells give %d", std, w, k, want)
				}
			}
		}
		if decided < len(words)*3/4 {
			t.Errorf("deviation %v: %d of %d words are decided", std, decided, len(words))
		}
		eachImplementation(t, func(t *testing.T) { decide(t, f, words) })
	}
}

// All |Z| that digits leave possible are within tableBound of what is computed, and some are not within half of it.
func TestTableBound(t *testing.T) {
	const prec = 160 // tails are off by 2⁻¹⁴⁰
	rnd := rand.New(rand.NewPCG(9, 10))
	tight := 0.0
	for i, w := range edges(rnd) {
		if i%21 > 0 && (i%3 > 0 || w<<1>>1 > 1<<46) { // most of the error lies in the last octaves
			continue
		}
		z, v := magnitude(w), w<<1>>1
		if math.IsInf(z, 0) {
			continue
		}
		at := func(shift float64) *big.Float {
			x := new(big.Float).SetPrec(prec).SetFloat64(z)
			return tail(x.Abs(x.Add(x, big.NewFloat(shift))))
		}
		edge := func(n uint64) *big.Float { return new(big.Float).SetMantExp(new(big.Float).SetUint64(n), -63) }
		inside := func(bound float64) bool {
			return at(bound).Cmp(edge(v)) <= 0 && (z <= bound || at(-bound).Cmp(edge(v+1)) >= 0)
		}
		if !inside(tableBound) {
			t.Fatalf("word %#x: |Z| is not within the bound of %v", w, z)
		}
		for tight < 1 && !inside(tableBound*(tight+0x1p-6)) {
			tight += 0x1p-6
		}
	}
	t.Logf("the largest error found is %.2f of the bound", tight)
	if tight < 0.5 {
		t.Error("half the bound holds everywhere: the test sees no error at all")
	}
}

// Words on both sides of boundaries of rounding, as near as digits allow and further off, are open or drawn as cells and
// math/big draw them. With a β that is too small some are drawn wrongly, so the words are such as need it.
func TestFirstPathNearBoundaries(t *testing.T) { drawNearBoundaries(t, 400) }

func TestLongFirstPathNearBoundaries(t *testing.T) { drawNearBoundaries(t, 4_000) }

func drawNearBoundaries(t *testing.T, boundaries int) {
	rnd := rand.New(rand.NewPCG(11, 12))
	near := map[float64][]uint64{}
	open, wrong := 0, 0
	for i := range boundaries {
		std := []float64{17.5, 0x1.2p10, 0x1.2p21, math.Pi * 0x1p24, maxFast}[i%5]
		f, _ := NewFixed(std)
		hasty := newFixed(std, int(f.Places)-1)
		g := byCells(samplerOf(t, std, stream.AES256CTR, "boundaries"))
		u := rnd.Float64()
		k := int64(std * 4.9 * (1 - u*u*u)) // most in the last octaves, where most of the error lies
		x := new(big.Float).SetPrec(128).SetInt64(2*k + 1)
		v, _ := tail(x.Quo(x, big.NewFloat(2*std))).Float64()
		middle := uint64(v * 0x1p63)
		if middle < 1<<43 {
			continue
		}
		// The distance in V of two integers, to choose points by.
		gap := 0x1p63 * math.Exp(-math.Pow(float64(k)/std, 2)/2) / std
		var words []uint64
		for j := range 64 {
			off := uint64(gap * math.Ldexp(1+rnd.Float64(), -2-j/2))
			words = append(words, middle+off|uint64(j)<<63, middle-off|uint64(j)<<63)
		}
		for _, w := range words {
			k, ok := f.Draw(w)
			want := int64(0)
			if ok {
				want = g.draw(w, 0, 0)
			}
			if ok && k != want {
				t.Fatalf("deviation %v, word %#x: %d, cells give %d", std, w, k, want)
			}
			if !ok {
				open++
				if early, ok := hasty.Draw(w); ok && early != g.draw(w, 0, 0) {
					wrong++
				}
			}
		}
		near[std] = append(near[std], words...)
	}
	eachImplementation(t, func(t *testing.T) {
		for std, words := range near {
			f, _ := NewFixed(std)
			decide(t, f, words)
		}
	})
	if open == 0 || wrong == 0 {
		t.Errorf("%d words are open, of which %d are drawn wrongly at a smaller β", open, wrong)
	}
}

// The share of open draws is about 2β and V below the last octave, which docs/proofs/exact-noise.md states.
func TestFewDrawsAreOpen(t *testing.T) {
	rnd := rand.New(rand.NewPCG(13, 14))
	const n = 1 << 21
	for _, std := range []float64{1, 0x1.2p21, maxFast} {
		f, _ := NewFixed(std)
		beta := f.Magic - 0.5 - math.Ldexp(1.5, 52-int(f.Places))
		open := 0
		for range n {
			if _, ok := f.Draw(rnd.Uint64()); !ok {
				open++
			}
		}
		most := n * (2*beta + 0x1p-20)
		t.Logf("deviation %v: β is 2^%v, open at most %.3g of draws, %d of %d", std, math.Log2(beta), most/n, open, n)
		if limit := most + 7*math.Sqrt(most) + 14; float64(open) > limit { // false-reject rate below 10⁻⁹, Bernstein
			t.Errorf("deviation %v: %d of %d draws are open, more than %.0f", std, open, n, limit)
		}
	}
}

func TestNewFixed(t *testing.T) {
	for _, std := range []float64{0, -1, MinStd / 2, math.Nextafter(maxFast, math.Inf(1)), math.Inf(1), math.NaN()} {
		if _, ok := NewFixed(std); ok {
			t.Errorf("deviation %v has a fixed-point arithmetic", std)
		}
	}
	for e := -20; e <= 28; e++ {
		for _, m := range []float64{1, 1.2, math.Nextafter(2, 0)} {
			std := math.Ldexp(m, e)
			f, ok := NewFixed(std)
			if !ok {
				continue
			}
			base := math.Ldexp(1.5, 52-int(f.Places))
			beta := f.Magic - base - 0.5
			if most := std*tableMost + 0.5 + beta; most >= base/3 || f.Whole%2 != 0 || f.Whole >= 1<<51 {
				t.Errorf("deviation %v: sums up to %v around %v, of whole part %d", std, most, base, f.Whole)
			}
			if off := std*tableBound + math.Ldexp(0.5, -int(f.Places)); beta < off || beta > 2.1*off {
				t.Errorf("deviation %v: β is %g, sums are off by up to %g", std, beta, off)
			}
		}
	}
}

// rounded is γ·(round(x/γ) + k) in integers and rational numbers.
func rounded(x float64, k int64, gridStep float64) *big.Rat {
	most := new(big.Rat).SetFloat64(mostUnits)
	step := new(big.Rat).SetFloat64(gridStep)
	units := new(big.Rat).Neg(most)
	if r := new(big.Rat).SetFloat64(x); r != nil {
		units = r.Quo(r, step)
		if units.Cmp(most) > 0 {
			units = most
		}
		if neg := new(big.Rat).Neg(most); units.Cmp(neg) < 0 {
			units = neg
		}
	} else if math.IsInf(x, 1) {
		units = most
	}
	// ⌊x + ½⌋, less 1 at a tie with an odd one.
	half := big.NewRat(1, 2)
	up := new(big.Rat).Add(units, half)
	n := new(big.Int).Div(up.Num(), up.Denom()) // Euclidean: towards -∞ for positive denominators
	if new(big.Rat).SetInt(n).Cmp(up) == 0 && n.Bit(0) == 1 {
		n.Sub(n, big.NewInt(1))
	}
	n.Add(n, big.NewInt(k))
	return step.Mul(step, new(big.Rat).SetInt(n))
}

func TestReleaseIsRoundingAddingConverting(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		rnd := rand.New(rand.NewPCG(15, 16))
		for i, std := range []float64{MinStd, 3, 0x1.2p21, maxFast, MaxStd} {
			for j, gridStep := range []float64{MinGrid, 0x1p-30, 1, 0x1p20, MaxGrid} {
				g := samplerOf(t, std, ciphers[(i+j)%2], "release")
				for _, n := range []int{0, 1, 7, 8, 9, 40, 1100} {
					first := rnd.IntN(3000)
					src, src64, k := make([]float32, n), make([]float64, n), make([]int64, n)
					for i := range src {
						src64[i] = gridStep * rnd.NormFloat64() * math.Exp2(float64(rnd.IntN(60)-5))
						switch rnd.IntN(10) {
						case 0:
							src64[i] = gridStep * (float64(rnd.IntN(100)) - 50.5) // ties
						case 1:
							src64[i] = []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat32, -math.MaxFloat32,
								math.SmallestNonzeroFloat64, 0x1p-149, math.Copysign(0, -1), math.MaxFloat64}[rnd.IntN(9)]
						}
						src[i] = float32(src64[i])
					}
					g.Add(k, 4, first)
					got, got64 := slices.Clone(src), slices.Clone(src64)
					g.Release(got, got, gridStep, 4, first) // in place
					g.Release64(got64, got64, gridStep, 4, first)
					apart := make([]float32, n)
					g.Release(apart, src, gridStep, 4, first)
					for i := range src {
						want, _ := rounded(float64(src[i]), k[i], gridStep).Float32()
						want64, exact := rounded(src64[i], k[i], gridStep).Float64()
						if got[i] != want || apart[i] != want || got64[i] != want64 || !exact {
							t.Fatalf("deviation %v, γ %v, %v (%v) and noise %d: %v, %v and %v, want %v and %v",
								std, gridStep, src[i], src64[i], k[i], got[i], apart[i], got64[i], want, want64)
						}
						if got[i] == 0 && math.Signbit(float64(got[i])) {
							t.Fatalf("the release of %v is -0", src[i])
						}
					}
				}
			}
		}
	})
}

func TestReleaseRefusesVisibly(t *testing.T) {
	g := samplerOf(t, 3, stream.AES256CTR, "refuse")
	for _, test := range []struct {
		gridStep float64
		first    int
	}{{1, -1}, {1, 1<<30 - 2}, {1, math.MaxInt}, {3, 0}, {0, 0}, {-1, 0}, {math.NaN(), 0}, {math.Inf(1), 0}, {MinGrid / 2, 0}, {MaxGrid * 2, 0}} {
		x, y := []float32{1, 2, 3}, []float64{1, 2, 3}
		g.Release(x, x, test.gridStep, 0, test.first)
		g.Release64(y, y, test.gridStep, 0, test.first)
		for i := range x {
			if x[i] == x[i] || y[i] == y[i] {
				t.Errorf("γ %v, draws from %d on: %v and %v", test.gridStep, test.first, x, y)
			}
		}
	}
	x := []float32{1, 2, 3}
	if g.Release(x, x, 1, 0, 1<<30-3); x[2] != x[2] {
		t.Error("the last draws are refused")
	}
	long := []int64{1, 2, 3}
	if g.Add(long, 0, 1<<30-2); long[0] != math.MinInt64 {
		t.Error("draws beyond the last of AES are added")
	}
}

// A sampler is made anew at every step: it takes a few small objects.
func TestNewIsCheap(t *testing.T) {
	s := testStream(t, "cheap")
	if n := testing.AllocsPerRun(100, func() {
		if _, err := New(0x1.2p21, s, 0); err != nil {
			t.Fatal(err)
		}
	}); n > 8 {
		t.Errorf("New makes %v objects", n)
	}
	g := samplerOf(t, 0x1.2p21, stream.AES256CTR, "cheap")
	x, raw := make([]float32, 512), make([]byte, 4096)
	g.Release(x, x, 1, 0, 0)
	bits := testing.AllocsPerRun(100, func() { g.stream.Fill(raw, 0, 0) })
	if n := testing.AllocsPerRun(100, func() { g.Release(x, x, 1, 0, 0) }); n > bits+1 {
		t.Errorf("Release makes %v objects, the keystream %v of them", n, bits)
	}
}
