package exact

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/privgrad/privgrad/internal/stream"
)

func BenchmarkAdd(b *testing.B) {
	s, err := stream.New(stream.ChaCha20, stream.KeyFromSeed(1, "bench"))
	if err != nil {
		b.Fatal(err)
	}
	for _, std := range []float64{1, 0x1.2p20, MaxStd} {
		b.Run(fmt.Sprintf("std %g", std), func(b *testing.B) {
			g, err := New(std, s, 0)
			if err != nil {
				b.Fatal(err)
			}
			dst := make([]int64, 65536)
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				g.Add(dst, uint64(i), 0)
			}
			b.ReportMetric(float64(len(dst))*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mdraws/s")
		})
	}
}

func BenchmarkTable(b *testing.B) {
	for b.Loop() {
		normal.newCell(1<<62, 1<<62+1<<57)
	}
}

func BenchmarkLaplace(b *testing.B) {
	s, err := stream.New(stream.ChaCha20, stream.KeyFromSeed(1, "bench"))
	if err != nil {
		b.Fatal(err)
	}
	g, err := NewLaplace(0x1.2p20, s, 0)
	if err != nil {
		b.Fatal(err)
	}
	dst := make([]int64, 65536)
	for i := range b.N {
		g.Add(dst, uint64(i), 0)
	}
	b.ReportMetric(float64(len(dst))*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mdraws/s")
}

func BenchmarkDirection(b *testing.B) {
	s, err := stream.New(stream.ChaCha20, stream.KeyFromSeed(1, "bench"))
	if err != nil {
		b.Fatal(err)
	}
	for _, d := range []int{1, 784, 100000} {
		b.Run(fmt.Sprint(d), func(b *testing.B) {
			g, err := NewDirection(0x1.2p21, d, s, 0)
			if err != nil {
				b.Fatal(err)
			}
			dst := make([]int64, d)
			b.ReportAllocs()
			for i := range b.N {
				if err := g.Add(dst, uint64(i)); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(d*b.N), "ns/coordinate")
		})
	}
}

func BenchmarkRelease(b *testing.B) {
	for _, c := range []stream.Cipher{stream.AES256CTR, stream.ChaCha20} {
		b.Run(c.String(), func(b *testing.B) {
			s, err := stream.New(c, stream.KeyFromSeed(1, "bench"))
			if err != nil {
				b.Fatal(err)
			}
			g, err := New(0x1.2p21, s, 0)
			if err != nil {
				b.Fatal(err)
			}
			const n = 8192
			dst, integers, raw := make([]float32, n), make([]int64, n), make([]byte, 8*n)
			g.Release(dst, dst, 0x1p-20, 0, 0)
			for name, f := range map[string]func(step uint64){
				"release": func(step uint64) { g.Release(dst, dst, 0x1p-20, step, 0) },
				"add":     func(step uint64) { g.Add(integers, step, 0) },
				"bits":    func(step uint64) { s.Fill(raw, step, 0) },
			} {
				b.Run(name, func(b *testing.B) {
					best := time.Duration(math.MaxInt64) // which other work on the machine disturbs less than the mean
					for i := range b.N {
						start := time.Now()
						f(uint64(i))
						best = min(best, time.Since(start))
					}
					b.ReportMetric(float64(best.Nanoseconds())/n, "best-ns/draw")
				})
			}
		})
	}
}
