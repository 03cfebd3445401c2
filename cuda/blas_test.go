package cuda_test

import (
	"strings"
	"testing"
	"time"

	"github.com/privgrad/privgrad/cuda"
	"github.com/privgrad/privgrad/internal/cpu"
	"github.com/privgrad/privgrad/internal/cuda/driver"
	"github.com/privgrad/privgrad/internal/cuda/driver/fake"
	"github.com/privgrad/privgrad/internal/cuda/gputest"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/devicetest"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/stream"
	"github.com/privgrad/privgrad/perexample"
)

// library is a device that leaves dense products to cuBLAS wherever it may.
type library struct{ device.Device }

func (l library) Compile(s *ir.Schedule, o device.Options) (device.Net, error) {
	o.CuBLAS = !o.Exact
	return l.Device.Compile(s, o)
}

// openLibrary skips a GPU without cuBLAS.
func openLibrary(t *testing.T, o fake.Options) device.Device {
	t.Helper()
	d := open(t, o)
	if v, err := d.CuBLAS(); err != nil {
		t.Skipf("without cuBLAS there is nothing to compare: %v", err)
	} else {
		t.Logf("cuBLAS %s", v)
	}
	return library{d}
}

// TestLongCuBLASConformance runs the suite of all devices with products by cuBLAS.
func TestLongCuBLASConformance(t *testing.T) {
	devicetest.Run(t, func(t *testing.T) device.Device {
		d := openLibrary(t, fake.Options{Seed: 3})
		if gputest.On() {
			return d
		}
		return devicetest.Sampled(d, 193)
	})
}

// TestCuBLASTrainsLikeTheCPU trains an MLP, in chunks that the last run does not fill,
// and with a library whose rows differ, which gets the weights' sums alone.
func TestCuBLASTrainsLikeTheCPU(t *testing.T) {
	p := program(t, "mlp-fmnist")
	c := devicetest.NewCase(t, p, 14, 7)
	s := private(t, p, perexample.Ghost)
	s.Chunk = 5
	host, err := cpu.Open(1)
	must(t, err)
	var want []float32
	for i, o := range []fake.Options{{}, {Seed: 4}, {Seed: 4, BLAS: fake.BLAS{RowOrder: true}}} {
		var d device.Device = host
		f := fake.New(o)
		if i > 0 {
			g, err := cuda.Open(f, 0)
			must(t, err)
			t.Cleanup(func() { must(t, g.Close()) })
			d = library{g}
		}
		x, err := train(d, s, c, 14, noise(t, stream.ChaCha20))
		must(t, err)
		tried := f.Calls("cublasGemmEx")
		for k := range 3 {
			must(t, x.step(c.All()[k:14-2*k], k, 0.5, 0.05))
		}
		got, err := x.params(len(c.Params))
		must(t, err)
		if i == 0 {
			want = got
			continue
		}
		devicetest.Near(t, got, want, 1e-5)
		if tried == 0 || f.Calls("cublasGemmStridedBatchedEx") == 0 {
			t.Error("cuBLAS multiplied nothing: the comparison is empty")
		}
		must(t, x.net.Close())
	}
}

// captured counts the products of whole rows that a step records.
func captured(t *testing.T, o fake.Options) int {
	t.Helper()
	f := fake.New(o)
	d, err := cuda.Open(f, 0)
	must(t, err)
	t.Cleanup(func() { must(t, d.Close()) })
	c := devicetest.NewCase(t, program(t, "mlp-fmnist"), 4, 1)
	net, err := d.Compile(private(t, c.Program, perexample.Ghost), device.Options{Capacity: 4, CuBLAS: true})
	must(t, err)
	data, err := d.Load(c.Rows, c.Features)
	must(t, err)
	sum, err := net.NewSum()
	must(t, err)
	before := f.Calls("cublasGemmEx")
	_, err = net.Record(func(q device.Queue) { q.ClippedSum(sum, data) })
	must(t, err)
	return f.Calls("cublasGemmEx") - before
}

// A product whose rows are added in different orders would make a record's gradient
// depend on who else is in the batch.
func TestRowsThatDifferAreNotMultiplied(t *testing.T) {
	if n := captured(t, fake.Options{Seed: 1}); n == 0 {
		t.Error("cuBLAS, whose rows are alike, gets no products")
	}
	if n := captured(t, fake.Options{Seed: 1, BLAS: fake.BLAS{RowOrder: true}}); n != 0 {
		t.Errorf("cuBLAS gets %d products whose rows differ", n)
	}
}

func TestCuBLASRefusals(t *testing.T) {
	c := devicetest.NewCase(t, program(t, "mlp-hinge"), 3, 1)
	s := private(t, c.Program, perexample.Materialise)
	for _, x := range []struct {
		name  string
		o     fake.Options
		exact bool
		words []string
	}{
		{"absent", fake.Options{BLAS: fake.BLAS{Absent: true}}, false, []string{"libcublas.so.13", "LD_LIBRARY_PATH", "--gemm own"}},
		{"TF32", fake.Options{BLAS: fake.BLAS{Reduced: true}}, false, []string{"NVIDIA_TF32_OVERRIDE", "fewer bits"}},
		{"exact", fake.Options{}, true, []string{"exact", "bits", "--gemm own"}},
		{"little memory", fake.Options{Device: driver.Info{Memory: 1 << 20}}, false, []string{"workspace of cuBLAS", "--gemm own"}},
	} {
		_, err := open(t, x.o).Compile(s, device.Options{Capacity: 3, CuBLAS: true, Exact: x.exact})
		for _, w := range x.words {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("%s: the error is %v, without %q", x.name, err, w)
			}
		}
	}
	_, err := open(t, fake.Options{}).Compile(s, device.Options{Capacity: 3, CuBLAS: true, Precision: device.TF32})
	if err == nil || !strings.Contains(err.Error(), "multiply in float32") || !strings.Contains(err.Error(), "--gemm own") {
		t.Errorf("in TF32: the error is %v", err)
	}
	host, err := cpu.Open(1)
	must(t, err)
	if _, err := host.Compile(s, device.Options{Capacity: 3, CuBLAS: true}); err != device.ErrNoLibrary {
		t.Errorf("the processor says %v", err)
	}
}

// The noise covers an order that nobody knows.
func TestCuBLASRounding(t *testing.T) {
	s := private(t, program(t, "mlp-hinge"), perexample.Ghost)
	d := open(t, fake.Options{})
	own, err := d.Compile(s, device.Options{Capacity: 3})
	must(t, err)
	theirs, err := d.Compile(s, device.Options{Capacity: 3, CuBLAS: true})
	must(t, err)
	for _, rows := range []int{2, 100, 5000} {
		if o, x := own.Rounding(rows), theirs.Rounding(rows); !(x > o && x < 3*o) {
			t.Errorf("%d rows: %v by cuBLAS, %v by the project's kernels", rows, x, o)
		}
	}
}

// TestProfile times the steps of a schedule, and changes nothing else.
func TestProfile(t *testing.T) {
	for _, lib := range []bool{false, true} {
		f := fake.New(fake.Options{})
		g, err := cuda.Open(f, 0)
		must(t, err)
		var d device.Device = g
		if lib {
			d = library{g}
		}
		c := devicetest.NewCase(t, program(t, "mlp-fmnist"), 6, 1)
		s := private(t, c.Program, perexample.Ghost)
		s.Chunk = 4
		var results [2][]float32
		for profiled := range results {
			x, err := train(d, s, c, 6, noise(t, stream.ChaCha20))
			must(t, err)
			var spent func() []time.Duration
			if profiled == 1 {
				spent = x.net.(device.Profiler).Profile()
			}
			for k := range 2 {
				must(t, x.step(c.All(), k, 1, 0))
			}
			results[profiled], err = x.params(len(c.Params))
			must(t, err)
			if profiled == 1 {
				times := spent()
				if len(times) != len(s.Steps) {
					t.Fatalf("%d times of %d steps", len(times), len(s.Steps))
				}
				sums := 0
				for i, st := range s.Steps {
					// The launch of another step does it too: norms are measured with the factors, and the project's dense products
					// take activations, the loss and each other along.
					along := st.Kind == ir.NormGhost
					if st.Kind == ir.LossGrad {
						along = !lib
					} else if st.Op != ir.NoOp && !lib {
						along = along || c.Program.Ops[st.Op].Kind.Activation() || st.Kind == ir.GradSum && sums > 0
					}
					if st.Kind == ir.GradSum {
						sums++
					}
					// By the fake's clocks every piece of work takes as long. Two runs of two chunks are 4 of each.
					if n := times[i] / (5 * time.Microsecond); n%4 != 0 || (n == 0) != along {
						t.Errorf("step %s of op %d took %v", st.Kind, st.Op, times[i])
					}
				}
				again := spent()
				must(t, x.step(c.All(), 3, 1, 0))
				if later := spent(); again[0] != times[0] || later[0] <= times[0] {
					t.Error("times do not go on")
				}
			}
			must(t, x.net.Close())
		}
		devicetest.Near(t, results[1], results[0], 0)
		must(t, g.Close())
		if f.Live() != 0 {
			t.Errorf("%d things of the driver are left", f.Live())
		}
	}
}

// A clock that fails spoils the network, and leaves nothing behind.
func TestProfileFails(t *testing.T) {
	for _, call := range []string{"cuEventCreate", "cuEventRecordWithFlags", "cuEventElapsedTime"} {
		calls := -1 // since profiling began
		f := fake.New(fake.Options{Fail: func(c string, n int) int {
			if c != call || calls < 0 {
				return 0
			}
			if calls++; calls == 3 {
				return 1
			}
			return 0
		}})
		g, err := cuda.Open(f, 0)
		must(t, err)
		c := devicetest.NewCase(t, program(t, "mlp-hinge"), 3, 1)
		x, err := train(g, private(t, c.Program, perexample.Ghost), c, 3, noise(t, stream.ChaCha20))
		must(t, err)
		calls = 0
		x.net.(device.Profiler).Profile()
		if err := x.step(c.All(), 0, 1, 1); err == nil || !strings.Contains(err.Error(), call) {
			t.Errorf("%s fails: got %v", call, err)
		}
		_ = x.net.Close()
		_ = g.Close()
		if f.Live() != 0 {
			t.Errorf("%s fails: %d things of the driver are left", call, f.Live())
		}
	}
}
