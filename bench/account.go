package bench

import (
	"math"
	"time"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/internal/timing"
)

// AccountResult is what accounting costs on one thread.
type AccountResult struct {
	Accounts []AccountEntry `json:"accounts"`
}

// AccountEntry is one task. Epsilon is its result, at δ = 1e-5.
type AccountEntry struct {
	Task       string   `json:"task"`
	Accountant string   `json:"accountant"`
	Epsilon    float64  `json:"epsilon"`
	Width      *float64 `json:"interval_width"` // null where there is no interval
	Times      int      `json:"times"`
	Seconds    float64  `json:"seconds_median"`
}

// Account times the accountants on what users ask of them, for some seconds each.
func Account(seconds float64) (*AccountResult, error) {
	if err := timing.CheckSeconds(seconds); err != nil {
		return nil, err
	}
	const q, sigma, steps, delta = 0.005, 1, 10_000, 1e-5
	one := []accountant.Event{accountant.PoissonBatch(q, steps, accountant.Gaussian{NoiseMultiplier: sigma})}
	var many []accountant.Event
	for i := range 100 {
		x := float64(i) / 100
		many = append(many, accountant.PoissonBatch(q*math.Exp(x), 1000, accountant.Gaussian{NoiseMultiplier: 1 + 4*x}))
	}
	account := func(name string, events []accountant.Event) func() (accountant.Result, error) {
		return func() (accountant.Result, error) {
			return accountant.Account(events, accountant.Options{Accountant: name, Neighbouring: accountant.AddRemove, Delta: delta})
		}
	}
	calibrate := func(name string) func() (accountant.Result, error) {
		return func() (accountant.Result, error) {
			s := accountant.Schedule{SamplingRate: q, Steps: steps, Neighbouring: accountant.AddRemove, Accountant: name, Delta: delta}
			_, reached, err := s.Calibrate(3)
			return accountant.Result{Epsilon: reached}, err
		}
	}
	r := &AccountResult{}
	for _, task := range []struct {
		name, accountant string
		run              func() (accountant.Result, error)
	}{
		{"q=.005 σ=1 T=10⁴", accountant.PLD, account(accountant.PLD, one)},
		{"q=.005 σ=1 T=10⁴", accountant.RDP, account(accountant.RDP, one)},
		{"q=.005 σ=1 T=10⁴", accountant.PRV, account(accountant.PRV, one)},
		{"10⁵ events of 100 kinds", accountant.PLD, account(accountant.PLD, many)},
		{"10⁵ events of 100 kinds", accountant.RDP, account(accountant.RDP, many)},
		{"calibrate to ε=3", accountant.PLD, calibrate(accountant.PLD)},
		{"calibrate to ε=3", accountant.RDP, calibrate(accountant.RDP)},
	} {
		e := AccountEntry{Task: task.name, Accountant: task.accountant}
		var times []float64
		for total := 0.0; total < seconds || len(times) < 3; {
			began := time.Now()
			a, err := task.run()
			if err != nil {
				return nil, err
			}
			took := time.Since(began).Seconds()
			times, total = append(times, took), total+took
			e.Epsilon = a.Epsilon
			if i := a.Interval; i != nil {
				e.Width = new(i.Upper - i.Lower)
			}
		}
		e.Times, e.Seconds = len(times), timing.Median(times)
		r.Accounts = append(r.Accounts, e)
	}
	return r, nil
}
