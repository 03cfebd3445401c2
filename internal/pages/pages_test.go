package pages

import "testing"

// Whatever the system makes of the advice, what is allocated is zero and can be
// written to its ends; sizes lie on both sides of a large page.
func TestMake(t *testing.T) {
	for _, n := range []int{0, 1, 1000, 1 << 19, 1<<19 + 1, 3 << 20} {
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
