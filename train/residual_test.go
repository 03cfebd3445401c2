package train

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/nn"
	"github.com/privgrad/privgrad/trained"
)

// coloured is the made set as small images of three channels for resnet-small.
func coloured() *datasets.Set {
	set := made(5, 40)
	for _, s := range []*datasets.Split{&set.Train, &set.Test} {
		var features []uint8
		for row := range s.Labels[:20] {
			image := s.Features[row*64 : (row+1)*64]
			for i := range 3 * 32 * 32 {
				features = append(features, image[i/32%32/4*8+i%32/4])
			}
		}
		s.Shape, s.Labels, s.Features = [3]int{3, 32, 32}, s.Labels[:20], features
	}
	set.PublicN, set.PerClass = 100, nil
	return set
}

// A residual network with group normalization trains privately with the settings that it has by default, and moves the
// scales and shifts of its normalizations too. Strategies and threads change nothing but rounding.
func TestResidualNetwork(t *testing.T) {
	c := Default()
	c.Data, c.Model, c.Steps, c.Batch, c.Threads = "made", "resnet-small", ptr(2), ptr(20.0), 1
	c.NoiseMultiplier, c.Delta = ptr(1.0), ptr(1e-3)
	run := func(c Config) (*nn.Network, []float32) {
		t.Helper()
		m, err := nn.Build(c.Model, nn.Options{Classes: 4, Seed: 1})
		check(t, err)
		network, err := m.Lower()
		check(t, err)
		c.Model = ""
		result := finished(t, c, Options{Network: network, Out: filepath.Join(t.TempDir(), "run"), Sources: sources(coloured())})
		if result.Guarantee != (c.Noise != "seeded") {
			t.Errorf("with %s noise the guarantee is %v", c.Noise, result.Guarantee)
		}
		return network, network.Params()
	}
	network, params := run(c)
	for _, op := range network.Program.Ops {
		if op.Kind != ir.GroupNorm {
			continue
		}
		scale, shift := params[network.Program.Params[op.Weight].Offset], params[network.Program.Params[op.Bias].Offset]
		if scale == 1 || shift == 0 || math.IsNaN(float64(scale)) || math.IsNaN(float64(shift)) {
			t.Errorf("%s has the scale %v and the shift %v after training", op.Name, scale, shift)
		}
	}
	c.Noise = "seeded"
	_, want := run(c)
	for _, other := range []func(*Config){func(c *Config) { c.Threads = 2 }, func(c *Config) { c.Strategy = "ghost" }} {
		d := c
		other(&d)
		_, got := run(d)
		for i := range want {
			if !(math.Abs(float64(got[i]-want[i])) <= 1e-3) {
				t.Fatalf("with %d threads and strategy %s parameter %d is %v, else %v", d.Threads, d.Strategy, i, got[i], want[i])
			}
		}
	}
}

// A run of a network that its name no longer stands for goes on with that network, and its model is opened as that one, though
// its file of settings is from before names had versions: it lacks the key. A new run has the new network, and says so.
func TestFormerNetwork(t *testing.T) {
	set := coloured()
	c := Default()
	c.Data, c.Model, c.Steps, c.Batch, c.Threads, c.Noise, c.EvalEvery = "made", "resnet-small", ptr(3), ptr(20.0), 1, "seeded", 1
	c.NoiseMultiplier, c.Delta, c.Activation, c.LR = ptr(1.0), ptr(1e-3), "tanh", ptr(2.0)
	former := c
	former.ModelVersion = 1
	version := func(dir string) string {
		for line := range strings.Lines(string(read(t, dir, rundir.Config))) {
			if after, ok := strings.CutPrefix(line, "model_version: "); ok {
				return strings.TrimSpace(after)
			}
		}
		return ""
	}
	whole := Options{Sources: sources(set), Out: filepath.Join(t.TempDir(), "whole")}
	if want := finished(t, former, whole); want.Parameters != 378180 { // of 4 classes
		t.Errorf("the former network has %d parameters", want.Parameters)
	}

	o := whole
	o.Out = filepath.Join(t.TempDir(), "run")
	ctx, stop := stopAt(t, o, 1, true)
	ends(ctx, t, former, stop, ErrInterrupted)
	dir := rundir.Dir(o.Out)
	for _, name := range []string{rundir.Config, rundir.Begun} {
		text := string(read(t, o.Out, name))
		check(t, dir.Write(name, []byte(strings.Replace(text, "model_version: 1\n", "", 1))))
	}
	var again Config
	check(t, ReadRun(nil, o.Out, &again))
	o.Resume = ResumeRun
	if _, err := Run(context.Background(), again, o); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(read(t, o.Out, rundir.Model), read(t, whole.Out, rundir.Model)) {
		t.Error("the run that went on has another model than the one that was not interrupted")
	}
	if v := version(o.Out); v != "" {
		t.Errorf("the settings of the former run say version %q now", v)
	}
	m, err := trained.Open(o.Out, trained.Options{Sources: o.Sources})
	check(t, err)
	if op := m.Network().Program.Ops[1]; op.Kind != ir.GroupNorm || m.Metadata()["model_version"] != "" {
		t.Errorf("opened, %s stands behind the first convolution; the file says version %q", op.Kind, m.Metadata()["model_version"])
	}

	var copied Config // as by train -c, for a new run with the settings of this one
	check(t, ReadConfig(filepath.Join(o.Out, rundir.Config), &copied))
	if copied.ModelVersion != 1 {
		t.Errorf("its settings read for another run say version %d", copied.ModelVersion)
	}
	// By the flags alone it would be the new network: that is refused.
	if _, err := Run(context.Background(), c, o); err == nil || !strings.Contains(err.Error(), "model_version is 2, was not given") || !strings.Contains(err.Error(), "privgrad resume") {
		t.Errorf("with the settings of a new run: %v", err)
	}
	last := whole
	last.Out = filepath.Join(t.TempDir(), "last")
	c.Activation, c.LR = "", nil
	r := finished(t, c, last)
	var settled Config
	check(t, ReadRun(nil, last.Out, &settled))
	if got := fmt.Sprintf("%d %s %s %v", r.Parameters, version(last.Out), settled.Activation, *settled.LR); got != "377956 2 relu 1" {
		t.Errorf("a new run has %s", got)
	}
	m, err = trained.Open(last.Out, trained.Options{Sources: o.Sources})
	check(t, err)
	if op := m.Network().Program.Ops[1]; op.Kind != ir.ReLU || m.Metadata()["model_version"] != "2" {
		t.Errorf("opened, %s stands behind the first convolution; the file says version %q", op.Kind, m.Metadata()["model_version"])
	}
}
