package train

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/cuda"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/internal/cpu"
	"github.com/privgrad/privgrad/internal/cuda/driver/fake"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/devices"
	"github.com/privgrad/privgrad/internal/plan"
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/internal/safetensors"
)

// A run by cuBLAS learns what any other does, under noise that covers its rounding, and
// says what its guarantee rests on.
func TestRunByCuBLAS(t *testing.T) {
	c := small()
	c.GEMM, c.Steps = devices.GEMMCuBLAS, ptr(3)
	run := func(f *fake.Driver) (*Result, error) {
		t.Helper()
		d, err := cuda.Open(f, 0)
		check(t, err)
		defer d.Close()
		return Run(context.Background(), c, Options{Sources: sources(made(1, 100)), Out: filepath.Join(t.TempDir(), "run"), Device: d})
	}
	f := fake.New(fake.Options{})
	r, err := run(f)
	check(t, err)
	if !r.Guarantee || !slices.Contains(r.Assumptions, "cublas_adds_every_row_alike") || f.Calls("cublasGemmStridedBatchedEx") == 0 {
		t.Errorf("guarantee %v, assuming %v, with %d sums by cuBLAS", r.Guarantee, r.Assumptions, f.Calls("cublasGemmStridedBatchedEx"))
	}
	_, err = run(fake.New(fake.Options{BLAS: fake.BLAS{Absent: true}}))
	if err == nil || errors.As(err, new(*UsageError)) || !strings.Contains(err.Error(), "libcublas.so.13") || !strings.Contains(err.Error(), "--gemm own") {
		t.Errorf("without the library: %v", err)
	}
	c.Noise = dpoptim.Exact
	if _, err = run(f); !errors.As(err, new(*UsageError)) || !strings.Contains(err.Error(), "exact noise promises bits") {
		t.Errorf("with exact noise: %v", err)
	}
	c.Noise, c.Precision = dpoptim.Secure, "tf32"
	if _, err = run(f); !errors.As(err, new(*UsageError)) || !strings.Contains(err.Error(), "not in tf32") {
		t.Errorf("in TF32: %v", err)
	}
	host, err := cpu.Open(1)
	check(t, err)
	for gemm, want := range map[string]string{devices.GEMMCuBLAS: "--device cuda", "mkl": `"mkl"`} {
		if err := devices.CheckGEMM(host, gemm, device.Float32); !errors.As(err, new(*UsageError)) || !strings.Contains(err.Error(), want) {
			t.Errorf("gemm %s on the processor: %v", gemm, err)
		}
	}
}

// A result rests on what every process of its run did, also one that died before it
// saved a step.
func TestAssumptionsOfAllProcesses(t *testing.T) {
	for name, crash := range map[string]bool{"saved": false, "died": true} {
		c := small()
		c.Steps = ptr(4)
		o := Options{Sources: sources(made(1, 100)), Out: filepath.Join(t.TempDir(), "run"), block: 1}
		d, err := cuda.Open(fake.New(fake.Options{}), 0)
		check(t, err)
		ctx, first := stopAt(t, o, 1, !crash)
		if crash {
			ctx, first = stopAt(t, o, 0, false)
		}
		first.Device, c.GEMM = d, devices.GEMMCuBLAS
		if _, err := Run(ctx, c, first); !errors.Is(err, ErrInterrupted) && !errors.Is(err, errCrash) {
			t.Fatal(err)
		}
		check(t, d.Close())
		c.GEMM, o.Resume = devices.GEMMOwn, ResumeRun
		r := finished(t, c, o)
		if count := len(slices.Compact(slices.Sorted(slices.Values(r.Assumptions)))); !slices.Contains(r.Assumptions, "cublas_adds_every_row_alike") || count != len(r.Assumptions) {
			t.Errorf("%s: the run assumes %v", name, r.Assumptions)
		}
	}
}

// Runs from before assumptions were kept had floating-point noise, unless it was exact.
func TestAssumptionsOfOldCheckpoints(t *testing.T) {
	for _, noise := range []string{dpoptim.Secure, dpoptim.Exact} {
		c := small()
		c.Noise, c.PublicN = noise, ptr(200)
		o := Options{Sources: sources(made(1, 100)), Out: filepath.Join(t.TempDir(), "run")}
		ctx, first := stopAt(t, o, 5, true)
		ends(ctx, t, c, first, ErrInterrupted)
		f, err := os.Open(rundir.Dir(o.Out).State())
		check(t, err)
		tensors, meta, err := safetensors.Read(f, 1<<20)
		check(t, errors.Join(err, f.Close()))
		delete(meta, "assumptions")
		f, err = os.Create(rundir.Dir(o.Out).State())
		check(t, err)
		check(t, errors.Join(safetensors.Write(f, tensors, meta), f.Close()))
		o.Resume = ResumeRun
		r := finished(t, c, o)
		if slices.Contains(r.Assumptions, plan.RealArithmetic) != (noise == dpoptim.Secure) || !slices.Contains(r.Assumptions, "public_n_is_right") {
			t.Errorf("%s noise: the run assumes %v", noise, r.Assumptions)
		}
	}
}
