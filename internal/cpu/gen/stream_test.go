package main

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"
)

// chachaBlock is RFC 8439, section 2.3.1, word for word.
func chachaBlock(state [16]uint32) (b []byte) {
	v := state
	quarter := func(a, b, c, d int) {
		for _, by := range [2][2]int{{16, 12}, {8, 7}} {
			v[a] += v[b]
			v[d] = bits.RotateLeft32(v[d]^v[a], by[0])
			v[c] += v[d]
			v[b] = bits.RotateLeft32(v[b]^v[c], by[1])
		}
	}
	for range 10 {
		quarter(0, 4, 8, 12)
		quarter(1, 5, 9, 13)
		quarter(2, 6, 10, 14)
		quarter(3, 7, 11, 15)
		quarter(0, 5, 10, 15)
		quarter(1, 6, 11, 12)
		quarter(2, 7, 8, 13)
		quarter(3, 4, 9, 14)
	}
	for i := range v {
		b = binary.LittleEndian.AppendUint32(b, v[i]+state[i])
	}
	return b
}

func TestAVX512ChaCha(t *testing.T) {
	functions, m := kernelsOf(t, "../../stream", "kernels")
	f := functions["chachaAVX512"]
	r := rand.New(rand.NewPCG(11, 12))
	for groups := 1; groups <= 3; groups++ {
		var state [16]uint32
		var raw, want []byte
		for i := range state {
			state[i] = r.Uint32() / 2
			raw = binary.LittleEndian.AppendUint32(raw, state[i])
		}
		got := make([]byte, 1024*groups)
		m.run(t, f, got, len(got), len(got), raw)
		for range 16 * groups {
			want = append(want, chachaBlock(state)...)
			state[12]++
		}
		if !bytes.Equal(got, want) || binary.LittleEndian.Uint32(raw[48:]) != state[12] {
			t.Errorf("%d groups differ, or the counter does", groups)
		}
	}
	for _, isa := range f.ISA {
		if !slices.Contains([]string{"AVX", "AVX2", "AVX512F"}, isa) {
			t.Errorf("chachaAVX512 needs %s", isa)
		}
	}
}
