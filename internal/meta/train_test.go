package meta

import (
	"bytes"
	"context"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim/l2p"
	"github.com/privgrad/privgrad/internal/device"
)

// small are options that take a second.
func small() Options {
	return Options{
		Plan:    Plan{Steps: 6, Rate: 0.5, Clip: 1, Delta: 1e-5, Neighbouring: accountant.AddRemove, Accountant: accountant.RDP},
		Family:  Quadratics{Records: 20},
		Stages:  []Stage{{math.Inf(1), 2}, {2, 2}, {1, 2}},
		Batches: 3, Tasks: 4, LearningRate: 0.01, GradientNorm: 1, Gamma: 1, Validation: 6, Seed: 3, Workers: 2,
		Card: l2p.Card{
			Name: "small", Tasks: []string{"quadratic"}, Public: []l2p.Public{}, Scale: 0.2, Recipe: "made here",
			Projector: l2p.Part{Kind: l2p.Learned, Layers: 1, Hidden: 4},
			Scheduler: l2p.Part{Kind: l2p.Learned, Layers: 1, Hidden: 3},
		},
	}
}

func trained(t *testing.T, o Options) (*l2p.Protector, []Epoch) {
	t.Helper()
	p, history, err := Train(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	return p, history
}

// The result follows from the seed: not from the number of workers, from stored
// states, nor from an interruption after any epoch.
func TestTrainDeterministic(t *testing.T) {
	for _, block := range []int{0, 4} {
		o := small()
		o.Block = block
		want, history := trained(t, o)
		if want.Card.EpsilonRange != [2]float64{1, 2} || want.Card.Steps != 6 || want.Card.Neighbouring != "add-remove" {
			t.Errorf("card %+v", want.Card)
		}
		o.Workers, o.Every = 1, 2
		o.Checkpoint = filepath.Join(t.TempDir(), "checkpoint")
		for interrupted := 0; ; interrupted++ {
			ctx, cancel := context.WithCancel(context.Background())
			o.Progress = func(int, int, Epoch) { cancel() }
			got, again, err := Train(ctx, o)
			cancel()
			if err != nil {
				if interrupted > 6 {
					t.Fatal("does not end")
				}
				continue
			}
			if !slices.Equal(got.Projector, want.Projector) || !slices.Equal(got.Scheduler, want.Scheduler) || !reflect.DeepEqual(got.Card, want.Card) {
				t.Errorf("blocks of %d: another protector after %d interruptions", block, interrupted)
			}
			if !reflect.DeepEqual(again, history) {
				t.Errorf("blocks of %d: another history: %+v, want %+v", block, again, history)
			}
			break
		}
		o.Seed++
		o.Checkpoint = ""
		if other, _ := trained(t, o); slices.Equal(other.Projector, want.Projector) {
			t.Error("the seed changes nothing")
		}
	}
}

func TestCheckpointOfAnother(t *testing.T) {
	o := small()
	o.Checkpoint = filepath.Join(t.TempDir(), "checkpoint")
	trained(t, o)
	o.Card.Recipe = "other"
	if _, _, err := Train(context.Background(), o); err == nil || !strings.Contains(err.Error(), "recipe") {
		t.Errorf("checkpoint of another recipe: %v", err)
	}
	if err := os.WriteFile(o.Checkpoint, []byte("{"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Train(context.Background(), o); err == nil {
		t.Error("half a checkpoint: accepted")
	}
}

// Trained without noise for a little, a protector ends far below where it began.
func TestTrainLearns(t *testing.T) {
	o := small()
	o.Card.Scheduler = l2p.Part{Kind: l2p.Constant}
	o.Stages = []Stage{{100, 4}}
	o.Batches, o.LearningRate = 10, 0.02
	p, history := trained(t, o)
	mean := 0.0
	for _, r := range evaluated(t, p, o.Plan, o.Family, 100, 20, 99) {
		if mean += r.loss / 20; r.steps != 6 {
			t.Errorf("ending %+v", r)
		}
	}
	// The start has a mean loss of 6, the solution of about 2.
	if !(mean < 3) || !(history[3].Loss < history[0].Loss) {
		t.Errorf("mean loss %v on held-out tasks, history %+v", mean, history)
	}
}

// A scheduler's runs end when the budget does not pay for the next step, and the
// augmented Lagrangian brings T steps near the budget.
func TestBudget(t *testing.T) {
	o := small()
	l := device.LSTM{Layers: 1, Hidden: 1, Context: l2p.SchedulerContext}
	s := o.simulate(rule{scheduler: newNetwork(l, make([]float64, l.Weights())), scale: 0.1}, o.Family.Draw(rand.New(rand.NewPCG(1, 1))), Noise{Epsilon: 1, Least: 1, Planned: 3}, 5)
	if end := s.run(); end.known.Step != 7 || math.Abs(end.known.Left) > 1e-9 {
		t.Errorf("the planned noise: step %d with %v left", end.known.Step, end.known.Left)
	}
	s.scheduler.output[1] = 3 // more noise: sigmoid(3) of the range, 4.8 for 3
	if end := s.run(); end.known.Step != 16 || end.known.Left < 0 {
		t.Errorf("more noise: step %d with %v left", end.known.Step, end.known.Left)
	}
}

func TestOdd(t *testing.T) {
	for _, logSign := range []bool{false, true} {
		l := device.LSTM{Layers: 2, Hidden: 5, Context: 3, LogSign: logSign}
		w := make([]float64, l.Weights())
		net := newNetwork(l, w)
		r := rand.New(rand.NewPCG(2, 2))
		copy(w, normals(r, len(w), 0.5))
		multiply(w, oddMask(l))
		x, y := []float64{0.3, -0.3, 2, -2}, make([]float64, 4)
		state := make([]float64, 4*l.States())
		for range 3 {
			state = net.forward(x, []float64{0.1, 0.9, 0.4}, state, y).state
		}
		if y[0] == 0 || math.Abs(y[0]+y[1]) > 1e-15 || math.Abs(y[2]+y[3]) > 1e-15 {
			t.Errorf("log %v: outputs %v of %v", logSign, y, x)
		}
	}
	o := small()
	o.Odd = true
	p, _ := trained(t, o)
	for i, keep := range oddMask(p.Card.Projector.LSTM(l2p.ProjectorContext)) {
		if keep == 0 && p.Projector[i] != 0 {
			t.Fatalf("weight %d is %v", i, p.Projector[i])
		}
	}
}

func TestOptions(t *testing.T) {
	for what, change := range map[string]func(*Options){
		"steps":      func(o *Options) { o.Steps = 0 },
		"rate":       func(o *Options) { o.Rate = 1.5 },
		"stages":     func(o *Options) { o.Stages = nil },
		"order":      func(o *Options) { o.Stages[1].Epsilon = 0.5 },
		"noiseless":  func(o *Options) { o.Stages = o.Stages[:1] },
		"tasks":      func(o *Options) { o.Tasks = 0 },
		"gamma":      func(o *Options) { o.Gamma = 0 },
		"block":      func(o *Options) { o.Block = 7 },
		"projector":  func(o *Options) { o.Card.Projector.Kind = l2p.Identity },
		"layers":     func(o *Options) { o.Card.Projector.Layers = 9 },
		"scale":      func(o *Options) { o.Card.Scale = 0 },
		"accountant": func(o *Options) { o.Accountant = "none" },
		"name":       func(o *Options) { o.Card.Name = "" },
	} {
		o := small()
		change(&o)
		if _, _, err := Train(context.Background(), o); err == nil {
			t.Errorf("%s: accepted", what)
		}
	}
}

// What Train gives can be stored, and reads back the same.
func TestStored(t *testing.T) {
	p, _ := trained(t, small())
	path := filepath.Join(t.TempDir(), "small.safetensors")
	if err := p.Write(path); err != nil {
		t.Fatal(err)
	}
	back, err := l2p.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(back.Projector, p.Projector) || !slices.Equal(back.Scheduler, p.Scheduler) || back.Card.Name != "small" {
		t.Error("another protector came back")
	}
	if b, err := (Epsilon(math.Inf(1))).MarshalJSON(); err != nil || !bytes.Equal(b, []byte("null")) {
		t.Errorf("infinite epsilon: %s, %v", b, err)
	}
}
