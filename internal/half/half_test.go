package half

import (
	"math"
	"testing"
)

// TestEveryHalf goes through all 65,536 values and the middles between neighbours.
func TestEveryHalf(t *testing.T) {
	for h := range 1 << 16 {
		h := uint16(h)
		f := ToFloat32(h)
		e, m := int(h>>10&31), float64(h&0x3ff)
		want := math.Ldexp(1024+m, e-25)
		if e == 0 {
			want = math.Ldexp(m, -24)
		}
		if h >= 0x8000 {
			want = -want
		}
		switch got := FromFloat32(f); {
		case e == 31 && m != 0:
			if f == f || ToFloat32(got) == ToFloat32(got) {
				t.Fatalf("%#x: NaN becomes %v, %#x", h, f, got)
			}
			continue
		case e == 31:
			if !math.IsInf(float64(f), 1-2*int(h>>15)) || got != h {
				t.Fatalf("%#x: infinity becomes %v, %#x", h, f, got)
			}
			continue
		case float64(f) != want || got != h:
			t.Fatalf("%#x: %v, want %v; back %#x", h, f, want, got)
		}
		// The middle between h and the next value outwards goes to the even one,
		// its neighbours to the nearest.
		next := math.Ldexp(1, max(e, 1)-25)
		if h >= 0x8000 {
			next = -next
		}
		middle := float32(want + next/2)
		even := h + h&1
		if got := FromFloat32(middle); got != even {
			t.Fatalf("the middle above %#x becomes %#x, want %#x", h, got, even)
		}
		if got := FromFloat32(math.Nextafter32(middle, 0)); got != h {
			t.Fatalf("below the middle above %#x: %#x", h, got)
		}
		out := float32(math.Copysign(math.Inf(1), float64(middle)))
		if got := FromFloat32(math.Nextafter32(middle, out)); got != h+1 {
			t.Fatalf("above the middle above %#x: %#x", h, got)
		}
	}
}
