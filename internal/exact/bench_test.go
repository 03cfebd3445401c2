package exact

import (
	"fmt"
	"testing"

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
