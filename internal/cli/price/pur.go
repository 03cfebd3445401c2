package price

import (
	"fmt"
	"io"
	"math"

	"github.com/privgrad/privgrad/internal/cli"
	"github.com/privgrad/privgrad/internal/papers"
)

// A pur is one of the noise schedules of Fay et al. 2023.
type pur struct {
	kind         papers.PURKind
	about, noise string
	own          string // flag that it needs, if any
	other        string // flag that only another of them uses
	example      string
	condition    string
	withK        string // the noise with --pur-k
}

var purs = []pur{
	{papers.PURNonConvex, "any smooth loss", "σ_t = 4M√F0/(√d·t), t = 1…T", "", "radius", "",
		"n, smoothness and f0 are public, not measured on the records",
		"σ_t = 4k√(MF0)/(√d·t)"},
	{papers.PURConvex, "a convex loss on a ball", "σ_t = 4MR/(√d·t), t = 1…T, with iterates projected to a ball of radius R", "radius", "f0", " --radius 5",
		"n, smoothness and radius are public, not measured on the records", "σ_t = 4kMR/(√d·t)"},
	{papers.PURStronglyConvex, "a strongly convex loss", "σ_t² = 2μF0·(1−μ/(2M))^t/d, t = 0…T−1", "strong-convexity", "radius", " --strong-convexity 0.001",
		"n, smoothness, strong convexity and f0 are public, not measured on the records",
		"σ_t² = k²·2μF0·(1−μ/(M(1+k²)))^t/d"},
}

// remarks are what the help says of this schedule alone.
func (x pur) remarks() (text string) {
	if x.kind == papers.PURStronglyConvex {
		text = ` k = 2 takes 2.5 times the steps for the same
result, and up to 37 % less budget if the condition number is large.`
	}
	if x.other != "f0" {
		text += `

F0 (--f0) is a public bound on how far the loss can fall from its start. From weights of
zero, ln 2 is right for logistic loss with any regularizer, and ln K with K classes.`
	}
	return text
}

func (x pur) name() string { return "pur-" + string(x.kind) }

func (x pur) method() method {
	m := method{
		name:  x.name(),
		short: "Full-batch gradient descent with the noise schedule of Fay et al. 2023 for " + x.about,
		long: fmt.Sprintf(`%s plans noisy full-batch gradient descent for %s
(Fay et al. 2023, proposition 3 (%s)):

  %s

M is the smoothness, and the learning rate is 1/(2M). σ_t is the standard deviation of
the noise on each coordinate of the mean gradient, whose sensitivity is 2L/N. Step t costs
ρ_t = (2L/N)²/(2σ_t²) in zCDP. T is the largest number of steps whose costs add up to at
most the budget. Give the budget as --epsilon and --delta, or as --rho. The closed form of
the paper is shown for comparison.

--pur-k makes the noise k times the expected gradient, with learning rate 1/(M(1+k²)) and

  %[5]s

k = 1 is the balance of the paper.%[6]s

The paper's schedule (6) reads the norm of the gradient without noise. It has no privacy
guarantee, so it is left out.`, x.name(), x.about, x.kind, x.noise, x.withK, x.remarks()),
		example: fmt.Sprintf(`  privgrad schedule %s --n 60000 --dim 784%s --rho 0.5
  privgrad schedule %[1]s --n 60000 --dim 784%[2]s --epsilon 1 --delta 1e-5 --pur-k 2 --json`, x.name(), x.example),
		flags: []string{"n", "dim", "epsilon", "delta", "rho", "pur-k", "lipschitz", "smoothness", "strong-convexity"},
		// One command line may ask for all three schedules in turn: what is
		// another's is accepted and named as ignored.
		hidden:   []string{x.other},
		required: []string{"n", "dim"},
		defaults: inputs{lipschitz: 1, f0: math.Ln2},
		plan:     x.plan,
	}
	for _, name := range []string{"f0", "radius"} {
		if name != x.other {
			m.flags = append(m.flags, name)
		}
	}
	if x.own != "" {
		m.required = append(m.required, x.own)
	}
	return m
}

func (x pur) plan(in *inputs, given func(string) bool) (*plan, error) {
	if !given("smoothness") {
		in.smoothness = in.lipschitz*in.lipschitz/4 + in.strongConvexity
	}
	budget, err := in.budget(given)
	if err != nil {
		return nil, err
	}
	if given("pur-k") && !(in.k > 0) {
		return nil, fmt.Errorf("pur-k %v: must be a number above 0; leave it out for the schedule as published", in.k)
	}
	s, err := papers.NewPUR(x.kind, papers.Problem{
		Records: in.n, Dim: in.dim, Lipschitz: in.lipschitz, Smoothness: in.smoothness, StrongConvexity: in.strongConvexity,
		InitialGap: in.f0, Radius: in.radius, K: in.k,
	}, budget)
	if err != nil {
		return nil, err
	}
	var f0, radius, convexity, epsilon, delta, k any // null where the schedule does not use it
	if given("epsilon") {
		epsilon, delta = in.epsilon, in.delta
	}
	if in.k > 0 {
		k = in.k
	}
	switch x.kind {
	case papers.PURNonConvex:
		f0 = in.f0
	case papers.PURConvex:
		radius = in.radius
	case papers.PURStronglyConvex:
		f0, convexity = in.f0, in.strongConvexity
	}
	ignored := []string{} // flags that were given and are another schedule's
	if given(x.other) {
		ignored = append(ignored, x.other)
	}
	note := "its closed form bounds the sum of t² by T³ and stops early"
	if x.kind == papers.PURStronglyConvex {
		note = "its closed form loses a factor of the condition number"
		if s.PaperSpent > budget {
			note += " and overspends"
		}
	}
	first, last := s.Sigma(0), s.Sigma(s.Steps-1)
	p := newPlan(x.name(), enforced, "each step adds fresh noise of its σ_t to the mean gradient of all records", x.condition)
	p.figures = figures{
		{"steps", s.Steps}, {"epsilon", epsilon}, {"delta", delta}, {"rho", budget}, {"rho_spent", s.Spent}, {"pur_k", k}, {"sigma_first", first}, {"sigma_last", last}, {"learning_rate", s.LearningRate},
		{"n", in.n}, {"dim", in.dim}, {"lipschitz", in.lipschitz}, {"smoothness", in.smoothness},
		{"strong_convexity", convexity}, {"f0", f0}, {"radius", radius}, {"ignored", ignored},
		// The paper's steps are by its closed form, not rounded.
		{"paper", figures{{"steps", s.PaperSteps}, {"rho_spent", s.PaperSpent}, {"guarantee", false}, {"note", note}}},
	}
	p.title = fmt.Sprintf("%s of %s spend ρ = %.6g of %.6g in zCDP", cli.Plural(s.Steps, "step"), x.name(), s.Spent, budget)
	if epsilon != nil {
		p.row("the budget in zCDP", "ρ = %.6g is exactly ε = %g, δ = %g", budget, in.epsilon, in.delta)
	}
	p.row("noise σ on the mean gradient", "%.6g in the first step, %.6g in the last", first, last)
	rate := "learning rate 1/(2M)"
	if in.k > 0 {
		rate = "learning rate 1/(M(1+k²))"
	}
	p.row(rate, "%.6g, M = %g", s.LearningRate, in.smoothness)
	p.row("the paper's own T", "%.6g steps, which spend ρ = %.6g: %s (not a guarantee)", s.PaperSteps, s.PaperSpent, note)
	p.more = func(w io.Writer) {
		for _, flag := range ignored {
			fmt.Fprintf(w, "not used by %s: --%s\n", x.name(), flag)
		}
	}
	return p, nil
}

// budget is ρ, as it was given or as much as (ε, δ) allow.
func (in *inputs) budget(given func(string) bool) (float64, error) {
	switch epsilon, delta, rho := given("epsilon"), given("delta"), given("rho"); {
	case rho && (epsilon || delta):
		return 0, fmt.Errorf("rho %v: the budget is also given as --epsilon or --delta; give one of both", in.rho)
	case rho:
		return in.rho, nil
	case !epsilon || !delta:
		return 0, fmt.Errorf("--rho is missing: give the budget as --rho, or as --epsilon and --delta")
	}
	return papers.GaussianBudget(in.epsilon, in.delta)
}
