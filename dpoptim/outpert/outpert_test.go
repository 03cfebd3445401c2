package outpert

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/internal/convex"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/papers"
	"github.com/privgrad/privgrad/perexample"
)

const records = 5000

// logistic is a model of 20 features and an intercept.
func logistic(t *testing.T) *convex.Model { t.Helper(); return linear(t, ir.Logistic, 1) }

func linear(t *testing.T, loss ir.Loss, outputs int) *convex.Model {
	t.Helper()
	m, err := convex.Of(&ir.Program{
		Name: "linear", Shape: []int{20}, Loss: loss,
		Params: []ir.Param{{Name: "w", Shape: []int{outputs, 20}}, {Name: "b", Shape: []int{outputs}, Offset: 20 * outputs}},
		Ops:    []ir.Op{{Kind: ir.Dense, In: []ir.Value{ir.Input}, Shape: []int{20}, Out: []int{outputs}, Bias: 1}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// declared is the release of a method with settings that change makes of ε = 1 at δ = 1e-5, and those settings.
func declared(t *testing.T, name string, m *convex.Model, own Settings, delta *float64, change func(*dpoptim.Settings)) (dpoptim.Release, dpoptim.Settings) {
	t.Helper()
	epsilon, norm := 1.0, 2.0
	c := dpoptim.Settings{
		Epsilon: &epsilon, Delta: delta, FeatureNorm: &norm, Neighbouring: string(accountant.ReplaceOne),
		Clipping: string(perexample.Flat), LRSchedule: dpoptim.Constant, Noise: dpoptim.Secure,
	}
	change(&c)
	method := New(name, own, delta)
	c, err := method.Check(c)
	if err != nil {
		t.Fatal(err)
	}
	if c, _, err = method.Complete(c, dpoptim.Network{Layers: 1, Params: m.Params(), Records: records, Linear: m}); err != nil {
		t.Fatal(err)
	}
	d, err := method.Declare(c, dpoptim.Facts{Records: records, Linear: m, FeatureNorm: norm, L2: c.L2, Params: m.Params()})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Check(method.Traits(), accountant.GDP); err != nil {
		t.Fatal(err)
	}
	ask := d.Asks[0]
	if ordered := method.Traits().Draws().Ordered; ordered != (name == RSGD) {
		t.Errorf("%s: in a random order %v", name, ordered)
	}
	if ask.At != nil {
		r, err := ask.At(0)
		if err != nil {
			t.Fatal(err)
		}
		return r, c
	}
	r, err := ask.Release(3)
	if err != nil {
		t.Fatal(err)
	}
	return r, c
}

// The bound is the sensitivity of the declared descent, for a record that is there or not, and a little
// more for rounding. L of logistic regression at a norm of 2 with an intercept is √5.
func TestBounds(t *testing.T) {
	lipschitz := math.Sqrt(5)
	near := func(what string, got, want float64) {
		t.Helper()
		if !(got > want) || got > want*(1+1e-6) {
			t.Errorf("%s: the bound is %v, the sensitivity %v", what, got, want)
		}
	}
	r, c := declared(t, GD, logistic(t), Settings{}, nil, func(c *dpoptim.Settings) {})
	near("gd", r.Bound, lipschitz**c.LR*float64(*c.Steps)/records)
	r, c = declared(t, GD, logistic(t), Settings{}, nil, func(c *dpoptim.Settings) { c.L2 = 0.1 })
	near("gd with a penalty", r.Bound, lipschitz/(records*0.1)*(1-math.Pow(1-*c.LR*0.1, float64(*c.Steps))))
	r, c = declared(t, RSGD, logistic(t), Settings{}, nil, func(c *dpoptim.Settings) {})
	near("rsgd", r.Bound, 10*lipschitz**c.LR/50)
	r, c = declared(t, RSGD, logistic(t), Settings{Average: true}, nil, func(c *dpoptim.Settings) {})
	near("average", r.Bound, 11*lipschitz**c.LR/100)
	r, c = declared(t, RSGD, logistic(t), Settings{}, nil, func(c *dpoptim.Settings) { c.L2 = 0.1 })
	near("rsgd with a penalty", r.Bound, lipschitz/(0.1*records))
	if c.LR != nil || *c.Epochs != 10 || *c.Batch != 50 {
		t.Errorf("the settings are %+v", c)
	}
}

// The relation decides which ε a record's presence costs, and the published form has the noise of its paper.
func TestNoise(t *testing.T) {
	nothing := 0.0
	for relation, want := range map[accountant.Neighbouring]float64{accountant.AddRemove: 1, accountant.ReplaceOne: 0.5} {
		r, _ := declared(t, GD, logistic(t), Settings{}, &nothing, func(c *dpoptim.Settings) { c.Neighbouring = string(relation) })
		if r.Noise != accountant.Mechanism(accountant.Pure{Epsilon: want}) {
			t.Errorf("%s: %v", relation, r.Noise)
		}
	}
	if r, _ := declared(t, GD, logistic(t), Settings{}, nil, func(*dpoptim.Settings) {}); r.Noise != accountant.Mechanism(accountant.Gaussian{NoiseMultiplier: 3}) {
		t.Errorf("a planned multiplier of 3 is declared as %v", r.Noise)
	}
	for _, mu := range []float64{0, 0.1} {
		delta := 1e-5
		for _, d := range []*float64{&delta, &nothing} {
			r, c := declared(t, GD, logistic(t), Settings{Form: Paper}, d, func(c *dpoptim.Settings) { c.L2 = mu })
			beta, n := 5.0/4+mu, float64(records)
			sensitivity := 3 * math.Sqrt(5) * *c.LR * float64(*c.Steps) / n
			if mu > 0 {
				sensitivity = 5 * math.Sqrt(5) * (mu + beta) / (n * mu * beta)
			}
			var got, want float64
			switch noise := r.Noise.(type) {
			case accountant.Gaussian:
				got, want = noise.NoiseMultiplier*r.Bound, sensitivity*math.Sqrt(2*math.Log(2/delta))
			case accountant.Pure:
				got, want = r.Bound/noise.Epsilon, sensitivity
			}
			if math.Abs(got/want-1) > 1e-12 {
				t.Errorf("μ = %v, δ = %v: the noise has scale %v, the paper's %v", mu, *d, got, want)
			}
			want = papers.Descent{Records: records, Steps: 1, Lipschitz: math.Sqrt(5), Smoothness: beta, StrongConvexity: mu, LearningRate: 1}.PaperSteps(1, *d, 2.5, 21)
			if float64(*c.Steps) != want || math.Abs(*c.LR*(beta+mu)-1) > 1e-12 {
				t.Errorf("μ = %v, δ = %v: %d steps at a rate of %v, the paper's %v", mu, *d, *c.Steps, *c.LR, want)
			}
		}
	}
}

// The planned number of steps is the best of its bound, and more steps are planned where ε is larger. The
// bound's noise does not grow with the number of parameters, and a regression's minimum is near.
func TestPlan(t *testing.T) {
	const square = 5 // of Z = 2 and an intercept
	for _, k := range []struct {
		loss                               ir.Loss
		outputs                            int
		distance, lipschitz, smooth, trace float64
	}{
		{ir.Logistic, 1, 2.5, 1, 0.25, 0.25},
		{ir.HuberHinge, 1, 2.5, 1, 1, 1},
		{ir.Huber, 1, 0.15, 1, 1, 1},
		{ir.SoftmaxCrossEntropy, 4, 2.5, math.Sqrt2, 0.5, 0.75},
	} {
		last, m := 0, linear(t, k.loss, k.outputs)
		for _, epsilon := range []float64{0.1, 1, 10} {
			_, c := declared(t, GD, m, Settings{}, nil, func(c *dpoptim.Settings) { c.Epsilon = &epsilon })
			// D²/(2ηT) + (τ/2)·σ² with σ = 2·(analytic Gaussian)·LηT/N, whose minimum has a closed form.
			sigma, err := papers.AnalyticGaussian(epsilon, 1e-5)
			if err != nil {
				t.Fatal(err)
			}
			rate := 1 / (k.smooth * square)
			per := 2 * sigma * k.lipschitz * math.Sqrt(square) * rate / records
			best := math.Cbrt(k.distance * k.distance / (2 * rate) / (k.trace * square * per * per))
			if got := float64(*c.Steps); math.Abs(got/best-1) > 0.03+1/best || *c.Steps <= last {
				t.Errorf("%v, ε = %v: %v steps, the best number is %v", k.loss, epsilon, got, best)
			}
			last = *c.Steps
		}
	}
}

// What is no linear model is refused with the reason.
func TestRefusesNetworks(t *testing.T) {
	for _, name := range []string{GD, RSGD} {
		_, _, err := New(name, Settings{}, nil).Complete(dpoptim.Settings{}, dpoptim.Network{Layers: 3, Why: errors.New("it bends")})
		if err == nil || !strings.Contains(err.Error(), "it bends") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
