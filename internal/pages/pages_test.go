package pages

import "testing"

// Sizes lie on both sides of a large page.
var sizes = []int{0, 1, 1000, 1 << 14, 1 << 19, 1<<19 + 1, 3 << 20}

// Whatever the system makes of the advice, what is allocated is zero and can be written to its ends.
func TestMake(t *testing.T) {
	for _, n := range sizes {
		x := Make[float32](n)
		if len(x) != n {
			t.Fatalf("%d values, want %d", len(x), n)
		}
		for i := range x {
			if x[i] != 0 {
				t.Fatalf("value %d of %d is %v", i, n, x[i])
			}
			x[i] = float32(i)
		}
		for i := range x {
			if x[i] != float32(i) {
				t.Fatalf("value %d of %d became %v", i, n, x[i])
			}
		}
	}
}

// An array and its neighbours keep their values.
func TestEnlarge(t *testing.T) {
	for _, n := range sizes {
		all := make([]uint16, n+2000)
		for i := range all {
			all[i] = uint16(i * 7)
		}
		Enlarge(all[min(1000, n):][:n])
		Enlarge(all[:0])
		for i := range all {
			if all[i] != uint16(i*7) {
				t.Fatalf("value %d of %d became %d", i, len(all), all[i])
			}
		}
	}
	Enlarge[uint8](nil)
}
