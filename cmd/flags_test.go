package cmd

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/privgrad/privgrad/internal/cli"
)

// Flags of every command say in the same words what they take, not in those of package strconv.
func TestFlagsSayWhatTheyTake(t *testing.T) {
	words := map[string]string{
		"int": "flag: not a whole number", "uint64": "flag: not a whole number, 0 or more;", "number": "flag: not a number;", "float64": "flag: not a number;",
		"ints": "flag: not a list of whole numbers such as 3,5;", "intSlice": "flag: not a list of whole numbers such as 3,5;", "bool": "true or false;",
		"string": "", "names": "", "stringSlice": "",
	}
	seen := map[string]bool{}
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		path := strings.Fields(c.CommandPath())[1:]
		if len(path) > 0 && path[0] == "completion" {
			return // cobra's own
		}
		tried := map[string]bool{} // a flag of each type
		c.Flags().VisitAll(func(f *pflag.Flag) {
			kind := f.Value.Type()
			want, known := words[kind]
			if !known {
				t.Errorf("%s --%s is of type %s, which this test does not know", c.CommandPath(), f.Name, kind)
			}
			if want == "" || tried[kind] {
				return
			}
			seen[kind], tried[kind] = true, true
			fails(t, cli.ExitUsage, append(path[:len(path):len(path)], "--"+f.Name+"=5e3x"), `invalid argument "5e3x"`, "--"+f.Name, want)
		})
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(newRoot())
	for kind, want := range words {
		if want != "" && !seen[kind] {
			t.Errorf("no flag is of type %s", kind)
		}
	}
	const steps = "--steps=99999999999999999999"
	for _, args := range [][]string{{"train", steps}, {"account", steps}} {
		fails(t, cli.ExitUsage, args, "flag: out of range;")
	}
	fails(t, cli.ExitUsage, []string{"schedule", "noisy-gd", "--n", "5e3"}, "flag: not a whole number;")
	fails(t, cli.ExitUsage, []string{"train", "--seed", "-1"}, "flag: not a whole number, 0 or more;")
}

// A value that a blank parts from its flag, which takes one behind = alone, is said to be that.
func TestValueBehindABlank(t *testing.T) {
	for line, want := range map[string]string{
		"train --search-normalise false":           "(write --search-normalise=false)",
		"train --search-normalize false":           "(write --search-normalize=false)",
		"train --out false --dry-run true":         "(write --dry-run=true)",
		"train --resume auto":                      "(write --resume=auto)",
		"eval some --json false":                   "(write --json=false)",
		"account --steps 3 --json=true --json 0":   "(write --json=0)",
		"train --class-names a, b --dry-run":       "(write --class-names a,b with",
		"train --class-names a,b --dry-run false":  "(write --dry-run=false)",
		"bench step --json false --mode something": "(write --json=false)",
	} {
		fails(t, cli.ExitUsage, strings.Fields(line), want)
	}
	for _, line := range []string{"train false", "train --out x false", "train --dry-run x", "train --dry-run -- false", "eval a --json b", "train --out --dry-run x"} {
		if r := privgrad(strings.Fields(line)...); r.code != cli.ExitUsage || strings.Contains(r.stderr, "write --") {
			t.Errorf("privgrad %s: exit %d, %s", line, r.code, r.stderr)
		}
	}
}
