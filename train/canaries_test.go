package train

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/internal/audit/onerun"
	"github.com/privgrad/privgrad/internal/canary"
	"github.com/privgrad/privgrad/internal/cpu"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/nn"
	"github.com/privgrad/privgrad/trained"
)

// audited is a linear model with canaries, at ε = 4.
func audited(canaries int) Config {
	c := Default()
	c.Recipe, c.Data, c.Model, c.Canaries = "none", "made", "logistic", canaries
	c.NoiseMultiplier, c.SamplingRate, c.Steps = ptr(2.), ptr(.136), ptr(147)
	c.Epochs, c.Delta, c.LR, c.EvalEvery = nil, ptr(1e-5), ptr(.1), 1000
	return c
}

// audit trains, claims what the configuration says, and audits the run.
func audit(t *testing.T, c Config, claim func(config string) string, o Options) *onerun.Result {
	t.Helper()
	o.Sources = sources(made(1, 400))
	if o.Out == "" {
		o.Out = filepath.Join(t.TempDir(), "run")
	}
	finished(t, c, o)
	if claim != nil {
		path := rundir.Dir(o.Out).Path(rundir.Config)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		said := claim(string(text))
		if said == string(text) {
			t.Fatal("the configuration claims nothing else")
		}
		if err := os.WriteFile(path, []byte(said), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	r, err := onerun.Audit(o.Out)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// planted are runs that claim what they do not keep.
var planted = []struct {
	name  string
	spoil func(*Config)
	claim func(config string) string
	twice bool // every record counts twice
}{
	{"noise halved", func(c *Config) { c.NoiseMultiplier = ptr(1.) }, replaced("noise_multiplier: 1.0", "noise_multiplier: 2.0"), false},
	{"clip doubled", func(c *Config) { c.Clip, c.NoiseMultiplier = 2, ptr(1.) }, func(s string) string {
		return replaced("clip: 2.0", "clip: 1.0")(replaced("noise_multiplier: 1.0", "noise_multiplier: 2.0")(s))
	}, false},
	{"rate doubled", func(c *Config) { c.SamplingRate = ptr(.272) }, replaced("sampling_rate: 0.272", "sampling_rate: 0.136"), false},
	{"each record twice", func(*Config) {}, nil, true},
}

func replaced(old, by string) func(string) string {
	return func(s string) string { return strings.Replace(s, old, by, 1) }
}

// twiceDevice adds every sum of gradients twice.
type twiceDevice struct{ device.Device }

func (d twiceDevice) Compile(s *ir.Schedule, o device.Options) (device.Net, error) {
	n, err := d.Device.Compile(s, o)
	return twiceNet{n}, err
}

type twiceNet struct{ device.Net }

func (n twiceNet) Record(body func(device.Queue)) (device.Step, error) {
	return n.Net.Record(func(q device.Queue) { body(twiceQueue{q}) })
}

type twiceQueue struct{ device.Queue }

func (q twiceQueue) ClippedSum(dst device.Sum, from device.Data) {
	q.Queue.ClippedSum(dst, from)
	q.Queue.ClippedSum(dst, from)
}

// One run convicts each fault. Half the noise has a power of .9999 or more with 1,000 canaries, so that a test of four fails once in 2,000 times.
func TestCanariesConvict(t *testing.T) {
	for _, f := range planted {
		t.Run(f.name, func(t *testing.T) {
			c := audited(1000)
			f.spoil(&c)
			var o Options
			if f.twice {
				d, err := cpu.Open(2)
				if err != nil {
					t.Fatal(err)
				}
				defer d.Close()
				o.Device = twiceDevice{d}
			}
			r := audit(t, c, f.claim, o)
			t.Logf("%d of %d right, %d refute; ε ≥ %.3f of %.3f; power %.4f", r.Right, r.Canaries, r.Refuting, r.EpsilonLower, r.Epsilon, r.Power)
			if !r.Convicted || r.EpsilonLower <= r.Epsilon {
				t.Errorf("not convicted: %+v", r)
			}
		})
	}
}

// A correct run is convicted with a probability of .001 at most, so two of 12 are once in 15,000 times. As many guesses are right as
// go with the noise.
func TestCanariesAcquit(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"logistic": func(*Config) {},
		"exact":    func(c *Config) { c.Noise = dpoptim.Exact },
		"adam":     func(c *Config) { c.Optimizer, c.LR = "dp-adam", ptr(.01) },
		"full":     func(c *Config) { c.SamplingRate, c.Steps, c.NoiseMultiplier = ptr(1.), ptr(50), ptr(12.) },
	} {
		t.Run(name, func(t *testing.T) {
			convicted, right, lower, epsilon := 0, 0, 0., 0.
			const runs = 3
			c := audited(1000)
			change(&c)
			for range runs {
				r := audit(t, c, nil, Options{})
				if right, lower, epsilon = right+r.Right, lower+r.EpsilonLower/runs, r.Epsilon; r.Convicted {
					convicted++
				}
			}
			t.Logf("%d of %d convicted; ε ≥ %.3f of %.3f on average", convicted, runs, lower, epsilon)
			if convicted > 1 { // once in 3e5 times
				t.Errorf("%d of %d correct runs are convicted", convicted, runs)
			}
			// Within five standard deviations.
			if want := canary.Chance(*c.SamplingRate, *c.Steps, *c.NoiseMultiplier, 1); math.Abs(float64(right)-1000*runs*want) > 5*math.Sqrt(1000*runs*want*(1-want)) {
				t.Errorf("%d of %d guesses are right, want about %v", right, 1000*runs, want)
			}
		})
	}
}

// Killed at any release and resumed, a run keeps its coins, and goes on hearing: with noise that repeats, it ends as it would have.
func TestCanariesAreKept(t *testing.T) { keptAt(t, 1, 2, 3, 17, 199) }

func TestLongCanariesAreKept(t *testing.T) {
	var all []int
	for slot := range 200 {
		all = append(all, slot+1)
	}
	keptAt(t, all...)
}

func keptAt(t *testing.T, points ...int) {
	c := audited(30)
	c.Noise, c.Steps = dpoptim.Seeded, ptr(201)
	run := func(out string, kill int) (coins []bool, heard []byte) {
		o := Options{Sources: sources(made(1, 400)), Out: out, block: 7, Resume: ResumeAuto}
		dead := errors.New("killed")
		o.onRelease = func(slot int) error {
			if slot == kill {
				return dead
			}
			return nil
		}
		if kill > 0 {
			if _, err := Run(context.Background(), c, o); !errors.Is(err, dead) {
				t.Fatalf("killed at release %d: %v", kill, err)
			}
			coins, err := rundir.Dir(out).ReadCoins(30)
			if check(t, err); coins == nil {
				t.Fatalf("killed at release %d, a run has no coins", kill)
			}
		}
		o.onRelease = nil
		finished(t, c, o)
		coins, err := rundir.Dir(out).ReadCoins(30)
		check(t, err)
		heard, err = rundir.Dir(out).ReadHeard()
		check(t, err)
		return coins, heard
	}
	coins, heard := run(filepath.Join(t.TempDir(), "run"), 0)
	for _, at := range points {
		again, also := run(filepath.Join(t.TempDir(), "run"), at)
		if !slices.Equal(again, coins) || !bytes.Equal(also, heard) {
			t.Errorf("killed at release %d, the run has other coins or heard something else", at)
		}
	}
}

// Coins that are gone end a run that has begun: no others are drawn.
func TestCanariesWithoutCoins(t *testing.T) {
	c, out := audited(20), filepath.Join(t.TempDir(), "run")
	dead := errors.New("killed")
	o := Options{Sources: sources(made(1, 400)), Out: out, Resume: ResumeAuto, onRelease: func(slot int) error {
		if slot == 30 {
			return dead
		}
		return nil
	}}
	if _, err := Run(context.Background(), c, o); !errors.Is(err, dead) {
		t.Fatal(err)
	}
	if _, err := onerun.Audit(out); !strings.Contains(fmt.Sprint(err), "has not finished") {
		t.Errorf("a run that has not finished: %v", err)
	}
	path := rundir.Dir(out).CoinsPath()
	check(t, os.Remove(path))
	o.onRelease = nil
	if _, err := Run(context.Background(), c, o); !strings.Contains(fmt.Sprint(err), path) {
		t.Errorf("without coins: %v", err)
	}
	check(t, os.WriteFile(path, []byte(`{"coins":[1,0,2]}`), 0o600))
	if _, err := Run(context.Background(), c, o); !strings.Contains(fmt.Sprint(err), "coins of 20 canaries") {
		t.Errorf("with other coins: %v", err)
	}
}

// A run that has charged nothing tosses its own coins, whatever another one has left beside its directory.
func TestCanariesOfAnotherRun(t *testing.T) {
	out := filepath.Join(t.TempDir(), "run")
	var all [][]bool
	for _, k := range []int{40, 60, 60} {
		c := audited(k)
		c.Steps = ptr(3)
		finished(t, c, Options{Sources: sources(made(1, 400)), Out: out})
		coins, err := rundir.Dir(out).ReadCoins(k)
		check(t, err)
		all = append(all, coins)
		check(t, os.RemoveAll(out))
	}
	if slices.Equal(all[1], all[2]) { // by chance once in 2⁶⁰ times
		t.Error("a run has the coins of one before it")
	}
}

// Where the network becomes sure of labels, canaries are heard less, and the audit says so: its power is that of what was heard. What absent canaries are
// heard by is the noise alone, as much as ever.
func TestCanariesThatAreShort(t *testing.T) {
	c := audited(1000)
	c.LR = ptr(1e4)
	out := filepath.Join(t.TempDir(), "run")
	r := audit(t, c, nil, Options{Out: out})
	if !(r.Signal < .9) || !(r.Power < .9999) {
		t.Errorf("at a learning rate of 10⁴, a signal of %v is heard, and the power is %v", r.Signal, r.Power)
	}
	coins, err := rundir.Dir(out).ReadCoins(1000)
	check(t, err)
	heard, err := rundir.Dir(out).ReadHeard()
	check(t, err)
	square, n := 0., 0.
	for i, x := range canary.Read(heard, 1000).Products {
		if !coins[i] {
			square, n = square+x*x, n+1
		}
	}
	// Five standard deviations of the mean square, and what rounding adds to the noise.
	if want := 2. * 2. * 147; square/n < want*(1-5*math.Sqrt(2/n)) || square/n > want*(1.2+5*math.Sqrt(2/n)) {
		t.Errorf("the products of absent canaries have the mean square %v, want %v", square/n, want)
	}
}

// The model that a run leaves has no part of the canaries, and is as accurate as without them.
func TestCanariesLeaveTheModel(t *testing.T) {
	c, out := audited(200), filepath.Join(t.TempDir(), "run")
	c.NoiseMultiplier = ptr(.5)
	with := finished(t, c, Options{Sources: sources(made(1, 400)), Out: out})
	c.Canaries = 0
	without := finished(t, c, Options{Sources: sources(made(1, 400)), Out: out + "0"})
	if with.Parameters != without.Parameters || with.Canaries != 200 || math.Abs(with.ExpectedBatch-.136*600) > 1e-9 {
		t.Errorf("%d parameters, %d canaries and batches of %v; %d parameters without canaries", with.Parameters, with.Canaries, with.ExpectedBatch, without.Parameters)
	}
	if *with.TestAccuracy < *without.TestAccuracy-.1 {
		t.Errorf("%v of test records are right with canaries, %v without", *with.TestAccuracy, *without.TestAccuracy)
	}
	e, err := evaluated(out, trained.Options{Sources: sources(made(1, 400))})
	if check(t, err); e.Accuracy == nil || *e.Accuracy != *with.TestAccuracy {
		t.Errorf("the model is right on %v, the run said %v", e.Accuracy, *with.TestAccuracy)
	}
}

// What nothing could be heard of is refused, with what to do.
func TestCanariesAreRefused(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"neighbouring replace-one": func(c *Config) { c.Neighbouring = "replace-one" },
		"clipping per-layer":       func(c *Config) { c.Clipping = "per-layer" },
		"augment flip":             func(c *Config) { c.Augment, c.Views = []string{"flip"}, 2 },
		"optimizer dp-blsgd":       func(c *Config) { c.Optimizer, c.LR, c.NoiseMultiplier, c.Epsilon = "dp-blsgd", nil, nil, ptr(3.) },
		"optimizer sgd":            func(c *Config) { c.Optimizer, c.NoiseMultiplier = "sgd", nil },
		"figures on training":      func(c *Config) { c.PrivateDiagnostics = true },
		"them; leave out --data-":  func(c *Config) { c.DataIsPublic = true },
		"and --train-loss-noise":   func(c *Config) { c.TrainLossNoise = ptr(4.) },
		"loss hinge":               func(c *Config) { c.Model, c.Classes = "svm", []int{0, 1} },
	} {
		c := audited(10)
		change(&c)
		_, err := resolve(c, Options{Sources: sources(made(1, 400))})
		if !strings.Contains(fmt.Sprint(err), want) || !strings.Contains(fmt.Sprint(err), "canaries 10") {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// In a network of several layers, canaries are heard as well as in a linear model: half the noise is convicted, and correct noise proves near what
// it claims.
func TestCanariesInNetworks(t *testing.T) {
	g := G.NewGraph()
	x := G.NewTensor(g, tensor.Float32, 4, G.WithShape(1, 1, 8, 8), G.WithName("x"))
	logits, err := nn.Apply(x, nn.Conv("edges", 6, 3, 1, 1, nn.Glorot(1)), nn.GroupNorm("norm", 2), nn.Tanh, nn.MaxPool(2, 2), nn.Flatten, nn.Dense("hidden", 12, nn.Glorot(2)), nn.Tanh, nn.Dense("out", 4, nn.Glorot(3)))
	check(t, err)
	n, err := nn.Lower(logits, nn.WithName("small"))
	check(t, err)
	for noise, convicted := range map[float64]bool{2.5: false, 1.25: true} {
		c := audited(1000)
		c.NoiseMultiplier = &noise
		var claim func(string) string
		if convicted {
			claim = replaced("noise_multiplier: 1.25", "noise_multiplier: 2.5")
		}
		right, epsilon, lower := 0, 0., 0.
		const runs = 3
		for range runs {
			r := audit(t, c, claim, Options{Network: n})
			right, epsilon, lower = right+r.Right, r.Epsilon, lower+r.EpsilonLower/runs
			if convicted && !r.Convicted {
				t.Errorf("half the noise: %+v", r)
			}
		}
		t.Logf("noise %v: %d of %d right; ε ≥ %.3f of %.3f on average", noise, right, 1000*runs, lower, epsilon)
		// Guesses are right with the probability that goes with the noise, within five standard deviations.
		if want := canary.Chance(.136, 147, noise, 1); math.Abs(float64(right)-1000*runs*want) > 5*math.Sqrt(1000*runs*want*(1-want)) {
			t.Errorf("noise %v: %d of %d guesses are right, want about %v", noise, right, 1000*runs, want)
		}
	}
}
