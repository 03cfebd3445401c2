// Package l2p is the commands about protectors: to meta-train one, and to list them.
package l2p

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/privgrad/privgrad/dpoptim/l2p"
	"github.com/privgrad/privgrad/internal/cli"
	"github.com/privgrad/privgrad/internal/usage"
)

// New is the command of protectors.
func New() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "l2p",
		Short: "List protectors, or train one on public tasks",
		Long: `l2p lists protectors and trains new ones. A protector is a pair of small LSTMs (Hong et
al. 2021): a scheduler chooses the noise of each private step, and a projector turns noised
gradients into updates. Protectors learn on public tasks, in simulated private runs.

To use one, run "privgrad train --optimizer l2p --protector NAME|FILE". The guarantee of
that run does not depend on what the protector has learned.`,
		Example: `  privgrad l2p list
  privgrad l2p train --data quadratic --out protectors/mine.safetensors`,
	}
	cmd.AddCommand(metaTrain(), list())
	return cmd
}

// listed is a protector in l2p list.
type listed struct {
	Name         string     `json:"name"`
	Tasks        []string   `json:"tasks"`
	EpsilonRange [2]float64 `json:"epsilon_range"`
	Neighbouring string     `json:"neighbouring"`
	Path         string     `json:"path"`
	Summary      string     `json:"summary"`
	Steps        int        `json:"steps"`
	Delta        float64    `json:"delta"`
	Adapts       bool       `json:"adapts"`
	Recipe       string     `json:"recipe"`
}

// protectors is the JSON form of l2p list.
type protectors struct {
	Protectors []listed `json:"protectors"`
}

func list() *cobra.Command {
	return cli.Command{
		Use:   "list [FILE...]",
		Short: "List the built-in protectors, and those in files",
		Long: `list shows the built-in protectors, then those in the files that you name: what each was
trained on, for which ε and number of steps, and the command that made it.`,
		Example: `  privgrad l2p list
  privgrad l2p list protectors/mine.safetensors --json`,
		Args: cobra.ArbitraryArgs,
		Run: func(c *cli.Call) error {
			shipped, err := l2p.Shipped()
			if err != nil {
				return err
			}
			all := protectors{[]listed{}}
			for _, p := range shipped {
				all.add(p, "built in")
			}
			for _, file := range c.Arguments {
				p, err := l2p.Read(file)
				if err != nil {
					return usage.Wrap(err)
				}
				all.add(p, file)
			}
			return c.Show(all, all.write)
		},
	}.New()
}

func (all *protectors) add(p *l2p.Protector, path string) {
	c := &p.Card
	all.Protectors = append(all.Protectors, listed{c.Name, c.Tasks, c.EpsilonRange, c.Neighbouring, path, c.Summary, c.Steps, c.Delta, p.Adapts(), c.Recipe})
}

func (all *protectors) write(w io.Writer) {
	for _, p := range all.Protectors {
		fmt.Fprintf(w, "%s (%s)\n", p.Name, p.Path)
		cli.Table(w, 0, func(w io.Writer) {
			cli.Row(w, "  what", "%s", p.Summary)
			cli.Row(w, "  trained on", "%s", strings.Join(p.Tasks, ", "))
			cli.Row(w, "  for", "ε %g to %g, δ %g, %s; %s", p.EpsilonRange[0], p.EpsilonRange[1], p.Delta, p.Neighbouring, cli.Plural(p.Steps, "step"))
			cli.Row(w, "  noise", "%s", map[bool]string{true: "of each step follows released values", false: "the same in all steps"}[p.Adapts])
			cli.Row(w, "  made by", "%s", p.Recipe)
		})
	}
	fmt.Fprintln(w, "\nNext:\n  privgrad train --optimizer l2p --protector NAME --epsilon 0.2")
}
