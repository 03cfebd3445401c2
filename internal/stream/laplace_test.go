package stream

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func laplaces(s *Stream, n int, step uint64, tensor uint32) []float64 {
	x := make([]float64, n)
	s.Laplaces(x, step, tensor, 0)
	return x
}

func TestLaplacesDependOnPositionOnly(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 3))
	for _, c := range ciphers {
		s := newStream(t, c, KeyFromSeed(1, "split"))
		whole := laplaces(s, 5000, 3, 4)
		for range 300 {
			lo := rng.IntN(len(whole))
			hi := lo + rng.IntN(len(whole)-lo+1)
			part := make([]float64, hi-lo)
			s.Laplaces(part, 3, 4, lo)
			if !slices.Equal(part, whole[lo:hi]) {
				t.Fatalf("%v: numbers [%d,%d) drawn alone differ", c, lo, hi)
			}
		}
		// The layout that is documented.
		raw := make([]byte, 16*len(whole))
		s.Fill(raw, 3, at(4, 0))
		for i, got := range whole {
			u := (float64(binary.LittleEndian.Uint64(raw[16*i:])) + 0.5) / 0x1p64
			want := -math.Log(u)
			if raw[16*i+8]&1 == 1 {
				want = -want
			}
			if math.Abs(got-want) > 1e-15*(1+math.Abs(want))+0x1p-52 {
				t.Fatalf("%v: number %d is %v, want %v", c, i, got, want)
			}
		}
	}
}

func TestLaplacesRange(t *testing.T) {
	s := newStream(t, ChaCha20, KeyFromSeed(1, "range"))
	x := make([]float64, 2)
	s.Laplaces(x, 1, 1, MaxNormals/2-2)
	if math.IsNaN(x[0]) || math.IsNaN(x[1]) {
		t.Errorf("the last numbers are %v", x)
	}
	for _, first := range []int{-1, MaxNormals/2 - 1, MaxNormals} {
		if s.Laplaces(x, 1, 1, first); !math.IsNaN(x[0]) || !math.IsNaN(x[1]) {
			t.Errorf("numbers from %d on are %v", first, x)
		}
	}
	// The ends, where only one word of 64 bits leads.
	if l := -logUnit(0); !(l <= MaxLaplace) || l < MaxLaplace-1e-6 {
		t.Errorf("the largest magnitude is %v, want %v", l, MaxLaplace)
	}
	if l := -logUnit(math.MaxUint64); math.Abs(l*0x1p65-1) > 1e-12 {
		t.Errorf("the smallest magnitude is %v, want 2⁻⁶⁵", l)
	}
}

// 32 cells of equal probability, chi-square with 31 degrees of freedom: beyond 120
// with probability 1e-12. The moments E|x| = 1, Ex² = 2 and the sign within 7 standard deviations, 1e-11 together.
func TestLaplacesDistribution(t *testing.T) {
	const n = 1 << 18
	x := laplaces(newStream(t, ChaCha20, KeyFromSeed(2, "distribution")), n, 1, 1)
	var cells [32]float64
	var abs, squares, sign float64
	for _, v := range x {
		u := math.Exp(-math.Abs(v)) / 2
		if v > 0 {
			u = 1 - u
		}
		cells[min(int(32*u), 31)]++
		abs, squares, sign = abs+math.Abs(v), squares+v*v, sign+math.Copysign(1, v)
	}
	chi := 0.0
	for _, c := range cells {
		chi += (c - n/32) * (c - n/32) / (n / 32)
	}
	if chi > 120 {
		t.Errorf("chi-square is %v", chi)
	}
	for what, z := range map[string]float64{ // Var|x| = 1, Var x² = 24 − 4
		"the mean magnitude": (abs - n) / math.Sqrt(n), "the mean square": (squares - 2*n) / math.Sqrt(20*n), "the sign": sign / math.Sqrt(n),
	} {
		if math.Abs(z) > 7 {
			t.Errorf("%s is %.1f standard deviations off", what, z)
		}
	}
}
