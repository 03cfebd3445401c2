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

func BenchmarkAddNormals(b *testing.B) {
	eachImplementation(b, func(b *testing.B) {
		for _, c := range ciphers {
			b.Run(c.String(), func(b *testing.B) {
				s := newStream(b, c, KeyFromSeed(1, "bench"))
				dst := make([]float32, 65536)
				b.ReportAllocs()
				b.ResetTimer()
				for i := range b.N {
					s.AddNormals(dst, dst, 1, uint64(i), 0, 0)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(dst)), "ns/normal")
			})
		}
	})
}

func BenchmarkFill(b *testing.B) {
	eachImplementation(b, func(b *testing.B) {
		for _, c := range ciphers {
			b.Run(c.String(), func(b *testing.B) {
				s := newStream(b, c, KeyFromSeed(1, "bench"))
				dst := make([]byte, chunk)
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
