package stream

import "testing"

func BenchmarkNormals(b *testing.B) {
	for _, c := range []Cipher{AES256CTR, ChaCha20} {
		b.Run(c.String(), func(b *testing.B) {
			s, err := New(c, KeyFromSeed(1, "bench"))
			if err != nil {
				b.Fatal(err)
			}
			dst := make([]float64, 65536)
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				s.Normals(dst, uint64(i), 0, 0)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(dst)), "ns/normal")
		})
	}
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
