package gemm

import (
	"fmt"
	"testing"
)

// perSecond reports flops a call as GFLOP/s.
func perSecond(b *testing.B, flops int) {
	b.ReportMetric(float64(flops)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
}

// BenchmarkMul measures whole products, packing included.
func BenchmarkMul(b *testing.B) {
	for _, s := range []struct {
		name    string
		m, k, n int
		t       bool // B is transposed
	}{
		{"dense", 256, 784, 1000, false},
		{"large", 256, 4096, 4096, false},
		{"conv", 6, 25, 50176, false},
		{"conv", 16, 150, 12544, false},
		{"conv", 32, 288, 1024, false},
		{"conv", 64, 288, 1024, false},
		{"conv", 128, 1152, 256, false},
		{"weights", 64, 1024, 288, true},
		{"weights", 16, 196, 150, true},
		{"weights", 6, 784, 25, true},
		{"outer", 256, 1, 784, false},
		{"head", 300, 64, 10, true},
	} {
		b.Run(fmt.Sprintf("%s/%dx%dx%d", s.name, s.m, s.k, s.n), func(b *testing.B) {
			r := newRand(1)
			x, y, z := dense(r, s.m, s.k), dense(r, s.k, s.n), RowMajor(make([]float32, s.m*s.n), s.m, s.n)
			if s.t {
				y = dense(r, s.n, s.k).T()
			}
			var ws Workspace
			for b.Loop() {
				Mul(z, x, y, false, &ws)
			}
			perSecond(b, 2*s.m*s.k*s.n)
		})
	}
}

// BenchmarkMulPacked measures the convolution's core, both operands packed.
func BenchmarkMulPacked(b *testing.B) {
	for _, s := range [][3]int{
		{6, 25, 784}, {16, 150, 100}, {16, 64, 196}, {32, 256, 25}, {32, 27, 1024}, {32, 288, 1024}, {64, 288, 256}, {64, 576, 256},
		{128, 576, 64}, {128, 1152, 64}, {256, 2304, 64},
	} {
		m, k, n := s[0], s[1], s[2]
		b.Run(fmt.Sprintf("%dx%dx%d", m, k, n), func(b *testing.B) {
			r := newRand(1)
			var x PackedA
			var y PackedB
			PackA(&x, dense(r, m, k))
			PackB(&y, dense(r, k, n))
			z := RowMajor(make([]float32, m*n), m, n)
			for b.Loop() {
				MulPacked(z, &x, &y, false)
			}
			perSecond(b, 2*m*k*n)
		})
	}
}

// BenchmarkPack measures the packing of operands by the direction in which they are contiguous.
func BenchmarkPack(b *testing.B) {
	const rows, cols = 256, 784
	r := newRand(1)
	for name, m := range map[string]Matrix{"rows": dense(r, rows, cols), "columns": dense(r, cols, rows).T()} {
		var pa PackedA
		var pb PackedB
		for side, pack := range map[string]func(){"A": func() { PackA(&pa, m) }, "B": func() { PackB(&pb, m) }} {
			b.Run(side+"/"+name, func(b *testing.B) {
				b.SetBytes(4 * rows * cols)
				for b.Loop() {
					pack()
				}
			})
		}
	}
}

// BenchmarkDirect measures the convolutions of the built-in models on one image, forward and for the weights.
func BenchmarkDirect(b *testing.B) {
	r := newRand(4)
	for _, g := range []geometry{
		{1, 5, 5, 24, 24, 6}, {6, 5, 5, 8, 8, 16}, {16, 5, 5, 12, 12, 6}, {4, 4, 4, 14, 14, 16}, {64, 2, 2, 5, 5, 32}, {32, 2, 2, 7, 7, 16},
		{3, 3, 3, 32, 32, 32}, {32, 3, 3, 32, 32, 32}, {64, 3, 3, 16, 16, 64}, {128, 3, 3, 8, 8, 128}, {256, 3, 3, 8, 8, 256},
	} {
		taps := g.taps()
		x := g.values(r, taps)
		var a PackedA
		PackA(&a, dense(r, g.out, g.k()))
		var d PackedB
		delta := dense(r, g.out, g.rows*g.cols)
		positions := g.rows * g.cols
		c, dw := make([]float32, g.out*positions), RowMajor(make([]float32, g.k()*g.out), g.k(), g.out)
		run := func(name string, f func()) {
			b.Run(fmt.Sprintf("%s/%s", name, g), func(b *testing.B) {
				for b.Loop() {
					f()
				}
				b.ReportMetric(2e-9*float64(g.out*g.k()*positions)*float64(b.N)/b.Elapsed().Seconds(), "GFLOP/s")
			})
		}
		run("correlate", func() { Correlate(c, positions, &a, x, taps, false, nil, true) })
		run("contract", func() {
			Contract(dw, x, taps, delta, false, &d)
		})
		if p := NewPicker(taps, g.out, positions/4); p != nil {
			x := values(r, p.Reach())
			delta, at := g.pick(r, positions/4)
			run("picks", func() { p.Contract(dw.Data, x, delta, at) }) // as if it multiplied with all of δ
		}
	}
}

// BenchmarkWeights measures a dense layer's outputs for a stretch of records, whose weights are packed where the kernels need it.
func BenchmarkWeights(b *testing.B) {
	r := newRand(1)
	for _, s := range [][3]int{{120, 784, 1000}, {24, 784, 1000}, {120, 1024, 1024}, {128, 4096, 1024}} {
		m, k, n := s[0], s[1], s[2]
		b.Run(fmt.Sprintf("%dx%dx%d", m, k, n), func(b *testing.B) {
			x, weights, c := dense(r, m, k), dense(r, n, k), dense(r, m, n)
			var ws Workspace
			w := packed(weights)
			b.ResetTimer()
			for b.Loop() {
				w.Mul(c, x, weights, nil, &ws)
			}
			perSecond(b, 2*m*n*k)
		})
	}
}
