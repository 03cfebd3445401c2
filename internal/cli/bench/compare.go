package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/privgrad/privgrad/bench"
	"github.com/privgrad/privgrad/bench/compare"
	"github.com/privgrad/privgrad/internal/cli"
	"github.com/privgrad/privgrad/internal/durable"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/internal/written"
)

// A comparison is what is asked of bench compare.
type comparison struct {
	compare.Options
	file, out string
}

func comparing() *cobra.Command {
	x := &comparison{}
	return cli.Command{
		Use:   "compare [FILE]",
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
  peers/bin/pip install ` + strings.Join(compare.Requirements(), " ") + `

On a GPU (--device cuda) every process multiplies in the same --precision: float32
without TF32, tf32, or bf16 with sums in float32. There the peers are also measured in
CUDA graphs, and "torch plain-best" is the fastest of several plain steps: either layout
of images, of bf16 by autocast or pure, one graph a step. All are timed alike: many steps
between two waits, and then one. torch.compile needs a C++ compiler. A peer that is missing or fails is left
out, with a line that says so.

The ending of --out says what is written: all measurements (.json, after each model), a
picture (.svg or .png), or tables in Markdown (.md). With a FILE that --out FILE.json wrote,
compare measures nothing and shows what is in it, or draws it to another --out.`,
		Example: `  privgrad bench compare --python peers/bin/python --out compare.json
  privgrad bench compare compare.json --out compare.svg
  privgrad bench compare --model cnn-mnist --rounds 1 --seconds 1`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			x.file = args[0]
			return cli.OneArg("a file that --out FILE.json wrote")(cmd, args)
		},
		Flags: func(f *pflag.FlagSet) {
			f.SortFlags = false
			f.StringSliceVar(&x.Models, "model", compare.Usual(), "models, separated by commas; also "+strings.Join(compare.Models()[len(compare.Usual()):], ", "))
			f.StringSliceVar(&x.Peers, "peers", nil, "measure only these, such as 'jax vmap,opacus ghost' (default: all)")
			f.IntVar(&x.Batch, "batch", 0, "records in a step; 0: 300, or 250 of networks for 32x32 images")
			f.StringVar(&x.Device, "device", "cpu", "cpu or cuda, for every process")
			f.StringVar(&x.Precision, "precision", "float32", "of matrix products, for every process; on a GPU also tf32 or bf16")
			f.IntVar(&x.Threads, "threads", 0, "CPU threads of every process; 0: all")
			f.Float64Var(&x.Seconds, "seconds", 3, "seconds per entry and round")
			f.IntVar(&x.Rounds, "rounds", 3, "measurements per entry, in turns")
			f.StringVar(&x.Python, "python", "python3", "Python interpreter that has the peers")
			f.StringVar(&x.out, "out", "", "file to write, .json, .svg, .png or .md")
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
	if x.file != "" || ending(x.out) != "json" { // which has been written
		if err := x.write(measured); err != nil {
			return err
		}
	}
	return cli.Show(c, measured, describeComparison)
}

// write writes what --out asks for, if anything.
func (x *comparison) write(measured *compare.Result) error {
	if x.out == "" {
		return nil
	}
	return durable.WriteFile(x.out, func(w io.Writer) error {
		switch form := ending(x.out); form {
		case "json":
			e := json.NewEncoder(w)
			e.SetIndent("", "  ")
			return e.Encode(measured)
		case "md":
			return measured.Markdown(w)
		default:
			return measured.Draw(w, form)
		}
	})
}

// ending is the form that a file's name asks for.
func ending(file string) string { return strings.TrimPrefix(filepath.Ext(file), ".") }

func (x *comparison) check(c *cli.Call) error {
	forms := append([]string{"json", "md"}, compare.PictureFormats()...)
	switch err := cli.Output("out", x.out); {
	case err != nil:
		return err
	case x.out != "" && !slices.Contains(forms, ending(x.out)):
		return usage.Errorf("out %q: the file's name must end in .%s", x.out, strings.Join(forms, ", ."))
	case x.file == "":
		return nil
	}
	for _, name := range []string{"model", "peers", "batch", "device", "precision", "threads", "seconds", "rounds", "python"} {
		if c.Given(name) {
			return usage.Errorf("--%s has no effect with %s, as nothing is measured; remove one of them", name, x.file)
		}
	}
	return nil
}

// measurements are those of a file, or new ones.
func (x *comparison) measurements(c *cli.Call) (*compare.Result, error) {
	if x.file != "" {
		return readComparison(x.file)
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
	o := x.Options
	o.Program = []string{self}
	o.Machine, o.Version = thisMachine()
	o.Notice = func(line string) { con.Line("privgrad: " + line) }
	o.Progress = progress(con)
	defer con.Finish()
	if o.Device == "cpu" {
		o.Draws = bench.DrawsPerSecond
	}
	kept := 0
	if ending(x.out) == "json" {
		o.Keep = func(measured *compare.Result) error {
			if err := x.write(measured); err != nil {
				return err
			}
			kept = len(measured.Models)
			return nil
		}
	}
	measured, err := compare.Run(ctx, o)
	if err != nil && kept > 0 {
		err = fmt.Errorf("%w: measurements of %s are in %s", err, cli.Plural(kept, "model"), x.out)
	}
	return measured, err
}

func readComparison(file string) (*compare.Result, error) {
	b, err := os.ReadFile(file)
	if err == nil {
		b, err = written.Text(b)
	}
	if err != nil {
		return nil, usage.Errorf("%s cannot be read (%w): give a file that --out FILE.json wrote", file, usage.Cause(err))
	}
	c := &compare.Result{}
	if err := json.Unmarshal(b, c); err != nil {
		return nil, usage.Errorf("%s is not what --out FILE.json writes: %w", file, err)
	}
	if len(c.Models) == 0 {
		return nil, usage.Errorf("%s has no measurements; write one with privgrad bench compare --out FILE.json", file)
	}
	return c, nil
}

func describeComparison(w io.Writer, c *compare.Result) {
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
