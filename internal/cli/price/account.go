package price

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/internal/cli"
	"github.com/privgrad/privgrad/internal/usage"
)

// account is the JSON form of an account.
type account struct {
	Epsilon      real                 `json:"epsilon"`
	Delta        real                 `json:"delta"`
	Accountant   string               `json:"accountant"`
	Neighbouring string               `json:"neighbouring"`
	Group        int                  `json:"group,omitempty"` // records at once, where --group was given
	GroupMethod  string               `json:"group_method,omitempty"`
	Order        *real                `json:"order"`
	Interval     *accountant.Interval `json:"interval"`           // the Rényi accountants have an order instead
	Estimate     *real                `json:"estimate,omitempty"` // of prv
	RDP          *real                `json:"rdp,omitempty"`
	Events       []accountant.Event   `json:"events"`
	Guarantee    bool                 `json:"guarantee"`
	NoGuarantee  []string             `json:"not_a_guarantee_because"`
	Risk         *accountant.Risk     `json:"risk"` // null without a guarantee
	Warnings     []string             `json:"warnings"`
}

func accountLong() string {
	return `account computes what a training costs: ε at --delta, or δ at --epsilon. No data set
is read. For DP-SGD give --noise-multiplier, --sampling-rate and --steps. The noise
multiplier is σ/C: the noise in units of the clip norm. For anything else, list the
noisy releases in a JSON file and give it by --events.

--group K gives the cost for K records at once: all added, all removed, or, under replace-one,
all replaced. Use it if one person may have up to K records. For Gaussian noise on Poisson
batches or on all records, pld computes that cost directly, with a certified interval. For
anything else the output says that it is converted from one record's ε, which is much looser.
It is usually better to train with users as the privacy unit.

Instead of --sampling-rate you may give --batch and --public-n. Instead of --steps you may
give --epochs. If test records are held out of a table, --public-n counts the others only.

An events file looks like
  [{"batch": {"poisson": 0.01, "mechanisms": [{"mechanism": "gaussian", "noise_multiplier": 1}]}, "count": 1000},
   {"mechanism": "gaussian", "noise_multiplier": 5, "count": 3}]
Write all mechanisms that read the same batch into one batch event. Mechanisms are
  ` + strings.Join(accountant.Mechanisms(), ", ") + `.

--accountant chooses how the cost is computed:
  pld    privacy loss distributions: tight, with a certified interval; the default
  rdp    Rényi divergences: looser, and works for every mechanism and sampling
  prv    another discretization of the loss, as a cross-check of pld: NO GUARANTEE
  gdp    exact for Gaussian noise on all records
  zcdp   concentrated privacy, for Gaussian noise on all records
  ctcdp  fixed-size batches under replace-one, by the bound of Hong et al. 2021
  paper  the papers' own conversion of rdp's curve: NO GUARANTEE
An accountant that has no bound for an event refuses it and names others.`
}

// Account is the command that says what releases cost.
func Account() *cobra.Command {
	var a settings
	var file string
	var order float64
	var group int
	return cli.Command{
		Use:   "account",
		Short: "Say what a schedule of noisy releases costs",
		Long:  accountLong(),
		Example: `  privgrad account --noise-multiplier 1.1 --sampling-rate 0.01 --steps 1000 --delta 1e-5
  privgrad account --noise-multiplier 1.1 --batch 256 --public-n 60000 --epochs 60 --delta 1e-5
  privgrad account --noise-multiplier 1.1 --sampling-rate 0.01 --steps 1000 --epsilon 2
  privgrad account --noise-multiplier 1.1 --sampling-rate 0.001 --steps 1000 --delta 1e-5 --group 5
  echo '[{"mechanism": "gaussian", "noise_multiplier": 5, "count": 3}]' | privgrad account --events - --delta 1e-5 --json`,
		Flags: func(f *pflag.FlagSet) {
			a.define(f, 1, 1)
			f.StringVar(&file, "events", "", "read the releases from a JSON file, - for standard input")
			f.IntVar(&group, "group", 1, "number of records that are protected together, such as all records of one person")
			f.Float64Var(&order, "order", 0, "also print the Rényi divergence of all releases at this order, above 1")
		},
		Run: func(c *cli.Call) error {
			if c.Given("delta") == c.Given("epsilon") {
				return usage.Errorf("an account needs one of --delta and --epsilon: give --delta to get ε, or --epsilon to get δ")
			}
			if c.Given("order") && !(order > 1) {
				return usage.Errorf("order %v: must be above 1, as Rényi orders are", order)
			}
			if group < 1 {
				return usage.Errorf("group %d: must be 1 record or more", group)
			}
			if file != "" {
				if err := alone(c, file); err != nil {
					return err
				}
			}
			if err := a.check(c.Given); err != nil {
				return err
			}
			if c.Given("batch") && !a.counted(c.Given) {
				return usage.Errorf("--batch was given without a number of steps: give --steps or --epochs")
			}
			events, err := a.events(c, file)
			if err != nil {
				return err
			}
			o := accountant.Options{Accountant: a.Accountant, Neighbouring: a.Neighbouring, Delta: a.Delta, Order: order, Group: group}
			if c.Given("epsilon") {
				o.Epsilon = &a.epsilon
			}
			r, err := accountant.Account(events, o)
			if err != nil {
				return usage.Wrap(err)
			}
			out, err := accountOf(events, r, o)
			if err != nil {
				return usage.Wrap(err)
			}
			if c.Given("group") {
				out.Group, out.GroupMethod = group, string(cmp.Or(r.GroupMethod, "one-record"))
			}
			return c.Show(out, func(w io.Writer) { describeAccount(w, out, c.Given("epsilon"), order, r.OrderAtEdge) })
		},
	}.New()
}

func accountOf(events []accountant.Event, r accountant.Result, o accountant.Options) (account, error) {
	out := account{
		Epsilon: real(r.Epsilon), Delta: real(r.Delta), Accountant: r.Accountant, Neighbouring: string(r.Neighbouring),
		Events: events, NoGuarantee: noGuarantee(r.Accountant), RDP: (*real)(r.RDP),
		Interval: r.Interval, Estimate: (*real)(r.Estimate), Warnings: []string{},
	}
	switch {
	case math.IsInf(r.Epsilon, 0):
		out.NoGuarantee = append(out.NoGuarantee, "epsilon is infinite")
	case r.Delta >= 1:
		out.NoGuarantee = append(out.NoGuarantee, "delta 1 excludes nothing")
	case r.Order > 0:
		out.Order = (*real)(&r.Order)
	}
	if d := accountant.Doubt(r.Epsilon); d != "" {
		out.Warnings = append(out.Warnings, d)
	}
	if out.Guarantee = len(out.NoGuarantee) == 0; !out.Guarantee {
		return out, nil
	}
	var err error
	out.Risk, err = accountant.RiskOf(events, o)
	return out, err
}

// alone refuses what a file of events says, too.
func alone(c *cli.Call, file string) error {
	for _, name := range []string{"noise-multiplier", "sampling-rate", "batch", "public-n", "sampling", "steps", "epochs"} {
		if c.Given(name) {
			return usage.Errorf("--events %s and --%s were both given: the file describes every release, so leave out --%[2]s", file, name)
		}
	}
	return nil
}

// events are those of the file or the flags' one mechanism.
func (a *settings) events(c *cli.Call, file string) ([]accountant.Event, error) {
	if file == "" {
		if !c.Given("noise-multiplier") {
			return nil, usage.Errorf("nothing to account for: give --noise-multiplier, --sampling-rate and --steps, or --events FILE")
		}
		if a.Steps < 1 {
			return nil, usage.Errorf("steps %d: must be 1 or more", a.Steps)
		}
		return a.Events(a.sigma), nil
	}
	in := c.InOrStdin()
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, usage.Errorf("events %s cannot be read (%w): give the path of a JSON file, or - for standard input", file, usage.Cause(err))
		}
		defer f.Close()
		in = f
	}
	events, err := accountant.ParseEvents(in)
	if err != nil {
		return nil, usage.Errorf("events %s: %w", file, err)
	}
	return events, nil
}

func describeAccount(w io.Writer, a account, solvedDelta bool, order float64, atEdge bool) {
	if math.IsInf(float64(a.Epsilon), 0) {
		fmt.Fprintf(w, "ε is infinite at δ = %g\n", float64(a.Delta))
	} else {
		fmt.Fprintf(w, "ε = %.6g at δ = %.6g\n", float64(a.Epsilon), float64(a.Delta))
	}
	describeGroup(w, a)
	warn(w, a.NoGuarantee)
	for _, what := range a.Warnings {
		fmt.Fprintln(w, "warning: "+what)
	}
	describeRisk(w, a.Risk, a.Group)
	fmt.Fprintf(w, "\naccountant %s, %s neighbors", a.Accountant, a.Neighbouring)
	if a.Order != nil {
		fmt.Fprintf(w, ", at order %g", float64(*a.Order))
		if atEdge {
			fmt.Fprint(w, " (the last of its list: another order might give less)")
		}
	}
	fmt.Fprintln(w)
	if i := a.Interval; i != nil {
		what, word := "ε", "certified"
		if len(a.NoGuarantee) > 0 {
			word = "interval"
		}
		if solvedDelta {
			what = "δ"
		}
		fmt.Fprintf(w, "%s: %s is in [%.6g, %.6g] for the pairs that dominate these releases\n", word, what, i.Lower, i.Upper)
	}
	if a.RDP != nil {
		fmt.Fprintf(w, "Rényi divergence at order %g: %g\n", order, float64(*a.RDP))
	}
	for _, e := range a.Events {
		fmt.Fprintln(w, "  "+describeEvent(e))
	}
}

// describeGroup says for how many records at once an account is, and how it was found.
func describeGroup(w io.Writer, a account) {
	if a.Group <= 1 {
		return
	}
	what := "all added or all removed"
	if a.Neighbouring == string(accountant.ReplaceOne) {
		what = "all replaced"
	}
	how := fmt.Sprintf("computed for %d records at once", a.Group)
	if a.GroupMethod == string(accountant.GroupConverted) {
		how = "by the general conversion of group privacy from one record's ε, which is much looser than a direct bound"
	}
	fmt.Fprintf(w, "for up to %d records together, %s: %s\n", a.Group, what, how)
}

// numbers are a mechanism's numbers, as its JSON form names them.
func numbers(m accountant.Mechanism) string {
	b, err := json.Marshal(m)
	if err != nil {
		return err.Error()
	}
	return strings.NewReplacer("{", "", "}", "", `"`, "", "_", " ", ":", " ", ",", ", ").Replace(string(b))
}

func describeEvent(e accountant.Event) string {
	var asked []string
	for _, m := range e.Mechanisms {
		asked = append(asked, m.Name()+" with "+numbers(m))
	}
	what := strings.Join(asked, " and ")
	if e.Sampling == accountant.FullData {
		return fmt.Sprintf("%d × %s on all records", e.Count, what)
	}
	return fmt.Sprintf("%d × %s on a %s batch at rate %g", e.Count, what, strings.ReplaceAll(string(e.Sampling), "_", "-"), e.Rate)
}
