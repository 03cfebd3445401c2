package accountant_test

import (
	"errors"
	"fmt"
	"log"
	"strings"

	"github.com/privgrad/privgrad/accountant"
)

// What do 1,000 steps of DP-SGD cost? Noise is in units of the clip norm.
func ExampleAccount() {
	events := []accountant.Event{
		accountant.PoissonBatch(0.01, 1000, accountant.Gaussian{NoiseMultiplier: 1.1}),
	}
	r, err := accountant.Account(events, accountant.Options{
		Accountant: accountant.PLD, Neighbouring: accountant.AddRemove, Delta: 1e-5,
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("ε is in [%.2f, %.2f] at δ = %g\n", r.Interval.Lower, r.Interval.Upper, r.Delta)
	// Output:
	// ε is in [1.52, 1.52] at δ = 1e-05
}

// How much noise makes them cost ε = 1 at most?
func ExampleSchedule_Calibrate() {
	s := accountant.Schedule{
		SamplingRate: 0.01, Steps: 1000, Delta: 1e-5,
		Neighbouring: accountant.AddRemove, Accountant: accountant.PLD,
	}
	sigma, reached, err := s.Calibrate(1)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("noise multiplier %.3f, not above the target: %v\n", sigma, reached <= 1)
	// Output:
	// noise multiplier 1.415, not above the target: true
}

// What is asked of one batch stands in one event: it is composed first and amplified
// once.
func ExampleParseEvents() {
	events, err := accountant.ParseEvents(strings.NewReader(`[
		{"batch": {"poisson": 0.01, "mechanisms": [
			{"mechanism": "gaussian", "noise_multiplier": 2},
			{"mechanism": "gaussian", "noise_multiplier": 8}]}, "count": 1000},
		{"mechanism": "laplace", "scale": 20, "count": 3}]`))
	if err != nil {
		log.Fatal(err)
	}
	r, err := accountant.Account(events, accountant.Options{
		Accountant: accountant.PLD, Neighbouring: accountant.AddRemove, Delta: 1e-5,
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d events cost ε = %.2f\n", len(events), r.Epsilon)
	// Output:
	// 2 events cost ε = 0.71
}

// A filter admits releases that are chosen on the way, as long as all together stay
// within a budget that was fixed before.
func ExampleFilter() {
	planned := []accountant.Event{accountant.PoissonBatch(0.1, 10, accountant.Gaussian{NoiseMultiplier: 2})}
	order, err := accountant.FilterOrder(planned, accountant.AddRemove, 1e-5)
	if err != nil {
		log.Fatal(err)
	}
	f, err := accountant.NewFilter(1, 1e-5, accountant.AddRemove, order)
	if err != nil {
		log.Fatal(err)
	}
	for steps := 0; ; steps++ {
		step := accountant.PoissonBatch(0.1, 1, accountant.Gaussian{NoiseMultiplier: 2})
		if err := f.Ask(step); errors.Is(err, accountant.ErrBudget) {
			fmt.Println("the budget ends the run:", steps > 10)
			break
		} else if err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// the budget ends the run: true
}
