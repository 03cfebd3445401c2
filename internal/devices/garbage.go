package devices

import (
	"runtime/debug"
	"sync"
)

const (
	mostGarbage = 8 << 20  // about what a run leaves uncollected beside a table
	leastTable  = 1 << 20  // bytes of a table for which that is worth a thought
	besideTable = 16 << 20 // about what a run holds beside its table
)

var bounded struct {
	sync.Mutex
	tables  int64 // bytes, of all that are in use
	percent int   // what collection was set to before the first of them
}

// BoundGarbage has memory collected before much garbage lies beside a table of so many bytes, until end is called. Go
// collects when memory has grown by as much as was in use: without the bound a large table allows garbage of its own
// size. Collections are cheap here, since a table has no pointers to follow.
func BoundGarbage(table int64) (end func()) {
	change := func(by int64) {
		b := &bounded
		b.Lock()
		defer b.Unlock()
		if b.tables == 0 {
			b.percent = debug.SetGCPercent(-1)
		}
		b.tables += by
		debug.SetGCPercent(garbagePercent(b.tables, b.percent))
	}
	if table < leastTable {
		return func() {}
	}
	change(table)
	return sync.OnceFunc(func() { change(-table) })
}

// garbagePercent is what to set collection to beside tables of so many bytes, where it was set to usual, below 0 for never.
func garbagePercent(tables int64, usual int) int {
	if tables == 0 || usual < 0 {
		return usual
	}
	return min(usual, max(1, int(100*mostGarbage/(tables+besideTable))))
}

// FreeGarbage gives memory back to the system that a run took to begin, such as for its accounting, where it lies beside a
// table of so many bytes. For a small one it does nothing, since it takes milliseconds.
func FreeGarbage(table int64) {
	if table >= leastTable {
		debug.FreeOSMemory()
	}
}
