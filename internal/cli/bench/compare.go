package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/privgrad/privgrad/bench"
	"github.com/privgrad/privgrad/internal/cli"
	"github.com/privgrad/privgrad/internal/durable"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/internal/written"
)

// A comparison is what is asked of bench compare.
type comparison struct {
	bench.CompareOptions
	from, out, picture string
	markdown           bool
}

func compare() *cobra.Command {
	x := &comparison{}
	return cli.Command{
		Use:   "compare",
		Short: "Time training steps beside PyTorch, Opacus and JAX",
		Long: `compare times the same training step in privgrad and in its peers: Opacus (by hooks and
by ghost clipping), torch.func, and JAX (vmap of grad). Without privacy the peers are
PyTorch and JAX. Each measurement is a process of its own on --threads threads. Both
steps of privgrad are measured before each peer, in each of --rounds rounds, so that a
machine whose speed drifts is fair to all. compare prints the median, the least and the most of the rounds.
On a CPU it also times the draws of noise alone, and sets a private step beside a plain
one and these draws.

The peers are Python packages, and each is optional. To install them:

  python3 -m venv peers
  peers/bin/pip install ` + strings.Join(bench.Requirements(), " ") + `

On a GPU (--device cuda) every process multiplies in the same --precision: float32
without TF32, tf32, or bf16 with sums in float32. There the peers are also measured in
CUDA graphs. torch.compile needs a C++ compiler. A peer that is missing or fails is left
out, with a line that says so.`,
		Example: `  privgrad bench compare --python peers/bin/python --out compare.json --plot compare.svg
  privgrad bench compare --models cnn-mnist --rounds 1 --seconds 1
  privgrad bench compare --from compare.json --markdown`,
		Flags: func(f *pflag.FlagSet) {
			f.SortFlags = false
			f.StringSliceVar(&x.Models, "models", bench.CompareModels(), "models, separated by commas")
			f.StringSliceVar(&x.Peers, "peers", nil, "measure only these, such as 'jax vmap,opacus ghost' (default: all)")
			f.StringVar(&x.Device, "device", "cpu", "cpu or cuda, for every process")
			f.StringVar(&x.Precision, "precision", "float32", "of matrix products, for every process; on a GPU also tf32 or bf16")
			f.IntVar(&x.Threads, "threads", 0, "CPU threads of every process; 0: all")
			f.Float64Var(&x.Seconds, "seconds", 3, "seconds per entry and round")
			f.IntVar(&x.Rounds, "rounds", 3, "measurements per entry, in turns")
			f.StringVar(&x.Python, "python", "python3", "Python interpreter that has the peers")
			f.StringVar(&x.out, "out", "", "write all measurements to this file, as JSON, after each model")
			f.StringVar(&x.picture, "plot", "", "draw the measurements to this file, .svg or .png")
			f.StringVar(&x.from, "from", "", "measure nothing; show the measurements in this file, which --out wrote")
			f.BoolVar(&x.markdown, "markdown", false, "print Markdown tables")
		},
		Progress: true,
		Run:      x.run,
	}.New()
}

func (x *comparison) run(c *cli.Call) error {
	if err := x.check(c); err != nil {
		return err
	}
	measured, err := x.measurements(c)
	if err != nil {
		return err
	}
	if x.from != "" && x.out != "" {
		if err := x.write(measured); err != nil {
			return err
		}
	}
	if x.picture != "" {
		if err := durable.WriteFile(x.picture, func(w io.Writer) error { return measured.Draw(w, pictureFormat(x.picture)) }); err != nil {
			return err
		}
	}
	if x.markdown {
		return measured.Markdown(c.OutOrStdout())
	}
	return cli.Show(c, measured, describeComparison)
}

func (x *comparison) write(measured *bench.Comparison) error {
	return durable.WriteFile(x.out, func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(measured)
	})
}

func (x *comparison) check(c *cli.Call) error {
	if err := errors.Join(checkPicture(x.picture), cli.Output("out", x.out)); err != nil {
		return err
	}
	if x.markdown && c.JSON() {
		return usage.Errorf("--markdown and --json exclude each other: give one of them")
	}
	if x.from == "" {
		return nil
	}
	for _, name := range []string{"models", "peers", "device", "precision", "threads", "seconds", "rounds", "python"} {
		if c.Given(name) {
			return usage.Errorf("--%s has no effect with --from, which measures nothing; remove it", name)
		}
	}
	return nil
}

// measurements are those of a file, or new ones.
func (x *comparison) measurements(c *cli.Call) (*bench.Comparison, error) {
	if x.from != "" {
		return readComparison(x.from)
	}
	ctx, con, err := c.Interruptible("stopping the measurement")
	if err != nil {
		return nil, err
	}
	defer con.Release()
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program, to measure it in a process of its own: %w", err)
	}
	o := x.CompareOptions
	o.Program = []string{self}
	o.Machine, o.Version = thisMachine()
	o.Notice = func(line string) { con.Line("privgrad: " + line) }
	o.Progress = progress(con)
	defer con.Finish()
	if o.Device == "cpu" {
		o.Draws = bench.DrawsPerSecond
	}
	kept := 0
	if x.out != "" {
		o.Keep = func(measured *bench.Comparison) error {
			if err := x.write(measured); err != nil {
				return err
			}
			kept = len(measured.Models)
			return nil
		}
	}
	measured, err := bench.Compare(ctx, o)
	if err != nil && kept > 0 {
		err = fmt.Errorf("%w: measurements of %s are in %s", err, cli.Plural(kept, "model"), x.out)
	}
	return measured, err
}

func readComparison(file string) (*bench.Comparison, error) {
	b, err := os.ReadFile(file)
	if err == nil {
		b, err = written.Text(b)
	}
	if err != nil {
		return nil, usage.Errorf("--from %s cannot be read (%w): give a file that --out wrote", file, usage.Cause(err))
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
	fmt.Fprintf(w, "%s, %s, %s of %v s\n", c.Machine.CPU, cli.Plural(c.Threads, "thread"), cli.Plural(c.Rounds, "round"), c.Seconds)
	for _, m := range c.Models {
		fmt.Fprintf(w, "\n%s, %d parameters, batch %d\n", m.Model, m.Parameters, m.Batch)
		cli.Table(w, 0, func(w io.Writer) {
			fmt.Fprintln(w, "  step\tms, median\tleast\tmost\tpeak memory")
			for _, e := range m.Entries {
				fmt.Fprintf(w, "  %s %s\t%.4g\t%.4g\t%.4g\t%s\n", e.Peer, e.Mode, 1e3*e.Median, 1e3*e.Min, 1e3*e.Max, cli.ByteSize(e.PeakRSS))
			}
		})
		ratio := func(x *float64, format string, a ...any) {
			if x != nil {
				fmt.Fprintf(w, "  %.2f  "+format+"\n", append([]any{*x}, a...)...)
			}
		}
		r := m.Ratios
		ratio(r.PrivateOverPlain, "times our plain step is our private one")
		ratio(r.PrivateOverPlainAndNoise, "times our plain step and its noise is our private one")
		ratio(r.PrivatePeerOverPrivate, "times our private step is %s, the fastest private peer", r.FastestPrivatePeer)
		ratio(r.PlainPeerOverPlain, "times our plain step is %s, the fastest plain peer", r.FastestPlainPeer)
		ratio(r.PrivateOverPlainPeer, "times %s is our private step", r.FastestPlainPeer)
	}
	if len(c.Skipped) > 0 {
		fmt.Fprintln(w, "\nleft out")
	}
	for _, s := range c.Skipped {
		fmt.Fprintf(w, "  %s\n", s)
	}
}
