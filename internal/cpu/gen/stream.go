package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

const (
	aesRounds = 14 // of AES-256
	aesGroup  = 16 // blocks that an AES kernel writes at a time
)

func stream(g *asm) {
	leaf7(g)
	expandKey(g)
	// Sixteen blocks in eight registers keep both AES pipes busy: an instruction takes four cycles.
	aesCTR(g, "aesVAES", g.YMM, 8)
	aesCTR(g, "aesNI", g.XMM, 8)
	chacha(g)
	chacha512(g)
}

// quads returns a read-only table of 64-bit words.
func (g *asm) quads(name string, w ...uint64) Mem {
	t := make([]uint32, 0, 2*len(w))
	for _, x := range w {
		t = append(t, uint32(x), uint32(x>>32))
	}
	return g.words(name, t...)
}

// shuffle returns a shuffle that gives byte i of every sixteen the value at from(i).
func (g *asm) shuffle(name string, from func(i int) int) Mem {
	var w [8]uint32
	for i := range 32 {
		w[i/4] |= uint32(from(i%16)) << (i % 4 * 8)
	}
	return g.words(name, w[:]...)
}

func leaf7(g *asm) {
	g.function("leaf7", ") (ecx uint32", "leaf7 returns the third register of CPUID leaf 7, which must exist.")
	g.MOVL(U32(7), reg.EAX)
	g.XORL(reg.ECX, reg.ECX)
	g.CPUID()
	g.Store(reg.ECX, g.ReturnIndex(0))
	g.RET()
}

// expandKey is FIPS 197, section 5.2, for eight words of key: a step makes four words, by turns from the rotated
// substitute of the last word and from its substitute alone.
func expandKey(g *asm) {
	g.function("expandKey", "key *[32]byte, keys *[15][16]byte", "expandKey writes the round keys of AES-256.")
	key, keys := g.gp("key"), g.gp("keys")
	k := several(2, g.XMM)
	t, s := g.XMM(), g.XMM()
	for i := range k {
		g.VMOVDQU(Mem{Base: key, Disp: 16 * i}, k[i])
		g.VMOVDQU(k[i], Mem{Base: keys, Disp: 16 * i})
	}
	for i := 2; i <= aesRounds; i++ {
		four, last := k[i%2], k[(i+1)%2]
		if i%2 == 0 {
			g.VAESKEYGENASSIST(Imm(1<<(i/2-1)), last, t)
			g.VPSHUFD(Imm(0xff), t, t)
		} else {
			g.VAESKEYGENASSIST(Imm(0), last, t)
			g.VPSHUFD(Imm(0xaa), t, t)
		}
		for range 3 {
			g.VPSLLDQ(Imm(4), four, s)
			g.VPXOR(s, four, four)
		}
		g.VPXOR(t, four, four)
		g.VMOVDQU(four, Mem{Base: keys, Disp: 16 * i})
	}
	g.RET()
}

// aesCTR writes a counter mode in width registers of one or two blocks.
func aesCTR(g *asm, name string, register func() vector, width int) {
	g.function(name, "dst []byte, keys *[15][16]byte, hi, lo uint64",
		fmt.Sprintf("%s writes len(dst), a multiple of %d, bytes of AES-256 keystream from the big-endian counter hi, lo on; lo does not wrap.", name, 16*aesGroup))
	dst, n := g.base("dst"), g.length("dst")
	keys, hi, lo := g.gp("keys"), g.gp("hi"), g.gp("lo")
	// The counter is a little-endian number of 128 bits until its bytes are turned around.
	counter, reverse, key := register(), register(), register()
	size := int(counter.Size())
	g.VMOVQ(lo, counter.AsX())
	g.VPINSRQ(Imm(1), hi, counter.AsX(), counter.AsX())
	two := size == 32
	if two {
		g.VINSERTI128(Imm(1), counter.AsX(), counter, counter)
		g.VPADDQ(g.quads("counter01", 0, 0, 1, 0), counter, counter)
	}
	g.VMOVDQU(g.shuffle("reverse", func(i int) int { return 15 - i }), reverse)
	x := several(width, register)
	roundKey := func(i int) {
		if m := (Mem{Base: keys, Disp: 16 * i}); two {
			g.VBROADCASTI128(m, key)
		} else {
			g.VMOVDQU(m, key)
		}
	}
	advance := func(by int) Mem {
		return g.quads(fmt.Sprint("advance", by), uint64(by), 0, uint64(by), 0)
	}
	g.Label("loop")
	roundKey(0)
	for i := range x {
		from := counter
		if i > 0 {
			g.VPADDQ(advance(i*size/16), counter, x[i])
			from = x[i]
		}
		g.VPSHUFB(reverse, from, x[i])
		g.VPXOR(key, x[i], x[i])
	}
	g.VPADDQ(advance(width*size/16), counter, counter)
	for r := 1; r < aesRounds; r++ {
		roundKey(r)
		for i := range x {
			g.VAESENC(key, x[i], x[i])
		}
	}
	roundKey(aesRounds)
	for i := range x {
		g.VAESENCLAST(key, x[i], x[i])
		g.VMOVDQU(x[i], Mem{Base: dst, Disp: size * i})
	}
	g.ADDQ(U32(uint32(width*size)), dst)
	g.SUBQ(U32(uint32(width*size)), n)
	g.JNZ(LabelRef("loop"))
	g.end()
}

// chacha runs eight blocks side by side: word i of the state is a vector over the blocks. Sixteen words and two temporaries
// exceed the registers, so two words of the third row are in memory when they are not needed.
func chacha(g *asm) {
	g.function("chachaAVX2", "dst []byte, state *[16]uint32",
		"chachaAVX2 writes len(dst), a multiple of 512, bytes of ChaCha20 keystream from the given state on, whose counter, word",
		"12, it advances and which does not wrap.")
	dst, n, state := g.base("dst"), g.length("dst"), g.gp("state")
	spilled := g.AllocLocal(4 * 32)
	spill := func(i int) Mem { return spilled.Offset(32 * (i - 8)) }
	word := func(i int, v vector) {
		g.VPBROADCASTD(Mem{Base: state, Disp: 4 * i}, v)
		if i == 12 {
			g.VPADDD(g.words("counters", 0, 1, 2, 3, 4, 5, 6, 7), v, v)
		}
	}
	v, t := several(14, g.YMM), several(2, g.YMM)
	// at is the register of each word; words 8 and 9 share theirs with words 10 and 11.
	at := make([]vector, 16)
	copy(at, v[:10])
	copy(at[10:], v[8:10])
	copy(at[12:], v[10:])

	rotate := func(a []vector, by int) {
		if by%8 == 0 {
			m := g.shuffle(fmt.Sprint("rotate", by), func(i int) int { return i&^3 | (i-by/8)&3 })
			for i := range a {
				g.VPSHUFB(m, a[i], a[i])
			}
			return
		}
		for i := range a {
			g.VPSLLD(Imm(uint64(by)), a[i], t[i])
			g.VPSRLD(Imm(uint64(32-by)), a[i], a[i])
		}
		for i := range a {
			g.VPOR(t[i], a[i], a[i])
		}
	}
	quarters := func(a, b, c, d [2]int) {
		pick := func(w [2]int) []vector { return []vector{at[w[0]], at[w[1]]} }
		mix := func(a, b, c []vector, by int) { // a += b, c = (c ^ a) <<< by
			for i := range a {
				g.VPADDD(b[i], a[i], a[i])
			}
			for i := range a {
				g.VPXOR(a[i], c[i], c[i])
			}
			rotate(c, by)
		}
		A, B, C, D := pick(a), pick(b), pick(c), pick(d)
		mix(A, B, D, 16)
		mix(C, D, B, 12)
		mix(A, B, D, 8)
		mix(C, D, B, 7)
	}
	// swap puts the words from and from+1 away and brings the words to and to+1 back.
	swap := func(from, to int) {
		for i := range 2 {
			g.VMOVDQU(at[from+i], spill(from+i))
			g.VMOVDQU(spill(to+i), at[to+i])
		}
	}

	g.Label("loop")
	for _, i := range []int{10, 11} {
		word(i, at[i])
		g.VMOVDQU(at[i], spill(i))
	}
	for i := range at {
		if i != 10 && i != 11 {
			word(i, at[i])
		}
	}
	rounds := g.GP64()
	g.MOVQ(U32(10), rounds)
	g.repeat("rounds", rounds, func() { // two: columns, then diagonals
		quarters([2]int{0, 1}, [2]int{4, 5}, [2]int{8, 9}, [2]int{12, 13})
		swap(8, 10)
		quarters([2]int{2, 3}, [2]int{6, 7}, [2]int{10, 11}, [2]int{14, 15})
		quarters([2]int{0, 1}, [2]int{5, 6}, [2]int{10, 11}, [2]int{15, 12})
		swap(10, 8)
		quarters([2]int{2, 3}, [2]int{7, 4}, [2]int{8, 9}, [2]int{13, 14})
	})

	// The second halves of the blocks wait at their places while the first halves are turned.
	half := func(b, h int) Mem { return Mem{Base: dst, Disp: 64*b + 32*h} }
	for i := 8; i < 16; i++ {
		word(i, t[0])
		if i == 10 || i == 11 {
			g.VPADDD(spill(i), t[0], t[0])
		} else {
			g.VPADDD(at[i], t[0], t[0])
		}
		g.VMOVDQU(t[0], half(i-8, 1))
	}
	rows, columns := v[:8], append(v[8:], t...)
	for i, r := range rows {
		word(i, t[0])
		g.VPADDD(t[0], r, r)
	}
	for h := range 2 {
		if h == 1 {
			for i, r := range rows {
				g.VMOVDQU(half(i, 1), r)
			}
		}
		g.transpose(rows, columns)
		for b, c := range columns {
			g.VMOVDQU(c, half(b, h))
		}
	}
	g.ADDL(Imm(8), Mem{Base: state, Disp: 4 * 12})
	g.ADDQ(U32(512), dst)
	g.SUBQ(U32(512), n)
	g.JNZ(LabelRef("loop"))
	g.end()
}

// chacha512 runs sixteen blocks side by side, as there are registers for: word i of the state is a vector over the blocks.
func chacha512(g *asm) {
	g.function("chachaAVX512", "dst []byte, state *[16]uint32",
		"chachaAVX512 writes len(dst), a multiple of 1024, bytes of ChaCha20 keystream from the given state on, whose counter, word",
		"12, it advances and which does not wrap.")
	dst, n, state := g.base("dst"), g.length("dst"), g.gp("state")
	counters := g.ZMM()
	g.VMOVUPS(g.words("counters16", 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15), counters)
	word := func(i int, v vector) {
		g.VPBROADCASTD(Mem{Base: state, Disp: 4 * i}, v)
		if i == 12 {
			g.VPADDD(counters, v, v)
		}
	}
	var v [16]vector
	g.Label("loop")
	for i := range v {
		v[i] = g.ZMM()
		word(i, v[i])
	}
	rounds := g.GP64()
	g.MOVQ(U32(10), rounds)
	g.repeat("rounds", rounds, func() { // two: columns, then diagonals
		for diagonal := range 2 {
			at := func(row, column int) vector { return v[4*row+(column+diagonal*row)%4] }
			mix := func(a, b, c, by int) { // a += b, c = (c ^ a) <<< by
				for i := range 4 {
					g.VPADDD(at(b, i), at(a, i), at(a, i))
				}
				for i := range 4 {
					g.VPXORD(at(a, i), at(c, i), at(c, i))
				}
				for i := range 4 {
					g.VPROLD(Imm(uint64(by)), at(c, i), at(c, i))
				}
			}
			mix(0, 1, 3, 16)
			mix(2, 3, 1, 12)
			mix(0, 1, 3, 8)
			mix(2, 3, 1, 7)
		}
	})
	t := g.ZMM()
	for i := range v {
		word(i, t)
		g.VPADDD(t, v[i], v[i])
	}

	// In lane l of pairs[j][i] are words 2j and 2j+1 of blocks 4l+2i and 4l+2i+1, then in that of fours[k][c] words 4k to 4k+3 of
	// block 4l+c.
	var pairs [8][2]vector
	for j := range pairs {
		pairs[j] = [2]vector{g.ZMM(), g.ZMM()}
		g.VPUNPCKLDQ(v[2*j+1], v[2*j], pairs[j][0])
		g.VPUNPCKHDQ(v[2*j+1], v[2*j], pairs[j][1])
	}
	var fours [4][4]vector
	for k := range fours {
		for i := range 2 {
			fours[k][2*i], fours[k][2*i+1] = g.ZMM(), g.ZMM()
			g.VPUNPCKLQDQ(pairs[2*k+1][i], pairs[2*k][i], fours[k][2*i])
			g.VPUNPCKHQDQ(pairs[2*k+1][i], pairs[2*k][i], fours[k][2*i+1])
		}
	}
	const firsts, lasts, evens, odds = 0x44, 0xee, 0x88, 0xdd // of the lanes of two vectors
	lanes := func(which uint64, a, b vector) vector {
		x := g.ZMM()
		g.VSHUFI64X2(Imm(which), b, a, x)
		return x
	}
	for c := range 4 {
		for h, half := range []uint64{firsts, lasts} {
			a, b := lanes(half, fours[0][c], fours[1][c]), lanes(half, fours[2][c], fours[3][c])
			for o, which := range []uint64{evens, odds} {
				g.VMOVUPS(lanes(which, a, b), Mem{Base: dst, Disp: 64 * (4*(2*h+o) + c)})
			}
		}
	}
	g.ADDL(Imm(16), Mem{Base: state, Disp: 4 * 12})
	g.ADDQ(U32(1024), dst)
	g.SUBQ(U32(1024), n)
	g.JNZ(LabelRef("loop"))
	g.end()
}
