package bench

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/privgrad/privgrad/bench"
	"github.com/privgrad/privgrad/internal/cli"
)

func describeModelled(w io.Writer, r *bench.ModelledStep) {
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
		describeKernels(w, r)
	}
	fmt.Fprintln(w, "\nWhat the model assumes:")
	for _, n := range r.Notes {
		fmt.Fprintf(w, "  - %s\n", n)
	}
}

// describeKernels has a line for each kind of launch.
func describeKernels(w io.Writer, r *bench.ModelledStep) {
	fmt.Fprintln(w)
	cli.Table(w, tabwriter.AlignRight, func(w io.Writer) {
		fmt.Fprintln(w, "kernel\tblocks\ton an SM\twaves\tlaunches\teach\tbound by\tthroughput\tlatency\tL2\tDRAM\tFMA\tbank conflicts\tsectors/request\t")
		for _, g := range r.Groups() {
			k := g.Kernel
			fmt.Fprintf(w, "%s\t%d × %d\t%d\t%d\t%d\t%.1f µs\t%s\t%.1f\t%.1f\t%.1f\t%.1f\t%.0f%%\t%.0f%%\t%.1f\t\n", k.Name, k.Blocks, k.Threads, k.Resident, k.Waves, g.Launches,
				1e6*k.Seconds, k.Bound, 1e6*k.Throughput, 1e6*k.Latency, 1e6*k.L2, 1e6*k.DRAM, 100*k.Counts.FMAShare(), 100*k.Counts.ConflictShare(), k.Counts.SectorsPerRequest())
		}
	})
}
