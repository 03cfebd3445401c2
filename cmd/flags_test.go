package cmd

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/privgrad/privgrad/internal/cli"
	"github.com/privgrad/privgrad/internal/config"
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
	fails(t, cli.ExitUsage, []string{"schedule", "pur-a", "--n", "5e3"}, "flag: not a whole number;")
	fails(t, cli.ExitUsage, []string{"train", "--seed", "-1"}, "flag: not a whole number, 0 or more;")
}

// A value that a blank parts from its flag, which takes one behind = alone, is said to be that.
func TestValueBehindABlank(t *testing.T) {
	for line, want := range map[string]string{
		"train --published-set false":              "(write --published-set=false)",
		"train --out false --dry-run true":         "(write --dry-run=true)",
		"train --resume auto":                      "(write --resume=auto)",
		"eval some --json false":                   "(write --json=false)",
		"account --steps 3 --json=true --json 0":   "(write --json=0)",
		"train --class-names a, b --dry-run":       "no spaces after commas",
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

// Every number of every command reads as decimal: 010 is ten, and what is written for programs is refused.
func TestNumbersAreDecimal(t *testing.T) {
	others := []string{"0x10", "0X10", "0b1", "0o7", "1_000", "0x1p-3"}
	check := func(name string, f *pflag.Flag, value func() string) {
		switch f.Value.Type() {
		case "bool", "string", "names", "stringSlice":
			return
		}
		for _, text := range others {
			if err := f.Value.Set(text); err == nil || !strings.Contains(err.Error(), "not a number in decimal digits, such as 10") {
				t.Errorf("%s=%s: %v, and it is %s", name, text, err, value())
			}
		}
		if err := f.Value.Set("010"); err != nil || strings.Trim(value(), "[]") != "10" {
			t.Errorf("%s=010 is %s (%v)", name, value(), err)
		}
	}
	numbers := 0
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Value.String() == "" { // those of settings, below
				return
			}
			numbers++
			check(c.CommandPath()+" --"+f.Name, f, f.Value.String)
		})
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(newRoot())
	if numbers < 150 {
		t.Errorf("%d flags were tried, fewer than there are", numbers)
	}
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	s := newSettings(flags, everySetting)
	for _, setting := range config.Rows() {
		if setting.InFile {
			continue
		}
		check("setting "+setting.Key, flags.Lookup(setting.Flag()), func() string {
			return fmt.Sprint(reflect.Indirect(reflect.Indirect(reflect.ValueOf(setting.Field(&s.values)))))
		})
	}
	ten := func(steps string) string {
		return ok(t, "account", "--noise-multiplier", "1", "--sampling-rate", "0.01", "--delta", "1e-5", "--steps", steps, "--json")
	}
	if got, want := ten("0100"), ten("100"); got != want {
		t.Errorf("account prices 0100 steps as %s, and 100 as %s", got, want)
	}
	for line, want := range map[string]string{
		"train --dry-run --epsilon 3 --memory 0x8p2MiB":                       "write a size such as 2GiB or 512MiB",
		"train --dry-run --epsilon 3 --memory 1_000MiB":                       "write a size such as 2GiB or 512MiB",
		"train --dry-run --epsilon 3 --memory 2GiB,3":                         "write a size such as 2GiB or 512MiB",
		"train --dry-run --epsilon 3 --classes 3,0x5":                         "not a number in decimal digits",
		"l2p train --data quadratic --out a.safetensors --epsilon inf,0x1p-3": "must be numbers in decimal digits, or inf",
	} {
		fails(t, cli.ExitUsage, strings.Fields(line), want)
	}
}

// A list is read in one way whatever command and flag it is for: blanks around items are no part of them, none is
// empty, none is there twice, and the last that is given counts.
func TestListsOfEveryCommand(t *testing.T) {
	seen := map[string]bool{}
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			kind, items := f.Value.Type(), []string{"cat", "old dog", `a"b`}
			switch kind {
			case "ints", "intSlice":
				items = []string{"3", "5", "7"}
			case "names", "stringSlice":
			default:
				return
			}
			seen[kind] = true
			name := c.CommandPath() + " --" + f.Name
			for _, text := range []string{"", "a,", ",a", "3,", ",3", "3,,5", "a,a", "a, a", `"a",b`} {
				if err := f.Value.Set(text); err == nil {
					t.Errorf("%s=%q is taken", name, text)
				}
			}
			if err := errors.Join(f.Value.Set(items[1]), f.Value.Set(" "+items[0]+" ,\t"+items[1]+" , "+items[2])); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if got := f.Value.String(); got != "" && got != "["+strings.Join(items, ",")+"]" && got != `[cat,old dog,"a""b"]` {
				t.Errorf("%s is %s, want %q", name, got, items)
			}
		})
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(newRoot())
	if len(seen) != 4 {
		t.Errorf("no flag is tried of some type: %v", seen)
	}
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	s := newSettings(flags, everySetting)
	if err := errors.Join(flags.Set("class-names", "bird"), flags.Set("class-names", "cat, old dog"), flags.Set("classes", "03, 5")); err != nil {
		t.Error(err)
	}
	if names, numbers := s.values.ClassNames, s.values.Classes; !slices.Equal(names, []string{"cat", "old dog"}) || !slices.Equal(numbers, []int{3, 5}) {
		t.Errorf("train reads %q and %d", names, numbers)
	}
}
