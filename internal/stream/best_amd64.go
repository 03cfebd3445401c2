//go:build !noasm

package stream

import (
	"encoding/binary"

	"golang.org/x/sys/cpu"
)

func best() *kernels {
	switch {
	case !cpu.X86.HasAVX2:
		return portable
	case !cpu.X86.HasAES:
		return avx2
	case leaf7()&(1<<9) == 0: // VAES; with AVX2 it needs no more of the operating system
		return aesni
	case !cpu.X86.HasAVX512F:
		return vaes
	}
	return avx512
}

// avx2 is for processors without AES instructions, the others for those with
// one block or two at a time. avx512 has sixteen blocks of ChaCha20 for eight; AES is as
// fast in wider registers.
var (
	avx2   = &kernels{portable.aes, newChaCha(false)}
	aesni  = &kernels{newAES(false), newChaCha(false)}
	vaes   = &kernels{newAES(true), newChaCha(false)}
	avx512 = &kernels{newAES(true), newChaCha(true)}
)

type fastAES struct {
	keys [15][16]byte
	wide bool
}

func newAES(wide bool) func(*Key) (keystream, error) {
	return func(k *Key) (keystream, error) {
		f := &fastAES{wide: wide}
		expandKey((*[32]byte)(k), &f.keys)
		return f, nil
	}
}

func (k *fastAES) fill(dst []byte, hi, lo uint64) {
	const group = 256
	n := len(dst) &^ (group - 1)
	if n > 0 {
		k.whole(dst[:n], hi, lo)
	}
	if n < len(dst) {
		var rest [group]byte
		k.whole(rest[:], hi, lo+uint64(n/16))
		copy(dst[n:], rest[:])
	}
}

func (k *fastAES) whole(dst []byte, hi, lo uint64) {
	if k.wide {
		aesVAES(dst, &k.keys, hi, lo)
	} else {
		aesNI(dst, &k.keys, hi, lo)
	}
}

// fastChaCha is the state of RFC 8439, section 2.3, but for counter and nonce.
type fastChaCha struct {
	state [16]uint32
	wide  bool
}

func newChaCha(wide bool) func(*Key) keystream {
	return func(k *Key) keystream {
		f := &fastChaCha{[16]uint32{0x61707865, 0x3320646e, 0x79622d32, 0x6b206574}, wide}
		for i := range 8 {
			f.state[4+i] = binary.LittleEndian.Uint32(k[4*i:])
		}
		return f
	}
}

func (k *fastChaCha) fill(dst []byte, hi, lo uint64) {
	state := k.state
	state[12], state[13] = uint32(lo), uint32(lo>>32)
	state[14], state[15] = uint32(hi), uint32(hi>>32)
	const group, double = 512, 1024
	if n := len(dst) &^ (double - 1); k.wide && n > 0 {
		chachaAVX512(dst[:n], &state)
		dst = dst[n:]
	}
	n := len(dst) &^ (group - 1)
	if n > 0 {
		chachaAVX2(dst[:n], &state)
	}
	if n < len(dst) {
		var rest [group]byte
		chachaAVX2(rest[:], &state)
		copy(dst[n:], rest[:])
	}
}

func (k *fastChaCha) words() [8]uint32 { return [8]uint32(k.state[4:12]) }
