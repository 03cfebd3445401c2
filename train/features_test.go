package train

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/privgrad/privgrad/features"
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/internal/safetensors"
	"github.com/privgrad/privgrad/nn"
	"github.com/privgrad/privgrad/trained"
)

// scattered is a short private run on features of the made set. They are not whitened, as fitting that takes a second.
func scattered() Config {
	c := small()
	c.Features, c.Whiten, c.LR = "scatter", "none", ptr(0.05)
	return c
}

// A run on features keeps all that its model needs, and eval uses what was kept.
func TestFeatures(t *testing.T) {
	set := sources(made(1, 400))
	out := filepath.Join(t.TempDir(), "run")
	c := scattered()
	c.Whiten = "leaves"
	r := finished(t, c, Options{Sources: set, Out: out})
	if r.Parameters != 81*2*2+1 || !r.Guarantee || slices.Contains(r.Released, rundir.Features) || len(r.Assumptions) > 0 {
		t.Errorf("%d parameters, guarantee %v, assumptions %q, released %q", r.Parameters, r.Guarantee, r.Assumptions, r.Released)
	}
	f, err := os.Open(filepath.Join(out, rundir.Model))
	check(t, err)
	defer f.Close()
	_, meta, err := safetensors.Read(f, 1<<20)
	check(t, err)
	if meta["features"] != "scatter" || meta["features_file"] != rundir.Features {
		t.Errorf("the model says %v", meta)
	}
	e, err := evaluated(out, trained.Options{Sources: set, Threads: 1})
	check(t, err)
	if *e.Accuracy != *r.TestAccuracy || *e.Loss != *r.TestLoss {
		t.Errorf("eval finds %v, %v, the run ended with %v, %v", *e.Accuracy, *e.Loss, *r.TestAccuracy, *r.TestLoss)
	}

	kept := filepath.Join(out, rundir.Features)
	whole := read(t, kept)
	for name, damage := range map[string]struct {
		do   func() error
		want string
	}{
		"cut":     {func() error { return os.WriteFile(kept, whole[:len(whole)/2], 0o644) }, kept},
		"of none": {func() error { return os.WriteFile(kept, nil, 0o644) }, kept},
		"another": {func() error {
			var b bytes.Buffer
			front, err := features.Fit(features.Spec{Kind: "scatter", Whiten: features.None, Mirror: true, Shape: [3]int{1, 8, 8}}, nil)
			check(t, err)
			check(t, front.Write(&b))
			return os.WriteFile(kept, b.Bytes(), 0o644)
		}, "other settings"},
		"of other constants": {func() error {
			other := bytes.Clone(whole)
			other[len(other)-4] ^= 1 // the last digit of a number
			return os.WriteFile(kept, other, 0o644)
		}, "is not the front end"},
		"gone": {func() error { return os.Remove(kept) }, "restore it"},
	} {
		check(t, damage.do())
		var u *UsageError
		if _, err := evaluated(out, trained.Options{Sources: set, Threads: 1}); !errors.As(err, &u) || !strings.Contains(err.Error(), damage.want) {
			t.Errorf("%s: got %v, want a usage error with %q", name, err, damage.want)
		}
		check(t, os.WriteFile(kept, whole, 0o644))
	}
}

// A user's own features say that they are trusted.
func TestOwnFeatures(t *testing.T) {
	c := small()
	c.Classes, c.LR = nil, ptr(0.5)
	means := func(dst, image []float32) {
		for i := range dst {
			dst[i] = 0
			for _, x := range image[8*i : 8*i+8] {
				dst[i] += x / 8
			}
		}
	}
	front, err := features.Own("rows", [3]int{1, 8, 8}, [3]int{1, 1, 8}, means)
	check(t, err)
	out := filepath.Join(t.TempDir(), "run")
	c.NoiseMultiplier, c.Steps, c.EvalEvery = ptr(0.1), ptr(100), 100
	o := Options{Sources: sources(made(1, 400)), Out: out, Features: front}
	r := finished(t, c, o)
	if !r.Guarantee || !slices.Contains(r.Assumptions, "own_features_are_public") {
		t.Errorf("guarantee %v, assumptions %q", r.Guarantee, r.Assumptions)
	}
	if *r.TestAccuracy < 0.9 {
		t.Errorf("accuracy %v: the class is the brightest pair of rows", *r.TestAccuracy)
	}
	if _, err := evaluated(out, trained.Options{Sources: o.Sources, Threads: 1}); err == nil || !strings.Contains(err.Error(), "of your own") {
		t.Errorf("eval without the features: %v", err)
	}
	other, err := features.Own("rows", [3]int{1, 4, 4}, [3]int{1, 1, 1}, func(dst, image []float32) { dst[0] = image[0] })
	check(t, err)
	o.Features, o.Out = other, filepath.Join(t.TempDir(), "other")
	if _, err := Run(context.Background(), c, o); err == nil || !strings.Contains(err.Error(), "shape") {
		t.Errorf("features of another shape: %v", err)
	}
}

// A run goes on behind the front end that it began with, and no other.
func TestFeaturesStay(t *testing.T) {
	shape := [3]int{1, 8, 8}
	times := func(a float32) *features.Front {
		front, err := features.Own("times", shape, shape, func(dst, image []float32) {
			for i, x := range image {
				dst[i] = a * x
			}
		})
		check(t, err)
		return front
	}
	var b bytes.Buffer
	built, err := features.New(features.Spec{Kind: "scatter", Whiten: features.None, Shape: shape}, nil)
	check(t, err)
	check(t, built.Write(&b))
	file, err := features.Read(&b)
	check(t, err)
	set := made(1, 400)
	for name, c := range map[string]struct {
		first, then *features.Front
		refused     bool
		assumed     bool
	}{
		"the same function":       {times(1), times(1), false, true},
		"another of its name":     {times(1), times(2), true, true},
		"what the program makes":  {built, built, false, false},
		"the same, from a file":   {file, built, false, true},
		"a function, then a file": {times(1), file, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{Sources: sources(set), Out: filepath.Join(t.TempDir(), "run"), Resume: ResumeAuto, Features: c.first}
			ctx, stop := stopAt(t, o, 12, true)
			ends(ctx, t, small(), stop, ErrInterrupted)
			o.Features = c.then
			r, err := Run(context.Background(), small(), o)
			if c.refused {
				var u *UsageError
				if !errors.As(err, &u) {
					t.Fatalf("got %v, want a usage error", err)
				}
				return
			}
			check(t, err)
			if got := slices.Contains(r.Assumptions, "own_features_are_public"); got != c.assumed {
				t.Errorf("assumptions %q", r.Assumptions)
			}
		})
	}
}

// A network of the user's own reads features as it would read pixels.
func TestOwnNetworkOnFeatures(t *testing.T) {
	g := G.NewGraph()
	x := G.NewTensor(g, tensor.Float32, 4, G.WithShape(2, 81, 2, 2), G.WithName("x"))
	logits, err := nn.Apply(x,
		nn.Conv("mix", 6, 1, 1, 0, nn.Glorot(1)), nn.Tanh, nn.Flatten, nn.Dense("hidden", 12, nn.Glorot(2)), nn.Tanh, nn.Dense("out", 4, nn.Glorot(3)))
	check(t, err)
	network, err := nn.Lower(logits, nn.WithName("mine"))
	check(t, err)
	c := scattered()
	c.Whiten = "pink"
	c.Classes, c.Model, c.Batch, c.Steps, c.LR = nil, "", ptr(100.0), ptr(60), ptr(1.0)
	r := finished(t, c, Options{Sources: sources(made(1, 400)), Out: filepath.Join(t.TempDir(), "run"), Network: network})
	if r.Model != "mine" || !r.Guarantee || *r.TestAccuracy < 0.6 {
		t.Errorf("model %s, guarantee %v, accuracy %v", r.Model, r.Guarantee, *r.TestAccuracy)
	}
}
