package ptx

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
)

// counted is a kernel of 64 threads whose counts are known by hand: thread t loads word (stride·t)/4 of in, puts it into
// shared memory at the same stride, waits, reads it, divides, multiplies and stores to word t of out.
const counted = `
.version 7.4
.target sm_80
.address_size 64
.visible .entry counted(.param .u64 in, .param .u64 out, .param .u32 stride) .maxntid 64, 1, 1
{
	.reg .pred %p<2>;
	.reg .b32 %r<10>;
	.reg .f32 %f<5>;
	.reg .b64 %rd<9>;
	.shared .align 16 .b8 buffer[8192];
	ld.param.u64 %rd1, [in];
	ld.param.u64 %rd2, [out];
	ld.param.u32 %r1, [stride];
	mov.u32 %r2, %tid.x;
	mul.lo.s32 %r3, %r1, %r2;
	cvt.u64.u32 %rd3, %r3;
	add.s64 %rd4, %rd1, %rd3;
	ld.global.f32 %f1, [%rd4];
	mov.u32 %r4, buffer;
	add.s32 %r5, %r4, %r3;
	st.shared.f32 [%r5], %f1;
	bar.sync 0;
	ld.shared.f32 %f2, [%r5];
	fma.rn.f32 %f3, %f2, %f2, %f1;
	div.s32 %r6, %r2, %r1;
	mul.wide.s32 %rd5, %r2, 4;
	add.s64 %rd6, %rd2, %rd5;
	st.global.f32 [%rd6], %f3;
	ret;
}
`

func count(t *testing.T, stride int, blocks int, o Options) *Counter {
	t.Helper()
	m, err := Parse([]byte(counted))
	check(t, err)
	k, err := m.Kernel("counted")
	check(t, err)
	mem := NewSparseMemory(Words(0x3f800000))
	in, err := mem.Alloc(1 << 33)
	check(t, err)
	out, err := mem.Alloc(256)
	check(t, err)
	o.Counter = &Counter{Latencies: Latencies{ALU: 4, Shared: 30, L1: 40, L2: 200, Barrier: 20}}
	o.NoRaces = true // of blocks, which all write one place
	check(t, k.Launch(mem, [3]int{blocks, 1, 1}, [3]int{64, 1, 1}, 0, []uint64{in, out, uint64(stride)}, o))
	got := make([]byte, 4)
	if err := mem.Read(got, out); err != nil || binary.LittleEndian.Uint32(got) != 0x40000000 { // 1·1 + 1
		t.Errorf("wrote %x, %v", got, err)
	}
	return o.Counter
}

func TestCounter(t *testing.T) {
	for _, c := range []struct {
		stride                    int
		sectors, lines, conflicts int64
		read                      int64
	}{
		{4, 2 * 4, 2, 0, 64 * 4},
		{8, 2 * 8, 4, 2 * 2 * 1, 63*8 + 4},        // two words to a bank
		{32, 2 * 32, 16, 2 * 2 * 7, 63*32 + 4},    // eight
		{128, 2 * 32, 64, 2 * 2 * 31, 63*128 + 4}, // all of one bank
		{0, 2, 2, 0, 4},                           // all of one word
	} {
		t.Run(fmt.Sprint(c.stride), func(t *testing.T) {
			n := count(t, c.stride, 1, Options{})
			if len(n.Blocks) != 1 {
				t.Fatalf("%d blocks", len(n.Blocks))
			}
			b := n.Blocks[0]
			// Of two warps each; the free ones and the addition that goes with the wide product count nothing, one of 64 bits two.
			want := Tally{FMA32: 2, Integer: 2 * (2 + 1 + 12), IntMultiply: 2 * (1 + 5 + 1), Special: 2 * 3, Branch: 2, Barrier: 2, GlobalLoad: 2, GlobalStore: 2, SharedLoad: 2, SharedStore: 2}
			if b.Instructions != want {
				t.Errorf("instructions are %v, want %v", b.Instructions, want)
			}
			if b.LoadSectors != c.sectors || b.StoreSectors != 8 || b.Lines != c.lines+2 || b.Stored != 256 || n.Read != c.read || n.Written != 256 {
				t.Errorf("%d sectors loaded, %d stored, %d lines, %d bytes stored, %d read, %d written", b.LoadSectors, b.StoreSectors, b.Lines, b.Stored, n.Read, n.Written)
			}
			if c.stride > 0 && b.Loaded != 32*c.sectors {
				t.Errorf("%d bytes are loaded", b.Loaded)
			}
			if b.Conflicts != c.conflicts || b.Waves != 4+c.conflicts {
				t.Errorf("%d passes, %d of conflicts", b.Waves, b.Conflicts)
			}
			access := []Access{{GlobalLoad, 4, 2, c.sectors}, {GlobalStore, 4, 2, 8}, {SharedLoad, 4, 2, 0}, {SharedStore, 4, 2, 0}}
			if !slices.Equal(b.Accesses, access) {
				t.Errorf("accesses are %v, want %v", b.Accesses, access)
			}
			// The address by a product and a sum, the load, the barrier, the load from shared memory, and the product; nobody waits
			// for the division.
			if want := int64(4 + 4 + 200 + 20 + 30 + 4); b.Chain != want {
				t.Errorf("the chain is of %d cycles, want %d", b.Chain, want)
			}
		})
	}
}

// Blocks that are not asked for do not run, and those that run have their own numbers.
func TestSomeBlocks(t *testing.T) {
	n := count(t, 4, 1<<20, Options{Blocks: slices.Values([]int{0, 5, 1<<20 - 1})})
	var got []int
	for _, b := range n.Blocks {
		got = append(got, b.Number)
	}
	if !slices.Equal(got, []int{0, 5, 1<<20 - 1}) {
		t.Errorf("blocks %v ran", got)
	}
}

// Sparse memory holds its word everywhere, keeps what is written over the borders of its parts, and takes a fill as a whole.
func TestSparseMemory(t *testing.T) {
	m := NewSparseMemory(Words(7))
	at, err := m.Alloc(1 << 35)
	check(t, err)
	word := func(o uint64) uint32 {
		t.Helper()
		b := make([]byte, 4)
		check(t, m.Read(b, at+o))
		return binary.LittleEndian.Uint32(b)
	}
	long := make([]byte, 3*partSize)
	for i := range long {
		long[i] = byte(i)
	}
	check(t, m.Write(at+partSize-8, long))
	back := make([]byte, len(long))
	if err := m.Read(back, at+partSize-8); err != nil || !slices.Equal(back, long) {
		t.Errorf("what was written does not come back: %v", err)
	}
	if word(1<<34) != 7 || word(0) != 7 || word(partSize-12) != 7 {
		t.Error("memory that was not written holds something else")
	}
	small, err := m.Alloc(1 << 20)
	check(t, err)
	check(t, m.Fill(small, 9, 1<<18))
	b := make([]byte, 4)
	if err := m.Read(b, small+12345*4); err != nil || b[0] != 9 {
		t.Errorf("after a fill there is %v, %v", b, err)
	}
	if err := m.Write(at+1<<35-2, make([]byte, 4)); err == nil {
		t.Error("a write beyond the end is taken")
	}
}
