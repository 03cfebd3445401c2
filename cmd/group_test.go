package cmd

import (
	"strings"
	"testing"

	"github.com/privgrad/privgrad/internal/cli"
)

func TestAccountGroup(t *testing.T) {
	base := strings.Fields("account --noise-multiplier 2 --sampling-rate 0.001 --steps 100 --delta 1e-5")
	run := func(args string) map[string]any {
		t.Helper()
		return object(t, ok(t, append(append(base, "--json"), strings.Fields(args)...)...))
	}
	plain, one, three := run(""), run("--group 1"), run("--group 3")
	wantKeys(t, plain, accountKeys...)
	wantKeys(t, one, append([]string{"group", "group_method"}, accountKeys...)...)
	if one["epsilon"] != plain["epsilon"] || ftoa(one["risk"]) != ftoa(plain["risk"]) || ftoa(one["interval"]) != ftoa(plain["interval"]) || one["group_method"] != "one-record" {
		t.Errorf("a group of one %v, one record %v", one, plain)
	}
	if three["group"] != 3.0 || three["group_method"] != "direct" || three["interval"] == nil || three["epsilon"].(float64) <= plain["epsilon"].(float64) {
		t.Errorf("a group of three %v", three)
	}
	fixed := run("--group 3 --sampling fixed-size --neighbouring replace-one")
	if fixed["group_method"] != "general-conversion" || fixed["interval"] != nil {
		t.Errorf("a group on batches of fixed size %v", fixed)
	}
	for args, want := range map[string]string{
		"--group 3":                            "for up to 3 records together, all added or all removed: computed for 3 records at once",
		"--group 3 --neighbouring replace-one": "all replaced: computed",
		"--group 3 --accountant prv":           "by the general conversion of group privacy from one record's ε",
		"--group 4":                            "whether 4 records were used",
	} {
		if human := ok(t, append(base, strings.Fields(args)...)...); !strings.Contains(human, want) {
			t.Errorf("%s does not say %q:\n%s", args, want, human)
		}
	}
	for args, want := range map[string]string{"--group 0": "group 0", "--group -2": "group -2", "--group 1000000": "100000"} {
		fails(t, cli.ExitUsage, append(base, strings.Fields(args)...), want)
	}
}
