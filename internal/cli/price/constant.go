package price

import (
	"errors"
	"fmt"
	"math"

	"github.com/spf13/pflag"

	"github.com/privgrad/privgrad/internal/cli"
	"github.com/privgrad/privgrad/internal/papers"
)

// constants are gradient descent on all records with the same noise in each step.
var constants = []method{
	{
		name:  "pur-constant",
		short: "Full-batch gradient descent with noise that you choose: as many steps as a budget allows",
		long: `pur-constant plans noisy full-batch gradient descent with the same noise in each step, to
which Fay et al. 2023 compare their schedules. You choose its standard deviation σ on each
coordinate of the mean gradient (--pur-sigma). The sensitivity of the mean gradient is 2L/N,
so that a step costs ρ = (2L/N)²/(2σ²) in zCDP. The number of steps is the largest whose
costs add up to at most the budget. Give the budget as --epsilon and --delta, or as --rho.
The learning rate is 1/(2M), where M is the smoothness.`,
		example: `  privgrad schedule pur-constant --n 60000 --pur-sigma 0.001 --rho 0.5
  privgrad schedule pur-constant --n 60000 --pur-sigma 0.001 --epsilon 1 --delta 1e-5 --json`,
		flags: func(in *inputs, f *pflag.FlagSet) {
			f.IntVar(&in.n, "n", 0, "public number of records N")
			f.Float64Var(&in.sigma, "pur-sigma", 0, "σ of the noise on each coordinate of the mean gradient")
			in.zcdp(f)
			in.loss(f)
		},
		required: []string{"n", "pur-sigma"},
		plan:     planConstant,
	},
	{
		name:  "noisy-gd",
		short: "Full-batch gradient descent: the noise that a number of steps needs",
		long: `noisy-gd plans noisy full-batch gradient descent with the same noise in each step. It
prints the least noise for which --steps steps cost at most the budget. The sensitivity of
the mean gradient is 2L/N, so that T steps need σ = (2L/N)·√(T/(2ρ)) on each coordinate of
the mean gradient. Give the budget as --epsilon and --delta, or as --rho. The learning rate
is 1/M, where M is the smoothness.

Without --steps, T is the number that makes a bound on the loss least. That needs --dim, and
--strong-convexity (with --f0) or --radius: how far the minimum is from the start at most.`,
		example: `  privgrad schedule noisy-gd --n 60000 --steps 100 --epsilon 1 --delta 1e-5
  privgrad schedule noisy-gd --n 60000 --dim 784 --radius 5 --rho 0.5 --json`,
		flags: func(in *inputs, f *pflag.FlagSet) {
			f.IntVar(&in.n, "n", 0, "public number of records N")
			f.IntVar(&in.steps, "steps", 0, "number of steps T (default: by a public bound on the loss)")
			in.zcdp(f)
			in.loss(f)
			f.IntVar(&in.dim, "dim", 0, "number of parameters d, to choose T")
			f.Float64Var(&in.radius, "radius", 0, "norm of the best weights at most, to choose T without strong convexity")
			f.Float64Var(&in.f0, "f0", math.Ln2, "public bound F0 on F(θ_0)−F*, to choose T with strong convexity")
		},
		required: []string{"n"},
		plan:     planNoisyGD,
	},
}

// zcdp defines the flags that budget reads.
func (in *inputs) zcdp(f *pflag.FlagSet) {
	f.Float64Var(&in.epsilon, "epsilon", 0, "privacy budget ε, with --delta")
	f.Float64Var(&in.delta, "delta", 0, "δ, in (0, 1)")
	f.Float64Var(&in.rho, "rho", 0, "budget ρ in zCDP, in place of --epsilon and --delta")
}

func (in *inputs) problem() papers.Problem {
	return papers.Problem{
		Records: in.n, Dim: max(in.dim, 1), Lipschitz: in.lipschitz, Smoothness: in.smoothness, StrongConvexity: in.strongConvexity,
		InitialGap: in.f0, Radius: in.radius, Sigma: in.sigma,
	}
}

func planConstant(in *inputs, given func(string) bool) (*plan, error) {
	in.complete(given)
	budget, err := in.budget(given)
	if err != nil {
		return nil, err
	}
	s, err := papers.NewPUR(papers.PURConstant, in.problem(), budget)
	if err != nil {
		return nil, err
	}
	return in.constant("pur-constant", s, s.LearningRate, budget, given), nil
}

func planNoisyGD(in *inputs, given func(string) bool) (*plan, error) {
	in.complete(given)
	budget, err := in.budget(given)
	if err != nil {
		return nil, err
	}
	if !given("steps") {
		if err := in.checkBestSteps(); err != nil {
			return nil, err
		}
		in.steps = in.problem().BestSteps(budget)
	}
	if in.sigma, err = papers.ConstantNoise(in.problem(), in.steps, budget); err != nil {
		return nil, err
	}
	p := in.problem()
	p.Most = in.steps
	s, err := papers.NewPUR(papers.PURConstant, p, budget)
	if err != nil {
		return nil, err
	}
	return in.constant("noisy-gd", s, 1/in.smoothness, budget, given), nil
}

// checkBestSteps finds what the number of steps cannot be chosen from.
func (in *inputs) checkBestSteps() error {
	above := func(x float64) bool { return x > 0 && !math.IsInf(x, 0) }
	switch {
	case in.dim < 1:
		return fmt.Errorf("dim %d: the number of steps is chosen for a number of parameters, 1 or more; give --dim, or --steps", in.dim)
	case in.strongConvexity == 0 && !above(in.radius):
		return errors.New("--steps is missing: give it, or --radius or --strong-convexity, from which it is chosen")
	case in.strongConvexity != 0 && !above(in.f0):
		return fmt.Errorf("f0 %v: must be a finite number above 0", in.f0)
	case !above(in.lipschitz) || !above(in.smoothness) || !(in.strongConvexity >= 0 && in.strongConvexity <= in.smoothness):
		return fmt.Errorf("lipschitz %v, smoothness %v and strong convexity %v: each must be a finite number above 0, and the last at most the smoothness", in.lipschitz, in.smoothness, in.strongConvexity)
	}
	return nil
}

func (in *inputs) constant(name string, s *papers.PUR, rate, budget float64, given func(string) bool) *plan {
	var epsilon, delta any // null where the budget is ρ
	p := newPlan(name, enforced, "each step adds fresh noise of σ to the mean gradient of all records", "n, the number of steps and the noise are public, not chosen on the records")
	p.title = fmt.Sprintf("%s of %s spend ρ = %.6g of %.6g in zCDP", cli.Plural(s.Steps, "step"), name, s.Spent, budget)
	if given("epsilon") {
		epsilon, delta = in.epsilon, in.delta
		p.row("the budget in zCDP", "ρ = %.6g is exactly ε = %g, δ = %g", budget, in.epsilon, in.delta)
	}
	multiplier := in.sigma * float64(in.n) / in.lipschitz
	p.row("noise σ on the mean gradient", "%.6g in each step", in.sigma)
	p.row("noise multiplier σN/L", "%.6g", multiplier)
	p.row("learning rate", "%.6g, M = %g", rate, in.smoothness)
	p.figures = figures{
		{"steps", s.Steps}, {"epsilon", epsilon}, {"delta", delta}, {"rho", budget}, {"rho_spent", s.Spent},
		{"sigma", in.sigma}, {"noise_multiplier", multiplier}, {"learning_rate", rate},
		{"n", in.n}, {"lipschitz", in.lipschitz}, {"smoothness", in.smoothness}, {"strong_convexity", in.strongConvexity},
	}
	return p
}
