package train

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/accountant/ledger"
	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/dpoptim/rrpsgd"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/host"
	"github.com/privgrad/privgrad/internal/device/reference"
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/nn"
)

// Seeds of the operating system's randomness under which runs of the suite draw as many rounds as
// their tests need, of 24, and as many as each other, of 6.
var (
	manyRounds uint64 = 17
	sameRounds        = [2]uint64{1, 12}
)

// roundsRun is a short one, of single records unless that changes.
func roundsRun(set func(*Config)) Config {
	c := small()
	onAll("rrpsgd", func(c *Config) { c.NoiseMultiplier = ptr(1.0) })(&c)
	set(&c)
	return c
}

// A run that is interrupted any number of times makes the rounds that it began with, each once, and is
// charged for all that might have been.
func TestRoundsStay(t *testing.T) {
	for range 4 {
		c := roundsRun(func(*Config) {})
		o := Options{Sources: sources(made(1, 400)), Out: filepath.Join(t.TempDir(), "run"), Resume: ResumeAuto, block: 5}
		state := func() string {
			c, err := rundir.Dir(o.Out).ReadCheckpoint(65, nil)
			check(t, err)
			return c.Method
		}
		var r *Result
		first := ""
		for stop := 0; r == nil; stop += 4 {
			ctx, o := stopAt(t, o, stop, true)
			done, err := Run(ctx, c, o)
			if first == "" {
				first = state()
			}
			if err != nil && !errors.Is(err, ErrInterrupted) {
				t.Fatal(err)
			}
			r = done
		}
		if want := fmt.Sprintf(`{"rounds":%d}`, *r.Rounds); first != want || state() != want || r.Steps != *r.Rounds || r.Steps > *r.Committed {
			t.Errorf("%d steps of %d, the checkpoint of the first process says %s, of the last %s", r.Steps, *r.Rounds, first, state())
		}
		s, _, err := ledger.Read(filepath.Join(o.Out, rundir.Ledger))
		if check(t, err); s.Reserved != *c.Steps || *r.EpsilonSoFar != *r.Epsilon {
			t.Errorf("%d slots of %d were charged, ε so far is %v of %v", s.Reserved, *c.Steps, *r.EpsilonSoFar, *r.Epsilon)
		}
	}
}

// The number of rounds is on the disk before the first of them is charged: processes that die there
// do not draw another one.
func TestRoundsOutliveCrash(t *testing.T) {
	c := roundsRun(func(*Config) {})
	o := Options{Sources: sources(made(1, 400)), Out: filepath.Join(t.TempDir(), "run"), Resume: ResumeAuto, block: 3}
	want := ""
	for range 4 {
		ctx, o := stopAt(t, o, 0, false)
		ends(ctx, t, c, o, errCrash)
		at, err := rundir.Dir(o.Out).ReadCheckpoint(65, nil)
		check(t, err)
		if at.Step != 0 || want != "" && at.Method != want {
			t.Fatalf("after %d updates the state is %s, and was %s", at.Step, at.Method, want)
		}
		want = at.Method
	}
	r := finished(t, c, o)
	if got := fmt.Sprintf(`{"rounds":%d}`, *r.Rounds); got != want {
		t.Errorf("the run began with %s and made %s", want, got)
	}
}

// starting sees the bound on the loss that a method is told.
type starting struct {
	dpoptim.Method
	loss *float64
}

func (s starting) Complete(c dpoptim.Settings, n dpoptim.Network) (dpoptim.Settings, dpoptim.Notes, error) {
	*s.loss = n.StartLoss
	return s.Method.Complete(c, n)
}

// The public bound on the loss before the first round holds for every named model, every class and records
// of any values.
func TestStartLoss(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	for _, model := range nn.Names() {
		if slices.Contains([]string{"cifar-paper", "wrn-16-4", "wrn-40-4"}, model.Name) {
			continue // as cifar-small or resnet-small, and large
		}
		if model.Input == [3]int{} {
			model.Input = [3]int{1, 8, 8}
		}
		width := model.Input[0] * model.Input[1] * model.Input[2]
		set := made(1, 1)
		set.Classes, set.PublicN = model.Classes, 400
		set.ClassNames, set.PerClass = make([]string, model.Classes), make([]int, model.Classes)
		for i := range set.PerClass {
			set.ClassNames[i], set.PerClass[i] = fmt.Sprint(i), 400/model.Classes
		}
		for _, s := range []*datasets.Split{&set.Train, &set.Test} {
			*s = datasets.Split{Shape: model.Input, Features: make([]byte, width), Labels: []uint8{0}}
		}
		if model.Loss == nn.Huber {
			set.Classes, set.ClassNames, set.PerClass = 0, nil, nil
			set.Train.Labels, set.Test.Labels = nil, nil
			set.Train.Targets, set.Test.Targets = []float32{0}, []float32{1}
		}
		c := roundsRun(func(c *Config) { c.Model, c.Classes, c.L2, c.FeatureNorm = model.Name, nil, 0, nil })
		bound := math.NaN()
		p, err := resolve(c, Options{Sources: sources(set), Method: starting{rrpsgd.New(rrpsgd.Settings{}, 0), &bound}})
		if err != nil {
			t.Errorf("%s: %v", model.Name, err)
			continue
		}
		params := make([]float64, p.Network.Program.NumParams())
		for i, x := range p.Network.Params() {
			params[i] = float64(x)
		}
		for _, scale := range []float64{0, 1, 1e3} {
			x := make([]float64, width)
			for i := range x {
				x[i] = scale * random.NormFloat64()
			}
			values := reference.Values(p.Network.Program, params, x, device.Float32)
			for class := range max(model.Classes, 2) {
				target := float32(class)
				if model.Loss != nn.SoftmaxCrossEntropy && model.Loss != nn.Huber {
					target = 2*target - 1
				}
				if loss := host.Loss(p.Network.Program.Loss, values[len(values)-1], target, nil); !(loss <= bound*(1+1e-15)) {
					t.Errorf("%s: a record of class %d has a loss of %v at the start, above %v", model.Name, class, loss, bound)
				}
			}
		}
	}
}

// Places that no record takes give a zero gradient, and records past the public number are never drawn:
// with other such records, or without them, a run is the same.
func TestRoundsOverPlaces(t *testing.T) {
	c := roundsRun(func(c *Config) {
		c.Noise, c.Batch, c.Accountant, c.Classes, c.Model = dpoptim.Seeded, ptr(7.0), accountant.RDP, nil, "logistic"
	})
	trained := func(records int) []float32 {
		set := made(1, records)
		if records > 400 {
			for i := range set.Train.Features[400*64:] {
				set.Train.Features[400*64+i] ^= 0xff
			}
		}
		_, params := trainedOn(t, c, set, Options{})
		return params
	}
	whole := trained(400)
	if !slices.Equal(whole, trained(700)) {
		t.Error("records past the public number change the result")
	}
	few := trained(30)
	if slices.Equal(whole, few) || slices.ContainsFunc(few, func(x float32) bool { return math.IsNaN(float64(x)) }) {
		t.Error("missing records change nothing, or leave no number")
	}
}

func TestRoundsRefuse(t *testing.T) {
	published := func(c *Config) { c.RRPSGD.Form, c.NoiseMultiplier, c.Epsilon = "paper", nil, ptr(1.0) }
	for want, set := range map[string]func(*Config){
		"relation add-remove: optimizer rrpsgd":   func(c *Config) { c.Relate(accountant.AddRemove) },
		"makes plain steps":                       func(c *Config) { c.Momentum = 0.5 },
		"give a whole number as --batch":          func(c *Config) { c.Batch = ptr(2.5) },
		"leave out --sampling-rate":               func(c *Config) { c.SamplingRate = ptr(0.1) },
		"takes steps of at most 1/smoothness":     func(c *Config) { c.LR = ptr(10.0) },
		"smoothness 2: that of a linear model":    func(c *Config) { c.RRPSGD.Smoothness = ptr(2.0) },
		"smoothness 2: optimizer dp-sgd does not": func(c *Config) { c.Optimizer, c.RRPSGD.Smoothness, c.LR = "dp-sgd", ptr(2.0), ptr(1.0) },
		"noise multiplier 1: the noise of":        func(c *Config) { c.RRPSGD.Form = "paper" },
		"is published for epsilon up to 1":        func(c *Config) { published(c); c.Epsilon = ptr(2.0) },
		"at most N² = 40000 rounds of one record": func(c *Config) { published(c); c.Batch = ptr(2.0) },
		"begins at zero; leave out --init":        func(c *Config) { c.Init = "model.safetensors" },
		"train-loss-noise 1: optimizer rrpsgd":    func(c *Config) { c.TrainLossNoise = ptr(1.0) },
		"clipping adaptive: optimizer rrpsgd":     func(c *Config) { c.Clipping = "adaptive" },
	} {
		refusedBefore(t, roundsRun(set), Options{Sources: sources(made(1, 400))}, want)
	}
}
