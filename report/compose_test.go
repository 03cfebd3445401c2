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
		Run: "runs/" + data, Dataset: data, Claim: train.Claim{Guarantee: true, Epsilon: &r.Epsilon, Delta: ptr(1e-5), Neighbouring: ptr("add-remove")}, Events: events,
	}}
}

// added is what runs cost together, by name.
func added(runs ...*run) []Composition { return compared(runs, Options{}).Composed }

// Gaussian sums of all records compose exactly: their squared μ add up.
func TestComposition(t *testing.T) {
	all := added(paid("a", 4, 2), paid("b", 1, 1), paid("a", 2, 1))
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
		got := added(runs...)[0]
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
		if got := added(paid("a", 4, 2), b)[0]; got.Epsilon != nil || !strings.Contains(got.Why, want) {
			t.Errorf("%+v, want no ε, as %s", got, want)
		}
	}
}

// Files of one name count as one data set, however the path was typed.
func TestRunsOfOneFile(t *testing.T) {
	all := added(paid("csv:a/t.csv", 4, 1), paid("csv:/home/x/a/t.csv", 4, 1), paid("csv:t.csv", 4, 1), paid("csv:./t.csv.gz", 4, 1), paid("dir:t.csv", 4, 1))
	if len(all) != 1 || len(all[0].Runs) != 4 {
		t.Errorf("composed %+v", all)
	}
}

// Shards are known by what they were written from, and by their own name: all runs that share either go together. What is not
// added up is said, and --same-data adds up all.
func TestRunsOfShards(t *testing.T) {
	of := func(data, source string) *run {
		r := paid(data, 4, 1)
		r.DatasetSource = source
		return r
	}
	runs := []*run{of("csv:x/t.csv", ""), of("shards:old", ""), of("shards:old", "csv:y/t.csv"), of("shards:new", "csv:t.csv"), of("dir:t.csv", "")}
	c := compared(runs, Options{})
	if len(c.Composed) != 1 || len(c.Composed[0].Runs) != 4 || c.Composed[0].Dataset != "csv:t.csv, shards:old" {
		t.Errorf("composed %+v", c.Composed)
	}
	if len(c.Apart) != 2 || c.Apart[1] != "dir:t.csv" {
		t.Errorf("apart are %q", c.Apart)
	}
	four := *c.Composed[0].Epsilon
	c = compared(runs, Options{SameData: true})
	if len(c.Composed) != 1 || len(c.Composed[0].Runs) != 5 || !(*c.Composed[0].Epsilon > four) || c.Apart != nil {
		t.Errorf("of the same data: %+v", c)
	}
}

// A group of names may be joined by a later run.
func TestNamesJoin(t *testing.T) {
	a, b, c := paid("csv:a", 4, 1), paid("csv:b", 4, 1), paid("csv:a", 4, 1)
	c.DatasetSource = "csv:b"
	if got := compared([]*run{a, b, paid("csv:z", 4, 1), c}, Options{}); len(got.Composed) != 1 || len(got.Composed[0].Runs) != 3 || len(got.Apart) != 2 {
		t.Errorf("%+v", got)
	}
}

// What is drawn are units.
func TestBatchesOfUsers(t *testing.T) {
	r := &run{Result: train.Result{Claim: train.Claim{PrivacyUnit: accountant.OneUser}, Sampling: "poisson", SamplingRate: 0.1, ExpectedBatch: 30, PublicN: 300}}
	for rate, want := range map[float64]string{
		0.1: "Poisson sampling: 30 of 300 users (the public number) per step on average",
		1:   "all users at every step; their public number is 300",
	} {
		if r.SamplingRate = rate; r.Batches() != want {
			t.Errorf("%q, not %q", r.Batches(), want)
		}
	}
}
