package train

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/cryptotest"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/accountant/ledger"
	"github.com/privgrad/privgrad/cuda"
	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/dpoptim/objpert"
	"github.com/privgrad/privgrad/dpoptim/outpert"
	"github.com/privgrad/privgrad/internal/charge"
	"github.com/privgrad/privgrad/internal/cpu"
	"github.com/privgrad/privgrad/internal/cuda/driver/fake"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/reference"
	"github.com/privgrad/privgrad/internal/plan"
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/nn"
)

// A method is an optimizer as the suite runs it: a new one is a row here.
type method struct {
	name string
	set  func(*Config) // over small()
	// follow is the published recursion, in float64 (nil: a test of its own has it); takes are the branches of it
	// that the private run of so many steps must come through (0: 5).
	follow func(*replay)
	takes  []string
	steps  int
	// variant rows differ from another in the recursion alone, and run no more.
	variant bool
	// generous is for noise that is published for every ε, and costs far less.
	generous bool
}

var methods = []method{
	{name: "sgd", set: public("sgd", 0.5), follow: sgd},
	{name: "adam", set: public("adam", 0.02), follow: adam},
	{name: "dp-sgd", set: func(c *Config) { c.L2 = 1e-3 }, follow: sgd},
	{name: "dp-sgd with momentum", set: func(c *Config) { c.Momentum, c.L2 = 0.9, 1e-3 }, follow: sgd, variant: true},
	{name: "dp-adam", set: func(c *Config) { c.Optimizer, c.LR, c.L2 = "dp-adam", ptr(0.02), 1e-3 }, follow: adam},
	{name: "dp-adam with other moments, without the noise's variance", set: func(c *Config) {
		c.Optimizer, c.LR, c.Adam.SubtractNoise = "dp-adam", ptr(0.02), true
		c.Adam.Beta1, c.Adam.Beta2, c.Adam.Epsilon = ptr(0.8), ptr(0.95), ptr(1e-3)
	}, follow: adam, variant: true},
	{name: "dp-adamw", set: func(c *Config) { c.Optimizer, c.LR, c.L2 = "dp-adamw", ptr(0.02), 0.3 }, follow: adamW},
	{name: "dp-nesterov", set: func(c *Config) { c.Optimizer, c.LR, c.Momentum, c.L2 = "dp-nesterov", ptr(0.1), 0.8, 1e-3 }, follow: func(r *replay) {
		m := make([]float64, len(r.w))
		for r.more() {
			g, _ := r.gradient(multiplierOf(r.c), r.c.Clip)
			for i := range r.w {
				d := g[i] + r.c.L2*r.w[i]
				m[i] = r.c.Momentum*m[i] + d
				r.w[i] -= *r.c.LR * (d + r.c.Momentum*m[i])
			}
		}
	}},
	{name: "l2p with an identity", set: protected("identity"), follow: sgd, variant: true},
	{name: "l2p", set: func(c *Config) { protected("projector")(c); c.L2 = 1e-3 }, follow: projected},
	{name: "dp-blsgd", set: searchedBy("dp-blsgd", 0.5, Search{Budget: budgetFixed, Every: ptr(2)}), follow: searching},
	{name: "dp-blsgd by published searches on shared batches", set: searchedBy("dp-blsgd", 6, Search{
		Budget: budgetFixed, Form: searchLosses, Batches: "shared", Trials: ptr(5), StartEvery: ptr(2),
	}), follow: searching},
	{name: "dp-blsgd by curves", set: searchedBy("dp-blsgd", 0.5, Search{Budget: budgetFixed, Form: searchCurve, Every: ptr(2)}), follow: searching},
	{name: "dp-blsgd with budgets by the angle", set: searchedBy("dp-blsgd", 8, Search{
		Budget: "adaptive", Iterations: ptr(8), Trials: ptr(3), Beta: ptr(0.5), StartEvery: ptr(2),
		Wide: ptr(1.05), Narrow: ptr(0.9), Decay: ptr(0.3),
	}), follow: adapted, takes: []string{"wide alone", "narrow"}, steps: 8},
	{name: "dp-blsgd with budgets that always grow", set: searchedBy("dp-blsgd", 2, Search{
		Budget: "always", Form: searchDifferences, Iterations: ptr(8), Trials: ptr(4), StartEvery: ptr(2),
	}), follow: adapted, takes: []string{"again"}, steps: 6},
	{name: "dp-blsgd with budgets that never grow", set: searchedBy("dp-blsgd", 2, Search{
		Budget: "never", Iterations: ptr(8), Trials: ptr(3), StartEvery: ptr(2),
	}), follow: adapted, takes: []string{"again"}, steps: 6, variant: true},
	{name: "dp-blsgd-ac", set: searchedBy("dp-blsgd-ac", 12, Search{
		Batches: "shared", Iterations: ptr(8), Trials: ptr(3), Beta: ptr(0.5), StartEvery: ptr(2),
		Wide: ptr(1.3), Narrow: ptr(0.9), Decay: ptr(0.5),
	}), follow: adapted, takes: []string{"obtuse alone", "narrow"}, steps: 8},
	{name: "dp-blgd", set: searchedBy("dp-blgd", 2, Search{
		Iterations: ptr(6), Trials: ptr(3), StartEvery: ptr(2), Shrink: ptr(0.2),
	}), follow: adapted, takes: []string{"again"}},
	{name: "dp-agd", set: seeded(2, searchedBy("dp-agd", 2, Search{
		Iterations: ptr(6), Trials: ptr(4), StartEvery: ptr(2),
	})), follow: adapted, takes: []string{"again"}},
	{name: "noisy-gd", set: onAll("noisy-gd", func(c *Config) { c.NoiseMultiplier = ptr(20.0) }), follow: scheduled, variant: true},
	{name: "noisy-gd in a ball", set: onAll("noisy-gd", func(c *Config) { c.NoiseMultiplier, c.Radius = ptr(20.0), ptr(0.5) }), follow: scheduled, takes: []string{"project"}, variant: true},
	{name: "pur-a", set: onAll("pur-a", func(c *Config) { c.PUR.Rho = ptr(200.0) }), follow: scheduled, variant: true},
	{name: "pur-a by scale", set: onAll("pur-a", func(c *Config) { c.PUR.Rho, c.PUR.K = ptr(200.0), ptr(1.5) }), follow: scheduled, variant: true},
	{name: "pur-b", set: onAll("pur-b", func(c *Config) { c.PUR.Rho, c.Radius = ptr(200.0), ptr(2.0) }), follow: scheduled, takes: []string{"project"}},
	{name: "pur-c", set: onAll("pur-c", func(c *Config) { c.PUR.Rho, c.PUR.K = ptr(200.0), ptr(2.0) }), follow: scheduled},
	{name: "pur-constant", set: onAll("pur-constant", func(c *Config) { c.PUR.Rho, c.PUR.Sigma = ptr(200.0), ptr(0.3) }), follow: scheduled, variant: true},
	{name: "pur-oracle", set: onAll("pur-oracle", func(c *Config) { c.Radius, c.PUR.K = ptr(0.4), ptr(2.0) }), follow: scheduled},
	{name: "bassily-sgd", set: onAll("bassily-sgd", func(c *Config) {
		c.Epsilon, c.Radius, c.Batch, c.L2 = ptr(40.0), ptr(2.0), ptr(40.0), 0
	}), follow: scheduled, takes: []string{"project"}, generous: true},
	{name: outpert.GD, set: fitted(outpert.GD, func(c *Config) { c.Steps = ptr(40) })},
	{name: outpert.RSGD, set: fitted(outpert.RSGD, func(*Config) {})},
	{name: objpert.Name, set: fitted(objpert.Name, func(*Config) {})},
	{name: "privgene", set: func(c *Config) { c.Optimizer, c.Batch, c.LR = "privgene", nil, nil }},
	{name: "rrpsgd", set: onAll("rrpsgd", func(c *Config) { c.NoiseMultiplier, c.Batch, c.Seed = ptr(1.0), ptr(40.0), 250 }), follow: rounds, steps: 8},
	{name: "rrpsgd with smaller steps", set: onAll("rrpsgd", func(c *Config) {
		c.NoiseMultiplier, c.LR, c.LRSchedule, c.Warmup, c.Seed = ptr(1.0), ptr(1e-3), "cosine", 2, 2539
	}), follow: rounds, steps: 8, variant: true},
	{name: "rrpsgd with the published noise", set: onAll("rrpsgd", func(c *Config) { c.Epsilon, c.RRPSGD.Form, c.Seed = ptr(1.0), "paper", 250 }), follow: rounds, steps: 8, variant: true},
	{name: "bassily-sgd with a penalty", set: onAll("bassily-sgd", func(c *Config) { c.Epsilon, c.Batch = ptr(40.0), ptr(40.0) }), follow: scheduled, variant: true},
}

// onAll chooses a method for convex losses, which takes all records in every step, unless it has a batch.
func onAll(optimizer string, set func(*Config)) func(*Config) {
	return func(c *Config) {
		c.Optimizer, c.FeatureNorm, c.L2 = optimizer, ptr(3.0), 0.05
		c.NoiseMultiplier, c.Batch, c.LR = nil, nil, nil
		set(c)
	}
}

// fitted chooses a method that releases what a solver finds, once.
func fitted(optimizer string, set func(*Config)) func(*Config) {
	return func(c *Config) {
		c.Optimizer, c.L2 = optimizer, 0.02
		c.Steps, c.Batch, c.LR = nil, nil, nil
		set(c)
	}
}

// fits reports whether a method makes a single release.
func fits(c Config) bool {
	return slices.Contains([]string{outpert.GD, outpert.RSGD, objpert.Name, majority}, c.Optimizer)
}

// slots is how many updates a run is to make.
func slots(c Config) int {
	if fits(c) {
		return 1
	}
	return *c.Steps
}

// plans reports whether a method fixes the noise of its steps itself.
func plans(c Config) bool { return c.PUR.Rho != nil || c.Optimizer == "bassily-sgd" }

// uneven reports whether that noise differs from step to step.
func uneven(c Config) bool { return c.PUR.Rho != nil && c.Optimizer != "pur-constant" }

// lasting is a configuration with first budgets that leave enough for all of its steps.
func lasting(c Config) Config {
	if adapts(c) {
		c.Search.Iterations, c.Epsilon = ptr(400), ptr(20.0)
	}
	return c
}

// searchedBy chooses an optimizer that searches, from a step size on and under a penalty.
func searchedBy(optimizer string, start float64, s Search) func(*Config) {
	return func(c *Config) {
		*c = searchConfig(optimizer, s)
		c.LR, c.L2 = &start, 0.01
	}
}

// seeded is for rows whose noise has to take a branch.
func seeded(seed uint64, set func(*Config)) func(*Config) {
	return func(c *Config) {
		set(c)
		c.Seed = seed
	}
}

// TestOptimizers holds every optimizer to what a private run promises.
func TestOptimizers(t *testing.T) {
	for _, m := range methods {
		t.Run(m.name, func(t *testing.T) { conform(t, m) })
	}
}

// TestLongOptimizersOnGPU computes each again on the interpreter, which is slow; make test tries DP-SGD and protectors there.
func TestLongOptimizersOnGPU(t *testing.T) {
	devices := map[string]device.Device{"cuda": everyDevice(t)["cuda"]}
	for _, m := range methods {
		t.Run(m.name, func(t *testing.T) {
			c := small()
			if m.set(&c); m.follow != nil {
				testRecursion(t, m, c, devices)
			}
			if !m.variant && c.Private() {
				testTranscript(t, c, devices)
			}
		})
	}
}

// TestLongOptimizersResume stops and resumes each of them; make test resumes other things that have state, and crashes every optimizer.
func TestLongOptimizersResume(t *testing.T) {
	for _, m := range methods {
		t.Run(m.name, func(t *testing.T) {
			c := small()
			if m.set(&c); fits(c) {
				return // what was stopped begins again: TestFitsInterrupted
			}
			testSeededResume(t, c)
		})
	}
}

// conform is the suite for one optimizer, but for testSeededResume, which is long.
func conform(t *testing.T, m method) {
	c := small()
	m.set(&c)
	if m.follow != nil {
		t.Run("recursion", func(t *testing.T) { testRecursion(t, m, c, hosts(t)) })
	}
	if m.variant {
		return
	}
	t.Run("bad records", func(t *testing.T) { testBadRecords(t, c) })
	if !c.Private() {
		return
	}
	t.Run("accounting", func(t *testing.T) { testAccounting(t, c) })
	t.Run("crash", func(t *testing.T) {
		if c.Optimizer == "rrpsgd" {
			cryptotest.SetGlobalRandom(t, manyRounds)
		}
		if adapts(c) {
			testEndsAnywhere(t, c)
		} else {
			testCrashStaysCharged(t, c)
		}
	})
	t.Run("empty batches", func(t *testing.T) { testEmptyBatches(t, c) })
	if !m.generous {
		t.Run("budget", func(t *testing.T) { testBudget(t, c) })
	}
	t.Run("transcript", func(t *testing.T) { testTranscript(t, c, hosts(t)) })
}

// testTranscript replays the same run on each device.
func testTranscript(t *testing.T, c Config, devices map[string]device.Device) {
	if !fits(c) {
		c.Steps = ptr(6)
	}
	for name, d := range devices {
		t.Run(name, func(t *testing.T) { replayed(t, c, d) })
	}
}

// hosts are devices without a GPU.
func hosts(t *testing.T) map[string]device.Device {
	t.Helper()
	host, err := cpu.Open(1)
	check(t, err)
	return map[string]device.Device{"reference": reference.Open(), "cpu": host}
}

// everyDevice is one of each kind; a fake driver stands for a GPU.
func everyDevice(t *testing.T) map[string]device.Device {
	t.Helper()
	all := hosts(t)
	gpu, err := cuda.Open(fake.New(fake.Options{}), 0)
	check(t, err)
	t.Cleanup(func() { gpu.Close() })
	all["cuda"] = gpu
	return all
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// public chooses an optimizer without privacy.
func public(name string, rate float64) func(*Config) {
	return func(c *Config) { c.Optimizer, c.NoiseMultiplier, c.LR = name, nil, &rate }
}

// updatesOf is how many a run makes that nothing stops.
func updatesOf(c Config, r *Result) int {
	if r.Rounds != nil {
		return *r.Rounds
	}
	return slots(c)
}

// testAccounting has a run charged for what it drew, composed independently of how
// it priced itself: never less, and no more than rounding explains. What is asked of
// one batch is amplified together.
func testAccounting(t *testing.T, c Config) {
	if c.Accountant = accountant.RDP; adapts(c) {
		c.Steps, c.Epsilon = ptr(1000), ptr(2.0) // the budget ends it
	}
	c.EvalEvery = 12 // each evaluation is priced
	d := noting(t)
	o := Options{Sources: sources(made(1, 400)), Out: filepath.Join(t.TempDir(), "run"), Device: d, Resume: ResumeAuto}
	p := resolved(t, c, o)
	r := finished(t, c, o)
	s := charges(t, o.Out)
	if !r.Guarantee || len(r.NoGuarantee) != 0 || *r.Accountant != c.Accountant {
		t.Errorf("the result says %+v", r)
	}
	if adapts(c) {
		spent, charged := spentBy(t, p, d), float64(s.Reserved)/charge.Units
		// A shared batch is charged for its search even where the run ended before it.
		if !(spent <= charged) || c.Search.Batches != "shared" && spent < charged*(1-1e-2) || charged > 1 {
			t.Errorf("%v of the budget was drawn, %v charged", spent, charged)
		}
		if *r.Epsilon != *c.Epsilon || !(*r.EpsilonSoFar <= *r.Epsilon) || !(*r.EpsilonSoFar > 0) || r.Committed != nil || r.NoiseMultiplier != nil {
			t.Errorf("the result says %+v", r)
		}
		if r.Steps == *c.Steps {
			t.Error("the budget did not end the run")
		}
	} else {
		events, updates := d.cost(t, p), slots(c)
		if r.Rounds != nil { // all that might have been are charged
			updates = *r.Rounds
			if len(events) != 1 || events[0].Count != updates {
				t.Errorf("%d rounds released %v", updates, events)
			}
			events[0].Count = *c.Steps
		}
		a, err := accountant.Account(events, accountant.Options{Accountant: c.Accountant, Neighbouring: accountant.Neighbouring(p.Config.Neighbouring), Delta: *r.Delta})
		check(t, err)
		if !(a.Epsilon <= *r.Epsilon*(1+1e-9)) || !(a.Epsilon > *r.Epsilon*(1-4e-3)) {
			t.Errorf("ε %v is reported, what was drawn costs %v: %v", *r.Epsilon, a.Epsilon, events)
		}
		if *r.EpsilonSoFar != *r.Epsilon || *r.Committed != slots(c) || uneven(c) != (r.NoiseMultiplier == nil) || !plans(c) && *r.NoiseMultiplier != *c.NoiseMultiplier {
			t.Errorf("the result says %+v", r)
		}
		releases := updates
		if searches(c) {
			releases += (*c.Steps + *p.Config.Search.Every - 1) / *p.Config.Search.Every
		}
		if released := len(d.all) + d.hosted(); s.Reserved != slots(c) || r.Steps != updates || released != releases {
			t.Errorf("the ledger charges %d of %d slots, %d values were released in %d updates, want %d", s.Reserved, slots(c), released, r.Steps, releases)
		}
	}
	again, err := Run(context.Background(), c, o)
	if err != nil || again.Steps != r.Steps || *again.EpsilonSoFar != *r.EpsilonSoFar {
		t.Errorf("a finished run does not give its stored result: %v", err)
	}
}

// testSeededResume stops and resumes a seeded run in every way: it leaves the
// bytes of one that never stopped.
func testSeededResume(t *testing.T, c Config) {
	t.Chdir(t.TempDir())
	c.Noise = dpoptim.Seeded
	c = lasting(c)
	o := Options{Sources: sources(made(1, 400)), RunID: strings.Repeat("ab", 16), block: 5}
	o.Out = "whole"
	finished(t, c, o)
	charged, _, err := ledger.Read(filepath.Join("whole", rundir.Ledger))
	check(t, err)
	want := files(t, "whole")
	o.Out, o.Resume = "pieces", ResumeAuto
	for _, stop := range []struct {
		slot   int
		cancel bool
	}{{0, false}, {3, true}, {9, false}, {13, false}, {13, true}, {23, false}} {
		ctx, o := stopAt(t, o, stop.slot, stop.cancel)
		_, err := Run(ctx, c, o)
		if stop.cancel && !errors.Is(err, ErrInterrupted) || !stop.cancel && !errors.Is(err, errCrash) {
			t.Fatalf("stopped at %d: %v", stop.slot, err)
		}
	}
	r := finished(t, c, o)
	if want := updatesOf(c, r); r.Steps != want || r.Guarantee {
		t.Errorf("%d of %d steps, guarantee %v", r.Steps, want, r.Guarantee)
	}
	got := files(t, "pieces")
	got[rundir.Result] = strings.Replace(got[rundir.Result], `"pieces"`, `"whole"`, 1)
	// The ledger's bytes tell how often it was written; its meaning is compared.
	delete(want, rundir.Ledger)
	delete(got, rundir.Ledger)
	sameFiles(t, want, got)
	lost := 0 // replayed, but for what a process had charged ahead
	if adapts(c) {
		lost = charge.Ahead
	}
	if s, _, err := ledger.Read(filepath.Join("pieces", rundir.Ledger)); err != nil || s.Reserved < charged.Reserved || s.Reserved > charged.Reserved+lost {
		t.Errorf("the ledger charges %d of its slots, %d in one piece: %v", s.Reserved, charged.Reserved, err)
	}
}

// testCrashStaysCharged: a step that a crash lost stays spent, its slot is gone
// and fewer updates run, unless noise is seeded.
func testCrashStaysCharged(t *testing.T, c Config) {
	o := Options{Sources: sources(made(1, 400)), Out: filepath.Join(t.TempDir(), "run"), Resume: ResumeAuto, block: 5}
	at, lost := 7, 5 // slots 5 to 9 are reserved when the run dies at 7: all five are lost
	if fits(c) {
		at, lost = 0, 1
	}
	_, crash := stopAt(t, o, at, false)
	ends(context.Background(), t, c, crash, errCrash)
	r := finished(t, c, o)
	if want := min(slots(c)-lost, updatesOf(c, r)); r.Steps != want || *r.Committed != slots(c) {
		t.Errorf("%d updates of %d committed, want %d", r.Steps, *r.Committed, want)
	}
	if fits(c) { // and not repeated
		p := resolved(t, c, o)
		w, _, err := rundir.ReadModel(filepath.Join(o.Out, rundir.Model), p.Network.Program)
		if err != nil || slices.ContainsFunc(w, func(v float32) bool { return v != 0 }) {
			t.Errorf("the model is %v: %v", w, err)
		}
	}
	if *r.EpsilonSoFar != *r.Epsilon {
		t.Errorf("ε so far %v after a used-up schedule of ε %v", *r.EpsilonSoFar, *r.Epsilon)
	}
	again, err := Run(context.Background(), c, o)
	if err != nil || *again.TestAccuracy != *r.TestAccuracy || again.Seconds != r.Seconds {
		t.Errorf("a finished run does not give its stored result: %v", err)
	}
}

// testEndsAnywhere: ended at any release, a run whose budgets adapt has charged that
// release and all before it. It goes on with what is left: its processes together stay
// within the budget.
func testEndsAnywhere(t *testing.T, c Config) {
	c.Steps, c.Epsilon = ptr(1000), ptr(2.0)
	p := resolved(t, c, Options{Sources: sources(made(1, 400))})
	for _, ends := range [][]int{{0}, {1, 0}, {2, 5}, {23, 1}} {
		dir := t.TempDir()
		o := Options{Sources: sources(made(1, 400)), Out: filepath.Join(dir, "run"), Resume: ResumeAuto}
		var processes []*drawn
		whole := false
		for _, end := range ends {
			d, n := noting(t), 0
			processes = append(processes, d)
			o := o
			o.Device = d
			o.onRelease = func(int) error {
				if n++; n > end {
					return errCrash
				}
				return nil
			}
			_, err := Run(context.Background(), c, o)
			if whole = err == nil; whole {
				break
			}
			if !errors.Is(err, errCrash) {
				t.Fatalf("%v: %v", ends, err)
			}
			s := charges(t, o.Out)
			if spent := spentBy(t, p, processes...); !(spent < float64(s.Reserved)/charge.Units) {
				t.Errorf("%v: %v of the budget was drawn, and the next release charged, the ledger says %v", ends, spent, float64(s.Reserved)/charge.Units)
			}
		}
		if !whole {
			d := noting(t)
			o.Device = d
			processes = append(processes, d)
			r := finished(t, c, o)
			if *r.EpsilonSoFar > *r.Epsilon {
				t.Errorf("%v: ε so far %v of %v", ends, *r.EpsilonSoFar, *r.Epsilon)
			}
		}
		if spent := spentBy(t, p, processes...); spent > 1 {
			t.Errorf("%v: %v of the budget was drawn", ends, spent)
		}
	}
}

// An empty batch raised an error or skipped the noise elsewhere (opacus #161, #358, #522).
func testEmptyBatches(t *testing.T, c Config) {
	c = lasting(c)
	if c.Noise = dpoptim.Seeded; !fits(c) {
		c.LR = ptr(1e-6)
	}
	c.Accountant, c.EvalEvery = accountant.RDP, 1000 // which prices even what δ covers
	r, params := trainedOn(t, c, made(1, 0), Options{})
	if r.Steps != updatesOf(c, r) || !(*r.Epsilon > 0) {
		t.Errorf("%d steps at ε %v", r.Steps, *r.Epsilon)
	}
	if rms(params) == 0 {
		t.Error("empty batches drew no noise")
	}
}

// Malformed records, and records whose gradient is not finite, count as zero:
// other records of the kind, or none, leave the same parameters, and nothing
// about the run shows them.
func testBadRecords(t *testing.T, c Config) {
	c.Noise, c.Classes, c.Accountant, c.EvalEvery = dpoptim.Seeded, nil, accountant.RDP, 12
	two := func(set *datasets.Set) *datasets.Set {
		set.Classes, set.ClassNames, set.PerClass = 2, set.ClassNames[:2], []int{200, 200}
		return set
	}
	shown := func(set *datasets.Set) (string, []float32) {
		network, err := plan.BuildNetwork("logistic", nn.Options{Input: set.Train.Shape, Classes: 2, Seed: 1})
		check(t, err)
		s := &screen{}
		_, params := trainedOn(t, c, set, Options{Network: network, Progress: s})
		return s.String(), params
	}
	same := func(what string, a, b *datasets.Set) {
		t.Helper()
		shownA, x := shown(a)
		shownB, y := shown(b)
		for i := range x {
			if x[i] != y[i] || math.IsNaN(float64(x[i])) || math.IsInf(float64(x[i]), 0) {
				t.Fatalf("%s: weight %d is %v and %v", what, i, x[i], y[i])
			}
		}
		if shownA != shownB {
			t.Errorf("%s: runs show\n%s\n%s", what, shownA, shownB)
		}
	}
	// Records of classes that do not exist, and other such records.
	other := made(1, 400)
	for i, l := range other.Train.Labels {
		if l >= 2 {
			for j := range 64 {
				other.Train.Features[i*64+j] ^= 0xff
			}
			other.Train.Labels[i] = 255
		}
	}
	same("malformed", two(made(1, 400)), two(other))
	if !c.Private() || fits(c) {
		return // nothing is clipped, so nothing is measured; and a solver begins at 0, whatever the weights are
	}
	// A value that is no number makes a gradient that is not finite.
	same("not finite", two(endless()), two(gradientless()))
}

// An ε that no noise reaches is refused before anything is written, as what the
// budget does not allow.
func testBudget(t *testing.T, c Config) {
	c.NoiseMultiplier, c.Epsilon, c.Accountant = nil, ptr(1e-5), accountant.RDP
	if c.PUR.Rho != nil {
		c.PUR.Rho, c.Accountant = nil, Default().Accountant
	}
	if err := refusedBefore(t, c, Options{Sources: sources(made(1, 400))}, "raise epsilon or"); !errors.Is(err, accountant.ErrBudget) {
		t.Errorf("an ε that no noise reaches: %v", err)
	}
}
