package plan

import (
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim/l2p"
)

// knows is what optimizer l2p says of a run on its protector's records.
const knows = "protector … was trained on records of …, un-noised"

// said are all reasons that a run can give, with … for what it fills in.
func said() []string {
	var all []string
	for _, r := range reasons {
		if r.words != "%s" {
			all = append(all, strings.ReplaceAll(r.words, "%s", "…"))
		}
	}
	for _, name := range accountant.Names() { // the accountant's own
		if why := accountant.NoGuarantee(name); why != "" {
			all = append(all, why)
		}
	}
	return append(all, knows) // the method's own
}

// The documentation names every case without a guarantee: the table of docs/explain/privacy.md
// is the program's list, and the README has a word for each.
func TestDocumentedReasons(t *testing.T) {
	_, section, ok := strings.Cut(string(read(t, "..", "..", "docs", "explain", "privacy.md")), "\n## When there is no guarantee\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var documented []string
	for line := range strings.Lines(section) {
		if cells := strings.Split(line, " | "); strings.HasPrefix(line, "| ") && len(cells) == 2 && !strings.HasPrefix(line, "| `not_a") {
			documented = append(documented, strings.TrimPrefix(cells[0], "| "))
		}
	}
	if all := said(); !ok || !slices.Equal(slices.Sorted(slices.Values(documented)), slices.Sorted(slices.Values(all))) {
		t.Errorf("docs/explain/privacy.md lists\n%s\nruns say\n%s", strings.Join(documented, "\n"), strings.Join(all, "\n"))
	}

	_, section, ok = strings.Cut(string(read(t, "..", "..", "README.md")), "\n## What is guaranteed, and what is not\n")
	section, _, _ = strings.Cut(section, "\n## ")
	words := map[string]string{
		"optimizer … neither bounds nor hides a record's influence": "optimizers without privacy",
		"no noise was added":            "no noise",
		"epsilon is infinite":           "infinite",
		SeededLabel:                     "`seeded`",
		accountant.NoGuarantee("paper"): "`paper`",
		accountant.NoGuarantee("prv"):   "`prv`",
		knows:                           "protector",
		"one fold of a k-fold: epsilon is this run's alone; each record trains k−1 of the k models, so add up their epsilons": "fold",
		"un-noised training statistics shown": "declared public",
	}
	for _, why := range said() {
		if word := words[why]; !ok || word == "" || !strings.Contains(section, word) {
			t.Errorf("the README has no word for %q (%q)", why, word)
		}
	}
}

// Every assumption stands in the documentation, and has words.
func TestDocumentedAssumptions(t *testing.T) {
	_, section, ok := strings.Cut(string(read(t, "..", "..", "docs", "explain", "privacy.md")), "\n## Assumptions\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, a := range assumptions {
		if !ok || !strings.Contains(section, "`"+a.key+"`") {
			t.Errorf("docs/explain/privacy.md does not name %s", a.key)
		}
		if words := Assumption(a.key); words != a.words || !strings.Contains(words, " ") {
			t.Errorf("%s is %q in words", a.key, words)
		}
	}
	if Assumption("later_version") != "later_version" {
		t.Error("what is not known is not shown as it is")
	}
}

// Every reason can be given, and a run gives none that is not in the list.
func TestEveryReasonIsGiven(t *testing.T) {
	given := map[string]bool{}
	for name, change := range map[string]func(*Config){
		"private":  func(*Config) {},
		"plain":    func(c *Config) { c.Optimizer, c.NoiseMultiplier = "sgd", nil },
		"no noise": func(c *Config) { c.NoiseMultiplier = ptr(0.0) },
		"seeded":   func(c *Config) { c.Noise = noiseSeeded },
		"paper":    func(c *Config) { c.Accountant = accountant.Paper },
		"paper mode": func(c *Config) {
			c.Optimizer, c.Search = "dp-blsgd", &Search{Batches: "paper", Form: "losses", Budget: "fixed"}
		},
		"prv":    func(c *Config) { c.Accountant = accountant.PRV },
		"public": func(c *Config) { c.DataIsPublic = true },
	} {
		c := small()
		change(&c)
		p, err := Resolve(c, Options{Sources: sources(made(1, 400))})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		why := p.NoGuarantee()
		if (len(why) == 0) != (name == "private") {
			t.Errorf("%s: %v", name, why)
		}
		for _, w := range why {
			given[w] = true
		}
	}
	// These need a table, a shipped protector's data, or noise that is refused today.
	known := Default()
	known.Optimizer, known.Protector, known.Data = l2p.Name, protectors["identity"], "mnist"
	finite := ptr(1.0)
	for _, p := range []*Plan{
		{Config: Config{Optimizer: "dp-sgd", Folds: 3}, Epsilon: finite},
		knowing(t, known),
		{Config: Config{Optimizer: "dp-sgd"}},
	} {
		p.Config.Accountant, p.spent = accountant.PLD, map[int]float64{}
		why := p.NoGuarantee()
		if len(why) != 1 {
			t.Errorf("%+v: %v", p.Config, why)
		}
		for _, w := range why {
			given[w] = true
		}
	}
	for _, why := range said() {
		first, _, _ := strings.Cut(why, "…")
		found := false
		for w := range given {
			found = found || strings.HasPrefix(w, first)
		}
		if !found {
			t.Errorf("no run says %q, but %v", why, given)
		}
	}
}

// Each reason has the label of its kind, whatever else a run says.
func TestLabeled(t *testing.T) {
	for why, want := range map[string]string{
		SeededLabel:           SeededLabel,
		"no noise was added":  "NOT PRIVATE: no noise was added",
		"epsilon is infinite": "NOT PRIVATE: epsilon is infinite",
		"optimizer sgd neither bounds nor hides a record's influence": "NOT PRIVATE: optimizer sgd neither bounds nor hides a record's influence",
		accountant.NoGuarantee("paper"):                               "NO GUARANTEE: " + accountant.NoGuarantee("paper"),
		accountant.NoGuarantee("prv"):                                 "NO GUARANTEE: " + accountant.NoGuarantee("prv"),
		"un-noised training statistics shown":                         "NO GUARANTEE: un-noised training statistics shown",
		knows:                                                         "NO GUARANTEE: " + knows,
	} {
		if got := Labeled(why); got != want {
			t.Errorf("%q is shown as %q, want %q", why, got, want)
		}
	}
}
