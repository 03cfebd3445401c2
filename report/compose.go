package report

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/privgrad/privgrad/accountant"
)

// A Composition is what several runs on one data set cost a record together.
type Composition struct {
	Dataset string   `json:"dataset"`
	Runs    []string `json:"runs"`
	// Epsilon at Delta is an upper bound; nil where none is known, and Why says so.
	Epsilon *float64 `json:"epsilon"`
	Delta   *float64 `json:"delta"`
	How     string   `json:"how,omitempty"`
	Why     string   `json:"why_not,omitempty"`
}

// Budget is for the page.
func (c Composition) Budget() string {
	return fmt.Sprintf("ε = %s, δ = %s", number(*c.Epsilon), number(*c.Delta))
}

// Data names the data set: what shards were written from, where that is known. Runs whose data have one name are taken to be
// of one data set; too many that go together cost nothing but tightness.
func (r *run) Data() string {
	if r.DatasetSource != "" {
		return named(r.DatasetSource)
	}
	return named(r.Dataset)
}

// named is a data set, of a path by its end: the rest would tell where its owner keeps it, and often who that is.
func named(dataset string) string {
	kind, path, isPath := strings.Cut(dataset, ":")
	if !isPath {
		return dataset
	}
	return kind + ":" + filepath.Base(filepath.Clean(path))
}

// data are all that says which data set it is: names, be the file packed or not, and the identity that forks share.
func (r *run) data() []string {
	return []string{strings.TrimSuffix(named(r.Dataset), ".gz"), strings.TrimSuffix(r.Data(), ".gz"), "run " + r.identity}
}

// compose adds up what runs on one data set cost, where there are several. The names are those of all data sets.
func compose(runs []*run, sameData bool) (all []Composition, names []string) {
	groups := together(runs, sameData)
	for _, group := range groups {
		var of []string
		for _, r := range group {
			if !slices.Contains(of, r.Data()) {
				of = append(of, r.Data())
			}
		}
		name := strings.Join(of, ", ")
		names = append(names, name)
		if len(group) > 1 {
			all = append(all, composed(name, group))
		}
	}
	return all, names
}

// together puts runs into one group that share a data set, directly or through others.
func together(runs []*run, sameData bool) (groups [][]*run) {
	for _, r := range runs {
		shared := func(group []*run) bool {
			return sameData || slices.ContainsFunc(group, func(other *run) bool {
				return slices.ContainsFunc(r.data(), func(key string) bool { return key != "run " && slices.Contains(other.data(), key) })
			})
		}
		first := slices.IndexFunc(groups, shared)
		if first < 0 {
			groups = append(groups, []*run{r})
			continue
		}
		var apart [][]*run
		for _, group := range groups[first+1:] {
			if shared(group) {
				groups[first] = append(groups[first], group...)
			} else {
				apart = append(apart, group)
			}
		}
		groups[first] = append(groups[first], r)
		groups = append(groups[:first+1], apart...)
	}
	return groups
}

// composed gives the smallest bound that there is.
func composed(name string, runs []*run) Composition {
	c := Composition{Dataset: name}
	for _, r := range runs {
		c.Runs = append(c.Runs, r.Run)
	}
	first := runs[0]
	for _, r := range runs {
		switch {
		case !r.Guarantee || r.Epsilon == nil:
			c.Why = fmt.Sprintf("%s has no guarantee, so nothing bounds what all of them cost", r.Name())
		case *r.Neighbouring != *first.Neighbouring:
			c.Why = fmt.Sprintf("%s is stated for %s neighbors, %s for %s: such figures do not add", first.Name(), *first.Neighbouring, r.Name(), *r.Neighbouring)
		}
		if c.Why != "" {
			return c
		}
	}
	epsilon, delta := 0.0, 0.0
	most, planned, together := 0.0, true, []accountant.Event{}
	for _, r := range runs {
		epsilon, delta, most = epsilon+*r.Epsilon, delta+*r.Delta, max(most, *r.Delta)
		together = append(together, r.Events...)
		planned = planned && len(r.Events) > 0 && r.Tuning == nil // else only its budget is known
	}
	c.Epsilon, c.Delta, c.How = &epsilon, &delta, "the sum of all ε at the sum of all δ"
	if most == 0 || !planned {
		return c
	}
	for _, name := range []string{accountant.PLD, accountant.RDP} {
		got, err := accountant.Account(together, accountant.Options{Accountant: name, Neighbouring: accountant.Neighbouring(*first.Neighbouring), Delta: most})
		if err == nil && got.Epsilon < epsilon {
			c.Epsilon, c.Delta, c.How = &got.Epsilon, &most, "all releases of these runs, composed by "+name
			return c
		}
	}
	return c
}
