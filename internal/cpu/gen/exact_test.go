package main

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func quadBytes(x ...uint64) (b []byte) {
	for _, v := range x {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return b
}

// The interpreted kernels give, bit by bit, the arithmetic that docs/proofs/exact-noise.md proves of a table, and stop before the first
// vector with an open draw.
func TestAVX512Draws(t *testing.T) {
	functions, m := kernelsOf(t, "../../exact", "kernels")
	r := rand.New(rand.NewPCG(9, 10))
	const rows, places, most = 63<<cellDigits + 1, 27, 0x1p19
	table := make([]uint64, 4*rows)
	for i := range table {
		table[i] = math.Float64bits(math.Ldexp(r.NormFloat64(), -i%4))
	}
	const std, magic, open, grid = 0x1.2p21, 0x1.8p25 + 0.5 + 0x1p-23, 1<<places - 1<<5, 0x1p-20
	whole := math.Float64bits(0x1.8p25) >> places
	infinite := &table[4*(math.Float64bits(5)>>(52-cellDigits)-1023<<cellDigits)] // the row of x = 5, which no other word has
	*infinite = math.Float64bits(math.Inf(1))
	for n := 0; n <= 40; n += 8 {
		for at := -1; at < n; at += 5 { // where a draw is open, if anywhere
			words, integers, src, floats := make([]uint64, n), make([]uint64, n), random(r, n), random(r, n)
			for i := range words {
				words[i] = (r.Uint64() | 1<<62) >> (i % 3 * 20)
				integers[i] = r.Uint64() >> 20
				src[i] *= [3]float32{1, 0x1p10, 0x1p30}[i%3]
			}
			if n > 0 {
				src[0], src[n-1] = nan, float32(math.Inf(1))
			}
			stop := n
			if at >= 0 {
				words[at], stop = 5, at&^7
			}
			added, released := quadBytes(integers...), floatBytes(floats)
			for i, w := range words[:stop] {
				x := math.Float64bits(float64(int64(w&math.MaxInt64 | 1)))
				row := table[4*(x>>(52-cellDigits)-1023<<cellDigits):][:4]
				u := math.Float64frombits(x&(1<<(52-cellDigits)-1)|1023<<52) - (1 + math.Ldexp(0.5, -cellDigits))
				z := math.Float64frombits(row[3] << 32)
				for k := 3; k >= 0; k-- {
					z = math.FMA(z, u, math.Float64frombits(row[k]))
				}
				sum := math.Float64bits(math.FMA(z, math.Float64frombits(math.Float64bits(std)^w&(1<<63)), magic))
				if sum&open == 0 {
					t.Fatalf("a draw is open by chance: word %#x", w)
				}
				k := sum>>places - whole
				integers[i] += k
				y := float64(src[i])
				if !(y > -most) {
					y = -most
				}
				floats[i] = float32((math.RoundToEven(min(y, most)/grid) + float64(int64(k))) * grid)
			}
			bits := math.Float64bits
			common := []any{quadBytes(words...), quadBytes(table...), bits(std), bits(magic), uint64(open), uint64(places)}
			run := func(name string, before, after []any) {
				t.Helper()
				m.run(t, functions[name], slices.Concat(before, common, after, []any{0})...)
				if done := binary.LittleEndian.Uint64(m.frame[len(m.frame)-8:]); done != uint64(stop) {
					t.Fatalf("%s stops after %d of %d, want %d", name, done, n, stop)
				}
			}
			run("addDrawsAVX512", []any{added, n, n}, []any{whole})
			if !bytes.Equal(added, quadBytes(integers...)) {
				t.Fatal("integers differ")
			}
			run("releaseAVX512", []any{released, n, n, floatBytes(src), n, n},
				[]any{bits(1 / grid), bits(-most), bits(most), bits(0x1.8p52 - float64(whole)), bits(grid)})
			check(t, released, floats)
		}
	}
}
