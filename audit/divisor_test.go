package audit

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/privgrad/privgrad/internal/audit/learn"
)

// imagined says whether an audit by Divisor convicts a program whose noise of a step is so many times as long as is right. Noise of
// m coordinates has a length of √χ²(m), which is all that the canary sees; nothing is trained.
func imagined(t *testing.T, g *game, random *rand.Rand, times func(world, others int, in bool) float64) bool {
	t.Helper()
	c := g.config
	design, _, learning := g.design()
	m := len(g.params) - recordsBeside - 1
	of, err := learn.NewLengths([][]float32{make([]float32, m)})
	check(t, err)
	chi, beside := distuv.ChiSquared{K: float64(m), Src: random}, distuv.Binomial{N: recordsBeside, P: c.SamplingRate, Src: random}
	step := func(world int) (others int, release []float32) {
		others = int(beside.Rand())
		in := world == 1 && random.Float64() < c.SamplingRate
		return others, []float32{float32(math.Sqrt(chi.Rand()) * times(world, others, in))}
	}
	for range learning / 2 * c.Steps {
		for world := range 2 {
			others, release := step(world)
			of.Add(world, others, release)
		}
	}
	var stats [2][]float64
	for range design.Runs() / 2 {
		for world := range stats {
			sum := 0.0
			for range c.Steps {
				sum += of.Ratio(step(world))
			}
			stats[world] = append(stats[world], sum)
		}
	}
	return design.Judge(stats, g.claim).Convicted
}

// imaginedPower is the number of convictions among audits of so many runs, each with its own draws.
func imaginedPower(t *testing.T, runs, audits int, times func(world, others int, in bool) float64) (convicted int) {
	t.Helper()
	c := Default()
	c.Canary, c.Runs = Divisor, runs
	g, err := prepare(c)
	check(t, err)
	random := rand.New(rand.NewPCG(1, 0x646976))
	for range audits {
		if imagined(t, g, random, times) {
			convicted++
		}
	}
	return convicted
}

// By the batch, the mean is 1/(b+1) in the place of 1/b.
func batchTimes(_, others int, in bool) float64 {
	if in {
		others++
	}
	return 2 / byBatch(others)
}

// changedBy has a record that takes part change the divisor by a part of it.
func changedBy(part float64) func(world, others int, in bool) float64 {
	return func(_, _ int, in bool) float64 {
		if in {
			return 1 / (1 + part)
		}
		return 1
	}
}

// TestDivisorPower simulates whole audits. A power of 0.999 gives fewer than 94 of 100 with a probability below 1e-9, and a
// correct program, which is convicted with a probability of 0.002 at most, more than 13 of 200.
func TestDivisorPower(t *testing.T) {
	if n := imaginedPower(t, 800, 100, batchTimes); n < 94 {
		t.Errorf("%d of 100 audits of 800 runs convict a mean over the records of the batch", n)
	}
	if n := imaginedPower(t, 800, 100, func(world, _ int, _ bool) float64 { return recordsBeside / float64(recordsBeside+world) }); n < 94 {
		t.Errorf("%d of 100 audits of 800 runs convict a mean over the expected batch of the records that there are", n)
	}
	if n := imaginedPower(t, 800, 200, changedBy(0)); n > 13 {
		t.Errorf("%d of 200 audits of 800 runs convict a correct program", n)
	}
}

// TestLongDivisorPower computes the figures of docs/guides/audit.md: how often audits convict a program by how much a record
// that takes part changes the divisor. The draws are fixed.
func TestLongDivisorPower(t *testing.T) {
	for _, x := range []struct {
		part  float64
		runs  int
		least int // of 100
	}{{0.1, 4000, 99}, {0.05, 4000, 99}, {0.05, 16_000, 99}, {0.04, 16_000, 99}, {0.03, 16_000, 0}, {0.03, 64_000, 50}, {0.025, 64_000, 0}} {
		n := imaginedPower(t, x.runs, 100, changedBy(x.part))
		t.Logf("%g, %d runs: %d of 100", x.part, x.runs, n)
		if n < x.least {
			t.Errorf("%d of 100 audits of %d runs convict a divisor that a record changes by %g of it, want %d", n, x.runs, x.part, x.least)
		}
	}
	if n := imaginedPower(t, 4000, 1000, changedBy(0)); n > 22 {
		t.Errorf("%d of 1000 audits convict a correct program", n)
	} else {
		t.Logf("%d of 1000", n)
	}
}

// The other canaries hear the sum, and a wrong divisor comes behind it: Divisor has no double among them.
func TestLongOthersHearNoDivisor(t *testing.T) {
	for _, canary := range Canaries() {
		if canary == Divisor || canary == Opposite { // both of whose worlds have as many records
			continue
		}
		c := Default()
		if c.Canary, c.Runs = canary, 4000; canary == Digits {
			c.Runs = 800
		}
		right, wrong := outcome(t, c, nil), outcome(t, c, dividing(byBatch))
		if wrong.FPR != right.FPR || wrong.FNR != right.FNR {
			t.Errorf("canary %s hears a divisor: FPR %v in the place of %v, FNR %v of %v", canary, wrong.FPR, right.FPR, wrong.FNR, right.FNR)
		}
	}
}

// What Divisor hears of a step is what the other canaries hear: the release, but for float32's rounding of the parameters.
func TestDivisorHearsTheRelease(t *testing.T) {
	c := Default()
	c.Canary = Divisor
	g, err := prepare(c)
	check(t, err)
	g.keys = keysFromSeed(1)
	l, err := g.newLane(0)
	check(t, err)
	defer l.Close()
	sigma, noise := c.NoiseMultiplier*c.Clip, 0.0
	for step := range c.Steps {
		l.take(1, step)
		check(t, l.supply.Step(l.engine, l.rows))
		check(t, l.engine.Wait())
		check(t, l.hear())
		released := make([]float32, len(g.params))
		check(t, l.engine.Released(released))
		off := 0.0
		for i, x := range released {
			off = max(off, math.Abs(float64(x-l.release.values[i])))
			noise += float64(x) * float64(x)
		}
		if off > 1e-5*sigma {
			t.Errorf("step %d: what is heard is %v deviations off the release", step, off/sigma)
		}
		back := make([]float32, len(g.params))
		check(t, l.engine.ReadParams(back))
		if dot(back, back) != dot(g.params, g.params) {
			t.Errorf("step %d: the parameters did not go back", step)
		}
	}
	if noise == 0 {
		t.Error("nothing was released")
	}
}

// Divisor is refused where it would hear something else than a release.
func TestDivisorRefuses(t *testing.T) {
	for want, with := range map[string]func(*Config){
		"of several releases": func(c *Config) { c.Optimizer = "dp-adam" },
		"clipped to one norm": func(c *Config) { c.Clipping = "adaptive" },
		"replace-one":         func(c *Config) { c.Neighbouring = "replace-one" },
	} {
		c := Default()
		c.Canary = Divisor
		with(&c)
		if _, err := prepare(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if _, err := learn.NewLengths([][]float32{{1, 0}, {1, 1}}); err == nil || !strings.Contains(err.Error(), "more than 2") {
		t.Errorf("records that add to everything: %v", err)
	}
}
