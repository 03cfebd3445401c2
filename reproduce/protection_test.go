package reproduce

import (
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/dpoptim/l2p"
	"github.com/privgrad/privgrad/dpoptim/l2p/meta"
	"github.com/privgrad/privgrad/dpoptim/linesearch"
	"github.com/privgrad/privgrad/train"
)

// madeProtector writes one of random weights and gives its path.
func madeProtector(t *testing.T, public ...l2p.Public) string {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	part := l2p.Part{Kind: l2p.Learned, Layers: 1, Hidden: 3}
	p := &l2p.Protector{Card: l2p.Card{
		Format: l2p.Format, Name: "made", Summary: "of a test", Tasks: []string{"none"}, Public: append([]l2p.Public{}, public...),
		EpsilonRange: [2]float64{0.1, 2}, Delta: 1e-8, Neighbouring: "add-remove", Steps: 4, Scale: 0.05, Recipe: "none",
		Projector: part, Scheduler: part,
	}}
	for range part.LSTM(l2p.ProjectorContext).Weights() {
		p.Projector = append(p.Projector, float32(0.3*r.NormFloat64()))
	}
	for range part.LSTM(l2p.SchedulerContext).Weights() {
		p.Scheduler = append(p.Scheduler, float32(0.3*r.NormFloat64()))
	}
	path := filepath.Join(t.TempDir(), "made.safetensors")
	if err := p.Write(path); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestQuadraticFigures(t *testing.T) {
	o := tiny(t)
	o.Protector = madeProtector(t)
	kept := l2pQuick
	t.Cleanup(func() { l2pQuick = kept })
	l2pQuick = kept[:1]
	for _, f := range []Figure{l2pFig8, l2pFig6} {
		s := run(t, f, o)
		records := checkOutputs(t, s, quickLabel)
		runs, panels := map[string]int{}, map[string]bool{}
		for _, r := range records {
			panels[r.Panel] = true
			if r.TrainLoss == nil || r.Theta1 == nil || r.Theta2 == nil {
				t.Fatalf("%s, %s has no loss or no parameters", r.Panel, r.Series)
			}
			if r.Final && r.Panel == "ε = 0.05" {
				runs[r.Series]++
			}
			if (r.Epsilon == nil) != (r.Series == noiseFreeLine || r.Series == priorLine) {
				t.Errorf("%s has ε %v", r.Series, r.Epsilon)
			}
		}
		for _, l := range []string{learnedLine, projectorLine, tunedLine, agdLine, advancedLine, noiseFreeLine, priorLine} {
			if runs[l] != 3 {
				t.Errorf("%s: %s has %d runs", f.Name, l, runs[l])
			}
		}
		page := read(t, s.Markdown)
		for _, text := range []string{"outside the range that it was trained for", "is tuned without privacy", "made"} {
			if !strings.Contains(page, text) {
				t.Errorf("%s: the page does not say %q", f.Name, text)
			}
		}
		if f.Name == l2pFig6.Name {
			for _, family := range families() {
				if !panels[family.panel] {
					t.Errorf("nothing about %s", family.panel)
				}
			}
			if again := run(t, f, o); again.RunsNow != 0 || again.Runs != s.Runs {
				t.Errorf("started again: %d runs now, %d in all", again.RunsNow, again.Runs)
			}
		}
	}
}

// Another protector's runs are others, by its weights and not by its path.
func TestProtectorIsInTheFingerprint(t *testing.T) {
	e := &env{Options: Options{Quick: true, work: 0.003, Seeds: 1}}
	settings := func(change func(p *l2p.Protector)) (all []string) {
		p, err := l2p.Read(madeProtector(t))
		if err != nil {
			t.Fatal(err)
		}
		change(p)
		e.learned = newProtection(p)
		jobs, err := planL2PFig8(e)
		if err != nil {
			t.Fatal(err)
		}
		for i := range jobs {
			if err := jobs[i].identify(); err != nil {
				t.Fatal(err)
			}
			all = append(all, jobs[i].Settings)
		}
		return all
	}
	one := settings(func(*l2p.Protector) {})
	if same := settings(func(*l2p.Protector) {}); !slices.Equal(one, same) {
		t.Error("the same protector in another place has other fingerprints")
	}
	if other := settings(func(p *l2p.Protector) { p.Scheduler[3]++ }); other[0] == one[0] {
		t.Error("another protector has the same fingerprint")
	}
}

func TestFiguresAskForTheirProtector(t *testing.T) {
	o := tiny(t)
	o.Protector = filepath.Join(t.TempDir(), "none.safetensors")
	if _, err := l2pFig8.Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "--protector") {
		t.Errorf("a file that is not there: %v", err)
	}
	if _, err := rates.Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "of no protector") {
		t.Errorf("a figure without a protector takes one: %v", err)
	}
}

// Where the noise is little, DP-AGD ends near the least loss, and where it is much it
// spends no more than it has.
func TestDescentBySearches(t *testing.T) {
	task, seed, err := problem(fixedStart, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	at := least(task)
	bottom := task.Loss(at[:], nil)
	moves := func(epsilon float64) ([]meta.Point, error) {
		p := agdPlan{iterations: 20, bound: 100}
		plan := quadraticPlan(p.iterations)
		n, err := plan.Noise(epsilon)
		if err != nil {
			return nil, err
		}
		b := p.budgets(float64(plan.Steps) / (2 * n.Planned * n.Planned))
		order, err := p.order(b, plan)
		if err != nil {
			return nil, err
		}
		return p.run(plan, b, epsilon, order, task, seed)
	}
	for epsilon, within := range map[float64]float64{2000: 0.02, 0.1: math.Inf(1)} {
		all, err := moves(epsilon)
		if err != nil {
			t.Fatal(err)
		}
		if end := all[len(all)-1].Loss; !(end-bottom < within*bottom) {
			t.Errorf("ε = %v ends at %v after %d moves, the least is %v", epsilon, end, len(all)-1, bottom)
		}
		if len(all) < 2 || len(all) > 60 {
			t.Errorf("ε = %v makes %d moves, 20 are planned", epsilon, len(all)-1)
		}
	}
}

// Of two candidates whose sums of losses differ by d the better is told with probability
// 1 − e^(−d/β)/2, β = c/ε, as the difference of two exponential variables is Laplace.
func TestNoisyMinimumOfTwo(t *testing.T) {
	task, _, err := problem(fixedStart, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	plan := quadraticPlan(10)
	o := &agd{task: task, bound: 5, trials: 1, r: rand.New(rand.NewPCG(7, 8)), params: []float64{1, 1}, direction: []float64{1, 1}}
	here, there := task.ClippedLoss([]float64{1, 1}, 5), task.ClippedLoss([]float64{0.5, 0.5}, 5)
	const epsilon, draws = 0.1, 40_000
	want := 1 - math.Exp(-(here-there)*epsilon/5)/2
	if here-there < 5 || want > 0.95 {
		t.Fatalf("losses %v and %v test nothing", here, there)
	}
	moved := 0
	for range draws {
		if o.filter, err = accountant.NewFilter(5, plan.Delta, plan.Neighbouring, 20); err != nil {
			t.Fatal(err)
		}
		eta, err := o.Search(linesearch.Budgets{Search: epsilon}, 0.5, linesearch.Direction{})
		if err != nil {
			t.Fatal(err)
		}
		if eta > 0 {
			moved++
		}
	}
	// Six standard deviations: 2e-9.
	if got, tolerance := float64(moved)/draws, 6*math.Sqrt(want*(1-want)/draws); math.Abs(got-want) > tolerance {
		t.Errorf("the better of two is told in a share of %v, want %v ± %v", got, want, tolerance)
	}
}

func TestLeast(t *testing.T) {
	task, _, err := problem(randomStart, 3, 4)
	if err != nil {
		t.Fatal(err)
	}
	at, g := least(task), make([]float64, 2)
	if task.Loss(at[:], g); math.Hypot(g[0], g[1]) > 1e-12 {
		t.Errorf("the gradient at %v is %v", at, g)
	}
}

// The noise of advanced composition spends ε by the theorem's own formula.
func TestAdvancedComposition(t *testing.T) {
	for _, steps := range []int{1, 10, 60} {
		const epsilon, delta = 0.2, 1e-8
		each := math.Sqrt(2*math.Log(1.25/(delta/2/float64(steps)))) / advanced(epsilon, delta, steps)
		total := math.Sqrt(2*float64(steps)*math.Log(1/(delta/2)))*each + float64(steps)*each*(math.Exp(each)-1)
		if math.Abs(total-epsilon) > 1e-9 {
			t.Errorf("%d steps spend %v", steps, total)
		}
	}
}

func TestMedianOf(t *testing.T) {
	var values []float64
	for i := range 100 {
		values = append(values, float64(i+1))
	}
	// Of 100 fair coins fewer than 40 show heads with 0.0176, fewer than 41 with 0.0284.
	if m := medianOf(values); m.median != 50.5 || m.low != 40 || m.high != 61 {
		t.Errorf("of 1 to 100: %+v", m)
	}
	// Of six all show tails with 1/64, of five with 1/32.
	if m := medianOf(values[:6]); m.median != 3.5 || m.low != 1 || m.high != 6 {
		t.Errorf("of six: %+v", m)
	}
	if m := medianOf(values[:5]); m.median != 3 || !math.IsInf(m.low, -1) || !math.IsInf(m.high, 1) {
		t.Errorf("of five: %+v", m)
	}
}

func TestAtLeast(t *testing.T) {
	for verdict, d := range map[string]estimate{
		agrees: {0.02, 0.005, 10}, contradicts: {-0.02, 0.005, 10}, undecided: {0.001, 0.005, 10}, unmeasured: {},
	} {
		if c := atLeast("x", d); c.Verdict != verdict {
			t.Errorf("%+v is judged %s, want %s", d, c.Verdict, verdict)
		}
	}
}

// digitsSource has the shape of MNIST.
func digitsSource(t *testing.T, o *Options) {
	t.Helper()
	set := images(8000)
	set.Name = "mnist"
	o.Sources["mnist"] = train.Source{BuiltIn: true, Open: func(string) (*datasets.Set, error) { return set, nil }}
	e, s, r := pairsEpsilons, quickSteps, quickRates
	t.Cleanup(func() { pairsEpsilons, quickSteps, quickRates = e, s, r })
	pairsEpsilons, quickSteps, quickRates = []float64{0.2, 1}, []int{2, 3}, []float64{0.5}
}

func TestFiguresOnPairs(t *testing.T) {
	o := tiny(t)
	digitsSource(t, &o)
	o.Protector = madeProtector(t, l2p.Public{Data: "mnist", Classes: []int{3, 8}})
	for _, f := range []Figure{l2pMNIST35, l2pFig7} {
		s := run(t, f, o)
		records := checkOutputs(t, s, quickLabel)
		chosen := map[string]bool{}
		for _, r := range records {
			switch r.Panel {
			case "MNIST 3 against 5", "MNIST 5 against 6":
			case "tuning, MNIST 3 against 5", "tuning, MNIST 5 against 6":
				if r.Seed != tuningSeeds[0] {
					t.Errorf("a tuning run of seed %d", r.Seed)
				}
			default: // 3 against 8 trained the protector
				t.Errorf("%s: a run on %s", f.Name, r.Panel)
			}
			if r.Epsilon == nil || *r.Epsilon > r.X || r.TestAccuracy == nil || r.TrainLoss == nil {
				t.Errorf("%s, %s at %v: ε %v, accuracy %v, loss %v", r.Panel, r.Series, r.X, r.Epsilon, r.TestAccuracy, r.TrainLoss)
			}
			chosen[r.Series] = true
			if r.Series == learnedLine && strings.Contains(r.NoGuarantee, "made was trained on records of mnist") != (r.Panel == "MNIST 3 against 5") {
				t.Errorf("a run on %s is no guarantee because %q", r.Panel, r.NoGuarantee)
			}
			if r.Series == projectorLine && r.Step != 4 {
				t.Errorf("the projector alone made %d steps of 4", r.Step)
			}
		}
		for _, series := range []string{learnedLine, projectorLine, tunedLine, plainSGD} {
			if !chosen[series] {
				t.Errorf("%s: no run of %s", f.Name, series)
			}
		}
		if f.Name == l2pFig7.Name && !strings.Contains(read(t, s.Markdown), "IPUMS is left out") {
			t.Error("the page does not say that IPUMS is left out")
		}
	}
}

// The setting with the best mean of the tuning is taken.
func TestChosenSetting(t *testing.T) {
	e := &env{Options: Options{Quick: true}}
	var all table
	for i, s := range e.grid() {
		for seed, a := range []float64{0.5 + 0.01*float64(i), 0.5 - 0.02*float64(i*i)} {
			all = append(all, Record{Panel: tuningPanel("p"), Setting: s.String(), X: 0.2, Seed: seed, Final: true, TestAccuracy: ptr(a)})
		}
	}
	if s, ok := e.chosen(all, "p", 0.2); !ok || s != e.grid()[0] {
		t.Errorf("chose %v", s)
	}
	all[4].TestAccuracy = ptr(0.99)
	if s, ok := e.chosen(all, "p", 0.2); !ok || s != e.grid()[2] {
		t.Errorf("chose %v", s)
	}
	if _, ok := e.chosen(all, "p", 0.4); ok {
		t.Error("chose where there are no runs")
	}
}

func TestMemoryOfMetaTraining(t *testing.T) {
	o := tiny(t)
	o.work = 0.01 // unrolls of 40, 60 and 160
	o.Sources["fmnist"] = train.Source{BuiltIn: true, Open: func(string) (*datasets.Set, error) { return images(2000), nil }}
	s := run(t, l2pTable1, o)
	checkOutputs(t, s, quickLabel)
	for i, c := range s.Claims[:4] { // the fifth is of time
		if c.Verdict != agrees {
			t.Errorf("claim %d: %s (%s): %s", i, c.Claim, c.Found, c.Verdict)
		}
	}
}

// The gradient of the deep network against central differences, and its clipped sum
// against the definition.
func TestPerceptrons(t *testing.T) {
	f, err := newPerceptrons(images(2000))
	if err != nil {
		t.Fatal(err)
	}
	params, grad := make([]float64, f.Params()), make([]float64, f.Params())
	r := rand.New(rand.NewPCG(1, 2))
	f.Start(r, params)
	for i := range params {
		params[i] += 0.3 * r.NormFloat64()
	}
	f.Loss(params, grad)
	for i := range params {
		kept := params[i]
		var side [2]float64
		for k, h := range []float64{1e-5, -1e-5} {
			params[i] = kept + h
			side[k] = f.Loss(params, nil)
		}
		params[i] = kept
		if want := (side[0] - side[1]) / 2e-5; math.Abs(grad[i]-want) > 1e-7 {
			t.Errorf("parameter %d: %v, want %v", i, grad[i], want)
		}
	}
	const clip = 0.5
	want, got, one := make([]float64, len(params)), make([]float64, len(params)), make([]float64, len(params))
	for i := range 5 {
		f.ClippedSum(params, []int{i}, math.Inf(1), one)
		norm := math.Sqrt(inner(one, one))
		if i == 0 && norm < clip {
			t.Fatalf("a gradient of norm %v: the case tests nothing", norm)
		}
		for k, v := range one {
			want[k] += v * min(1, clip/norm)
		}
	}
	f.ClippedSum(params, []int{0, 1, 2, 3, 4}, clip, got)
	for k := range got {
		if math.Abs(got[k]-want[k]) > 1e-12 {
			t.Fatalf("coordinate %d: %v, want %v", k, got[k], want[k])
		}
	}
}

// A file from before a column was added is read.
func TestOlderFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.csv")
	if err := os.WriteFile(path, []byte("panel,seed,settings\np,3,ff\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err := readRecords(path); err != nil || len(got) != 1 || got[0].Panel != "p" || got[0].Seed != 3 || got[0].Settings != "ff" {
		t.Errorf("read %+v: %v", got, err)
	}
}
