package cmd

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/privgrad/privgrad/internal/cli"
	"github.com/privgrad/privgrad/internal/cli/data"
	"github.com/privgrad/privgrad/internal/cli/machine"
	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/internal/reproduce"
	"github.com/privgrad/privgrad/internal/reproduce/papers"
	"github.com/privgrad/privgrad/internal/usage"
)

func newReproduce() *cobra.Command {
	o := reproduce.Options{}
	return cli.Command{
		Use:   "reproduce [NAME|list]",
		Short: "Rerun a figure or table of the papers",
		Long: `reproduce reruns a figure or table of the papers. It writes NAME.csv with the figures of
every run, NAME.png with the picture, and NAME.md, which compares the paper's claims with
the outcome. Without a name, or with list, it lists the names:

` + figureList() + `
reproduce treats published benchmark data as public. It shows objectives on training data,
so its runs have NO GUARANTEE, whatever ε they state.

A figure may take hours. Finished runs are kept in NAME.csv, and the same command continues
from there. --quick does a fraction of the work; all its files say so. Runs whose data
files are missing are left out, with a line that says so.`,
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
			f.StringVar(&o.Out, "out", "figures", "folder to write to")
			f.IntVar(&o.Seeds, "seeds", 0, "runs per setting; 0: as many as the figure needs (3 with --quick)")
			f.BoolVar(&o.Quick, "quick", false, "do a fraction of the work; the figure differs and is labeled")
			f.StringVar(&o.Protector, "protector", "", "l2p figures: a name that `privgrad l2p list` shows, or a file (default: the figure's)")
			f.StringVar(&o.DataDir, "data-dir", "", "folder of the data files, or of mnist/, cifar10/, tabular/ (or $"+config.DataDirVariable+")")
			f.StringVar(&o.Device, "device", "cpu", "auto, cpu, cuda, cuda:N or reference (slow)")
			f.IntVar(&o.Threads, "threads", 0, "runs at a time, one thread each; 0: all cores; on a GPU one at a time")
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
	o.Stamp = time.Now().UTC().Format(time.DateOnly) + ", privgrad " + machine.Version().String()
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
