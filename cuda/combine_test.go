package cuda_test

import (
	"errors"
	"testing"

	"github.com/privgrad/privgrad/cuda"
	"github.com/privgrad/privgrad/internal/cuda/driver"
	"github.com/privgrad/privgrad/internal/cuda/driver/fake"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/devicetest"
	"github.com/privgrad/privgrad/internal/stream"
	"github.com/privgrad/privgrad/perexample"
)

// totals add up nothing, or fail at a call, counted from 1.
type totals struct{ calls, fail int }

var errGone = errors.New("a rank has ended")

func (c *totals) call() error {
	if c.calls++; c.calls == c.fail {
		return errGone
	}
	return nil
}

func (c *totals) SumInt64([]int64) error     { return c.call() }
func (c *totals) SumFloat64([]float64) error { return c.call() }

// combined makes three steps of a sum that is combined, and of its norm.
func combined(t *testing.T, d *cuda.Device, of device.Totals) error {
	t.Helper()
	p := program(t, "mlp-hinge")
	c := devicetest.NewCase(t, p, 9, 1)
	f := devicetest.Open(t, d, private(t, p, perexample.Auto), c, 9)
	noise, err := stream.New(stream.ChaCha20, stream.KeyFromSeed(3, "combined"))
	must(t, err)
	norm, err := f.Net.NewScalarSum(1)
	must(t, err)
	gradient, err := f.Net.NewVector(1)
	must(t, err)
	out, err := f.Net.NewScalars(1)
	must(t, err)
	add, err := f.Net.Record(func(q device.Queue) { q.ClippedSum(f.Sum, f.Data) })
	must(t, err)
	step, err := f.Net.Record(func(q device.Queue) {
		c := q.(device.Combiner)
		right, normRight := device.NewNoise(noise, 0), device.NewNoise(noise, 1).WithSlots(device.NormStd, device.NormStep)
		c.CombinedNorm(norm, f.Sum, device.Hidden{Step: device.NormStep, Scales: []device.Slot{device.NormStd}}, of)
		c.Release(out, norm, normRight)
		c.Combine(f.Sum, device.Hidden{Step: device.NoiseStep, Scales: []device.Slot{device.NoiseStd}}, of)
		c.Release(gradient, f.Sum, right)
		c.Update(device.SGD, f.Net.Params(), gradient)
	})
	must(t, err)
	for draw := range uint64(3) {
		in := &device.Inputs{Draw: 2 * draw}
		in.Scalars[device.Clip], in.Scalars[device.NoiseStd], in.Scalars[device.NoiseStep] = 1, 1, 0x1p-20
		in.Scalars[device.NormStd], in.Scalars[device.NormStep], in.Scalars[device.Scale], in.Scalars[device.Rate] = 1, 0x1p-20, 0.1, 0.1
		in.Rows = c.All()
		if err := add.Run(in); err != nil {
			return err
		}
		in.Rows, in.Draw = nil, 2*draw+1
		if err := step.Run(in); err != nil {
			if again := f.Net.Read(f.Net.Params(), make([]float32, p.NumParams())); again == nil {
				t.Error("a net goes on after a failure")
			}
			return err
		}
		if _, err := step.Wait(); err != nil {
			return err
		}
	}
	return nil
}

// A rank that ends, and a driver that fails while the host adds up, end the run for good.
func TestCombiningFails(t *testing.T) {
	sound := &totals{}
	must(t, combined(t, open(t, fake.Options{}), sound))
	if sound.calls != 6 {
		t.Errorf("three steps of a norm and a sum add up %d times", sound.calls)
	}
	for at := range sound.calls {
		if err := combined(t, open(t, fake.Options{}), &totals{fail: at + 1}); !errors.Is(err, errGone) {
			t.Errorf("call %d fails: %v", at+1, err)
		}
	}
	for _, call := range []string{"cuMemcpyDtoH", "cuMemcpyHtoD"} {
		var at *totals
		f := fake.Options{Fail: func(c string, _ int) int {
			if c == call && at != nil && at.calls == 3 {
				return driver.Lost
			}
			return 0
		}}
		d := open(t, f)
		at = &totals{}
		var e *driver.Error
		if err := combined(t, d, at); !errors.As(err, &e) || e.Call != call {
			t.Errorf("%s fails while sums are added up: %v", call, err)
		}
	}
}
