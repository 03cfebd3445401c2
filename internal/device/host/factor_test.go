package host

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestShrink checks that a scaled example keeps to the clip norm with room for
// two roundings, and wastes no more than five.
func TestShrink(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	const u = 0x1p-24
	for range 100000 {
		clip := float32(math.Exp(20 * rnd.NormFloat64()))
		norm := float64(clip) * math.Exp(rnd.NormFloat64())
		if rnd.IntN(4) == 0 {
			norm = float64(clip) * (1 + 8*u*rnd.NormFloat64())
		}
		f := shrink[float32](float64(clip), norm)
		share := float64(f) * norm
		if f > 1 || share > float64(clip)*(1-2*u) && f < 1 || norm > float64(clip)*(1-2*u) && f == 1 {
			t.Fatalf("an example of norm %v is scaled by %v at C = %v", norm, f, clip)
		}
		if least := min(norm, float64(clip)); share < least*(1-8*u) {
			t.Fatalf("an example of norm %v keeps %v at C = %v", norm, share, clip)
		}
	}
	if f := shrink[float32](1, 0); f != 1 {
		t.Errorf("an example without a gradient is scaled by %v", f)
	}
	if f := shrink[float32](1e-20, math.MaxFloat64); f != 0 {
		t.Errorf("an example of the largest norm is scaled by %v", f)
	}
}
