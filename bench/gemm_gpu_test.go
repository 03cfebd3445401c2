package bench

import (
	"errors"
	"testing"
	"time"

	"github.com/privgrad/privgrad/cuda"
	driver "github.com/privgrad/privgrad/internal/cuda/driver/fake"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/devicetest"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/perexample"
	"github.com/privgrad/privgrad/train"
)

func gpu(t *testing.T, o driver.Options) (*cuda.Device, *ir.Schedule) {
	t.Helper()
	d, err := cuda.Open(driver.New(o), 0)
	check(t, err)
	t.Cleanup(func() { d.Close() })
	b := devicetest.NewBuilder("mlp", ir.SoftmaxCrossEntropy, 1, 4, 4)
	b.Dense(b.Act(ir.ReLU, b.Dense(b.Reshape(ir.Input, 16), 5, true)), 3, true)
	s, err := perexample.Private(b.Program(), perexample.Options{Strategy: perexample.Ghost, Clipping: ir.Flat})
	check(t, err)
	return d, s
}

// The comparison multiplies the same by both, and says what cuBLAS would not be given.
func TestGPUGEMM(t *testing.T) {
	for _, b := range []driver.BLAS{{}, {RowOrder: true}, {Absent: true}} {
		d, s := gpu(t, driver.Options{Seed: 2, BLAS: b})
		r, err := compareGEMM(d, s, GEMMOptions{Model: "mlp-mnist", Batch: 3, Seconds: 1e-9})
		check(t, err)
		// The first layer has no gradient at its input.
		if len(r.Products) != 5 || !(r.Own > 0) || (r.CuBLAS == nil) != b.Absent || (r.NoBLAS != "") != b.Absent || (r.Faster == nil) != b.Absent {
			t.Errorf("%+v: %+v", b, r)
		}
		for _, p := range r.Products {
			if b.Absent {
				if p.CuBLAS != nil || p.Difference != nil {
					t.Errorf("without the library: %+v", p)
				}
				continue
			}
			if !(*p.Difference <= 1e-5) || !(*p.CuBLAS > 0) || *p.RowsAlike != (!b.RowOrder || p.Product == "weight sum") {
				t.Errorf("%+v: %s %s takes %v, differs by %v, rows alike %v", b, p.Layer, p.Product, *p.CuBLAS, *p.Difference, *p.RowsAlike)
			}
		}
	}
	for _, o := range []GEMMOptions{{Device: "cuda", Seconds: 1}, {Device: "cpu", Model: "mlp-mnist", Batch: 1, Seconds: 1}, {Device: "cuda", Model: "mlp-mnist", Seconds: 1}} {
		if _, err := GPUGEMM(o); !errors.As(err, new(*train.UsageError)) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// A GPU's steps are explained as the processor's are.
func TestExplainOnGPU(t *testing.T) {
	d, s := gpu(t, driver.Options{})
	net, err := d.Compile(s, device.Options{Capacity: 3})
	check(t, err)
	defer net.Close()
	data, err := d.Load(device.Rows{Count: 3, Width: 16, Targets: make([]float32, 3)}, make(device.Bytes, 48))
	check(t, err)
	sum, err := net.NewSum()
	check(t, err)
	step, err := net.Record(func(q device.Queue) { q.ClippedSum(sum, data) })
	check(t, err)
	o := &StepOptions{Batch: 3, Seconds: 1e-9}
	in := &device.Inputs{Rows: []int32{0, 1, 2}}
	in.Scalars[device.Clip] = 1
	layers, err := o.explain(s, d.Info(), net.(device.Profiler).Profile(), func() error { return step.Run(in) })
	check(t, err)
	if len(layers) != 2 {
		t.Fatalf("layers %+v", layers)
	}
	measured := 0.0 // one launch may make the gradients of both
	for i, l := range layers {
		measured += l.Measured
		if l.Forward < 5e-6 || (l.Backward > 0) != (i > 0) || l.Forward+l.Measured+l.Backward > time.Millisecond.Seconds() {
			t.Errorf("layer %+v", l)
		}
	}
	if measured < 5e-6 {
		t.Errorf("gradients took %v s", measured)
	}
}
