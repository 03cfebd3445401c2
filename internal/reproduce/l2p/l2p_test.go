package l2p

import (
	"fmt"
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
	"github.com/privgrad/privgrad/internal/linesearch"
	"github.com/privgrad/privgrad/internal/meta"
	"github.com/privgrad/privgrad/internal/reproduce"
	"github.com/privgrad/privgrad/internal/reproduce/l2p/memory"
	"github.com/privgrad/privgrad/internal/reproduce/reproducetest"
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
	o := reproducetest.Tiny(t)
	o.Protector = madeProtector(t)
	kept := fig6Quick
	t.Cleanup(func() { fig6Quick = kept })
	fig6Quick = kept[:1]
	for _, f := range []reproduce.Figure{fig8, fig6} {
		s := reproducetest.Run(t, f, o)
		records := reproducetest.CheckOutputs(t, f, s, reproduce.QuickLabel)
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
		page := reproducetest.Read(t, s.Markdown)
		for _, text := range []string{"outside the range that the protector was trained for", "is tuned without privacy", "made"} {
			if !strings.Contains(page, text) {
				t.Errorf("%s: the page does not say %q", f.Name, text)
			}
		}
		if f.Name == fig6.Name {
			for _, family := range families {
				if !panels[family.panel] {
					t.Errorf("nothing about %s", family.panel)
				}
			}
			if again := reproducetest.Run(t, f, o); again.RunsNow != 0 || again.Runs != s.Runs {
				t.Errorf("started again: %d runs now, %d in all", again.RunsNow, again.Runs)
			}
		}
	}
}

// Another protector's runs are others, by its weights and not by its path.
func TestProtectorIsInTheFingerprint(t *testing.T) {
	e := &reproduce.Env{Options: reproduce.Options{Quick: true, Work: 0.003, Seeds: 1}}
	settings := func(change func(p *l2p.Protector)) (all []string) {
		p, err := l2p.Read(madeProtector(t))
		if err != nil {
			t.Fatal(err)
		}
		change(p)
		e.Learned = reproduce.NewProtection(p)
		jobs, err := planFig8(e)
		if err != nil {
			t.Fatal(err)
		}
		for i := range jobs {
			if err := jobs[i].Identify(); err != nil {
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
	o := reproducetest.Tiny(t)
	o.Protector = filepath.Join(t.TempDir(), "none.safetensors")
	if _, err := fig8.Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "--protector") {
		t.Errorf("a file that is not there: %v", err)
	}
	table := memory.Table(hong)
	if _, err := table.Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "of no protector") {
		t.Errorf("a figure without a protector takes one: %v", err)
	}
}

// Where the noise is little, DP-AGD ends near the least loss, and where it is much it
// spends no more than it has.
func TestDescentBySearches(t *testing.T) {
	task, seed := problem(fixedStart, 1, 0)
	at := least(task)
	bottom := task.Loss(at[:], nil)
	moves := func(epsilon float64) ([]meta.Point, error) {
		run, err := agdPlan{iterations: 20, bound: 100}.prepare(epsilon)
		if err != nil {
			return nil, err
		}
		return run(task, seed)
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
	drawn, _ := problem(fixedStart, 1, 0)
	task := drawn.(lossTask)
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
		var err error
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
	task, _ := problem(randomStart, 3, 4)
	at, g := least(task), make([]float64, 2)
	if task.Loss(at[:], g); math.Hypot(g[0], g[1]) > 1e-12 {
		t.Errorf("the gradient at %v is %v", at, g)
	}
}

// The noise of advanced composition spends ε and δ by the theorems' own formulas.
func TestAdvancedComposition(t *testing.T) {
	for _, steps := range []int{1, 10, 60} {
		for _, q := range []float64{1, 0.1} {
			const epsilon, delta = 0.2, 1e-8
			each := math.Sqrt(2*math.Log(1.25*q/(delta/2/float64(steps)))) / advanced(epsilon, delta, steps, q)
			if each > 1 {
				t.Fatalf("classical noise at ε₀ = %v", each)
			}
			each = math.Log(1 + q*(math.Exp(each)-1))
			total := math.Sqrt(2*float64(steps)*math.Log(1/(delta/2)))*each + float64(steps)*each*(math.Exp(each)-1)
			if math.Abs(total-epsilon) > 1e-9 {
				t.Errorf("%d steps at q = %v spend %v", steps, q, total)
			}
		}
	}
	// Beyond ε₀ = 1 classical noise is not proved: more budget buys no less.
	if a, b := advanced(50, 1e-8, 1, 0.1), advanced(80, 1e-8, 1, 0.1); a != b {
		t.Errorf("noise %v and %v", a, b)
	}
}

func TestAtLeast(t *testing.T) {
	for verdict, d := range map[string]reproduce.Estimate{
		reproduce.Agrees: {Mean: 0.02, Err: 0.005, N: 10}, reproduce.Contradicts: {Mean: -0.02, Err: 0.005, N: 10}, reproduce.Undecided: {Mean: 0.001, Err: 0.005, N: 10}, reproduce.Unmeasured: {},
	} {
		if c := atLeast("x", d); c.Verdict != verdict {
			t.Errorf("%+v is judged %s, want %s", d, c.Verdict, verdict)
		}
	}
}

// digitsSource has the shape of MNIST.
func digitsSource(t *testing.T, o *reproduce.Options) {
	t.Helper()
	set := reproducetest.Images(5200) // a pair has 1,040, and batches 1,024
	set.Name = "mnist"
	o.Sources["mnist"] = train.Source{BuiltIn: true, Open: func(string) (*datasets.Set, error) { return set, nil }}
	e, m, s, r := pairsEpsilons, mnist35Epsilons, quickSteps, quickRates
	t.Cleanup(func() { pairsEpsilons, mnist35Epsilons, quickSteps, quickRates = e, m, s, r })
	pairsEpsilons, mnist35Epsilons, quickSteps, quickRates = []float64{0.2}, []float64{0.2, 1}, []int{2, 3}, []float64{0.5}
}

// tinyCensus is a table in the form of IPUMS-BR, in a data directory.
func tinyCensus(t *testing.T, o *reproduce.Options) {
	t.Helper()
	var b strings.Builder
	r := rand.New(rand.NewPCG(5, 6))
	for range 400 {
		label := r.IntN(2)
		for range 52 {
			fmt.Fprintf(&b, "%.2f ", 0.5*r.Float64()+0.5*float64(label))
		}
		fmt.Fprintln(&b, label)
	}
	o.DataDir = t.TempDir()
	if err := os.WriteFile(filepath.Join(o.DataDir, "IPUMS-BR.dat"), []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestFiguresOnPairs(t *testing.T) {
	for _, f := range []reproduce.Figure{mnist35, fig3} {
		t.Run(f.Name, func(t *testing.T) { checkComparison(t, f) })
	}
}

func TestLongFiguresOnPairs(t *testing.T) { checkComparison(t, fig7) }

func checkComparison(t *testing.T, f reproduce.Figure) {
	o := reproducetest.Tiny(t)
	digitsSource(t, &o)
	o.Protector = madeProtector(t, l2p.Public{Data: "mnist", Classes: []int{3, 8}})
	others, panels := []string{advancedLine, agdLine}, []string{"MNIST 3 against 5"}
	if f.Name != mnist35.Name {
		others, panels = convex, append(panels, "MNIST 5 against 6", ipumsBR) // 3 against 8 trained the protector
		tinyCensus(t, &o)
	}
	s := reproducetest.Run(t, f, o)
	records := reproducetest.CheckOutputs(t, f, s, reproduce.QuickLabel)
	for _, r := range records {
		panel, isTuning := strings.CutPrefix(r.Panel, "tuning, ")
		if isTuning != slices.Contains(tuningSeeds, r.Seed) || !slices.Contains(panels, panel) {
			t.Errorf("a run on %s of seed %d", r.Panel, r.Seed)
		}
		if r.Note == "" && (r.Epsilon == nil || *r.Epsilon > r.X || r.TestAccuracy == nil || r.TrainLoss == nil) {
			t.Errorf("%s, %s at %v: ε %v, accuracy %v, loss %v", r.Panel, r.Series, r.X, r.Epsilon, r.TestAccuracy, r.TrainLoss)
		}
		if r.Series == learnedLine && strings.Contains(r.NoGuarantee, "made was trained on records of mnist") != (r.Panel == panels[0]) {
			t.Errorf("a run on %s is no guarantee because %q", r.Panel, r.NoGuarantee)
		}
		if r.Series == projectorLine && r.Step != 4 {
			t.Errorf("the projector alone made %d steps of 4", r.Step)
		}
	}
	for _, panel := range panels {
		for _, series := range append(others, learnedLine, projectorLine, tunedLine) {
			if len(records.Of(panel, series)) == 0 {
				t.Errorf("%s: no run of %s on %s", f.Name, series, panel)
			}
		}
	}
}

// Protectors that a figure needs are learned once, also where the figure is planned again, and their runs are
// known by what was learned from.
func TestLessons(t *testing.T) {
	o := reproducetest.Tiny(t)
	digitsSource(t, &o)
	kept := [2][]float64{auxiliaryEpsilons, scheduleEpsilons}
	t.Cleanup(func() { auxiliaryEpsilons, scheduleEpsilons = kept[0], kept[1] })
	auxiliaryEpsilons, scheduleEpsilons = []float64{0.4}, []float64{0.4}
	for _, f := range []reproduce.Figure{fig4, images} {
		s := reproducetest.Run(t, f, o)
		records := reproducetest.CheckOutputs(t, f, s, reproduce.QuickLabel)
		names := []string{tunedLine, learnedLine, projectorLine}
		if f.Name == fig4.Name {
			names = []string{tunedLine}
			for _, pair := range auxiliary {
				names = append(names, auxiliaryLine(pair))
			}
			if page := reproducetest.Read(t, s.Markdown); !strings.Contains(page, "Distance of the pairs") {
				t.Error("the page does not say how alike the pairs are")
			}
		}
		for _, series := range names {
			if len(records.Of("MNIST 3 against 5", series)) != 1 {
				t.Errorf("%s: %d records of %s", f.Name, len(records.Of("MNIST 3 against 5", series)), series)
			}
		}
		if again := reproducetest.Run(t, f, o); again.RunsNow != 0 {
			t.Errorf("%s: started again, it makes %d runs", f.Name, again.RunsNow)
		}
	}
	e := &reproduce.Env{Options: o}
	one, same, other := digitLesson(e, []int{4, 6}, short), digitLesson(e, []int{4, 6}, short), digitLesson(e, []int{1, 7}, short)
	if one.lesson != same.lesson || one.lesson == other.lesson || one.lesson.What == one.alone(e).lesson.What {
		t.Error("lessons are mixed up")
	}
}

// A constant noise and a census have other settings than what they come from.
func TestCensusLesson(t *testing.T) {
	o := reproducetest.Tiny(t)
	e := &reproduce.Env{Options: o}
	taught := censusLesson(e, "svm", 1e-3)
	whole, err := taught.lesson.Protection(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	alone, err := taught.alone(e).lesson.Protection(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !whole.Adapts() || alone.Adapts() || !slices.Equal(whole.Projector, alone.Projector) || len(whole.Card.Public) != 0 {
		t.Errorf("the lesson adapts: %t, its projector alone: %t; public data %v", whole.Adapts(), alone.Adapts(), whole.Card.Public)
	}
}

// The setting with the best mean of the tuning is taken, of the line that is tuned.
func TestChosenSetting(t *testing.T) {
	e := &reproduce.Env{Options: reproduce.Options{Quick: true}}
	var all reproduce.Records
	settings := grid(e, tunedLine)
	for i, s := range settings {
		for seed, a := range []float64{0.5 + 0.01*float64(i), 0.5 - 0.02*float64(i*i)} {
			all = append(all, reproduce.Record{Panel: tuningPanel("p"), Series: tunedLine, Setting: s.String(), X: 0.2, Seed: seed, Final: true, TestAccuracy: new(a)})
		}
	}
	if s, ok := tuned(e, all, "p", tunedLine, 0.2); !ok || s != settings[0] {
		t.Errorf("chose %v", s)
	}
	all[4].TestAccuracy = new(0.99)
	if s, ok := tuned(e, all, "p", tunedLine, 0.2); !ok || s != settings[2] {
		t.Errorf("chose %v", s)
	}
	if _, ok := tuned(e, all, "p", tunedLine, 0.4); ok {
		t.Error("chose where there are no runs")
	}
	if _, ok := tuned(e, all, "p", advancedLine, 0.2); ok {
		t.Error("chose by another line's runs")
	}
	e.Quick = false
	for _, s := range grid(e, advancedLine) {
		if s.steps > mostAdvanced {
			t.Errorf("advanced composition has %d steps", s.steps)
		}
	}
}

// A query is a gradient, or a search, whose losses are counted one by one.
func TestQueries(t *testing.T) {
	if n := *asked(&reproduce.Record{Step: 60}); n != 60 {
		t.Errorf("60 steps ask %v times", n)
	}
	if n := *asked(&reproduce.Record{Step: 9, Gradients: new(12.0), Objectives: new(10.0 * searched)}); n != 22 {
		t.Errorf("12 gradients and 10 searches ask %v times", n)
	}
}
