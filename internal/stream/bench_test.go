package stream

import "testing"

func BenchmarkFill(b *testing.B) {
	eachImplementation(b, func(b *testing.B) {
		for _, c := range ciphers {
			b.Run(c.String(), func(b *testing.B) {
				s := newStream(b, c, KeyFromSeed(1, "bench"))
				dst := make([]byte, 16384) // half of L1
				b.SetBytes(int64(len(dst)))
				for b.Loop() {
					s.Fill(dst, 0, 0)
				}
			})
		}
	})
}

func BenchmarkReader(b *testing.B) {
	for _, c := range []Cipher{AES256CTR, ChaCha20} {
		b.Run(c.String(), func(b *testing.B) {
			s, err := New(c, KeyFromSeed(1, "bench"))
			if err != nil {
				b.Fatal(err)
			}
			r := s.Reader(0, 0)
			b.SetBytes(8)
			b.ReportAllocs()
			for b.Loop() {
				r.Uint64()
			}
		})
	}
}
