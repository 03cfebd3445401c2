package ptx

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
)

// rig is a launch at its first block with two warps, whose registers are an address and four values, and its memory: shared,
// global, constant, and local of every lane. State is that of the first two.
func rig(o Options, state []byte) (*launch, []*segment) {
	const size = 2048
	m := NewMemory()
	l := &launch{mem: m, o: o, block: [3]int{64, 1, 1}, grid: [3]int{4, 1, 1}, threads: 64, first: 11, ran: []int{0, 1, 2, 3}, me: access{block: 11},
		k: &Kernel{regs: 5, localSize: size, shared: []*variable{{name: "a", size: size}}}}
	l.makeShared(0)
	l.makeWarps()
	m.add(&segment{size: size, data: make([]byte, size), state: bytes.Clone(state), name: "allocation"})
	m.add(&segment{size: size, data: make([]byte, size), name: "constant", constant: true})
	all := append([]*segment{&l.shared[static]}, m.allocs...)
	copy(l.shared[static].state, state)
	for _, w := range l.warps {
		w.begin(l)
		for i := range w.init {
			w.init[i] = full
		}
		for i := range w.local {
			w.local[i].state = nil
			all = append(all, &w.local[i])
		}
	}
	for i, s := range all {
		for j := range s.data {
			s.data[j] = byte(i + 3*j)
		}
	}
	return l, all
}

// TestRows compares what a warp does at once with its lanes one by one: faults, values, states, and what is kept to find races.
func TestRows(t *testing.T) {
	found := map[Kind]int{}
	for seed := range uint64(700) {
		rng := rand.New(rand.NewPCG(seed, 2))
		state := bytes.Repeat([]byte{written}, 2048)
		for range rng.IntN(3) {
			state[rng.IntN(len(state))] = []byte{unwritten, inFlight, outside}[rng.IntN(3)]
		}
		o := Options{AllowUninitialised: rng.IntN(2) == 0, NoRaces: rng.IntN(8) == 0}
		a, as := rig(o, state)
		b, bs := rig(o, state)
		at := []uint64{sharedWindow, as[1].base, as[2].base, localWindow}[rng.IntN(4)] + uint64(rng.IntN(2)*rng.IntN(96)*16)
		for step := range 12 {
			in := inst{line: step, ty: f32, count: 1 << rng.IntN(3), regSize: 8, reads: accessKind(rng.IntN(4) / 3), list: [12]int32{1, 2, 3, 4}, dst: 2}
			if rng.IntN(3) == 0 {
				in.ty = []ty{u8, s16, s32, u64}[rng.IntN(4)]
			}
			in.width = in.ty.size()
			in.count = min(in.count, 16/in.width)
			n := uint64(in.width * in.count)
			in.off = n * uint64(rng.IntN(3)-1)
			block, epoch, which, kind := rng.IntN(8) == 0, rng.IntN(4) == 0, rng.IntN(2), rng.IntN(8)
			if kind == 0 {
				in.count, in.src[1], in.atomic = 1, 1, func(old, b uint64) uint64 { return old + b }
			}
			shape, k := rng.IntN(8), rng.IntN(32)
			from := at - in.off
			if rng.IntN(16) == 0 {
				from += uint64(2048 - 16*rng.IntN(64)) // to the end and past it
			}
			values := [5]vec{}
			for i := range values[0] {
				values[0][i] = from + n*uint64(i)
				switch {
				case shape == 0:
					values[0][i] = from
				case shape == 1:
					values[0][i] = from + n*uint64(i/(1+k%5))
				case shape == 2 && i == k:
					values[0][i] += n
				}
				for j := range values[1:] {
					values[1+j][i] = rng.Uint64()
				}
			}
			m := full
			if rng.IntN(4) == 0 {
				m = rng.Uint32() | 1<<k
			}
			run := func(l *launch, masks []uint32) (f *Fault) {
				if block && l.me.block < 14 {
					l.me.block++
				}
				if epoch {
					l.me.epoch++
				}
				w := l.warps[which]
				copy(w.regs, values[:])
				for i := 0; i < len(masks) && f == nil; i++ {
					switch {
					case kind == 0:
						f = w.atom(l, &in, masks[i])
					case kind < 5:
						f = w.load(l, &in, masks[i])
					default:
						f = w.store(l, &in, masks[i])
					}
				}
				return f
			}
			var lanes []uint32
			for i := range 32 {
				if m>>i&1 != 0 {
					lanes = append(lanes, 1<<i)
				}
			}
			f, g := run(a, []uint32{m}), run(b, lanes)
			if fmt.Sprint(f) != fmt.Sprint(g) {
				t.Fatalf("history %d, step %d: %v at once, %v lane by lane", seed, step, f, g)
			}
			for i, s := range as {
				if !bytes.Equal(s.data, bs[i].data) || !bytes.Equal(s.state, bs[i].state) || s.shift != bs[i].shift || !reflect.DeepEqual(s.pages, bs[i].pages) {
					t.Fatalf("history %d, step %d: %s differs", seed, step, s.name)
				}
			}
			if f != nil {
				found[f.Kind]++
				break
			}
			found["none"]++
			if !reflect.DeepEqual(a.warps[which].regs, b.warps[which].regs) {
				t.Fatalf("history %d, step %d: what is loaded differs", seed, step)
			}
		}
	}
	if found[Race] < 100 || found[OutOfBounds] < 30 || found[ReadOnly] < 30 || found["none"] < 1000 {
		t.Errorf("%v test little", found)
	}
}
