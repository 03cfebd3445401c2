package ptx

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"
)

func parse(t testing.TB, file string) *Module {
	t.Helper()
	src, err := os.ReadFile("testdata/" + file)
	check(t, err)
	m, err := Parse(src)
	check(t, err)
	return m
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestPlantedFaults launches kernels with one fault each, in the natural order and in others, on
// a memory that an earlier launch has used.
func TestPlantedFaults(t *testing.T) {
	m := parse(t, "faults.ptx")
	line := [3]int{64, 1, 1}
	one := [3]int{1, 1, 1}
	for _, c := range []struct {
		kernel      string
		grid, block [3]int
		kind        Kind // none: the launch succeeds
		what        string
	}{
		{"fine", one, [3]int{32, 1, 1}, "", ""},
		{"missing_barrier", one, [3]int{32, 1, 1}, Race, "has written in thread"},
		{"read_then_write", one, line, Race, "writes what line"},
		{"same_word", one, line, Race, "writes what line"},
		{"same_word", one, one, "", ""},
		{"off_by_one", one, line, OutOfBounds, "4 bytes at offset 256 of allocation 1, which has 256"},
		{"before_start", one, one, OutOfBounds, ""},
		{"shared_off_by_one", one, [3]int{32, 1, 1}, OutOfBounds, "byte 128 of a, which has 128"},
		{"dynamic_off_by_one", one, one, OutOfBounds, "offset 16 of dynamic shared memory, which has 16"},
		{"null", one, one, OutOfBounds, "no allocation is there"},
		{"misaligned_vector", one, one, Misaligned, "multiple of 16"},
		{"misaligned_word", one, one, Misaligned, "multiple of 4"},
		{"use_after_free", one, one, UseAfterFree, "allocation 1, which was freed"},
		{"unset_register", one, line, Uninitialised, "reads a register"},
		{"unset_through_move", one, line, Uninitialised, "reads a register"},
		{"unset_predicate", one, one, Uninitialised, "guarded by a predicate"},
		{"unset_stored", one, one, Uninitialised, "stores a register"},
		{"unwritten_global", one, one, Uninitialised, "never written, at offset 0 of allocation 2"},
		{"unwritten_shared", one, one, Uninitialised, "static shared memory"},
		{"unwritten_dynamic", one, line, Uninitialised, "dynamic shared memory"},
		{"unwritten_local", one, line, Uninitialised, "local memory"},
		{"divergent_barrier", one, line, Divergence, "waits at a barrier, and thread (0,0,0) has exited"},
		{"exit_before_barrier", one, line, Divergence, "has exited"},
		{"exit_before_barrier", one, [3]int{34, 1, 1}, "", ""},
		{"two_barriers", one, line, Divergence, "for another"},
		{"shuffle_partner", one, line, Divergence, "reads lane 16, which does not take part"},
		{"shuffle_exited", one, line, Divergence, "which have exited"},
		{"shuffle_never", one, line, Divergence, "which never come here"},
		{"shuffle_not_member", one, line, Divergence, "not in its own member mask"},
		{"between_blocks", [3]int{3, 1, 1}, line, Race, "of block ("},
		{"between_blocks", one, line, "", ""},
		{"atomic_and_plain", one, line, Race, "accessed atomically"},
		{"warp_order", one, line, Race, "with no barrier between"},
		{"ordered_by_warp", one, line, "", ""},
		{"narrow_neighbours", one, [3]int{8, 1, 1}, Race, "has written"},
		{"read_only_cache", one, line, Race, "reads through the read-only cache what line"},
		{"broadcast_of_own", one, [3]int{32, 1, 1}, Race, "with no barrier between"},
		{"broadcast_after_barrier", one, line, "", ""},
		{"early_use", one, one, Pending, "has not been waited for"},
		{"wrong_group", one, one, Pending, "has not been waited for"},
		{"copy_then_no_barrier", one, line, Race, "with no barrier between"},
		{"copy_then_no_barrier", one, one, "", ""},
		{"write_constant", one, one, ReadOnly, "variable c"},
		{"own_trap", one, one, Trap, ""},
		{"endless", one, line, Endless, "10000"},
		{"local_overrun", one, one, OutOfBounds, "offset 16 of local memory, which has 16"},
	} {
		for seed := range uint64(8) {
			k, err := m.Kernel(c.kernel)
			check(t, err)
			mem := NewMemory()
			p, _ := mem.Alloc(256)
			q, _ := mem.Alloc(256)
			check(t, mem.Write(p, make([]byte, 256)))
			used, err := m.Kernel("leftovers")
			check(t, err)
			check(t, used.Launch(mem, [3]int{1, 1, 1}, line, 16, []uint64{p, q}, Options{}))
			if c.kernel == "use_after_free" {
				check(t, mem.Free(p))
			}
			err = k.Launch(mem, c.grid, c.block, 16, []uint64{p, q}, Options{Seed: seed, StepLimit: 10000})
			var f *Fault
			switch {
			case c.kind == "" && err != nil:
				t.Errorf("%s: %v", c.kernel, err)
			case c.kind == "":
			case !errors.As(err, &f):
				t.Errorf("%s, seed %d: no fault but %v", c.kernel, seed, err)
			case f.Kind != c.kind, !strings.Contains(err.Error(), c.what), f.Kernel != c.kernel, f.Line == 0:
				t.Errorf("%s, seed %d: %v", c.kernel, seed, err)
			}
		}
	}
}

func TestFaultNamesThePlace(t *testing.T) {
	k, err := parse(t, "faults.ptx").Kernel("misaligned_vector")
	check(t, err)
	mem := NewMemory()
	p, _ := mem.Alloc(256)
	err = k.Launch(mem, [3]int{2, 1, 1}, [3]int{3, 2, 1}, 0, []uint64{p, 0}, Options{})
	want := "ptx: misaligned: kernel misaligned_vector, line "
	if err == nil || !strings.HasPrefix(err.Error(), want) ||
		!strings.HasSuffix(err.Error(), "(faults.cu:17), address 0x700000008, block (0,0,0), thread (0,0,0): ld.global.v4.f32: "+
			"16 bytes need an address that is a multiple of 16") {
		t.Errorf("%v", err)
	}
}

func TestAllowed(t *testing.T) {
	m := parse(t, "faults.ptx")
	for _, c := range []struct {
		kernel string
		o      Options
	}{
		{"unwritten_global", Options{AllowUninitialised: true}},
		{"unwritten_shared", Options{AllowUninitialised: true}},
	} {
		k, _ := m.Kernel(c.kernel)
		mem := NewMemory()
		p, _ := mem.Alloc(256)
		q, _ := mem.Alloc(256)
		if err := k.Launch(mem, [3]int{1, 1, 1}, [3]int{64, 1, 1}, 0, []uint64{p, q}, c.o); err != nil {
			t.Error(err)
		}
	}
}

func TestRefusedLaunches(t *testing.T) {
	m, err := Parse([]byte(header + ".entry k(.param .u64 p) .maxntid 64, 1, 1 { .shared .b8 s[40000]; ret; }"))
	check(t, err)
	k, err := m.Kernel("k")
	check(t, err)
	if k.Shared != 40000 || k.MaxThreads != 64 || len(k.Params) != 1 || k.Params[0] != (Param{"p", 8, 8, 0}) {
		t.Errorf("%+v", k)
	}
	for _, c := range []struct {
		grid, block [3]int
		shared      int
		args        int
		o           Options
		want        string
	}{
		{[3]int{1, 1, 1}, [3]int{64, 1, 1}, 9152, 1, Options{}, ""},
		{[3]int{1, 1, 1}, [3]int{64, 1, 1}, 9153, 1, Options{}, "exceed the limit of 49152"},
		{[3]int{1, 1, 1}, [3]int{64, 1, 1}, 9153, 1, Options{SharedLimit: 65536}, ""},
		{[3]int{1, 1, 1}, [3]int{65, 1, 1}, 0, 1, Options{}, ".maxntid allows 64"},
		{[3]int{1, 1, 1}, [3]int{32, 33, 1}, 0, 1, Options{}, "more than 1024"},
		{[3]int{1, 1, 1}, [3]int{0, 1, 1}, 0, 1, Options{}, "fewer than 1"},
		{[3]int{1, 65536, 1}, [3]int{1, 1, 1}, 0, 1, Options{}, "1…65535"},
		{[3]int{1, 1, 1}, [3]int{1, 1, 1}, 0, 2, Options{}, "2 arguments"},
	} {
		err := k.Launch(NewMemory(), c.grid, c.block, c.shared, make([]uint64, c.args), c.o)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if _, err := m.Kernel("j"); err == nil || !strings.Contains(err.Error(), `no kernel "j"`) {
		t.Error(err)
	}
}

func TestMemory(t *testing.T) {
	m := NewMemory()
	p, err := m.Alloc(10)
	if err != nil || p%256 != 0 {
		t.Fatal(p, err)
	}
	if ok, err := m.Written(p, 10); ok || err != nil {
		t.Error(ok, err)
	}
	if err := m.Fill(p, 0x01020304, 2); err != nil {
		t.Error(err)
	}
	b := make([]byte, 8)
	if err := m.Read(b, p); err != nil || !bytes.Equal(b, []byte{4, 3, 2, 1, 4, 3, 2, 1}) {
		t.Error(b, err)
	}
	if ok, _ := m.Written(p, 8); !ok {
		t.Error("filled bytes count as unwritten")
	}
	if ok, _ := m.Written(p, 9); ok {
		t.Error("byte 8 was never written")
	}
	host := []byte{1, 2, 3, 4}
	q, err := m.Map(host)
	check(t, err)
	if err := m.Write(q+1, []byte{9}); err != nil || host[1] != 9 {
		t.Error(host, err)
	}
	for what, err := range map[string]error{
		"past the end": m.Write(p+4, make([]byte, 7)), "no allocation": m.Read(b, 16), "inside": m.Free(p + 1), "empty": m.Free(0),
	} {
		if err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	if err := m.Free(p); err != nil {
		t.Error(err)
	}
	if m.Free(p) == nil || m.Read(b, p) == nil {
		t.Error("use after free")
	}
	if _, err := m.Alloc(0); err == nil {
		t.Error("no bytes")
	}
}
