package train

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/internal/cpu"
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/trained"
)

// metricsOf reads the lines of a run's metrics.
func metricsOf(t *testing.T, dir string) []Measurement {
	t.Helper()
	var list []Measurement
	for line := range bytes.Lines(read(t, dir, rundir.Metrics)) {
		var e Measurement
		check(t, json.Unmarshal(line, &e))
		list = append(list, e)
	}
	return list
}

// The average follows its recursion over the iterates; the model stays the last
// iterate; both are evaluated.
func TestAverage(t *testing.T) {
	c := small()
	c.Average, c.EvalEvery, c.Noise = 0.6, 1, dpoptim.Seeded
	o := Options{Sources: sources(made(1, 400)), Out: filepath.Join(t.TempDir(), "run"), block: 1, Resume: ResumeAuto}
	var average []float64
	for step := 1; step <= *c.Steps; step++ {
		ctx, stop := stopAt(t, o, step-1, true) // one update a process
		if _, err := Run(ctx, c, stop); err != nil && !errors.Is(err, ErrInterrupted) {
			t.Fatal(err)
		}
		at, err := rundir.Dir(o.Out).ReadCheckpoint(65, nil)
		check(t, err)
		if average == nil {
			average = make([]float64, 65) // the initial parameters
		}
		decay := math.Min(0.6, float64(1+step)/float64(10+step))
		for i := range average {
			average[i] = decay*average[i] + (1-decay)*float64(at.Params[i])
			if math.Abs(average[i]-float64(at.Average[i])) > 1e-6 {
				t.Fatalf("update %d: the average's parameter %d is %v, want %v", step, i, at.Average[i], average[i])
			}
		}
		if step == *c.Steps && slices.Equal(at.Params, at.Average) {
			t.Error("the average is the last iterate")
		}
	}
	r := finished(t, c, o)
	p := resolved(t, c, Options{Sources: o.Sources})
	last, err := rundir.Dir(o.Out).ReadCheckpoint(65, nil)
	check(t, err)
	for name, want := range map[string][]float32{rundir.Model: last.Params, rundir.Average: last.Average} {
		if got, _, err := rundir.ReadModel(filepath.Join(o.Out, name), p.Network.Program); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s is not what the checkpoint holds: %v", name, err)
		}
	}
	lines := metricsOf(t, o.Out)
	end := lines[len(lines)-1]
	if len(lines) != *c.Steps || *end.AverageAccuracy != *r.AverageAccuracy || *end.TestLoss == *end.AverageLoss || !slices.Contains(r.Released, rundir.Average) {
		t.Errorf("%d lines, the last %+v; result %+v", len(lines), end, r)
	}
	for _, average := range []bool{false, true} {
		want, loss := r.TestAccuracy, end.TestLoss
		if average {
			want, loss = r.AverageAccuracy, end.AverageLoss
		}
		e, err := evaluated(o.Out, trained.Options{Sources: o.Sources, Threads: 1, Average: average})
		check(t, err)
		if *e.Accuracy != *want || *e.Loss != *loss || e.Average != average {
			t.Errorf("evaluating the average %v gives %v and %v, the run %v and %v", average, *e.Accuracy, *e.Loss, *want, *loss)
		}
	}
}

func TestNoAverage(t *testing.T) {
	c := small()
	o := Options{Sources: sources(made(1, 400)), Out: filepath.Join(t.TempDir(), "run"), Resume: ResumeAuto, block: 5}
	ctx, stop := stopAt(t, o, 12, true)
	ends(ctx, t, c, stop, ErrInterrupted)
	if _, err := os.Stat(filepath.Join(o.Out, rundir.Average)); !os.IsNotExist(err) {
		t.Errorf("%s without an average: %v", rundir.Average, err)
	}
	if _, err := evaluated(o.Out, trained.Options{Sources: o.Sources, Threads: 1, Average: true}); err == nil || !strings.Contains(err.Error(), "kept no average") {
		t.Errorf("evaluating an average that was not kept: %v", err)
	}
	at, err := rundir.Dir(o.Out).ReadCheckpoint(65, nil)
	check(t, err)
	at.Average = at.Params
	check(t, rundir.Dir(o.Out).WriteCheckpoint(at))
	var u *UsageError
	if _, err := Run(context.Background(), c, o); !errors.As(err, &u) || !strings.Contains(err.Error(), "not one of this run's") {
		t.Errorf("a checkpoint with an average that the run does not keep: %v", err)
	}
}

// The step sizes taken, and shown, are those of the steps' places in the
// committed schedule: the parameters are minus their sum times what was
// released. Steps that a crash lost take their rates with them.
func TestRateSchedule(t *testing.T) {
	for name, crash := range map[string]bool{"whole": false, "crashed": true} {
		t.Run(name, func(t *testing.T) {
			host, err := cpu.Open(1)
			check(t, err)
			record := &transcript{Device: host}
			c := small()
			c.LRSchedule, c.Warmup, c.EvalEvery = "cosine", 3, 1
			o := Options{Sources: sources(made(1, 400)), Out: filepath.Join(t.TempDir(), "run"), Device: record, Resume: ResumeAuto, block: 5}
			var kept []int // slots whose updates count, from 1
			for slot := 1; slot <= *c.Steps; slot++ {
				if !crash || slot <= 5 || slot > 10 { // the block from 6 to 10 dies with its process
					kept = append(kept, slot)
				}
			}
			if crash {
				_, o := stopAt(t, o, 7, false)
				ends(context.Background(), t, c, o, errCrash)
				record.released = record.released[:5]
			}
			finished(t, c, o)
			lines, w := metricsOf(t, o.Out), make([]float64, 65)
			if len(lines) != len(kept) || len(record.released) != len(kept) {
				t.Fatalf("%d lines and %d releases of %d updates", len(lines), len(record.released), len(kept))
			}
			for i, slot := range kept {
				rate := *c.LR * float64(slot) / 3
				if slot > 3 {
					rate = *c.LR * 0.5 * (1 + math.Cos(math.Pi*float64(slot-4)/21))
				}
				if lines[i].Step != i+1 || math.Abs(*lines[i].LR-rate) > 1e-12 {
					t.Errorf("step %d shows the rate %v, want %v", lines[i].Step, *lines[i].LR, rate)
				}
				for j := range w {
					w[j] -= rate * float64(record.released[i][j]) / *c.Batch
				}
			}
			last, err := rundir.Dir(o.Out).ReadCheckpoint(65, nil)
			check(t, err)
			for j, x := range last.Params {
				if math.Abs(float64(x)-w[j]) > 1e-5 {
					t.Fatalf("parameter %d ends at %v, want %v", j, x, w[j])
				}
			}
		})
	}
}
