// Package price is the commands that say what private methods cost, by arithmetic on public numbers.
package price

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/spf13/pflag"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/internal/cli"
	"github.com/privgrad/privgrad/internal/usage"
)

// real is a number that JSON writes as null where it is infinite or undefined.
type real float64

func (x real) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(x))
}

// settings are the flags that account and calibrate share.
type settings struct {
	accountant.Schedule
	epsilon, sigma float64
	sampling       string
}

// define adds them; those of a schedule have a default only where a command uses it.
func (a *settings) define(f *pflag.FlagSet, rate float64, steps int) {
	f.SortFlags = false
	f.Float64Var(&a.Delta, "delta", 0, "δ, in (0, 1)")
	f.Float64Var(&a.epsilon, "epsilon", 0, "privacy budget ε")
	f.Float64Var(&a.sigma, "noise-multiplier", 0, "noise multiplier σ/C per step")
	f.Float64Var(&a.SamplingRate, "sampling-rate", rate, "probability that a record joins a batch; 1: all records")
	f.IntVar(&a.Steps, "steps", steps, "number of steps")
	f.StringVar(&a.sampling, "sampling", poisson, "how batches are drawn: poisson, or fixed-size, which needs --neighbouring replace-one")
	f.StringVar(&a.Accountant, "accountant", accountant.PLD, accountants())
	f.StringVar((*string)(&a.Neighbouring), "neighbouring", string(accountant.AddRemove), "how two data sets may differ: add-remove or replace-one")
	cli.JSONFlag(f)
}

const (
	poisson = "poisson"
	subsets = "fixed-size"
)

// check finds how batches are drawn.
func (a *settings) check() error {
	if a.sampling != poisson && a.sampling != subsets {
		return usage.Unknown("sampling", a.sampling, []string{poisson, subsets})
	}
	a.Subsets = a.sampling == subsets
	return nil
}

// accountants lists them, those apart whose figures are none.
func accountants() string {
	var sound, other []string
	for _, name := range accountant.Names() {
		if accountant.NoGuarantee(name) == "" {
			sound = append(sound, name)
		} else {
			other = append(other, name)
		}
	}
	return strings.Join(sound, ", ") + "; NO GUARANTEE: " + strings.Join(other, ", ")
}

// describeRisk says what ε means, in figures that are rounded up.
func describeRisk(w io.Writer, r *accountant.Risk) {
	if r == nil {
		return
	}
	fmt.Fprintf(w, "\n%s\n%s\n", cli.AttackGuess(r), cli.AttackFinds(r))
}

// noGuarantee says why an accountant's figures are none, where they are not.
func noGuarantee(name string) []string {
	if why := accountant.NoGuarantee(name); why != "" {
		return []string{why}
	}
	return []string{}
}

// warn says why there is no guarantee.
func warn(w io.Writer, reasons []string) {
	for _, why := range reasons {
		fmt.Fprintln(w, cli.Labeled(why))
	}
}
