package ptx

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// matrices is a kernel of one warp or more that copies in to shared memory, 16 bytes a thread, and has ldmatrix load n registers
// from the rows whose offsets, a word each lane, follow in memory. before stands between a barrier and the load. Registers
// %r1… are the results, %r20 is the thread, %r21 its shared address and %r22 the address that it gives.
func matrices(t testing.TB, form, copies, before string, threads int, in []uint32, at []uint32, o Options) ([]uint32, error) {
	t.Helper()
	n := int(form[strings.Index(form, ".x")+2] - '0')
	var list, stores []string
	for i := range n {
		list = append(list, fmt.Sprintf("%%r%d", i+1))
		stores = append(stores, fmt.Sprintf("st.global.u32 [%%rd8+%d], %%r%d;", 4*i, i+1))
	}
	m, err := Parse([]byte(header + `.entry k(.param .u64 a, .param .u64 b, .param .u64 c) {
	.shared .align 16 .b8 s[1024];
	.reg .pred %p<3>; .reg .b32 %r<40>; .reg .b64 %rd<20>;
	ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; ld.param.u64 %rd3, [c];
	mov.u32 %r20, %tid.x;
	mul.wide.u32 %rd4, %r20, 16; add.s64 %rd5, %rd1, %rd4;
	mul.wide.u32 %rd6, %r20, 4; add.s64 %rd7, %rd2, %rd6;
	mul.wide.u32 %rd9, %r20, ` + fmt.Sprint(4*n) + `; add.s64 %rd8, %rd3, %rd9;
	mov.u32 %r30, s; shl.b32 %r31, %r20, 4; add.u32 %r21, %r30, %r31;
	ld.global.u32 %r32, [%rd7]; add.u32 %r22, %r30, %r32;
	` + copies + `
	` + before + `
	` + form + ` {` + strings.Join(list, ", ") + `}, [%r22];
	` + strings.Join(stores, "\n") + `
	ret; }`))
	check(t, err)
	k, err := m.Kernel("k")
	check(t, err)
	d := device{t, NewMemory()}
	out := d.put(make([]uint32, threads*n))
	err = k.Launch(d.Memory, [3]int{1, 1, 1}, [3]int{threads, 1, 1}, 0, []uint64{d.put(in), d.put(at), out}, o)
	return fetch[uint32](d, out, threads*n), err
}

const (
	plainCopy = "ld.global.v4.u32 {%r33, %r34, %r35, %r36}, [%rd5]; st.shared.v4.u32 [%r21], {%r33, %r34, %r35, %r36};"
	asyncCopy = "cp.async.ca.shared.global [%r21], [%rd5], 16; cp.async.commit_group;"
)

// rowsOf gives 32 rows of 16 bytes with all elements different, and offsets of 32 rows in the order of a permutation.
func rowsOf(perm []int) (in, at []uint32) {
	for i := range 32 * 4 {
		in = append(in, uint32(2*i)|uint32(2*i+1)<<16)
	}
	for _, r := range perm {
		at = append(at, uint32(16*r))
	}
	return in, at
}

// Every form loads what the ISA's figure says, of rows in any order. Lanes beyond the rows may give any address.
func TestMatrix(t *testing.T) {
	for _, n := range []int{1, 2, 4} {
		perm := rand.New(rand.NewPCG(uint64(n), 3)).Perm(32)
		in, at := rowsOf(perm)
		for lane := 8 * n; lane < 32; lane++ {
			at[lane] = 1<<20 + 3
		}
		for _, trans := range []string{"", ".trans"} {
			for _, copies := range []string{plainCopy, asyncCopy + "cp.async.wait_all;", strings.Replace(asyncCopy, ".ca.", ".cg.", 1) + "cp.async.wait_group 0;"} {
				form := fmt.Sprintf("ldmatrix.sync.aligned.m8n8.x%d%s.shared.b16", n, trans)
				got, err := matrices(t, form, copies, "bar.sync 0;", 32, in, at, Options{})
				check(t, err)
				for lane := range 32 {
					for j := range n {
						var want uint32
						for e := range 2 {
							row, col := lane/4, lane%4*2+e
							if trans != "" {
								row, col = col, row
							}
							want |= uint32(perm[8*j+row]*8+col) << (16 * e)
						}
						if got[lane*n+j] != want {
							t.Fatalf("%s: lane %d has %#x of matrix %d, want %#x", form, lane, got[lane*n+j], j, want)
						}
					}
				}
			}
		}
	}
}

func TestMatrixFaults(t *testing.T) {
	const form = "ldmatrix.sync.aligned.m8n8.x4.shared.b16"
	in, at := rowsOf(rand.New(rand.NewPCG(1, 1)).Perm(32))
	inOrder := make([]uint32, 32)
	for i := range inOrder {
		inOrder[i] = uint32(16 * i)
	}
	changed := func(lane int, to uint32) []uint32 {
		c := slices.Clone(at)
		c[lane] = to
		return c
	}
	two := func(x []uint32) []uint32 { return slices.Concat(x, x) }
	for _, c := range []struct {
		name, copies, before string
		threads              int
		in, at               []uint32
		kind                 Kind
		what                 string
	}{
		{"as it should be", plainCopy, "bar.sync 0;", 32, in, at, "", ""},
		{"ordered within the warp", plainCopy, "bar.warp.sync 0xffffffff;", 32, in, at, "", ""},
		{"no barrier", plainCopy, "", 32, in, at, Race, "with no barrier between"},
		{"no barrier, own rows", plainCopy, "", 32, in, inOrder, Race, "with no barrier between"},
		{"another warp's rows", plainCopy, "bar.sync 0;", 64, two(in), two(at), "", ""},
		{"no barrier between warps", plainCopy, "bar.warp.sync 0xffffffff;", 64, two(in), slices.Concat(at, changed(31, 16*40)), Race, "with no barrier between"},
		{"not waited for", asyncCopy, "bar.sync 0;", 32, in, at, Pending, "has not been waited for"},
		{"too early a group", asyncCopy, "cp.async.wait_group 1; bar.sync 0;", 32, in, at, Pending, "has not been waited for"},
		{"off by 8 bytes", plainCopy, "bar.sync 0;", 32, in, changed(5, 8), Misaligned, "multiple of 16"},
		{"outside", plainCopy, "bar.sync 0;", 32, in, changed(31, 1024), OutOfBounds, "16 bytes at"},
		{"never written", plainCopy, "bar.sync 0;", 32, in, changed(17, 512), Uninitialised, "never written"},
		{"address never written", plainCopy, "bar.sync 0; mov.b32 %r22, %r39;", 32, in, at, Uninitialised, "a register"},
		{"a lane is gone", plainCopy, "bar.sync 0; setp.eq.u32 %p1, %r20, 3; @%p1 ret;", 32, in, at, Divergence, "exited"},
		{"half a warp", plainCopy, "bar.sync 0;", 16, in, changed(0, 0), Divergence, "never come here"},
		{"guarded", plainCopy, "bar.sync 0; setp.lt.u32 %p1, %r20, 8; @%p1", 32, in, at, Uninitialised, "stores a register"}, // of those that went on
	} {
		for seed := range uint64(4) {
			_, err := matrices(t, form, c.copies, c.before, c.threads, c.in, c.at, Options{Seed: seed, AllowUninitialised: c.kind == Race})
			var f *Fault
			switch {
			case c.kind == "" && err != nil:
				t.Errorf("%s: %v", c.name, err)
			case c.kind != "" && (!errors.As(err, &f) || f.Kind != c.kind || !strings.Contains(err.Error(), c.what)):
				t.Errorf("%s, seed %d: %v, want %s: %s", c.name, seed, err, c.kind, c.what)
			}
		}
	}
}

// A write behind the load races with it, unless a barrier is between: here all threads write the row that they brought once more.
func TestMatrixBeforeWrites(t *testing.T) {
	const again = "st.shared.u32 [%r21], %r20;"
	in, at := rowsOf(rand.New(rand.NewPCG(1, 1)).Perm(32))
	for between, races := range map[string]bool{"": true, "bar.warp.sync 0xffffffff;": false, "bar.sync 0;": false} {
		_, err := matrices(t, "ldmatrix.sync.aligned.m8n8.x1.shared.b16", plainCopy,
			"bar.sync 0; ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%r5, %r6, %r7, %r8}, [%r22];"+between+again+"bar.sync 0;", 32, in, at, Options{})
		var f *Fault
		if races != (errors.As(err, &f) && f.Kind == Race && strings.Contains(err.Error(), "has read")) {
			t.Errorf("between %q: %v", between, err)
		}
	}
}

// One shared load of as many bytes as a lane gets; a pass for each matrix whose rows lie in different banks, more for others.
func TestMatrixCosts(t *testing.T) {
	for _, c := range []struct {
		n, stride         int
		passes, conflicts int64
	}{
		{1, 16, 1, 0}, {2, 16, 2, 0}, {4, 16, 4, 0},
		{4, 32, 8, 4},    // every other group of four banks: two rows in each
		{2, 128, 16, 14}, // all rows in the same
		{4, 0, 4, 0},     // all rows are one
	} {
		in, at := rowsOf(make([]int, 32))
		for i := range at {
			at[i] = uint32(i % (1024 / max(c.stride, 1)) * c.stride)
		}
		counter := &Counter{Latencies: Latencies{Shared: 29}}
		copies := strings.Repeat("st.shared.v4.u32 [%r21], {%r31, %r31, %r31, %r31}; add.u32 %r21, %r21, 512;\n", 2)
		text := fmt.Sprintf("ldmatrix.sync.aligned.m8n8.x%d.shared.b16", c.n)
		_, err := matrices(t, text, copies, "bar.sync 0;", 32, in, at, Options{Counter: counter})
		check(t, err)
		b := counter.Blocks[0]
		stores := int64(2 * 4) // 16 bytes a lane: four passes each
		if b.Waves-stores != c.passes || b.Conflicts != c.conflicts {
			t.Errorf("x%d, rows %d bytes apart: %d passes, %d of conflicts, want %d and %d", c.n, c.stride, b.Waves-stores, b.Conflicts, c.passes, c.conflicts)
		}
		if !slices.Contains(b.Accesses, Access{SharedLoad, 4 * c.n, 1, 0}) || b.Instructions[SharedLoad] != 1 {
			t.Errorf("x%d counts as %v", c.n, b.Accesses)
		}
		if want := 12 + 29 + 2*(c.passes-1); b.Chain != want { // twelve instructions are issued before the barrier
			t.Errorf("x%d, rows %d bytes apart: a chain of %d cycles, want %d", c.n, c.stride, b.Chain, want)
		}
	}
}

func TestMatrixForms(t *testing.T) {
	for _, form := range []string{"ldmatrix.sync.aligned.m8n8.x3.shared.b16 {%r1, %r2, %r3}, [%r4]", "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r1}, [%r4]",
		"ldmatrix.sync.aligned.m8n8.x1.global.b16 {%r1}, [%r4]", "ldmatrix.sync.aligned.m8n8.x1.shared.b16 %r1, [%r4]", "ldmatrix.sync.aligned.m8n8.x1.shared.b8 {%r1}, [%r4]"} {
		if _, err := Parse([]byte(header + ".entry k() { .reg .b32 %r<9>; " + form + "; ret; }")); err == nil {
			t.Errorf("%s is taken", form)
		}
	}
}
