// Package pur reruns the figures of Fay, Magnússon, Sjölund and Johansson 2023, "Adaptive
// Hyperparameter Selection for Differentially Private Gradient Descent".
package pur

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"gonum.org/v1/gonum/floats"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/internal/papers"
	"github.com/privgrad/privgrad/internal/reproduce"
	"github.com/privgrad/privgrad/nn"
	"github.com/privgrad/privgrad/train"
)

const fay = "Fay et al. 2023, Adaptive hyperparameter selection for differentially private gradient descent"

// Figures are those of the paper.
func Figures() []reproduce.Figure {
	return []reproduce.Figure{fig1, fig2, fig3, table3}
}

// A line is a method with its settings.
type line struct {
	series    string
	optimizer string  // empty: a schedule
	byPaper   bool    // zCDP's budget by the paper's conversion, else the exact one
	sigma     float64 // of a constant schedule; 0: PUR's (c), or (b) without a regularizer
	k         float64 // pur_k; 0: none
}

// The names of lines. "As printed" is by zCDP and its conversion to ε, as in the paper.
const (
	printed   = "PUR, as printed"
	exactly   = "PUR, exact accounting"
	balanced  = "PUR, exact accounting, k = 2"
	noisyGD   = "noisy-gd"
	clippedGD = "dp-sgd, full batch, clip 1"
	output    = "outpert-gd"
	oracle    = "oracle, NOT PRIVATE"
	optimum   = "optimum, NOT PRIVATE"
	zero      = "θ = 0"
	best      = "best constant"
)

var (
	schedules = []line{
		{series: printed, byPaper: true},
		{series: exactly},
		{series: balanced, k: 2},
	}
	noisy   = line{series: noisyGD, optimizer: "noisy-gd"}
	clipped = line{series: clippedGD, optimizer: "dp-sgd"}
	release = line{series: output, optimizer: "outpert-gd"}
)

// sigmas are those of section 4's constant schedules.
var sigmas = []float64{0.001, 0.01, 0.1, 1}

func constants() (all []line) {
	for _, s := range sigmas {
		all = append(all, line{series: constant(s), byPaper: true, sigma: s})
	}
	return all
}

func constant(sigma float64) string { return fmt.Sprintf("constant σ = %g", sigma) }

// A setup is a panel: a task with the bound on its features' norms, and the regularizer.
type setup struct {
	*task
	*table
	source, panel string
	z, lambda     float64
}

// setup is nil where the task's data are not there. z is 0 for the largest norm of a row.
func (t *task) setup(e *reproduce.Env, z, lambda float64) (*setup, error) {
	rows, source, err := t.table(e)
	if rows == nil {
		return nil, err
	}
	if z == 0 { // rounded up to three digits: it is a setting
		z = floats.Max(rows.norms)
		unit := math.Pow(10, math.Floor(math.Log10(z))-2)
		z = math.Ceil(z/unit) * unit
	}
	e.Label(relation)
	return &setup{t, rows, source, fmt.Sprintf("%s, Z = %.3g, λ = %g", t.panel, z, lambda), z, lambda}, nil
}

// relation goes with every figure.
const relation = "every ε is for replace-one, at δ = 1/N"

// setups are tasks with bounds on the norm and regularizers, as far as their data are there.
func setups(e *reproduce.Env, tasks []*task, zs, lambdas []float64) (all []*setup, _ error) {
	for _, t := range tasks {
		for _, z := range zs {
			for _, lambda := range lambdas {
				s, err := t.setup(e, z, lambda)
				if err != nil {
					return nil, err
				}
				if s != nil {
					all = append(all, s)
				}
			}
		}
	}
	return all, nil
}

func (s *setup) problem() problem { return problem{s.table, s.z, s.lambda} }

// budget is the paper's: ρ + 2·√(ρ·ln N) = ε.
func (s *setup) budget(epsilon float64) float64 {
	l := math.Log(float64(len(s.y)))
	root := epsilon / (math.Sqrt(l+epsilon) + math.Sqrt(l))
	return root * root
}

// The settings that the paper leaves open, or that its methods do not have.
const (
	reach       = 10.0 // Z times the radius of the ball of schedule (b)
	gdSteps     = 20   // of clippedGD
	gdNoise     = 0.4  // the length of all its noise together, by which its learning rate is chosen
	modelName   = "logistic-through-origin"
	neighboring = "replace-one"
)

// run is a job of a line.
func (s *setup) run(l line, epsilon float64, seed int) reproduce.Job {
	c := train.Default()
	c.Data, c.Model, c.L2, c.Seed, c.EvalEvery = s.source, modelName, s.lambda, uint64(seed), 1<<30
	c.Delta, c.Neighbouring, c.Accountant, c.FeatureNorm = new(1/float64(len(s.y))), neighboring, accountant.GDP, &s.z
	c.Epsilon = &epsilon
	c.Optimizer = l.optimizer
	switch kind := s.kind(l); {
	case l.optimizer == "dp-sgd":
		c.SamplingRate, c.Clip, c.Steps, c.LR = new(1.0), 1, new(gdSteps), new(s.clippedRate(epsilon))
	case kind != "":
		c.Optimizer = "pur-" + string(kind)
		if l.byPaper {
			c.Epsilon, c.PUR.Rho = nil, new(s.rho(l, epsilon))
		}
		if l.k > 0 {
			c.PUR.K = &l.k
		}
		switch kind {
		case papers.PURConstant:
			c.PUR.Sigma = &l.sigma
		case papers.PURConvex:
			c.Radius = new(reach / s.z)
		}
		// A schedule goes on for as long as its budget, and no longer than all runs here.
		problem := s.planned(l)
		if problem.Most = s.most; kind == papers.PURConstant {
			problem.Most = cmp.Or(s.slow, s.most)
		}
		if p, err := papers.NewPUR(kind, problem, s.rho(l, epsilon)); err == nil && p.Steps == problem.Most {
			c.Steps = &p.Steps
		}
	case s.slow > 0 && s.z > 1: // a method's own choice for a large Z is thousands of steps
		c.Steps = &s.slow
	}
	j := reproduce.Job{Config: c, Network: s.network, After: s.problem().judge}
	j.Panel, j.Series, j.X, j.Seed = s.panel, l.series, epsilon, seed
	return j
}

// clippedRate is clippedGD's learning rate by a public rule: η is 1 at most, and η·√(Td) times the
// deviation of the noise on the mean gradient, 2√T/(Nμ), is gdNoise at most.
func (s *setup) clippedRate(epsilon float64) float64 {
	mu := math.Sqrt(2 * s.rho(line{}, epsilon))
	return min(1, gdNoise*float64(len(s.y))*mu/(2*gdSteps*math.Sqrt(float64(s.d))))
}

// kind is the schedule of a line; empty: it has none.
func (s *setup) kind(l line) papers.PURKind {
	switch {
	case l.sigma > 0:
		return papers.PURConstant
	case l.optimizer != "":
		return ""
	case s.lambda > 0:
		return papers.PURStronglyConvex
	}
	return papers.PURConvex
}

// planned is what a schedule knows.
func (s *setup) planned(l line) papers.Problem {
	return papers.Problem{
		Records: len(s.y), Dim: s.d, Lipschitz: s.z, Smoothness: s.problem().smoothness(), StrongConvexity: s.lambda,
		InitialGap: math.Ln2, Radius: reach / s.z, K: l.k, Sigma: l.sigma,
	}
}

// rho is a line's budget: that of the paper's conversion, or of the exact one.
func (s *setup) rho(l line, epsilon float64) float64 {
	if l.byPaper {
		return s.budget(epsilon)
	}
	rho, err := papers.GaussianBudget(epsilon, 1/float64(len(s.y)))
	if err != nil {
		return 0 // which plans nothing
	}
	return rho
}

// network is logistic regression without an intercept, from zero, as the paper has it.
func (s *setup) network() (*nn.Network, error) {
	g := gorgonia.NewGraph()
	x := gorgonia.NewTensor(g, tensor.Float32, 4, gorgonia.WithShape(1, 1, 1, s.d), gorgonia.WithName("x"))
	w := gorgonia.NewMatrix(g, tensor.Float32, gorgonia.WithShape(s.d, 1), gorgonia.WithName("w"), gorgonia.WithInit(gorgonia.Zeroes()))
	rows, err := nn.Flatten(x)
	if err != nil {
		return nil, err
	}
	logits, err := gorgonia.Mul(rows, w)
	if err != nil {
		return nil, err
	}
	return nn.Lower(logits, nn.WithName(modelName), nn.WithLoss(nn.Logistic), nn.WithInput(x))
}

// jobs are the runs of lines at budgets with every seed, the oracle's, and the optimum.
func (s *setup) jobs(e *reproduce.Env, lines []line, epsilons []float64) (jobs []reproduce.Job) {
	for seed := 1; seed <= e.Seeds; seed++ {
		for _, epsilon := range epsilons {
			for _, l := range lines {
				jobs = append(jobs, s.run(l, epsilon, seed))
			}
			jobs = append(jobs, s.problem().oracle(s.panel, s.source, epsilon, s.budget(epsilon), cmp.Or(s.slow, s.most), seed))
		}
	}
	if s.lambda > 0 {
		jobs = append(jobs, s.problem().optimum(s.panel, s.source))
	}
	for i := range jobs {
		jobs[i].Label = strings.TrimPrefix(s.label+"; "+relation, "; ")
	}
	return jobs
}

// how is said under every figure.
var how = []string{
	"\"No step\" means that the budget does not pay for one step: such a run stays at θ = 0.",
	"Everything is under " + neighboring + ", at δ = 1/N. \"As printed\" and the constants are priced by zCDP and ε = ρ + 2·√(ρ·ln(1/δ)), as in the paper; the other lines are priced exactly (`--accountant gdp`).",
	"A schedule stops after so many steps at most: 300 on Synthetic, 500 on Iris and Breast cancer, 200 on MNIST and KDD, 100 on CIFAR-10. Constant noise and the oracle have the same limits, but on the large sets 20 on MNIST, 50 on KDD, 25 on CIFAR-10. Other methods choose their steps, except with a large Z on the large sets, where they make so many.",
	"Columns are standardized by the records' own mean and deviation, as in the paper. In a private run these have to be public constants.",
	"The risk F has the regularizer in it, and there is no intercept, as in the paper. L = Z, M = λ + Z²/4, F(0) − F* is bounded by ln 2, and runs start at θ = 0.",
	"The paper's L contains λR besides. That term is the same for neighboring data and cancels, so it is left out here.",
	fmt.Sprintf("\"About equal\" means that the interval of the difference is within %.0f%% of what there is to gain, from θ = 0 to the least risk of the panel. The words are the paper's, the figure ours.", 100*near),
	"A point at ε is a run whose budget ends there. The schedules do not depend on the budget, so this is where one long run would be when it has spent ε.",
	"A best constant is chosen in hindsight among σ = 0.001, 0.01, 0.1 and 1, by the mean risk over the same runs. Choosing costs no privacy here, as in the paper.",
}
