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
	"github.com/privgrad/privgrad/internal/stream"
	"github.com/privgrad/privgrad/train"
)

func TestGEMM(t *testing.T) {
	r, err := GEMM(GEMMOptions{Model: "cnn-mnist", Batch: 20, Threads: 1, Seconds: 0.01})
	if err != nil {
		t.Fatal(err)
	}
	want := []Product{ // README's LeNet: 28, 24, 12, 8 and 4 pixels a side
		{6, 25, 576, conv}, {6, 576, 25, weights}, {16, 150, 64, conv}, {16, 64, 150, weights},
		{20, 256, 256, dense}, {20, 256, 128, dense}, {20, 128, 10, dense},
	}
	var got []Product
	known := peak.Run(1)
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
	if all, err := layerProducts("logistic", 7); err != nil || len(all) != 1 || all[0] != (Product{7, 784, 1, dense}) {
		t.Errorf("logistic has %v, %v", all, err)
	}
	b, err := json.Marshal(ProductResult{Product: Product{1, 2, 3, conv}, Threads: 4, GFLOPS: 5, ISA: "x"})
	if want := `{"m":1,"k":2,"n":3,"kind":"conv","threads":4,"gflops":5,"peak_gflops":null,"fraction":null,"isa":"x"}`; err != nil || string(b) != want {
		t.Errorf("got %s, want %s", b, want)
	}
}

// Threads share one dense product and have examples of their own of the rest.
func TestWorkIsCountedOnce(t *testing.T) {
	for _, p := range []Product{{7, 3, 5, dense}, {3, 4, 40, dense}, {6, 9, 11, conv}, {5, 8, 6, weights}} {
		for _, threads := range []int{1, 2, 3} {
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
	if err != nil {
		t.Fatal(err)
	}
	var ciphers []string
	for _, c := range r.Ciphers {
		ciphers = append(ciphers, c.Cipher)
		if product := c.SecondsPerDraw * c.DrawsPerSecond; c.Threads != 1 || math.Abs(product-1) > 1e-12 {
			t.Errorf("%+v", c)
		}
	}
	if !slices.Equal(ciphers, []string{"AES-256-CTR", "ChaCha20"}) {
		t.Errorf("ciphers are %q", ciphers)
	}
	b, _ := json.Marshal(CipherResult{Cipher: "x", Threads: 1, SecondsPerDraw: 2, DrawsPerSecond: 3})
	if want := `{"cipher":"x","threads":1,"seconds_per_draw_per_core":2,"draws_per_second":3}`; string(b) != want {
		t.Errorf("got %s, want %s", b, want)
	}
}

// What is timed is a release's work: every value gets its own normal.
func TestDrawerAddsNoise(t *testing.T) {
	s, err := stream.New(stream.AES256CTR, stream.KeyFromSeed(1, "drawer"))
	if err != nil {
		t.Fatal(err)
	}
	var d drawer
	d.add(s, 3, 5)
	want := make([]float64, noiseBlock)
	s.Normals(want, 3, 5, 0)
	for i, w := range want {
		if math.Abs(float64(d.dst[i])-w) > 1e-6*math.Abs(w)+1e-9 {
			t.Fatalf("value %d is %v, not %v", i, d.dst[i], w)
		}
	}
}

// The rows of a step at a fixed key are fixed, and so is their number.
func TestSampler(t *testing.T) {
	r, err := Sampler(SamplerOptions{Records: 5000, Batch: 50, Seconds: 0.01})
	if err != nil {
		t.Fatal(err)
	}
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
