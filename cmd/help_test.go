package cmd

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/privgrad/privgrad/internal/cli"
	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/internal/setting"
)

// pages are the help of train, the topics, and the command l2p, which has settings of train.
func pages(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{"train": ok(t, "train", "--help"), "l2p": ok(t, "help", "l2p")}
	for _, topic := range topics {
		all[topic.Name] = ok(t, "help", topic.Name)
	}
	return all
}

func TestHelpFitsAScreen(t *testing.T) {
	for name, help := range pages(t) {
		lines := strings.Split(strings.TrimRight(help, "\n"), "\n")
		if name == "train" && len(lines) > 60 {
			t.Errorf("train --help has %d lines: move a setting of its own kind to a topic", len(lines))
		}
		for _, line := range lines {
			if n := utf8.RuneCountInString(line); n > 100 {
				t.Errorf("%s: a line of %d columns: %s", name, n, line)
			}
		}
	}
}

// Every setting stands on one page of help, and the page is found from train --help.
func TestEverySettingIsExplained(t *testing.T) {
	all := pages(t)
	for _, s := range config.Rows() {
		if s.InFile {
			continue
		}
		var on []string
		for name, help := range all {
			if strings.Contains(help, "\n  --"+s.Flag()+" ") || strings.Contains(help, "\n  --"+s.Flag()+"\n") {
				on = append(on, name)
			}
		}
		want := []string{s.Group.Topic}
		switch {
		case s.Group == setting.Group{}:
			if want = nil; s.Key != "recipe_chosen_on" { // which a recipe fills in
				t.Errorf("%s is in no group: give its row one", s.Key)
			}
		case s.Group.Topic == "":
			want = []string{"train"}
		case !strings.Contains(all["train"], s.Group.Topic):
			t.Errorf("train --help does not name the topic %s", s.Group.Topic)
		}
		if !slices.Equal(on, want) {
			t.Errorf("--%s is explained in help of %q, want %q", s.Flag(), on, want)
		}
	}
}

// Flags that may have a name of their own: on the pages of train, and on all pages together. Before
// one is added, another goes, or takes the name of one that means the same.
const mostOfTrain, mostFlags = 81, 126

func TestNumberOfFlags(t *testing.T) {
	flag := regexp.MustCompile(`(?m)^ +(?:-[a-z], )?--([a-z0-9-]+)`)
	names := func(help string, into map[string]bool) {
		for _, m := range flag.FindAllStringSubmatch(help, -1) {
			into[m[1]] = true
		}
		delete(into, "help")
	}
	ofTrain, all := map[string]bool{}, map[string]bool{}
	for _, help := range pages(t) {
		names(help, ofTrain)
		names(help, all)
	}
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		if path := strings.Fields(c.CommandPath())[1:]; path[0] != "completion" { // cobra's own
			names(ok(t, append(path, "--help")...), all)
		}
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	for _, c := range newRoot().Commands() {
		visit(c)
	}
	if len(ofTrain) > mostOfTrain || len(all) > mostFlags {
		t.Errorf("%d flags on the pages of train, %d on all, of %d and %d at most: set InFile in the row of a new one, or take one out: %s", len(ofTrain), len(all), mostOfTrain, mostFlags,
			strings.Join(slices.Sorted(maps.Keys(all)), ", "))
	}
}

// What is gone is refused with what to write instead, and is not there.
func TestGone(t *testing.T) {
	for _, g := range cli.Gone {
		for _, word := range strings.Fields(g.Words) {
			fails(t, cli.ExitUsage, append(strings.Fields(g.Command), word, "1"), word+" of `privgrad "+g.Command+"` is gone: "+g.Instead)
		}
	}
	fails(t, cli.ExitUsage, strings.Fields("schedule noisy-gd --n 10 --rho 1"), "--optimizer noisy-gd --model logistic")
	fails(t, cli.ExitUsage, strings.Fields("help schedule noisy-gd"), "--optimizer noisy-gd --model logistic")
}

func TestOptimizerHelp(t *testing.T) {
	for _, name := range config.Optimizers() {
		if (&config.Config{Optimizer: name}).Kind().About == "" || !strings.Contains(ok(t, "help", "optimizers"), "  "+name+" ") {
			t.Errorf("help optimizers does not say what %s is", name)
		}
	}
	for name, want := range map[string]string{
		"dp-adam": "in a file alone, given by -c", "dp-blsgd": "\n  --search-form NAME", "l2p": "\n  --protector NAME",
		"dp-sgd": "Settings of optimizer dp-sgd: none of its own", "dp-sdg": "did you mean dp-sgd?",
	} {
		if got := ok(t, "train", "--optimizer", name, "--help"); !strings.Contains(got, want) {
			t.Errorf("train --optimizer %s --help lacks %q:\n%s", name, want, got)
		}
	}
	fails(t, cli.ExitUsage, []string{"train", "--epsilon", "1", "--optimizer", "dp-sdg"}, "did you mean dp-sgd?")
	fails(t, cli.ExitUsage, []string{"train", "--epsilon", "1", "--data", "fminst"}, "did you mean fmnist?")
}
