// Package bench is the commands that measure how fast this machine is.
package bench

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/privgrad/privgrad/bench"
	"github.com/privgrad/privgrad/internal/cli"
)

// New is the command that measures.
func New() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure how fast this machine trains",
		Long: `bench measures how fast this machine trains. The figures hold for this machine at this
moment. Compare only figures that were measured side by side.`,
		Example: "  privgrad bench step --model cnn-mnist --batch 256",
	}
	cmd.AddCommand(step(), lineSearch(), l2p(), gemm(), noise(), sampler(), growing(), account(), comparing())
	return cmd
}

// measure runs a measurement and shows what came out.
func measure[O, R any](o *O, run func(O) (R, error), write func(io.Writer, R)) func(*cli.Call) error {
	return func(c *cli.Call) error {
		r, err := run(*o)
		if err != nil {
			return err
		}
		return cli.Show(c, r, write)
	}
}

// measureSteps is measure where the number of threads has to be checked first.
func measureSteps[R any](o *bench.StepOptions, run func(bench.StepOptions) (R, error), write func(io.Writer, R)) func(*cli.Call) error {
	return func(c *cli.Call) error {
		if err := cli.CheckThreads(o.Threads); err != nil {
			return err
		}
		return measure(o, run, write)(c)
	}
}
