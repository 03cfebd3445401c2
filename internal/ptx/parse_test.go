package ptx

import (
	"strings"
	"testing"
)

const header = ".version 7.8\n.target sm_80\n.address_size 64\n"

// TestRefused has texts that are not read, with the line and the reason.
func TestRefused(t *testing.T) {
	body := func(s string) string {
		return header + ".entry k(.param .u64 p)\n{\n.reg .pred %p<3>;\n.reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<9>;\n" + s + "\nret;\n}"
	}
	for _, c := range []struct{ src, want string }{
		{"", "no kernel"},
		{".version 3.0\n", "line 1: version"},
		{header + ".entry k() { ret;", "{ without }"},
		{header + ".bogus 3", `line 4: unknown directive ".bogus"`},
		{body("frobnicate.u32 %r1, %r2;"), "line 8: frobnicate.u32: this form is unknown"},
		{body("add.u31 %r1, %r2, %r3;"), "this form is unknown"},
		{body("add.u32 %r1, %r2;"), "2 operands where 3 belong"},
		{body("add.u32 %rd1, %r2, %r3;"), "a register of 8 bytes where 4 belong"},
		{body("add.u32 %r1, %r2, 0d3FF0000000000000;"), "does not fit"},
		{body("add.u32 %r1, %r2, %r99;"), "wrong kind"},
		{body("add.u32 %p1, %r2, %r3;"), "no register"},
		{body("selp.b32 %r1, %r2, %r3, %r4;"), "no predicate"},
		{body("@%r1 bra $x;"), "is no predicate"},
		{body("bra $x;"), `no label "$x"`},
		{body("$x:\n$x:"), "a second label"},
		{body("bra $x"), "where \";\" belongs"},
		{body("ld.global.v3.f32 {%f1,%f2,%f3}, [%rd1];"), "unknown"},
		{body("ld.global.v4.f64 {%rd1,%rd2,%rd3,%rd4}, [%rd1];"), "more than 16 bytes"},
		{body("ld.global.u32 %r1, [%r2];"), "a register of 4 bytes where 8 belong"},
		{body("st.const.u32 [%rd1], %r1;"), "unknown"},
		{body("bar.sync 0, 64;"), "some of the threads"},
		{body("cvt.s32.f32 %r1, %f1;"), "unknown"},
		{body("cvt.f32.s32 %f1, %r1;"), "unknown"},
		{body("{ .param .b32 x; }"), "have them inlined"},
		{body("mov.u32 %r1, 0f12;"), `"0f12" is no number`},
		{body("cp.async.cg.shared.global [%rd1], [%rd2], 4;"), "a copy of 4 bytes"},
		{header + "/* ", "comment without end"},
	} {
		_, err := Parse([]byte(c.src))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v; want %q", c.src, err, c.want)
		}
	}
}

// TestScopes: braces hide registers, as in what clang makes of __syncthreads_or.
func TestScopes(t *testing.T) {
	got := runOne(t, `.reg .b32 %r<4>; mov.u32 %r1, 5; { .reg .b32 %r1; mov.u32 %r1, 7; } mov.b32 %r2, %r1;`, "%r2", b32)
	if got != 5 {
		t.Errorf("%d", got)
	}
}

func TestMnemonics(t *testing.T) {
	m, err := Parse([]byte(header + ".entry k() { .reg .b32 %r<3>; mov.u32 %r1, 1; add.s32 %r2, %r1, %r1; add.s32 %r2, %r1, 1; ret; }"))
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(m.Mnemonics(), " "); got != "add.s32 mov.u32 ret" {
		t.Error(got)
	}
}
