package bench

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/privgrad/privgrad/internal/cpu/gemm"
	"github.com/privgrad/privgrad/internal/cpu/peak"
	"github.com/privgrad/privgrad/internal/exact"
	"github.com/privgrad/privgrad/internal/stream"
	"github.com/privgrad/privgrad/train"
)

func TestGEMM(t *testing.T) {
	r, err := GEMM(GEMMOptions{Model: "cnn-mnist", Batch: 20, Threads: 1, Seconds: 0.01})
	check(t, err)
	want := []Product{ // README's LeNet: 28, 24, 12, 8 and 4 pixels a side
		convProduct(6, 1, 5, 24, 24), convProduct(6, 1, 5, 24, 24).gradient().pooled(144), convProduct(16, 6, 5, 8, 8), convProduct(16, 6, 5, 8, 8).gradient().pooled(16),
		{M: 20, K: 256, N: 256, Kind: dense}, {M: 20, K: 256, N: 128, Kind: dense}, {M: 20, K: 128, N: 10, Kind: dense},
	}
	var got []Product
	known := peak.Run(1)
	if r.ISA != gemm.ISA() || r.PeakISA != peak.ISA() || (r.PeakISA != "") != known {
		t.Errorf("products by %q, peak by %q", r.ISA, r.PeakISA)
	}
	for _, p := range r.Products {
		got = append(got, p.Product)
		if p.Threads != 1 || p.ISA != gemm.ISA() || !(p.GFLOPS > 0) {
			t.Errorf("%+v", p)
		}
		if (p.Peak != nil) != known || (p.Fraction != nil) != known || known && !(*p.Peak > 0 && *p.Fraction > 0) {
			t.Errorf("%+v: peak %v, share %v", p, deref(p.Peak), deref(p.Fraction))
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("products are %v, want %v", got, want)
	}
	if all, err := (&GEMMOptions{Model: "logistic", Batch: 7}).layerProducts(); err != nil || len(all) != 1 || all[0] != (Product{M: 7, K: 784, N: 1, Kind: dense}) {
		t.Errorf("logistic has %v, %v", all, err)
	}
	if n := pooling(nil); n != 0 {
		t.Errorf("behind a last convolution there are %d windows", n)
	}
	b, err := json.Marshal(ProductResult{Product: Product{M: 1, K: 2, N: 3, Kind: conv}, Threads: 4, GFLOPS: 5, ISA: "x"})
	if want := `{"m":1,"k":2,"n":3,"kind":"conv","threads":4,"gflops":5,"peak_gflops":null,"fraction":null,"isa":"x"}`; err != nil || string(b) != want {
		t.Errorf("got %s, want %s", b, want)
	}
}

// Threads share one dense product and have examples of their own of the rest.
func TestWorkIsCountedOnce(t *testing.T) {
	for _, p := range []Product{
		{M: 7, K: 3, N: 5, Kind: dense}, {M: 3, K: 4, N: 40, Kind: dense}, convProduct(6, 1, 3, 2, 5), convProduct(5, 2, 3, 4, 3).gradient(),
		convProduct(6, 1, 5, 8, 8).gradient().pooled(16),
	} {
		for _, threads := range []int{1, 2, 3, 40} {
			parts, flops := p.work(threads)
			want := float64(2 * p.M * p.K * p.N)
			if p.Kind != dense {
				want *= float64(threads)
			}
			if len(parts) != threads || flops != want {
				t.Errorf("%v: %d parts of %v operations together, want %d of %v", p, len(parts), flops, threads, want)
			}
			together(threads, func(i int) { parts[i](2) })
		}
	}
}

func TestTogetherWaitsForAll(t *testing.T) {
	for _, threads := range []int{1, 2, 5} {
		var done, seen atomic.Int64
		together(threads, func(i int) {
			done.Add(1)
			seen.Add(1 << i)
		})
		if done.Load() != int64(threads) || seen.Load() != 1<<threads-1 {
			t.Errorf("%d threads: %d ran, as %b", threads, done.Load(), seen.Load())
		}
	}
}

func TestNoise(t *testing.T) {
	r, err := Noise(NoiseOptions{Threads: 1, Seconds: 0.01})
	check(t, err)
	var ciphers []string
	for _, c := range r.Ciphers {
		ciphers = append(ciphers, c.Noise+" "+c.Cipher)
		if product := c.SecondsPerDraw * c.DrawsPerSecond; c.Threads != 1 || math.Abs(product-1) > 1e-12 {
			t.Errorf("%+v", c)
		}
	}
	if !slices.Equal(ciphers, []string{"release AES-256-CTR", "release ChaCha20", "exact AES-256-CTR", "exact ChaCha20"}) {
		t.Errorf("ciphers are %q", ciphers)
	}
	b, _ := json.Marshal(CipherResult{Noise: "z", Cipher: "x", Threads: 1, SecondsPerDraw: 2, DrawsPerSecond: 3})
	if want := `{"noise":"z","cipher":"x","threads":1,"seconds_per_draw_per_core":2,"draws_per_second":3}`; string(b) != want {
		t.Errorf("got %s, want %s", b, want)
	}
}

// What is timed is a release's work: every value gets its own normal.
func TestDrawerAddsNoise(t *testing.T) {
	s, err := stream.New(stream.AES256CTR, stream.KeyFromSeed(1, "drawer"))
	check(t, err)
	dst := make([]float32, noiseBlock)
	draw, err := release(dst, s, 5)
	check(t, err)
	draw(3)
	g, err := exact.New(gridSteps, s, 5)
	check(t, err)
	want := make([]int64, noiseBlock)
	g.Add(want, 3, 0)
	for i, z := range want {
		if w := float32(float64(z) / gridSteps); dst[i] != w {
			t.Fatalf("value %d is %v, not %v", i, dst[i], w)
		}
	}
}

// The rows of a step at a fixed key are fixed, and so is their number.
func TestSampler(t *testing.T) {
	r, err := Sampler(SamplerOptions{Records: 5000, Batch: 50, Seconds: 0.01})
	check(t, err)
	for i, cipher := range []string{"AES-256-CTR", "ChaCha20"} {
		s := r.Samplers[i]
		if s.Sampler != "poisson" || s.Cipher != cipher || s.Records != 5000 || s.Rate != 0.01 || s.Batches < 1 || !(s.BatchSeconds > 0) || !(s.RowsPerSecond > 0) {
			t.Errorf("%+v", s)
		}
	}
	b, _ := json.Marshal(SamplerEntry{Sampler: "x", Cipher: "y", Records: 1, Rate: 2, Batches: 3, BatchSeconds: 4, RowsPerSecond: 5})
	if want := `{"sampler":"x","cipher":"y","records":1,"sampling_rate":2,"batches_timed":3,"batch_seconds_median":4,"rows_per_second":5}`; string(b) != want {
		t.Errorf("got %s, want %s", b, want)
	}
}

func TestKernelBenchmarksRefuse(t *testing.T) {
	for want, run := range map[string]func() error{
		"seconds 0":      func() error { _, err := GEMM(GEMMOptions{}); return err },
		"threads -2":     func() error { _, err := GEMM(GEMMOptions{Threads: -2, Seconds: 1}); return err },
		"batch 0":        func() error { _, err := GEMM(GEMMOptions{Model: "cnn-mnist", Seconds: 1}); return err },
		`"vgg"`:          func() error { _, err := GEMM(GEMMOptions{Model: "vgg", Batch: 1, Seconds: 1}); return err },
		"seconds NaN":    func() error { _, err := Noise(NoiseOptions{Seconds: math.NaN()}); return err },
		"threads 100000": func() error { _, err := Noise(NoiseOptions{Threads: 100000, Seconds: 1}); return err },
		"seconds 4000":   func() error { _, err := Sampler(SamplerOptions{Records: 1, Batch: 1, Seconds: 4000}); return err },
		"records 0":      func() error { _, err := Sampler(SamplerOptions{Batch: 1, Seconds: 1}); return err },
		"batch 9":        func() error { _, err := Sampler(SamplerOptions{Records: 8, Batch: 9, Seconds: 1}); return err },
		"batch NaN":      func() error { _, err := Sampler(SamplerOptions{Records: 8, Batch: math.NaN(), Seconds: 1}); return err },
	} {
		err := run()
		var u *train.UsageError
		if !errors.As(err, &u) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
