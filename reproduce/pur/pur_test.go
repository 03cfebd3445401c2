package pur

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat"

	"github.com/privgrad/privgrad/reproduce"
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
