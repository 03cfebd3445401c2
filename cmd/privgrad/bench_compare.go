package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/privgrad/privgrad/bench"
	"github.com/privgrad/privgrad/internal/durable"
	"github.com/privgrad/privgrad/internal/usage"
)

func newBenchCompare() *cobra.Command {
	o := bench.CompareOptions{}
	var from, out, picture, progress string
	var markdown, asJSON bool
	cmd := &cobra.Command{
		Use:   "compare",
		Short: "Time training steps beside PyTorch, Opacus and JAX",
		Long: `compare times the same training steps in this program, in Opacus (per-example
gradients by hooks, and ghost clipping), in torch.func and in JAX (vmap of grad),
and, without privacy, in PyTorch and JAX. Every measurement is a process of its
own on --threads processors; this program's own come before each peer's, in
--rounds rounds, so that a machine whose speed drifts is fair to all. The figure
for each is the median of its rounds, with the least and the most.

The peers are Python packages, and none has to be there. To install them:

  python3 -m venv peers
  peers/bin/pip install ` + strings.Join(bench.Requirements(), " ") + `

On a GPU (--device cuda) every process keeps to float32: TF32 is off in the peers,
and this program does not use it. torch.compile also needs a C++ compiler. What is missing or fails is left out,
with a line that says so.`,
		Example: `  privgrad bench compare --python peers/bin/python --out compare.json --plot compare.svg
  privgrad bench compare --models cnn-mnist --rounds 1 --seconds 1
  privgrad bench compare --from compare.json --markdown`,
		Args: noArgs,
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringSliceVar(&o.Models, "models", bench.CompareModels(), "models, with commas between")
	f.StringVar(&o.Device, "device", "cpu", "cpu or cuda, of every process")
	f.IntVar(&o.Threads, "threads", 0, "processor threads of every process, 0 for all")
	f.Float64Var(&o.Seconds, "seconds", 3, "time to measure for, in every round of every entry")
	f.IntVar(&o.Rounds, "rounds", 3, "measurements of every entry, in turns")
	f.StringVar(&o.Python, "python", "python3", "Python interpreter that has the peers")
	f.StringVar(&out, "out", "", "write all measurements to this file, as JSON")
	f.StringVar(&picture, "plot", "", "draw the measurements to this file, .svg or .png")
	f.StringVar(&from, "from", "", "measure nothing: show the measurements of this file, written by --out")
	f.BoolVar(&markdown, "markdown", false, "print Markdown tables")
	progressFlag(cmd, &progress)
	jsonFlag(cmd, &asJSON)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		format := strings.TrimPrefix(filepath.Ext(picture), ".")
		if picture != "" && !slices.Contains(bench.PictureFormats(), format) {
			return usage.Errorf("plot %q: the file's name must end in .%s", picture, strings.Join(bench.PictureFormats(), " or ."))
		}
		if markdown && asJSON {
			return usage.Errorf("--markdown and --json exclude each other: give one of them")
		}
		var c *bench.Comparison
		var err error
		if from != "" {
			for _, name := range []string{"models", "device", "threads", "seconds", "rounds", "python"} {
				if cmd.Flags().Changed(name) {
					return usage.Errorf("--from measures nothing, so that --%s has no meaning with it: leave one of them out", name)
				}
			}
			c, err = readComparison(from)
		} else {
			c, err = compare(cmd, o, progress)
		}
		if err != nil {
			return err
		}
		if out != "" {
			err := durable.WriteFile(out, func(w io.Writer) error {
				e := json.NewEncoder(w)
				e.SetIndent("", "  ")
				return e.Encode(c)
			})
			if err != nil {
				return err
			}
		}
		if picture != "" {
			if err := durable.WriteFile(picture, func(w io.Writer) error { return c.Draw(w, format) }); err != nil {
				return err
			}
		}
		if markdown {
			return c.Markdown(cmd.OutOrStdout())
		}
		return show(cmd, asJSON, c, func(w io.Writer) { describeComparison(w, c) })
	}
	return cmd
}

func compare(cmd *cobra.Command, o bench.CompareOptions, progress string) (*bench.Comparison, error) {
	c, err := newConsole(cmd.ErrOrStderr(), progress)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program, to measure it in a process of its own: %w", err)
	}
	m := machine()
	o.Program, o.Version = []string{self}, m.build.String()
	o.Machine = bench.Machine{CPU: m.CPU, Cores: runtime.NumCPU(), OS: m.OS, Arch: m.Arch, Memory: m.Memory, Kernels: m.Kernels, Load: load()}
	o.Notice = func(line string) { c.line("privgrad: " + line) }
	o.Progress = func(done, total int, next string) {
		if done == 0 {
			c.start(int64(total), false)
		}
		c.update(int64(done), next)
	}
	ctx, stop := interruptible(cmd.Context(), c, "stopping the measurement")
	defer stop()
	defer c.finish()
	return bench.Compare(ctx, o)
}

// load is the system's load average of the last minute, nil where it keeps none.
func load() *float64 {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return nil
	}
	first, _, _ := strings.Cut(string(b), " ")
	x, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return nil
	}
	return &x
}

func readComparison(file string) (*bench.Comparison, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, usage.Wrap(err)
	}
	c := &bench.Comparison{}
	if err := json.Unmarshal(b, c); err != nil {
		return nil, usage.Errorf("%s is not what --out writes: %w", file, err)
	}
	if len(c.Models) == 0 {
		return nil, usage.Errorf("%s has no measurements; write one with privgrad bench compare --out", file)
	}
	return c, nil
}

func describeComparison(w io.Writer, c *bench.Comparison) {
	fmt.Fprintf(w, "%s, %s, %s of %v s\n", c.Machine.CPU, plural(c.Threads, "thread"), plural(c.Rounds, "round"), c.Seconds)
	for _, m := range c.Models {
		fmt.Fprintf(w, "\n%s, %d parameters, batch %d\n", m.Model, m.Parameters, m.Batch)
		table(w, 0, func(w io.Writer) {
			fmt.Fprintln(w, "  step\tms, median\tleast\tmost\tpeak memory")
			for _, e := range m.Entries {
				fmt.Fprintf(w, "  %s %s\t%.4g\t%.4g\t%.4g\t%s\n", e.Peer, e.Mode, 1e3*e.Median, 1e3*e.Min, 1e3*e.Max, byteSize(e.PeakRSS))
			}
		})
		ratio := func(x *float64, format string, a ...any) {
			if x != nil {
				fmt.Fprintf(w, "  %.2f  "+format+"\n", append([]any{*x}, a...)...)
			}
		}
		r := m.Ratios
		ratio(r.PrivateOverPlain, "times our plain step is our private one")
		ratio(r.PrivatePeerOverPrivate, "times our private step is %s, the fastest private peer", r.FastestPrivatePeer)
		ratio(r.PlainPeerOverPlain, "times our plain step is %s, the fastest plain peer", r.FastestPlainPeer)
		ratio(r.PrivateOverPlainPeer, "times %s is our private step", r.FastestPlainPeer)
	}
}
