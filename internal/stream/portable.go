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
	chacha: func(k *Key) keystream { return &portableChaCha{*k} },
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
