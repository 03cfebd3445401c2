package bench

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/privgrad/privgrad/bench"
	"github.com/privgrad/privgrad/internal/cli"
	"github.com/privgrad/privgrad/internal/cli/data"
	"github.com/privgrad/privgrad/perexample"
)

func l2p() *cobra.Command {
	o := bench.L2POptions{StepOptions: bench.StepOptions{Images: data.OfShape, Strategy: string(perexample.Auto)}}
	return cli.Command{
		Use:   "l2p",
		Short: "Time a learned update beside a DP-SGD step",
		Long: `l2p times DP-SGD steps and, in turns with them, steps of learned privacy
protection on batches of --batch rows: the same clipped and noised gradient, then
an update that an LSTM of 2 layers of 20 units makes for every parameter by
itself, with a state of 80 values each. The LSTM's weights are random, which
changes no time. What it adds grows with the number of parameters and not with the
batch: the limit is what this program holds itself to for cnn-mnist at a batch of
300, and many parameters with a short step of their own, as an MLP has, cost more.
It needs no data directory: models of 28×28 images get Fashion-MNIST, the others
synthetic bytes.`,
		Example: `  privgrad bench l2p --model cnn-mnist --batch 300
  privgrad bench l2p --model mlp-fmnist --batch 300 --threads 1 --seconds 10 --json`,
		Flags: func(f *pflag.FlagSet) {
			f.SortFlags = false
			f.StringVar(&o.Model, "model", "cnn-mnist", "model; privgrad info lists them")
			f.IntVar(&o.Batch, "batch", 300, "rows of every batch")
			besideFlags(f, &o.StepOptions)
		},
		Run: func(c *cli.Call) error {
			if err := cli.CheckThreads(o.Threads); err != nil {
				return err
			}
			return measure(&o, bench.L2P, describeL2P)(c)
		},
	}.New()
}

func describeL2P(w io.Writer, r *bench.L2PResult) {
	fmt.Fprintf(w, "%s (%s), %s: batch %d of %s, on %s with %s\n\n", r.Model, r.Activation, cli.Plural(r.Parameters, "parameter"), r.Batch, r.Data, r.Device, cli.Plural(r.Threads, "thread"))
	cli.Table(w, 0, func(w io.Writer) {
		fmt.Fprintf(w, "  a DP-SGD step\t%.4g s, median of %d\n", r.DPSGDStepSeconds, r.Steps)
		fmt.Fprintf(w, "  a learned step\t%.4g s, LSTM of %d layers of %d units\n", r.StepSeconds, r.Layers, r.Hidden)
		fmt.Fprintf(w, "  ratio\t%.3g (limit %.3g)\n", r.Ratio, r.Limit)
	})
}
