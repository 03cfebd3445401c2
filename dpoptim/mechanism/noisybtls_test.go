package mechanism

import (
	"fmt"
	"math"
	"math/big"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/internal/cpu"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/devicetest"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/stream"
	"github.com/privgrad/privgrad/perexample"
)

func TestNoisyBTLSRefuses(t *testing.T) {
	s := testStream(t)
	good := accountant.NoisyBTLS{Noise: accountant.BTLSGaussian, ThresholdScale: 1, QueryScale: 2, MaxTrials: 5, Queries: accountant.Generic}
	with := func(change func(*accountant.NoisyBTLS)) accountant.NoisyBTLS {
		c := good
		change(&c)
		return c
	}
	for _, test := range []struct {
		c      accountant.NoisyBTLS
		bound  float64
		stream *stream.Stream
		want   string
	}{
		{with(func(c *accountant.NoisyBTLS) { c.ThresholdScale = 0 }), 1, s, "threshold_scale 0"},
		{with(func(c *accountant.NoisyBTLS) { c.QueryScale = math.NaN() }), 1, s, "query_scale NaN"},
		{with(func(c *accountant.NoisyBTLS) { c.MaxTrials = 0 }), 1, s, "set max_trials"},
		{with(func(c *accountant.NoisyBTLS) { c.MaxTrials = -1 }), 1, s, "max_trials -1"},
		{with(func(c *accountant.NoisyBTLS) { c.Noise = "" }), 1, s, "choose gaussian or laplace"},
		{with(func(c *accountant.NoisyBTLS) { c.Queries = "any" }), 1, s, `queries "any"`},
		{good, 0, s, "bound 0"},
		{good, math.Inf(1), s, "bound +Inf"},
		{good, math.NaN(), s, "bound NaN"},
		{good, 1, nil, "needs a noise stream"},
	} {
		if _, err := NewNoisyBTLS(test.c, test.bound, test.stream, 0); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v, bound %v: %v, want %q", test.c, test.bound, err, test.want)
		}
	}
	unlimited := with(func(c *accountant.NoisyBTLS) { c.Noise, c.MaxTrials = accountant.BTLSLaplace, 0 })
	if _, err := NewNoisyBTLS(unlimited, 1, s, 0); err != nil {
		t.Errorf("Laplace noise without a cap: %v", err)
	}
}

// Both scales follow the bound as float32 has it, and never fall below; losses lie on
// a grid that is fine beside the bound.
func TestNoisyBTLSNoise(t *testing.T) {
	for _, queries := range []string{accountant.Generic, accountant.SharedBaseline} {
		for _, bound := range []float64{0.1, 1.0 / 3, 3, 1e-5} {
			c := accountant.NoisyBTLS{Noise: accountant.BTLSGaussian, ThresholdScale: 1.152180194854736, QueryScale: 7.3, MaxTrials: 20, Queries: queries}
			for _, divisor := range []float64{1, 3} {
				b, err := NewNoisyBTLS(c, bound/divisor, testStream(t), 3)
				check(t, err)
				var in, want device.Inputs
				b.Set(&in)
				clip := float64(in.Scalars[device.Clip])
				if math.Abs(clip*divisor/bound-1) > 1e-7 {
					t.Errorf("bound %v became %v", bound/divisor, clip)
				}
				for slot, scale := range map[device.Slot]float64{device.ThresholdStd: c.ThresholdScale, device.QueryStd: c.QueryScale} {
					got := float64(in.Scalars[slot])
					if rat(got).Cmp(new(big.Rat).Mul(rat(scale), rat(clip))) < 0 || got > scale*clip*(1+2e-7) {
						t.Errorf("%s, bound %v: scale %v is %v", queries, bound, scale, got)
					}
					want.Scalars[slot] = in.Scalars[slot]
				}
				step := in.Scalars[device.NoiseStep]
				if fraction, _ := math.Frexp(float64(step)); fraction != 0.5 || float64(step) < clip*0x1p-24 || float64(step) >= clip*0x1p-23 {
					t.Errorf("losses clipped at %v lie on a grid of step %v", clip, step)
				}
				want.Scalars[device.Clip], want.Scalars[device.NoiseStep] = in.Scalars[device.Clip], step
				if fmt.Sprint(in) != fmt.Sprint(want) {
					t.Errorf("Set also sets something else: %v", in)
				}
				if d := b.Deviation(); math.Abs(d/(clip*math.Hypot(c.ThresholdScale, c.QueryScale))-1) > 1e-6 {
					t.Errorf("the deviation of a comparison is %v", d)
				}
				if b.Event() != accountant.Mechanism(c) {
					t.Errorf("the event is %v, want %v", b.Event(), c)
				}
				if b.search.Baseline() != (queries == accountant.SharedBaseline) || b.search.Trials() != 20 || b.search.Tensor() != 3 {
					t.Errorf("%s searches with a baseline: %v, of %d trials", queries, b.search.Baseline(), b.search.Trials())
				}
			}
		}
	}
}

// simulated is a search with the counts of where it stopped.
type simulated struct {
	*NoisyBTLS
	queries, biases []float64 // of the unit of the loss
	counts          []int
}

const testBound = 0.4

func simulate(t *testing.T, c accountant.NoisyBTLS, s *stream.Stream, queries, biases []float64) *simulated {
	t.Helper()
	b, err := NewNoisyBTLS(c, testBound, s, 9)
	check(t, err)
	return &simulated{b, queries, biases, make([]int, len(queries)+1)}
}

// tally notes the index of a search, −1 for none.
func (s *simulated) tally(index int) {
	if index < 0 {
		index = len(s.queries)
	}
	s.counts[index]++
}

// distribution is that of the index at which the search stops when its queries are
// levels above the threshold, none being the last, by the midpoint rule over the
// threshold's noise.
func (s *simulated) distribution(levels []float64) []float64 {
	law := func(scale float64) interface {
		Prob(float64) float64
		CDF(float64) float64
	} {
		if s.c.Noise == accountant.BTLSLaplace {
			return distuv.Laplace{Scale: scale}
		}
		return distuv.Normal{Sigma: scale}
	}
	threshold, query := law(s.c.ThresholdScale), law(s.c.QueryScale)
	p := make([]float64, len(levels)+1)
	const nodes = 1 << 16
	width := 80 * s.c.ThresholdScale / nodes
	for i := range nodes {
		at := (float64(i) + 0.5 - nodes/2) * width
		rest := width * threshold.Prob(at)
		for j, level := range levels {
			below := query.CDF(at - level)
			p[j] += rest * (1 - below)
			rest *= below
		}
		p[len(levels)] += rest
	}
	return p
}

// judge compares the counts with the distribution by a chi-square test that rejects
// what is right with probability 1e-9 (of a fixed seed: so never). Cells of less than
// 10 expected searches are one.
func (s *simulated) judge(t *testing.T) {
	t.Helper()
	const unit = testBound
	levels := make([]float64, len(s.queries))
	for i, q := range s.queries {
		levels[i] = (q - s.biases[i]) / unit
	}
	p := s.distribution(levels)
	n := 0.0
	for _, c := range s.counts {
		n += float64(c)
	}
	var chi, restWant, restGot float64
	cells := 0
	add := func(got, want float64) {
		chi += (got - want) * (got - want) / want
		cells++
	}
	for i, c := range s.counts {
		if want := n * p[i]; want < 10 {
			restWant, restGot = restWant+want, restGot+float64(c)
		} else {
			add(float64(c), want)
		}
	}
	if restWant > 1 {
		add(restGot, restWant)
	}
	if cells < 3 {
		t.Fatalf("%d cells show nothing: %v", cells, p)
	}
	pvalue := mathext.GammaIncRegComp(float64(cells-1)/2, chi/2)
	t.Logf("%v searches: chi-square %.1f in %d cells, p-value %.3g", n, chi, cells, pvalue)
	if pvalue < 1e-9 {
		t.Errorf("counts %v of %v searches do not have the distribution %v", s.counts, n, p)
	}
}

func searches() []accountant.NoisyBTLS {
	var list []accountant.NoisyBTLS
	for _, noise := range []accountant.BTLSNoise{accountant.BTLSGaussian, accountant.BTLSLaplace} {
		for _, queries := range []string{accountant.Generic, accountant.SharedBaseline} {
			list = append(list, accountant.NoisyBTLS{Noise: noise, ThresholdScale: 1.3, QueryScale: 0.9, MaxTrials: 5, Queries: queries})
		}
	}
	return list
}

func (s *simulated) name() string {
	return string(s.c.Noise) + " " + s.c.Queries
}

// The draws and the comparison that devices share, many times.
func TestNoisyBTLSDistribution(t *testing.T) { searchOften(t, 50_000) }

func TestLongNoisyBTLSDistribution(t *testing.T) { searchOften(t, 1_000_000) }

func searchOften(t *testing.T, runs int) {
	for _, c := range searches() {
		runs := runs
		if c.Queries == accountant.SharedBaseline {
			runs /= 10 // the same draws
		}
		s := simulate(t, c, testStream(t), []float64{-0.3, 0.1, 0.6, -0.2, 0.3}, []float64{0.5, 0.2, 0.9, 0.1, 0.6})
		t.Run(s.name(), func(t *testing.T) {
			t.Parallel()
			base := 2.0
			for draw := range runs {
				in := &device.Inputs{Draw: uint64(draw + 1)}
				s.Set(in)
				index := -1
				for index < 0 && in.First < len(s.queries) { // in groups of 2
					group := s.queries[in.First:min(in.First+2, len(s.queries))]
					copy(in.Biases[:], s.biases[in.First:][:len(group)])
					src := append([]float64(nil), group...)
					if s.search.Baseline() {
						src = []float64{base}
						for _, q := range group {
							src = append(src, base-q)
						}
					}
					if i := first(t, s.search, in, src...); i >= 0 {
						index = in.First + i
					}
					in.First += len(group)
				}
				s.tally(index)
			}
			s.judge(t)
		})
	}
}

// lineSearch is a net on the CPU with a direction in parameter space.
type lineSearch struct {
	*devicetest.Case
	net  device.Net
	data device.Data
	dir  device.Vector
}

func openLineSearch(t *testing.T) *lineSearch {
	t.Helper()
	b := devicetest.NewBuilder("mlp", ir.SoftmaxCrossEntropy, 6)
	b.Dense(b.Act(ir.Tanh, b.Dense(ir.Input, 5, true)), 3, true)
	x := &lineSearch{Case: devicetest.NewCase(t, b.Program(), 9, 3)}
	schedule, err := perexample.Private(x.Program, perexample.Options{Strategy: perexample.Ghost, Clipping: ir.Flat})
	check(t, err)
	d, err := cpu.Open(1)
	check(t, err)
	x.net, err = d.Compile(schedule, device.Options{Capacity: 9})
	check(t, err)
	t.Cleanup(func() { check(t, x.net.Close()) })
	x.data, err = d.Load(x.Rows, x.Features)
	check(t, err)
	check(t, x.net.Write(x.net.Params(), x.Params))
	// The direction is the batch's gradient, clipped and released without noise.
	sum, err := x.net.NewSum()
	check(t, err)
	x.dir, err = x.net.NewVector(1)
	check(t, err)
	g, err := NewGaussian(1, 1e6, 0, 1, 1, testStream(t), 1)
	check(t, err)
	step, err := x.net.Record(func(q device.Queue) { q.ClippedSum(sum, x.data); g.Release(q, x.dir, sum) })
	check(t, err)
	in := &device.Inputs{Rows: x.All(), Draw: 1}
	in.Scalars[device.Clip] = 1e6
	check(t, step.Run(in))
	return x
}

func (x *lineSearch) run(t *testing.T, s device.Step, in *device.Inputs) device.Outputs {
	t.Helper()
	check(t, s.Run(in))
	out, err := s.Wait()
	check(t, err)
	return out
}

// record makes a step that fills a sum with a search's queries, then what body says.
func (x *lineSearch) record(t *testing.T, ask device.LossQuery, body func(q device.Queue, src device.Sum)) device.Step {
	t.Helper()
	src, err := x.net.NewScalarSum(ask.K)
	check(t, err)
	s, err := x.net.Record(func(q device.Queue) {
		q.Losses(src, x.data, ask)
		body(q, src)
	})
	check(t, err)
	return s
}

// Thousands of searches through a net, over a batch of 9 rows.
func TestNoisyBTLSOnANet(t *testing.T) { searchOnANet(t, 4_000) }

func TestLongNoisyBTLSOnANet(t *testing.T) { searchOnANet(t, 20_000) }

func searchOnANet(t *testing.T, runs int) {
	etas := []float32{0.2, 0.1, 0.05, 0.025}
	for _, c := range searches() {
		x := openLineSearch(t)
		s := simulate(t, c, testStream(t), make([]float64, 4), make([]float64, 4))
		t.Run(s.name(), func(t *testing.T) {
			in := &device.Inputs{Rows: x.All(), Draw: 100}
			s.Set(in)
			// The exact queries, by a release without noise.
			ask := s.Query(x.net.Params(), x.dir, 4)
			out, err := x.net.NewScalars(ask.K)
			check(t, err)
			bare := x.record(t, ask, func(q device.Queue, src device.Sum) {
				q.Release(out, src, device.NewNoise(testStream(t), 1))
			})
			s.Ask(in, 0, etas, nil)
			x.run(t, bare, in)
			values := make([]float32, ask.K)
			check(t, x.net.Read(out, values))
			for i := range s.queries {
				s.queries[i] = float64(values[ask.K-4+i])
				if ask.K > 4 {
					s.queries[i] = float64(values[0]) - s.queries[i]
				}
				s.biases[i] = s.queries[i] + []float64{0.5, 0.2, 0.4, 0.1}[i]
			}
			three := x.record(t, s.Query(x.net.Params(), x.dir, 3), s.Test)
			for draw := range runs {
				in.Draw = uint64(101 + draw)
				index := -1
				for first := 0; index < 0 && first < 4; first += 3 {
					end := min(first+3, 4)
					s.Ask(in, first, etas[first:end], s.biases[first:end])
					if i := x.run(t, three, in).Found[0]; i >= 0 {
						index = first + i
					}
				}
				s.tally(index)
			}
			s.judge(t)
		})
	}
}

// Without noise the search is backtracking by Armijo's rule: the first rate with f(w) − f(w−ηg) ≥ α·η·‖g‖².
func TestNoisyBTLSWithoutNoiseIsArmijo(t *testing.T) {
	x := openLineSearch(t)
	const k = 12
	etas := make([]float32, k)
	for i := range etas {
		etas[i] = float32(6 * math.Pow(0.6, float64(i)))
	}
	dot, err := x.net.Record(func(q device.Queue) { q.Dot(x.dir, x.dir) })
	check(t, err)
	square := x.run(t, dot, &device.Inputs{}).Dots[0] / 9 // ‖Σg‖²/n, for a loss that is a sum too

	// Losses at w − ηg, of parameters that are moved there: no part of the search's code.
	moved, err := x.net.NewVector(1)
	check(t, err)
	at, err := x.net.Record(func(q device.Queue) {
		q.Axpy(moved, device.Along, x.dir)
		q.Score(moved, x.data)
	})
	check(t, err)
	loss := func(eta float32) float64 {
		check(t, x.net.Write(moved, x.Params))
		in := &device.Inputs{}
		in.Scalars[device.Along] = -eta
		return x.run(t, at, in).Scores[0].Loss
	}
	begin := loss(0)
	decreases := make([]float64, k)
	for i, eta := range etas {
		etas[i] = eta / 9
		decreases[i] = begin - loss(etas[i])
	}

	found, draw := map[int]bool{}, uint64(1000)
	for _, queries := range []string{accountant.Generic, accountant.SharedBaseline} {
		c := accountant.NoisyBTLS{Noise: accountant.BTLSGaussian, ThresholdScale: 1, QueryScale: 1, MaxTrials: k, Queries: queries}
		b, err := NewNoisyBTLS(c, 1e6, testStream(t), 9)
		check(t, err)
		step := x.record(t, b.Query(x.net.Params(), x.dir, k), b.Test)
		for _, alpha := range []float64{0.05, 0.2, 0.4, 0.6, 0.75, 0.85, 0.93, 3} {
			draw++
			in := &device.Inputs{Rows: x.All(), Draw: draw}
			b.Set(in)
			in.Scalars[device.ThresholdStd], in.Scalars[device.QueryStd], in.Scalars[device.NoiseStep] = 0, 0, 0
			biases, want := make([]float64, k), -1
			for i, eta := range etas {
				biases[i] = alpha * float64(eta) * 9 * square
				if d := decreases[i] - biases[i]; math.Abs(d) < 1e-4*begin {
					t.Fatalf("α=%v: rate %d is a draw", alpha, i)
				} else if want < 0 && d > 0 {
					want = i
				}
			}
			b.Ask(in, 0, etas, biases)
			if got := x.run(t, step, in).Found[0]; got != want {
				t.Errorf("%s, α=%v: rate %d, Armijo's rule gives %d", queries, alpha, got, want)
			}
			found[want] = true
		}
	}
	if len(found) < 4 {
		t.Errorf("all cases give %v", found)
	}
}
