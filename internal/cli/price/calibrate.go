package price

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/privgrad/privgrad/internal/cli"
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

// Calibrate is the command that finds what a budget allows.
func Calibrate() *cobra.Command {
	var a settings
	return cli.Command{
		Use:   "calibrate",
		Short: "Find the noise, the steps or the sampling rate that a budget allows",
		Long: `calibrate solves a schedule of DP-SGD for what is missing. With --sampling-rate
and --steps it finds the smallest noise multiplier that keeps ε within
--epsilon at --delta; with --noise-multiplier and one of the two, the largest
value of the other.`,
		Example: `  privgrad calibrate --epsilon 3 --delta 1e-5 --sampling-rate 0.01 --steps 1000
  privgrad calibrate --epsilon 3 --delta 1e-5 --sampling-rate 0.01 --noise-multiplier 1.1   # how many steps?
  privgrad calibrate --epsilon 3 --delta 1e-5 --steps 1000 --noise-multiplier 1.1           # how large a batch?`,
		Flags: func(f *pflag.FlagSet) {
			a.define(f)
			for _, name := range []string{"sampling-rate", "steps"} {
				f.Lookup(name).DefValue = "0" // one of them may be what is found
			}
		},
		Run: func(c *cli.Call) error { return a.calibrate(c) },
	}.New()
}

func (a *settings) calibrate(call *cli.Call) error {
	given := call.Given
	for _, name := range []string{"epsilon", "delta"} {
		if !given(name) {
			return usage.Errorf("--%s is missing: a calibration needs a target --epsilon and a --delta", name)
		}
	}
	c := calibration{NoiseMultiplier: a.sigma, SamplingRate: a.SamplingRate, Steps: a.Steps, Delta: a.Delta, Accountant: a.Accountant, Neighbouring: string(a.Neighbouring)}
	var found string
	var err error
	switch rate, steps := given("sampling-rate"), given("steps"); {
	case !given("noise-multiplier") && rate && steps:
		c.NoiseMultiplier, c.Epsilon, err = a.Calibrate(a.epsilon)
		found = fmt.Sprintf("noise multiplier %.6g", c.NoiseMultiplier)
	case given("noise-multiplier") && rate && !steps:
		c.Steps, c.Epsilon, err = a.CalibrateSteps(a.epsilon, a.sigma)
		found = cli.Plural(c.Steps, "step")
	case given("noise-multiplier") && steps && !rate:
		c.SamplingRate, c.Epsilon, err = a.CalibrateSamplingRate(a.epsilon, a.sigma)
		found = fmt.Sprintf("sampling rate %.6g", c.SamplingRate)
	default:
		return usage.Errorf("give two of --noise-multiplier, --sampling-rate and --steps: the third is found")
	}
	if err != nil {
		return usage.Wrap(err)
	}
	c.NoGuarantee = noGuarantee(a.Accountant)
	c.Guarantee = len(c.NoGuarantee) == 0
	return call.Show(c, func(w io.Writer) {
		fmt.Fprintln(w, found)
		warn(w, c.NoGuarantee)
		fmt.Fprintf(w, "\nε = %.6g at δ = %g, by accountant %s, %s neighbours:\n%s of noise multiplier %.6g on Poisson batches at rate %.6g\n",
			c.Epsilon, c.Delta, c.Accountant, c.Neighbouring, cli.Plural(c.Steps, "step"), c.NoiseMultiplier, c.SamplingRate)
	})
}
