package papers

import (
	"math"
	"slices"
	"strings"
	"testing"
)

func TestGoldenCtCDP(t *testing.T) {
	var all []struct {
		Eps, Delta, Q float64
		T             int
		A             float64
		Omega         float64 `json:"omega_a"`
		Total         float64 `json:"rho_a"`
		Alternative   float64 `json:"rho_a_alt"`
		Step          float64 `json:"rho0"`
		Limit         float64 `json:"rho_ub_eq10"`
		Equation9     bool    `json:"eq9"`
		Valid         bool
		Ratio         float64 `json:"noise_mult"` // σ/Δ of a step at ρ_0
	}
	golden(t, "ctcdp.json", &all)
	valid := 0
	for _, v := range all {
		c := must(NewCtCDP(v.Eps, v.Delta, v.Q, v.T))(t)
		near(t, "a", c.A, v.A, 1e-12)
		near(t, "omega_a", c.Omega, v.Omega, 1e-12)
		near(t, "rho_a", c.Total, v.Total, 1e-9)
		near(t, "rho_a by equation 12", c.Total, v.Alternative, 1e-9)
		near(t, "rho_0", c.Step, v.Step, 1e-9)
		near(t, "rho_ub", c.Limit, v.Limit, 1e-12)
		if c.Valid() != v.Valid || c.Constraints[2].Holds != v.Equation9 {
			t.Errorf("ε %v, T %d: valid %t, equation 9 %t; want %t, %t: %v", v.Eps, v.T, c.Valid(), c.Constraints[2].Holds, v.Valid, v.Equation9, c.Constraints)
		}
		back, err := CtCDPEpsilon([]Steps{{c.Step, v.T}}, v.Q, v.Delta)
		if !v.Valid {
			if err == nil {
				t.Errorf("ε %v, T %d: an invalid schedule costs %v", v.Eps, v.T, back)
			}
			continue
		}
		valid++
		if err != nil {
			t.Fatal(err)
		}
		near(t, "epsilon of the whole schedule", back, v.Eps, 1e-9)
		near(t, "rho of one step", 1/(2*v.Ratio*v.Ratio), v.Step, 1e-9)
	}
	if valid == 0 || valid == len(all) {
		t.Errorf("%d of %d vectors are valid", valid, len(all))
	}
}

// Each constraint can be the only one that fails.
func TestCtCDPConstraints(t *testing.T) {
	for _, c := range []struct {
		epsilon, delta, q float64
		steps             int
		broken            []int // places in Constraints
	}{
		{0.8, 1e-8, 0.01, 400, nil},
		{0.8, 1e-8, 0.11, 400, []int{1}},
		{0.8, 1e-8, 0.01, 300, nil},
		{0.8, 1e-8, 0.01, 200, []int{3}},      // ρ_0 = 0.033 ≥ ρ_ub = 0.024
		{40, 1e-8, 0.01, 56900, []int{0}},     // ρ_0 = 0.102: little above the limit of 0.1
		{0.05, 1e-8, 0.09, 1, []int{4}},       // a single step would have to stay below what it is given
		{0.8, 1e-8, 1e-3, 400, []int{0, 3}},   // a small batch is given more than amplification covers
		{0.8, 1e-8, 1, 400, []int{1, 2, 3}},   // no sampling
		{1.6, 1e-8, 0.01, 30, []int{0, 2, 3}}, // few steps
		{0.05, 1e-8, 0.01, 1, []int{3, 4}},    // likewise, one step
		{1e-3, 1e-8, 0.0999, 1000000, nil},    // any budget, with steps enough
	} {
		plan := must(NewCtCDP(c.epsilon, c.delta, c.q, c.steps))(t)
		var broken []int
		for i, x := range plan.Constraints {
			if !x.Holds {
				broken = append(broken, i)
			}
		}
		if !slices.Equal(broken, c.broken) || plan.Valid() != (len(c.broken) == 0) {
			t.Errorf("%+v breaks %v: %v", c, broken, plan.Constraints)
		}
	}
	plan := must(NewCtCDP(0.8, 1e-8, 0.01, 200))(t)
	if x := plan.Constraints[3]; !strings.Contains(x.Reason, " >= ") || !strings.Contains(x.Name, "omega_a") {
		t.Errorf("a broken constraint reads %q: %q", x.Name, x.Reason)
	}
}

// The price of steps is the least ε whose own constraints they keep: compared
// with a search over ε by the definitions.
// each is a step of every ρ, neighbors of the same one together.
func each(rho ...float64) []Steps {
	var s []Steps
	for i, r := range rho {
		if i > 0 && r == rho[i-1] {
			s[len(s)-1].Count++
			continue
		}
		s = append(s, Steps{r, 1})
	}
	return s
}

func TestCtCDPEpsilon(t *testing.T) {
	const q, delta = 0.01, 1e-6
	for _, steps := range [][]float64{
		{0.05}, {0.05, 0.001, 0}, slices.Repeat([]float64{0.002}, 5000), slices.Repeat([]float64{0.05}, 50000), {0.1, 0.02},
	} {
		got := must(CtCDPEpsilon(each(steps...), q, delta))(t)
		total, most := 0.0, 0.0
		for _, r := range steps {
			total, most = total+13*q*q*r, max(most, r)
		}
		keeps := func(epsilon float64) bool {
			plan := must(NewCtCDP(epsilon, delta, q, 1))(t)
			return total <= plan.Total && most <= plan.Limit
		}
		if !keeps(got*(1+1e-9)) || keeps(got*(1-1e-9)) {
			t.Errorf("%d steps of at most %v: epsilon %v is not the least", len(steps), most, got)
		}
	}
	if e := must(CtCDPEpsilon(nil, q, delta))(t); e != 0 {
		t.Errorf("nothing costs %v", e)
	}
	for _, c := range []struct {
		rho      []float64
		q, delta float64
		want     string
	}{
		{[]float64{0.01, 0.11}, q, delta, "step 1 breaks a constraint of ctCDP, rho <= 0.1"},
		{[]float64{0.01}, 0.2, delta, "q <= 0.1"},
		{[]float64{-1}, q, delta, "rho -1"},
		{[]float64{math.Inf(1)}, q, delta, "rho +Inf"},
		{[]float64{math.NaN()}, q, delta, "rho NaN"},
		{[]float64{0.01}, 0, delta, "sampling rate 0"},
		{[]float64{0.01}, q, 1, "delta 1"},
	} {
		if e, err := CtCDPEpsilon(each(c.rho...), c.q, c.delta); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, %v; want %q", c.rho, e, err, c.want)
		}
	}
}

// The sensitivities that docs/reference/schedules.md states against sums that come near
// them: gradients on a line, one of which is exchanged.
func TestCtCDPSensitivities(t *testing.T) {
	const clip = 1.5
	for n := 1; n <= 5; n++ {
		squared, norm := 0.0, 0.0
		for i := range 81 {
			for j := range 81 {
				g, h := clip*float64(i-40)/40, clip*float64(j-40)/40
				for k := range 41 {
					rest := clip * float64(n-1) * float64(k) / 40
					squared = max(squared, (rest+g)*(rest+g)-(rest+h)*(rest+h))
					norm = max(norm, math.Abs(rest+g)-math.Abs(rest+h))
				}
			}
		}
		near(t, "sensitivity of the squared norm", max(1, 4*float64(n-1))*clip*clip, squared, 1e-12)
		if norm > 2*clip*(1+1e-12) {
			t.Errorf("the norm of %d moved by %v", n, norm)
		}
	}
	near(t, "cost", AmplifiedCost(0.1, 0.05), 0.0065, 1e-12)
}

func TestCtCDPRefuses(t *testing.T) {
	for _, c := range []struct {
		epsilon, delta, q float64
		steps             int
	}{{0, 1e-8, 0.01, 1}, {math.Inf(1), 1e-8, 0.01, 1}, {1, 0, 0.01, 1}, {1, 1, 0.01, 1}, {1, 1e-8, 0, 1}, {1, 1e-8, 1.1, 1}, {1, 1e-8, 0.01, 0}} {
		if _, err := NewCtCDP(c.epsilon, c.delta, c.q, c.steps); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
}
