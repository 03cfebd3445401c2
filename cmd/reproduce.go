package cmd

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/privgrad/privgrad/internal/cli"
	"github.com/privgrad/privgrad/internal/cli/data"
	"github.com/privgrad/privgrad/internal/plan"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/reproduce"
	"github.com/privgrad/privgrad/reproduce/papers"
)

func newReproduce() *cobra.Command {
	o := reproduce.Options{}
	return cli.Command{
		Use:   "reproduce [NAME|list]",
		Short: "Rerun a figure or table of the papers",
		Long: `reproduce reruns a figure or table of the papers and writes NAME.csv, with every
run's figures, NAME.png, and NAME.md, with what the paper claims beside what came
out. Without a name, or with list, it lists what there is:

` + figureList() + `
Published benchmark data count as public here: objectives on training data are
shown, and nothing has a guarantee, whatever ε it states.

It may take hours. What has finished is kept in NAME.csv: the same command goes
on from there. --quick does a fraction of the work, and says so everywhere. What
needs a file that is not there is left out, with a line that says so.`,
		Example: `  privgrad reproduce list
  privgrad reproduce rates --quick --out figures/quick
  privgrad reproduce fig3 --data-dir data --out figures`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usage.Errorf("%s takes one name, but was given %d: `%[1]s list` lists them", cmd.CommandPath(), len(args))
			}
			return nil
		},
		Flags: func(f *pflag.FlagSet) {
			f.SortFlags = false
			f.StringVar(&o.Out, "out", "figures", "directory of the files")
			f.IntVar(&o.Seeds, "seeds", 0, "runs of every setting, 0 for the figure's own number (3 with --quick)")
			f.BoolVar(&o.Quick, "quick", false, "do a fraction of the work, which is another figure and labelled so")
			f.StringVar(&o.Protector, "protector", "", "of the figures of learned protection: a name that privgrad l2p list shows, or a file (default the figure's own)")
			f.StringVar(&o.DataDir, "data-dir", "", "directory of the data files, or of folders mnist, cifar10, tabular (or "+plan.DataDirVariable+")")
			f.StringVar(&o.Device, "device", "cpu", "auto, cpu, cuda, cuda:N or reference (slow)")
			f.IntVar(&o.Threads, "threads", 0, "runs at a time, of a thread each, 0 for all cores; one at a time on a GPU")
		},
		Progress: true,
		Run: func(c *cli.Call) error {
			if len(c.Arguments) == 0 || c.Arguments[0] == "list" {
				return listFigures(c)
			}
			return rerun(c, c.Arguments[0], o)
		},
	}.New()
}

func rerun(c *cli.Call, name string, o reproduce.Options) error {
	figure, err := papers.Find(name)
	if err != nil {
		return err
	}
	ctx, con, err := c.Interruptible("stopping; what has finished is kept")
	if err != nil {
		return err
	}
	defer con.Release()
	o.Sources = data.Sources()
	o.Notice = func(line string) { con.Line("privgrad: " + line) }
	bar := 0
	o.Progress = func(done, total int, next string) {
		if total != bar { // some runs are planned when others have ended
			con.Finish()
			con.Start(total)
			bar = total
		}
		con.Update(done, fmt.Sprintf("run %d/%d, %s", done, total, next))
	}
	s, err := figure.Run(ctx, o)
	con.Finish()
	if err != nil {
		return err
	}
	return cli.Show(c, s, describeFigure)
}

func figureList() string {
	var b strings.Builder
	cli.Table(&b, 0, func(w io.Writer) {
		for _, f := range papers.Figures() {
			fmt.Fprintf(w, "  %s\t%s\n", f.Name, f.Short)
		}
	})
	return b.String()
}

func listFigures(c *cli.Call) error {
	type figure struct {
		Name   string `json:"name"`
		Title  string `json:"title"`
		Source string `json:"source"`
	}
	var list struct {
		Figures []figure `json:"figures"`
	}
	for _, f := range papers.Figures() {
		list.Figures = append(list.Figures, figure{f.Name, f.Short, f.Source})
	}
	return c.Show(list, func(w io.Writer) {
		fmt.Fprint(w, figureList())
		fmt.Fprintln(w, "\nNext:\n  privgrad reproduce NAME --quick --out figures/quick")
	})
}

// describeFigure tells a person what came out.
func describeFigure(w io.Writer, s *reproduce.Summary) {
	fmt.Fprintf(w, "%s (%s), rerun: %s, %d of them now, %s\n\nNO GUARANTEE: %s\n", s.Figure, s.Source, cli.Plural(s.Runs, "run"), s.RunsNow, cli.Plural(s.Seeds, "seed"), strings.Join(s.NoGuarantee, "; "))
	for _, l := range s.Labels {
		fmt.Fprintln(w, l)
	}
	for _, t := range s.Tables {
		fmt.Fprintf(w, "\n%s\n", t.Title)
		cli.Table(w, 0, func(w io.Writer) {
			fmt.Fprintln(w, "  "+strings.Join(t.Head, "\t"))
			for _, row := range t.Rows {
				fmt.Fprintln(w, "  "+strings.Join(row, "\t"))
			}
		})
	}
	fmt.Fprintln(w, "\nWhat is claimed, in our words")
	for _, c := range s.Claims {
		fmt.Fprintf(w, "  %s: %s (%s)\n", c.Verdict, c.Claim, c.Found)
	}
	if len(s.Skipped) > 0 {
		fmt.Fprintln(w, "\nLeft out")
		for _, l := range s.Skipped {
			fmt.Fprintln(w, "  "+l)
		}
	}
	fmt.Fprintf(w, "\nWritten: %s, %s, %s\n", s.CSV, s.Picture, s.Markdown)
}
