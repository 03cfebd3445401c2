package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/accountant/ledger"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/dpoptim/linesearch"
	"github.com/privgrad/privgrad/internal/cpu"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/plan"
)

// searchConfig is small() with a search of a fixed budget, or an ε for one that adapts.
func searchConfig(optimizer string, s Search) Config {
	c := small()
	c.Optimizer, c.Search = optimizer, &s
	if s.Budget != budgetFixed {
		c.NoiseMultiplier, c.Epsilon = nil, ptr(1.0)
		if searching[optimizer].full {
			c.Batch = nil
		}
	}
	return c
}

// drawn is a device that notes with which noise everything left it.
type drawn struct {
	device.Device
	all []release
}

// release is what left the device by one mechanism, and the rows that it was asked of.
type release struct {
	kind string // gradient, curve or search
	in   device.Inputs
	rows []int32
}

func (d *drawn) Compile(s *plan.Schedule, o device.Options) (device.Net, error) {
	n, err := d.Device.Compile(s, o)
	return &drawnNet{Net: n, d: d}, err
}

type drawnNet struct {
	device.Net
	d    *drawn
	sum  string
	rows []int32
}

type drawnQueue struct {
	device.Queue
	sum  string
	asks string
}

func (q *drawnQueue) ClippedSum(dst device.Sum, from device.Data) {
	q.sum = "gradient"
	q.Queue.ClippedSum(dst, from)
}

func (q *drawnQueue) Losses(dst device.Sum, from device.Data, ask device.LossQuery) {
	q.sum = "curve"
	q.Queue.Losses(dst, from, ask)
}

func (q *drawnQueue) Release(dst device.Vector, src device.Sum, n device.Noise) {
	q.asks = "release"
	q.Queue.Release(dst, src, n)
}

func (q *drawnQueue) FirstAbove(src device.Sum, s device.Search) {
	q.asks = "search"
	q.Queue.FirstAbove(src, s)
}

type drawnStep struct {
	device.Step
	net  *drawnNet
	sum  string
	asks string
}

func (n *drawnNet) Record(body func(device.Queue)) (device.Step, error) {
	q := &drawnQueue{}
	s, err := n.Net.Record(func(inner device.Queue) {
		q.Queue = inner
		body(q)
	})
	return &drawnStep{s, n, q.sum, q.asks}, err
}

func (s *drawnStep) Run(in *device.Inputs) error {
	n := s.net
	if s.sum != "" {
		n.sum, n.rows = s.sum, append(n.rows, in.Rows...)
	}
	if s.asks != "" {
		r := release{kind: n.sum, in: *in, rows: n.rows}
		if s.asks == "search" {
			r.kind = "search"
		}
		if in.First == 0 || s.asks != "search" { // a search may go on in further runs
			n.d.all = append(n.d.all, r)
		}
		n.rows = nil
	}
	return s.Step.Run(in)
}

// cost is what was drawn, in the accountant's terms: scales over the bound that went
// with them, and one event for all that was asked of the same rows.
func (d *drawn) cost(t *testing.T, p *Plan) []accountant.Event {
	t.Helper()
	var events []accountant.Event
	count := map[string]int{}
	var batch []accountant.Mechanism
	flush := func() {
		if len(batch) == 0 {
			return
		}
		key := fmt.Sprint(batch)
		if i, ok := count[key]; ok {
			events[i].Count++
		} else {
			count[key] = len(events)
			events = append(events, accountant.PoissonBatch(p.SamplingRate, 1, batch...))
		}
		batch = nil
	}
	var rows []int32
	for i, r := range d.all {
		if len(batch) == 0 || !slices.Equal(r.rows, rows) || p.SamplingRate == 1 {
			flush()
		}
		rows = r.rows
		clip := float64(r.in.Scalars[device.Clip])
		switch r.kind {
		case "gradient", "curve":
			batch = append(batch, accountant.Gaussian{NoiseMultiplier: float64(r.in.Scalars[device.NoiseStd]) / clip})
		case "search":
			c := p.Config.Search
			if c.Form == searchMinimum {
				batch = append(batch, accountant.Pure{Epsilon: clip / float64(r.in.Scalars[device.QueryStd])})
				break
			}
			batch = append(batch, accountant.NoisyBTLS{
				Noise: accountant.BTLSNoise(c.Noise), MaxTrials: *c.Trials, Queries: c.queries(),
				ThresholdScale: float64(r.in.Scalars[device.ThresholdStd]) / clip, QueryScale: float64(r.in.Scalars[device.QueryStd]) / clip,
			})
		}
		if i > 0 && !(r.in.Draw > d.all[i-1].in.Draw) {
			t.Fatalf("release %d is at noise position %d, the one before at %d", i, r.in.Draw, d.all[i-1].in.Draw)
		}
	}
	flush()
	return events
}

func noting(t *testing.T) *drawn {
	t.Helper()
	host, err := cpu.Open(1)
	check(t, err)
	return &drawn{Device: host}
}

// What a fixed budget reports is what the noise that was drawn costs, composed
// independently of how the run priced itself: never less, and no more than rounding
// explains. What is asked of one batch is amplified together.
func TestSearchIsPricedAsDrawn(t *testing.T) {
	configs := map[string]Config{
		"differences":           searchConfig("dp-blsgd", Search{Budget: budgetFixed}),
		"differences, laplace":  searchConfig("dp-blsgd", Search{Budget: budgetFixed, Noise: "laplace", Every: ptr(7)}),
		"differences, shared":   searchConfig("dp-blsgd", Search{Budget: budgetFixed, Batches: "shared", Every: ptr(3)}),
		"losses":                searchConfig("dp-blsgd", Search{Budget: budgetFixed, Form: searchLosses, Share: ptr(0.3)}),
		"losses, shared":        searchConfig("dp-blsgd", Search{Budget: budgetFixed, Form: searchLosses, Batches: "shared"}),
		"curve":                 searchConfig("dp-blsgd", Search{Budget: budgetFixed, Form: searchCurve}),
		"curve, shared":         searchConfig("dp-blsgd", Search{Budget: budgetFixed, Form: searchCurve, Batches: "shared"}),
		"losses, laplace, odds": searchConfig("dp-blsgd", Search{Budget: budgetFixed, Form: searchLosses, Noise: "laplace", Trials: ptr(3)}),
	}
	for name, c := range configs {
		t.Run(name, func(t *testing.T) {
			for _, relation := range []string{"add-remove", "replace-one"} {
				if relation == "replace-one" && c.Search.Noise == "laplace" {
					continue // no accountant amplifies it
				}
				c := c
				c.Neighbouring, c.Accountant, c.Clip = relation, accountant.RDP, 0.7
				d := noting(t)
				o := Options{Sources: sources(made(1, 400)), Device: d}
				p, err := Resolve(c, o)
				check(t, err)
				r, _ := trained(t, c, made(1, 400), Options{Device: d})
				events := d.cost(t, p)
				a, err := accountant.Account(events, accountant.Options{Accountant: c.Accountant, Neighbouring: accountant.Neighbouring(relation), Delta: *r.Delta})
				check(t, err)
				if !(a.Epsilon <= *r.Epsilon*(1+1e-9)) || !(a.Epsilon > *r.Epsilon*(1-4e-3)) {
					t.Errorf("%s: ε %v is reported, what was drawn costs %v: %v", relation, *r.Epsilon, a.Epsilon, events)
				}
				searches := 0
				for _, x := range d.all {
					if x.kind != "gradient" {
						searches++
					}
				}
				if want := (*c.Steps + *p.Config.Search.Every - 1) / *p.Config.Search.Every; searches != want || len(d.all) != *c.Steps+want {
					t.Errorf("%d searches in %d releases, want %d", searches, len(d.all), want)
				}
				if r.Accountant == nil || *r.Accountant != c.Accountant || *r.Committed != *c.Steps || *r.NoiseMultiplier != 1 || !r.Guarantee || *r.EpsilonSoFar != *r.Epsilon {
					t.Errorf("%s: the result says %+v", relation, r)
				}
			}
		})
	}
}

// adapting are runs whose budgets adapt, of a few steps.
func adapting() map[string]Config {
	all := map[string]Config{
		"fresh":    searchConfig("dp-blsgd", Search{Budget: "adaptive", Iterations: ptr(8)}),
		"shared":   searchConfig("dp-blsgd-ac", Search{Batches: "shared", Iterations: ptr(8), Trials: ptr(4)}),
		"gaussian": searchConfig("dp-blsgd", Search{Budget: "always", Noise: "gaussian", Form: searchDifferences, Iterations: ptr(8), Trials: ptr(4)}),
		"full":     searchConfig("dp-blgd", Search{Iterations: ptr(6), Trials: ptr(3)}),
		"minimum":  searchConfig("dp-agd", Search{Iterations: ptr(6), Trials: ptr(4)}),
	}
	for name, c := range all {
		c.L2, c.Steps, c.Epsilon = 1e-3, ptr(1000), ptr(2.0)
		all[name] = c
	}
	return all
}

// spentBy is what the releases of some processes cost, as a share of the filter's budget.
func spentBy(t *testing.T, p *Plan, processes ...*drawn) float64 {
	t.Helper()
	b, err := p.newBudget()
	check(t, err)
	f := b.(*accountant.Filter)
	cost := func(events []accountant.Event) float64 {
		if len(events) == 0 {
			return 0
		}
		c, err := accountant.NewCurve(events, accountant.Neighbouring(p.Config.Neighbouring), []float64{f.Order()})
		check(t, err)
		return c.RDP[0]
	}
	total := 0.0
	for _, d := range processes {
		total += cost(d.cost(t, p))
	}
	budget := *p.Epsilon - math.Log1p(-1/f.Order()) + math.Log(*p.Config.Delta*f.Order())/(f.Order()-1)
	return total / budget
}

// A run whose budgets adapt is charged for what it drew, no more than rounding
// explains, and stops within its budget.
func TestAdaptingRunStaysWithinItsBudget(t *testing.T) {
	for name, c := range adapting() {
		t.Run(name, func(t *testing.T) {
			d := noting(t)
			p, err := Resolve(c, Options{Sources: sources(made(1, 400)), Device: d})
			check(t, err)
			out := filepath.Join(t.TempDir(), "run")
			r, err := Run(context.Background(), c, Options{Sources: sources(made(1, 400)), Device: d, Out: out})
			check(t, err)
			s, _, err := ledger.Read(filepath.Join(out, fileLedger))
			check(t, err)
			spent, charged := spentBy(t, p, d), float64(s.Reserved)/budgetUnits
			// A shared batch is charged for its search even where the run ended before it.
			if !(spent <= charged) || c.Search.Batches != "shared" && spent < charged*(1-1e-2) || charged > 1 {
				t.Errorf("%v of the budget was drawn, %v charged", spent, charged)
			}
			if *r.Epsilon != *c.Epsilon || !(*r.EpsilonSoFar <= *r.Epsilon) || !(*r.EpsilonSoFar > 0) || r.Committed != nil || r.NoiseMultiplier != nil ||
				*r.Accountant != accountant.RDP || !r.Guarantee || len(r.NoGuarantee) != 0 {
				t.Errorf("the result says %+v", r)
			}
			if r.Steps == 0 || r.Steps == *c.Steps {
				t.Errorf("%d steps: the budget did not end the run", r.Steps)
			}
			again, err := Run(context.Background(), c, Options{Sources: sources(made(1, 400)), Device: d, Out: out, Resume: true})
			if err != nil || again.Steps != r.Steps || *again.EpsilonSoFar != *r.EpsilonSoFar {
				t.Errorf("a finished run does not give its stored result: %v", err)
			}
		})
	}
}

// Ended at any release, a run has charged that release and all before it. It goes on
// with what is left: its processes together stay within the budget.
func TestAdaptingRunEndsAnywhere(t *testing.T) {
	for name, c := range adapting() {
		t.Run(name, func(t *testing.T) {
			p, err := Resolve(c, Options{Sources: sources(made(1, 400))})
			check(t, err)
			all := [][]int{{2, 5}, {23, 1}}
			if name == "fresh" {
				all = append(all, []int{0}, []int{1, 0})
			}
			for _, ends := range all {
				dir := t.TempDir()
				o := Options{Sources: sources(made(1, 400)), Out: filepath.Join(dir, "run"), Resume: true}
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
					s, _, err := ledger.Read(filepath.Join(o.Out, fileLedger))
					check(t, err)
					if spent := spentBy(t, p, processes...); !(spent < float64(s.Reserved)/budgetUnits) {
						t.Errorf("%v: %v of the budget was drawn, and the next release charged, the ledger says %v", ends, spent, float64(s.Reserved)/budgetUnits)
					}
				}
				if !whole {
					d := noting(t)
					o.Device = d
					processes = append(processes, d)
					r, err := Run(context.Background(), c, o)
					check(t, err)
					if *r.EpsilonSoFar > *r.Epsilon {
						t.Errorf("%v: ε so far %v of %v", ends, *r.EpsilonSoFar, *r.Epsilon)
					}
				}
				if spent := spentBy(t, p, processes...); spent > 1 {
					t.Errorf("%v: %v of the budget was drawn", ends, spent)
				}
			}
		})
	}
}

// Interrupted or killed, and resumed, a seeded run whose budgets adapt leaves the
// bytes of one that never stopped.
func TestAdaptingSeededResume(t *testing.T) {
	t.Chdir(t.TempDir())
	c := adapting()["shared"]
	c.Noise, c.Steps = noiseSeeded, ptr(25)
	c.Search.Iterations = ptr(100)
	o := Options{Sources: sources(made(1, 400)), RunID: strings.Repeat("ab", 16), Out: "whole"}
	r, err := Run(context.Background(), c, o)
	check(t, err)
	if r.Steps < 15 || r.Guarantee {
		t.Fatalf("%d steps, guarantee %v", r.Steps, r.Guarantee)
	}
	want := files(t, "whole")
	o.Out, o.Resume = "pieces", true
	for _, stop := range []struct {
		slot   int
		cancel bool
	}{{0, false}, {3, true}, {9, false}, {12, false}, {12, true}, {14, false}} {
		ctx, o := stopAt(t, o, stop.slot, stop.cancel)
		_, err := Run(ctx, c, o)
		if stop.cancel && !errors.Is(err, ErrInterrupted) || !stop.cancel && !errors.Is(err, errCrash) {
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
}

// By the paper's arithmetic nothing is a guarantee, and everything says so.
func TestPaperSearchIsNoGuarantee(t *testing.T) {
	fixed := searchConfig("dp-blsgd", Search{Budget: budgetFixed, Batches: "paper"})
	adapts := adapting()["fresh"]
	s := *adapts.Search
	s.Batches = "paper"
	adapts.Search = &s
	for name, c := range map[string]Config{"fixed": fixed, "adapts": adapts} {
		out := filepath.Join(t.TempDir(), "run")
		o := Options{Sources: sources(made(1, 400)), Out: out}
		r, err := Run(context.Background(), c, o)
		check(t, err)
		if r.Guarantee || *r.Accountant != accountant.Paper || !slices.Contains(r.NoGuarantee, accountant.WhyNotPaper) || *r.EpsilonSoFar > *r.Epsilon*(1+1e-12) {
			t.Errorf("%s: the result says %+v", name, r)
		}
		var stored Result
		check(t, json.Unmarshal(read(t, out, fileResult), &stored))
		if stored.Guarantee || !slices.Contains(stored.NoGuarantee, accountant.WhyNotPaper) {
			t.Errorf("%s: result.json says %+v", name, stored)
		}
		for _, file := range []string{fileConfig, fileMetrics, fileModel, filepath.Join(dirCheckpoint, fileState)} {
			if !strings.Contains(string(read(t, out, file)), "NOT A GUARANTEE") {
				t.Errorf("%s: %s does not say that its ε is no guarantee", name, file)
			}
		}
		var config Config
		check(t, ReadConfig(filepath.Join(out, fileConfig), &config))
		if config.Accountant != accountant.Paper || config.Search.Batches != "paper" {
			t.Errorf("%s: config.yaml says %+v", name, config)
		}
	}
	p, err := Resolve(fixed, Options{Sources: sources(made(1, 400))})
	check(t, err)
	l := accountant.LineSearch{
		SamplingRate: p.SamplingRate, Steps: p.Steps, Gradient: accountant.Gaussian{NoiseMultiplier: 1}, Searches: 1,
		// μ² = share/(1−share), ρ = μ²/2, σ₁² = 3/(2ρ), σ₂² = 3/ρ.
		Search: accountant.NoisyBTLS{Noise: "gaussian", ThresholdScale: math.Sqrt(3 * 9), QueryScale: math.Sqrt(6 * 9), MaxTrials: 20, Queries: accountant.SharedBaseline},
	}
	want, err := l.PaperEpsilon(*p.Config.Delta)
	check(t, err)
	if math.Abs(*p.Epsilon-want.Epsilon) > 1e-9*want.Epsilon {
		t.Errorf("ε %v, by the paper %v", *p.Epsilon, want.Epsilon)
	}
}

// The settings that a run resolved, read back from its file, are the same run's.
func TestSearchSettingsSurvive(t *testing.T) {
	all := adapting()
	all["curve"] = searchConfig("dp-blsgd", Search{Budget: budgetFixed, Form: searchCurve})
	all["differences"] = searchConfig("dp-blsgd", Search{Budget: budgetFixed})
	for name, c := range all {
		p, err := Resolve(c, Options{Sources: sources(made(1, 400))})
		check(t, err)
		yaml, err := p.Config.YAML()
		check(t, err)
		path := filepath.Join(t.TempDir(), "config.yaml")
		check(t, os.WriteFile(path, yaml, 0o600))
		var back Config
		check(t, ReadConfig(path, &back))
		again, err := Resolve(back, Options{Sources: sources(made(1, 400))})
		check(t, err)
		if again.fingerprint != p.fingerprint {
			t.Errorf("%s: read back it is another run:\n%s", name, yaml)
		}
	}
}

func TestSearchRefuses(t *testing.T) {
	fixed := func(f func(*Search)) func(*Config) {
		return func(c *Config) {
			s := Search{Budget: budgetFixed}
			f(&s)
			c.Optimizer, c.Search = "dp-blsgd", &s
		}
	}
	adaptive := func(f func(*Config)) func(*Config) {
		return func(c *Config) {
			*c = searchConfig("dp-blsgd", Search{Budget: "adaptive"})
			f(c)
		}
	}
	for want, change := range map[string]func(*Config){
		"optimizer dp-sgd has a step size of its own":          func(c *Config) { c.Search = &Search{} },
		`unknown search form "x": choose one of differences, `: fixed(func(s *Search) { s.Form = "x" }),
		`unknown search budget "x": choose one of fixed, `:     fixed(func(s *Search) { s.Budget = "x" }),
		`unknown search batches "x": choose one of fresh, `:    fixed(func(s *Search) { s.Batches = "x" }),
		`unknown search noise "x": choose one of gaussian, `:   fixed(func(s *Search) { s.Noise = "x" }),
		"search-every 0":                          fixed(func(s *Search) { s.Every = ptr(0) }),
		"search-share 1:":                         fixed(func(s *Search) { s.Share = ptr(1.0) }),
		"search-share NaN":                        fixed(func(s *Search) { s.Share = ptr(math.NaN()) }),
		"search-clip 0:":                          fixed(func(s *Search) { s.Clip = ptr(0.0) }),
		"search-clip +Inf":                        fixed(func(s *Search) { s.Clip = ptr(math.Inf(1)) }),
		"search-weight 0:":                        fixed(func(s *Search) { s.Weight = ptr(0.0) }),
		"search-trials 1001":                      fixed(func(s *Search) { s.Trials = ptr(1001) }),
		"search-trials 0":                         fixed(func(s *Search) { s.Trials = ptr(0) }),
		"alpha 1 of":                              fixed(func(s *Search) { s.Alpha = ptr(1.0) }),
		"beta 0 of":                               fixed(func(s *Search) { s.Beta = ptr(0.0) }),
		"search-margin NaN":                       fixed(func(s *Search) { s.Margin = ptr(math.NaN()) }),
		"after every 0 searches":                  fixed(func(s *Search) { s.StartEvery = ptr(0) }),
		"is 1 times the largest step":             fixed(func(s *Search) { s.StartFactor = ptr(1.0) }),
		"4 points":                                fixed(func(s *Search) { s.Form, s.Points = searchCurve, ptr(4) }),
		"search-points 33":                        fixed(func(s *Search) { s.Form, s.Points = searchCurve, ptr(33) }),
		"factor 1 apart":                          fixed(func(s *Search) { s.Form, s.Factor = searchCurve, ptr(1.0) }),
		"must keep 2":                             fixed(func(s *Search) { s.Form, s.Keep = searchCurve, ptr(2.0) }),
		"search form curve is a Gaussian release": fixed(func(s *Search) { s.Form, s.Noise = searchCurve, "laplace" }),
		"of which the paper knows nothing":        fixed(func(s *Search) { s.Form, s.Batches = searchCurve, "paper" }),
		"search-alpha: search form curve":         fixed(func(s *Search) { s.Form, s.Alpha = searchCurve, ptr(0.1) }),
		"search-keep: search form differences":    fixed(func(s *Search) { s.Keep = ptr(0.1) }),
		"search-growth: search form differences":  fixed(func(s *Search) { s.Growth = ptr(0.1) }),
		"search-every 2: the paper's arithmetic":  fixed(func(s *Search) { s.Batches, s.Every = "paper", ptr(2) }),
		"neighbouring replace-one: the paper's arithmetic": func(c *Config) {
			*c = searchConfig("dp-blsgd", Search{Budget: budgetFixed, Batches: "paper"})
			c.Neighbouring = "replace-one"
		},
		"train-loss-noise 4: the paper's arithmetic": func(c *Config) {
			*c = searchConfig("dp-blsgd", Search{Budget: budgetFixed, Batches: "paper"})
			c.TrainLossNoise = ptr(4.0)
		},
		"accountant prv: search batches paper": func(c *Config) {
			*c = searchConfig("dp-blsgd", Search{Budget: budgetFixed, Batches: "paper"})
			c.Accountant = "prv"
		},
		"accountant paper: search batches fresh":                 adaptive(func(c *Config) { c.Accountant = "paper" }),
		"momentum 0.9: optimizer dp-blsgd":                       adaptive(func(c *Config) { c.Momentum = 0.9 }),
		"noise exact: line searches":                             adaptive(func(c *Config) { c.Noise = noiseExact }),
		"clipping adaptive: optimizer dp-blsgd":                  adaptive(func(c *Config) { c.Clipping = "adaptive" }),
		"noise multiplier 1: optimizer dp-blsgd":                 adaptive(func(c *Config) { c.NoiseMultiplier, c.Epsilon = ptr(1.0), nil }),
		"train-loss-noise 4: budgets":                            adaptive(func(c *Config) { c.TrainLossNoise = ptr(4.0) }),
		"lr-schedule cosine":                                     adaptive(func(c *Config) { c.LRSchedule = "cosine" }),
		"epochs 2: optimizer dp-blsgd":                           adaptive(func(c *Config) { c.Epochs, c.Steps = ptr(2.0), nil }),
		"search-every: search form losses under search budget a": adaptive(func(c *Config) { c.Search.Every = ptr(1) }),
		"search-iterations 0":                                    adaptive(func(c *Config) { c.Search.Iterations = ptr(0) }),
		"grow by 1000":                                           adaptive(func(c *Config) { c.Search.Growth = ptr(1000.0) }),
		"shrink by 1":                                            adaptive(func(c *Config) { c.Search.Shrink = ptr(1.0) }),
		"wide 1 ":                                                adaptive(func(c *Config) { c.Search.Wide = ptr(1.0) }),
		"narrow 1 ":                                              adaptive(func(c *Config) { c.Search.Narrow = ptr(1.0) }),
		"decay 1 ":                                               adaptive(func(c *Config) { c.Search.Decay = ptr(1.0) }),
		"learning rate 1e+20: optimizer dp-blsgd searches":       adaptive(func(c *Config) { c.LR = ptr(1e20) }),
		"optimizer dp-blsgd-ac adapts its budgets":               func(c *Config) { c.Optimizer, c.Search = "dp-blsgd-ac", &Search{Budget: budgetFixed} },
		"optimizer dp-blgd takes every record":                   func(c *Config) { c.Optimizer, c.NoiseMultiplier, c.Epsilon = "dp-blgd", nil, ptr(1.0) },
		"raise --search-iterations":                              func(c *Config) { *c = searchConfig("dp-blgd", Search{Iterations: ptr(1)}) },
	} {
		c := small()
		change(&c)
		refusedBefore(t, c, Options{Sources: sources(made(1, 400))}, want)
	}
	// A first step that the budget does not allow is refused as such, before anything is written.
	c := searchConfig("dp-blgd", Search{Iterations: ptr(1)})
	if _, err := Resolve(c, Options{Sources: sources(made(1, 400))}); !errors.Is(err, accountant.ErrBudget) {
		t.Errorf("a first step beyond the budget: %v", err)
	}
}

// A checkpoint whose search state is another's, damaged, or ahead of its ledger is refused.
func TestSearchCheckpointRefuses(t *testing.T) {
	start := func(t *testing.T, c Config) Options {
		o := Options{Sources: sources(made(1, 400)), Out: filepath.Join(t.TempDir(), "run"), Resume: true}
		ctx, stop := stopAt(t, o, 2, true)
		if _, err := Run(ctx, c, stop); !errors.Is(err, ErrInterrupted) {
			t.Fatal(err)
		}
		return o
	}
	refused := func(t *testing.T, c Config, o Options, change func(*checkpoint), want string) {
		t.Helper()
		kept, err := readCheckpoint(o.Out, 65, map[bool][]dpoptim.State{true: {{Width: 1}}}[c.Search.Budget != budgetFixed])
		check(t, err)
		changed := *kept
		change(&changed)
		check(t, changed.write(o.Out))
		_, err = Run(context.Background(), c, o)
		var u *UsageError
		if !errors.As(err, &u) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want a usage error with %q", err, want)
		}
		check(t, kept.write(o.Out))
	}
	replace := func(old, new string) func(*checkpoint) {
		return func(c *checkpoint) {
			if !strings.Contains(c.more, old) {
				t.Fatalf("no %s in %s", old, c.more)
			}
			c.more = strings.Replace(c.more, old, new, 1)
		}
	}
	fixed, adapts := searchConfig("dp-blsgd", Search{Budget: budgetFixed}), adapting()["fresh"]
	t.Run("fixed", func(t *testing.T) {
		o := start(t, fixed)
		refused(t, fixed, o, func(c *checkpoint) { c.more = "" }, "cannot be read")
		refused(t, fixed, o, func(c *checkpoint) { c.more = "{}" }, "a step size of 0")
		refused(t, fixed, o, replace(`"eta":`, `"eta":-`), "a step size of -")
		refused(t, fixed, o, replace(`"largest":`, `"largest":-1e9,"largest":-1`), "not what a line search leaves")
		refused(t, fixed, o, replace(`"group":`, `"grouped":`), "grouped")
	})
	t.Run("adapts", func(t *testing.T) {
		o := start(t, adapts)
		refused(t, adapts, o, replace(`"clip":1`, `"clip":1e9`), "not what a line search leaves")
		refused(t, adapts, o, replace(`"gradient":`, `"gradient":-`), "not what a line search leaves")
		refused(t, adapts, o, replace(`"adaptive":`, `"adapted":`), "adapted")
		refused(t, adapts, o, replace(`"spent":[`, `"spent":[-`), "a divergence of -")
		refused(t, adapts, o, replace(`"spent":[`, `"spent":[0,`), "2 divergences were spent")
		refused(t, adapts, o, replace(`"spent":[0`, `"spent":[9`), "ahead of the ledger")
		if _, err := Run(context.Background(), adapts, o); err != nil {
			t.Error(err)
		}
	})
}

// lossAt is the mean over an expected batch of the logistic loss, with the penalty.
func lossAt(set *Config, x [][]float64, y, w []float64, batch float64) float64 {
	sum := 0.0
	for i := range x {
		m := 0.0
		for j, v := range x[i] {
			m += v * w[j]
		}
		m *= y[i]
		sum += math.Max(-m, 0) + math.Log1p(math.Exp(-math.Abs(m)))
	}
	sum /= batch
	for _, v := range w {
		sum += set.L2 / 2 * v * v
	}
	return sum
}

// Without noise, and with bounds above every gradient and loss, each optimizer is
// gradient descent with Armijo's backtracking, on every device: parameters are
// followed in float64, by formulas of the test's own.
func TestSearchIsArmijoWithoutNoise(t *testing.T) {
	const steps, trials = 5, 14
	bound := ptr(1000.0)
	rise := Search{Budget: budgetFixed, Every: ptr(1), Clip: bound, Trials: ptr(trials), Beta: ptr(0.7), Alpha: ptr(0.3)}
	spaced := Search{Budget: budgetFixed, Form: searchLosses, Batches: "shared", Every: ptr(2), Clip: bound, Trials: ptr(trials), Beta: ptr(0.6), Alpha: ptr(0.4), StartEvery: ptr(2)}
	curve := Search{Budget: budgetFixed, Form: searchCurve, Every: ptr(1), Clip: bound, Points: ptr(7), Weight: ptr(0.5)}
	adapts := Search{Clip: bound, Trials: ptr(trials), Beta: ptr(0.6), StartEvery: ptr(2), StartFactor: ptr(1.5), Iterations: ptr(5)}
	for name, test := range map[string]struct {
		optimizer string
		search    Search
		start     float64
	}{
		"differences": {"dp-blsgd", rise, 6}, "losses": {"dp-blsgd", spaced, 6}, "curve": {"dp-blsgd", curve, 4},
		"adaptive": {"dp-blsgd", adapts, 6}, "refine": {"dp-blgd", adapts, 6}, "too few trials": {"dp-blsgd", Search{Budget: budgetFixed, Every: ptr(1), Clip: bound, Trials: ptr(2), Beta: ptr(0.9)}, 1000},
	} {
		t.Run(name, func(t *testing.T) {
			for kind, d := range devices(t) {
				if kind == "cuda" && (name == "refine" || name == "too few trials") {
					continue // slow, and as the others
				}
				c := searchConfig(test.optimizer, test.search)
				c.NoiseMultiplier, c.Epsilon, c.Batch, c.SamplingRate = ptr(0.0), nil, nil, ptr(1.0)
				if test.optimizer == "dp-blgd" {
					c.SamplingRate = nil
				}
				c.Clip, c.Steps, c.LR, c.L2, c.EvalEvery = 100, ptr(steps), &test.start, 0.02, 100
				c.Noise = noiseSeeded
				set := made(1, 80)
				for i := range set.Train.Labels {
					if i%3 == 0 { // no weights tell these classes apart, so that gradients stay
						set.Train.Labels[i] ^= 1
					}
				}
				p, err := Resolve(c, Options{Sources: sources(set), Device: d})
				check(t, err)
				r, got := trained(t, c, set, Options{Device: d})
				if r.Epsilon != nil || r.Guarantee || *r.NoiseMultiplier != 0 {
					t.Errorf("%s: the result says %+v", kind, r)
				}
				want := descended(t, p, steps)
				for i := range want {
					// Single precision, steps of up to 40 along gradients below 1, five of them.
					if math.Abs(float64(got[i])-want[i]) > 2e-4*(1+math.Abs(want[i])) {
						t.Fatalf("%s: parameter %d is %v, want %v", kind, i, got[i], want[i])
					}
				}
			}
		})
	}
}

// descended follows what a plan without noise does on all of its records.
func descended(t *testing.T, p *Plan, steps int) []float64 {
	t.Helper()
	c, s, im := &p.Config, p.Config.Search, p.Set.Train
	var x [][]float64
	var y []float64
	rows := make([]int32, len(im.Labels))
	for i := range rows {
		rows[i] = int32(i)
		v := make([]float64, 65)
		for j, b := range im.Features[64*i:][:64] {
			v[j] = float64(b)/127.5 - 1
		}
		v[64] = 1
		x, y = append(x, v), append(y, 2*float64(im.Labels[i])-1)
	}
	loss := func(w []float64) float64 { return lossAt(c, x, y, w, p.ExpectedBatch) }
	w := make([]float64, 65)
	eta, start, largest, found := *c.LR, *c.LR, 0.0, 0
	for step := range steps {
		g := meanGradient(im, rows, w, p.ExpectedBatch)
		norm2 := 0.0
		for i := range g {
			g[i] += c.L2 * w[i]
			norm2 += g[i] * g[i]
		}
		at := func(eta float64) []float64 {
			moved := make([]float64, 65)
			for i := range w {
				moved[i] = w[i] - eta*g[i]
			}
			return moved
		}
		decrease := func(eta float64) float64 { return loss(w) - loss(at(eta)) }
		fixed := s.Budget == budgetFixed
		if !fixed || step%*s.Every == 0 {
			var chosen float64
			if s.Form == searchCurve {
				var d []float64
				for i := -*s.Points / 2; i <= *s.Points/2; i++ {
					d = append(d, decrease(eta*math.Pow(*s.Factor, float64(i))))
				}
				smooth := make([]float64, len(d))
				best := 0
				for i := range d {
					smooth[i] = d[max(i-1, 0)] + 2*d[i] + d[min(i+1, len(d)-1)]
					if smooth[i] > smooth[best] {
						best = i
					}
				}
				for best+1 < len(d) && smooth[best+1] >= *s.Keep*slices.Max(smooth) {
					best++
				}
				chosen = eta * math.Pow(*s.Factor, float64(best-*s.Points/2))
			} else {
				for i := range *s.Trials {
					chosen = start * math.Pow(*s.Beta, float64(i))
					gap := decrease(chosen) - *s.Alpha*chosen*norm2
					if math.Abs(gap) < 2e-6 {
						t.Fatalf("step %d: candidate %d is a tie", step, i)
					}
					if gap > 0 {
						break
					}
				}
			}
			switch {
			case !fixed || step == 0:
				eta = chosen
			default:
				eta = math.Exp((1-*s.Weight)*math.Log(eta) + *s.Weight*math.Log(chosen))
			}
			if s.Form != searchCurve {
				largest = max(largest, eta)
				if found++; found == *s.StartEvery {
					if next := *s.StartFactor * largest; next < start || *s.Rise {
						start = next
					}
					largest, found = 0, 0
				}
			}
		}
		w = at(eta)
	}
	return w
}

// Of two gradients' average the noise is half of one's; the correction follows it.
func TestNoiseOfTheDirection(t *testing.T) {
	c := adapting()["gaussian"]
	d := noting(t)
	p, err := Resolve(c, Options{Sources: sources(made(1, 400)), Device: d})
	check(t, err)
	r := &run{plan: p, options: Options{Sources: sources(made(1, 400)), Device: d, Out: filepath.Join(t.TempDir(), "run")}}
	defer r.close()
	_, err = r.open()
	check(t, err)
	o := &oracle{run: r}
	b := linesearch.Budgets{Gradient: p.first.Gradient, Search: p.first.Search, Clip: 0.5}
	one := 65 * math.Pow(c.Clip*0.5/math.Sqrt(2*b.Gradient)/p.ExpectedBatch, 2)
	first, err := o.Gradient(b)
	check(t, err)
	second, _, err := o.Again(b.Gradient/4, 0.2, b)
	check(t, err)
	if math.Abs(first.Noise-one) > 1e-9*one || math.Abs(second.Noise-(0.64+0.04*4)*one) > 1e-9*one {
		t.Errorf("noise %v and %v, want %v and %v", first.Noise, second.Noise, one, 0.8*one)
	}
	// A direction of 65 noisy coordinates, mostly noise: within a factor of 3 of its energy, falsely
	// refused with a probability below 1e-9 (χ² of 65 degrees).
	if first.Norm2 < one/3 {
		t.Errorf("‖d‖² = %v below its noise's %v", first.Norm2, one)
	}
}
