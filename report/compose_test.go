package report

import (
	"math"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/train"
)

// paid is a run of so many Gaussian sums of all records.
func paid(data string, sigma float64, steps int) *run {
	events := []accountant.Event{{Mechanisms: []accountant.Mechanism{accountant.Gaussian{NoiseMultiplier: sigma}}, Count: steps}}
	r, _ := accountant.Account(events, accountant.Options{Accountant: accountant.GDP, Neighbouring: accountant.AddRemove, Delta: 1e-5})
	return &run{Result: train.Result{
		Run: "runs/" + data, Dataset: data, Guarantee: true, Epsilon: &r.Epsilon, Delta: ptr(1e-5), Neighbouring: ptr("add-remove"), Events: events,
	}}
}

// Gaussian sums of all records compose exactly: their squared μ add up.
func TestComposition(t *testing.T) {
	all := compose([]*run{paid("a", 4, 2), paid("b", 1, 1), paid("a", 2, 1)})
	if len(all) != 1 || all[0].Dataset != "a" || len(all[0].Runs) != 2 {
		t.Fatalf("composed %+v", all)
	}
	mu2 := 2.0/16 + 1.0/4
	want, err := accountant.Account([]accountant.Event{{Mechanisms: []accountant.Mechanism{accountant.Gaussian{NoiseMultiplier: 1 / math.Sqrt(mu2)}}, Count: 1}},
		accountant.Options{Accountant: accountant.GDP, Neighbouring: accountant.AddRemove, Delta: 1e-5})
	check(t, err)
	if got := *all[0].Epsilon; got < want.Epsilon*(1-1e-9) || got > want.Epsilon*1.001 || *all[0].Delta != 1e-5 || !strings.Contains(all[0].How, "pld") {
		t.Errorf("ε = %v at %v, %s; want %v", got, *all[0].Delta, all[0].How, want.Epsilon)
	}
}

// Of a run whose releases were not planned only the budget is known.
func TestCompositionOfBudgets(t *testing.T) {
	a, b := paid("a", 4, 2), paid("a", 2, 1)
	b.Events, b.Epsilon, b.Delta = nil, ptr(1.5), ptr(1e-6)
	for _, runs := range [][]*run{{a, b}, {b, a}, {b, b}} {
		want, at := *runs[0].Epsilon+*runs[1].Epsilon, *runs[0].Delta+*runs[1].Delta
		got := compose(runs)[0]
		if *got.Epsilon != want || *got.Delta != at || !strings.Contains(got.How, "sum of all ε") {
			t.Errorf("ε = %v at %v, %s; want %v at %v", *got.Epsilon, *got.Delta, got.How, want, at)
		}
	}
}

func TestNoComposition(t *testing.T) {
	for want, change := range map[string]func(*run){
		"has no guarantee": func(r *run) { r.Guarantee = false },
		"no guarantee":     func(r *run) { r.Epsilon = nil },
		"do not add":       func(r *run) { r.Neighbouring = ptr("replace-one") },
	} {
		b := paid("a", 2, 1)
		change(b)
		if got := compose([]*run{paid("a", 4, 2), b})[0]; got.Epsilon != nil || !strings.Contains(got.Why, want) {
			t.Errorf("%+v, want no ε, as %s", got, want)
		}
	}
}

// Files of one name count as one data set, however the path was typed.
func TestRunsOfOneFile(t *testing.T) {
	all := compose([]*run{paid("csv:a/t.csv", 4, 1), paid("csv:/home/x/a/t.csv", 4, 1), paid("csv:t.csv", 4, 1), paid("dir:t.csv", 4, 1)})
	if len(all) != 1 || len(all[0].Runs) != 3 {
		t.Errorf("composed %+v", all)
	}
}

// A run that is named twice, or whose directory was copied, is counted once. Two runs may leave the same model: their
// ledgers differ. A run without a ledger counts.
func TestCopiesAreOneRun(t *testing.T) {
	of := func(ledger string) *run {
		r := paid("a", 4, 2)
		r.Digests, r.ledger = map[string]string{"model.safetensors": "same"}, ledger
		return r
	}
	if all := compose([]*run{of(""), of("")}); len(all) != 1 || len(all[0].Runs) != 2 {
		t.Errorf("two runs without ledgers cost together %+v", all)
	}
	if all := compose([]*run{of("x"), of("x")}); len(all) != 0 {
		t.Errorf("a run and its copy cost together %+v", all)
	}
	if all := compose([]*run{of("x"), of("y"), of("x")}); len(all) != 1 || len(all[0].Runs) != 2 {
		t.Errorf("two runs and a copy cost together %+v", all)
	}
}
