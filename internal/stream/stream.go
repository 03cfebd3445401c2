// Package stream turns a secret key into random numbers with random access:
// every value is a pure function of (key, position), so work may be split over
// goroutines, calls and restarts without changing a single number.
//
// The counter space under one key is 128 bits wide and divided as
//
//	step (64 bits) | tensor (32 bits) | block (32 bits)
//
// The callers' contract is that no (step, tensor) pair is used for two purposes
// under one key: whoever reads the same position reads the same bytes.
// Two things keep it where noise is drawn. A key of the operating system makes one
// Stream, and whoever draws noise of a step claims that step of its Stream first.
//
// Sources: AES-256 in counter mode, NIST SP 800-38A section 6.5; ChaCha20, RFC
// 8439 section 2.4.
package stream

//go:generate go run -C ../cpu/gen .

import (
	"crypto/aes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"sync"
	"sync/atomic"
)

// Key is a secret. No formatting verb prints it.
type Key [32]byte

// Format implements fmt.Formatter, so that no log line can hold a key.
func (Key) Format(f fmt.State, _ rune) { fmt.Fprint(f, "stream.Key(secret)") }

// NewKey draws a key from the operating system.
func NewKey() (Key, error) {
	var k Key
	if _, err := rand.Read(k[:]); err != nil {
		return Key{}, fmt.Errorf("stream: the operating system gave no random key: %w", err)
	}
	served.Store(sha256.Sum256(k[:]), false)
	return k, nil
}

// served says of the digest of every key from NewKey whether it has made a Stream.
var served sync.Map

// KeyFromSeed derives a key from a seed and a purpose, for tests and for
// reproducible runs. It is NOT PRIVATE: whoever knows or guesses the seed can
// subtract the noise. Different purposes give unrelated keys.
func KeyFromSeed(seed uint64, purpose string) Key {
	msg := []byte("privgrad stream key from seed, not private\x00")
	msg = binary.LittleEndian.AppendUint64(msg, seed)
	msg = append(msg, purpose...)
	return sha256.Sum256(msg)
}

// Cipher selects the pseudorandom function behind a Stream.
type Cipher uint8

const (
	AES256CTR Cipher = iota // fastest where the processor has AES instructions
	ChaCha20                // the same numbers on processors without them, and on GPUs
)

func (c Cipher) String() string {
	switch c {
	case AES256CTR:
		return "AES-256-CTR"
	case ChaCha20:
		return "ChaCha20"
	}
	return fmt.Sprintf("Cipher(%d)", uint8(c))
}

// BlockSize is the number of keystream bytes per counter value.
func (c Cipher) BlockSize() int {
	if c == ChaCha20 {
		return 64
	}
	return aes.BlockSize
}

// left is the number of blocks after lo before the bits that a keystream counts
// by itself are exhausted: 32 of ChaCha20, 64 of AES.
func (c Cipher) left(lo uint64) uint64 {
	if c == ChaCha20 {
		return ^lo & math.MaxUint32
	}
	return ^lo
}

// Stream gives random access to the keystream of one key. It holds no position
// but the last one claimed: all methods may be called concurrently.
type Stream struct {
	cipher  Cipher
	key     keystream
	claimed atomic.Uint64 // the highest step
}

// keystream is a cipher under one key. fill overwrites dst with the blocks from
// counter hi‖lo on, of the last one only a part where dst ends; it is not asked
// to carry, see Cipher.left.
type keystream interface {
	fill(dst []byte, hi, lo uint64)
}

// wordKey is a keystream whose key other processors can draw from.
type wordKey interface{ words() [8]uint32 }

// kernels is one implementation of the ciphers.
type kernels struct {
	aes    func(*Key) (keystream, error)
	chacha func(*Key) keystream
}

var use = best() // replaced by tests alone

// New returns the stream of a key. A key of NewKey makes one stream and is
// refused the second time, for two would repeat each other's noise.
func New(c Cipher, k Key) (*Stream, error) {
	s := &Stream{cipher: c}
	switch c {
	case AES256CTR:
		key, err := use.aes(&k)
		if err != nil {
			return nil, fmt.Errorf("stream: %w", err)
		}
		s.key = key
	case ChaCha20:
		s.key = use.chacha(&k)
	default:
		return nil, fmt.Errorf("stream: unknown cipher %v: use AES256CTR or ChaCha20", c)
	}
	digest := sha256.Sum256(k[:])
	if _, random := served.Load(digest); random && !served.CompareAndSwap(digest, false, true) {
		return nil, errors.New("stream: the key has made a stream before: draw a new one")
	}
	return s, nil
}

// Claim takes a step for whoever is about to draw noise of it, and says whether
// it was free: it must be above every step claimed before, so from 1 on. It
// allocates nothing.
func (s *Stream) Claim(step uint64) bool {
	for {
		last := s.claimed.Load()
		if step <= last {
			return false
		}
		if s.claimed.CompareAndSwap(last, step) {
			return true
		}
	}
}

// Format implements fmt.Formatter: a stream is as secret as its key.
func (*Stream) Format(f fmt.State, _ rune) { fmt.Fprint(f, "stream.Stream(secret)") }

// Cipher returns the cipher the stream was made with.
func (s *Stream) Cipher() Cipher { return s.cipher }

// KeyWords gives the key of a ChaCha20 stream as the words 4 to 11 of the cipher's
// state (RFC 8439, section 2.3), for a device that draws the stream's numbers in its own
// memory. It is as secret as Key, without Key's protection from being printed: a
// caller copies it to the device, clears it, and keeps it nowhere else. Other
// ciphers have none.
func (s *Stream) KeyWords() ([8]uint32, error) {
	k, ok := s.key.(wordKey)
	if !ok {
		return [8]uint32{}, fmt.Errorf("stream: a device cannot draw from %v: use ChaCha20", s.cipher)
	}
	return k.words(), nil
}

// Fill writes the keystream that begins at the 128-bit block counter hi‖lo. A
// block is 16 bytes of AES, whose counter is big-endian as in SP 800-38A, or 64
// bytes of ChaCha20, whose counter occupies state words 12 to 15, least
// significant word first: RFC 8439's counter is the low 32 bits of lo and its
// nonce the 96 bits above. The counter carries through all 128 bits.
func (s *Stream) Fill(dst []byte, hi, lo uint64) {
	size := uint64(s.cipher.BlockSize())
	for len(dst) > 0 {
		last := min((uint64(len(dst))-1)/size, s.cipher.left(lo))
		n := int(min((last+1)*size, uint64(len(dst))))
		s.key.fill(dst[:n], hi, lo)
		dst = dst[n:]
		var carry uint64
		lo, carry = bits.Add64(lo, last+1, 0)
		hi += carry
	}
}

var readers = sync.Pool{New: func() any { return new(Reader) }}

// Reader returns the sequential reader of one (step, tensor), to be freed when it is no longer used.
func (s *Stream) Reader(step uint64, tensor uint32) *Reader {
	r := readers.Get().(*Reader)
	r.s, r.step, r.lo, r.next = s, step, uint64(tensor)<<32, readerBuf
	return r
}

// Free clears the keystream and keeps the memory for another reader. A read after it panics.
func (r *Reader) Free() {
	*r = Reader{next: readerBuf}
	readers.Put(r)
}

const readerBuf = 4096 // bytes, a multiple of both block sizes

// Reader hands out the keystream of one (step, tensor) in order. The range
// holds 2³² blocks (64 GiB of AES, 256 GiB of ChaCha20), which a reader must
// not exceed. It is for one goroutine.
type Reader struct {
	s    *Stream
	step uint64
	lo   uint64
	next int
	buf  [readerBuf]byte
}

// Uint64 returns the next 64 uniformly distributed bits.
func (r *Reader) Uint64() uint64 {
	if r.next == readerBuf {
		r.s.Fill(r.buf[:], r.step, r.lo)
		r.lo += uint64(readerBuf / r.s.cipher.BlockSize())
		r.next = 0
	}
	v := binary.LittleEndian.Uint64(r.buf[r.next:])
	r.next += 8
	return v
}
