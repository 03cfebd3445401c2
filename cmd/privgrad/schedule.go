package main

import (
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/spf13/cobra"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/accountant/papers"
	"github.com/privgrad/privgrad/internal/usage"
)

// planned is what the JSON forms of all schedules share.
type planned struct {
	Schedule     string   `json:"schedule"`
	Neighbouring string   `json:"neighbouring"`
	Guarantee    bool     `json:"guarantee"` // a run of it costs what it says, under the conditions
	NoGuarantee  []string `json:"not_a_guarantee_because"`
	Conditions   []string `json:"conditions"`
}

const enforced = "the Lipschitz bound L holds for every record's gradient, by clipping, whatever the record holds"

func newPlan(name string, conditions ...string) planned {
	return planned{Schedule: name, Neighbouring: string(accountant.ReplaceOne), NoGuarantee: []string{}, Conditions: conditions}
}

func (p planned) write(w io.Writer) {
	if len(p.NoGuarantee) > 0 {
		fmt.Fprintln(w)
	}
	for _, why := range p.NoGuarantee {
		fmt.Fprintln(w, "NO PRIVACY GUARANTEE: "+why)
	}
	fmt.Fprintf(w, "\n%s neighbours; conditions:\n", p.Neighbouring)
	for _, c := range p.Conditions {
		fmt.Fprintln(w, "  "+c)
	}
}

// row is a line of a table of two columns.
func row(w io.Writer, name, format string, a ...any) {
	fmt.Fprintf(w, "%s\t%s\n", name, fmt.Sprintf(format, a...))
}

func newSchedule() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "schedule",
		Short: "Say what a schedule would do, before any data are touched",
		Long: `schedule plans a method whose noise is fixed in advance: how many steps a budget
pays for, how much noise they get, and under which conditions. It is arithmetic
on public numbers; no data set is read. All schedules here are for replace-one:
neighbouring data sets have the same public size and differ in one record.

Figures under "paper" are a paper's own, beside ours; they are no guarantee.`,
		Example: `  privgrad schedule pur-c --n 60000 --dim 784 --strong-convexity 0.001 --rho 0.5
  privgrad schedule ctcdp --epsilon 0.8 --delta 1e-8 --sampling-rate 0.01 --steps 400
  privgrad schedule rrpsgd --n 1000 --epsilon 1 --delta 1e-3 --json`,
	}
	cmd.AddCommand(
		newPUR(papers.PURNonConvex),
		newPUR(papers.PURConvex),
		newPUR(papers.PURStronglyConvex),
		newCtCDP(),
		newRRPSGD(),
		newOutputPerturbation(),
	)
	return cmd
}

// require refuses a command line that leaves out a flag without a default.
func require(cmd *cobra.Command, names ...string) error {
	for _, name := range names {
		if !cmd.Flags().Changed(name) {
			return usage.Errorf("--%s is missing (%s): `%s --help` shows an example", name, cmd.Flags().Lookup(name).Usage, cmd.CommandPath())
		}
	}
	return nil
}

// losses are the flags that describe a loss.
type losses struct{ lipschitz, smoothness, strongConvexity float64 }

func (l *losses) define(cmd *cobra.Command) {
	f := cmd.Flags()
	f.Float64Var(&l.lipschitz, "lipschitz", 1, "bound L on a record's gradient without the regulariser: the clip of the features for logistic loss")
	f.Float64Var(&l.smoothness, "smoothness", 0, "smoothness of the loss with its regulariser (default L²/4 plus the strong convexity, as for logistic loss)")
	f.Float64Var(&l.strongConvexity, "strong-convexity", 0, "strong convexity μ of the loss: the regulariser's weight")
}

func (l *losses) complete(cmd *cobra.Command) {
	if !cmd.Flags().Changed("smoothness") {
		l.smoothness = l.lipschitz*l.lipschitz/4 + l.strongConvexity
	}
}

// purPlan is the JSON form of a PUR schedule.
type purPlan struct {
	planned
	Steps           int      `json:"steps"`
	Rho             float64  `json:"rho"`
	RhoSpent        float64  `json:"rho_spent"`
	SigmaFirst      float64  `json:"sigma_first"`
	SigmaLast       float64  `json:"sigma_last"`
	LearningRate    float64  `json:"learning_rate"`
	N               int      `json:"n"`
	Dim             int      `json:"dim"`
	Lipschitz       float64  `json:"lipschitz"`
	Smoothness      float64  `json:"smoothness"`
	StrongConvexity *float64 `json:"strong_convexity"` // null where the schedule does not use it
	F0              *float64 `json:"f0"`
	Radius          *float64 `json:"radius"`
	Ignored         []string `json:"ignored"` // flags that were given and are another schedule's
	Paper           struct {
		Steps     real   `json:"steps"` // by its closed form, not rounded
		RhoSpent  real   `json:"rho_spent"`
		Guarantee bool   `json:"guarantee"`
		Note      string `json:"note"`
	} `json:"paper"`
}

func newPUR(kind papers.PURKind) *cobra.Command {
	var p papers.Problem
	var l losses
	var rho float64
	var asJSON bool
	name := "pur-" + string(kind)
	about := map[papers.PURKind]struct{ short, noise, own, other, example string }{
		papers.PURNonConvex:      {"any smooth loss", "σ_t = 4M√F0/(√d·t), t = 1…T", "f0", "radius", ""},
		papers.PURConvex:         {"a convex loss on a ball", "σ_t = 4MR/(√d·t), t = 1…T, with iterates projected to a ball of radius R", "radius", "f0", " --radius 5"},
		papers.PURStronglyConvex: {"a strongly convex loss", "σ_t² = 2μF0·(1−μ/(2M))^t/d, t = 0…T−1", "strong-convexity", "radius", " --strong-convexity 0.001"},
	}[kind]
	cmd := &cobra.Command{
		Use:   name,
		Short: "Full-batch gradient descent with the noise schedule of Fay et al. 2023 for " + about.short,
		Long: fmt.Sprintf(`%s plans noisy full-batch gradient descent for %s
(Fay et al. 2023, proposition 3 (%s)):

  %s

with learning rate 1/(2M). σ_t is the deviation of the noise on each coordinate
of the mean gradient, whose sensitivity is 2L/N. T is the largest number of
steps whose costs ρ_t = (2L/N)²/(2σ_t²) sum to at most --rho in zCDP, found by
summing them; the closed form of the paper is shown beside it.

--f0 is a public bound on how far the loss can fall from where it starts; ln 2
is right for logistic loss from weights of zero, with any regulariser.
The paper's schedule (6) reads the gradient's norm without noise. It has no
price, and is not offered.`, name, about.short, kind, about.noise),
		Example: fmt.Sprintf(`  privgrad schedule %s --n 60000 --dim 784%s --rho 0.5
  privgrad schedule %[1]s --n 60000 --dim 784%s --rho 0.5 --lipschitz 2 --json`, name, about.example, about.example),
		Args: noArgs,
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.IntVar(&p.Records, "n", 0, "public number of records N")
	f.IntVar(&p.Dim, "dim", 0, "number of parameters d")
	f.Float64Var(&rho, "rho", 0, "budget ρ in zCDP")
	l.define(cmd)
	f.Float64Var(&p.InitialGap, "f0", math.Ln2, "public bound F0 on F(θ_0)−F*, ln 2 for logistic loss from zero weights")
	f.Float64Var(&p.Radius, "radius", 0, "radius R of the ball to which iterates are projected")
	jsonFlag(cmd, &asJSON)
	// One command line may ask for all three schedules in turn: what is
	// another's is accepted and named as ignored.
	f.Lookup(about.other).Hidden = true
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		needed := []string{"n", "dim", "rho"}
		if about.own != "f0" {
			needed = append(needed, about.own)
		}
		if err := require(cmd, needed...); err != nil {
			return err
		}
		l.complete(cmd)
		p.Lipschitz, p.Smoothness, p.StrongConvexity = l.lipschitz, l.smoothness, l.strongConvexity
		s, err := papers.NewPUR(kind, p, rho)
		if err != nil {
			return usage.Wrap(err)
		}
		out := purPlan{
			planned: newPlan(name, enforced, "each step adds fresh noise of its σ_t to the mean gradient of all records"),
			Steps:   s.Steps, Rho: rho, RhoSpent: s.Spent,
			SigmaFirst: s.Sigma(0), SigmaLast: s.Sigma(s.Steps - 1), LearningRate: s.LearningRate,
			N: p.Records, Dim: p.Dim,
			Lipschitz: p.Lipschitz, Smoothness: p.Smoothness, Ignored: []string{},
		}
		out.Guarantee = true
		switch kind {
		case papers.PURNonConvex:
			out.F0 = &p.InitialGap
			out.Conditions = append(out.Conditions, "n, smoothness and f0 are public, not measured on the records")
		case papers.PURConvex:
			out.Radius = &p.Radius
			out.Conditions = append(out.Conditions, "n, smoothness and radius are public, not measured on the records")
		case papers.PURStronglyConvex:
			out.F0, out.StrongConvexity = &p.InitialGap, &p.StrongConvexity
			out.Conditions = append(out.Conditions, "n, smoothness, strong convexity and f0 are public, not measured on the records")
		}
		if f.Changed(about.other) {
			out.Ignored = append(out.Ignored, about.other)
		}
		out.Paper.Steps, out.Paper.RhoSpent = real(s.PaperSteps), real(s.PaperSpent)
		out.Paper.Note = "its closed form bounds the sum of t² by T³ and stops early"
		if kind == papers.PURStronglyConvex {
			out.Paper.Note = "its closed form loses a factor of the condition number"
			if s.PaperSpent > rho {
				out.Paper.Note += " and overspends"
			}
		}
		return show(cmd, asJSON, out, func(w io.Writer) { describePUR(w, out) })
	}
	return cmd
}

func describePUR(w io.Writer, p purPlan) {
	fmt.Fprintf(w, "%s of %s spend ρ = %.6g of %g in zCDP\n\n", plural(p.Steps, "step"), p.Schedule, p.RhoSpent, p.Rho)
	table(w, 0, func(w io.Writer) {
		row(w, "noise σ on the mean gradient", "%.6g in the first step, %.6g in the last", p.SigmaFirst, p.SigmaLast)
		row(w, "learning rate 1/(2M)", "%.6g, M = %g", p.LearningRate, p.Smoothness)
		row(w, "the paper's own T", "%.6g steps, which spend ρ = %.6g: %s (not a guarantee)",
			float64(p.Paper.Steps), float64(p.Paper.RhoSpent), p.Paper.Note)
	})
	if len(p.Ignored) > 0 {
		fmt.Fprintf(w, "not used by %s: --%s\n", p.Schedule, strings.Join(p.Ignored, ", --"))
	}
	p.write(w)
}

// constraint is the JSON form of a condition and what decided it.
type constraint struct {
	Constraint string `json:"constraint"`
	Holds      bool   `json:"holds"`
	Reason     string `json:"reason"`
}

// ctcdpPlan is the JSON form of a ctCDP initialisation.
type ctcdpPlan struct {
	planned
	Epsilon      float64      `json:"epsilon"`
	Delta        float64      `json:"delta"`
	SamplingRate float64      `json:"sampling_rate"`
	Steps        int          `json:"steps"`
	A            real         `json:"a"`
	OmegaA       real         `json:"omega_a"`
	RhoA         real         `json:"rho_a"`
	Rho0         real         `json:"rho_0"`
	RhoUB        real         `json:"rho_ub"`
	Valid        bool         `json:"valid"`
	Constraints  []constraint `json:"constraints"`
	Sigma        real         `json:"sigma_over_sensitivity"`
	SigmaMin     real         `json:"sigma_min_over_sensitivity"`
}

func newCtCDP() *cobra.Command {
	var epsilon, delta, rate float64
	var steps int
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "ctcdp",
		Short: "Divide an (ε, δ) budget over sampled steps in constrained truncated CDP (Hong et al. 2021)",
		Long: `ctcdp computes what learning to protect starts from (Hong et al. 2021, algorithm
3): a = ln(1/δ)/ε, ω_a = 1+a+√(a(a+1)), the run's budget ρ_a, a step's share
ρ_0 = ρ_a/(13q²T) before amplification, and ρ_ub = ln(1/q)/(4ω_a), which no step
may reach. Batches are subsets of the fixed size q·N, drawn anew each step.

The plan is valid if ρ_0 and q keep every constraint of the amplification
theorem; each is listed with its figures. The sampling rate is never changed:
a plan that is not valid wants more steps, or another rate.`,
		Example: `  privgrad schedule ctcdp --epsilon 0.8 --delta 1e-8 --sampling-rate 0.01 --steps 400
  privgrad schedule ctcdp --epsilon 0.8 --delta 1e-8 --sampling-rate 0.01 --steps 30 --json   # too few steps`,
		Args: noArgs,
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.Float64Var(&epsilon, "epsilon", 0, "privacy budget ε")
	f.Float64Var(&delta, "delta", 0, "δ, in (0, 1)")
	f.Float64Var(&rate, "sampling-rate", 0, "share q of the records in a batch, whose size is fixed")
	f.IntVar(&steps, "steps", 0, "number of steps T")
	jsonFlag(cmd, &asJSON)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := require(cmd, "epsilon", "delta", "sampling-rate", "steps"); err != nil {
			return err
		}
		c, err := papers.NewCtCDP(epsilon, delta, rate, steps)
		if err != nil {
			return usage.Wrap(err)
		}
		out := ctcdpPlan{
			planned: newPlan("ctcdp", "every batch is a fresh subset of a fixed size; Poisson batches need another accountant",
				"everything a step asks of its batch is within its ρ", "gradients are clipped to C, which makes the sensitivity of their sum 2C"),
			Epsilon: epsilon, Delta: delta, SamplingRate: rate, Steps: steps,
			A: real(c.A), OmegaA: real(c.Omega), RhoA: real(c.Total), Rho0: real(c.Step), RhoUB: real(c.Limit), Valid: c.Valid(),
			Sigma: real(1 / math.Sqrt(2*c.Step)), SigmaMin: real(1 / math.Sqrt(2*c.Limit)),
		}
		out.Guarantee = out.Valid
		for _, x := range c.Constraints {
			out.Constraints = append(out.Constraints, constraint{x.Name, x.Holds, x.Reason})
			if !x.Holds {
				out.NoGuarantee = append(out.NoGuarantee, fmt.Sprintf("constraint %s is broken: %s", x.Name, x.Reason))
			}
		}
		return show(cmd, asJSON, out, func(w io.Writer) { describeCtCDP(w, out) })
	}
	return cmd
}

func describeCtCDP(w io.Writer, p ctcdpPlan) {
	word := "valid"
	if !p.Valid {
		word = "NOT valid"
	}
	fmt.Fprintf(w, "%s: %s at sampling rate %g within ε = %g, δ = %g\n\n", word, plural(p.Steps, "step"), p.SamplingRate, p.Epsilon, p.Delta)
	table(w, 0, func(w io.Writer) {
		row(w, "a", "%.6g", float64(p.A))
		row(w, "ω_a", "%.6g", float64(p.OmegaA))
		row(w, "ρ_a, the run's budget", "%.6g", float64(p.RhoA))
		row(w, "ρ_0 of a step", "%.6g, σ = %.6g sensitivities", float64(p.Rho0), float64(p.Sigma))
		row(w, "ρ_ub, to stay below", "%.6g, σ = %.6g sensitivities", float64(p.RhoUB), float64(p.SigmaMin))
	})
	fmt.Fprintln(w)
	table(w, 0, func(w io.Writer) {
		for _, c := range p.Constraints {
			holds := "yes"
			if !c.Holds {
				holds = "NO"
			}
			fmt.Fprintf(w, "%s\t%s\t%s\n", holds, c.Constraint, c.Reason)
		}
	})
	p.write(w)
}

// rrpsgdPlan is the JSON form of an RRPSGD plan.
type rrpsgdPlan struct {
	planned
	NoiseMultiplier real    `json:"noise_multiplier"` // σ/(2L)
	Steps           int     `json:"steps"`            // charged, whatever round it stops at
	N               int     `json:"n"`
	Epsilon         float64 `json:"epsilon"`
	Delta           float64 `json:"delta"`
}

func newRRPSGD() *cobra.Command {
	var n int
	var epsilon, delta float64
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "rrpsgd",
		Short: "SGD on single records that stops after a random number of rounds (Zhang et al. 2017)",
		Long: `rrpsgd gives the noise of random round private SGD (Zhang et al. 2017, algorithm
2 and theorem 4): each round takes one record at random, and adds noise of
σ = 2L·√(ln(3n/δ)·ln(2/δ))/ε to its gradient, L being an enforced bound on that
gradient's norm. The number of rounds R is drawn beforehand, P(R = k+1)
proportional to 2η_k−βη_k², from at most n²; n² are charged.

The noise multiplier is σ/(2L) here: in units of the sensitivity, not of L.
The theorem is for ε of at most 1.`,
		Example: `  privgrad schedule rrpsgd --n 1000 --epsilon 1 --delta 1e-3
  privgrad schedule rrpsgd --n 1000 --epsilon 0.5 --delta 1e-3 --json`,
		Args: noArgs,
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.IntVar(&n, "n", 0, "public number of records n")
	f.Float64Var(&epsilon, "epsilon", 0, "privacy budget ε, at most 1 for a guarantee")
	f.Float64Var(&delta, "delta", 0, "δ, in (0, 1)")
	jsonFlag(cmd, &asJSON)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := require(cmd, "n", "epsilon", "delta"); err != nil {
			return err
		}
		r, err := papers.NewRRPSGD(n, epsilon, delta)
		if err != nil {
			return usage.Wrap(err)
		}
		out := rrpsgdPlan{
			planned: newPlan("rrpsgd", enforced, "learning rates come from public numbers, also the bound on the loss at the start",
				"only the last iterate is released"),
			NoiseMultiplier: real(r.NoiseMultiplier), Steps: r.Steps, N: n, Epsilon: epsilon, Delta: delta,
		}
		if !r.Claimed {
			out.NoGuarantee = append(out.NoGuarantee, fmt.Sprintf("epsilon %g is above 1, where theorem 4 claims nothing", epsilon))
		}
		out.Guarantee = r.Claimed
		return show(cmd, asJSON, out, func(w io.Writer) {
			fmt.Fprintf(w, "noise σ = %.6g × 2L for (%g, %g)-DP over %d records\n\n", r.NoiseMultiplier, epsilon, delta, n)
			table(w, 0, func(w io.Writer) {
				row(w, "noise multiplier σ/(2L)", "%.6g", r.NoiseMultiplier)
				row(w, "steps charged", "%d, whatever round it stops at", r.Steps)
			})
			out.write(w)
		})
	}
	return cmd
}

// outputPlan is the JSON form of output perturbation.
type outputPlan struct {
	planned
	Sensitivity  real     `json:"sensitivity"`
	Mechanism    string   `json:"mechanism"`      // gamma-radius for pure ε, else gaussian
	RadiusScale  *real    `json:"radius_scale"`   // of the Gamma distribution, shape dim
	Sigma        *real    `json:"sigma"`          // of each coordinate
	RMSNoise     real     `json:"noise_rms_norm"` // root mean square of the noise's norm
	Epsilon      float64  `json:"epsilon"`
	Delta        float64  `json:"delta"`
	Steps        int      `json:"steps"`
	LearningRate float64  `json:"learning_rate"`
	N            int      `json:"n"`
	Dim          int      `json:"dim"`
	Paper        struct { // valid, and looser
		Sensitivity real `json:"sensitivity"`
	} `json:"paper"`
}

func newOutputPerturbation() *cobra.Command {
	var g papers.Descent
	var l losses
	var dim int
	var epsilon, delta float64
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "outpert-gd",
		Short: "Gradient descent whose last iterate alone is noised (Zhang et al. 2017)",
		Long: `outpert-gd gives the sensitivity of full-batch gradient descent on a convex loss
and the noise that its last iterate needs (Zhang et al. 2017, algorithm 1). The
sensitivity is the tight one: 2LηT/n, or (2L/(nμ))(1−(1−ημ)^T) with strong
convexity; the paper's looser bound is shown beside it.

Without --delta the noise gives pure ε: its length is Gamma-distributed with
shape d and scale Δ/ε, its direction uniform. With --delta it is Gaussian, by
the exact condition of Balle and Wang 2018, which holds at every ε.`,
		Example: `  privgrad schedule outpert-gd --n 60000 --dim 784 --steps 100 --epsilon 1
  privgrad schedule outpert-gd --n 60000 --dim 784 --steps 100 --strong-convexity 0.01 --epsilon 1 --delta 1e-6 --json`,
		Args: noArgs,
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.IntVar(&g.Records, "n", 0, "public number of records n")
	f.IntVar(&dim, "dim", 0, "number of parameters d")
	f.IntVar(&g.Steps, "steps", 0, "number of steps T")
	f.Float64Var(&epsilon, "epsilon", 0, "privacy budget ε")
	f.Float64Var(&delta, "delta", 0, "δ, in (0, 1); without it the guarantee is pure ε")
	f.Float64Var(&g.LearningRate, "lr", 0, "learning rate η (default 1/(smoothness + strong convexity))")
	l.define(cmd)
	jsonFlag(cmd, &asJSON)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := require(cmd, "n", "dim", "steps", "epsilon"); err != nil {
			return err
		}
		l.complete(cmd)
		g.Lipschitz, g.Smoothness, g.StrongConvexity = l.lipschitz, l.smoothness, l.strongConvexity
		if !f.Changed("lr") {
			g.LearningRate = 1 / (g.Smoothness + g.StrongConvexity)
		}
		if err := g.Validate(); err != nil {
			return usage.Wrap(err)
		}
		if dim < 1 {
			return usage.Errorf("dim %d: must be 1 or more", dim)
		}
		if !(epsilon > 0) || math.IsInf(epsilon, 0) {
			return usage.Errorf("epsilon %v: must be a finite number above 0", epsilon)
		}
		d := float64(dim)
		out := outputPlan{
			planned: newPlan("outpert-gd",
				"every record's loss is convex, and lipschitz and smoothness hold for it wherever the descent goes, whatever the record holds",
				"no iterate but the noised last one is released", "steps, n and the learning rate are public, not chosen on the records"),
			Sensitivity: real(g.Sensitivity()), Epsilon: epsilon, Delta: delta,
			Steps: g.Steps, LearningRate: g.LearningRate, N: g.Records, Dim: dim,
		}
		out.Guarantee = true
		out.Paper.Sensitivity = real(g.PaperSensitivity())
		if f.Changed("delta") {
			ratio, err := papers.AnalyticGaussian(epsilon, delta)
			if err != nil {
				return usage.Wrap(err)
			}
			sigma := real(ratio) * out.Sensitivity
			out.Mechanism, out.Sigma, out.RMSNoise = "gaussian", &sigma, sigma*real(math.Sqrt(d))
		} else {
			scale := real(papers.RadiusScale(g.Sensitivity(), epsilon))
			out.Mechanism, out.RadiusScale, out.RMSNoise = "gamma-radius", &scale, scale*real(math.Sqrt(d*(d+1)))
		}
		return show(cmd, asJSON, out, func(w io.Writer) { describeOutput(w, out) })
	}
	return cmd
}

func describeOutput(w io.Writer, p outputPlan) {
	fmt.Fprintf(w, "sensitivity %.6g after %s at learning rate %.6g\n\n", float64(p.Sensitivity), plural(p.Steps, "step"), p.LearningRate)
	table(w, 0, func(w io.Writer) {
		if p.Sigma != nil {
			row(w, fmt.Sprintf("noise for (%g, %g)-DP", p.Epsilon, p.Delta), "Gaussian, σ = %.6g on each of %d coordinates", float64(*p.Sigma), p.Dim)
		} else {
			row(w, fmt.Sprintf("noise for %g-DP", p.Epsilon), "length Gamma(%d, %.6g), direction uniform", p.Dim, float64(*p.RadiusScale))
		}
		row(w, "root mean square of its norm", "%.6g", float64(p.RMSNoise))
		row(w, "the paper's own sensitivity", "%.6g, valid and looser", float64(p.Paper.Sensitivity))
	})
	p.write(w)
}
