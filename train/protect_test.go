package train

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/accountant/ledger"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/dpoptim/l2p"
	"github.com/privgrad/privgrad/internal/charge"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/plan"
	"github.com/privgrad/privgrad/internal/rundir"
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
		c.Optimizer, c.L2P.Protector, c.LR = learned, protectors[name], nil
		if name == "scheduler" || name == "identity" {
			c.LR = ptr(0.5)
		}
		if name == "scheduler" || name == "both" {
			c.NoiseMultiplier, c.Epsilon = nil, ptr(2.0)
		}
	}
}

// projected is training with a protector, from the definition of its LSTMs and of what
// they read (docs/explain/learned-noise.md), in float64.
func projected(r *replay) {
	p, err := l2p.Read(r.c.L2P.Protector)
	check(r.t, err)
	size, planned := float64(len(r.w)), float64(r.p.Facts.Steps)
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
	scheduled := schedules(r.p) && r.p.Sigma > 0
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
			multiplier = r.p.Facts.Least + 2*(r.p.Facts.Planned-r.p.Facts.Least)/(1+math.Exp(-y))
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
			testRecursion(t, method{follow: projected}, c, everyDevice(t))
		})
	}
}

// A protector that does nothing is DP-SGD, bit for bit.
func TestIdentityIsDPSGD(t *testing.T) {
	for name, d := range everyDevice(t) {
		t.Run(name, func(t *testing.T) {
			c := small()
			c.Noise, c.L2, c.Momentum = dpoptim.Seeded, 1e-3, 0.5
			if name != "cpu" {
				c.Steps = ptr(6)
			}
			want, params := trainedOn(t, c, made(1, 400), Options{Device: d})
			protected("identity")(&c)
			got, same := trainedOn(t, c, made(1, 400), Options{Device: d})
			if !slices.Equal(params, same) || *got.Epsilon != *want.Epsilon || got.Steps != want.Steps || *got.NoiseMultiplier != *want.NoiseMultiplier {
				t.Errorf("l2p with an identity ends at ε %v after %d steps, dp-sgd at %v after %d, or with other parameters", *got.Epsilon, got.Steps, *want.Epsilon, want.Steps)
			}
		})
	}
}

// asked is a method that notes which noise it asks sums with.
type asked struct {
	dpoptim.Method
	multipliers *[]float64
}

func (a asked) Open(e dpoptim.Engine) (dpoptim.Steps, error) {
	return a.Method.Open(askedEngine{e, a.multipliers})
}

type askedEngine struct {
	dpoptim.Engine
	multipliers *[]float64
}

func (e askedEngine) Sum(q dpoptim.SumQuery) (dpoptim.Sum, error) {
	s, err := e.Engine.Sum(q)
	return askedSum{s, e.multipliers}, err
}

type askedSum struct {
	dpoptim.Sum
	multipliers *[]float64
}

func (s askedSum) Ask(a dpoptim.SumAsk) error {
	*s.multipliers = append(*s.multipliers, a.Release.Noise.(accountant.Gaussian).NoiseMultiplier)
	return s.Sum.Ask(a)
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
		{"norms", func(c *Config) { protected("both")(c); c.L2P.NormNoise = ptr(6.0) }},
		{"replace-one", func(c *Config) { protected("both")(c); c.Neighbouring = "replace-one" }},
		{"ctcdp", func(c *Config) { paperAccounting(c) }},
		{"ctcdp, norms", func(c *Config) { paperAccounting(c); c.L2P.NormNoise = ptr(40.0) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := small()
			test.set(&c)
			var multipliers []float64
			o := Options{Sources: sources(made(1, 400)), Out: filepath.Join(t.TempDir(), "run"), Device: everyDevice(t)["cpu"]}
			p := resolved(t, c, o)
			own := c
			own.L2P = l2p.Settings{} // the method's own
			o.Method = asked{l2p.New(c.L2P), &multipliers}
			r := finished(t, own, o)
			step := func(multiplier float64) accountant.Event {
				prices := []accountant.Mechanism{accountant.Gaussian{NoiseMultiplier: multiplier}}
				if c.L2P.NormNoise != nil {
					prices = append(prices, accountant.Gaussian{NoiseMultiplier: *c.L2P.NormNoise})
				}
				return p.BatchEvent(prices...)
			}
			if r.Steps != len(multipliers)-1 && r.Steps != len(multipliers) {
				t.Fatalf("%d steps by %d schedules", r.Steps, len(multipliers))
			}
			lowest, highest := slices.Min(multipliers), slices.Max(multipliers)
			if lowest < p.Facts.Least || highest > 2*p.Facts.Planned || highest/lowest < 1.0001 {
				t.Errorf("noise multipliers from %v to %v, σ_min is %v and σ_g %v", lowest, highest, p.Facts.Least, p.Facts.Planned)
			}
			b, err := p.NewBudget()
			check(t, err)
			for i, m := range multipliers[:r.Steps] {
				if err := b.Ask(step(m)); err != nil {
					t.Fatalf("step %d: %v", i+1, err)
				}
			}
			if next := len(multipliers) > r.Steps; next && b.Ask(step(multipliers[r.Steps])) == nil {
				t.Errorf("the run stopped after %d steps although its budget allowed another", r.Steps)
			}
			s := charges(t, o.Out)
			if spent := int(math.Ceil((1 - b.Left()) * charge.Units)); s.Reserved < spent || s.Reserved > spent+1 && len(multipliers) == r.Steps {
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

// Where the conditions of the paper's accounting and not the budget set the noise, the
// planned steps are made, no more, and what they leave of the budget is told.
func TestConditionsSetTheNoise(t *testing.T) {
	c := small()
	paperAccounting(&c)
	for _, name := range []string{"identity", "both"} {
		c.L2P.Protector, c.Epsilon, c.Steps, c.LR = protectors[name], ptr(2.0), ptr(5), ptr(0.1)
		p := resolved(t, c, Options{Sources: sources(made(1, 400))})
		if len(p.Warnings) == 0 || !strings.Contains(strings.Join(p.Warnings, " "), "5 steps spend") {
			t.Errorf("%s: warnings %v", name, p.Warnings)
		}
		r, _ := trainedOn(t, c, made(1, 400), Options{})
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
	var want *plan.Plan
	var drawn []int32
	for _, rows := range []int{400, 0, 1, 100, 399, 800} {
		for _, share := range []float64{0, 0.8} { // a table's records go by what they say
			set := made(1, rows)
			set.Share = share
			p, err := resolve(c, Options{Sources: sources(set)})
			if err != nil {
				t.Fatalf("%d records: %v", rows, err)
			}
			if want == nil {
				want = p
			}
			if p.ExpectedBatch != want.ExpectedBatch || p.SamplingRate != want.SamplingRate || p.Fingerprint != want.Fingerprint {
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
	trainedOn(t, c, set, Options{})
	set.Train.Labels[slices.Index(set.Train.Labels, 0)] = 3 // one record leaves the classes that are kept
	trainedOn(t, c, set, Options{})
}

// Batches of a fixed size have it.
func TestSubsetsInRuns(t *testing.T) {
	c := small()
	paperAccounting(&c)
	p := resolved(t, c, Options{Sources: sources(made(1, 400))})
	keys, err := p.Keys()
	check(t, err)
	s, err := p.Sampler(p.PublicN, keys.Sampling)
	check(t, err)
	for step := range uint64(50) {
		if rows := s.Batch(step, nil); len(rows) != 12 {
			t.Fatalf("a batch of %d records, want 12", len(rows))
		}
	}
	r, _ := trainedOn(t, c, made(1, 400), Options{})
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
			c.Noise, c.L2P.NormNoise = dpoptim.Seeded, ptr(8.0)
			o := Options{Sources: sources(made(1, 400)), RunID: strings.Repeat("ab", 16), Out: "whole"}
			finished(t, c, o)
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
			finished(t, c, o)
			got := files(t, "pieces")
			got[rundir.Result] = strings.Replace(got[rundir.Result], `"pieces"`, `"whole"`, 1)
			delete(want, rundir.Ledger)
			delete(got, rundir.Ledger)
			sameFiles(t, want, got)

			c.Noise = dpoptim.Secure
			o.Out = "crashed"
			_, crash := stopAt(t, o, 6, false)
			ends(context.Background(), t, c, crash, errCrash)
			before, _, err := ledger.Read(filepath.Join("crashed", rundir.Ledger))
			check(t, err)
			r := finished(t, c, o)
			s := charges(t, "crashed")
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
	r, _ := trainedOn(t, c, made(1, 400), Options{})
	if r.Steps != 24 || r.Guarantee || r.Epsilon != nil {
		t.Errorf("%d steps, guarantee %v, ε %v", r.Steps, r.Guarantee, r.Epsilon)
	}
}

// Neither part may look at a batch: two data sets against one transcript, of norms too.
func TestScheduleTranscript(t *testing.T) {
	for name, d := range everyDevice(t) {
		for _, norms := range []bool{false, true} {
			t.Run(fmt.Sprint(name, norms), func(t *testing.T) {
				c := small()
				protected("both")(&c)
				if norms {
					c.L2P.NormNoise = ptr(8.0)
				}
				if name != "cpu" {
					c.Steps, c.Epsilon = ptr(4), ptr(0.9)
				}
				replayed(t, c, d)
			})
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
		r, params := trainedOn(t, c, made(1, 0), Options{})
		if r.Steps < 2 || !(*r.EpsilonSoFar > 0) || rms(params) == 0 {
			t.Errorf("%d steps at ε %v, parameters of size %v", r.Steps, *r.EpsilonSoFar, rms(params))
		}
	})
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
		r := finished(t, c, Options{Out: fmt.Sprint("run", folds)})
		if r.Sampling != "fixed-size" || r.ExpectedBatch != 12 || r.Guarantee != (folds == 0) {
			t.Errorf("%d folds: %s batches of %v, guarantee %v", folds, r.Sampling, r.ExpectedBatch, r.Guarantee)
		}
	}
}
