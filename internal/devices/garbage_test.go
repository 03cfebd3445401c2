package devices

import (
	"runtime/debug"
	"testing"
)

// usual reads how collection is set.
func usual() int {
	p := debug.SetGCPercent(100)
	debug.SetGCPercent(p)
	return p
}

// However tables come and go, collection follows those that are there, and is as before when all are gone.
func TestBoundGarbage(t *testing.T) {
	before := usual()
	defer debug.SetGCPercent(before)
	debug.SetGCPercent(80)

	small := BoundGarbage(1<<20 - 1)
	if got := usual(); got != 80 {
		t.Errorf("a small table sets collection to %d%%", got)
	}
	one := BoundGarbage(64 << 20)
	if got := usual(); got != 10 {
		t.Errorf("a table sets collection to %d%%, want 10", got)
	}
	two := BoundGarbage(80 << 20)
	if got := usual(); got != 5 {
		t.Errorf("two tables set collection to %d%%, want 5", got)
	}
	one()
	one() // does nothing
	if got := usual(); got != 8 {
		t.Errorf("when the first is gone, collection is at %d%%, want 8", got)
	}
	two()
	small()
	if got := usual(); got != 80 {
		t.Errorf("when all are gone, collection is at %d%%, want 80", got)
	}

	for _, c := range []struct {
		tables      int64
		usual, want int
	}{{1 << 40, 100, 1}, {1 << 30, -1, -1}, {84 << 20, 5, 5}, {0, 100, 100}} {
		if got := garbagePercent(c.tables, c.usual); got != c.want {
			t.Errorf("beside %d bytes, with %d%% set, collection is at %d%%, want %d", c.tables, c.usual, got, c.want)
		}
	}
}
