package pur

import (
	"context"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/internal/reproduce"
	"github.com/privgrad/privgrad/internal/reproduce/reproducetest"
)

// made is a task of few records, with a column that is constant.
func made(records int) *task {
	return &task{panel: "made", most: 5, open: func(*reproduce.Env) (*table, error) {
		r := rand.New(rand.NewPCG(1, 1))
		var x []float32
		var y []uint8
		for i := range records {
			y = append(y, uint8(i%2))
			x = append(x, float32(r.NormFloat64())+float32(i%2), 3*float32(r.NormFloat64()), 7)
		}
		return newTable(x, y), nil
	}, published: map[float64][2]float64{0.1: {0.5, 0.6}, 20: {0.4, 0.4}}}
}

func rows(t *testing.T, of *task) *table {
	t.Helper()
	all, err := of.open(&reproduce.Env{})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestStandardized(t *testing.T) {
	all := rows(t, made(200))
	for k := range 3 {
		var column []float64
		all.rows(func(_ int, row []float32) { column = append(column, float64(row[k])) })
		mean, sd := stat.PopMeanStdDev(column, nil)
		want := 1.0
		if k == 2 {
			want = 0
		}
		if math.Abs(mean) > 1e-6 || math.Abs(sd-want) > 1e-6 {
			t.Errorf("column %d has mean %v and deviation %v", k, mean, sd)
		}
	}
}

// The gradient is that of F by central differences, and F by the formula in the paper.
func TestRisk(t *testing.T) {
	p := problem{rows(t, made(50)), 1.5, 0.3}
	theta, g := []float64{0.4, -1.1, 0.2}, make([]float64, 3)
	got := p.risk(theta, g)
	direct := func(theta []float64) float64 {
		sum := 0.0
		p.rows(func(i int, row []float32) {
			scale, z := min(1, p.z/p.norms[i]), 0.0
			for k, v := range row {
				z += float64(v) * scale * theta[k]
			}
			sum += math.Log(1 + math.Exp(-(2*float64(p.y[i])-1)*z))
		})
		square := theta[0]*theta[0] + theta[1]*theta[1] + theta[2]*theta[2]
		return sum/50 + p.lambda/2*square
	}
	if want := direct(theta); math.Abs(got-want) > 1e-12 {
		t.Errorf("F is %v, want %v", got, want)
	}
	for k := range theta {
		const h = 1e-5
		at := slices.Clone(theta)
		at[k] += h
		up := direct(at)
		at[k] -= 2 * h
		if want := (up - direct(at)) / (2 * h); math.Abs(g[k]-want) > 1e-8 {
			t.Errorf("coordinate %d of the gradient is %v, want %v", k, g[k], want)
		}
	}
}

// At the optimum the gradient is zero, and no other point has less risk; the oracle ends between
// it and θ = 0.
func TestOptimumAndOracle(t *testing.T) {
	p := problem{rows(t, made(2000)), 2, 0.1}
	last := func(j reproduce.Job) reproduce.Record {
		rs, err := j.Make(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		return rs[len(rs)-1]
	}
	least := last(p.optimum("made", "made"))
	if *least.GradientNorm > tolerance {
		t.Errorf("the gradient's norm is %v at the optimum", *least.GradientNorm)
	}
	rich, poor := last(p.oracle("made", "made", 20, 5, 1000, 1)), last(p.oracle("made", "made", 0.1, 1e-12, 1000, 1))
	if poor.Step != 0 || math.Abs(*poor.TrainLoss-math.Ln2) > 1e-12 {
		t.Errorf("without a budget the oracle makes %d steps, to %v", poor.Step, *poor.TrainLoss)
	}
	if f := *rich.TrainLoss; rich.Step < 2 || f < *least.TrainLoss || f > *least.TrainLoss+0.1*(math.Ln2-*least.TrainLoss) {
		t.Errorf("the oracle comes to %v in %d steps, the optimum is %v", f, rich.Step, *least.TrainLoss)
	}
}

// The budget solves ε = ρ + 2·√(ρ·ln N).
func TestBudget(t *testing.T) {
	s := &setup{table: rows(t, made(150))}
	for _, epsilon := range []float64{1e-3, 0.1, 1, 20} {
		rho := s.budget(epsilon)
		if got := rho + 2*math.Sqrt(rho*math.Log(150)); math.Abs(got-epsilon) > 1e-12*epsilon {
			t.Errorf("ε = %v: ρ = %v costs %v", epsilon, rho, got)
		}
	}
}

func TestPrintedTable(t *testing.T) {
	if c := printedTable(); c.Found != "lower at 6, equal at 1, higher at 3 of 10" || c.Verdict != reproduce.Contradicts {
		t.Errorf("%+v", c)
	}
	if c := printedNothing(); strings.Count(c.Found, "ε = ") != 4 || c.Verdict != reproduce.Contradicts {
		t.Errorf("%+v", c)
	}
}

// A run is logistic regression without an intercept, on rows clipped to Z, with labels of the sign
// that the risk takes them for: without noise it is gradient descent in float64.
func TestRunsAreOfTheProblem(t *testing.T) {
	const steps, rate = 7, 0.5
	var p problem
	f := reproduce.Figure{
		Name: "f", Short: "f", Source: "f", Seeds: 1,
		Plan: func(e *reproduce.Env) ([]reproduce.Job, error) {
			s, err := made(60).setup(e, 1.5, 0.3)
			if err != nil {
				return nil, err
			}
			p = s.problem()
			j := s.run(line{series: "gd", optimizer: "sgd"}, 1, 1)
			c := &j.Config
			c.Epsilon, c.Delta, c.Neighbouring, c.Accountant = nil, nil, string(accountant.AddRemove), accountant.PLD
			c.SamplingRate, c.Steps, c.LR = new(1.0), new(steps), new(rate)
			return []reproduce.Job{j}, nil
		},
		Show: func(*reproduce.Env, reproduce.Records) reproduce.Page { return reproduce.Page{} },
	}
	s := reproducetest.Run(t, f, reproducetest.Tiny(t))
	rs, err := reproduce.ReadRecords(s.CSV)
	if err != nil {
		t.Fatal(err)
	}
	theta, g := make([]float64, 3), make([]float64, 3)
	for range steps {
		p.risk(theta, g)
		for k := range theta {
			theta[k] -= rate * g[k]
		}
	}
	want := p.risk(theta, g)
	got := rs[len(rs)-1]
	if math.Abs(*got.TrainLoss-want) > 1e-6 || *got.GradientNorm == 0 {
		t.Errorf("a run comes to %v, gradient descent to %v", *got.TrainLoss, want)
	}
}

// few leaves a figure little to do.
func few(t *testing.T, tasks ...*task) {
	t.Helper()
	all, epsilons, features := tableTasks, tableEpsilons, cifar
	t.Cleanup(func() { tableTasks, tableEpsilons, cifar = all, epsilons, features })
	tableTasks, tableEpsilons, cifar = tasks, []float64{20}, tasks[0]
}

func TestTable3(t *testing.T) {
	m := made(400)
	m.label = "made up"
	few(t, m, made(400))
	tableTasks[1].panel, tableTasks[1].slow = "slow", 5
	s := reproducetest.Run(t, table3, reproducetest.Tiny(t))
	// Two bounds on the norm, each with a line at one ε, the oracle and the optimum.
	if want := 2 * (len(tableLines) + 2); s.Runs != want {
		t.Errorf("%d runs, want %d", s.Runs, want)
	}
	if !slices.Contains(s.Skipped, "slow is left out of a quick run") {
		t.Errorf("skipped: %q", s.Skipped)
	}
	unpaid, least := 0, map[string]float64{}
	all := reproducetest.CheckOutputs(t, table3, s, reproduce.QuickLabel, relation, "made up")
	for _, r := range all {
		if r.Series == optimum {
			least[r.Panel] = *r.TrainLoss
		}
	}
	for _, r := range all {
		switch {
		case r.Note != "":
			unpaid++
		case r.TrainLoss == nil || r.GradientNorm == nil || *r.TrainLoss < least[r.Panel]-1e-12:
			t.Errorf("%s, %s: %+v", r.Panel, r.Series, r)
		case r.Step > m.most && r.Series != clippedGD && r.Series != noisyGD && r.Series != optimum:
			t.Errorf("%s makes %d steps", r.Series, r.Step)
		}
	}
	if unpaid == 0 || unpaid == s.Runs {
		t.Errorf("%d of %d runs were not paid for", unpaid, s.Runs) // σ = 0.001 never is
	}
	page := reproducetest.Read(t, s.Markdown)
	for _, text := range []string{"| published: PUR | 0.4000 |", "| θ = 0 | 0.6931 |", "(σ = "} {
		if !strings.Contains(page, text) {
			t.Errorf("the page does not say %q", text)
		}
	}
}

func TestCurves(t *testing.T) {
	f := curves("f", "f", "f", []*task{made(400)})
	kept := curveEpsilons
	t.Cleanup(func() { curveEpsilons = kept })
	curveEpsilons = []float64{5, 20}
	s := reproducetest.Run(t, f, reproducetest.Tiny(t))
	// With and without a regularizer, at two bounds on the norm; an optimum has only the first.
	if want := 2 * (2*2*(len(schedules)+len(sigmas)+1) + 1); s.Runs != want {
		t.Errorf("%d runs, want %d", s.Runs, want)
	}
	reproducetest.CheckOutputs(t, f, s, reproduce.QuickLabel, relation)
}

// A best constant is the one of the least mean, and what it leaves open are its own runs.
func TestBestConstant(t *testing.T) {
	var rs reproduce.Records
	for seed := 1; seed <= 3; seed++ {
		for series, loss := range map[string]float64{constant(0.1): 0.5 + 0.01*float64(seed), constant(1): 0.6, printed: 0.4 + 0.1*float64(seed)} {
			rs = append(rs, reproduce.Record{Panel: "p", Series: series, X: 1, Seed: seed, Final: true, TrainLoss: &loss})
		}
	}
	v := viewOf(rs)
	if got := v.Mean("p", best, 1, reproduce.Objective); math.Abs(got.Mean-0.52) > 1e-12 || got.N != 3 {
		t.Errorf("the best constant has %+v", got)
	}
	want := []reproduce.Cell{{Panel: "p", Series: printed, X: 1}, {Panel: "p", Series: constant(0.1), X: 1}}
	if got := v.asGood([]string{"p"}, []float64{1}, "", nil).Open; !slices.Equal(got, want) {
		t.Errorf("open: %v", got)
	}
	if got := v.compare([]string{"p"}, []float64{1}, constant(1), zero, nil); got.above != 1 || got.open != nil {
		t.Errorf("0.6 against θ = 0: %+v", got)
	}
	if got := v.compare([]string{"p"}, []float64{1}, constant(1), zero, func(string, float64) float64 { return 1e-9 }); got.open != nil {
		t.Errorf("three equal figures are open: %+v", got)
	}
}

func TestData(t *testing.T) {
	anomalies := 0
	stand := rows(t, kdd)
	for _, y := range stand.y {
		anomalies += int(y)
	}
	// 210 are expected of 70,000, with a deviation of 14.5; the records are the same in every run.
	if len(stand.y) != 70_000 || stand.d != 4 || anomalies < 150 || anomalies > 270 {
		t.Errorf("the stand-in has %d records of %d columns, %d of them anomalies", len(stand.y), stand.d, anomalies)
	}
	// Of 10,000 labels 1,000 are expected to be wrong, with a deviation of 30.
	flipped, s := 0, rows(t, synthetic)
	s.rows(func(i int, row []float32) {
		if (row[0]+row[1] > 0) != (s.y[i] == 1) {
			flipped++
		}
	})
	if len(s.y) != 10_000 || flipped < 800 || flipped > 1200 {
		t.Errorf("%d of %d labels are flipped", flipped, len(s.y))
	}

	dir := t.TempDir()
	text := "3,4,setosa,versicolor,virginica\n5.1,3.5,1.4,0.2,0\n7,3.2,4.7,1.4,1\n6.3,3.3,6,2.5,2\n"
	if err := os.WriteFile(filepath.Join(dir, "iris.csv"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	e := &reproduce.Env{Options: reproduce.Options{DataDir: dir}}
	all, err := iris.open(e)
	if err != nil {
		t.Fatal(err)
	}
	if len(all.y) != 3 || all.d != 4 || all.y[0]+all.y[1]+all.y[2] != 1 {
		t.Errorf("iris has %d records of %d columns, labels %v", len(all.y), all.d, all.y)
	}
	if missing, err := cancer.open(e); missing != nil || err != nil {
		t.Errorf("a missing file: %v, %v", missing, err)
	}
}
