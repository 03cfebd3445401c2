package price

import (
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/internal/cli"
	"github.com/privgrad/privgrad/internal/usage"
)

// calibration is the JSON form of a calibrated schedule.
type calibration struct {
	NoiseMultiplier float64          `json:"noise_multiplier"`
	Epsilon         real             `json:"epsilon"` // reached, never above the target; null without a δ
	Delta           real             `json:"delta"`
	Accountant      string           `json:"accountant"`
	Neighbouring    string           `json:"neighbouring"`
	SamplingRate    float64          `json:"sampling_rate"`
	Steps           int              `json:"steps"`
	Guarantee       bool             `json:"guarantee"`
	NoGuarantee     []string         `json:"not_a_guarantee_because"`
	Risk            *accountant.Risk `json:"risk"` // null without a guarantee
}

// Calibrate is the command that finds what a budget allows.
func Calibrate() *cobra.Command {
	var a settings
	var advantage float64
	return cli.Command{
		Use:   "calibrate",
		Short: "Find the noise, the steps or the sampling rate that a budget allows",
		Long: `calibrate finds the noise that a privacy budget needs: the smallest noise
multiplier that keeps ε within --epsilon at --delta, for --steps steps at
--sampling-rate. No data set is read.

To find the largest number of steps or the largest sampling rate instead, give
--noise-multiplier and leave out --steps or --sampling-rate.

Instead of --sampling-rate you may give --batch and --public-n. Instead of --steps you may
give --epochs. If test records are held out of a table, --public-n counts the others only.

Give --advantage in place of --epsilon to limit an attack. An attacker guesses whether
a record was used. The advantage is the rate of true positives minus the rate of false
positives: 0 means that the attacker learns nothing, 1 that every guess is right.
--advantage does not need --delta. With --delta, calibrate prints ε as well.`,
		Example: `  privgrad calibrate --epsilon 3 --delta 1e-5 --sampling-rate 0.01 --steps 1000
  privgrad calibrate --epsilon 3 --delta 1e-5 --batch 256 --public-n 60000 --epochs 60
  privgrad calibrate --epsilon 3 --delta 1e-5 --sampling-rate 0.01 --noise-multiplier 1.1   # how many steps?
  privgrad calibrate --epsilon 3 --delta 1e-5 --steps 1000 --noise-multiplier 1.1           # how large a batch?
  privgrad calibrate --advantage 0.1 --sampling-rate 0.01 --steps 1000                      # limits an attack`,
		Flags: func(f *pflag.FlagSet) {
			a.define(f, 0, 0)
			f.Float64Var(&advantage, "advantage", 0, "limit the advantage of a membership attack, in (0, 1), in place of --epsilon")
		},
		Run: func(c *cli.Call) error { return a.calibrate(c, advantage) },
	}.New()
}

func (a *settings) calibrate(call *cli.Call, advantage float64) error {
	given := call.Given
	if err := a.check(given); err != nil {
		return err
	}
	schedule, target := a.Schedule, a.epsilon
	switch {
	case given("epsilon") == given("advantage"):
		return usage.Errorf("a calibration needs one target: give --epsilon with --delta, or --advantage")
	case given("advantage"):
		schedule, target = a.ByAdvantage(), advantage
	case !given("delta"):
		return usage.Errorf("--delta is missing: --epsilon means nothing without it; give one such as --delta 1e-5")
	}
	c := calibration{NoiseMultiplier: a.sigma, SamplingRate: a.SamplingRate, Steps: a.Steps, Accountant: a.Accountant, Neighbouring: string(a.Neighbouring)}
	var found string
	var err error
	switch rate, steps := a.rated(given), a.counted(given); {
	case !given("noise-multiplier") && rate && steps:
		c.NoiseMultiplier, _, err = schedule.Calibrate(target)
		found = fmt.Sprintf("noise multiplier %.6g", c.NoiseMultiplier)
	case given("noise-multiplier") && rate && !steps:
		c.Steps, _, err = schedule.CalibrateSteps(target, a.sigma)
		found = cli.Plural(c.Steps, "step")
	case given("noise-multiplier") && steps && !rate:
		c.SamplingRate, _, err = schedule.CalibrateSamplingRate(target, a.sigma)
		found = fmt.Sprintf("sampling rate %.6g", c.SamplingRate)
	default:
		return usage.Errorf("give exactly two of --noise-multiplier, --sampling-rate and --steps: calibrate finds the third; --batch with --public-n is a rate, and --epochs are steps")
	}
	if err != nil {
		return usage.Wrap(err)
	}
	if err := a.complete(&c, given("delta")); err != nil {
		return usage.Wrap(err)
	}
	return call.Show(c, func(w io.Writer) {
		fmt.Fprintln(w, found)
		warn(w, c.NoGuarantee)
		describeRisk(w, c.Risk, 1)
		fmt.Fprintln(w)
		if given("delta") {
			fmt.Fprintf(w, "ε = %.6g at δ = %g, by accountant %s, %s neighbors:\n", float64(c.Epsilon), float64(c.Delta), c.Accountant, c.Neighbouring)
		} else {
			fmt.Fprintf(w, "by accountant %s, %s neighbors:\n", c.Accountant, c.Neighbouring)
		}
		fmt.Fprintf(w, "%s of noise multiplier %.6g on %s batches at rate %.6g\n", cli.Plural(c.Steps, "step"), c.NoiseMultiplier, strings.Replace(a.sampling, "p", "P", 1), c.SamplingRate)
	})
}

// complete says what a schedule that was found costs.
func (a *settings) complete(c *calibration, delta bool) (err error) {
	c.NoGuarantee = noGuarantee(a.Accountant)
	c.Guarantee = len(c.NoGuarantee) == 0
	s := a.Schedule
	s.SamplingRate, s.Steps = c.SamplingRate, c.Steps
	c.Epsilon, c.Delta = real(math.NaN()), real(math.NaN())
	if delta {
		epsilon, err := s.Epsilon(c.NoiseMultiplier)
		if err != nil {
			return err
		}
		c.Epsilon, c.Delta = real(epsilon), real(a.Delta)
	}
	c.Risk, err = accountant.RiskOf(s.Events(c.NoiseMultiplier), accountant.Options{Accountant: s.Accountant, Neighbouring: s.Neighbouring, Delta: s.Delta})
	return err
}
