package price

import (
	"fmt"
	"io"
	"math"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/internal/cli"
	"github.com/privgrad/privgrad/internal/papers"
	"github.com/privgrad/privgrad/internal/usage"
)

// Schedule is the command that plans methods whose noise is fixed in advance.
func Schedule() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "schedule",
		Short: "Plan the noise and steps of a schedule, without data",
		Long: `schedule plans a method whose noise is fixed in advance. It prints how many steps a
budget allows, how much noise each step needs, and the conditions of the guarantee. No
data set is read. All schedules are for replace-one: two neighboring data sets have the
same public size and differ in one record.

Figures under "paper" are the paper's own, for comparison. They are NO GUARANTEE.`,
		Example: `  privgrad schedule pur-c --n 60000 --dim 784 --strong-convexity 0.001 --rho 0.5
  privgrad schedule ctcdp --epsilon 0.8 --delta 1e-8 --sampling-rate 0.01 --steps 400
  privgrad schedule rrpsgd --n 1000 --epsilon 1 --delta 1e-3 --json
  privgrad schedule banco --epsilon 2 --dim 5 --steps 30000`,
	}
	for _, x := range purs {
		cmd.AddCommand(x.method().command())
	}
	for _, m := range methods {
		cmd.AddCommand(m.command())
	}
	return cmd
}

// A method is a schedule that is planned by a command of its own.
type method struct {
	name, short, long, example string

	flags    []string // of those that define has
	hidden   []string // more of those
	required []string
	defaults inputs
	plan     func(in *inputs, given func(flag string) bool) (*plan, error)
}

// inputs are the public numbers that a plan is made of.
type inputs struct {
	n, dim, steps                          int
	epsilon, delta, rho, rate              float64
	f0, radius, k, clip                    float64
	lipschitz, smoothness, strongConvexity float64
}

func (m method) command() *cobra.Command {
	in := &m.defaults
	return cli.Command{
		Use: m.name, Short: m.short, Long: m.long, Example: m.example,
		Flags: func(f *pflag.FlagSet) {
			f.SortFlags = false
			all := in.define()
			for _, name := range m.flags {
				f.AddFlag(all.Lookup(name))
			}
			for _, name := range m.hidden {
				f.AddFlag(all.Lookup(name))
				f.Lookup(name).Hidden = true
			}
		},
		Required: m.required,
		Run: func(c *cli.Call) error {
			p, err := m.plan(in, c.Given)
			if err != nil {
				return usage.Wrap(err)
			}
			return c.Show(p, p.write)
		},
	}.New()
}

// define has a flag for each of them.
func (in *inputs) define() *pflag.FlagSet {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.IntVar(&in.n, "n", 0, "public number of records n")
	f.IntVar(&in.dim, "dim", 0, "number of parameters d")
	f.Float64Var(&in.epsilon, "epsilon", 0, "privacy budget ε")
	f.Float64Var(&in.delta, "delta", 0, "δ, in (0, 1)")
	f.Float64Var(&in.rho, "rho", 0, "budget ρ in zCDP, in place of --epsilon and --delta")
	f.Float64Var(&in.rate, "sampling-rate", 0, "share q of the records in a batch, whose size is fixed")
	f.IntVar(&in.steps, "steps", 0, "number of steps T")
	f.Float64Var(&in.clip, "clip", in.clip, "bound G on the norm of a record's gradient, which its client clips to")
	f.Float64Var(&in.k, "pur-k", 0, "noise over the expected gradient, k (default: the schedule as published)")
	f.Float64Var(&in.lipschitz, "lipschitz", in.lipschitz, "bound L on a record's gradient without the regularizer; for logistic loss √(Z²+1) with features of norm Z and an intercept, Z without one; with more than two classes √2 times that")
	f.Float64Var(&in.smoothness, "smoothness", 0, "smoothness of the loss with its regularizer (default L²/4 + μ, right for logistic loss)")
	f.Float64Var(&in.strongConvexity, "strong-convexity", 0, "strong convexity μ of the loss: the weight of the regularizer")
	f.Float64Var(&in.f0, "f0", in.f0, "public bound F0 on F(θ_0)−F*: from zero weights ln 2 for logistic loss, ln K with K classes")
	f.Float64Var(&in.radius, "radius", in.radius, "radius R of the ball that iterates are projected to; banco compares with weights of this norm")
	return f
}

const enforced = "the Lipschitz bound L holds for every record's gradient, by clipping, whatever the record holds"

// methods are those beside full-batch gradient descent.
var methods = []method{
	{
		name:  "ctcdp",
		short: "Divide an (ε, δ) budget over sampled steps (Hong et al. 2021)",
		long: `ctcdp divides an (ε, δ) budget into equal steps, as learned privacy protection does
(Hong et al. 2021, algorithm 3). Batches are subsets of the fixed size q·N, drawn anew
at each step. It prints

  a = ln(1/δ)/ε and ω_a = 1+a+√(a(a+1))
  ρ_a                     budget of the run
  ρ_0 = ρ_a/(13q²T)       budget of one step, before amplification by sampling
  ρ_ub = ln(1/q)/(4ω_a)   bound that each step must stay below

The plan is valid if ρ_0 and q meet every constraint of the amplification theorem. Each
constraint is listed with its figures. ctcdp never changes the sampling rate. If the plan
is not valid, try more steps or another rate.`,
		example: `  privgrad schedule ctcdp --epsilon 0.8 --delta 1e-8 --sampling-rate 0.01 --steps 400
  privgrad schedule ctcdp --epsilon 0.8 --delta 1e-8 --sampling-rate 0.01 --steps 30 --json   # too few steps`,
		flags:    []string{"epsilon", "delta", "sampling-rate", "steps"},
		required: []string{"epsilon", "delta", "sampling-rate", "steps"},
		plan:     planCtCDP,
	},
	{
		name:  "rrpsgd",
		short: "SGD on single records for a random number of rounds (Zhang et al. 2017)",
		long: `rrpsgd prints the noise of random round private SGD (Zhang et al. 2017, algorithm 2
and theorem 4) beside the noise that is enough. Each round takes one record at random. It adds noise of deviation
σ = 2L·√(ln(3n/δ)·ln(2/δ))/ε to the record's gradient, whose norm is clipped to L.
The number of rounds R is drawn before training: P(R = k+1) is proportional to
2η_k−βη_k². R is at most n², and n² rounds are charged.

The noise multiplier here is σ/(2L): in units of the sensitivity, not of L. The theorem
holds for ε of at most 1. The noise that is enough is the least for which n² rounds cost
(ε, δ) by accountant pld, at any ε. train --optimizer rrpsgd adds it.`,
		example: `  privgrad schedule rrpsgd --n 1000 --epsilon 1 --delta 1e-3
  privgrad schedule rrpsgd --n 1000 --epsilon 0.5 --delta 1e-3 --json`,
		flags:    []string{"n", "epsilon", "delta"},
		required: []string{"n", "epsilon", "delta"},
		plan:     planRRPSGD,
	},
	bancoMethod,
}

func planCtCDP(in *inputs, _ func(string) bool) (*plan, error) {
	c, err := papers.NewCtCDP(in.epsilon, in.delta, in.rate, in.steps)
	if err != nil {
		return nil, err
	}
	p := newPlan("ctcdp", "every batch is a fresh subset of a fixed size; Poisson batches need another accountant",
		"everything a step asks of its batch is within its ρ", "gradients are clipped to C, which makes the sensitivity of their sum 2C")
	var constraints []figures
	for _, x := range c.Constraints {
		constraints = append(constraints, figures{{"constraint", x.Name}, {"holds", x.Holds}, {"reason", x.Reason}})
		if !x.Holds {
			p.broken = append(p.broken, fmt.Sprintf("constraint %s is broken: %s", x.Name, x.Reason))
		}
	}
	sigma, least := 1/math.Sqrt(2*c.Step), 1/math.Sqrt(2*c.Limit)
	p.figures = figures{
		{"epsilon", in.epsilon}, {"delta", in.delta}, {"sampling_rate", in.rate}, {"steps", in.steps},
		{"a", c.A}, {"omega_a", c.Omega}, {"rho_a", c.Total}, {"rho_0", c.Step}, {"rho_ub", c.Limit},
		{"valid", c.Valid()}, {"constraints", constraints},
		{"sigma_over_sensitivity", sigma}, {"sigma_min_over_sensitivity", least},
	}
	word := "valid"
	if !c.Valid() {
		word = "NOT valid"
	}
	p.title = fmt.Sprintf("%s: %s at sampling rate %g within ε = %g, δ = %g", word, cli.Plural(in.steps, "step"), in.rate, in.epsilon, in.delta)
	p.row("a", "%.6g", c.A)
	p.row("ω_a", "%.6g", c.Omega)
	p.row("ρ_a, the run's budget", "%.6g", c.Total)
	p.row("ρ_0 of a step", "%.6g, σ = %.6g sensitivities", c.Step, sigma)
	p.row("ρ_ub, to stay below", "%.6g, σ = %.6g sensitivities", c.Limit, least)
	p.more = func(w io.Writer) {
		fmt.Fprintln(w)
		cli.Table(w, 0, func(w io.Writer) {
			for _, x := range c.Constraints {
				fmt.Fprintf(w, "%s\t%s\t%s\n", map[bool]string{true: "yes", false: "NO"}[x.Holds], x.Name, x.Reason)
			}
		})
	}
	return p, nil
}

func planRRPSGD(in *inputs, _ func(string) bool) (*plan, error) {
	r, err := papers.NewRRPSGD(in.n, in.epsilon, in.delta)
	if err != nil {
		return nil, err
	}
	enough, _, err := accountant.Schedule{
		SamplingRate: 1 / float64(in.n), Steps: r.Steps, Batch: accountant.SubsetBatch, Neighbouring: accountant.ReplaceOne, Accountant: accountant.PLD, Delta: in.delta,
	}.Calibrate(in.epsilon)
	if err != nil {
		return nil, err
	}
	needed := enough / 2 // in units of 2L
	p := newPlan("rrpsgd", enforced, "learning rates come from public numbers, also the bound on the loss at the start",
		"only the last iterate is released")
	if !r.Claimed {
		p.broken = append(p.broken, fmt.Sprintf("epsilon %g is above 1, where theorem 4 claims nothing", in.epsilon))
	}
	p.figures = figures{
		{"noise_multiplier", r.NoiseMultiplier}, {"noise_multiplier_needed", needed}, {"steps", r.Steps}, {"n", in.n}, {"epsilon", in.epsilon}, {"delta", in.delta},
	}
	p.title = fmt.Sprintf("noise σ = %.6g × 2L for (%g, %g)-DP over %d records", r.NoiseMultiplier, in.epsilon, in.delta, in.n)
	p.row("noise multiplier σ/(2L)", "%.6g", r.NoiseMultiplier)
	p.row("enough by accountant pld", "%.6g", needed)
	p.row("steps charged", "%d, whatever round it stops at", r.Steps)
	return p, nil
}
