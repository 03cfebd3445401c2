package pages

import (
	"testing"
	"unsafe"
)

// Advice is for the large pages of which an array takes every byte, and for no other.
func TestWhole(t *testing.T) {
	all := make([]byte, 4*huge)
	first := int(-uintptr(unsafe.Pointer(&all[0])) % huge) // where a large page begins
	for _, c := range []struct{ from, to, wantFrom, wantTo int }{
		{first, first + huge, first, first + huge},
		{first + 1, first + huge, 0, 0},
		{first, first + huge - 1, 0, 0},
		{first + 4, first + 3*huge - 4, first + huge, first + 2*huge},
		{first, first + 3*huge, first, first + 3*huge},
		{first + 8, first + 16, 0, 0},
		{first, first, 0, 0},
	} {
		b := whole(all[c.from:c.to])
		if len(b) != c.wantTo-c.wantFrom || len(b) > 0 && &b[0] != &all[c.wantFrom] {
			t.Errorf("bytes %d to %d: advice for %d bytes, want %d to %d", c.from, c.to, len(b), c.wantFrom, c.wantTo)
		}
	}
	if b := whole([]float32(nil)); len(b) != 0 {
		t.Errorf("advice for no array: %d bytes", len(b))
	}
}
