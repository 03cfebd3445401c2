package budget

import (
	"cmp"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/internal/papers"
	"github.com/privgrad/privgrad/internal/usage"
)

// A file's δ has two halves, fixed before the first run: one for the conversion of divergences, one for the runs' own δ.
// docs/proofs/budget.md says why neither may lend to the other later.
const halves = 2

// DeltaOfRuns is the most that the runs' own δ may come to.
func (f *File) DeltaOfRuns() float64 { return f.Delta / halves }

// margin covers the rounding of the divergence of one run, which accountant computes to about 1e-12.
const margin = 1e-10

// A Total is what was spent.
type Total struct {
	Divergence float64 `json:"divergence"`    // of all runs that have one, at the file's order
	Epsilon    float64 `json:"spent_epsilon"` // with what the divergence converts to
	Delta      float64 `json:"runs_delta"`    // sum of the other runs' own
}

// Spent adds up the entries. No sum is below the exact one.
func (f *File) Spent() Total {
	var t Total
	if f.Joint != nil {
		if len(f.Entries) > 0 {
			t.Epsilon = *f.Joint
		}
		return t
	}
	divergences := false
	var epsilons, deltas []float64
	for _, e := range f.Entries {
		if e.Divergence != nil {
			divergences, t.Divergence = true, up(t.Divergence+*e.Divergence)
			continue
		}
		epsilons, deltas = append(epsilons, *e.Epsilon), append(deltas, *e.Delta)
	}
	if t.Epsilon, t.Delta = sum(epsilons), sum(deltas); divergences {
		t.Epsilon = up(t.Epsilon + accountant.Converted(t.Divergence, *f.Order, f.Delta/halves))
	}
	return t
}

// up is the next number above, but 0 stays.
func up(x float64) float64 {
	if x == 0 {
		return 0
	}
	return math.Nextafter(x, math.Inf(1))
}

// sum adds numbers as they are written in decimals, so that three runs of 0.1 come to 0.3, and rounds up.
func sum(all []float64) float64 {
	total := new(big.Rat)
	for _, x := range all {
		total.Add(total, decimal(x))
	}
	x, _ := total.Float64()
	if decimal(x).Cmp(total) < 0 {
		x = up(x)
	}
	return x
}

func decimal(x float64) *big.Rat {
	r, _ := new(big.Rat).SetString(strconv.FormatFloat(x, 'g', -1, 64))
	return r
}

// Left is the ε that is not spent.
func (f *File) Left() float64 { return math.Max(f.Epsilon-f.Spent().Epsilon, 0) }

// A Cost is what a run would take from a budget.
type Cost struct {
	File       string   `json:"file"`
	Divergence *float64 `json:"divergence"` // at the budget's order; null where only ε and δ are known
	Epsilon    *float64 `json:"epsilon"`    // in its place
	Delta      *float64 `json:"delta"`
	Before     float64  `json:"spent_epsilon_before"`
	Spent      float64  `json:"spent_epsilon"` // with the run
	Left       float64  `json:"left_epsilon"`  // then
	Budget     float64  `json:"budget_epsilon"`
}

// String is the cost in a line.
func (c *Cost) String() string {
	takes := fmt.Sprintf("takes ε from %.4g to %.4g", c.Before, c.Spent)
	return fmt.Sprintf("%s %s of %.4g, and leaves %.4g", c.File, takes, c.Budget, c.Left)
}

// fits refuses a run that cannot be counted in the budget.
func (f *File) fits(name string, b *Bill) error {
	for _, x := range []struct{ what, of, run, end string }{
		{"data set", f.Data, b.Data, "use a budget of this data set, or --data %s"},
		{"neighbouring relation", f.Neighbouring, b.Neighbouring, "add --neighbouring %s where the method allows it, or use a budget of the other relation"},
		{"privacy unit", f.Unit, b.Unit, "runs of other units than %s cannot be counted in it"},
	} {
		if x.of != x.run {
			return usage.Errorf("budget %s is for %s %s, and the run has %s: "+x.end, name, x.what, x.of, x.run, x.of)
		}
	}
	return nil
}

// price makes the entries by which a run may pay, the first one first, without what tells one run from another of the
// same settings. By the second, its own ε and δ, a run pays where its divergence does not fit.
func (f *File) price(name string, b *Bill) ([]Entry, error) {
	if err := f.fits(name, b); err != nil {
		return nil, err
	}
	if f.Joint != nil {
		e, err := f.declared(name, b)
		return []Entry{e}, err
	}
	all := []Entry{{Settings: b.Settings, Epsilon: &b.Epsilon, Delta: &b.Delta}}
	if d, ok := b.divergence(*f.Order, accountant.Neighbouring(f.Neighbouring)); ok {
		d *= 1 + margin
		all = slices.Insert(all, 0, Entry{Settings: b.Settings, Divergence: &d})
	}
	return all, nil
}

// declared finds the run among those that were declared, each of which begins once.
func (f *File) declared(name string, b *Bill) (Entry, error) {
	e := Entry{Settings: b.Settings}
	taken, left := map[int]bool{}, []string{}
	for _, e := range f.Entries {
		taken[*e.Declared] = true
	}
	for i, d := range f.Declared {
		if taken[i] {
			continue
		}
		if left = append(left, d.Name); d.Settings != b.Settings {
			continue
		}
		if d.Releases != b.releases {
			return e, usage.Errorf("budget %s: %s would release with other noise than was declared, as another version of privgrad declared it: use that version", name, d.Name)
		}
		e.Declared = &i
		return e, nil
	}
	return e, papers.Refuse("budget %s takes only the runs that were declared with it, each once, and this run is none that is left (left: %s)", name, list(left))
}

func list(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// pay adds the entry of a run if the budget allows it, and says what it costs.
func (f *File) pay(name string, b *Bill, sign func(*Entry)) (c *Cost, err error) {
	ways, err := f.price(name, b)
	if err != nil {
		return nil, err
	}
	before, was := f.Spent(), *f
	var refused error
	for _, e := range ways {
		sign(&e)
		*f = was
		if err := f.add(e); err != nil {
			return nil, err
		}
		spent := f.Spent()
		switch {
		case !(spent.Epsilon <= f.Epsilon):
			err = papers.Refuse("budget %s has ε = %.4g left of %v, and this run would bring what is spent from %.4g to %.4g: lower --epsilon; --dry-run shows what a run costs",
				name, math.Max(f.Epsilon-before.Epsilon, 0), f.Epsilon, before.Epsilon, spent.Epsilon)
		case e.Delta != nil && decimal(spent.Delta).Cmp(decimal(f.DeltaOfRuns())) > 0:
			err = papers.Refuse("budget %s has δ = %.4g left of the %.4g for runs that pay by ε and δ, and this run has δ = %v: give a smaller --delta",
				name, math.Max(f.DeltaOfRuns()-before.Delta, 0), f.DeltaOfRuns(), *e.Delta)
		default:
			return &Cost{File: name, Divergence: e.Divergence, Epsilon: e.Epsilon, Delta: e.Delta, Before: before.Epsilon, Spent: spent.Epsilon, Left: f.Left(), Budget: f.Epsilon}, nil
		}
		refused = cmp.Or(refused, err)
	}
	*f = was
	return nil, refused
}
