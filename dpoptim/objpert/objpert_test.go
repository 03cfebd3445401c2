package objpert

import (
	"math"
	"testing"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/internal/convex"
	"github.com/privgrad/privgrad/internal/ir"
)

// linear is a model of one output with an intercept, on four features.
func linear(t *testing.T, loss ir.Loss) *convex.Model {
	t.Helper()
	m, err := convex.Of(&ir.Program{
		Name: "linear", Shape: []int{4}, Loss: loss,
		Params: []ir.Param{{Name: "w", Shape: []int{1, 4}}, {Name: "b", Shape: []int{1}, Offset: 4}},
		Ops:    []ir.Op{{Kind: ir.Dense, In: []ir.Value{ir.Input}, Shape: []int{4}, Out: []int{1}, Bias: 1}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// What is declared follows from public figures: L and β of the features' norm, Λ of --l2 or of the noise, and a
// distance that the solver keeps.
func TestDeclaration(t *testing.T) {
	const norm, records = 2, 1000
	z2 := norm*norm + 1.0 // with the intercept
	for _, v := range []struct {
		loss  ir.Loss
		l2    float64
		beta  float64
		sided bool
		want  float64 // Λ; 0: planned
	}{
		{ir.Logistic, 0.3, z2 / 4, false, 300},
		{ir.HuberHinge, 0.3, z2, false, 300},
		{ir.Huber, 0.3, z2, true, 300},
		{ir.Logistic, 1e-9, z2 / 4, false, z2 / 4 / math.Expm1(0.25)},
		{ir.Logistic, 0, z2 / 4, false, 0},
	} {
		c := dpoptim.Settings{L2: v.l2, Epsilon: new(1.0), Delta: new(1e-6), FeatureNorm: new(float64(norm)), Neighbouring: string(accountant.ReplaceOne)}
		f := dpoptim.Facts{Records: records, Linear: linear(t, v.loss), L2: v.l2}
		m := New(Settings{})
		d, err := m.Declare(c, f)
		if err != nil {
			t.Fatal(err)
		}
		r, err := d.Asks[0].Release(10)
		if err != nil {
			t.Fatal(err)
		}
		e := r.Noise.(accountant.ObjectivePerturbation)
		if v.want == 0 {
			// √d·L·σ/10 is where Λ/2·10² and d·(σL)²/(2Λ) are equal; σ is 2·4.7 or so, for ¾ of ε = 1 at δ = 1e-6.
			v.want = v.beta / e.Curvature
			if sigma := v.want * 10 / math.Sqrt(5*z2); sigma < 10 || sigma > 14 {
				t.Errorf("a planned Λ of %v", v.want)
			}
		}
		if math.Abs(r.Bound-math.Sqrt(z2)) > 1e-12 || math.Abs(e.Curvature*v.want/v.beta-1) > 1e-12 || e.TwoSided != v.sided || e.NoiseMultiplier != 10 || e.OutputMultiplier != 160 {
			t.Errorf("%v, λ %v: %+v, Λ %v", v.loss, v.l2, r, v.beta/e.Curvature)
		}
		if s := m.problem.minimum(10); s.Within != r.Within || s.Records != records || math.Abs(s.Regularization*e.Curvature/v.beta-1) > 1e-12 {
			t.Errorf("%v, λ %v: the solver is %+v, declared %+v", v.loss, v.l2, s, r)
		}
	}
}
