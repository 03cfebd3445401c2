package report

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/internal/tfevents"
	"github.com/privgrad/privgrad/train"
)

// stopper interrupts a run after so many steps.
type stopper struct {
	after int
	stop  func()
}

func (s *stopper) Start(int) {}
func (s *stopper) Step(int, *float64, *float64) {
	if s.after--; s.after == 0 {
		s.stop()
	}
}
func (s *stopper) Finish() {}

// A run that was interrupted, evaluated beyond its checkpoint and resumed has the events of its metrics, in their
// order and each once; none has a real time.
func TestEventsOfAResumedRun(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	c := short()
	c.TensorBoard = true
	run := func(stopAfter int, resume train.Resume) error {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		o := train.Options{Out: dir, Sources: made(true), Resume: resume, Progress: &stopper{stopAfter, cancel}}
		Attach(c, &o)
		_, err := train.Run(ctx, c, o)
		return err
	}
	if err := run(7, train.ResumeNever); !errors.Is(err, train.ErrInterrupted) {
		t.Fatal(err)
	}
	path := filepath.Join(dir, EventsFile)
	before := read(t, path)
	// What a killed process had written beyond its metrics goes.
	beyond := before + string(tfevents.Step(99, []tfevents.Scalar{{Tag: "test/loss", Value: 1}})) + strings.Repeat("x", 5000)
	check(t, os.WriteFile(path, []byte(beyond), 0o644))
	check(t, run(0, train.ResumeRun))
	after := read(t, path)
	if len(before) < 200 || len(after) <= len(before) || !strings.HasPrefix(after, before) {
		t.Errorf("%d bytes before, %d after, which do not begin with those", len(before), len(after))
	}
	steps, last := decode(t, []byte(after))
	if !slices.Equal(steps, []int{3, 6, 9, 12}) {
		t.Errorf("events are of the steps %v", steps)
	}
	m := lastEvaluation(t, dir)
	for tag, want := range map[string]float64{"test/accuracy": *m.TestAccuracy, "test/loss": *m.TestLoss, "privacy/epsilon": *m.EpsilonSoFar, "train/lr": 0.5} {
		if got, ok := last[tag]; !ok || math.Abs(got-want) > 1e-6*want {
			t.Errorf("%s: %v, want %v", tag, got, want)
		}
	}
	if _, ok := last["train/loss"]; ok {
		t.Error("a training loss is shown that nobody released")
	}
	var r train.Result
	check(t, json.Unmarshal([]byte(read(t, dir, "result.json")), &r))
	if !slices.Contains(r.Released, EventsFile) {
		t.Errorf("released: %v", r.Released)
	}
	readByTensorBoard(t, dir, steps, *m.TestAccuracy)
}

// decode gives the steps of a file, and the last one's figures. It reads only what a run writes; the steps are
// small, so that a number is a byte.
func decode(t *testing.T, b []byte) (steps []int, last map[string]float64) {
	t.Helper()
	for first := true; len(b) > 0; first = false {
		n := binary.LittleEndian.Uint64(b)
		e := b[12 : 12+n]
		if b = b[16+n:]; first {
			continue
		}
		at := math.Float64frombits(binary.LittleEndian.Uint64(e[1:]))
		step := int(e[10])
		if at != float64(step) {
			t.Errorf("step %d has the time %v", step, at)
		}
		steps, last = append(steps, step), map[string]float64{}
		summary := e[11:]
		_, k := binary.Uvarint(summary[1:])
		for summary = summary[1+k:]; len(summary) > 0; {
			size, name := int(summary[1]), int(summary[3])
			last[string(summary[4:4+name])] = float64(math.Float32frombits(binary.LittleEndian.Uint32(summary[5+name:])))
			summary = summary[2+size:]
		}
	}
	return steps, last
}

// readByTensorBoard reads the events as TensorBoard does, where Python has it.
func readByTensorBoard(t *testing.T, dir string, steps []int, accuracy float64) {
	const script = `
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
a = EventAccumulator(sys.argv[1]); a.Reload()
print(json.dumps({tag: [[e.step, e.wall_time, e.value] for e in a.Scalars(tag)] for tag in a.Tags()["scalars"]}))`
	if exec.Command("python3", "-c", "import tensorboard").Run() != nil {
		t.Log("Python has no TensorBoard: it was not asked")
		return
	}
	out, err := exec.Command("python3", "-c", script, dir).Output()
	check(t, err)
	var tags map[string][][3]float64
	check(t, json.Unmarshal(out, &tags))
	got := tags["test/accuracy"]
	if len(got) != len(steps) || int(got[len(got)-1][0]) != steps[len(steps)-1] || math.Abs(got[len(got)-1][2]-accuracy) > 1e-6 {
		t.Errorf("TensorBoard reads %v", tags)
	}
}

// An ε that is no guarantee is called that; and a run that is told nothing of TensorBoard writes no events.
func TestEventsWithoutAGuarantee(t *testing.T) {
	dir := trained(t, "run", func(c *train.Config) { c.Noise, c.TensorBoard = "seeded", true })
	if _, last := decode(t, []byte(read(t, dir, EventsFile))); last["privacy/epsilon (NO GUARANTEE)"] == 0 || last["privacy/epsilon"] != 0 {
		t.Errorf("figures: %v", last)
	}
	if _, err := os.Stat(filepath.Join(trained(t, "other", nil), EventsFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("events that nobody asked for: %v", err)
	}
}
