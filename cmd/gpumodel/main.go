// Gpumodel estimates a training step's time on a GPU that is not there, by a model of its kernels. It measures
// nothing. It is a program of its own, since the interpreter of kernels that it needs is no part of privgrad.
package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/privgrad/privgrad/bench"
	"github.com/privgrad/privgrad/internal/cli"
	"github.com/privgrad/privgrad/internal/cuda/model"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/nn"
	"github.com/privgrad/privgrad/perexample"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	root := cli.Root(&cobra.Command{
		Use:   "gpumodel",
		Short: "Model work on a GPU that is not there",
		Long: `gpumodel estimates the time of training steps, and of making features, on a GPU that you do not have.
It is ` + aModel + `: docs/internals/modelled.md says how it is made, and what it
leaves out. The same version gives the same figures on every machine.`,
		Example: "  go run ./cmd/gpumodel step --gpu h100 --model cnn-mnist --batch 300",
	}, step(), mapping())
	root.SetOut(stdout)
	root.SetErr(stderr)
	return cli.Execute(root, args)
}

func step() *cobra.Command {
	var o bench.StepOptions
	var gpu string
	var input []int
	var explain bool
	return cli.Command{
		Use:   "step",
		Short: "Model a training step",
		Long: `step models the training step that privgrad bench step times on a GPU, on batches of exactly
--batch records. The records are synthetic.`,
		Example: `  go run ./cmd/gpumodel step --gpu h100 --model cnn-mnist --batch 300 --explain
  go run ./cmd/gpumodel step --gpu a100 --model cifar-small --batch 250 --precision tf32 --json
  go run ./cmd/gpumodel step --gpu h200 --model mlp-fmnist --batch 4096 --mode plain`,
		Flags: func(f *pflag.FlagSet) {
			f.SortFlags = false
			f.StringVar(&gpu, "gpu", "h100", strings.Join(model.Names(), ", "))
			f.StringVar(&o.Model, "model", "cnn-mnist", "network; privgrad info lists all")
			f.IntVar(&o.Batch, "batch", 256, "records per step")
			f.IntSliceVar(&input, "input", nil, "channels, height and width of records, such as 755,4,4 (default: the model's)")
			f.StringVar(&o.Mode, "mode", "private", "private or plain")
			f.StringVar(&o.Strategy, "strategy", string(perexample.Auto), cli.Help("strategy"))
			f.StringVar(&o.Activation, "activation", "relu", strings.Join(nn.Activations(), ", ")+"; the default of train is tanh")
			f.StringVar(&o.Precision, "precision", "float32", cli.Help("precision"))
			f.BoolVar(&explain, "explain", false, "list layers and kernels")
		},
		Run: func(c *cli.Call) error {
			switch {
			case len(input) == 3:
				o.Input = [3]int(input)
			case input != nil:
				return usage.Errorf("input %v: give channels, height and width, such as 755,4,4", input)
			}
			r, err := modelStep(gpu, o, explain)
			if err != nil {
				return err
			}
			return cli.Show(c, r, describe)
		},
	}.New()
}

func describe(w io.Writer, r *result) {
	mode := r.Mode
	if r.Strategy != nil {
		mode += ", strategy " + *r.Strategy
	}
	fmt.Fprintf(w, "%s: %s, batch %d, in %s on %s\nThis is %s.\n\n", r.Model, mode, r.Batch, r.Precision, r.Machine.Title, r.Kind)
	cli.Table(w, 0, func(w io.Writer) {
		fmt.Fprintf(w, "  a step\t%.4g ms\n", 1e3*r.Seconds)
		fmt.Fprintf(w, "  its products alone\t%.4g ms at the full rate of the GPU\n", 1e3*r.Roofline)
		fmt.Fprintf(w, "  launches\t%d in %s, which take %.4g ms whatever they do\n", r.Launches, cli.Plural(r.Graphs, "graph"), 1e3*r.Floors)
		fmt.Fprintf(w, "  GPU memory moved\t%s\n", cli.ByteSize(r.DRAM))
		fmt.Fprintf(w, "  rows at a time\t%d\n", r.Together)
	})
	if len(r.Layers) > 0 {
		fmt.Fprintln(w)
		cli.Table(w, tabwriter.AlignRight, func(w io.Writer) {
			fmt.Fprintln(w, "layer\tchoice\tforward\tbackward\tgradient\t")
			for _, l := range r.Layers {
				fmt.Fprintf(w, "%s\t%s\t%.1f µs\t%.1f µs\t%.1f µs\t\n", l.Name, l.Choice, 1e6*l.Forward, 1e6*l.Backward, 1e6*l.Gradient)
			}
		})
	}
	if len(r.Kernels) > 0 {
		describeKernels(w, r.Kernels)
	}
	fmt.Fprintln(w, "\nWhat the model assumes:")
	for _, n := range r.Notes {
		fmt.Fprintf(w, "  - %s\n", n)
	}
}

// describeKernels has a line for each kind of launch.
func describeKernels(w io.Writer, all []model.Kernel) {
	fmt.Fprintln(w)
	cli.Table(w, tabwriter.AlignRight, func(w io.Writer) {
		fmt.Fprintln(w, "kernel\tblocks\ton an SM\twaves\tlaunches\teach\tbound by\tthroughput\tlatency\tL2\tDRAM\tFMA\tbank conflicts\tsectors/request\t")
		for _, g := range model.Group(all) {
			k := g.Kernel
			fmt.Fprintf(w, "%s\t%d × %d\t%d\t%d\t%d\t%.1f µs\t%s\t%.1f\t%.1f\t%.1f\t%.1f\t%.0f%%\t%.0f%%\t%.1f\t\n", k.Name, k.Blocks, k.Threads, k.Resident, k.Waves, g.Launches,
				1e6*k.Seconds, k.Bound, 1e6*k.Throughput, 1e6*k.Latency, 1e6*k.L2, 1e6*k.DRAM, 100*k.Counts.FMAShare(), 100*k.Counts.ConflictShare(), k.Counts.SectorsPerRequest())
		}
	})
}
