// Package budget is the commands of a budget over several runs on one data set.
package budget

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/internal/budget"
	"github.com/privgrad/privgrad/internal/cli"
	"github.com/privgrad/privgrad/internal/cli/data"
	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/internal/durable"
	"github.com/privgrad/privgrad/internal/plan"
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/internal/written"
	"github.com/privgrad/privgrad/train"
)

// New is the command of budgets.
func New() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "budget",
		Short: "Keep what several runs on one data set may cost together",
		Long: `budget keeps the privacy cost of several runs on one data set within one ε. "budget create"
writes a file with the ε and the δ that all runs may cost together. "privgrad train --budget
FILE" pays from it before a run begins, and refuses the run with exit code 3 where too little
is left. "budget show" says who spent what.

A run pays for its whole schedule. A run that is interrupted gets nothing back, and pays
nothing more when it goes on.`,
		Example: `  privgrad budget create photos.budget --data dir:photos --epsilon 3 --delta 1e-5
  privgrad train --data dir:photos --class-names cat,dog --public-n 5000 --delta 1e-5 --epsilon 1 --budget photos.budget
  privgrad budget show photos.budget`,
	}
	cmd.AddCommand(create(), show())
	return cmd
}

// A creation is what a user says of a new budget.
type creation struct {
	data, neighbouring    string
	epsilon, delta, order float64
	runs                  string
	unit                  config.PrivacyUnit
}

func create() *cobra.Command {
	var n creation
	return cli.Command{
		Use:   "create FILE --data NAME --epsilon E --delta D",
		Short: "Write a new budget",
		Long: `create writes a budget for one data set. The file fixes the name of the data, ε, δ, the
neighboring relation, the privacy unit, and a Rényi order. Later runs pay by their Rényi
divergence at that order, and you may choose their settings by the results of earlier runs. A
method whose divergence is not known pays its ε, and its δ out of half of the budget's δ.

With --runs, the budget is for the runs of these files alone, each once. Their noise cannot
follow from results, so that they are priced together, which costs less.

Keep the file and FILE.lock beside it. Never change the file by hand, and never put an older
copy in its place. It names users and machines, so it is not for publishing.`,
		Example: `  privgrad budget create fashion.budget --data fmnist --epsilon 3 --delta 1e-5
  privgrad budget create two.budget --data fmnist --epsilon 2 --delta 1e-5 --runs a.yaml,b.yaml`,
		Args:     cli.OneArg("the file to write"),
		Required: []string{"data", "epsilon", "delta"},
		Flags: func(f *pflag.FlagSet) {
			f.SortFlags = false
			f.StringVar(&n.data, "data", "", "data set of all runs, as they name it by --data")
			f.Float64Var(&n.epsilon, "epsilon", 0, "ε that all runs may cost together")
			f.Float64Var(&n.delta, "delta", 0, "δ of that ε, well below one over the number of records")
			f.StringVar(&n.neighbouring, "neighbouring", string(accountant.AddRemove), "relation of all runs: add-remove or replace-one")
			f.StringVar(&n.unit.Unit, "unit", "", "privacy unit of all runs, as they name it by --unit (default one record)")
			f.StringVar(&n.unit.Users, "users", "", "the same, as they name it by --users")
			f.Float64Var(&n.order, "order", 0, "Rényi order of what runs pay (default: where most Gaussian releases fit)")
			f.StringVar(&n.runs, "runs", "", "files of the only runs, such as a.yaml,b.yaml, with commas between")
		},
		Run: func(c *cli.Call) error {
			f, err := n.file(c)
			if err != nil {
				return err
			}
			name := c.Arguments[0]
			if err := budget.Create(name, f); err != nil {
				return err
			}
			return cli.Show(c, shown(name, f, nil), describe)
		},
	}.New()
}

// file makes the budget.
func (n *creation) file(c *cli.Call) (*budget.File, error) {
	unit := n.unit.Identity()
	switch {
	case n.unit.Unit != "" && n.unit.Users != "":
		return nil, usage.Errorf("unit %s and users %s both say whose a record is: give one", n.unit.Unit, n.unit.Users)
	case n.data == "":
		return nil, usage.Errorf("data: name the data set of all runs, as they name it by --data")
	case c.Given("order") && n.runs != "":
		return nil, usage.Errorf("--order is for runs that are chosen later: leave it out with --runs")
	case c.Given("order") && n.order == 0:
		return nil, usage.Errorf("order 0: Rényi orders lie above 1")
	case n.runs == "":
		return budget.New(n.data, n.neighbouring, unit, n.epsilon, n.delta, n.order)
	}
	if _, err := budget.New(n.data, n.neighbouring, unit, n.epsilon, n.delta, 0); err != nil && !errors.Is(err, accountant.ErrBudget) {
		return nil, err
	}
	files, err := written.List(n.runs)
	if err != nil {
		return nil, usage.Errorf("runs %s: %w", n.runs, err)
	}
	var plans []*plan.Plan
	for _, file := range files {
		config := train.Default()
		if err := train.ReadConfig(file, &config); err != nil {
			return nil, err
		}
		p, err := plan.Resolve(config, plan.Options{Sources: data.Sources(), Facts: true})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		plans = append(plans, p)
	}
	return budget.Together(n.data, n.neighbouring, unit, n.epsilon, n.delta, files, plans)
}

// A Shown budget is the JSON form of one.
type Shown struct {
	File         string    `json:"file"`
	ID           string    `json:"id"`
	Created      time.Time `json:"created"`
	Data         string    `json:"data"`
	Neighbouring string    `json:"neighbouring"`
	Unit         string    `json:"privacy_unit"`
	Epsilon      float64   `json:"epsilon"`
	Delta        float64   `json:"delta"`
	Order        *float64  `json:"order"` // null where runs were declared
	budget.Total
	Left     float64    `json:"left_epsilon"`
	Runs     []shownRun `json:"runs"`
	Declared []declared `json:"declared"` // null where runs are chosen later
	Joint    *float64   `json:"joint_epsilon"`
	Checks   []check    `json:"checks"` // of the runs that were named
}

type shownRun struct {
	Number int `json:"number"`
	budget.Entry
	Spent float64 `json:"spent_epsilon"` // with all before
}

type declared struct {
	budget.Declared
	Taken bool `json:"taken"`
}

type check struct {
	Run    string `json:"run"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
}

func shown(name string, f *budget.File, checks []check) *Shown {
	s := &Shown{
		File: name, ID: f.ID, Created: f.Created, Data: f.Data, Neighbouring: f.Neighbouring, Unit: f.Unit, Epsilon: f.Epsilon, Delta: f.Delta,
		Order: f.Order, Total: f.Spent(), Left: f.Left(), Runs: []shownRun{}, Joint: f.Joint, Checks: append([]check{}, checks...),
	}
	for _, d := range f.Declared {
		s.Declared = append(s.Declared, declared{Declared: d})
	}
	for i, e := range f.Entries {
		part := *f
		part.Entries = f.Entries[:i+1]
		s.Runs = append(s.Runs, shownRun{i + 1, e, part.Spent().Epsilon})
		if e.Declared != nil {
			s.Declared[*e.Declared].Taken = true
		}
	}
	return s
}

// errDiffers is how a check of runs ends that found something.
var errDiffers = errors.New("the budget and these runs do not go together: the lines with DIFFERS say where; pay nothing more from this file until nothing differs")

func show() *cobra.Command {
	var file string
	return cli.Command{
		Use:   "show FILE [RUN...]",
		Short: "Say what runs have spent, and what is left",
		Long: `show lists each run that a budget has paid for: when, by whom, with which settings, and for how
much. Users and machines are as the system called them, which proves nothing.

With run directories, show checks that the budget still has what paid for them, and all that
stood before. An older copy of the file does not. Exit code 1 means that something differs.`,
		Example: `  privgrad budget show fashion.budget
  privgrad budget show fashion.budget runs/first runs/second --json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage.Errorf("name the file of a budget, such as `privgrad budget show fashion.budget`")
			}
			return nil
		},
		Flags: func(f *pflag.FlagSet) {
			f.StringVar(&file, "csv", "", "file to write, which must not exist: a line per run")
		},
		Run: func(c *cli.Call) error {
			name := c.Arguments[0]
			if err := cli.NewFile("csv", file); err != nil {
				return err
			}
			f, err := budget.Read(name)
			if err != nil {
				return err
			}
			checks, ok := compare(name, f, c.Arguments[1:])
			s := shown(name, f, checks)
			if file != "" {
				if err := durable.WriteFile(file, s.csv); err != nil {
					return err
				}
			}
			if err := cli.Show(c, s, describe); err != nil || ok {
				return err
			}
			return errDiffers
		},
	}.New()
}

// compare checks run directories against the budget.
func compare(name string, f *budget.File, runs []string) (all []check, ok bool) {
	ok = true
	for _, run := range runs {
		c := check{Run: run, OK: true, Detail: "the budget has paid for it, and has lost nothing since"}
		if err := f.CheckRun(name, rundir.Dir(run)); err != nil {
			c.OK, c.Detail, ok = false, err.Error(), false
		}
		all = append(all, c)
	}
	return all, ok
}

func number(x *float64) string {
	if x == nil {
		return ""
	}
	return strconv.FormatFloat(*x, 'g', -1, 64)
}

// csv writes a line per run.
func (s *Shown) csv(w io.Writer) error {
	out := csv.NewWriter(w)
	lines := [][]string{{"number", "paid", "name", "run", "user", "host", "settings", "divergence", "epsilon", "delta", "again", "spent_epsilon"}}
	for _, r := range s.Runs {
		lines = append(lines, []string{strconv.Itoa(r.Number), r.Paid.Format(time.RFC3339), r.Name, r.Run, r.User, r.Host, r.Settings,
			number(r.Divergence), number(r.Epsilon), number(r.Delta), strconv.FormatBool(r.Again), number(&r.Spent)})
	}
	return out.WriteAll(lines)
}

func describe(w io.Writer, s *Shown) {
	fmt.Fprintf(w, "Budget %s for runs on %s\n\n", s.File, s.Data)
	cli.Table(w, 0, func(w io.Writer) {
		row := func(name, format string, a ...any) { cli.Row(w, "  "+name, format, a...) }
		row("Budget", "ε = %g, δ = %g for %s (%s)", s.Epsilon, s.Delta, s.Unit, s.Neighbouring)
		row("Spent", "ε = %.4g by %s", s.Total.Epsilon, cli.Plural(len(s.Runs), "run"))
		row("Left", "ε = %.4g", s.Left)
		if s.Order != nil {
			row("Rényi order", "%g, at which runs cost %.4g together", *s.Order, s.Divergence)
			row("Own δ of runs", "%g of %g", s.Total.Delta, s.Delta/2)
		}
		for i, d := range s.Declared {
			name, state := "", "not begun"
			if i == 0 {
				name = "Declared"
			}
			if d.Taken {
				state = "begun"
			}
			row(name, "%s (%s)", d.Name, state)
		}
	})
	if len(s.Runs) > 0 {
		fmt.Fprintln(w)
		cli.Table(w, 0, func(w io.Writer) {
			fmt.Fprintln(w, "  run\tpaid\tby\tsettings\tcost\tspent ε")
			for _, r := range s.Runs {
				fmt.Fprintf(w, "  %s\t%s\t%s\t%.8s\t%s\t%.4g\n", r.Name, r.Paid.Format("2006-01-02 15:04"), strings.Trim(r.User+"@"+filepath.Base(r.Host), "@"), r.Settings, cost(r.Entry), r.Spent)
			}
		})
	}
	for i, c := range s.Checks {
		if i == 0 {
			fmt.Fprintln(w)
		}
		verdict := "ok     "
		if !c.OK {
			verdict = "DIFFERS"
		}
		fmt.Fprintf(w, "  %s  %s  %s\n", verdict, c.Run, c.Detail)
	}
}

// cost is what an entry takes, in words.
func cost(e budget.Entry) (text string) {
	switch {
	case e.Declared != nil:
		text = "declared"
	case e.Divergence != nil:
		text = fmt.Sprintf("divergence %.4g", *e.Divergence)
	default:
		text = fmt.Sprintf("ε %g, δ %g", *e.Epsilon, *e.Delta)
	}
	if e.Again {
		text += ", again"
	}
	return text
}
