package features

import (
	"testing"

	"github.com/privgrad/privgrad/internal/synthetic"
)

// drawn is n images of dead leaves.
func drawn(shape [3]int, n int) []float32 {
	images, source := make([]float32, n*volume(shape)), synthetic.Leaves(shape)
	for i := range n {
		source.Draw(images[i*volume(shape):][:volume(shape)], 5, uint64(i))
	}
	return images
}

func BenchmarkRows(b *testing.B) {
	for _, spec := range shipped {
		b.Run(spec.name(), func(b *testing.B) {
			front, err := New(spec, nil)
			if err != nil {
				b.Fatal(err)
			}
			const n = 200
			images := Images{Values: drawn(spec.Shape, n)}
			for b.Loop() {
				front.Rows(images, 2, nil)
			}
			b.ReportMetric(float64(b.N)*n/b.Elapsed().Seconds(), "images/s")
		})
	}
}
