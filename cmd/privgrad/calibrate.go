package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/internal/usage"
)

// calibration is the JSON form of a calibrated schedule.
type calibration struct {
	NoiseMultiplier float64  `json:"noise_multiplier"`
	Epsilon         float64  `json:"epsilon"` // reached, never above the target
	Delta           float64  `json:"delta"`
	Accountant      string   `json:"accountant"`
	Neighbouring    string   `json:"neighbouring"`
	SamplingRate    float64  `json:"sampling_rate"`
	Steps           int      `json:"steps"`
	Guarantee       bool     `json:"guarantee"`
	NoGuarantee     []string `json:"not_a_guarantee_because"`
}

func newCalibrate() *cobra.Command {
	var a accounting
	cmd := &cobra.Command{
		Use:   "calibrate",
		Short: "Find the noise, the steps or the sampling rate that a budget allows",
		Long: `calibrate solves a schedule of DP-SGD for what is missing. With --sampling-rate
and --steps it finds the smallest noise multiplier that keeps ε within
--epsilon at --delta; with --noise-multiplier and one of the two, the largest
value of the other.`,
		Example: `  privgrad calibrate --epsilon 3 --delta 1e-5 --sampling-rate 0.01 --steps 1000
  privgrad calibrate --epsilon 3 --delta 1e-5 --sampling-rate 0.01 --noise-multiplier 1.1   # how many steps?
  privgrad calibrate --epsilon 3 --delta 1e-5 --steps 1000 --noise-multiplier 1.1           # how large a batch?`,
		Args: noArgs,
	}
	a.define(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		given := cmd.Flags().Changed
		for _, name := range []string{"epsilon", "delta"} {
			if !given(name) {
				return usage.Errorf("--%s is missing: a calibration needs a target --epsilon and a --delta", name)
			}
		}
		s := accountant.Schedule{
			SamplingRate: a.rate, Steps: a.steps, Delta: a.delta,
			Neighbouring: accountant.Neighbouring(a.neighbouring), Accountant: a.accountant,
		}
		c := calibration{NoiseMultiplier: a.sigma, SamplingRate: a.rate, Steps: a.steps, Delta: a.delta, Accountant: a.accountant, Neighbouring: a.neighbouring}
		var found string
		var err error
		switch rate, steps := given("sampling-rate"), given("steps"); {
		case !given("noise-multiplier") && rate && steps:
			c.NoiseMultiplier, c.Epsilon, err = s.Calibrate(a.epsilon)
			found = fmt.Sprintf("noise multiplier %.6g", c.NoiseMultiplier)
		case given("noise-multiplier") && rate && !steps:
			c.Steps, c.Epsilon, err = s.CalibrateSteps(a.epsilon, a.sigma)
			found = plural(c.Steps, "step")
		case given("noise-multiplier") && steps && !rate:
			c.SamplingRate, c.Epsilon, err = s.CalibrateSamplingRate(a.epsilon, a.sigma)
			found = fmt.Sprintf("sampling rate %.6g", c.SamplingRate)
		default:
			return usage.Errorf("give two of --noise-multiplier, --sampling-rate and --steps: the third is found")
		}
		if err != nil {
			return usage.Wrap(err)
		}
		c.NoGuarantee = guarantee(a.accountant)
		c.Guarantee = len(c.NoGuarantee) == 0
		return show(cmd, a.asJSON, c, func(w io.Writer) {
			fmt.Fprintln(w, found)
			for _, why := range c.NoGuarantee {
				fmt.Fprintln(w, "NO PRIVACY GUARANTEE: "+why)
			}
			fmt.Fprintf(w, "\nε = %.6g at δ = %g, by accountant %s, %s neighbours:\n%s of noise multiplier %.6g on Poisson batches at rate %.6g\n",
				c.Epsilon, c.Delta, c.Accountant, c.Neighbouring, plural(c.Steps, "step"), c.NoiseMultiplier, c.SamplingRate)
		})
	}
	return cmd
}
