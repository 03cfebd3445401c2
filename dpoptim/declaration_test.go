package dpoptim

import (
	"strings"
	"testing"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim/batches"
)

// of is a question with noise.
func of(q Question, b Batch, every int) Ask {
	return Ask{Question: q, Batch: b, Every: every, Release: GaussianSum(1).Release}
}

// A declaration whose price would be wrong is refused with the reason.
func TestDeclarationIsRefused(t *testing.T) {
	private, pure, sum := Traits{Private: true}, Traits{Private: true, Pure: true}, GaussianSum(1)
	for name, test := range map[string]struct {
		traits Traits
		by     string
		budget Budget
		asks   []Ask
		want   string
	}{
		"nothing":                          {private, accountant.PLD, Committed, nil, "asks for nothing"},
		"no release":                       {private, accountant.PLD, Committed, []Ask{{Question: Gradients}}, "a gradient without a release"},
		"a first question of no batch":     {private, accountant.PLD, Committed, []Ask{of(Gradients, OfSum, 0)}, "no batch of its own"},
		"norms seldom":                     {private, accountant.PLD, Committed, []Ask{sum, of(Norms, OfSum, 24)}, "with every sum"},
		"norms of their own batch":         {private, accountant.PLD, Committed, []Ask{sum, of(Norms, Own, 0)}, "with every sum"},
		"norms by the papers":              {private, accountant.Paper, Committed, []Ask{sum, of(Norms, ByPapers, 0)}, "with every sum"},
		"two questions of a batch":         {private, accountant.PLD, Committed, []Ask{sum, of(Norms, OfSum, 0), of(Searches, OfSum, 0)}, "at most one question"},
		"a question twice":                 {private, accountant.PLD, Committed, []Ask{sum, of(Searches, Own, 0), of(Searches, Own, 0)}, "a search twice"},
		"a shared batch without a sum":     {private, accountant.PLD, Committed, []Ask{of(Curves, Own, 0), of(Searches, OfSum, 0)}, "has a sum of gradients"},
		"by the papers, tightly":           {private, accountant.PLD, Committed, []Ask{sum, of(Searches, ByPapers, 0)}, "another accountant"},
		"by the papers, third":             {private, accountant.Paper, Committed, []Ask{sum, of(Curves, Own, 0), of(Searches, ByPapers, 0)}, "behind another question"},
		"a sampled majority":               {private, accountant.PLD, Committed, []Ask{of(Majority, Own, 0)}, "a majority is pure"},
		"a majority beside a sum":          {private, accountant.PLD, Committed, []Ask{sum, of(Majority, Own, 24)}, "a majority is pure"},
		"a pure sum":                       {pure, accountant.PLD, Committed, []Ask{sum}, "nothing else is"},
		"a fit among steps":                {private, accountant.GDP, Committed, []Ask{of(Fits, Own, 0)}, "the only release"},
		"a choice of a batch":              {private, accountant.PLD, Committed, []Ask{of(Choices, Own, 0)}, "a choice is of all records"},
		"a report":                         {private, accountant.PLD, Committed, []Ask{of(Reports, Own, 0)}, "where privacy is local"},
		"no report of a local method":      {Traits{Private: true, Pure: true, Local: true, Batches: []*batches.Kind{batches.Full}}, accountant.PLD, Committed, []Ask{of(Choices, Own, 0)}, "where privacy is local"},
		"reports in every second step":     {Traits{Private: true, Pure: true, Local: true}, accountant.PLD, Committed, []Ask{of(Reports, Own, 2)}, "one in every step"},
		"two fits":                         {Traits{Private: true, Once: true}, accountant.GDP, Committed, []Ask{of(Fits, Own, 0), of(Curves, Own, 0)}, "the only release"},
		"steps without a plan":             {private, accountant.GDP, Planned, []Ask{sum}, "without a planned budget"},
		"a plan of no steps":               {private, accountant.GDP, Committed, []Ask{planned}, "without a planned budget"},
		"two pure releases":                {pure, accountant.PLD, Committed, []Ask{of(Majority, Own, 0), of(Majority, Own, 0)}, "a majority twice"},
		"no pure release":                  {Traits{Pure: true}, accountant.PLD, Committed, nil, "pure release is the only one"},
		"a filtered majority":              {pure, accountant.PLD, Admitted, []Ask{of(Majority, Own, 0)}, "pure release is the only one"},
		"a filter without privacy":         {Traits{}, accountant.PLD, Admitted, []Ask{{Question: Gradients}}, "a filter admits private"},
		"sums of records in turn":          {Traits{Private: true, Batches: []*batches.Kind{batches.Poisson, batches.Passes}}, accountant.PLD, Committed, []Ask{sum}, "passes are for records that report"},
		"sums in a random order":           {Traits{Private: true, Batches: []*batches.Kind{batches.Shuffle}}, accountant.PLD, Committed, []Ask{sum}, "a random order is for solvers"},
		"questions beside an uncommon sum": {private, accountant.PLD, Committed, []Ask{of(Gradients, Own, 2), of(Searches, Own, 0)}, "not asked for in every step"},
	} {
		test.traits.Name = "own"
		err := Declaration{Budget: test.budget, Asks: test.asks}.Check(test.traits, test.by)
		if err == nil || !strings.Contains(err.Error(), "optimizer own declares cannot be priced") || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

// What the methods of this module declare has a price.
func TestDeclarationIsAllowed(t *testing.T) {
	private, sum := Traits{Private: true}, GaussianSum(1)
	for name, test := range map[string]struct {
		traits Traits
		by     string
		budget Budget
		asks   []Ask
	}{
		"sgd":                 {Traits{}, accountant.PLD, Committed, []Ask{{Question: Gradients}}},
		"lbfgs":               {Traits{Once: true}, accountant.PLD, Committed, []Ask{{Question: Gradients}, {Question: Losses}}},
		"privgene":            {Traits{Private: true, Batches: []*batches.Kind{batches.Full}}, accountant.PLD, Committed, []Ask{of(Choices, Own, 0)}},
		"majority":            {Traits{Private: true, Pure: true, Once: true}, accountant.PLD, Committed, []Ask{of(Majority, Own, 0)}},
		"banco":               {Traits{Private: true, Pure: true, Local: true}, accountant.PLD, Committed, []Ask{of(Reports, Own, 0)}},
		"dp-sgd":              {private, accountant.PLD, Committed, []Ask{sum}},
		"pur-a":               {private, accountant.GDP, Planned, []Ask{planned}},
		"outpert-gd":          {Traits{Private: true, Once: true}, accountant.GDP, Committed, []Ask{of(Fits, Own, 0)}},
		"outpert-gd, pure":    {Traits{Private: true, Pure: true, Once: true}, accountant.GDP, Committed, []Ask{of(Fits, Own, 0)}},
		"dp-blsgd":            {private, accountant.PLD, Committed, []Ask{sum, of(Searches, Own, 5)}},
		"dp-blsgd, curves":    {private, accountant.PLD, Committed, []Ask{sum, of(Curves, Own, 0)}},
		"dp-blsgd, shared":    {private, accountant.PLD, Committed, []Ask{sum, of(Minima, OfSum, 3)}},
		"dp-blsgd, by papers": {private, accountant.Paper, Committed, []Ask{sum, of(Searches, ByPapers, 0)}},
		"dp-blsgd-ac":         {private, accountant.PLD, Adaptive, []Ask{sum, of(Searches, OfSum, 0)}},
		"l2p":                 {private, accountant.RDP, Scheduled, []Ask{sum, of(Norms, OfSum, 0)}},
		"l2p, admitted":       {private, accountant.RDP, Admitted, []Ask{sum}},
	} {
		if err := (Declaration{Budget: test.budget, Asks: test.asks}).Check(test.traits, test.by); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// planned is a sum whose noise goes by steps.
var planned = Ask{Question: Gradients, At: func(step int) (Release, error) {
	return Release{Noise: accountant.Gaussian{NoiseMultiplier: 1 / float64(step+1)}, Bound: 1}, nil
}}
