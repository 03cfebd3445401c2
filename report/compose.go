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

// Data names the data set, of a path by its end: the rest would tell where its owner keeps
// it, and often who that is. Runs whose data have one name are taken to be of one data set;
// too many that go together cost nothing but tightness.
func (r *run) Data() string {
	kind, path, isPath := strings.Cut(r.Dataset, ":")
	if !isPath {
		return r.Dataset
	}
	return kind + ":" + filepath.Base(filepath.Clean(path))
}

// compose adds up what runs on one data set cost, where there are several.
func compose(runs []*run) (all []Composition) {
	var names []string
	of := map[string][]*run{}
	for _, r := range runs {
		name := r.Data()
		if of[name] == nil {
			names = append(names, name)
		}
		copied := func(other *run) bool { return r.ledger != "" && r.ledger == other.ledger }
		if !slices.ContainsFunc(of[name], copied) { // a run that is named twice, or a copy of it, costs nothing more
			of[name] = append(of[name], r)
		}
	}
	for _, name := range names {
		if len(of[name]) > 1 {
			all = append(all, composed(name, of[name]))
		}
	}
	return all
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
		planned = planned && len(r.Events) > 0 // else only its budget is known
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
