package kernels_test

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/privgrad/privgrad/cuda/kernels"
	"github.com/privgrad/privgrad/internal/device"
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

// normalPair is the definition of package stream by other means: logarithms of
// both sides, and the angle's remainder by the library's functions.
func normalPair(x, y uint64) (a, b float64) {
	part := func(n uint64) float64 { return (float64(n>>32)*0x1p32 + (float64(n&math.MaxUint32) + 0.5)) * 0x1p-64 }
	l := -math.Log1p(-part(^x))
	if x < 1<<63 {
		l = -math.Log(part(x))
	}
	sin, cos := math.Sincos((float64(int64(y<<2)) + 0.5) * (math.Pi / 2 * 0x1p-64))
	for range y >> 62 {
		sin, cos = cos, -sin
	}
	r := math.Sqrt(2 * l)
	return r * cos, r * sin
}

// near is the bound that package stream states for other implementations.
func near(got float32, want float64) bool {
	return math.Abs(float64(got)-want) <= 4e-7*math.Abs(want)+1e-14
}

func TestNormals(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 1))
	var ends []uint64
	for i := range 64 {
		for _, d := range []uint64{math.MaxUint64 - 1, math.MaxUint64, 0, 1, 2} {
			ends = append(ends, 1<<i+d, ^(1<<i + d))
		}
	}
	var words []uint64
	for _, x := range ends {
		words = append(words, x, rnd.Uint64(), rnd.Uint64(), x, x, ends[rnd.IntN(len(ends))])
	}
	for range 3000 {
		words = append(words, rnd.Uint64()>>rnd.IntN(64), rnd.Uint64(), ^(rnd.Uint64() >> rnd.IntN(64)), rnd.Uint64()<<rnd.IntN(64))
	}
	m := newMachine(t)
	dst := put(m, make([]float32, len(words)))
	m.run(kernels.Normals(dst, put(m, words), len(words)/2))
	worst := 0.0
	for p, got := range slices.Collect(slices.Chunk(get[float32](m, dst, len(words)), 2)) {
		a, b := normalPair(words[2*p], words[2*p+1])
		if !near(got[0], a) || !near(got[1], b) {
			t.Fatalf("words %#x and %#x give %v, want %v and %v", words[2*p], words[2*p+1], got, a, b)
		}
		worst = max(worst, math.Abs(float64(got[0])-a)/(math.Abs(a)+1e-8), math.Abs(float64(got[1])-b)/(math.Abs(b)+1e-8))
	}
	// The bound that noise.cu derives, with room for the definition's own error.
	if worst > 3.2e-7 {
		t.Errorf("the largest relative error is %v", worst)
	}
}

func TestRelease(t *testing.T) {
	s, key := testStream(t)
	rnd := rand.New(rand.NewPCG(5, 2))
	for _, test := range []struct {
		n      int
		draw   uint64
		tensor uint32
		std    float32
		slot   device.Slot
	}{
		{1, 1, 0, 1, device.NoiseStd}, {7, 2, 1, 0.125, device.NoiseStd}, {8, 1 << 40, 9, 1e4, device.CountStd},
		{1023, math.MaxUint64, math.MaxUint32, 1e-3, device.NoiseStd}, {600, 3, 3, 0, device.NoiseStd},
	} {
		m := newMachine(t)
		in := inputs{draw: test.draw}
		for i := range in.scalars {
			in.scalars[i] = nan32
		}
		in.scalars[test.slot] = test.std
		sum := make([]float64, test.n+1)
		for i := range sum {
			sum[i] = 1000 * rnd.NormFloat64()
		}
		dst, src := put(m, filled(test.n+1, float32(7))), put(m, sum)
		m.run(kernels.Release(m.alloc(in.bytes()), dst, src, test.n, put(m, key), test.tensor, test.slot))
		z := make([]float64, test.n)
		s.Normals(z, test.draw, test.tensor, 0)
		got, left := get[float32](m, dst, test.n+1), get[float64](m, src, test.n+1)
		for i := range z {
			want := sum[i] + float64(test.std)*z[i]
			if test.std == 0 && got[i] != float32(sum[i]) {
				t.Fatalf("%+v: value %d without noise is %v, want %v", test, i, got[i], sum[i])
			}
			if bound := 0x1p-24*math.Abs(want) + float64(test.std)*(4e-7*math.Abs(z[i])+1e-14); !(math.Abs(float64(got[i])-want) <= bound) {
				t.Fatalf("%+v: value %d is %v, want %v", test, i, got[i], want)
			}
			if left[i] != 0 {
				t.Fatalf("%+v: sum %d is %v after its release", test, i, left[i])
			}
		}
		if got[test.n] != 7 || left[test.n] != sum[test.n] {
			t.Errorf("%+v: what lies behind was written", test)
		}
	}
}
