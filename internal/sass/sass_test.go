package sass

import (
	"bytes"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func tile(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("testdata/tile.sass")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func parse(t *testing.T, text string) *Function {
	t.Helper()
	functions, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return &functions[0]
}

// kernel counts a disassembly as the gate does.
func kernel(t *testing.T, text string) Kernel {
	t.Helper()
	f := parse(t, text)
	k := Kernel{Architecture: "sm_90", Name: f.Name, Needs: Needs{Threads: 128, Registers: 64, Static: 4096}, All: f.Count()}
	k.Blocks = Architectures[2].Fit(k.Needs)
	loops, err := f.Loops()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range loops {
		k.Loops = append(k.Loops, f.Count(l))
	}
	return k
}

// The outer loop is none of the innermost, a call of a label leaves the first, and a branch within the second belongs to it.
// What lies behind the kernel, a subroutine and the padding that jumps to itself, is not the kernel's.
func TestCount(t *testing.T) {
	k := kernel(t, tile(t))
	want := []Counts{
		{Instructions: 10, FFMA: 2, HMMA: 2, LDG: Widths{0, 0, 1}, LDGSTS: Widths{0, 0, 1}, LDS: Widths{0, 0, 1}, Barriers: 1},
		{Instructions: 4},
	}
	if !reflect.DeepEqual(k.Loops, want) {
		t.Errorf("innermost loops:\n%+v\nwant\n%+v", k.Loops, want)
	}
	all := Counts{
		Instructions: 25, FFMA: 2, HMMA: 2, LDG: Widths{0, 0, 1}, STG: Widths{1}, LDGSTS: Widths{0, 0, 1}, LDS: Widths{0, 0, 1}, STS: Widths{0, 1},
		Calls: 1, Barriers: 1,
	}
	if k.All != all {
		t.Errorf("the kernel:\n%+v\nwant\n%+v", k.All, all)
	}
}

func TestLoops(t *testing.T) {
	f := parse(t, tile(t))
	loops, err := f.Loops()
	if err != nil {
		t.Fatal(err)
	}
	if want := [][]int{{6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {19, 20, 21, 22}}; !reflect.DeepEqual(loops, want) {
		t.Errorf("loops of instructions %v, want %v", loops, want)
	}
	// Without its way back the inner loop is gone, and the outer one has no other in it.
	loops, err = parse(t, strings.Replace(tile(t), "BRA `(.L_x_2)", "NOP", 1)).Loops()
	if err != nil || len(loops) != 2 || loops[0][0] != 4 || loops[0][len(loops[0])-1] != 17 {
		t.Errorf("without the inner loop: %v, %v", loops, err)
	}
	for what, text := range map[string]string{
		"no label of it":     strings.Replace(tile(t), "BRA `(.L_x_2)", "BRA `(.L_x_77)", 1),
		"a computed address": strings.Replace(tile(t), "BRA `(.L_x_2)", "BRX R2 -0x40", 1),
	} {
		if _, err := parse(t, text).Loops(); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("got error %v, want one about %s", err, what)
		}
	}
	if _, err := Parse("a log"); err == nil {
		t.Error("a text without kernels is taken")
	}
}

const (
	copied = "LDGSTS.E.BYPASS.128 [R7], desc[UR8][R2.64] ;"
	added  = "FFMA R29, R13, R17, R29 ;"
	start  = "IADD3 R9, R9, 0x1, RZ ;" // of the second loop
)

// line makes lines of a disassembly.
func line(instructions ...string) string {
	return strings.Join(instructions, "\n        /*0fff*/                   ")
}

// A whole division of 32 bits, and what is left of one in a loop that does not change the divisor.
var (
	reciprocal = []string{
		"I2F.RP R40, R50 ;", "MUFU.RCP R41, R40 ;", "VIADD R42, R41, 0xffffffe ;", "F2I.FTZ.U32.TRUNC.NTZ R43, R42 ;",
		"IMAD R44, R45, R50, RZ ;", "IMAD.HI.U32 R43, R43, R44, R42 ;",
	}
	quotient = []string{"IMAD.HI.U32 R46, R43, R9, RZ ;", "IMAD R47, R48, R46, R9 ;"}
)

func TestDivisions(t *testing.T) {
	insert := func(at string, instructions []string) string {
		return strings.Replace(tile(t), at, line(append(slices.Clone(instructions), at)...), 1)
	}
	for _, c := range []struct {
		what, text string
		all        int
		loops      [2]int
	}{
		{"a whole one", insert(start, slices.Concat(reciprocal, quotient)), 1, [2]int{0, 1}},
		{"two of one divisor", insert(start, slices.Concat(reciprocal, quotient, quotient)), 2, [2]int{0, 2}},
		{"with the reciprocal taken before", strings.Replace(insert(start, quotient), "S2R R9, SR_TID.X ;", line(reciprocal...), 1), 1, [2]int{0, 1}},
		{"with a copy of it", strings.Replace(insert(start, append([]string{"IMAD.HI.U32 R46, R60, R9, RZ ;"}, quotient[1:]...)),
			"S2R R9, SR_TID.X ;", line(append(slices.Clone(reciprocal), "IMAD.MOV.U32 R60, RZ, RZ, R43 ;")...), 1), 1, [2]int{0, 1}},
		{"a high product that is none", insert(start, []string{"IMAD.HI.U32 R46, R43, R9, RZ ;"}), 0, [2]int{}},
		{"64 bits in a subroutine", insert(start, []string{"CALL.REL.NOINC `($__internal_1_$__cuda_sm20_div_u64) ;"}), 1, [2]int{0, 1}},
		{"a remainder in a subroutine", insert(start, []string{"CALL.REL.NOINC `($__internal_1_$__cuda_sm20_rem_s64) ;"}), 1, [2]int{0, 1}},
		{"64 bits written out", insert(start, []string{"I2F.U64.RP R40, R50 ;"}), 1, [2]int{0, 1}},
		{"of the block", insert(start, []string{"UI2F.U32.RP UR4, UR5 ;"}), 1, [2]int{0, 1}},
		{"a conversion that is none", insert(start, []string{"I2F.F64.U32 R40, R50 ;", "I2FP.F32.S32 R40, R50 ;"}), 0, [2]int{}},
	} {
		k := kernel(t, c.text)
		if k.All.Divisions != c.all || k.Loops[0].Divisions != c.loops[0] || k.Loops[1].Divisions != c.loops[1] {
			t.Errorf("%s: %d divisions, in loops %d and %d; want %d, %v", c.what, k.All.Divisions, k.Loops[0].Divisions, k.Loops[1].Divisions, c.all, c.loops)
		}
	}
}

// Faults are planted in the disassembly: each is found by its rules, and by no others.
func TestWorse(t *testing.T) {
	before := kernel(t, tile(t))
	if found := Worse([]Kernel{before}, []Kernel{before}); found != nil {
		t.Errorf("the same code is worse: %q", found)
	}
	for _, c := range []struct {
		what, old, new string
		want           []string
	}{
		{"a generic load", "LDG.E.128 R12, desc[UR8][R4.64]", "LD.E.128 R12, [R4.64]", []string{"tile: generic accesses: 1, before 0", "loop 1: generic accesses: 1, before 0"}},
		{"a generic load outside of loops", "STG.E desc[UR8][R2.64], R28", "ST.E [R2.64], R28", []string{"tile: generic accesses: 1, before 0"}},
		{"a division in a loop", start, line(append(slices.Concat(reciprocal, quotient), start)...), []string{
			"tile: integer divisions: 1, before 0", "loop 2: instructions: 12, before 4", "loop 2: integer divisions: 1, before 0",
		}},
		{"a spill", added, line("STL [R1+0x4], R29 ;", "LDL R29, [R1+0x4] ;", added), []string{
			"tile: accesses of local memory: 2, before 0", "loop 1: instructions: 12, before 10", "loop 1: share of products: 4 of 12 instructions, before 4 of 10",
			"loop 1: accesses of local memory: 2, before 0",
		}},
		{"4-byte copies", copied, line("LDGSTS.E [R7], desc[UR8][R2.64] ;", "LDGSTS.E [R7+0x4], desc[UR8][R2.64+0x4] ;", "LDGSTS.E [R7+0x8], desc[UR8][R2.64+0x8] ;",
			"LDGSTS.E [R7+0xc], desc[UR8][R2.64+0xc] ;"), []string{
			"tile: width of LDGSTS: 4 of 32, 0 of 64, 0 of 128 bits, before 0 of 32, 0 of 64, 1 of 128 bits", "loop 1: instructions: 13", "loop 1: share", "loop 1: width of LDGSTS",
		}},
		{"one 4-byte copy more", copied, line(copied, "LDGSTS.E [R7+0x10], desc[UR8][R2.64+0x10] ;"), []string{"tile: width of LDGSTS", "loop 1: instructions", "loop 1: share", "loop 1: width"}},
		{"a narrower load of shared memory", "LDS.128 R16, [R6]", "LDS.64 R16, [R6]", []string{"tile: width of LDS", "loop 1: width of LDS"}},
		{"a narrower store of shared memory", "STS.64", "STS", []string{"tile: width of STS"}},
		{"a product in two", added, line("FMUL R30, R13, R17 ;", "FADD R29, R29, R30 ;"), []string{"loop 1: instructions: 11", "loop 1: share of products: 3 of 11"}},
		{"a barrier more", added, line("BAR.SYNC.DEFER_BLOCKING 0x0 ;", added), []string{"loop 1: instructions", "loop 1: share", "loop 1: barriers a product of tensor cores: 2 for 2, before 1 for 2"}},
		{"a tensor product less", "HMMA.1688.F32.TF32 R24, R12, R17, R24 ;", "NOP ;", []string{"loop 1: share", "loop 1: barriers a product of tensor cores: 1 for 1, before 1 for 2"}},
		{"a root in a loop", start, line("CALL.REL.NOINC `($__internal_1_$__cuda_sm20_dsqrt_rn_f64_mediumpath_v1) ;", start), []string{
			"tile: calls of slow paths: 2, before 1", "loop 2: instructions", "loop 2: calls of slow paths: 1, before 0",
		}},
		{"a narrower load in place of a loop", "BRA.U UP0, `(.L_x_4)", "LDG.E R1, desc[UR8][R2.64]", []string{"tile: width of LDG"}},
		{"a loop less", "BRA.U UP0, `(.L_x_4) ;", line("NOP ;", "NOP ;"), nil},
	} {
		text := strings.Replace(tile(t), c.old, c.new, 1)
		if text == tile(t) {
			t.Fatalf("%s: nothing was planted", c.what)
		}
		found := Worse([]Kernel{before}, []Kernel{kernel(t, text)})
		fits := len(found) == len(c.want)
		for i := 0; fits && i < len(found); i++ {
			fits = strings.Contains(found[i], c.want[i])
		}
		if !fits {
			t.Errorf("%s: found\n%s\nwant\n%s", c.what, strings.Join(found, "\n"), strings.Join(c.want, "\n"))
		}
	}

	crowded := before
	crowded.Blocks--
	for _, c := range []struct {
		what        string
		before, now []Kernel
		want        int
	}{
		{"fewer blocks", []Kernel{before}, []Kernel{crowded}, 1},
		{"more blocks", []Kernel{crowded}, []Kernel{before}, 0},
		{"a new kernel", nil, []Kernel{before}, 0},
		{"a kernel less", []Kernel{before}, nil, 0},
	} {
		if found := Worse(c.before, c.now); len(found) != c.want {
			t.Errorf("%s: %q", c.what, found)
		}
	}
	short := before
	short.Loops = []Counts{before.Loops[0]}
	short.Loops[0].LDG = Widths{1}
	if found := Worse([]Kernel{before}, []Kernel{short}); len(found) != 1 || !strings.Contains(found[0], "main loop: width of LDG") {
		t.Errorf("with a loop less the main ones are not compared: %q", found)
	}
}

func TestTable(t *testing.T) {
	k := kernel(t, tile(t))
	other := k
	other.Name, other.Dynamic, other.Loops = "other", 1024, nil
	var b bytes.Buffer
	if err := Write(&b, []Kernel{k, other}); err != nil {
		t.Fatal(err)
	}
	again, err := Read(bytes.NewReader(b.Bytes()))
	if err != nil || !reflect.DeepEqual(again, []Kernel{k, other}) {
		t.Errorf("read again, the table\n%s\nis %+v, %v", b.String(), again, err)
	}
	for _, text := range []string{
		"", "kernel,loop\n",
		strings.Replace(b.String(), ",1/0/0,", ",1/0,", 1),
		strings.Replace(b.String(), "tile,sm_90,all", "tile,sm_90,1", 1),
		strings.Replace(b.String(), ",128,64,", ",128,,", 1),
	} {
		if _, err := Read(strings.NewReader(text)); err == nil {
			t.Errorf("read without an error:\n%s", text)
		}
	}
}

// Each case is bound by another limit, by hand.
func TestFit(t *testing.T) {
	for _, c := range []struct {
		a    int
		n    Needs
		want int
	}{
		{0, Needs{Threads: 256, Registers: 32}, 8},                                  // warps
		{2, Needs{Threads: 32, Registers: 16}, 32},                                  // blocks
		{2, Needs{Threads: 256, Registers: 128}, 2},                                 // registers
		{2, Needs{Threads: 128, Registers: 160, Static: 8832}, 3},                   // registers by parts
		{0, Needs{Threads: 256, Registers: 32, Static: 36864}, 4},                   // shared memory
		{2, Needs{Threads: 256, Registers: 80, Static: 0, Dynamic: 227 << 10}, 1},   // all that a block may ask for
		{1, Needs{Threads: 32, Registers: 16}, 16},                                  // the fewer blocks of sm_86
		{4, Needs{Threads: 256, Registers: 80, Static: 1024, Dynamic: 98 << 10}, 1}, //
		{4, Needs{Threads: 512, Registers: 32}, 3},                                  // the fewer warps of sm_120
	} {
		if got := Architectures[c.a].Fit(c.n); got != c.want {
			t.Errorf("%s: %+v: %d blocks, want %d", Architectures[c.a].Name, c.n, got, c.want)
		}
	}
}

// A load of matrices is one of shared memory, as wide as what each lane gets: 32 bits of every matrix.
func TestCountsLoadsOfMatrices(t *testing.T) {
	for name, want := range map[string]Widths{"LDSM.16.M88": {1, 0, 0}, "LDSM.16.MT88.2": {0, 1, 0}, "LDSM.16.M88.4": {0, 0, 1}, "LDSM.16.MT88.4": {0, 0, 1}} {
		f := Function{Code: []Instruction{{Name: name}}}
		if got := f.Count(); got.LDS != want || got.Instructions != 1 {
			t.Errorf("%s counts as %+v", name, got)
		}
	}
}
