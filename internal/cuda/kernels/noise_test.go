package kernels_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/privgrad/privgrad/internal/cuda/gputest"
	"github.com/privgrad/privgrad/internal/cuda/kernels"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/exact"
	"github.com/privgrad/privgrad/internal/stream"
)

func testStream(t *testing.T) (*stream.Stream, []uint32) {
	t.Helper()
	s, err := stream.New(stream.ChaCha20, stream.KeyFromSeed(4, "kernels"))
	if err != nil {
		t.Fatal(err)
	}
	key, err := s.KeyWords()
	if err != nil {
		t.Fatal(err)
	}
	return s, key[:]
}

// RFC 8439, section 2.3.2: the nonce's words are the tensor and the draw here.
func TestKeystreamVector(t *testing.T) {
	key := make([]uint32, 8)
	for i := range key {
		key[i] = 0x03020100 + 0x04040404*uint32(i)
	}
	want := []uint32{
		0xe4e7f110, 0x15593bd1, 0x1fdd0f50, 0xc47120a3, 0xc7f4d1c7, 0x0368c033, 0x9aaa2204, 0x4e6cd4c3,
		0x466482d2, 0x09aa9f07, 0x05d7c214, 0xa2028bd9, 0xd19c12b5, 0xb94e16de, 0xe883d0cb, 0x4e3c50a2,
	}
	m := newMachine(t)
	dst := put(m, make([]uint32, 16))
	m.run(kernels.Keystream(dst, 1, put(m, key), 0x4a000000, 0x09000000, 1))
	if got := get[uint32](m, dst, 16); !slices.Equal(got, want) {
		t.Errorf("the block is %x, want %x", got, want)
	}
}

func TestKeystreamIsTheStreams(t *testing.T) {
	s, key := testStream(t)
	for _, test := range []struct {
		draw          uint64
		tensor, first uint32
	}{{1, 0, 0}, {1, 1, 0}, {2, 0, 3}, {1 << 40, 9, 1 << 31}, {math.MaxUint64, math.MaxUint32, math.MaxUint32 - 99}} {
		const n = 100
		m := newMachine(t)
		dst := put(m, make([]uint32, 16*n))
		m.run(kernels.Keystream(dst, n, put(m, key), test.draw, test.tensor, test.first))
		want := make([]byte, 64*n)
		s.Fill(want, test.draw, uint64(test.tensor)<<32|uint64(test.first))
		for i, w := range get[uint32](m, dst, 16*n) {
			if w != binary.LittleEndian.Uint32(want[4*i:]) {
				t.Fatalf("%+v: word %d is %#x, want %#x", test, i, w, binary.LittleEndian.Uint32(want[4*i:]))
			}
		}
	}
}

func noiseTable(m *machine) kernels.Ptr { return put(m, exact.Words()) }

const truthPrec = 1000

func number(x float64) *big.Float { return new(big.Float).SetPrec(truthPrec).SetFloat64(x) }

// rootTwoOverPi is sqrt(2/π), by the limit of arithmetic and geometric means (Gauss and Legendre).
var rootTwoOverPi = sync.OnceValue(func() *big.Float {
	a, b, t, p := number(1), number(0.5), number(0.25), number(1)
	b.Sqrt(b)
	for range 12 {
		next := number(0).Add(a, b)
		next.Quo(next, number(2))
		b.Sqrt(number(0).Mul(a, b))
		d := number(0).Sub(a, next)
		t.Sub(t, d.Mul(p, d.Mul(d, d)))
		p.Mul(p, number(2))
		a = next
	}
	a.Add(a, b)
	a.Quo(t.Mul(t, number(8)), a.Mul(a, a))
	return a.Sqrt(a)
})

// tailOf is P(|Z| > x) by a series whose terms alternate, sqrt(2/π)·Σ(−1)ⁿx²ⁿ⁺¹/(2ⁿ·n!·(2n+1)): none is above
// e^(x²/2) < 2¹²⁷, so that of 1,000 digits 860 are right.
func tailOf(x *big.Float) *big.Float {
	square := number(0).Mul(x, x)
	power, sum := number(0).Set(x), number(0)
	for n := 0; power.Sign() != 0 && power.MantExp(nil) > -truthPrec; n++ {
		sum.Add(sum, number(0).Quo(power, number(float64(2*n+1))))
		power.Quo(power.Mul(power, square), number(float64(-2*(n+1))))
	}
	return sum.Sub(number(1), sum.Mul(sum, rootTwoOverPi()))
}

// boundary is V where std·|Z| is k + 1/2.
func boundary(k int64, std float64) *big.Float {
	x := new(big.Float).SetPrec(truthPrec).SetInt64(2*k + 1)
	return tailOf(x.Quo(x, number(2*std)))
}

// A planted draw is digits that were made for it.
type planted struct {
	what string
	word uint64
	more [64]byte
	want int64 // of ReleaseOpen
}

// plant makes the draw of the first 575 digits of a V.
func plant(what string, v *big.Float, negative bool, want int64) planted {
	n, _ := new(big.Float).SetMantExp(v, 575).Int(nil)
	p := planted{what: what, want: want}
	p.word = new(big.Int).Rsh(n, 512).Uint64()
	n.And(n, new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 512), big.NewInt(1))).FillBytes(p.more[:])
	if negative {
		p.word |= 1 << 63
		p.want = -want
	}
	return p
}

// power is 2ⁿ.
func power(n int) *big.Float { return new(big.Float).SetPrec(truthPrec).SetMantExp(big.NewFloat(1), n) }

// TestOpenDraws plants digits on both sides of boundaries of rounding, from where float64 cannot tell them apart to where 384 digits
// hardly can, and at the ends of what there is.
func TestOpenDraws(t *testing.T) {
	for _, test := range []struct {
		std float64
		at  []int64
	}{
		{0x1p-20, nil}, // no draw is near a boundary
		{0x1.8p-3, []int64{0, 1}},
		{1, []int64{0, 3, 12}},
		{0x1.23456p21, []int64{0, 1, 1e5, 12345678, 30e6 - 2e6}},
		{0x1.fffffep27, []int64{1e8, 3e9}},
		{0x1.fffffep39, []int64{0, 1, 1 << 39, 14e12}},
	} {
		var all []planted
		for j, k := range test.at {
			v := boundary(k, test.std)
			for i, depth := range []int{60, 100, 210} {
				if v.MantExp(nil) < 45-depth {
					continue // more than a boundary lies between
				}
				d := power(-depth)
				what := fmt.Sprintf("%d + 1/2 and 2^-%d", k, depth)
				all = append(all, plant(what, number(0).Sub(v, d), (i+j)%2 == 0, k+1), plant(what, number(0).Add(v, d), (i+j)%2 == 1, k))
			}
		}
		// What is beyond 2⁻¹²⁸ counts as 13.2.
		most := int64(13.2 * test.std)
		end := power(-128)
		all = append(all, plant("V = 0", number(0), true, most), plant("below the end", number(0).Sub(end, power(-575)), false, most))
		// |Z| of the end itself, between two points: T falls from 13.0 to 13.2.
		low, high := 0.0, 13.2
		for range 60 {
			if z := (low + high) / 2; tailOf(number(z)).Cmp(end) > 0 {
				low = z
			} else {
				high = z
			}
		}
		if k := int64(math.Round(low * test.std)); k == int64(math.Round(high*test.std)) {
			all = append(all, plant("the end", end, true, k))
		}

		m := newMachine(t)
		words, more := make([]uint64, len(all)), []byte{}
		for i := range all {
			words[i] = all[i].word
			more = append(more, all[i].more[:]...)
		}
		dst := put(m, make([]int64, 3*len(all)))
		m.run(kernels.Draws(dst, put(m, words), m.alloc(more), len(all), test.std, noiseTable(m)))
		got := get[int64](m, dst, 3*len(all))
		fixed, small := exact.NewFixed(test.std)
		for i, p := range all {
			rows, cells := got[3*i], got[3*i+1]
			if got[3*i+2] != p.want {
				t.Errorf("std %v, %s: is %d, want %d", test.std, p.what, got[3*i+2], p.want)
			}
			for _, quick := range []int64{rows, cells} {
				if quick != math.MinInt64 && quick != p.want {
					t.Errorf("std %v, %s: is decided as %d, want %d", test.std, p.what, quick, p.want)
				}
			}
			if !small {
				continue
			}
			if k, ok := fixed.Draw(p.word); !ok && rows != math.MinInt64 || ok && rows != k {
				t.Errorf("std %v, %s: the first digits give %d, want %d, %v", test.std, p.what, rows, k, ok)
			}
		}
	}
}

// TestCellsDecideDraws asks for words of every octave. Cells end at 2⁻⁴⁰, and before it few words of a deviation are too near a boundary for them.
func TestCellsDecideDraws(t *testing.T) {
	const std, octaves, each = 0x1.2p24, 42, 3
	rnd := rand.New(rand.NewPCG(5, 4))
	m := newMachine(t)
	var words []uint64
	more := make([]byte, 64*octaves*each)
	for i := range octaves * each {
		words = append(words, (1<<62|rnd.Uint64N(1<<62))>>(i/each)|rnd.Uint64()&(1<<63))
		binary.LittleEndian.PutUint64(more[64*i:], rnd.Uint64())
	}
	dst := put(m, make([]int64, 3*len(words)))
	m.run(kernels.Draws(dst, put(m, words), m.alloc(more), len(words), std, noiseTable(m)))
	got, open := get[int64](m, dst, 3*len(words)), 0
	for i := range words {
		cells, want := got[3*i+1], got[3*i+2]
		if cells == math.MinInt64 {
			open++
		} else if cells != want {
			t.Errorf("word %#x: cells give %d, want %d", words[i], cells, want)
		}
		if cells == math.MinInt64 && i/each < 32 {
			t.Errorf("word %#x of octave %d is open", words[i], i/each)
		}
	}
	if open < 2*each || open > 4*each {
		t.Errorf("%d words of %d are open, want those of the last two octaves and a few", open, len(words))
	}
}

// releases are what a release must be right for: deviations in grid steps from the least to the largest, of which
// float64 leaves one draw in eight open.
var releases = []struct {
	n         int
	draw      uint64
	tensor    uint32
	std, grid float32
	in        [2]device.Slot

	openToCells []int
}{
	{1, 1, 0, 1, 0x1p-24, [2]device.Slot{device.NoiseStd, device.NoiseStep}, nil},
	{7, 2, 1, 0.3, 0x1p-20, [2]device.Slot{device.CountStd, device.CountStep}, nil},
	{8, 1 << 40, 9, 1e4, 0x1p-14, [2]device.Slot{device.NormStd, device.NormStep}, nil},
	{40, 9, 9, 0x1p-20, 1, [2]device.Slot{device.NoiseStd, device.NoiseStep}, nil},
	{513, 8, 2, 0.7, 1, [2]device.Slot{device.NoiseStd, device.NoiseStep}, nil},
	{5000, math.MaxUint64, math.MaxInt32, 1e-3, 0x1p-35, [2]device.Slot{device.NoiseStd, device.NoiseStep}, nil},
	{1000, 4, 3, 3, 0x1p-35, [2]device.Slot{device.NoiseStd, device.NoiseStep}, nil},
	{300, 4, 3, 0x1p-20, 0x1p-60, [2]device.Slot{device.NoiseStd, device.NoiseStep}, nil},
	{600, 73087, 3, 0x1p-20, 0x1p-60, [2]device.Slot{device.NoiseStd, device.NoiseStep}, []int{331, 433}}, // of which cells leave these two open, in one warp
	{600, 3, 3, 0, 0, [2]device.Slot{device.NoiseStd, device.NoiseStep}, nil},
}

// TestRelease asks of a sample of the words which draws are open, each of them a block of its own; TestLongRelease of all.
func TestRelease(t *testing.T) { testRelease(t, 8) }

func TestLongRelease(t *testing.T) { testRelease(t, 1) }

func testRelease(t *testing.T, every int) {
	s, key := testStream(t)
	rnd := rand.New(rand.NewPCG(5, 2))
	open, openToCells := 0, 0
	for _, test := range releases {
		m := newMachine(t)
		in := inputs{draw: test.draw}
		for i := range in.scalars {
			in.scalars[i] = nan32
		}
		in.scalars[test.in[0]], in.scalars[test.in[1]] = test.std, test.grid
		grid := float64(test.grid)
		sum := make([]float64, test.n+1)
		for i := range sum {
			switch sum[i] = 1000 * rnd.NormFloat64() * math.Exp(10*rnd.NormFloat64()); {
			case test.std == 0:
			case i%9 == 4: // of two neighbours the even one
				sum[i] = (math.Floor(sum[i]) + 0.5) * grid
			case i%30 == 5:
				sum[i] = []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0x1p49 * grid, -0x1.8p49 * grid, 1e300}[i/30%6]
			}
		}
		dst, src := put(m, filled(test.n+1, float32(7))), put(m, sum)
		run := m.alloc(in.bytes())
		z := kernels.Noise{
			Key: put(m, key), Table: noiseTable(m),
			Tensor: test.tensor, Std: test.in[0], Step: test.in[1],
		}
		m.run(kernels.Release(run, dst, src, test.n, z))

		want := slices.Clone(sum)
		std := float64(test.std) / grid
		if test.std != 0 {
			g, err := exact.New(std, s, test.tensor)
			if err != nil {
				t.Fatal(err)
			}
			g.Release64(want[:test.n], sum[:test.n], grid, test.draw, 0)
		}
		words := make([]byte, 8*test.n+56)
		s.Fill(words[:len(words)/64*64], test.draw, uint64(test.tensor)<<32)
		got, left := get[float32](m, dst, test.n+1), get[float64](m, src, test.n+1)
		for i := range test.n {
			if got[i] != float32(want[i]) {
				t.Fatalf("%+v: value %d of sum %v is %v, want %v", test, i, got[i], sum[i], want[i])
			}
			if left[i] != 0 {
				t.Fatalf("%+v: sum %d is %v after its release", test, i, left[i])
			}
		}
		if std == 0x1p40 {
			var asked []uint64
			for i := range test.n {
				if gputest.On() || i%every == 0 || slices.Contains(test.openToCells, i) {
					asked = append(asked, binary.LittleEndian.Uint64(words[8*i:]))
				}
			}
			at := put(m, make([]int64, 3*len(asked)))
			m.run(kernels.Draws(at, put(m, asked), put(m, make([]byte, 64*len(asked))), len(asked), std, noiseTable(m)))
			quick := get[int64](m, at, 3*len(asked))
			for i := range asked {
				if quick[3*i] == math.MinInt64 {
					open++
				}
				if quick[3*i+1] == math.MinInt64 {
					openToCells++
				}
			}
		}
		if got[test.n] != 7 || left[test.n] != sum[test.n] && sum[test.n] == sum[test.n] {
			t.Errorf("%+v: what lies behind was written", test)
		}
	}
	if open < 10 || openToCells < 2 {
		t.Errorf("rows left %d draws open and cells %d: the test sees nothing", open, openToCells)
	}
}

// What a release does to parameters has the bits of the update behind it, also where draws are open.
func TestReleaseDescends(t *testing.T) {
	_, key := testStream(t)
	rnd := rand.New(rand.NewPCG(5, 3))
	const n = 301
	for _, std := range []float32{0, 1, 0x1p40} {
		for _, integers := range []bool{false, true} {
			in := inputs{draw: 3}
			in.scalars[device.NoiseStd], in.scalars[device.NoiseStep], in.scalars[device.Clip] = std*0x1p-20, 0x1p-20, 1
			in.scalars[device.Rate], in.scalars[device.Scale], in.scalars[device.L2] = 0.1, 0.3, 0.01
			sum, params := make([]int64, n), normals32(rnd, n+1, 1)
			for i := range sum {
				sum[i] = rnd.Int64N(1 << 40)
				if !integers {
					sum[i] = int64(math.Float64bits(rnd.NormFloat64()))
				}
			}
			m := newMachine(t)
			run := m.alloc(in.bytes())
			z := kernels.Noise{Key: put(m, key), Table: noiseTable(m), Tensor: 5, Std: device.NoiseStd, Step: device.NoiseStep}
			release := func(dst kernels.Ptr) kernels.Launch {
				if integers {
					return kernels.GridRelease(run, dst, put(m, sum), n, z)
				}
				return kernels.Release(run, dst, put(m, sum), n, z)
			}
			g, p := put(m, filled(n, nan32)), put(m, params)
			m.run(release(g))
			update, err := kernels.Update(run, device.SGD, n, p, g)
			if err != nil {
				t.Fatal(err)
			}
			m.run(update)
			dst, at := put(m, filled(n, nan32)), put(m, params)
			l, ok := kernels.Descend(release(dst), n, at, dst)
			if !ok {
				t.Fatal("a release does not descend")
			}
			m.run(l)
			what := fmt.Sprintf("deviation %v, integers %v", std, integers)
			allSame(t, what+": released", get[float32](m, dst, n), get[float32](m, g, n))
			allSame(t, what+": parameters", get[float32](m, at, n+1), get[float32](m, p, n+1))
			for _, other := range []kernels.Launch{l, update, release(g)} {
				if _, ok := kernels.Descend(other, n, at, dst); ok {
					t.Errorf("%s descends with another gradient", other.Name)
				}
			}
			if _, ok := kernels.Descend(release(dst), n-1, at, dst); ok {
				t.Error("a release of more values descends")
			}
		}
	}
}

func TestGridRelease(t *testing.T) {
	s, key := testStream(t)
	rnd := rand.New(rand.NewPCG(9, 2))
	const n, tensor = 300, 5
	for i, test := range []struct{ clip, std float32 }{{1, 1}, {0.3, 2}, {1e9, 0x1p-10}, {1e-30, 3e-30}, {1e-30, 0}} {
		k := make([]int64, n+1)
		for i := range k {
			k[i] = rnd.Int64N(1<<52) - 1<<51
		}
		in := inputs{draw: uint64(i) + 3}
		step := device.NewGrid(test.clip).Step
		in.scalars[device.Clip], in.scalars[device.NoiseStd] = test.clip, test.std
		if test.std != 0 {
			in.scalars[device.NoiseStep] = float32(step)
		}
		m := newMachine(t)
		dst, sum, run := put(m, filled(n+1, float32(7))), put(m, k), m.alloc(in.bytes())
		z := kernels.Noise{
			Key: put(m, key), Table: noiseTable(m),
			Tensor: tensor, Std: device.NoiseStd, Step: device.NoiseStep,
		}
		m.run(kernels.GridRelease(run, dst, sum, n, z))
		want := slices.Clone(k)
		if test.std != 0 {
			g, err := exact.New(float64(test.std)/step, s, tensor)
			if err != nil {
				t.Fatal(err)
			}
			g.Add(want[:n], in.draw, 0)
		}
		got, left := get[float32](m, dst, n+1), get[int64](m, sum, n+1)
		for i := range n {
			if w := float32(float64(want[i]) * step); got[i] != w || left[i] != 0 {
				t.Fatalf("%+v: value %d is %v, want %v; %d is left", test, i, got[i], w, left[i])
			}
		}
		if got[n] != 7 || left[n] != k[n] {
			t.Errorf("%+v: what lies behind was written", test)
		}
	}
}
