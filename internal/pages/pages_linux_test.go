package pages

import (
	"testing"
	"unsafe"
)

// Advice covers an array from end to end, in whole large pages, and no page that it does not touch.
func TestAround(t *testing.T) {
	for _, n := range []int{least, huge, huge + 1, 5*huge + 12345} {
		x := make([]byte, n)
		start, bytes := around(x)
		from, end := uintptr(unsafe.Pointer(&x[0])), start+bytes
		to := from + uintptr(n)
		if start%huge != 0 || end%huge != 0 || start > from || end < to || start+huge <= from || end-huge >= to {
			t.Errorf("%d bytes at %x: advice for %x to %x", n, from, start, end)
		}
	}
	if _, bytes := around(make([]byte, least-1)); bytes > 0 {
		t.Errorf("advice for a small array: %d bytes", bytes)
	}
}
