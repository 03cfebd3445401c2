package bench

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/privgrad/privgrad/bench"
	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/internal/cli"
	"github.com/privgrad/privgrad/internal/cli/data"
	"github.com/privgrad/privgrad/internal/devices"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/perexample"
)

func step() *cobra.Command {
	o := bench.StepOptions{Images: data.OfShape}
	var size string
	return cli.Command{
		Use:   "step",
		Short: "Time whole training steps",
		Long: `step times whole training steps on batches of exactly --batch records: gather, forward,
backward, clip, secure noise and update. With --mode plain it times SGD without privacy,
and with --noise exact a private step whose sums are of integers. It needs no data
directory: models of 28×28 images read Fashion-MNIST, the others read synthetic bytes.
--image-size is for models that take any shape: it gives them synthetic records in half
precision, as fixed features are stored.`,
		Example: `  privgrad bench step --model cnn-mnist --batch 256
  privgrad bench step --model logistic --image-size 755x4x4 --batch 8192
  privgrad bench step --model cnn-mnist --batch 256 --mode plain --json
  privgrad bench step --model cnn-mnist --batch 256 --noise exact
  privgrad bench step --model cnn-mnist --strategy auto,conv2=gram --explain`,
		Flags: func(f *pflag.FlagSet) {
			f.SortFlags = false
			f.StringVar(&o.Model, "model", "cnn-mnist", "network; privgrad info lists all")
			f.IntVar(&o.Batch, "batch", 256, "records per step")
			f.IntVar(&o.Views, "views", 0, "views of each record, flipped and cropped at random, as of train")
			f.StringVar(&size, "image-size", "", "size of synthetic records, such as 755x4x4 (default: the model's)")
			f.StringVar(&o.Mode, "mode", "private", "private or plain")
			f.StringVar(&o.Noise, "noise", bench.SecureNoise, "secure or exact (sums in integers)")
			f.StringVar(&o.Strategy, "strategy", string(perexample.Auto), cli.Help("strategy"))
			f.StringVar(&o.Activation, "activation", "relu", "as of train, whose default is tanh")
			f.StringVar(&o.Device, "device", "auto", "auto, cpu, cuda, cuda:N or reference (slow)")
			f.StringVar(&o.GEMM, "gemm", devices.GEMMOwn, cli.Help("gemm"))
			f.StringVar(&o.Precision, "precision", "float32", cli.Help("precision"))
			f.IntVar(&o.Threads, "threads", 0, "CPU threads; 0: all")
			f.Float64Var(&o.Seconds, "seconds", 5, "seconds to measure for")
			f.BoolVar(&o.Explain, "explain", false, "list each layer's choice of --strategy, its estimated and its measured time")
		},
		Run: func(c *cli.Call) error {
			if size != "" {
				var err error
				if o.Input, err = (datasets.Declared{Size: size}).Shape(); err != nil {
					return usage.Wrap(err)
				}
			}
			if gpu, ok := strings.CutPrefix(o.Device, "modelled:"); ok { // as earlier versions took it
				return usage.Errorf("device %s: privgrad models no GPU; in its source, run `go run ./cmd/gpumodel step --gpu %s` instead", o.Device, gpu)
			}
			return measureSteps(&o, bench.Step, describeStep)(c)
		},
	}.New()
}

func describeStep(w io.Writer, r *bench.StepResult) {
	mode := r.Mode
	if r.Strategy != nil {
		mode += ", strategy " + *r.Strategy
	}
	if r.Noise != "" {
		mode += ", " + r.Noise + " noise"
	}
	if r.Views > 1 {
		mode += fmt.Sprintf(", %d views of each record", r.Views)
	}
	by := ""
	if r.GEMM == devices.GEMMCuBLAS {
		by = " and cuBLAS"
	}
	fmt.Fprintf(w, "%s (%s): %s, batch %d of %s, on %s in %s with %s%s\n\n", r.Model, r.Activation, mode, r.Batch, r.Data, r.Device, r.Precision, cli.Plural(r.Threads, "thread"), by)
	cli.Table(w, 0, func(w io.Writer) {
		fmt.Fprintf(w, "  records per second\t%.0f\n", r.ExamplesPerSecond)
		fmt.Fprintf(w, "  seconds per step\t%.4g, median of %d\n", r.StepSeconds, r.Steps)
		fmt.Fprintf(w, "  arithmetic\t%.3g GFLOP/s (%.3g MFLOP per record)\n", float64(r.FLOPsPerExample)*r.ExamplesPerSecond/1e9, float64(r.FLOPsPerExample)/1e6)
		fmt.Fprintf(w, "  parameters\t%d\n", r.Parameters)
		fmt.Fprintf(w, "  peak memory\t%s\n", cli.ByteSize(r.PeakRSS))
		fmt.Fprintf(w, "  records at a time\t%d\n", r.Together)
	})
	if len(r.Layers) == 0 {
		return
	}
	fmt.Fprintln(w)
	cli.Table(w, tabwriter.AlignRight, func(w io.Writer) {
		fmt.Fprintln(w, "layer\tchoice\tkFLOP/record\tkB/record\testimated\tmeasured\tforward\tbackward\tinstead\t")
		for _, l := range r.Layers {
			var instead []string
			for _, a := range l.Alternatives {
				if a.Choice != l.Choice {
					instead = append(instead, fmt.Sprintf("%s %.3g ms", a.Choice, a.Estimated*1e3))
				}
			}
			fmt.Fprintf(w, "%s\t%s\t%.1f\t%.1f\t%.3g ms\t%.3g ms\t%.3g ms\t%.3g ms\t%s\t\n", l.Name, l.Choice, float64(l.FLOPs)/1e3, float64(l.Bytes)/1e3,
				l.Estimated*1e3, l.Measured*1e3, l.Forward*1e3, l.Backward*1e3, strings.Join(instead, ", "))
		}
	})
	fmt.Fprintln(w, "\nEstimated and measured: gradients, norms and clipped sums. All times are per step, with a clock running.")
}

// besideFlags are those of a command that times other steps beside DP-SGD's.
func besideFlags(o *bench.StepOptions) func(*pflag.FlagSet) {
	return func(f *pflag.FlagSet) {
		f.SortFlags = false
		f.StringVar(&o.Model, "model", "cnn-mnist", "network; privgrad info lists all")
		f.IntVar(&o.Batch, "batch", 300, "records per batch")
		f.StringVar(&o.Activation, "activation", "relu", "as of train, whose default is tanh")
		f.StringVar(&o.Device, "device", "auto", "auto, cpu, cuda, cuda:N or reference (slow)")
		f.IntVar(&o.Threads, "threads", 0, "CPU threads; 0: all")
		f.Float64Var(&o.Seconds, "seconds", 5, "seconds to measure for")
	}
}

func lineSearch() *cobra.Command {
	o := bench.StepOptions{Images: data.OfShape, Strategy: string(perexample.Auto)}
	return cli.Command{
		Use:   "linesearch",
		Short: "Time a private line search beside a DP-SGD step",
		Long: `linesearch times DP-SGD steps and dp-blsgd steps in turns, on batches of --batch records.
A dp-blsgd step releases a direction, goes through 8 candidates along it, on a fresh batch,
and moves. "limit" is what its extra forward passes may cost: at the candidates, and at the
present parameters. It needs no data directory: models of 28×28 images read Fashion-MNIST,
the others read synthetic bytes.`,
		Example: `  privgrad bench linesearch --model cnn-mnist --batch 300
  privgrad bench linesearch --model mlp-mnist --batch 300 --threads 1 --json`,
		Flags: besideFlags(&o),
		Run:   measureSteps(&o, bench.LineSearch, describeLineSearch),
	}.New()
}

func describeLineSearch(w io.Writer, r *bench.LineSearchResult) {
	describeBeside(w, r.Subject, "", r.Turns, "with a line search", fmt.Sprintf("%s on a %s batch, form %s", cli.Plural(r.Tried, "candidate"), r.Batches, r.Form))
}

func describeBeside(w io.Writer, of bench.Subject, size string, t bench.Turns, what, how string) {
	fmt.Fprintf(w, "%s (%s)%s: batch %d of %s, on %s with %s\n\n", of.Model, of.Activation, size, of.Batch, of.Data, of.Device, cli.Plural(of.Threads, "thread"))
	cli.Table(w, 0, func(w io.Writer) {
		fmt.Fprintf(w, "  a DP-SGD step\t%.4g s, median of %d\n", t.DPSGDStepSeconds, t.Steps)
		fmt.Fprintf(w, "  %s\t%.4g s, %s\n", what, t.StepSeconds, how)
		fmt.Fprintf(w, "  ratio\t%.3g (limit %.3g)\n", t.Ratio, t.Limit)
	})
}

func l2p() *cobra.Command {
	o := bench.StepOptions{Images: data.OfShape, Strategy: string(perexample.Auto)}
	return cli.Command{
		Use:   "l2p",
		Short: "Time a learned update beside a DP-SGD step",
		Long: `l2p times DP-SGD steps and l2p steps in turns, on batches of --batch records. Both clip
and noise the gradient alike. An l2p step then makes each parameter's update by an LSTM of
2 layers of 20 units, with a state of 80 values per parameter. The weights of the LSTM are
random, which does not change the time.

The extra time grows with the number of parameters, not with the batch. "limit" is our
goal for cnn-mnist at batch 300. MLPs exceed it: they have many parameters and short steps.
It needs no data directory: models of 28×28 images read Fashion-MNIST, the others read
synthetic bytes.`,
		Example: `  privgrad bench l2p --model cnn-mnist --batch 300
  privgrad bench l2p --model mlp-fmnist --batch 300 --threads 1 --seconds 10 --json`,
		Flags: besideFlags(&o),
		Run:   measureSteps(&o, bench.L2P, describeL2P),
	}.New()
}

func describeL2P(w io.Writer, r *bench.L2PResult) {
	describeBeside(w, r.Subject, ", "+cli.Plural(r.Parameters, "parameter"), r.Turns, "a learned step", fmt.Sprintf("LSTM of %d layers of %d units", r.Layers, r.Hidden))
}
