package audittest

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/privgrad/privgrad/dpoptim/mechanism"
	"github.com/privgrad/privgrad/internal/audit/reach"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/devices"
	"github.com/privgrad/privgrad/internal/plan"
	"github.com/privgrad/privgrad/train"
)

// Metrics is an adversary who sees one figure in every line of a run's metrics. Steps must be so small that the
// parameters stay what they are, so that all lines are about the same sum.
type Metrics struct {
	key   string
	first float64
	value func(before, figure float64) float64 // that was released
	sums  [2]float32                           // before the noise
	noise reach.Noise
}

// lossBound clips an example's loss where training losses are released, and clipRate moves the clip norm (docs/explain/privacy.md).
const (
	lossBound = 3
	clipRate  = 0.2
)

// NewLosses is the adversary of noisy training losses.
func NewLosses(t testing.TB, worlds [2]World) *Metrics {
	t.Helper()
	scalars := rehearse(t, worlds[0])
	a := &Metrics{key: "train_loss", noise: reach.NoiseOf(&scalars)}
	for w, world := range worlds {
		p := world.resolve(t)
		a.value = func(_, loss float64) float64 { return loss * p.ExpectedBatch }
		p.Sigma = 0
		a.sums[w] = losses(t, p, world.Options.Device, scalars[device.NoiseStep])
	}
	return a
}

// losses sums the clipped losses of all records at the initial parameters, without noise, each truncated to a
// multiple of step, as a release with noise truncates them.
func losses(t testing.TB, p *plan.Plan, d device.Device, step float32) float32 {
	t.Helper()
	d, data, rows := load(t, p, d)
	net, err := d.Compile(p.Schedule, device.Options{Capacity: p.Capacity})
	fatal(t, err)
	defer net.Close()
	fatal(t, net.Write(net.Params(), p.Network.Params()))
	direction, err := net.NewVector(1)
	fatal(t, err)
	private, err := net.NewScalarSum(1)
	fatal(t, err)
	released, err := net.NewScalars(1)
	fatal(t, err)
	m := mechanism.NewUnprotected(lossBound, noise(t, p))
	sum, err := net.Record(func(q device.Queue) {
		q.Losses(private, data, device.LossQuery{At: net.Params(), Dir: direction, K: 1})
	})
	fatal(t, err)
	release, err := net.Record(func(q device.Queue) { m.Release(q, released, private) })
	fatal(t, err)
	in := device.Inputs{Rows: rows, Draw: 1}
	m.Set(&in)
	in.Scalars[device.NoiseStep] = step
	fatal(t, sum.Run(&in))
	in.Rows = nil
	fatal(t, release.Run(&in))
	value := make([]float32, 1)
	fatal(t, net.Read(released, value))
	return value[0]
}

// NewCounts is the adversary of clip norms that move, where all gradients are longer: of the released counts, then, of
// −½ for every record.
func NewCounts(t testing.TB, worlds [2]World) *Metrics {
	t.Helper()
	a := &Metrics{key: "clip"}
	for w, world := range worlds {
		p := world.resolve(t)
		a.first = p.Config.Clip
		a.value = func(before, clip float64) float64 {
			return p.ExpectedBatch * (*p.Config.ClipQuantile - 0.5 - math.Log(clip/before)/clipRate)
		}
		a.sums[w] = -float32(p.Set.Train.Len()) / 2
	}
	scalars := rehearse(t, worlds[0])
	a.noise = reach.Noise{Std: scalars[device.CountStd], Step: float64(scalars[device.CountStep])}
	return a
}

// rehearse is a run of the adversary's own, for what the last step with noise is told.
func rehearse(t testing.TB, w World) (s reach.Scalars) {
	t.Helper()
	var err error
	o := w.Options
	if o.Device == nil {
		o.Device, err = devices.Open(w.Config.Device, w.Config.Threads)
		fatal(t, err)
		defer o.Device.Close()
	}
	o.Device, o.Out = reach.Listen(o.Device, &s), filepath.Join(t.TempDir(), "rehearsal")
	_, err = train.Run(context.Background(), w.Config, o)
	fatal(t, err)
	return s
}

// LogRatio is how much the figures in a run directory speak for the second world.
func (a *Metrics) LogRatio(t testing.TB, dir string) float64 {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "metrics.jsonl"))
	fatal(t, err)
	var seen []reach.Range
	var sums [2][]float32
	before := a.first
	for line := range bytes.Lines(text) {
		var figures map[string]any
		fatal(t, json.Unmarshal(line, &figures))
		x, ok := figures[a.key].(float64)
		if !ok {
			t.Fatalf("no %s in %s", a.key, line)
		}
		seen = append(seen, reach.Exactly(float32(a.value(before, x))))
		for w := range sums {
			sums[w] = append(sums[w], a.sums[w])
		}
		before = x
	}
	return a.noise.LogRatio(seen, sums)
}
