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

	"github.com/privgrad/privgrad/internal/cpu"
)

// metricsOf reads the lines of a run's metrics.
func metricsOf(t *testing.T, dir string) []evaluation {
	t.Helper()
	var list []evaluation
	for line := range bytes.Lines(read(t, dir, fileMetrics)) {
		var e evaluation
		check(t, json.Unmarshal(line, &e))
		list = append(list, e)
	}
	return list
}

// The average follows its recursion over the iterates; the model stays the last
// iterate; both are evaluated.
func TestAverage(t *testing.T) {
	c := small()
	c.Average, c.EvalEvery, c.Noise = 0.6, 1, noiseSeeded
	o := Options{Sources: sources(made(1, 400)), Out: filepath.Join(t.TempDir(), "run"), block: 1, Resume: true}
	var average []float64
	for step := 1; step <= *c.Steps; step++ {
		ctx, stop := stopAt(t, o, step-1, true) // one update a process
		if _, err := Run(ctx, c, stop); err != nil && !errors.Is(err, ErrInterrupted) {
			t.Fatal(err)
		}
		at, err := readCheckpoint(o.Out, 65, 0)
		check(t, err)
		if average == nil {
			average = make([]float64, 65) // the initial parameters
		}
		decay := math.Min(0.6, float64(1+step)/float64(10+step))
		for i := range average {
			average[i] = decay*average[i] + (1-decay)*float64(at.params[i])
			if math.Abs(average[i]-float64(at.average[i])) > 1e-6 {
				t.Fatalf("update %d: the average's parameter %d is %v, want %v", step, i, at.average[i], average[i])
			}
		}
		if step == *c.Steps && slices.Equal(at.params, at.average) {
			t.Error("the average is the last iterate")
		}
	}
	r, err := Run(context.Background(), c, o)
	check(t, err)
	p, err := Resolve(c, Options{Sources: o.Sources})
	check(t, err)
	last, err := readCheckpoint(o.Out, 65, 0)
	check(t, err)
	for name, want := range map[string][]float32{fileModel: last.params, fileAverage: last.average} {
		if got, err := readModel(filepath.Join(o.Out, name), p.Network.Program); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s is not what the checkpoint holds: %v", name, err)
		}
	}
	lines := metricsOf(t, o.Out)
	end := lines[len(lines)-1]
	if len(lines) != *c.Steps || *end.AverageAccuracy != *r.AverageAccuracy || *end.TestLoss == *end.AverageLoss || !slices.Contains(r.Released, fileAverage) {
		t.Errorf("%d lines, the last %+v; result %+v", len(lines), end, r)
	}
	for _, average := range []bool{false, true} {
		want, loss := r.TestAccuracy, end.TestLoss
		if average {
			want, loss = r.AverageAccuracy, end.AverageLoss
		}
		e, err := Eval(o.Out, o.Sources, "", "", 1, average)
		check(t, err)
		if *e.Accuracy != *want || *e.Loss != *loss || e.Average != average {
			t.Errorf("evaluating the average %v gives %v and %v, the run %v and %v", average, *e.Accuracy, *e.Loss, *want, *loss)
		}
	}
}

func TestNoAverage(t *testing.T) {
	c := small()
	o := Options{Sources: sources(made(1, 400)), Out: filepath.Join(t.TempDir(), "run"), Resume: true, block: 5}
	ctx, stop := stopAt(t, o, 12, true)
	if _, err := Run(ctx, c, stop); !errors.Is(err, ErrInterrupted) {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(o.Out, fileAverage)); !os.IsNotExist(err) {
		t.Errorf("%s without an average: %v", fileAverage, err)
	}
	if _, err := Eval(o.Out, o.Sources, "", "", 1, true); err == nil || !strings.Contains(err.Error(), "kept no average") {
		t.Errorf("evaluating an average that was not kept: %v", err)
	}
	at, err := readCheckpoint(o.Out, 65, 0)
	check(t, err)
	at.average = at.params
	check(t, at.write(o.Out))
	var u *UsageError
	if _, err := Run(context.Background(), c, o); !errors.As(err, &u) || !strings.Contains(err.Error(), "not one of this run's") {
		t.Errorf("a checkpoint with an average that the run does not keep: %v", err)
	}
}

// The step sizes taken, and shown, are those of the steps' places in the
// committed schedule: the updates are minus their sum times what was released.
func TestRateSchedule(t *testing.T) {
	host, err := cpu.Open(1)
	check(t, err)
	record := &transcript{Device: host}
	c := small()
	c.LRSchedule, c.Warmup, c.EvalEvery = "cosine", 5, 1
	out := filepath.Join(t.TempDir(), "run")
	_, err = Run(context.Background(), c, Options{Sources: sources(made(1, 400)), Out: out, Device: record})
	check(t, err)
	w := make([]float64, 65)
	for i, line := range metricsOf(t, out) {
		step := float64(i + 1)
		rate := *c.LR * step / 5
		if step > 5 {
			rate = *c.LR * 0.5 * (1 + math.Cos(math.Pi*(step-6)/19))
		}
		if math.Abs(*line.LR-rate) > 1e-12 {
			t.Errorf("step %v shows the rate %v, want %v", step, line.LR, rate)
		}
		for j := range w {
			w[j] -= rate * float64(record.released[i][j]) / *c.Batch
		}
	}
	last, err := readCheckpoint(out, 65, 0)
	check(t, err)
	for j, x := range last.params {
		if math.Abs(float64(x)-w[j]) > 1e-5 {
			t.Fatalf("parameter %d ends at %v, want %v", j, x, w[j])
		}
	}
}

// Steps that a crash lost take their rates with them: the last step has the
// schedule's last.
func TestRateGoesBySlots(t *testing.T) {
	c := small()
	c.LRSchedule, c.EvalEvery = "cosine", 1
	o := Options{Sources: sources(made(1, 400)), Out: filepath.Join(t.TempDir(), "run"), Resume: true, block: 5}
	_, crash := stopAt(t, o, 7, false)
	if _, err := Run(context.Background(), c, crash); !errors.Is(err, errCrash) {
		t.Fatal(err)
	}
	r, err := Run(context.Background(), c, o)
	check(t, err)
	lines := metricsOf(t, o.Out)
	want := *c.LR * 0.5 * (1 + math.Cos(math.Pi*23/24))
	if end := lines[len(lines)-1]; r.Steps != 19 || end.Step != 19 || math.Abs(*end.LR-want) > 1e-12 {
		t.Errorf("after %d steps the rate is %v, want %v", end.Step, end.LR, want)
	}
}
