package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/privgrad/privgrad/bench"
	"github.com/privgrad/privgrad/bench/scale"
	"github.com/privgrad/privgrad/internal/cli"
	"github.com/privgrad/privgrad/internal/cli/machine"
	"github.com/privgrad/privgrad/internal/usage"
)

// A growth is what is asked of bench scale.
type growth struct {
	scale.Options
	point string // what a process of its own is to measure, in JSON
}

func growing() *cobra.Command {
	x := &growth{}
	return cli.Command{
		Use:   "scale [batch|records|disk]...",
		Short: "See how time and memory grow with the batch and with the table",
		Long: `scale shows how time and memory grow, by training steps on the CPU with made-up records.
It has three sweeps, and makes the first two where you name none:

  batch    larger batches of --model, out of as many records as the largest one
  records  more records of 100 bytes, at an expected batch of 4096. The network has 100
           inputs and two hidden layers of 256 units
  disk     the same with rows in files that are mapped into memory, as train reads shards.
           Only labels are then in the table. The files lie in the folder for temporary
           files, which the variable TMPDIR names, and are removed at the end

Each step draws its batch by Poisson sampling, as train does. The time per record is that
of a step without the drawing, over the records in its batch. Each size is measured in a
process of its own, once in each of --rounds rounds, by turns. So a machine whose speed
drifts is fair to all sizes.

"table" is the memory that the records take: their values, and 5 bytes for each label.
"beyond it" is what else the process takes in a step, and "at most" what else it takes at
any time, which is mostly before the first step, to compute ε. Pages of files do not count.

"over the first" compares the time per record with the first size. Below the table stands
how far the sizes are apart. The goal is 5%, for the time and for the memory beyond the
table.`,
		Example: `  privgrad bench scale
  TMPDIR=/var/tmp privgrad bench scale disk
  privgrad bench scale batch --model mlp-fmnist --batch 1024,8192 --rounds 1 --json`,
		Args: cobra.ArbitraryArgs,
		Flags: func(f *pflag.FlagSet) {
			f.SortFlags = false
			f.StringVar(&x.Model, "model", "cnn-mnist", "network of the sweep over batches; privgrad info lists all")
			f.IntSliceVar(&x.Batches, "batch", []int{1024, 4096, 16384, 60000}, "expected records per batch, in the sweep over batches")
			f.IntSliceVar(&x.Records, "public-n", []int{1_000_000, 10_000_000}, "records in the table, in sweeps over records")
			f.IntVar(&x.Threads, "threads", 0, "CPU threads; 0: all")
			f.Float64Var(&x.Seconds, "seconds", 3, "seconds per size and round, for at least three steps")
			f.IntVar(&x.Rounds, "rounds", 3, "measurements per size, in turns")
			f.StringVar(&x.point, "point", "", "")
			_ = f.MarkHidden("point") // there is one
		},
		Progress: true,
		Run:      x.run,
	}.New()
}

func (x *growth) run(c *cli.Call) error {
	if x.point != "" {
		return x.measure(c)
	}
	x.Sweeps, x.Batch = c.Arguments, 4096
	for _, n := range x.Records {
		x.Batch = min(x.Batch, n)
	}
	ctx, con, err := c.Interruptible("stopping the measurement")
	if err != nil {
		return err
	}
	defer con.Release()
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program, to measure it in a process of its own: %w", err)
	}
	x.Program = []string{self}
	x.Machine, x.Version = thisMachine()
	x.Progress = progress(con)
	defer con.Finish()
	r, err := scale.Run(ctx, x.Options)
	if err != nil {
		return err
	}
	return cli.Show(c, r, describeGrowth)
}

// measure is the part of a process of its own.
func (x *growth) measure(c *cli.Call) error {
	var p scale.Point
	if err := json.Unmarshal([]byte(x.point), &p); err != nil {
		return usage.Errorf("point %q: this flag is for the program itself; leave it out", x.point)
	}
	return measure(&p, scale.Measure, func(w io.Writer, m *scale.Measured) { fmt.Fprintf(w, "%+v\n", *m) })(c)
}

// thisMachine is where a measurement is made, and by which version.
func thisMachine() (bench.Machine, string) {
	m := machine.This()
	return bench.Machine{CPU: m.CPU, Cores: runtime.NumCPU(), OS: m.OS, Arch: m.Arch, Memory: m.Memory, Kernels: m.Kernels, Load: machine.Load()}, m.Build.String()
}

// progress shows a measurement's progress.
func progress(con *cli.Console) func(done, total int, next string) {
	started := false
	return func(done, total int, next string) {
		if !started {
			con.Start(total)
			started = true
		}
		con.Update(done, next)
	}
}

func size(bytes *int64) string {
	if bytes == nil {
		return "unknown"
	}
	return cli.ByteSize(*bytes)
}

func describeGrowth(w io.Writer, r *scale.Result) {
	fmt.Fprintf(w, "%s, %s, %s of %v s\n", r.Machine.CPU, cli.Plural(r.Threads, "thread"), cli.Plural(r.Rounds, "round"), r.Seconds)
	for _, s := range r.Sweeps {
		fmt.Fprintf(w, "\n%s (%s), %d parameters; records of %d bytes, %s\n\n", s.Model, s.Activation, s.Parameters, s.RecordBytes, map[string]string{"memory": "in memory", "disk": "on disk"}[s.Table])
		cli.Table(w, tabwriter.AlignRight, func(w io.Writer) {
			fmt.Fprintln(w, "records\tbatch\tms per step\tµs to draw its batch\tµs per record\tover the first\ttable\tbeyond it\tat most\t")
			for _, e := range s.Entries {
				fmt.Fprintf(w, "%d\t%d\t%.4g\t%.4g\t%.3f\t%.3f\t%s\t%s\t%s\t\n", e.Records, e.Batch, 1e3*e.StepSeconds, 1e6*e.SamplerSeconds, 1e6*e.RecordSeconds, e.OverFirst,
					cli.ByteSize(e.TableBytes), size(e.Beyond), size(e.Most))
			}
		})
		memory := "unknown"
		if s.MemorySpread != nil {
			memory = fmt.Sprintf("%.1f%%", 100**s.MemorySpread)
		}
		fmt.Fprintf(w, "\nlargest over smallest: time per record %.1f%% more, memory beyond the table %s more (goal: at most %.0f%%)\n", 100*s.CostSpread, memory, 100*r.Limit)
	}
}
