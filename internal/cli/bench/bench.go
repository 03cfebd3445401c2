// Package bench is the commands that measure how fast this machine is.
package bench

import (
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/privgrad/privgrad/bench"
	"github.com/privgrad/privgrad/internal/cli"
)

// New is the command that measures.
func New() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "bench",
		Short:   "Measure how fast this machine trains",
		Long:    "bench measures. Its figures hold for this machine and this moment: compare only what was measured side by side.",
		Example: "  privgrad bench step --model cnn-mnist --batch 256",
	}
	cmd.AddCommand(step(), lineSearch(), l2p(), gemm(), noise(), sampler(), account(), compare())
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

// besideFlags are those of a command that times other steps beside DP-SGD's.
func besideFlags(f *pflag.FlagSet, o *bench.StepOptions) {
	f.StringVar(&o.Activation, "activation", "relu", "relu or tanh")
	f.StringVar(&o.Device, "device", "auto", "auto, cpu, cuda, cuda:N or reference (slow)")
	f.IntVar(&o.Threads, "threads", 0, "processor threads, 0 for all")
	f.Float64Var(&o.Seconds, "seconds", 5, "time to measure for")
}
