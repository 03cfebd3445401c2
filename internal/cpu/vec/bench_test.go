package vec

import (
	"testing"
)

func BenchmarkVec(b *testing.B) {
	const n = 4096
	r := newRand(1)
	dst, x, y := make([]float32, n), values(r, n), values(r, n)
	src, arg := make([]uint8, n), make([]int32, n/2)
	total := 0.0
	for _, f := range []struct {
		name string
		run  func()
	}{
		{"Tanh", func() { Tanh(dst, x) }},
		{"Sigmoid", func() { Sigmoid(dst, x) }},
		{"ReLU", func() { ReLU(dst, x) }},
		{"TanhGrad", func() { TanhGrad(dst, x, y) }},
		{"ReLUGrad", func() { ReLUGrad(dst, x, y) }},
		{"Axpy", func() { Axpy(dst, 1e-9, x) }},
		{"Scaled", func() { Scaled(dst, 2, x) }},
		{"Bytes", func() { Bytes(dst, src, 2, 1) }},
		{"MaxPool2", func() { MaxPool2(dst, arg, x, 24, 24, 48, 48, 2, 0) }},
		{"Sum", func() { total += Sum(x) }},
		{"SumSquares", func() { total += SumSquares(x) }},
		{"Dot", func() { total += Dot(x, y) }},
	} {
		b.Run(f.name, func(b *testing.B) {
			for b.Loop() {
				f.run()
			}
			b.ReportMetric(n*float64(b.N)/b.Elapsed().Seconds()/1e9, "Gvalues/s")
		})
	}
}
