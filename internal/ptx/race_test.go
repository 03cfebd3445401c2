package ptx

import (
	"math/rand/v2"
	"testing"
)

// past is an access with all that decides whether it races.
type past struct {
	access
	from, to uint64
	kind     accessKind
}

// races is the definition, for two accesses in this order.
func races(a, b past) bool {
	reading := func(k accessKind) bool { return k == reads || k == cached }
	switch {
	case a.to <= b.from || b.to <= a.from:
		return false
	case b.kind == cached && a.kind == writes:
		return true
	case reading(a.kind) && reading(b.kind), a.kind == atomics && b.kind == atomics:
		return false
	case a.block != b.block:
		return true
	case a.thread == b.thread, a.epoch != b.epoch:
		return false
	}
	return a.thread>>5 != b.thread>>5 || a.warps == b.warps
}

// TestRaces compares the two or three accesses that a cell keeps with the list
// of all accesses: the same histories race, at the same access.
func TestRaces(t *testing.T) {
	found, clean := 0, 0
	for seed := range uint64(6000) {
		rng := rand.New(rand.NewPCG(seed, 0))
		s := &segment{size: 16, shift: 2}
		narrow := seed%3 == 0
		var all []past
		block, epoch := uint32(1), uint32(0)
		var warps [3]uint32
		calm := 1 + rng.IntN(40) // how seldom anything but a read comes
		raced := false
		for range 40 {
			switch rng.IntN(6) {
			case 0:
				epoch++
			case 1:
				warps[rng.IntN(3)]++
			case 2:
				if rng.IntN(4) == 0 {
					block, epoch, warps = block+1, 0, [3]uint32{}
				}
			}
			n := uint64(4) << rng.IntN(3)
			if narrow && rng.IntN(2) == 0 {
				n = 1 << rng.IntN(2)
			}
			w := rng.IntN(3)
			me := access{block: block, epoch: epoch, warps: warps[w], thread: uint16(32*w + rng.IntN(3)), line: 1}
			p := past{access: me, from: rng.Uint64N(16/n) * n, kind: reads}
			p.to = p.from + n
			if rng.IntN(calm) == 0 {
				p.kind = accessKind(rng.IntN(4))
			}
			want := false
			for _, a := range all {
				want = want || races(a, p)
			}
			other, _ := s.record(p.from, int(n), p.kind, &me, 1)
			if (other != nil) != want {
				t.Fatalf("history %d, access %d of kind %d by thread %d: race is %v, want %v", seed, len(all), p.kind, me.thread, other != nil, want)
			}
			if raced = want; raced {
				break
			}
			all = append(all, p)
		}
		if raced {
			found++
		} else {
			clean++
		}
	}
	if found < 1000 || clean < 100 {
		t.Errorf("%d histories with a race and %d without test little", found, clean)
	}
}
