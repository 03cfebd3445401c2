package host

import (
	"math/rand/v2"
	"testing"

	"github.com/privgrad/privgrad/internal/device"
)

func BenchmarkExact(b *testing.B) {
	rnd := rand.New(rand.NewPCG(1, 2))
	gradient := make([]float32, 1<<16)
	for i := range gradient {
		gradient[i] = float32(rnd.NormFloat64())
	}
	g, dst := device.NewGrid(1), make([]int64, len(gradient))
	b.Run("scale", func(b *testing.B) {
		for b.Loop() {
			Scale(g, gradient)
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(dst)), "ns/value")
	})
	b.Run("accumulate", func(b *testing.B) {
		for b.Loop() {
			Accumulate(dst, gradient, 1e3)
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(dst)), "ns/value")
	})
}
