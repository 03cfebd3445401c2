package train

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/accountant/ledger"
	"github.com/privgrad/privgrad/cuda"
	"github.com/privgrad/privgrad/cuda/driver/fake"
	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/internal/cpu"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/reference"
)

// A method is an optimizer as the suite runs it: a new one is a row here.
type method struct {
	name string
	set  func(*Config) // over small()
	// follow is the published recursion, in float64, of parameters w by the mean
	// gradient g of update t, from 1 on; phi is the variance of the noise in a
	// coordinate of g. It holds the optimizer's state.
	follow func(c Config, phi float64) func(w, g []float64, t int)
	// events is what so many slots cost, and releases how many values each
	// releases, where it is not one gradient of a Poisson batch.
	events   func(p *Plan, slots int) []accountant.Event
	releases int
	// variant rows differ from another in the recursion alone, and run no more.
	variant bool
}

var methods = []method{
	{name: "sgd", set: public("sgd", 0.5), follow: sgd},
	{name: "adam", set: public("adam", 0.02), follow: adam},
	{name: "dp-sgd", set: func(c *Config) { c.L2 = 1e-3 }, follow: sgd},
	{name: "dp-sgd with momentum", set: func(c *Config) { c.Momentum, c.L2 = 0.9, 1e-3 }, follow: sgd, variant: true},
	{name: "dp-adam", set: func(c *Config) { c.Optimizer, c.LR, c.L2 = "dp-adam", ptr(0.02), 1e-3 }, follow: adam},
	{name: "dp-adam with other moments, without the noise's variance", set: func(c *Config) {
		c.Optimizer, c.LR, c.SubtractNoiseVariance = "dp-adam", ptr(0.02), true
		c.Beta1, c.Beta2, c.AdamEpsilon = ptr(0.8), ptr(0.95), ptr(1e-3)
	}, follow: adam, variant: true},
	{name: "l2p with an identity", set: protected("identity"), follow: sgd, variant: true},
	{name: "l2p", set: func(c *Config) { protected("projector")(c); c.L2 = 1e-3 }, follow: projected},
	// Of what searches ask and are charged, search_test.go tells.
	{name: "dp-blsgd", set: func(c *Config) {
		c.Optimizer, c.L2, c.Search = "dp-blsgd", 1e-3, &Search{Budget: budgetFixed, Every: ptr(2)}
	}},
	{name: "dp-blsgd by published searches on shared batches", set: func(c *Config) {
		c.Optimizer, c.Search = "dp-blsgd", &Search{Budget: budgetFixed, Form: searchLosses, Batches: "shared", Trials: ptr(5)}
	}},
	{name: "dp-blsgd by curves", set: func(c *Config) {
		c.Optimizer, c.Search = "dp-blsgd", &Search{Budget: budgetFixed, Form: searchCurve}
	}},
}

// TestOptimizers holds every optimizer to what a private run promises.
func TestOptimizers(t *testing.T) {
	for _, m := range methods {
		t.Run(m.name, func(t *testing.T) { conform(t, m) })
	}
}

// conform is the suite for one optimizer.
func conform(t *testing.T, m method) {
	c := small()
	m.set(&c)
	if m.follow != nil {
		t.Run("recursion", func(t *testing.T) { testRecursion(t, m, c) })
	}
	t.Run("resume", func(t *testing.T) { testSeededResume(t, c) })
	if m.variant {
		return
	}
	t.Run("bad records", func(t *testing.T) { testBadRecords(t, c) })
	if !c.private() {
		return
	}
	if !c.searches() {
		t.Run("accounting", func(t *testing.T) { testAccounting(t, m, c) })
	}
	t.Run("crash", func(t *testing.T) { testCrashStaysCharged(t, c) })
	t.Run("empty batches", func(t *testing.T) { testEmptyBatches(t, c) })
	t.Run("budget", func(t *testing.T) { testBudget(t, c) })
	t.Run("transcript", func(t *testing.T) {
		for name, d := range devices(t) {
			if c.searches() && name != "cuda" {
				continue // TestTranscript has it, and it is slow on the reference
			}
			t.Run(name, func(t *testing.T) {
				c := c
				c.Steps = ptr(6)
				replayed(t, c, d)
			})
		}
	})
}

// devices are one of each kind; a fake driver stands for a GPU.
func devices(t *testing.T) map[string]device.Device {
	t.Helper()
	host, err := cpu.Open(1)
	check(t, err)
	gpu, err := cuda.Open(fake.New(fake.Options{}), 0)
	check(t, err)
	t.Cleanup(func() { gpu.Close() })
	return map[string]device.Device{"reference": reference.Open(), "cpu": host, "cuda": gpu}
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

func sgd(c Config, _ float64) func(w, g []float64, t int) {
	var m []float64
	return func(w, g []float64, _ int) {
		if m == nil {
			m = make([]float64, len(w))
		}
		for i := range w {
			m[i] = c.Momentum*m[i] + g[i] + c.L2*w[i]
			w[i] -= *c.LR * m[i]
		}
	}
}

func adam(c Config, phi float64) func(w, g []float64, t int) {
	b1, b2, eps, floor := 0.9, 0.999, 1e-8, 0.0
	if c.Beta1 != nil {
		b1, b2, eps = *c.Beta1, *c.Beta2, *c.AdamEpsilon
	}
	if c.SubtractNoiseVariance {
		floor = phi / 10
	} else {
		phi = 0
	}
	var m, v []float64
	return func(w, g []float64, t int) {
		if m == nil {
			m, v = make([]float64, len(w)), make([]float64, len(w))
		}
		for i := range w {
			d := g[i] + c.L2*w[i]
			m[i] = b1*m[i] + (1-b1)*d
			v[i] = b2*v[i] + (1-b2)*d*d
			mean, square := m[i]/(1-math.Pow(b1, float64(t))), v[i]/(1-math.Pow(b2, float64(t)))
			w[i] -= *c.LR * mean / (math.Sqrt(math.Max(square-phi, floor)) + eps)
		}
	}
}

// meanGradient is that of the logistic loss over some rows, over an expected batch.
func meanGradient(im datasets.Split, rows []int32, w []float64, batch float64) []float64 {
	g := make([]float64, 65)
	for _, row := range rows {
		x := make([]float64, 65)
		for j, b := range im.Features[64*row:][:64] {
			x[j] = float64(b)/127.5 - 1
		}
		x[64] = 1
		y, margin := 2*float64(im.Labels[row])-1, 0.0
		for j := range x {
			margin += w[j] * x[j]
		}
		for j := range x {
			g[j] -= y / (1 + math.Exp(y*margin)) * x[j] / batch
		}
	}
	return g
}

// testRecursion follows a run's parameters in float64: by the gradient's own
// formula where there is no noise and a clip norm above every gradient, and by
// what was released where there is noise.
func testRecursion(t *testing.T, m method, c Config) {
	const steps = 5
	noises := []float64{0}
	if c.private() {
		noises = append(noises, 1)
	}
	for name, d := range devices(t) {
		for _, sigma := range noises {
			c := c
			c.Noise, c.Clip = noiseSeeded, 2
			if c.private() {
				c.NoiseMultiplier = &sigma
			}
			if sigma == 0 {
				c.Clip = 100 // the longest gradient is shorter than √65
			}
			p, err := Resolve(c, Options{Sources: sources(made(1, 400)), Device: d})
			check(t, err)
			data, err := Load(d, p.Set.Train, p.Network.Program.Loss, p.Set.Classes)
			check(t, err)
			keys, err := p.keys()
			check(t, err)
			noise, err := p.Stream(keys.noise)
			check(t, err)
			e, err := p.Engine(d, data, noise)
			check(t, err)
			check(t, e.SetParams(p.Network.Params()))
			phi := math.Pow(sigma*c.Clip*(1+e.net.Rounding(mostRows(p.ExpectedBatch)))/p.ExpectedBatch, 2)
			next := m.follow(c, phi)
			w := make([]float64, 65)
			got, released := make([]float32, 65), make([]float32, 65)
			for step := 1; step <= steps; step++ {
				var rows []int32
				for i := range 23 {
					rows = append(rows, int32((i*7+step)%len(p.Set.Train.Labels)))
				}
				g := meanGradient(p.Set.Train, rows, w, p.ExpectedBatch)
				check(t, e.Step(rows, uint64(step), step))
				if sigma > 0 {
					check(t, e.Released(released))
					for i, x := range released {
						g[i] = float64(x) / p.ExpectedBatch
					}
				}
				next(w, g, step)
				check(t, e.Params(got))
				for i := range w {
					// Single precision, in steps of at most 0.5 and parameters of order 1.
					if math.Abs(float64(got[i])-w[i]) > 2e-5 {
						t.Fatalf("%s, noise %v, update %d: parameter %d is %v, want %v", name, sigma, step, i, got[i], w[i])
					}
				}
			}
			check(t, e.Close())
			check(t, data.Close())
		}
	}
}

// The reported ε is what the events of the run's own mechanisms compose to, and
// the ledger charges what was released, no more and no less.
func testAccounting(t *testing.T, m method, c Config) {
	host, err := cpu.Open(1)
	check(t, err)
	record := &transcript{Device: host}
	slots := 0
	o := Options{
		Sources: sources(made(1, 400)), Out: filepath.Join(t.TempDir(), "run"), Device: record,
		onRelease: func(int) error { slots++; return nil },
	}
	r, err := Run(context.Background(), c, o)
	check(t, err)
	p, err := Resolve(c, Options{Sources: o.Sources, Device: host})
	check(t, err)
	var events []accountant.Event
	if m.events != nil {
		events = m.events(p, slots)
	} else {
		data, err := Load(host, p.Set.Train, p.Network.Program.Loss, p.Set.Classes)
		check(t, err)
		keys, err := p.keys()
		check(t, err)
		noise, err := p.Stream(keys.noise)
		check(t, err)
		e, err := p.Engine(host, data, noise)
		check(t, err)
		defer e.Close()
		events = []accountant.Event{accountant.PoissonBatch(p.SamplingRate, slots, e.mechanism.Event())}
	}
	a, err := accountant.Account(events, accountant.Options{Accountant: c.Accountant, Neighbouring: accountant.Neighbouring(c.Neighbouring), Delta: *r.Delta})
	check(t, err)
	if math.Abs(*r.Epsilon-a.Epsilon) > 1e-12*a.Epsilon || *r.EpsilonSoFar != *r.Epsilon {
		t.Errorf("ε %v is reported, %v so far; %v cost %v", *r.Epsilon, *r.EpsilonSoFar, events, a.Epsilon)
	}
	s, _, err := ledger.Read(filepath.Join(o.Out, fileLedger))
	check(t, err)
	if s.Reserved != slots || slots != *c.Steps || len(record.released) != slots*max(m.releases, 1) || r.Steps != slots {
		t.Errorf("the ledger charges %d of %d slots, %d values were released, %d updates made", s.Reserved, slots, len(record.released), r.Steps)
	}
}

// testSeededResume stops and resumes a seeded run in every way: it leaves the
// bytes of one that never stopped.
func testSeededResume(t *testing.T, c Config) {
	t.Chdir(t.TempDir())
	c.Noise = noiseSeeded
	o := Options{Sources: sources(made(1, 400)), RunID: strings.Repeat("ab", 16), block: 5}
	o.Out = "whole"
	_, err := Run(context.Background(), c, o)
	check(t, err)
	want := files(t, "whole")
	o.Out, o.Resume = "pieces", true
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
	r, err := Run(context.Background(), c, o)
	check(t, err)
	if r.Steps != *c.Steps || r.Guarantee {
		t.Errorf("%d of %d steps, guarantee %v", r.Steps, *c.Steps, r.Guarantee)
	}
	got := files(t, "pieces")
	got[fileResult] = strings.Replace(got[fileResult], `"pieces"`, `"whole"`, 1)
	// The ledger's bytes tell how often it was written; its meaning is compared.
	delete(want, fileLedger)
	delete(got, fileLedger)
	sameFiles(t, want, got)
	if s, _, err := ledger.Read(filepath.Join("pieces", fileLedger)); err != nil || s.Reserved != *c.Steps {
		t.Errorf("the ledger charges %d steps of %d: %v", s.Reserved, *c.Steps, err)
	}
}

// testCrashStaysCharged: a step that a crash lost stays spent, its slot is gone
// and fewer updates run, unless noise is seeded.
func testCrashStaysCharged(t *testing.T, c Config) {
	o := Options{Sources: sources(made(1, 400)), Out: filepath.Join(t.TempDir(), "run"), Resume: true, block: 5}
	_, crash := stopAt(t, o, 7, false)
	if _, err := Run(context.Background(), c, crash); !errors.Is(err, errCrash) {
		t.Fatal(err)
	}
	r, err := Run(context.Background(), c, o)
	check(t, err)
	// Slots 5 to 9 were reserved when the run died at 7: all five are lost.
	if want := *c.Steps - 5; r.Steps != want || *r.Committed != *c.Steps {
		t.Errorf("%d updates of %d committed, want %d", r.Steps, *r.Committed, want)
	}
	if *r.EpsilonSoFar != *r.Epsilon {
		t.Errorf("ε so far %v after a used-up schedule of ε %v", *r.EpsilonSoFar, *r.Epsilon)
	}
	again, err := Run(context.Background(), c, o)
	if err != nil || *again.TestAccuracy != *r.TestAccuracy || again.Seconds != r.Seconds {
		t.Errorf("a finished run does not give its stored result: %v", err)
	}
}

// An empty batch raised an error or skipped the noise elsewhere (opacus #161, #358, #522).
func testEmptyBatches(t *testing.T, c Config) {
	c.Batch = ptr(1e-6) // with probability above 1 − 24e-6 every batch is empty; nothing below depends on it
	c.LR = ptr(1e-6)
	c.Accountant = accountant.RDP // which prices even what δ covers
	r, params := trained(t, c, made(1, 400), Options{})
	if r.Steps != *c.Steps || !(*r.Epsilon > 0) {
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
	c.Noise, c.Classes, c.Accountant = noiseSeeded, nil, accountant.RDP
	two := func(set *datasets.Set) *datasets.Set {
		set.Classes, set.ClassNames, set.PerClass = 2, set.ClassNames[:2], []int{200, 200}
		return set
	}
	shown := func(set *datasets.Set, first float32) (string, []float32) {
		network, err := BuildNetwork("logistic", set.Train.Shape, 2, "", 1)
		check(t, err)
		params := slices.Clone(network.Params())
		params[0] = first
		check(t, network.SetParams(params))
		s := &screen{}
		_, params = trained(t, c, set, Options{Network: network, Progress: s})
		return s.String(), params
	}
	same := func(what string, a, b *datasets.Set, first float32, finite []float32) {
		t.Helper()
		shownA, x := shown(a, first)
		shownB, y := shown(b, first)
		for i := range x[len(x)-len(finite):] {
			if i += len(x) - len(finite); x[i] != y[i] || math.IsNaN(float64(x[i])) || math.IsInf(float64(x[i]), 0) {
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
	same("malformed", two(made(1, 400)), two(other), 0, make([]float32, 65))
	if !c.private() {
		return // nothing is clipped, so nothing is measured
	}
	// A weight that is no number makes every gradient not finite.
	same("not finite", two(made(1, 400)), two(gradientless()), float32(math.NaN()), make([]float32, 64))
}

// An ε that no noise reaches is refused before anything is written, as what the
// budget does not allow.
func testBudget(t *testing.T, c Config) {
	c.NoiseMultiplier, c.Epsilon, c.Accountant = nil, ptr(1e-5), accountant.RDP
	refusedBefore(t, c, Options{Sources: sources(made(1, 400))}, "raise epsilon or delta")
	if _, err := Resolve(c, Options{Sources: sources(made(1, 400))}); !errors.Is(err, accountant.ErrBudget) {
		t.Errorf("an ε that no noise reaches: %v", err)
	}
}
