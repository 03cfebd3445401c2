package plan

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/dpoptim/blsgd"
	"github.com/privgrad/privgrad/dpoptim/l2p"
	"github.com/privgrad/privgrad/dpoptim/local"
	"github.com/privgrad/privgrad/dpoptim/majority"
	"github.com/privgrad/privgrad/dpoptim/objpert"
	"github.com/privgrad/privgrad/dpoptim/outpert"
	"github.com/privgrad/privgrad/dpoptim/privgene"
	"github.com/privgrad/privgrad/dpoptim/rrpsgd"
	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/internal/device/reference"
	"github.com/privgrad/privgrad/internal/price"
)

// knows is what optimizer l2p says of a run on its protector's records.
const knows = "protector … was trained on records of …, un-noised"

// plain is what a run of an optimizer without privacy says.
const plain = "optimizer … neither bounds nor hides a record's influence"

// fit is what a fit says under add-remove.
var fit = strings.Join((&dpoptim.Settings{Neighbouring: "add-remove"}).FitDoubts(), "; ")

// onKnown is a run of optimizer l2p on its protector's records.
func onKnown(t *testing.T) *Plan {
	t.Helper()
	c := config.Default()
	c.Optimizer, c.L2P.Protector, c.Data = l2p.Name, protectors["identity"], "mnist"
	return knowing(t, c)
}

// byMethods are the reasons of methods' own, each with the methods that give it. Every method is tried
// under both relations, in its published form, too, on a linear model.
func byMethods(t *testing.T) map[string][]string {
	t.Helper()
	t.Chdir(t.TempDir())
	makeTable(t, "")
	by := map[string][]string{}
	note := func(p *Plan) {
		for _, why := range p.Notes.NoGuarantee {
			if !slices.Contains(by[why], p.Config.Optimizer) {
				by[why] = append(by[why], p.Config.Optimizer)
			}
		}
	}
	forms := []func(*config.Config){
		func(*config.Config) {},
		func(c *config.Config) { c.Outpert.Form = outpert.Paper },
		func(c *config.Config) { c.Objpert.Form = objpert.Paper },
		func(c *config.Config) { c.RRPSGD.Form = rrpsgd.Paper },
	}
	for _, name := range config.Optimizers() {
		resolved, refused := 0, []string{}
		for _, relation := range []string{"add-remove", "replace-one"} {
			for _, form := range forms {
				c := onAll(t, name, nil)
				switch {
				case name == l2p.Name:
					c = small()
					protected("identity")(&c)
				case name == privgene.Name:
					c.Steps = ptr(1)
				case name == rrpsgd.Name:
					c.PublicN = ptr(100) // more take long to price
				case name == local.Banco, name == majority.Name:
					c.L2 = 0
				case !c.Private():
					c.Epsilon = nil
				}
				form(&c)
				c.Relate(accountant.Neighbouring(relation))
				p, err := Resolve(c, Options{Sources: sources(made(1, 400)), Device: reference.Open()})
				if err != nil { // most forms are another method's
					refused = append(refused, err.Error())
					continue
				}
				resolved++
				note(p)
			}
		}
		if resolved == 0 {
			t.Errorf("%s was not tried: %s", name, strings.Join(refused, "\n"))
		}
	}
	p := onKnown(t)
	for i, why := range p.Notes.NoGuarantee {
		if says(knows, why) {
			p.Notes.NoGuarantee[i] = knows
		}
	}
	note(p)
	return by
}

// says reports whether a reason is of some words, in which … stands for what a run fills in.
func says(words, why string) bool {
	return regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(words), "…", ".+") + "$").MatchString(why)
}

// said are all reasons that a run can give, with … for what it fills in.
func said(methods map[string][]string) []string {
	all := slices.Collect(maps.Keys(methods))
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
	return all
}

// The documentation names every case without a guarantee: the table of docs/explain/privacy.md
// is the program's list and names the methods, and the README has a word for each.
func TestDocumentedReasons(t *testing.T) {
	_, section, ok := strings.Cut(string(read(t, "..", "..", "docs", "explain", "privacy.md")), "\n## When there is no guarantee\n")
	readme := string(read(t, "..", "..", "README.md")) // before byMethods changes the directory
	section, _, _ = strings.Cut(section, "\n## ")
	documented := map[string]string{} // when, by why
	for line := range strings.Lines(section) {
		if cells := strings.Split(line, " | "); strings.HasPrefix(line, "| ") && len(cells) == 2 && !strings.HasPrefix(line, "| `not_a") {
			documented[strings.TrimPrefix(cells[0], "| ")] = cells[1]
		}
	}
	methods := byMethods(t)
	all := said(methods)
	if rows := slices.Sorted(maps.Keys(documented)); !ok || !slices.Equal(rows, slices.Sorted(slices.Values(all))) {
		t.Errorf("docs/explain/privacy.md lists\n%s\nruns say\n%s", strings.Join(rows, "\n"), strings.Join(all, "\n"))
	}
	for _, name := range config.Optimizers() {
		if c := (config.Config{Optimizer: name}); !c.Private() {
			methods[plain] = append(methods[plain], name)
		}
	}
	for why, names := range methods {
		for _, name := range names {
			if !strings.Contains(documented[why], "`"+name+"`") {
				t.Errorf("docs/explain/privacy.md does not name %s beside %q", name, why)
			}
		}
	}

	_, section, ok = strings.Cut(readme, "\n## What is guaranteed, and what is not\n")
	section, _, _ = strings.Cut(section, "\n## ")
	words := map[string]string{
		plain:                           "optimizers without privacy",
		"no noise was added":            "no noise",
		"epsilon is infinite":           "infinite",
		SeededLabel:                     "`seeded`",
		accountant.NoGuarantee("paper"): "`paper`",
		accountant.NoGuarantee("prv"):   "`prv`",
		knows:                           "protector",
		fit:                             "under add-remove",
		"one fold of a k-fold: epsilon is this run's alone; each record trains k−1 of the k models, so add up their epsilons": "fold",
		"un-noised training statistics shown": "declared public",
	}
	for _, why := range all {
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
	t.Chdir(t.TempDir())
	makeTable(t, "")
	given := map[string]bool{}
	for name, change := range map[string]func(*config.Config){
		"private":  func(*config.Config) {},
		"plain":    func(c *config.Config) { c.Optimizer, c.NoiseMultiplier = "sgd", nil },
		"no noise": func(c *config.Config) { c.NoiseMultiplier = ptr(0.0) },
		"seeded":   func(c *config.Config) { c.Noise = dpoptim.Seeded },
		"paper":    func(c *config.Config) { c.Accountant = accountant.Paper },
		"paper mode": func(c *config.Config) {
			c.Optimizer, c.Search = "dp-blsgd", blsgd.Settings{Batches: "paper", Form: "losses", Budget: "fixed"}
		},
		"prv": func(c *config.Config) { c.Accountant = accountant.PRV },
		"fit": func(c *config.Config) {
			*c = onAll(t, outpert.GD, nil)
			c.Relate(accountant.AddRemove)
		},
		"public": func(c *config.Config) { c.DataIsPublic = true },
	} {
		c := small()
		change(&c)
		p, err := Resolve(c, Options{Sources: sources(made(1, 400))})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		why := p.Guarantee.NoGuarantee
		if (len(why) == 0) != (name == "private") {
			t.Errorf("%s: %v", name, why)
		}
		for _, w := range why {
			given[w] = true
		}
	}
	// These need a table, a shipped protector's data, or noise that is refused today.
	finite := ptr(1.0)
	for _, p := range []*Plan{
		{Config: config.Config{Optimizer: "dp-sgd", Folds: 3}, Price: price.Price{Epsilon: finite}},
		onKnown(t),
		{Config: config.Config{Optimizer: "dp-sgd"}},
	} {
		p.Config.Accountant, p.Noisy = accountant.PLD, true
		why := p.reasons()
		if len(why) != 1 {
			t.Errorf("%+v: %v", p.Config, why)
		}
		for _, w := range why {
			given[w] = true
		}
	}
	for _, why := range said(map[string][]string{knows: nil, fit: nil}) {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(given)), func(w string) bool { return says(why, w) }) {
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
