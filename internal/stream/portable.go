package stream

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"

	"golang.org/x/crypto/chacha20"
)

var portable = &kernels{
	aes: func(k *Key) (keystream, error) {
		b, err := aes.NewCipher(k[:])
		return portableAES{b}, err
	},
	chacha:     func(k *Key) keystream { return &portableChaCha{*k} },
	addNormals: addNormals,
}

type portableAES struct{ block cipher.Block }

func (k portableAES) fill(dst []byte, hi, lo uint64) {
	var iv [aes.BlockSize]byte
	binary.BigEndian.PutUint64(iv[:8], hi)
	binary.BigEndian.PutUint64(iv[8:], lo)
	clear(dst)
	cipher.NewCTR(k.block, iv[:]).XORKeyStream(dst, dst)
}

type portableChaCha struct{ key Key }

func (k *portableChaCha) fill(dst []byte, hi, lo uint64) {
	var nonce [chacha20.NonceSize]byte
	binary.LittleEndian.PutUint32(nonce[:4], uint32(lo>>32))
	binary.LittleEndian.PutUint64(nonce[4:], hi)
	// The constructor refuses only wrong lengths, which the types rule out.
	c, _ := chacha20.NewUnauthenticatedCipher(k.key[:], nonce[:])
	c.SetCounter(uint32(lo))
	clear(dst)
	c.XORKeyStream(dst, dst)
}

func (k *portableChaCha) words() (w [8]uint32) {
	for i := range w {
		w[i] = binary.LittleEndian.Uint32(k.key[4*i:])
	}
	return w
}

// addNormals computes in float64 and rounds the sum.
func addNormals(dst, src []float32, raw []byte, skip int, std float32) {
	add := func(x float32, z float64) float32 { return float32(float64(x) + float64(std)*z) }
	for i := -skip; i < len(dst); i += 2 {
		a, b := boxMuller(raw[8*(skip+i):])
		if i >= 0 {
			dst[i] = add(src[i], a)
		}
		if i+1 < len(dst) {
			dst[i+1] = add(src[i+1], b)
		}
	}
}
