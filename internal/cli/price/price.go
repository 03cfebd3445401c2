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
	"github.com/privgrad/privgrad/dpoptim/batches"
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
	kind           *batches.Kind // of that name

	// What people know of a training; the schedule's rate and steps follow.
	batch, epochs float64
	publicN       int
}

// define adds them; those of a schedule have a default only where a command uses it.
func (a *settings) define(f *pflag.FlagSet, rate float64, steps int) {
	f.SortFlags = false
	f.Float64Var(&a.Delta, "delta", 0, "δ, in (0, 1)")
	f.Float64Var(&a.epsilon, "epsilon", 0, "privacy budget ε")
	f.Float64Var(&a.sigma, "noise-multiplier", 0, "noise multiplier σ/C per step")
	f.Float64Var(&a.SamplingRate, "sampling-rate", rate, "probability that a record joins a batch; 1: all records")
	f.Float64Var(&a.batch, "batch", 0, "expected batch size: with --public-n, in place of --sampling-rate")
	f.IntVar(&a.publicN, "public-n", 0, "public number of records to train on, with --batch (of a table with a test_share, only the share that trains)")
	f.IntVar(&a.Steps, "steps", steps, "number of steps")
	f.Float64Var(&a.epochs, "epochs", 0, "expected passes over the data, in place of --steps; rounded down to whole steps, as in train")
	f.StringVar(&a.sampling, "sampling", batches.Poisson.Name, "how batches are drawn: poisson, or fixed-size, which needs --neighbouring replace-one")
	f.StringVar(&a.Accountant, "accountant", accountant.PLD, accountants())
	f.StringVar((*string)(&a.Neighbouring), "neighbouring", string(accountant.AddRemove), "how two data sets may differ: add-remove or replace-one")
	cli.JSONFlag(f)
}

// check finds how batches are drawn, how large they are, and how many.
func (a *settings) check(given func(flag string) bool) error {
	if a.kind = batches.Named(a.sampling); a.kind == nil || !a.kind.Offered {
		return usage.Unknown("sampling", a.sampling, batches.Offered())
	}
	a.Batch = a.kind.Event
	if err := a.setRate(given); err != nil {
		return err
	}
	return a.setSteps(given)
}

// setRate makes a sampling rate of --batch and --public-n, as train does of what is left to train on.
func (a *settings) setRate(given func(flag string) bool) error {
	switch {
	case !given("batch") && !given("public-n"):
		return nil
	case given("sampling-rate"):
		return usage.Errorf("--sampling-rate was given beside --batch or --public-n: give the rate, or the other two")
	case !given("batch"):
		return usage.Errorf("--public-n needs --batch, the expected batch size: together they are a sampling rate")
	case !given("public-n"):
		return usage.Errorf("--batch needs --public-n, the public number of records: together they are a sampling rate")
	case !(a.batch > 0 && a.batch <= float64(a.publicN)):
		return usage.Errorf("batch %v of %d records: must be above 0, and at most the number of records", a.batch, a.publicN)
	}
	a.SamplingRate = a.batch / float64(a.publicN)
	if fit := a.kind.Fit; fit != nil {
		if _, size, err := fit(a.publicN, a.SamplingRate); err != nil || size != a.batch {
			return usage.Errorf("batch %v: a batch of fixed size has a whole number of records", a.batch)
		}
	}
	return nil
}

// setSteps makes steps of --epochs, as train does.
func (a *settings) setSteps(given func(flag string) bool) error {
	switch {
	case !given("epochs"):
		return nil
	case given("steps"):
		return usage.Errorf("--steps and --epochs were both given: give one")
	case !a.rated(given):
		return usage.Errorf("--epochs needs a sampling rate: give --sampling-rate, or --batch and --public-n; to find the rate, give --steps instead")
	case !(a.SamplingRate > 0 && a.SamplingRate <= 1):
		return usage.Errorf("sampling rate %v: must be in (0, 1]", a.SamplingRate)
	}
	var err error
	a.Steps, err = accountant.StepsOf(a.epochs, a.SamplingRate)
	return err
}

// rated says whether a sampling rate was given, and counted the same of the number of steps.
func (a *settings) rated(given func(flag string) bool) bool {
	return given("sampling-rate") || given("batch")
}

func (a *settings) counted(given func(flag string) bool) bool {
	return given("steps") || given("epochs")
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

// describeRisk says what ε means for a record or a group of records, in figures that are rounded up.
func describeRisk(w io.Writer, r *accountant.Risk, group int) {
	if r == nil {
		return
	}
	one, many := "a record was", "records"
	if group > 1 {
		one, many = fmt.Sprintf("%d records were", group), "groups"
	}
	fmt.Fprintf(w, "\n%s\n%s\n", cli.AttackGuess(r, one), cli.AttackFinds(r, many))
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
