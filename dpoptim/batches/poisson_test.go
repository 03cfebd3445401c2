package batches

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/privgrad/privgrad/internal/stream"
)

// All keys here are fixed. The false-reject rates below are over the choice of
// the key.
func poissonOf(t testing.TB, n int, q float64, purpose string) Sampler {
	t.Helper()
	return open(t, Poisson, n, q, stream.KeyFromSeed(1, purpose), stream.AES256CTR)
}

// open is the sampler of a kind whose table holds as many records as there are said to be.
func open(t testing.TB, k *Kind, n int, q float64, key stream.Key, cipher stream.Cipher) Sampler {
	t.Helper()
	b, err := k.Of(n, q)
	check(t, err)
	s, err := b.Sampler(n, key, cipher)
	check(t, err)
	return s
}

func valid(batch []int32, n int) bool {
	for i, x := range batch {
		if x < 0 || int(x) >= n || i > 0 && x <= batch[i-1] {
			return false
		}
	}
	return true
}

// Chi-square over indices and over pairs at each distance; each rejects wrongly
// with probability 1e-10.
func TestPoissonIncludesEachIndexIndependently(t *testing.T) {
	const n, steps, maxLag = 300, 6000, 5
	for _, q := range []float64{0.02, 0.3, 0.9} {
		p := poissonOf(t, n, q, "inclusion")
		var included [n]float64
		var pairs [maxLag + 1]float64
		var batch []int32
		for step := range uint64(steps) {
			batch = p.Batch(step, batch)
			if !valid(batch, n) {
				t.Fatalf("q=%v step %d: indices are not increasing within the set", q, step)
			}
			var x [n]float64
			for i := range x {
				x[i] = -q
			}
			for _, i := range batch {
				included[i]++
				x[i] = 1 - q
			}
			for lag := 1; lag <= maxLag; lag++ {
				for i := lag; i < n; i++ {
					pairs[lag] += x[i] * x[i-lag]
				}
			}
		}
		chi := 0.0
		for _, c := range included {
			chi += (c - steps*q) * (c - steps*q) / (steps * q * (1 - q))
		}
		if tail := (distuv.ChiSquared{K: n}).Survival(chi); tail < 1e-10 {
			t.Errorf("q=%v: inclusion counts have chi-square %v on %d degrees of freedom", q, chi, n)
		}
		for lag := 1; lag <= maxLag; lag++ {
			z := pairs[lag] / (q * (1 - q) * math.Sqrt(steps*(n-float64(lag))))
			if math.Abs(z) > 6.5 {
				t.Errorf("q=%v: records %d apart are correlated, %v standard deviations", q, lag, z)
			}
		}
	}
}

// Batch sizes against the binomial law, cells of at least 20 expected; chi-square
// rejects wrongly with probability 1e-10.
func TestPoissonBatchSizeIsBinomial(t *testing.T) {
	const steps = 8000
	for _, c := range []struct {
		n int
		q float64
	}{{20, 0.05}, {1000, 0.01}, {1000, 1. / 3}, {65536, 0.0005}} {
		p := poissonOf(t, c.n, c.q, "size")
		sizes := make([]float64, c.n+1)
		var batch []int32
		for step := range uint64(steps) {
			batch = p.Batch(step, batch)
			sizes[len(batch)]++
		}
		law := distuv.Binomial{N: float64(c.n), P: c.q}
		var chi, observed, expected, rest float64
		cells := 0
		rest = steps
		for k, seen := range sizes {
			observed += seen
			e := steps * law.Prob(float64(k))
			expected += e
			rest -= e
			if expected >= 20 && rest >= 20 || k == c.n {
				if k == c.n {
					expected += rest
				}
				chi += (observed - expected) * (observed - expected) / expected
				cells++
				observed, expected = 0, 0
			}
		}
		if tail := (distuv.ChiSquared{K: float64(cells - 1)}).Survival(chi); cells < 3 || tail < 1e-10 {
			t.Errorf("n=%d q=%v: batch sizes have chi-square %v in %d cells", c.n, c.q, chi, cells)
		}
	}
}

// Regression: a sampler that turns the rate into a whole number of batches an
// epoch changes the rate (opacus #813). The rate must be the configured one for
// any q, also when 1/q is no integer, and stay so however many steps are drawn.
// 6.5 standard deviations, 1e-10 each.
func TestPoissonKeepsTheRate(t *testing.T) {
	const n, steps = 1000, 8000
	for _, q := range []float64{0.3, 0.7, 1. / 3, 0.0151, 0.99} {
		p := poissonOf(t, n, q, "rate")
		var batch []int32
		for part := range uint64(2) {
			total := 0.0
			for step := range uint64(steps / 2) {
				batch = p.Batch(part*steps/2+step, batch)
				total += float64(len(batch))
			}
			draws := float64(n * steps / 2)
			if z := (total - draws*q) / math.Sqrt(draws*q*(1-q)); math.Abs(z) > 6.5 {
				t.Errorf("q=%v: realised rate %v in half %d, %v standard deviations off", q, total/draws, part, z)
			}
		}
	}
}

// Two steps share n·q² records on average; 6.5 standard deviations, 1e-10.
func TestPoissonStepsAreIndependent(t *testing.T) {
	const n, q, steps = 2000, 0.1, 1000
	p := poissonOf(t, n, q, "steps")
	sum := 0.0
	for step := range uint64(steps) {
		a, b := p.Batch(step, nil), p.Batch(step+1, nil)
		if slices.Equal(a, b) {
			t.Fatalf("steps %d and %d are the same batch", step, step+1)
		}
		shared := 0
		for _, i := range a {
			if _, ok := slices.BinarySearch(b, i); ok {
				shared++
			}
		}
		sum += float64(shared) - q*float64(len(a)+len(b)) + q*q*n
	}
	if z := sum / (q * (1 - q) * math.Sqrt(n*steps)); math.Abs(z) > 6.5 {
		t.Errorf("neighbouring steps are correlated, %v standard deviations", z)
	}
}

func TestPoissonReplays(t *testing.T) {
	const n, q = 5000, 0.02
	p, again := poissonOf(t, n, q, "replay"), poissonOf(t, n, q, "replay")
	var want [16][]int32
	for step := range want {
		want[step] = p.Batch(uint64(step), nil)
	}
	dst := make([]int32, 0, n)
	got := again.Batch(11, dst)
	if !slices.Equal(got, want[11]) {
		t.Error("a step drawn alone differs from the step drawn in order")
	}
	if &got[0] != &dst[:1][0] {
		t.Error("a large enough destination was not used")
	}
	var wg sync.WaitGroup
	for step := range want {
		wg.Go(func() {
			if !slices.Equal(p.Batch(uint64(step), nil), want[step]) {
				t.Errorf("step %d drawn concurrently differs", step)
			}
		})
	}
	wg.Wait()
	other := open(t, Poisson, n, q, stream.KeyFromSeed(2, "replay"), stream.AES256CTR)
	if slices.Equal(other.Batch(0, nil), want[0]) {
		t.Error("the key does not matter")
	}
}

func TestPoissonExtremes(t *testing.T) {
	for _, n := range []int{0, 1, 2, 1000} {
		p := poissonOf(t, n, 1, "all")
		for step := range uint64(20) {
			if b := p.Batch(step, nil); len(b) != n || !valid(b, n) {
				t.Fatalf("q=1 took %d of %d records", len(b), n)
			}
		}
	}
	// Expected inclusions over all steps: below 1e-8.
	for _, q := range []float64{1e-20, 1e-300, 5e-324} {
		for _, n := range []int{0, 1000, math.MaxInt32} {
			p := poissonOf(t, n, q, "tiny")
			for step := range uint64(100) {
				if b := p.Batch(step, nil); len(b) != 0 {
					t.Fatalf("q=%v sampled %d records", q, len(b))
				}
			}
		}
	}
	// A record is left out with probability 2⁻⁵³: never in 1e5 draws.
	p := poissonOf(t, 1000, 1-0x1p-53, "almost all")
	for step := range uint64(100) {
		if b := p.Batch(step, nil); len(b) != 1000 {
			t.Fatalf("q=1-2⁻⁵³ left out %d of 1000 records", 1000-len(b))
		}
	}
}

// A batch without records is a batch: 0.95²⁰ = 35.8 % of them here. 6.5 standard
// deviations, 1e-10.
func TestPoissonEmptyBatchesHappen(t *testing.T) {
	const n, q, steps = 20, 0.05, 10000
	p := poissonOf(t, n, q, "empty")
	empty := 0
	for step := range uint64(steps) {
		if len(p.Batch(step, nil)) == 0 {
			empty++
		}
	}
	want := math.Pow(1-q, n)
	if z := (float64(empty) - steps*want) / math.Sqrt(steps*want*(1-want)); math.Abs(z) > 6.5 {
		t.Errorf("%d of %d batches are empty, expected %v", empty, steps, steps*want)
	}
}

// The law that the thresholds encode, P(gap = k) as the product over the digits
// of k, against (1-q)ᵏ·q.
func TestPoissonThresholds(t *testing.T) {
	probability := func(threshold uint64) *big.Float {
		x := new(big.Float).SetPrec(256).SetUint64(threshold)
		return x.SetMantExp(x, -64)
	}
	one := newFloat(1)
	for _, q := range []float64{0.5, 0.01, 0.37, 1e-5} {
		p, err := newPoisson(Batching{SamplingRate: q}, 100)
		check(t, err)
		keep := newFloat(0).Sub(one, newFloat(q))
		want := newFloat(q) // (1-q)ᵏ·q
		for k := range 1 << len(p.digit) {
			got := newFloat(0).Sub(one, probability(p.beyond))
			for j, t := range p.digit {
				d := probability(t)
				if k>>j&1 == 0 {
					d.Sub(one, d)
				}
				got.Mul(got, d)
			}
			diff, _ := newFloat(0).Sub(got, want).Float64()
			if math.Abs(diff) > 8*0x1p-64 {
				t.Errorf("q=%v: P(gap=%d) is off by %v", q, k, diff)
			}
			want.Mul(want, keep)
		}
	}
}

func TestPoissonErrors(t *testing.T) {
	for _, q := range []float64{0, -0.1, 1.0000001, math.NaN(), math.Inf(1), math.Inf(-1)} {
		b := Batching{Kind: Poisson, Units: 10, SamplingRate: q}
		if _, err := b.Sampler(10, stream.Key{}, stream.AES256CTR); err == nil || !strings.Contains(err.Error(), "sampling rate") {
			t.Errorf("q=%v: error %v", q, err)
		}
	}
	b := Batching{Kind: Poisson, Units: 10, SamplingRate: 0.5}
	for _, n := range []int{-7, math.MaxInt32 + 7} {
		_, err := b.Sampler(n, stream.Key{}, stream.AES256CTR)
		if err == nil || strings.Contains(err.Error(), strconv.Itoa(n)) {
			t.Errorf("n=%d: want an error that does not quote it, got %v", n, err)
		}
	}
	if _, err := b.Sampler(10, stream.Key{}, stream.Cipher(9)); err == nil {
		t.Error("an unknown cipher was accepted")
	}
	b.ExpectedBatch = 1 << 30 // of so many records a stream has no numbers in one position
	if _, err := b.Sampler(math.MaxInt32, stream.Key{}, stream.AES256CTR); err == nil || !strings.Contains(err.Error(), "random numbers") {
		t.Errorf("a batch of 2³⁰ records: error %v", err)
	}
}

func BenchmarkPoisson(b *testing.B) {
	for _, c := range []struct {
		n     int
		batch float64
	}{{60000, 256}, {60000, 1024}, {50_000_000, 1024}} {
		b.Run(fmt.Sprintf("%v-of-%d", c.batch, c.n), func(b *testing.B) {
			p := poissonOf(b, c.n, c.batch/float64(c.n), "bench")
			var batch []int32
			rows := 0
			for i := 0; b.Loop(); i++ {
				batch = p.Batch(uint64(i), batch)
				rows += len(batch)
			}
			b.ReportMetric(float64(rows)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}
