package linesearch

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

// search takes the first candidate whose decrease reaches its bias, as a search
// without noise does; the decreases are those of a batch's sum.
func search(b Backtrack, start float64, d Direction, decrease func(eta float64) float64) (float64, int) {
	for i := range b.Trials {
		if eta := b.Candidate(start, i); decrease(eta) >= b.Bias(eta, d) {
			return eta, i
		}
	}
	return 0, -1
}

// On f(w) = h/2·‖w‖² the decrease of a step η along the gradient is
// η‖g‖²(1 − ηh/2), so Armijo's condition holds for η ≤ 2(1−α)/h and for no larger one.
func TestArmijoOnAQuadratic(t *testing.T) {
	for _, h := range []float64{0.1, 1, 30} {
		for _, alpha := range []float64{0.001, 0.3, 0.5, 0.9} {
			for _, beta := range []float64{0.5, 0.8} {
				const norm2, batch, start = 7.0, 300.0, 100.0
				b := Backtrack{Alpha: alpha, Beta: beta, Trials: 60, Batch: batch}
				if err := b.Validate(); err != nil {
					t.Fatal(err)
				}
				eta, i := search(b, start, Direction{Norm2: norm2}, func(eta float64) float64 { return batch * eta * norm2 * (1 - eta*h/2) })
				most := 2 * (1 - alpha) / h
				if want := max(int(math.Ceil(math.Log(start/most)/math.Log(1/beta))), 0); i != want {
					t.Errorf("h %v, α %v, β %v: candidate %d, want %d (%v, the bound is %v)", h, alpha, beta, i, want, eta, most)
				}
			}
		}
	}
}

// The penalty λ/2·‖w‖² is a part of the objective: a search on the loss alone
// whose biases count the penalty in decides as one on the sum of both.
func TestBiasCountsThePenalty(t *testing.T) {
	const lambda, batch = 0.3, 50.0
	w, g := []float64{1, -2, 0.5}, []float64{0.2, 0.1, -0.7}
	d, half := make([]float64, 3), func(w []float64) (sum float64) {
		for _, x := range w {
			sum += lambda / 2 * x * x
		}
		return
	}
	var direction Direction
	direction.L2 = lambda
	for i := range w {
		d[i] = g[i] + lambda*w[i]
		direction.Norm2 += d[i] * d[i]
		direction.Along += w[i] * d[i]
	}
	b := Backtrack{Alpha: 0.2, Beta: 0.5, Trials: 1, Batch: batch, Margin: 1.25}
	for _, eta := range []float64{0.01, 0.5, 3, 40} {
		moved := make([]float64, 3)
		for i := range w {
			moved[i] = w[i] - eta*d[i]
		}
		want := batch*(b.Alpha*eta*direction.Norm2-(half(w)-half(moved))) + b.Margin
		if got := b.Bias(eta, direction); math.Abs(got-want) > 1e-12*(1+math.Abs(want)) {
			t.Errorf("step %v: bias %v, want %v", eta, got, want)
		}
	}
}

func TestBiasTakesTheNoiseOut(t *testing.T) {
	b := Backtrack{Alpha: 0.5, Beta: 0.5, Trials: 1, Batch: 10}
	d := Direction{Norm2: 3, Noise: 2}
	if got := b.Bias(4, d); got != 10*0.5*4*3 {
		t.Errorf("as published: %v", got)
	}
	b.Correct = true
	if got := b.Bias(4, d); got != 10*0.5*4*1 {
		t.Errorf("corrected: %v", got)
	}
	d.Noise = 5
	if got := b.Bias(4, d); got != 0 {
		t.Errorf("more noise than gradient: %v", got)
	}
	// Parameters that overflowed end no run: no candidate is found.
	for _, d := range []Direction{{Norm2: math.NaN()}, {Norm2: math.Inf(1), L2: 1, Along: math.Inf(1)}, {Norm2: 1, Along: math.NaN()}, {Norm2: 1, L2: 1, Along: math.Inf(1)}} {
		if got := b.Bias(1, d); !math.IsInf(got, 1) {
			t.Errorf("bias %v of %+v", got, d)
		}
	}
}

func TestStart(t *testing.T) {
	published := StartRule{Every: 3, Factor: 1.2, Least: 1e-3, Most: 10}
	rising := published
	rising.Rise = true
	for _, test := range []struct {
		name  string
		rule  StartRule
		found []float64
		want  []float64 // Eta after each
	}{
		{"moves after every third, to 1.2 times the largest", published, []float64{1, 2, 0.5, 1, 1, 1}, []float64{5, 5, 2.4, 2.4, 2.4, 1.2}},
		{"never rises as published", published, []float64{5, 5, 5}, []float64{5, 5, 5}},
		{"rises where it may", rising, []float64{5, 5, 5}, []float64{5, 5, 6}},
		{"stays below the most", rising, []float64{1, 9, 1}, []float64{5, 5, 10}},
		{"stays above the least", published, []float64{1e-9, 1e-9, 1e-9}, []float64{5, 5, 1e-3}},
	} {
		if err := test.rule.Validate(); err != nil {
			t.Fatal(err)
		}
		s := Start{Eta: 5}
		for i, eta := range test.found {
			test.rule.Chose(&s, eta)
			if math.Abs(s.Eta-test.want[i]) > 1e-12 {
				t.Errorf("%s: after %d steps it is %v, want %v", test.name, i+1, s.Eta, test.want[i])
			}
		}
		if s.Found != len(test.found)%3 || (s.Found == 0) != (s.Largest == 0) {
			t.Errorf("%s: Ω is left at %d steps, largest %v", test.name, s.Found, s.Largest)
		}
	}
}

func TestSmooth(t *testing.T) {
	for _, test := range [][4]float64{{4, 1, 0.5, 2}, {4, 1, 1, 1}, {8, 1, 1. / 3, 4}, {5, 5, 0.3, 5}} {
		if got := Smooth(test[0], test[1], test[2]); math.Abs(got-test[3]) > 1e-12 {
			t.Errorf("from %v to %v at weight %v: %v, want %v", test[0], test[1], test[2], got, test[3])
		}
	}
}

func TestGroup(t *testing.T) {
	var g Group
	if g.Size(16) != 1 {
		t.Errorf("at first %d", g.Size(16))
	}
	g.Needed(5)
	if g.Recent != 5 || g.Size(16) != 8 || g.Size(4) != 4 || g.Size(1) != 1 || g.Size(7) != 4 {
		t.Errorf("after 5: %v, %d, %d at most 4, %d at most 7", g.Recent, g.Size(16), g.Size(4), g.Size(7))
	}
	g.Needed(1)
	if math.Abs(g.Recent-3.8) > 1e-12 || g.Size(16) != 4 {
		t.Errorf("after 5 and 1: %v, %d", g.Recent, g.Size(16))
	}
	if g.Recent = math.NaN(); g.Size(16) != 1 {
		t.Error("a checkpoint's NaN")
	}
}

func TestCurve(t *testing.T) {
	c := Curve{Points: 5, Factor: 2, Batch: 10, Keep: 0.5}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	if got := c.Candidates(4); !slices.Equal(got, []float64{1, 2, 4, 8, 16}) {
		t.Errorf("candidates %v", got)
	}
	for _, test := range []struct {
		name      string
		keep      float64
		decreases []float64
		d         Direction
		want      float64
	}{
		// Smoothed by 1, 2, 1: 1.25, 2.5, 3.5, 2.75, .5.
		{"the largest", 1, []float64{1, 2, 5, 2, 0}, Direction{}, 4},
		{"the largest step that keeps half of it", 0.5, []float64{1, 2, 5, 2, 0}, Direction{}, 8},
		{"a step beyond one that does not keep enough", 0.9, []float64{1, 2, 5, -9, 9}, Direction{}, 16},
		{"all too large", 0.5, []float64{-1, -2, -3, -4, -5}, Direction{}, 1},
		{"still rising", 0.5, []float64{1, 2, 3, 4, 5}, Direction{}, 16},
		// A penalty of λ = 1 and w·d = 1, ‖d‖² = 1: 10(η − η²/2) on top, that is 5, 0, −40, −240, −1120.
		{"the penalty's part", 1, []float64{0, 0, 0, 0, 0}, Direction{Norm2: 1, Along: 1, L2: 1}, 1},
		{"overflow", 0.5, []float64{1, 1, 1, 1, 1}, Direction{Norm2: math.NaN(), L2: 1}, 1},
	} {
		c.Keep = test.keep
		if got := c.Choose(4, test.decreases, test.d); got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

// fake answers by a script, and notes what it was asked.
type fake struct {
	etas   []float64 // of the searches
	angles []float64 // of Again
	turned float64
	fail   int // the call that the budget refuses, from 1
	asked  []string
}

func (f *fake) ask(format string, a ...any) error {
	f.asked = append(f.asked, fmt.Sprintf(format, a...))
	if len(f.asked) == f.fail {
		return errRefused
	}
	return nil
}

var errRefused = fmt.Errorf("no budget")

func (f *fake) Gradient(b Budgets) (Direction, error) {
	return Direction{Norm2: 1}, f.ask("gradient %.4g", b.Gradient)
}

func (f *fake) Again(rho, weight float64, b Budgets) (Direction, float64, error) {
	err := f.ask("again %.4g weight %.4g search %.4g clip %.4g", rho, weight, b.Search, b.Clip)
	if err != nil {
		return Direction{}, 0, err
	}
	angle := f.angles[0]
	f.angles = f.angles[1:]
	return Direction{Norm2: 2}, angle, nil
}

func (f *fake) Search(b Budgets, start float64, d Direction) (float64, error) {
	err := f.ask("search %.4g clip %.4g from %.4g along %v", b.Search, b.Clip, start, d.Norm2)
	if err != nil {
		return 0, err
	}
	eta := f.etas[0]
	f.etas = f.etas[1:]
	return eta, nil
}

func (f *fake) Move(eta float64) error { return f.ask("move %.4g", eta) }
func (f *fake) Turned() float64        { return f.turned }

func rule(p Policy, shrink float64) Rule {
	return Rule{
		Start: StartRule{Every: 1, Factor: 1.2, Least: 1e-6, Most: 1e6}, Policy: p,
		Growth: 0.5, Shrink: shrink, Wide: 1.1, Narrow: 0.5, Decay: 0.8,
	}
}

// Algorithms 2 and 3, line by line: what is asked, at which budgets, in which order.
func TestIterate(t *testing.T) {
	const right = math.Pi / 2
	for _, test := range []struct {
		name   string
		rule   Rule
		oracle fake
		asked  []string
		want   State
	}{
		{"found at once", rule(ByAngle, 0), fake{etas: []float64{2}, turned: math.NaN()},
			[]string{"gradient 1", "search 8 clip 1 from 4 along 1", "move 2"},
			State{Budgets: Budgets{1, 8, 1}, Start: Start{Eta: 2.4}, Angle: right}},
		{"the average of angles moves", rule(ByAngle, 0), fake{etas: []float64{2}, turned: 1},
			[]string{"gradient 1", "search 8 clip 1 from 4 along 1", "move 2"},
			State{Budgets: Budgets{1, 8, 1}, Start: Start{Eta: 2.4}, Angle: 0.8*right + 0.2}},
		// A wide angle: gradients are too noisy. Another: twice as much again, but one shrink only.
		{"wide angles", rule(ByAngle, 0.1), fake{etas: []float64{0, 0, 2}, angles: []float64{1.2 * right, 1.7}, turned: math.NaN()},
			[]string{
				"gradient 1", "search 8 clip 1 from 4 along 1", "again 1 weight 0.5 search 8 clip 1",
				"search 8 clip 0.9 from 4 along 2", "again 1.5 weight 0.5 search 8 clip 0.9", "search 8 clip 0.9 from 4 along 2", "move 2",
			},
			State{Budgets: Budgets{2.25, 8, 0.9}, Start: Start{Eta: 2.4}, Angle: right}},
		// A narrow one: searches are.
		{"a narrow angle", rule(ByAngle, 0.1), fake{etas: []float64{0, 2}, angles: []float64{0.4 * right}, turned: math.NaN()},
			[]string{"gradient 1", "search 8 clip 1 from 4 along 1", "again 1 weight 0.5 search 8 clip 1", "search 12 clip 1 from 4 along 2", "move 2"},
			State{Budgets: Budgets{1, 12, 1}, Start: Start{Eta: 2.4}, Angle: right}},
		{"an angle between", rule(ByAngle, 0.1), fake{etas: []float64{0, 2}, angles: []float64{0.9 * right}, turned: math.NaN()},
			[]string{"gradient 1", "search 8 clip 1 from 4 along 1", "again 1 weight 0.5 search 8 clip 1", "search 8 clip 1 from 4 along 2", "move 2"},
			State{Budgets: Budgets{1, 8, 1}, Start: Start{Eta: 2.4}, Angle: right}},
		{"always", rule(Always, 0), fake{etas: []float64{0, 2}, angles: []float64{0}, turned: math.NaN()},
			[]string{"gradient 1", "search 8 clip 1 from 4 along 1", "again 1 weight 0.5 search 8 clip 1", "search 8 clip 1 from 4 along 2", "move 2"},
			State{Budgets: Budgets{1.5, 8, 1}, Start: Start{Eta: 2.4}, Angle: right}},
		{"never", rule(Never, 0.1), fake{etas: []float64{0, 2}, angles: []float64{3}, turned: math.NaN()},
			[]string{"gradient 1", "search 8 clip 1 from 4 along 1", "again 1 weight 0.5 search 8 clip 1", "search 8 clip 1 from 4 along 2", "move 2"},
			State{Budgets: Budgets{1, 8, 1}, Start: Start{Eta: 2.4}, Angle: right}},
		// The direction has ρ, then the whole of (1+ξ)ρ: the second gradient has ξρ, and a weight of its share.
		{"refine", rule(Refine, 0), fake{etas: []float64{0, 0, 2}, angles: []float64{0, 0}, turned: math.NaN()},
			[]string{
				"gradient 1", "search 8 clip 1 from 4 along 1", "again 0.5 weight 0.3333 search 8 clip 1",
				"search 8 clip 1 from 4 along 2", "again 0.75 weight 0.3333 search 8 clip 1", "search 8 clip 1 from 4 along 2", "move 2",
			},
			State{Budgets: Budgets{2.25, 8, 1}, Start: Start{Eta: 2.4}, Angle: right}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if err := test.rule.Validate(); err != nil {
				t.Fatal(err)
			}
			s, o := NewState(1, 8, 4), test.oracle
			eta, err := test.rule.Iterate(&s, &o)
			if err != nil || eta != 2 {
				t.Errorf("step %v: %v", eta, err)
			}
			if !slices.Equal(o.asked, test.asked) {
				t.Errorf("asked\n%s\nwant\n%s", strings.Join(o.asked, "\n"), strings.Join(test.asked, "\n"))
			}
			if s != test.want || s.Validate() != nil {
				t.Errorf("left %+v, want %+v: %v", s, test.want, s.Validate())
			}
			// Refused at any call, the state is as the releases before left it: budgets
			// that grew stay grown, and nothing after the refusal is asked.
			for call := 1; call < len(test.asked); call++ {
				s, o := NewState(1, 8, 4), test.oracle
				o.fail = call
				if eta, err := test.rule.Iterate(&s, &o); err != errRefused || eta != 0 {
					t.Errorf("refused at call %d: step %v, %v", call, eta, err)
				}
				if !slices.Equal(o.asked, test.asked[:call]) {
					t.Errorf("refused at call %d: asked %q", call, o.asked)
				}
				want := NewState(1, 8, 4)
				for range strings.Count(strings.Join(test.asked[:call-1], "\n"), "again") {
					if want.Budgets.Search < test.want.Budgets.Search {
						want.Budgets.Search *= 1.5
					}
					if want.Budgets.Gradient < test.want.Budgets.Gradient {
						want.Budgets.Gradient *= 1.5
					}
					want.Budgets.Clip = test.want.Budgets.Clip
				}
				if s != want {
					t.Errorf("refused at call %d: left %+v, want %+v", call, s, want)
				}
			}
		})
	}
}

// However often bounds shrink, single precision tells them from 0.
func TestClipStopsShrinking(t *testing.T) {
	r := rule(Always, 0.99)
	s := NewState(1, 8, 4)
	for range 40 {
		o := fake{etas: []float64{0, 2}, angles: []float64{0}, turned: math.NaN()}
		if _, err := r.Iterate(&s, &o); err != nil {
			t.Fatal(err)
		}
	}
	if s.Budgets.Clip != leastClip {
		t.Errorf("clip bounds are multiplied by %v", s.Budgets.Clip)
	}
}

func TestValidate(t *testing.T) {
	backtrack := Backtrack{Alpha: 0.3, Beta: 0.8, Trials: 20, Batch: 300}
	curve := Curve{Points: 9, Factor: 2, Batch: 300, Keep: 0.5}
	start := StartRule{Every: 1, Factor: 2, Least: 1e-12, Most: 1e12}
	state := NewState(1, 1, 1)
	bad := func(want string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
	change := func(f func(*Backtrack)) error { b := backtrack; f(&b); return b.Validate() }
	nan, inf := math.NaN(), math.Inf(1)
	for _, x := range []float64{0, 1, -1, nan} {
		bad("alpha", change(func(b *Backtrack) { b.Alpha = x }))
		bad("beta", change(func(b *Backtrack) { b.Beta = x }))
	}
	bad("0 candidates", change(func(b *Backtrack) { b.Trials = 0 }))
	bad("expected batch 0", change(func(b *Backtrack) { b.Batch = 0 }))
	bad("margin NaN", change(func(b *Backtrack) { b.Margin = nan }))
	bad("margin -Inf", change(func(b *Backtrack) { b.Margin = -inf }))
	points := func(f func(*Curve)) error { c := curve; f(&c); return c.Validate() }
	bad("4 points", points(func(c *Curve) { c.Points = 4 }))
	bad("1 points", points(func(c *Curve) { c.Points = 1 }))
	bad("expected batch", points(func(c *Curve) { c.Batch = inf }))
	bad("factor 1", points(func(c *Curve) { c.Factor = 1 }))
	bad("keep 0", points(func(c *Curve) { c.Keep = 0 }))
	bad("keep 1.5", points(func(c *Curve) { c.Keep = 1.5 }))
	moves := func(f func(*StartRule)) error { r := start; f(&r); return r.Validate() }
	bad("0 searches", moves(func(r *StartRule) { r.Every = 0 }))
	bad("1 times", moves(func(r *StartRule) { r.Factor = 1 }))
	bad("stays in", moves(func(r *StartRule) { r.Least = 0 }))
	bad("stays in", moves(func(r *StartRule) { r.Most = inf }))
	all := func(f func(*Rule)) error { r := rule(ByAngle, 0.1); f(&r); return r.Validate() }
	bad(`policy "some"`, all(func(r *Rule) { r.Policy = "some" }))
	bad("grow by 0", all(func(r *Rule) { r.Growth = 0 }))
	bad("grow by 101", all(func(r *Rule) { r.Growth = 101 }))
	bad("shrink by 1", all(func(r *Rule) { r.Shrink = 1 }))
	bad("wide 1 ", all(func(r *Rule) { r.Wide = 1 }))
	bad("narrow 1 ", all(func(r *Rule) { r.Narrow = 1 }))
	bad("decay NaN", all(func(r *Rule) { r.Decay = nan }))
	bad("0 searches", all(func(r *Rule) { r.Start.Every = 0 }))
	for _, f := range []func(*State){
		func(s *State) { s.Budgets.Gradient = 0 }, func(s *State) { s.Budgets.Search = nan }, func(s *State) { s.Budgets.Clip = 2 },
		func(s *State) { s.Angle = nan }, func(s *State) { s.Start.Eta = inf }, func(s *State) { s.Start.Largest = -1 }, func(s *State) { s.Start.Found = -1 },
	} {
		s := state
		f(&s)
		bad("not what a line search leaves", s.Validate())
	}
	for _, err := range []error{backtrack.Validate(), curve.Validate(), start.Validate(), state.Validate()} {
		if err != nil {
			t.Error(err)
		}
	}
}
