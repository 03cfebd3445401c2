package audit

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/internal/audit/play"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/devices"
	"github.com/privgrad/privgrad/train"
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// probability is that of k in n trials.
func probability(k, n int, p float64) float64 {
	lgamma := func(x int) float64 { y, _ := math.Lgamma(float64(x)); return y }
	return math.Exp(lgamma(n+1) - lgamma(k+1) - lgamma(n-k+1) + float64(k)*math.Log(p) + float64(n-k)*math.Log1p(-p))
}

// The likelihood ratio is that of the two mixtures' densities.
func TestLikelihood(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	const q, sigma = 0.3, 0.7
	a, b := [2]float64{0.5, -1}, [2]float64{1, 0.25}
	density := func(y, m [2]float64) float64 {
		d0, d1 := y[0]-m[0], y[1]-m[1]
		return math.Exp(-(d0*d0 + d1*d1) / (2 * sigma * sigma))
	}
	l := &likelihood{q: q}
	gauge := &gauge{square: [2]float64{a[0]*a[0] + a[1]*a[1], b[0]*b[0] + b[1]*b[1]}, variance: sigma * sigma}
	want := 0.0
	for range 20 {
		y := [2]float64{3 * random.NormFloat64(), 3 * random.NormFloat64()}
		l.see(&release{logs: [2]float64{gauge.log(0, y[0]*a[0]+y[1]*a[1], 1, 1), gauge.log(1, y[0]*b[0]+y[1]*b[1], 1, 1)}})
		noise := (1 - q) * density(y, [2]float64{})
		want += math.Log((noise + q*density(y, b)) / (noise + q*density(y, a)))
	}
	if math.Abs(l.value()-want) > 1e-9 {
		t.Errorf("log-likelihood ratio %v, want %v", l.value(), want)
	}
	if l.reset(); l.value() != 0 {
		t.Error("a new run begins where the last ended")
	}
}

// released is a game without noise and without a claim.
func released(t *testing.T, c Config) *game {
	t.Helper()
	p, err := c.resolve()
	check(t, err)
	p.Sigma = 0
	r, err := newRecords(c, p)
	check(t, err)
	return &game{
		config: c, plan: p, records: r, params: p.Network.Params(), keys: newKeys, sampler: p.Sampler,
		open: func() (device.Device, error) { return devices.Open(c.Device, 1) },
	}
}

// What the oracle says a record adds is what the device adds, for every
// clipping and strategy: a wrong share would make audits blind, not red.
func TestOracleAgreesWithTheDevice(t *testing.T) {
	for _, clipping := range []string{"flat", "per-layer", "automatic"} {
		for _, convolution := range []bool{false, true} {
			for _, canary := range []string{Gradient, ZeroInput, Opposite} {
				c := Default()
				c.SamplingRate, c.Steps = 0.5, 40 // a canary stays out of all with probability 1e-12
				c.Network, c.Clipping, c.Canary = network(t, convolution), clipping, canary
				if canary == Opposite {
					c.Neighbouring = "replace-one"
				}
				g := released(t, c)
				if g.records.norm < 2*c.Clip {
					t.Errorf("%s, %s: the gradient is %v clip norms long", clipping, canary, g.records.norm/c.Clip)
				}
				l, err := g.newLane(0)
				check(t, err)
				check(t, l.engine.SetParams(g.params))
				rows, shares := []int32{0, 1, 2, 3, 4, 5, 6, 7}, slices.Clone(g.records.shares)
				for world, row := range g.records.canary {
					if row >= 0 {
						rows, shares = append(rows, row), append(shares, g.records.canaries[world])
					}
				}
				for i, row := range rows {
					check(t, l.supply.Step(l.engine, []int32{row}))
					check(t, l.engine.Released(l.release.values))
					off := dot(l.release.values, l.release.values) + dot(shares[i], shares[i]) - 2*dot(l.release.values, shares[i])
					// The parameters move by the step size from row to row.
					if length := dot(shares[i], shares[i]); off > 1e-6*c.Clip*c.Clip || length > c.Clip*c.Clip*(1+1e-6) {
						t.Errorf("%s, %s, row %d: the share is off by %v, its length %v", clipping, canary, row, math.Sqrt(max(off, 0)), math.Sqrt(length))
					}
				}
				// Without noise a run shows the canary's share, or nothing.
				var seen recorder
				l.statistic = &seen
				for world, row := range g.records.canary {
					if _, err := l.Run(world); err != nil {
						t.Fatal(err)
					}
					in := 0
					for _, products := range seen {
						for w, x := range products {
							share := dot(g.records.canaries[world], g.records.canaries[w])
							if math.Abs(x) > 1e-4*c.Clip*c.Clip && math.Abs(x-share) > 1e-4*c.Clip*c.Clip {
								t.Errorf("%s, %s: a step of world %d shows %v, want %v or nothing", clipping, canary, world, x, share)
							}
							if w == world && math.Abs(x) > 1e-4*c.Clip*c.Clip {
								in++
							}
						}
					}
					if len(seen) != c.Steps || (in > 0) != (row >= 0) {
						t.Errorf("%s, %s: %d steps, of which %d hold the canary, in world %d", clipping, canary, len(seen), in, world)
					}
				}
				l.Close()
			}
		}
	}
}

// A clip norm that moves changes what records add to a sum and to a count, as the audit says it does:
// from far below every gradient to above all of them.
func TestAdaptiveShares(t *testing.T) {
	c := Default()
	c.Clipping = "adaptive"
	g := released(t, c)
	g.plan.ExpectedBatch = 1e-3 // the noise of a count is a twentieth of it
	l, err := g.newLane(0)
	check(t, err)
	defer l.Close()
	rows, shares, norms := []int32{0, 1, g.records.canary[1]}, append(slices.Clone(g.records.shares[:2]), g.records.canaries[1]), []float64{g.records.norms[0], g.records.norms[1], g.records.lengths[1]}
	for _, clip := range []float64{0.01, 0.1, norms[0] * 0.999, norms[0] * 1.001, 2 * norms[2]} {
		for i, row := range rows {
			check(t, l.engine.SetParams(g.params))
			l.engine.Adaptation.Clip = clip
			check(t, l.supply.Step(l.engine, []int32{row}))
			check(t, l.engine.Released(l.release.values))
			share := g.share(norms[i], clip)
			for j, x := range l.release.values {
				if want := share * float64(shares[i][j]); math.Abs(float64(x)-want) > 1e-5*min(norms[i], clip) {
					t.Fatalf("row %d at clip norm %v: coordinate %d is %v, want %v", row, clip, j, x, want)
				}
			}
			if got, want := l.engine.Adaptation.Count, counted(norms[i], clip); math.Abs(got-want) > 1e-3 {
				t.Errorf("row %d at clip norm %v: it adds %v to the count, want %v", row, clip, got, want)
			}
		}
	}
}

// recorder keeps what a statistic sees of a run.
type recorder [][2]float64

func (r *recorder) reset()         { *r = nil }
func (r *recorder) see(x *release) { *r = append(*r, x.products) }
func (r *recorder) value() float64 { return 0 }

// The runs of the engine and the simulation that the power is taken from have
// one distribution. Two samples of one distribution are farther apart than this
// with probability 1e-9 (Smirnov's asymptotic bound); seeds are fixed.
func TestSimulationAgreesWithTheEngine(t *testing.T) {
	for _, x := range [][2]string{{"add-remove", "flat"}, {"replace-one", "flat"}, {"add-remove", "adaptive"}, {"replace-one", "adaptive"}} {
		relation := x[0] + ", " + x[1]
		c := Default()
		c.Neighbouring, c.Clipping = x[0], x[1]
		g, err := prepare(c)
		check(t, err)
		g.keys = keysFromSeed(3)
		g.plan.Sigma /= 2
		if c.adapts() {
			g.plan.ExpectedBatch /= 2 // which the noise of the count follows
		}
		const n = 1500
		stats, err := g.runs(context.Background(), n)
		check(t, err)
		d := newIdeal(g, half)
		for world, pool := range d.pools {
			slices.Sort(stats[world])
			most := math.Sqrt(math.Log(2/1e-9)/2) * math.Sqrt(1.0/n+1/float64(len(pool)))
			for i, x := range stats[world] {
				if off := math.Abs(d.below(world, x) - (float64(i)+0.5)/n); off > most {
					t.Fatalf("%s, world %d: the distributions are %v apart at %v, at most %v is chance", relation, world, off, x, most)
				}
			}
		}
	}
}

// How much of the noise must be missing for an audit to show it, by default and with more runs. The
// guide says these figures. Their standard error is at most 0.016, and draws are fixed.
func TestLongPower(t *testing.T) {
	for _, x := range []struct {
		part      float64
		runs      int
		from, top float64
	}{{0.75, 16_000, 0.99, 1}, {0.8, 16_000, 0.95, 1}, {0.9, 16_000, 0.2, 0.4}, {0.9, 64_000, 0.95, 1}, {0.95, 64_000, 0, 0.5}} {
		c := Default()
		g, err := prepare(c)
		check(t, err)
		_, power := newIdeal(g, x.part).design(x.runs, g.claim)
		t.Logf("%v of the noise, %d runs: %v", x.part, x.runs, power)
		if power < x.from || power > x.top {
			t.Errorf("an audit of %d runs convicts %v of the noise with probability %v, want %v to %v", x.runs, x.part, power, x.from, x.top)
		}
	}
}

// Independent noise leaves a χ² of one degree in the difference of two releases;
// noise that is the same leaves the canary or nothing.
func TestDifference(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	const width = 500
	r := &records{shares: [][]float32{make([]float32, width)}}
	canary := make([]float32, width)
	canary[3], r.shares[0][4] = 2, 7
	d := &difference{records: r, unit: 2, width: width, floor: 1e-8}
	see := func(released []float32, beside ...int32) {
		d.see(&release{values: released, beside: beside, products: [2]float64{0, dot(released, canary)}})
	}
	noise := func() []float32 {
		x := make([]float32, width)
		for i := range x {
			x[i] = float32(random.NormFloat64())
		}
		return x
	}
	mean := 0.0
	for range 2000 {
		d.reset()
		see(noise())
		see(noise())
		mean += d.value() / 2000
	}
	// The mean of 2000 χ² has a standard error of √2/√2000 = 0.032.
	if math.Abs(mean-1) > 6.2*0.032 {
		t.Errorf("independent noise leaves %v on average", mean)
	}
	once := noise()
	with := slices.Clone(once)
	with[4] += 7 // a record that the adversary knows of
	d.reset()
	see(once)
	see(with, 0)
	if d.value() > 1e-3 {
		t.Errorf("the same noise without the canary leaves %v", d.value())
	}
	with[3] += 2
	see(with, 0)
	if d.value() < 1e6 {
		t.Errorf("the same noise around the canary leaves %v", d.value())
	}
}

// Seeded audits repeat, whatever the number of threads, also what they learn.
func TestSeededAuditsRepeat(t *testing.T) {
	c := Default()
	c.Noise, c.Runs, c.Steps = "seeded", 400, 3
	for _, canary := range []string{Gradient, Coordinates, Order} {
		c.Canary = canary
		var first *Result
		for _, threads := range []int{1, 3} {
			c.Threads = threads
			r, err := Run(context.Background(), c)
			check(t, err)
			r.Threads, r.Seconds = 0, 0
			if first == nil {
				first = r
			} else if r.FPR != first.FPR || r.FNR != first.FNR || r.EpsilonLowerBound != first.EpsilonLowerBound {
				t.Errorf("%s: with %d threads %+v, with one %+v", canary, threads, r, first)
			}
		}
	}
	c.Canary = Gradient
	c.Noise = "secure"
	g, err := prepare(c)
	check(t, err)
	x, err := g.runs(context.Background(), 20)
	check(t, err)
	y, err := g.runs(context.Background(), 20)
	check(t, err)
	if x[0][0] == y[0][0] || x[0][0] == x[0][1] || x[0][0] == x[0][play.Lanes] {
		t.Errorf("secure noise repeats: %v, %v, %v", x[0][0], y[0][0], x[0][play.Lanes])
	}
}

func TestRefuses(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"canary \"dog\"":            func(c *Config) { c.Canary = "dog" },
		"canary opposite":           func(c *Config) { c.Canary = Opposite },
		"canary zero-input":         func(c *Config) { c.Canary, c.Neighbouring = ZeroInput, "replace-one" },
		"at sampling rate 1":        func(c *Config) { c.Canary, c.SamplingRate = Difference, 1 },
		"no two releases":           func(c *Config) { c.Canary, c.Steps = Difference, 1 },
		"noise multiplier 0":        func(c *Config) { c.NoiseMultiplier = 0 },
		"noise multiplier -1":       func(c *Config) { c.NoiseMultiplier = -1 },
		"accountant paper":          func(c *Config) { c.Accountant = "paper" },
		"accountant \"guess\"":      func(c *Config) { c.Accountant = "guess" },
		"canary difference":         func(c *Config) { c.Canary, c.Clipping = Difference, "adaptive" },
		"canary digits":             func(c *Config) { c.Canary, c.Clipping = Digits, "adaptive" },
		"canary coordinates":        func(c *Config) { c.Canary, c.Clipping = Coordinates, "adaptive" },
		"canary order":              func(c *Config) { c.Canary, c.SamplingRate = Order, 1 },
		"at most 1000":              func(c *Config) { c.Canary, c.Steps = Order, 1001 },
		"clipping \"none\"":         func(c *Config) { c.Clipping = "none" },
		"clip norm 0":               func(c *Config) { c.Clip = 0 },
		"steps 0":                   func(c *Config) { c.Steps = 0 },
		"steps 100001":              func(c *Config) { c.Steps = 100_001 },
		"runs 79":                   func(c *Config) { c.Runs = 79 },
		"runs -1":                   func(c *Config) { c.Runs = -1 },
		"threads -1":                func(c *Config) { c.Threads = -1 },
		"sampling rate 2":           func(c *Config) { c.SamplingRate = 2 },
		"delta 0":                   func(c *Config) { c.Delta = 0 },
		"unknown model \"vgg\"":     func(c *Config) { c.Model = "vgg" },
		"unknown strategy":          func(c *Config) { c.Strategy = "fast" },
		"--strategy ghost does not": func(c *Config) { c.Strategy, c.Noise = "ghost", "exact" },
		"relation \"swap\"":         func(c *Config) { c.Neighbouring = "swap" },
		"unknown device \"tpu\"":    func(c *Config) { c.Device = "tpu" },
	} {
		c := Default()
		c.Runs = 100
		change(&c)
		_, err := Run(context.Background(), c)
		var usage *train.UsageError
		if err == nil || !errors.As(err, &usage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := Default()
	c.Progress = func(done, _ int) {
		if done == 100 {
			cancel()
		}
	}
	if _, err := Run(ctx, c); err == nil || !strings.Contains(err.Error(), "interrupted") {
		t.Errorf("a cancelled audit: %v", err)
	}
}

// What an audit cannot see, it says.
func TestNotes(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"may well miss":          func(c *Config) { c.NoiseMultiplier, c.Runs = 20, 200 },
		"would hardly show":      func(c *Config) { c.Clip, c.Canary = 1, ZeroInput },
		"moves a sum by 0.5":     func(c *Config) { c.Clip, c.Canary = 1, ZeroInput },
		"noise that is used twi": func(c *Config) { c.Canary = Difference },
		"in floating point":      func(c *Config) { c.Canary = Digits },
		"of a release share":     func(c *Config) { c.Canary = Coordinates },
		"not drawn afresh":       func(c *Config) { c.Canary = Order },
	} {
		c := Default()
		c.Runs = 200
		change(&c)
		r, err := Run(context.Background(), c)
		check(t, err)
		if !strings.Contains(strings.Join(r.Notes, "\n"), want) {
			t.Errorf("%q is not among %q", want, r.Notes)
		}
	}
}

// What is learned comes from runs that are not judged: no key serves twice. Every run that looks for
// an order has batches of its own.
func TestLearnedFromOtherRuns(t *testing.T) {
	for canary, want := range map[string]int{Coordinates: 2 * play.Lanes, Order: 2*play.Lanes + 200} {
		c := Default()
		c.Canary, c.Runs, c.Steps, c.Threads = canary, 200, 2, 1
		g, err := prepare(c)
		check(t, err)
		used := map[int]bool{}
		g.keys = func(lane int) (laneKeys, error) {
			if used[lane] {
				t.Errorf("%s: keys of lane %d serve twice", canary, lane)
			}
			used[lane] = true
			return keysFromSeed(1)(lane)
		}
		last, total := 0, 0
		g.config.Progress = func(done, of int) {
			if done != last+1 {
				t.Errorf("%s: run %d follows run %d", canary, done, last)
			}
			last, total = done, of
		}
		r, err := g.play(context.Background())
		check(t, err)
		if len(used) != want {
			t.Errorf("%s: %d keys, want %d", canary, len(used), want)
		}
		if r.Runs != 200 || r.LearningRuns != 100 || r.ThresholdRuns != 24 || r.FPRRuns != 38 || last != 200 || total != 200 {
			t.Errorf("%s: %+v, told %d of %d", canary, r, last, total)
		}
	}
}
