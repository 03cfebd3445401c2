package ptx

import (
	"bytes"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
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
		{body(".reg .b32 %x<99999999>;"), "at most"},
		{body(".shared .align 3 .b8 s[4];"), "alignment 3"},
		{header + ".global .b32 g[99999999];", "at most"},
		{header + ".global .b32 g = {1, 2};", "has 4 bytes, its values 8"},
		{header + ".func f() { ret; }\n.entry k() { call f; }", "have them inlined"},
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

// TestSpaces writes by one kind of address and reads by another.
func TestSpaces(t *testing.T) {
	for name, body := range map[string]string{
		"shared, generic": `.shared .align 4 .b8 s[8]; mov.u64 %a, s; cvta.shared.u64 %a, %a; st.u32 [%a+4], 77; ld.shared.u32 %x, [s+4];`,
		"generic, shared": `.shared .align 4 .b8 s[8]; mov.u64 %a, s; st.shared.u32 [%a], 77; cvta.shared.u64 %a, %a; ld.u32 %x, [%a];`,
		"back to shared":  `.shared .u32 s; mov.u64 %a, s; cvta.shared.u64 %b, %a; cvta.to.shared.u64 %b, %b; st.shared.u32 [s], 77; ld.shared.u32 %x, [%b];`,
		"local, generic":  `.local .align 4 .b8 d[8]; mov.u64 %a, d; cvta.local.u64 %b, %a; st.u32 [%b+4], 77; ld.local.u32 %x, [%a+4];`,
		"short addresses": `.shared .u32 s; mov.u64 %a, s; cvt.u32.u64 %x, %a; st.shared.u32 [%x], 77; ld.shared.u32 %x, [s];`,
		"global, generic": `st.u32 [%out], 77; ld.global.u32 %x, [%out];`,
		"extended":        `st.global.u8 [%out], 177; ld.global.s8 %x, [%out]; sub.u32 %x, 0, %x; sub.u32 %x, %x, 2;`,
		"halves":          `.reg .b16 %h<2>; mov.b32 %x, 0x4d0001; mov.b32 {%h0, %h1}, %x; mov.b32 %x, {%h1, %h0}; and.b32 %x, %x, 255;`,
		"vectors":         `.local .align 16 .b8 d[16]; st.local.v4.u32 [d], {1, 2, 77, 4}; ld.local.v2.u32 {%x, _}, [d+8];`,
	} {
		t.Run(name, func(t *testing.T) {
			if got := runOne(t, ".reg .b64 %a, %b; .reg .b32 %x; "+body, "%x", b32); got != 77 {
				t.Errorf("%d", got)
			}
		})
	}
}

// TestNoPanic: texts with holes and swapped words are read or refused.
func TestNoPanic(t *testing.T) {
	for _, file := range []string{"sample.ptx", "faults.ptx"} {
		src, err := os.ReadFile("testdata/" + file)
		check(t, err)
		words := regexp.MustCompile(`\s+|[^\s,;\[\]{}]+|[,;\[\]{}]`).FindAll(src[:8000], -1)
		rng := rand.New(rand.NewPCG(1, 1))
		for range 400 {
			w := slices.Clone(words)
			for range 1 + rng.IntN(3) {
				i, j := rng.IntN(len(w)), rng.IntN(len(w))
				switch rng.IntN(4) {
				case 0:
					w[i] = nil
				case 1:
					w[i] = w[j]
				case 2:
					w[i], w[j] = w[j], w[i]
				default:
					w = w[:max(i, 1)]
				}
			}
			_, _ = Parse(bytes.Join(w, nil))
		}
	}
}
