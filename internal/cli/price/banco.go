package price

import (
	"fmt"
	"math"

	"github.com/privgrad/privgrad/dpoptim/banco"
	"github.com/privgrad/privgrad/internal/cli"
)

var bancoMethod = method{
	name:  "banco",
	short: "SGD from locally private reports without a learning rate (Jun and Orabona 2019)",
	long: `banco prints the noise of a report and the bets of BANCO (Jun and Orabona 2019,
algorithm 1). Each of --steps records reports once, with --epsilon of its own. Its gradient is
clipped to norm G (--clip) and gets noise. Noise of density proportional to exp(−ε‖z‖/2G) has
a uniform direction and a length that follows a Gamma distribution of shape d and scale 2G/ε.
Along a direction it is sub-exponential with (σ₁D, b). A bet puts at most the share a on one
report.

The bound is that of theorem 2 with its constants: how far above the best weights of norm
--radius the average is expected to be, for a convex loss. The hemisphere mechanism is
shown beside it. Its reports are points of a sphere, and shorter in many dimensions.`,
	example: `  privgrad schedule banco --epsilon 2 --dim 5 --steps 30000
  privgrad schedule banco --epsilon 1 --clip 1.4143 --dim 109 --steps 32561 --json`,
	flags:    []string{"epsilon", "clip", "dim", "steps", "radius"},
	defaults: inputs{clip: 1, radius: 1},
	required: []string{"epsilon", "dim", "steps"},
	plan:     planBanco,
}

func planBanco(in *inputs, _ func(string) bool) (*plan, error) {
	b, err := banco.New(in.epsilon, in.clip, in.dim)
	switch {
	case err != nil:
		return nil, err
	case in.steps < 1:
		return nil, fmt.Errorf("steps %d: must be 1 or more", in.steps)
	case !(in.radius >= 0) || math.IsInf(in.radius, 0):
		return nil, fmt.Errorf("radius %v: must be a finite number, 0 or more", in.radius)
	}
	p := newPlan("banco", "every client clips its gradient to norm G and adds its own noise, whatever its record holds",
		"a record reports once; one that reports k times spends kε", "the loss is convex, for the bound on the excess; privacy does not need it")
	sphere := b.OnSphere()
	direction, onSphere := math.Sqrt(b.DirectionVariance()), math.Sqrt(sphere.DirectionVariance())
	p.figures = figures{
		{"epsilon", in.epsilon}, {"clip", in.clip}, {"dim", in.dim}, {"steps", in.steps}, {"radius", in.radius},
		{"scale", b.RadiusScale()}, {"noise_rms_norm", math.Sqrt(b.SecondMoment())}, {"sigma_direction", direction}, {"tail", b.Tail()},
		{"bet_limit", b.BetLimit()}, {"excess_bound", b.Excess(in.radius, in.steps)},
		{"hemisphere", figures{
			{"report_norm", sphere.Radius()}, {"sigma_direction", onSphere}, {"tail", sphere.Tail()}, {"bet_limit", sphere.BetLimit()},
			{"excess_bound", sphere.Excess(in.radius, in.steps)},
		}},
		{"paper", figures{{"sigma_direction", math.Sqrt(b.Printed().DirectionVariance())}, {"excess_bound", b.Printed().Excess(in.radius, in.steps)}}},
	}
	p.title = fmt.Sprintf("%s of %g-local privacy on %d parameters, gradients up to %g", cli.Plural(in.steps, "report"), in.epsilon, in.dim, in.clip)
	p.row("noise of a report", "length Gamma(%d, %.6g), direction uniform; root mean square %.6g", in.dim, b.RadiusScale(), math.Sqrt(b.SecondMoment()))
	p.row("along a direction", "σ₁D = %.6g, b = %.6g", direction, b.Tail())
	p.row("largest bet a", "%.6g", b.BetLimit())
	p.row("bound on the excess", "%.6g over weights of norm %g", b.Excess(in.radius, in.steps), in.radius)
	p.row("on hemispheres", "reports of norm %.6g, σ₁D = %.6g, b = %.6g, bound %.6g", sphere.Radius(), onSphere, sphere.Tail(), sphere.Excess(in.radius, in.steps))
	p.row("the paper's own σ", "%.6g, bound %.6g: of all coordinates, where one direction is enough", math.Sqrt(b.Printed().DirectionVariance()), b.Printed().Excess(in.radius, in.steps))
	return p, nil
}
