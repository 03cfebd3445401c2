package train

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/accountant/ledger"
	"github.com/privgrad/privgrad/dpoptim/l2p"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/stream"
)

// protector is the path of a protector of random weights: identity, projector,
// scheduler or both, by what is learned in it.
func protector(name string) string {
	path, err := filepath.Abs("testdata/" + name + ".safetensors")
	if err != nil {
		return err.Error()
	}
	return path
}

// The paths, before a test changes the directory.
var protectors = map[string]string{
	"identity": protector("identity"), "projector": protector("projector"),
	"scheduler": protector("scheduler"), "both": protector("both"),
}

// protected chooses optimizer l2p; a schedule needs a budget to spend.
func protected(name string) func(*Config) {
	return func(c *Config) {
		c.Optimizer, c.Protector, c.LR = learned, protectors[name], nil
		if name == "scheduler" || name == "identity" {
			c.LR = ptr(0.5)
		}
		if name == "scheduler" || name == "both" {
			c.NoiseMultiplier, c.Epsilon = nil, ptr(2.0)
		}
	}
}

// projected is training with a protector, from the definition of its LSTMs and of what
// they read (docs/l2p.md), in float64.
func projected(r *replay) {
	p, err := l2p.Read(r.c.Protector)
	check(r.t, err)
	size, planned := float64(len(r.w)), float64(r.p.setting.Steps)
	wide := func(x []float32) (y []float64) {
		for _, v := range x {
			y = append(y, float64(v))
		}
		return y
	}
	step, schedule := p.Card.Projector.LSTM(3), p.Card.Scheduler.LSTM(3)
	stepWeights, scheduleWeights := wide(p.Projector), wide(p.Scheduler)
	states, state := make([][]float64, len(r.w)), make([]float64, schedule.States())
	for i := range states {
		states[i] = make([]float64, step.States())
	}
	var b accountant.Budget
	scheduled := r.p.schedules() && r.p.Sigma > 0
	if scheduled {
		b, err = r.p.NewBudget()
		check(r.t, err)
	}
	left, multiplier, norm2 := 1.0, 0.0, 0.0
	unit := func(multiplier float64) float64 {
		return math.Sqrt(math.Pow(multiplier*r.c.Clip/r.batch, 2) + r.c.Clip*r.c.Clip/size)
	}
	for t := 1; r.more(); t++ {
		elapsed := float64(t-1) / planned
		if left = 1 - elapsed; scheduled {
			left = b.Left()
		}
		var s [device.Slots]float32
		set := func(context ...float64) {
			for i, x := range context {
				s[device.Context+device.Slot(i)] = float32(x)
			}
		}
		last := multiplier
		if multiplier = multiplierOf(r.c); scheduled {
			energy := 0.0
			if t > 1 {
				energy = math.Log(norm2/(size*unit(last)*unit(last)) + 1e-3)
			}
			s[device.Scale], s[device.Gain], s[device.Rate] = 1, 1, 1
			set(elapsed, left, 0)
			y := schedule.Apply(&s, scheduleWeights, 0, energy, state)
			multiplier = r.p.setting.Least + 2*(r.p.setting.Planned-r.p.setting.Least)/(1+math.Exp(-y))
			check(r.t, b.Ask(accountant.PoissonBatch(r.rate, 1, accountant.Gaussian{NoiseMultiplier: multiplier})))
		}
		g, phi := r.gradient(multiplier, r.c.Clip)
		norm2 = dot(g, g)
		u := math.Sqrt(phi + r.c.Clip*r.c.Clip/size)
		s[device.Scale], s[device.L2], s[device.Rate], s[device.Gain] = 1, float32(r.c.L2), float32(*r.c.LR), float32(1/u)
		set(elapsed, left, math.Sqrt(phi)/u)
		for i := range r.w {
			if p.Card.Projector.Kind == l2p.Identity {
				r.w[i] -= *r.c.LR * (g[i] + r.c.L2*r.w[i])
			} else {
				r.w[i] = step.Apply(&s, stepWeights, r.w[i], g[i], states[i])
			}
		}
	}
}

// A schedule, too, follows its definition, from the norms of what was released.
func TestScheduledRecursion(t *testing.T) {
	for _, name := range []string{"scheduler", "both"} {
		t.Run(name, func(t *testing.T) {
			c := small()
			protected(name)(&c)
			c.Epsilon, c.L2 = ptr(5.0), 1e-3
			testRecursion(t, method{follow: projected}, c)
		})
	}
}

// A protector that does nothing is DP-SGD, bit for bit.
func TestIdentityIsDPSGD(t *testing.T) {
	for name, d := range devices(t) {
		t.Run(name, func(t *testing.T) {
			c := small()
			c.Noise, c.L2, c.Momentum = noiseSeeded, 1e-3, 0.5
			if name != "cpu" {
				c.Steps = ptr(6)
			}
			want, params := trained(t, c, made(1, 400), Options{Device: d})
			protected("identity")(&c)
			got, same := trained(t, c, made(1, 400), Options{Device: d})
			if !slices.Equal(params, same) || *got.Epsilon != *want.Epsilon || got.Steps != want.Steps || *got.NoiseMultiplier != *want.NoiseMultiplier {
				t.Errorf("l2p with an identity ends at ε %v after %d steps, dp-sgd at %v after %d, or with other parameters", *got.Epsilon, got.Steps, *want.Epsilon, want.Steps)
			}
		})
	}
}

// What a schedule spends is what its events cost at the filter's order, within the
// budget and up to it; the noise stays in its range and varies.
func TestScheduleSpendsTheBudget(t *testing.T) {
	for _, test := range []struct {
		name string
		set  func(*Config)
	}{
		{"scheduler", protected("scheduler")},
		{"both", protected("both")},
		{"norms", func(c *Config) { protected("both")(c); c.NormNoise = ptr(6.0) }},
		{"replace-one", func(c *Config) { protected("both")(c); c.Neighbouring = "replace-one" }},
		{"ctcdp", func(c *Config) { paperAccounting(c) }},
		{"ctcdp, norms", func(c *Config) { paperAccounting(c); c.NormNoise = ptr(40.0) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := small()
			test.set(&c)
			var multipliers []float64
			o := Options{Sources: sources(made(1, 400)), Out: filepath.Join(t.TempDir(), "run"), Device: devices(t)["cpu"]}
			o.onSchedule = func(m float64) { multipliers = append(multipliers, m) }
			r, err := Run(context.Background(), c, o)
			check(t, err)
			p, err := Resolve(c, Options{Sources: o.Sources, Device: o.Device})
			check(t, err)
			if r.Steps != len(multipliers)-1 && r.Steps != len(multipliers) {
				t.Fatalf("%d steps by %d schedules", r.Steps, len(multipliers))
			}
			lowest, highest := slices.Min(multipliers), slices.Max(multipliers)
			if lowest < p.setting.Least || highest > 2*p.setting.Planned || highest/lowest < 1.0001 {
				t.Errorf("noise multipliers from %v to %v, σ_min is %v and σ_g %v", lowest, highest, p.setting.Least, p.setting.Planned)
			}
			b, err := p.NewBudget()
			check(t, err)
			for i, m := range multipliers[:r.Steps] {
				if err := b.Ask(p.asked(m)); err != nil {
					t.Fatalf("step %d: %v", i+1, err)
				}
			}
			if next := len(multipliers) > r.Steps; next && b.Ask(p.asked(multipliers[r.Steps])) == nil {
				t.Errorf("the run stopped after %d steps although its budget allowed another", r.Steps)
			}
			s, _, err := ledger.Read(filepath.Join(o.Out, fileLedger))
			check(t, err)
			if spent := units(1 - b.Left()); s.Reserved < spent || s.Reserved > spent+1 && len(multipliers) == r.Steps {
				t.Errorf("the ledger charges %d units, %d were spent", s.Reserved, spent)
			}
			if !r.Guarantee || *r.Epsilon != *c.Epsilon || *r.EpsilonSoFar > *c.Epsilon*(1+1e-9) || r.NoiseMultiplier != nil || r.Committed != nil {
				t.Errorf("guarantee %v of ε %v, %v so far: %v", r.Guarantee, *r.Epsilon, *r.EpsilonSoFar, r.NoGuarantee)
			}
		})
	}
}

// paperAccounting is the paper's: constrained truncated concentrated privacy of batches
// of a fixed size.
func paperAccounting(c *Config) {
	protected("both")(c)
	c.Accountant, c.Neighbouring, c.Batch, c.Epsilon = accountant.CTCDP, "replace-one", ptr(12.0), ptr(0.8)
}

// The planned noise spends the budget in the planned steps, the least in one.
func TestPlannedNoise(t *testing.T) {
	for _, set := range []func(*Config){protected("both"), paperAccounting, func(c *Config) { protected("both")(c); c.NormNoise = ptr(9.0) }} {
		c := small()
		set(&c)
		p, err := Resolve(c, Options{Sources: sources(made(1, 400))})
		check(t, err)
		for _, x := range []struct {
			multiplier float64
			steps      int
		}{{p.setting.Planned, p.Steps}, {p.setting.Least, 1}} {
			admitted := func(multiplier float64) (n int) {
				b, err := p.NewBudget()
				check(t, err)
				for n < 10*x.steps && b.Ask(p.asked(multiplier)) == nil {
					n++
				}
				return n
			}
			if more, fewer := admitted(x.multiplier*(1+1e-6)), admitted(x.multiplier*(1-1e-6)); more < x.steps || fewer >= x.steps {
				t.Errorf("%s: noise multiplier %v admits %d steps and just below it %d, %d are planned", p.Config.Accountant, x.multiplier, more, fewer, x.steps)
			}
		}
	}
}

// Where the conditions of the paper's accounting and not the budget set the noise, the
// planned steps are made, no more, and what they leave of the budget is told.
func TestConditionsSetTheNoise(t *testing.T) {
	c := small()
	paperAccounting(&c)
	for _, name := range []string{"identity", "both"} {
		c.Protector, c.Epsilon, c.Steps, c.LR = protectors[name], ptr(2.0), ptr(5), ptr(0.1)
		p, err := Resolve(c, Options{Sources: sources(made(1, 400))})
		check(t, err)
		if len(p.Warnings) == 0 || !strings.Contains(strings.Join(p.Warnings, " "), "5 steps spend") {
			t.Errorf("%s: warnings %v", name, p.Warnings)
		}
		r, _ := trained(t, c, made(1, 400), Options{})
		if r.Steps != 5 || *r.EpsilonSoFar >= *r.Epsilon {
			t.Errorf("%s: %d steps at ε %v of %v", name, r.Steps, *r.EpsilonSoFar, *r.Epsilon)
		}
		if committed := r.Committed != nil && *r.Committed == 5 && r.NoiseMultiplier != nil; committed != (name == "identity") {
			t.Errorf("%s: committed to %v steps of noise %v", name, r.Committed, r.NoiseMultiplier)
		}
	}
}

// Under replace-one no label decides whether a run with subsets is made, nor how: with
// any number of records left by --classes, or by a table's split, the plan is the same,
// and what batches draw of the places is, too.
func TestSubsetsOfAnyNumber(t *testing.T) {
	c := small()
	paperAccounting(&c)
	var want *Plan
	var drawn []int32
	for _, rows := range []int{400, 0, 1, 100, 399, 800} {
		for _, share := range []float64{0, 0.8} { // a table's records go by what they say
			set := made(1, rows)
			set.Share = share
			p, err := Resolve(c, Options{Sources: sources(set)})
			if err != nil {
				t.Fatalf("%d records: %v", rows, err)
			}
			if want == nil {
				want = p
			}
			if p.ExpectedBatch != want.ExpectedBatch || p.SamplingRate != want.SamplingRate || p.Fingerprint != want.fingerprint {
				t.Errorf("%d records: batches of %v at rate %v, want %v at %v", rows, p.ExpectedBatch, p.SamplingRate, want.ExpectedBatch, want.SamplingRate)
			}
			n := p.Set.Train.Len()
			s, err := p.Sampler(n, stream.KeyFromSeed(1, "places"))
			check(t, err)
			full, err := p.Sampler(p.PublicN, stream.KeyFromSeed(1, "places"))
			check(t, err)
			drawn = s.Batch(7, drawn)
			if of := slices.DeleteFunc(full.Batch(7, nil), func(i int32) bool { return int(i) >= n }); !slices.Equal(drawn, of) {
				t.Errorf("%d records: %v are drawn of them, want %v", rows, drawn, of)
			}
		}
	}
	set := made(1, 400)
	trained(t, c, set, Options{})
	set.Train.Labels[slices.Index(set.Train.Labels, 0)] = 3 // one record leaves the classes that are kept
	trained(t, c, set, Options{})
}

// A file of a user's own is an assumption, a shipped protector is not.
func TestProtectorFileIsAnAssumption(t *testing.T) {
	for name, assumed := range map[string]bool{protectors["projector"]: true, "mnist": false} {
		c := small()
		protected("projector")(&c)
		c.Protector = name
		p, err := Resolve(c, Options{Sources: sources(made(1, 400))})
		check(t, err)
		if slices.Contains(p.Assumptions(), "protector_file_is_public") != assumed {
			t.Errorf("%s: assumptions %v", name, p.Assumptions())
		}
	}
}

// Batches of a fixed size have it.
func TestSubsetsInRuns(t *testing.T) {
	c := small()
	paperAccounting(&c)
	p, err := Resolve(c, Options{Sources: sources(made(1, 400))})
	check(t, err)
	keys, err := p.Keys()
	check(t, err)
	s, err := p.Sampler(p.PublicN, keys.sampling)
	check(t, err)
	for step := range uint64(50) {
		if rows := s.Batch(step, nil); len(rows) != 12 {
			t.Fatalf("a batch of %d records, want 12", len(rows))
		}
	}
	r, _ := trained(t, c, made(1, 400), Options{})
	if r.Sampling != "fixed-size" || *r.Accountant != accountant.CTCDP || *r.Neighbouring != "replace-one" {
		t.Errorf("the result says %s batches, %s, %s", r.Sampling, *r.Accountant, *r.Neighbouring)
	}
}

// A schedule resumes exactly where noise is seeded, and spends what crashes lost where
// it is not.
func TestScheduleResumes(t *testing.T) {
	for _, name := range []string{"both", "scheduler"} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			c := small()
			protected(name)(&c)
			c.Noise, c.NormNoise = noiseSeeded, ptr(8.0)
			o := Options{Sources: sources(made(1, 400)), RunID: strings.Repeat("ab", 16), Out: "whole"}
			_, err := Run(context.Background(), c, o)
			check(t, err)
			want := files(t, "whole")
			o.Out, o.Resume = "pieces", ResumeAuto
			for _, stop := range []struct {
				slot   int
				cancel bool
			}{{0, false}, {3, true}, {5, false}, {6, true}} {
				ctx, o := stopAt(t, o, stop.slot, stop.cancel)
				if _, err := Run(ctx, c, o); stop.cancel && !errors.Is(err, ErrInterrupted) || !stop.cancel && !errors.Is(err, errCrash) {
					t.Fatalf("stopped at %d: %v", stop.slot, err)
				}
			}
			_, err = Run(context.Background(), c, o)
			check(t, err)
			got := files(t, "pieces")
			got[fileResult] = strings.Replace(got[fileResult], `"pieces"`, `"whole"`, 1)
			delete(want, fileLedger)
			delete(got, fileLedger)
			sameFiles(t, want, got)

			c.Noise = noiseSecure
			o.Out = "crashed"
			_, crash := stopAt(t, o, 6, false)
			if _, err := Run(context.Background(), c, crash); !errors.Is(err, errCrash) {
				t.Fatal(err)
			}
			before, _, err := ledger.Read(filepath.Join("crashed", fileLedger))
			check(t, err)
			r, err := Run(context.Background(), c, o)
			check(t, err)
			s, _, err := ledger.Read(filepath.Join("crashed", fileLedger))
			check(t, err)
			if s.Reserved < before.Reserved || s.CrashedSlots == 0 || *r.EpsilonSoFar > *r.Epsilon {
				t.Errorf("%d units charged before the crash and %d after it, %d of them lost", before.Reserved, s.Reserved, s.CrashedSlots)
			}
		})
	}
}

// Without noise a schedule has nothing to spend, makes the planned steps and follows
// the definition of its projector.
func TestProtectorWithoutNoise(t *testing.T) {
	c := small()
	protected("both")(&c)
	c.Epsilon, c.NoiseMultiplier = nil, ptr(0.0)
	r, _ := trained(t, c, made(1, 400), Options{})
	if r.Steps != 24 || r.Guarantee || r.Epsilon != nil {
		t.Errorf("%d steps, guarantee %v, ε %v", r.Steps, r.Guarantee, r.Epsilon)
	}
}

// Neither part may look at a batch: two data sets against one transcript, of norms too.
func TestScheduleTranscript(t *testing.T) {
	for name, d := range devices(t) {
		for _, norms := range []bool{false, true} {
			t.Run(fmt.Sprint(name, norms), func(t *testing.T) {
				c := small()
				protected("both")(&c)
				if norms {
					c.NormNoise = ptr(8.0)
				}
				if name != "cpu" {
					c.Steps, c.Epsilon = ptr(4), ptr(0.9)
				}
				replayed(t, c, d)
			})
		}
	}
}

// A norm is charged with the sum of its batch: both are one event, of Poisson batches and
// of subsets, and leave less of the budget for the steps.
func TestNormIsCharged(t *testing.T) {
	for name, set := range map[string]func(*Config){"poisson": protected("both"), "subsets": paperAccounting} {
		c := small()
		set(&c)
		without, err := Resolve(c, Options{Sources: sources(made(1, 400))})
		check(t, err)
		c.NormNoise = ptr(50.0)
		p, err := Resolve(c, Options{Sources: sources(made(1, 400))})
		check(t, err)
		want := accountant.PoissonBatch(p.SamplingRate, 1, accountant.Gaussian{NoiseMultiplier: 20}, accountant.Gaussian{NoiseMultiplier: 50})
		if name == "subsets" {
			want.Sampling = accountant.FixedSize
		}
		if got := p.asked(20); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: a step asks for %+v, want %+v", name, got, want)
		}
		if !(p.setting.Planned > without.setting.Planned) {
			t.Errorf("%s: %v is planned with norms and %v without", name, p.setting.Planned, without.setting.Planned)
		}
	}
}

// A schedule sees records as little as any optimizer: malformed ones and gradients that
// are not finite count as zero, empty batches draw noise and are charged, and what no
// noise reaches is refused.
func TestScheduleKeepsThePromises(t *testing.T) {
	c := small()
	protected("both")(&c)
	t.Run("bad records", func(t *testing.T) { testBadRecords(t, c) })
	t.Run("budget", func(t *testing.T) { testBudget(t, c) })
	t.Run("empty batches", func(t *testing.T) {
		r, params := trained(t, c, made(1, 0), Options{})
		if r.Steps < 2 || !(*r.EpsilonSoFar > 0) || rms(params) == 0 {
			t.Errorf("%d steps at ε %v, parameters of size %v", r.Steps, *r.EpsilonSoFar, rms(params))
		}
	})
}

// A run on records that trained its protector guarantees nothing, and says why.
func TestProtectorKnowsTheData(t *testing.T) {
	for _, test := range []struct {
		data    string
		classes []int
		says    bool
	}{
		{"mnist", nil, true}, {"mnist", []int{4, 9}, true}, {"mnist", []int{3, 5}, false}, {"fmnist", nil, false}, {"made", []int{4, 6}, false},
	} {
		p, err := l2p.Read(protectors["identity"])
		check(t, err)
		plan := &Plan{Config: Config{Optimizer: learned, Data: test.data, Classes: test.classes, Accountant: accountant.PLD}, protector: p, spent: map[int]float64{}, Epsilon: ptr(1.0)}
		why := plan.noGuarantee()
		if said := len(why) == 1 && strings.Contains(why[0], "trained on records of mnist"); said != test.says || !said && len(why) != 0 {
			t.Errorf("%s %v: %v", test.data, test.classes, why)
		}
	}
}

// Settings that go with no protector, or that a schedule has no room for.
func TestProtectorSettings(t *testing.T) {
	for want, set := range map[string]func(*Config){
		"settings name 00":          func(c *Config) { c.Weights = "00" },
		"take a part of it":         func(c *Config) { c.NormNoise = ptr(1e-3) },
		"steps 2000000000: must be": func(c *Config) { c.Steps = ptr(2_000_000_000) },
		"go up to": func(c *Config) {
			c.Noise, c.Epsilon, c.Steps, c.Batch = noiseExact, ptr(0.00837), ptr(30000), ptr(50.0)
		},
		"which only optimizer l2p draws": func(c *Config) {
			c.Optimizer, c.Protector, c.Accountant, c.Neighbouring = "dp-sgd", "", accountant.CTCDP, "replace-one"
		},
		"needs a protector":                  func(c *Config) { c.Protector = "" },
		"unknown protector":                  func(c *Config) { c.Protector = "nobody" },
		"no such file":                       func(c *Config) { c.Protector = "nowhere.safetensors" },
		"optimizer dp-sgd has none":          func(c *Config) { c.Optimizer = "dp-sgd" },
		"asks for no norm":                   func(c *Config) { c.Optimizer, c.Protector, c.NormNoise = "dp-sgd", "", ptr(1.0) },
		"memory of its own":                  func(c *Config) { c.Momentum = 0.9 },
		"would not look at the norm":         func(c *Config) { protected("projector")(c); c.NormNoise = ptr(1.0) },
		"the noise is scheduled":             func(c *Config) { c.Epsilon, c.NoiseMultiplier = nil, ptr(1.0) },
		"leaves no budget aside":             func(c *Config) { c.TrainLossNoise = ptr(1.0) },
		"does not know how many steps":       func(c *Config) { c.LRSchedule = "cosine" },
		"clip norm that stays":               func(c *Config) { c.Clipping = "adaptive" },
		"is priced by rdp":                   func(c *Config) { c.Accountant = accountant.PRV },
		"under replace-one":                  func(c *Config) { c.Accountant = accountant.CTCDP },
		"norms have no integer form":         func(c *Config) { c.Noise, c.NormNoise = noiseExact, ptr(1.0) },
		"norm-noise -1":                      func(c *Config) { c.NormNoise = ptr(-1.0) },
		"prices the batches":                 func(c *Config) { paperAccounting(c); c.TrainLossNoise = ptr(1.0) },
		"accountant ctcdp: it holds":         func(c *Config) { paperAccounting(c); c.Neighbouring = "add-remove" },
		"scale -1 of a projector|rate -1":    func(c *Config) { c.LR = ptr(-1.0) },
		"no noise makes|constraint of ctCDP": func(c *Config) { paperAccounting(c); c.Batch = ptr(100.0) },
	} {
		c := small()
		protected("both")(&c)
		set(&c)
		_, err := Resolve(c, Options{Sources: sources(made(1, 400))})
		if err == nil || !slices.ContainsFunc(strings.Split(want, "|"), func(s string) bool { return strings.Contains(err.Error(), s) }) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

// Subsets are drawn of tables, too, whatever their schema or a fold holds out.
func TestSubsetsOfATable(t *testing.T) {
	t.Chdir(t.TempDir())
	makeTable(t, "two", 1, 700, 0.1)
	for _, folds := range []int{0, 4} {
		c := tableConfig()
		paperAccounting(&c)
		c.Classes, c.NoiseMultiplier, c.Steps, c.PublicN = nil, nil, ptr(3), ptr(800)
		if folds > 0 {
			c.Folds, c.Fold = folds, 1
		}
		r, err := Run(context.Background(), c, Options{Out: fmt.Sprint("run", folds)})
		check(t, err)
		if r.Sampling != "fixed-size" || r.ExpectedBatch != 12 || r.Guarantee != (folds == 0) {
			t.Errorf("%d folds: %s batches of %v, guarantee %v", folds, r.Sampling, r.ExpectedBatch, r.Guarantee)
		}
	}
}
