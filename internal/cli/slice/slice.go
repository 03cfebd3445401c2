// Package slice is the commands that lend a part of a run to another machine and take it back.
package slice

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/privgrad/privgrad/internal/cli"
	"github.com/privgrad/privgrad/internal/slice"
	"github.com/privgrad/privgrad/internal/usage"
)

// New is the command of slices.
func New() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "slice",
		Short: "Make a part of a run on another machine, for machines that are lent for minutes",
		Long: `slice has another machine make some steps of a run. The run stays at home with its ledger.
"slice out" charges the next steps there and writes a folder that may make these, and no
others. Copy the folder to the other machine, run "privgrad resume FOLDER" there, and copy
it back. "slice in" takes it into the run.

ε is that of the run. Steps of a slice that never comes back stay charged. Never start two
copies of one folder: no program can notice that, and their noise is charged once.`,
		Example: `  privgrad slice out runs/first --slots 500     # writes runs/first.slice-1
  privgrad slice in runs/first runs/first.slice-1`,
	}
	cmd.AddCommand(out(), in())
	return cmd
}

func out() *cobra.Command {
	var folder string
	var slots int
	return cli.Command{
		Use:   "out RUN --slots N",
		Short: "Charge the next N steps of a run, and write a folder that may make them",
		Long: `out charges the next N steps of an interrupted run and writes a folder that may make these
steps, and no others. Until the folder is taken back, or given up by "slice in RUN --lost",
the run cannot go on.

The folder has settings, a checkpoint, and a ledger of its own; no records, and no key. The
records must be on the other machine. No file of the folder has more than 16 MiB.

On the other machine, "privgrad resume FOLDER" makes the steps, once. Ctrl-C or SIGTERM
ends it early and saves: the steps that are left then go back to the run. A process that is
killed loses them. Methods that choose their noise as they go have no slices.`,
		Example:  "  privgrad slice out runs/first --slots 500",
		Args:     cli.OneArg("a run directory"),
		Required: []string{"slots"},
		Flags: func(f *pflag.FlagSet) {
			f.IntVar(&slots, "slots", 0, "number of steps: as many as the other machine surely makes")
			f.StringVar(&folder, "to", "", "folder to write, which must not exist (default RUN.slice-1, RUN.slice-2, …)")
		},
		Run: func(c *cli.Call) error {
			h := slice.Home{Dir: c.Arguments[0]}
			went, err := h.Out(slots, folder)
			if err != nil {
				return err
			}
			return cli.Show(c, went, describeOut)
		},
	}.New()
}

var errWhich = usage.Errorf("give the run and the folder of its slice, or the run and --lost")

// warn says that a run has no guarantee.
func warn(w io.Writer, label string) {
	if label != "" {
		fmt.Fprintf(w, "warning: %s\n", label)
	}
}

func describeOut(w io.Writer, o *slice.Outgoing) {
	warn(w, o.NotPrivate)
	fmt.Fprintf(w, "slice %d of %s is in %s: steps %d to %d of %d\n", o.Number, o.Run, o.Folder, o.First, o.Last, o.Committed)
	fmt.Fprintf(w, "They are charged, whatever becomes of the folder. Start one copy of it, once.\n\nNext:\n")
	fmt.Fprintf(w, "  privgrad resume %s      # where it is to run\n", cli.Quote(o.Folder))
	fmt.Fprintf(w, "  privgrad slice in %s %s\n", cli.Quote(o.Run), cli.Quote(o.Folder))
}

func in() *cobra.Command {
	var lost bool
	return cli.Command{
		Use:   "in RUN [FOLDER]",
		Short: "Take a slice back into its run, or give it up",
		Long: `in takes a slice back: its steps become the run's, as if they had been made there. Each
slice is taken in once. A folder that does not belong to the run, was not started, or fits
no longer is refused, and nothing changes.

If the process in the folder did not end by itself, what it saved is taken in. Its other
steps stay charged and are never made, because noise may have been drawn for them.

With --lost and no folder, the slice that is out is given up. Its steps stay charged, and
the run makes that many fewer.`,
		Example: `  privgrad slice in runs/first runs/first.slice-1
  privgrad slice in runs/first --lost`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 && len(args) != 2 {
				return errWhich
			}
			return nil
		},
		Flags: func(f *pflag.FlagSet) {
			f.BoolVar(&lost, "lost", false, "give up the slice that is out; its steps stay charged")
		},
		Run: func(c *cli.Call) error {
			h := slice.Home{Dir: c.Arguments[0]}
			var got *slice.Incoming
			var err error
			switch n := len(c.Arguments); {
			case lost && n == 1:
				got, err = h.Lost()
			case !lost && n == 2:
				got, err = h.In(c.Arguments[1])
			default:
				return errWhich
			}
			if err != nil {
				return err
			}
			return cli.Show(c, got, describeIn)
		},
	}.New()
}

func describeIn(w io.Writer, in *slice.Incoming) {
	warn(w, in.NotPrivate)
	what := "is in"
	if in.Lost {
		what = "is given up"
	}
	fmt.Fprintf(w, "slice %d of %s %s: the run stands at step %d, and %d of %d steps are charged\n", in.Number, in.Run, what, in.Step, in.Charged, in.Committed)
	if in.Skipped > 0 {
		fmt.Fprintf(w, "%d of its steps stay charged and are never made: the run makes that many fewer updates, for the same ε\n", in.Skipped)
	}
	if in.Returned > 0 {
		fmt.Fprintf(w, "%d of its steps were not begun, and go back to the run\n", in.Returned)
	}
	fmt.Fprintf(w, "\nNext:\n  privgrad resume %s      # or another slice\n", cli.Quote(in.Run))
}
