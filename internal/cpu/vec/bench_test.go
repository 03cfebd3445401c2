package vec

import "testing"

func BenchmarkVec(b *testing.B) {
	const n = 4096
	r := newRand(1)
	dst, x, y := make([]float32, n), values(r, n), values(r, n)
	src, halves, arg := make([]uint8, n), asHalves(x), make([]int32, n)
	squared, sum := squares(x), make([]float32, 192)
	MaxPool2(dst, arg, x, 24, 24, 48, 48, 2, 0)
	var rows Runs // of 28 values, as of an image that lies in columns
	for at := 0; at+32 <= n; at += 32 {
		rows.Add(at, at/32*28, 28)
	}
	total := 0.0
	for _, f := range []struct {
		name string
		run  func()
	}{
		{"Tanh", func() { Tanh(dst, x) }},
		{"Sigmoid", func() { Sigmoid(dst, x) }},
		{"GELU", func() { GELU(dst, x) }},
		{"ReLU", func() { ReLU(dst, x) }},
		{"TanhGrad", func() { TanhGrad(dst, x, y) }},
		{"SigmoidGrad", func() { SigmoidGrad(dst, x, y) }},
		{"GELUGrad", func() { GELUGrad(dst, x, y) }},
		{"ReLUGrad", func() { ReLUGrad(dst, x, y) }},
		{"AddVec", func() { AddVec(dst, x) }},
		{"Mix", func() { Mix(dst, 0.5, x, 0.5, y) }},
		{"Mul", func() { Mul(dst, x, y) }},
		{"MulAdd", func() { MulAdd(dst, x, y, x) }},
		{"Normalize", func() { Normalize(dst, x, 1, 2, 3) }},
		{"MixSquares", func() { MixSquares(dst, 0.5, 0.5, x) }},
		{"Modulus", func() { Modulus(dst, x, y) }},
		{"AddExcess", func() { AddExcess(dst, 1, x, 100) }},
		{"Adam", func() { Adam(dst, 1e-3, x, 1, squared, 0.1, 1e-3, 1e-6) }},
		{"Gated", func() { Gated(dst, x, 0.5, y, 0.5) }},
		{"Keep", func() { Keep(dst, x, 0.5, y) }},
		{"MaxUnpool2", func() { MaxUnpool2(dst, arg, x, 24, 24, 48, 0) }},
		{"Axpy", func() { Axpy(dst, 1e-9, x) }},
		{"Scale", func() { Scale(dst, 1) }},
		{"Scaled", func() { Scaled(dst, 2, x) }},
		{"Bytes", func() { Bytes(dst, src, 2, 1) }},
		{"Halves", func() { Halves(dst, halves) }},
		{"MaxPool2", func() { MaxPool2(dst, arg, x, 24, 24, 48, 48, 2, 0) }},
		{"CopyRuns", func() { CopyRuns(dst, x, &rows) }},
		{"AddRuns", func() { AddRuns(dst, x, &rows) }},
		{"AddColumns of 64", func() { AddColumns(sum[:64], sum[64:128], x, y) }},
		{"AddColumns of 24", func() { AddColumns(sum[:24], sum[64:88], x, y) }},
		{"MixColumns of 64", func() { MixColumns(dst, sum[:64], sum[64:128], x, sum[128:192]) }},
		{"MixColumns of 24", func() { MixColumns(dst, sum[:24], sum[64:88], x, sum[128:152]) }},
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
