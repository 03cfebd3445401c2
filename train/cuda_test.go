package train

import (
	"bytes"
	"log/slog"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/cuda"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/internal/cuda/driver/fake"
	"github.com/privgrad/privgrad/internal/device"
)

// Whole runs on a GPU, which a fake driver stands for: with secure noise, whose
// cipher is the device's, with exact noise, and with seeded noise, which is the
// same on every device.
func TestRunOnGPU(t *testing.T) {
	var log bytes.Buffer // of the latest run
	records := 400
	run := func(t *testing.T, c Config, d device.Device) *Result {
		t.Helper()
		log.Reset()
		c.Steps, c.TrainLossNoise, c.EvalEvery = ptr(2), ptr(1.0), 2
		r := finished(t, c, Options{Sources: sources(made(1, records)), Out: filepath.Join(t.TempDir(), "run"), Device: d, Log: slog.New(slog.NewTextHandler(&log, nil))})
		return r
	}
	open := func(t *testing.T) device.Device {
		f := fake.New(fake.Options{})
		d, err := cuda.Open(f, 0)
		check(t, err)
		t.Cleanup(func() {
			if err := d.Close(); err != nil || f.Live() != 0 {
				t.Errorf("closing gives %v, and leaves %d things of the driver", err, f.Live())
			}
		})
		return d
	}
	for _, precision := range device.Precisions()[1:] {
		t.Run(precision, func(t *testing.T) {
			c := small()
			c.Precision = precision
			got := run(t, c, open(t))
			if got.Precision != precision || !got.Guarantee || got.TestLoss == nil || !(*got.TestLoss < 10) {
				t.Errorf("a run in %s gives %+v", precision, got)
			}
		})
	}
	t.Run("features", func(t *testing.T) {
		records = 120 // in one chunk of a map, as more would be: in several, TestMapByChunks has them
		defer func() { records = 400 }()
		c := small()
		c.Noise, c.Features, c.Whiten = dpoptim.Seeded, "scatter", "none"
		got := run(t, c, open(t))
		if strings.Contains(log.String(), "features are computed") { // elsewhere
			t.Errorf("a run on the GPU says:\n%s", &log)
		}
		want := run(t, c, nil)
		if math.Abs(*got.TestLoss-*want.TestLoss) > 0.05 || *got.TestLoss == *want.TestLoss && got.Device == want.Device {
			t.Errorf("the test loss is %v, on the processor %v", *got.TestLoss, *want.TestLoss)
		}
	})
	for _, noise := range []string{dpoptim.Secure, dpoptim.Exact, dpoptim.Seeded} {
		t.Run(noise, func(t *testing.T) {
			c := small()
			c.Noise = noise
			if noise == dpoptim.Secure {
				c.Clipping = "adaptive"
			}
			got := run(t, c, open(t))
			if got.TrainLoss == nil || got.TestLoss == nil {
				t.Fatalf("losses are %v and %v", got.TrainLoss, got.TestLoss)
			}
			if noise == dpoptim.Seeded {
				// The noise's multiplier contains each device's bound on rounding, which differs by up to a percent.
				want := run(t, c, nil)
				if math.Abs(*got.TestLoss-*want.TestLoss) > 0.05 {
					t.Errorf("the test loss is %v, on the processor %v", *got.TestLoss, *want.TestLoss)
				}
			}
		})
	}
}
