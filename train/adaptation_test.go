package train

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/dpoptim/batches"
	"github.com/privgrad/privgrad/internal/cpu"
	"github.com/privgrad/privgrad/internal/exact"
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/internal/stream"
	"github.com/privgrad/privgrad/perexample"
)

// adaptive is a short private run whose clip norm moves.
func adaptive() Config {
	c := small()
	c.Clipping = "adaptive"
	return c
}

// clips reads the clip norms out of a run's metrics.
func clips(t *testing.T, dir string) []float64 {
	t.Helper()
	var list []float64
	lines := bufio.NewScanner(bytes.NewReader(read(t, dir, rundir.Metrics)))
	for lines.Scan() {
		var e Measurement
		check(t, json.Unmarshal(lines.Bytes(), &e))
		if e.Clip == nil {
			t.Fatalf("no clip norm in %s", lines.Text())
		}
		list = append(list, *e.Clip)
	}
	return list
}

// Sampling belongs to a batch: the gradient and the count of one batch are
// composed first and amplified once, under either relation.
func TestAdaptiveIsPricedTogether(t *testing.T) {
	for _, n := range []accountant.Neighbouring{accountant.AddRemove, accountant.ReplaceOne} {
		c := adaptive()
		c.Neighbouring = string(n)
		r, _ := trainedOn(t, c, made(1, 400), Options{})
		const sigma, deviation = 1.0, 40.0 / 20 // of a count of 40 expected records
		price := func(events ...accountant.Event) float64 {
			a, err := accountant.Account(events, accountant.Options{Accountant: accountant.PLD, Neighbouring: n, Delta: 1e-5})
			check(t, err)
			return a.Epsilon
		}
		batch := func(sigma float64) accountant.Event {
			return accountant.PoissonBatch(0.2, 24, accountant.Gaussian{NoiseMultiplier: sigma})
		}
		joint := price(batch(1 / math.Sqrt(1/(sigma*sigma)+1/(4*deviation*deviation))))
		if math.Abs(*r.Epsilon-joint) > 1e-9*joint {
			t.Errorf("%s: ε %v, want %v", n, *r.Epsilon, joint)
		}
		if apart := price(batch(sigma), batch(2*deviation)); math.Abs(*r.Epsilon-apart) < 1e-3*apart {
			t.Errorf("%s: ε %v is that of two batches", n, *r.Epsilon)
		}
		if flat := price(batch(sigma)); *r.Epsilon < flat*1.01 {
			t.Errorf("%s: ε %v leaves the count unpaid, the gradient alone costs %v", n, *r.Epsilon, flat)
		}
	}
	// A calibrated run pays for the count with more noise on the gradient.
	c := adaptive()
	c.NoiseMultiplier, c.Epsilon = nil, ptr(3.0)
	r, _ := trainedOn(t, c, made(1, 400), Options{})
	if *r.Epsilon > 3 || *r.Epsilon < 3*(1-1e-4) {
		t.Errorf("calibrated to 3, reports %v", *r.Epsilon)
	}
	c.Clipping = "flat"
	if flat, _ := trainedOn(t, c, made(1, 400), Options{}); *r.NoiseMultiplier <= *flat.NoiseMultiplier {
		t.Errorf("noise multiplier %v with a count, %v without", *r.NoiseMultiplier, *flat.NoiseMultiplier)
	}
}

// The clip norm follows from released counts alone, by the published rule; the
// gradient's noise moves with it; and what is released of a count is noisy.
func TestAdaptiveFollowsReleases(t *testing.T) {
	d, err := cpu.Open(1)
	check(t, err)
	record := &transcript{Device: d}
	c := adaptive()
	c.Classes = nil
	c.Noise, c.EvalEvery, c.ClipQuantile = dpoptim.Seeded, 1, ptr(0.8)
	// No record counts, so that everything released is noise.
	set := gradientless()
	set.Classes, set.ClassNames, set.PerClass = 2, set.ClassNames[:2], []int{200, 200}
	set.Test.Labels, set.Test.Features = nil, nil
	o := Options{Sources: sources(set), Out: filepath.Join(t.TempDir(), "run"), Device: record}
	r := finished(t, c, o)
	if len(record.released) != 2**c.Steps {
		t.Fatalf("%d releases in %d steps", len(record.released), *c.Steps)
	}
	noise, err := stream.New(stream.ChaCha20, stream.KeyFromSeed(c.Seed, "noise"))
	check(t, err)
	clip, seen := c.Clip, clips(t, o.Out)
	normals := func(draw uint64, tensor uint32, n int) []float64 {
		g, err := exact.New(exact.MaxStd, noise, tensor)
		check(t, err)
		k, z := make([]int64, n), make([]float64, n)
		g.Add(k, draw, 0)
		for i, k := range k {
			z[i] = float64(k) / exact.MaxStd
		}
		return z
	}
	rounding := 0.0
	for step := range *c.Steps {
		gradient, count := record.released[2*step], record.released[2*step+1]
		if len(count) != 1 {
			t.Fatalf("step %d released %d counts", step, len(count))
		}
		draw := batches.Position(step, batches.First) + 1
		z := normals(draw, 0, len(gradient)) // the ranges of internal/engine
		if rounding == 0 {                   // more than the multiplier by what covers rounding, always the same
			xz, zz := 0.0, 0.0
			for i, x := range gradient {
				xz, zz = xz+float64(x)*z[i], zz+z[i]*z[i]
			}
			rounding = xz / zz / (*c.NoiseMultiplier * clip)
		}
		for i, x := range gradient {
			// The grid's step is below 2⁻²³ of the clip norm. It moves the clip norm's share in σ by as much.
			want := rounding * *c.NoiseMultiplier * clip * z[i]
			if rounding < 1 || rounding > 1.01 || math.Abs(float64(x)-want) > 4e-6*math.Abs(want)+0x1p-23*clip {
				t.Fatalf("step %d: noise of %v at the clip norm %v, want %v", step, x, clip, want)
			}
		}
		z = normals(draw, 2, 1)
		if want := *c.Batch / 20 * z[0]; math.Abs(float64(count[0])-want) > 1e-6*math.Abs(want)+0x1p-24 {
			t.Fatalf("step %d: the count is released as %v, its noise is %v", step, count[0], want)
		}
		clip *= math.Exp(-0.2 * (float64(count[0]) / *c.Batch + 0.5 - 0.8))
		if math.Abs(seen[step]-clip) > 1e-12*clip {
			t.Fatalf("after step %d the clip norm is %v, want %v", step, seen[step], clip)
		}
	}
	if *r.Clip != seen[len(seen)-1] || *r.Clipping != "adaptive" {
		t.Errorf("the result says %s clipping at %v, the last line of the metrics %v", *r.Clipping, *r.Clip, seen[len(seen)-1])
	}
	cp, err := rundir.Dir(o.Out).ReadCheckpoint(65, nil)
	if err != nil || cp.Clip != *r.Clip {
		t.Errorf("the checkpoint holds the clip norm %v, the run ended at %v, %v", cp.Clip, *r.Clip, err)
	}
}

// At weights that stay near zero the norm of a record's gradient is half that
// of its pixels with a 1 beside them, so that the quantile is known.
func TestAdaptiveComesToTheQuantile(t *testing.T) {
	set := made(1, 400)
	var norms []float64
	for i, label := range set.Train.Labels {
		if label > 1 {
			continue
		}
		s := 1.0
		for _, b := range set.Train.Features[i*64 : (i+1)*64] {
			x := float64(b)/127.5 - 1
			s += x * x
		}
		norms = append(norms, math.Sqrt(s)/2)
	}
	for _, quantile := range []float64{0.3, 0.7} {
		c := adaptive()
		c.Noise, c.Batch, c.Steps, c.EvalEvery = dpoptim.Seeded, ptr(200.0), ptr(120), 1
		c.LR, c.Clip, c.ClipQuantile = ptr(1e-7), 0.5, &quantile
		o := Options{Sources: sources(set), Out: filepath.Join(t.TempDir(), "run")}
		if _, err := Run(context.Background(), c, o); err != nil {
			t.Fatal(err)
		}
		within, last := 0, clips(t, o.Out)[60:]
		for _, clip := range last {
			for _, n := range norms {
				if n <= clip {
					within++
				}
			}
		}
		// Every record is in every batch. The count's noise of 0.05 of a batch
		// averages out; that there are not quite 200 records shifts it by less
		// than 0.05.
		if got := float64(within) / float64(len(norms)*len(last)); math.Abs(got-quantile) > 0.1 {
			t.Errorf("a share of %v of the gradients lies within the clip norm, want %v", got, quantile)
		}
	}
}

func TestAdaptiveKeepsItsBounds(t *testing.T) {
	for name, change := range map[string]func(*Config){
		// The gradients' norms are about 4, so C wants to rise, or to fall.
		"ceiling": func(c *Config) { c.ClipFloor, c.ClipCeiling = ptr(0.5), ptr(1.25) },
		"floor": func(c *Config) {
			c.Clip, c.ClipFloor, c.ClipCeiling, c.ClipQuantile = 40, ptr(32.0), ptr(50.0), ptr(0.01)
		},
		"default": func(c *Config) {},
	} {
		c := adaptive()
		c.EvalEvery, c.Noise, c.LR = 1, dpoptim.Seeded, ptr(1e-7)
		change(&c)
		o := Options{Sources: sources(made(1, 400)), Out: filepath.Join(t.TempDir(), "run")}
		r := finished(t, c, o)
		list := clips(t, o.Out)
		var stored Config
		check(t, ReadConfig(filepath.Join(o.Out, rundir.Config), &stored))
		switch name {
		case "ceiling":
			if list[len(list)-1] != 1.25 {
				t.Errorf("ceiling: ended at %v", *r.Clip)
			}
		case "floor":
			if list[len(list)-1] != 32 {
				t.Errorf("floor: ended at %v", *r.Clip)
			}
		default:
			if *stored.ClipFloor != 1e-3 || *stored.ClipCeiling != 1e3 || *stored.ClipQuantile != 0.5 || stored.Clip != 1 {
				t.Errorf("the settings are stored as C = %v in [%v, %v] for quantile %v", stored.Clip, *stored.ClipFloor, *stored.ClipCeiling, *stored.ClipQuantile)
			}
		}
		for _, clip := range list {
			if clip < *stored.ClipFloor || clip > *stored.ClipCeiling {
				t.Errorf("%s: the clip norm became %v", name, clip)
			}
		}
	}
}

// Without noise on the gradient the count keeps its own: what is shown of the
// clip norm is never un-noised.
func TestAdaptiveWithoutGradientNoise(t *testing.T) {
	d, err := cpu.Open(1)
	check(t, err)
	record := &transcript{Device: d}
	c := adaptive()
	c.NoiseMultiplier, c.Noise = ptr(0.0), dpoptim.Seeded
	r := finished(t, c, Options{Sources: sources(made(1, 400)), Out: filepath.Join(t.TempDir(), "run"), Device: record})
	if r.Guarantee || r.Epsilon != nil || *r.Clip == 1 {
		t.Errorf("guarantee %v, ε %v, clip norm %v", r.Guarantee, r.Epsilon, *r.Clip)
	}
	for _, x := range record.released {
		if len(x) == 1 && float64(x[0]) == math.Round(2*float64(x[0]))/2 {
			t.Errorf("a count was released as %v", x[0])
		}
	}
}

func TestOtherClippingsInResults(t *testing.T) {
	for _, k := range perexample.Clippings() {
		c := small()
		c.Clipping = string(k)
		r, params := trainedOn(t, c, made(1, 400), Options{})
		if *r.Clipping != string(k) || !r.Guarantee || rms(params) == 0 {
			t.Errorf("%s: the result says %s, guarantee %v", k, *r.Clipping, r.Guarantee)
		}
		// Only the count costs more than the sum.
		if flat, _ := trainedOn(t, small(), made(1, 400), Options{}); (*r.Epsilon == *flat.Epsilon) != (k != perexample.AdaptiveFlat) {
			t.Errorf("%s costs ε %v, flat %v", k, *r.Epsilon, *flat.Epsilon)
		}
		if (*r.Clip == 1) != (k != perexample.AdaptiveFlat) {
			t.Errorf("%s: the clip norm ended at %v", k, *r.Clip)
		}
	}
	c := small()
	c.Optimizer, c.NoiseMultiplier = "sgd", nil
	if r, _ := trainedOn(t, c, made(1, 400), Options{}); r.Clipping != nil || r.Clip != nil {
		t.Errorf("sgd clips by %v at %v", r.Clipping, r.Clip)
	}
}

// A checkpoint without the clip norm, or with one out of bounds, is none of an
// adaptive run's.
func TestAdaptiveCheckpointIsChecked(t *testing.T) {
	for _, clip := range []float64{0, 5000, math.Inf(1), math.NaN(), -1} {
		c := adaptive()
		o := Options{Sources: sources(made(1, 400)), Out: filepath.Join(t.TempDir(), "run"), Resume: ResumeAuto, block: 5}
		ctx, stop := stopAt(t, o, 12, true)
		ends(ctx, t, c, stop, ErrInterrupted)
		cp, err := rundir.Dir(o.Out).ReadCheckpoint(65, nil)
		check(t, err)
		cp.Clip = clip
		check(t, rundir.Dir(o.Out).WriteCheckpoint(cp))
		_, err = Run(context.Background(), c, o)
		var u *UsageError
		if !errors.As(err, &u) || !strings.Contains(err.Error(), "not one of this run's") {
			t.Errorf("clip norm %v in the checkpoint: %v", clip, err)
		}
	}
}
