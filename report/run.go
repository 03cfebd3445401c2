package report

import (
	"fmt"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim/batches"
	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/internal/plan"
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/train"
)

// A run is what the files of a finished one say.
type run struct {
	train.Result
	Config config.Config `json:"-"`
	trace
}

// open reads the files of a run that has finished.
func open(dir string) (*run, error) {
	d := rundir.Dir(dir)
	if !d.Has(rundir.Config) {
		return nil, usage.Errorf("%s is no run directory, for it has no %s: give a directory that train wrote", dir, rundir.Config)
	}
	r := &run{}
	finished, err := d.ReadResult(r)
	switch {
	case err != nil:
		return nil, err
	case !finished:
		return nil, d.Unfinished(rundir.Result)
	case !r.Sound():
		return nil, usage.Errorf("%s is not what a run writes: restore it", d.Path(rundir.Result))
	}
	if err := config.Read(d.Path(rundir.Config), &r.Config); err != nil {
		return nil, err
	}
	if r.Asked = r.Config.Epsilon; r.Tuning != nil {
		r.Asked = &r.Tuning.Asked
	}
	if r.Evaluations, err = rundir.ReadMetrics[train.Measurement](d); err == nil && !r.sound() {
		err = usage.Errorf("%s or %s is not what a run writes: restore them", d.Path(rundir.Result), d.Path(rundir.Metrics))
	}
	return r, err
}

// sound says whether confusion matrices are square.
func (r *run) sound() bool {
	for _, m := range r.Evaluations {
		if slices.ContainsFunc(m.Confusion, func(row []int) bool { return len(row) != len(m.Confusion) }) {
			return false
		}
	}
	return true
}

// Name tells the run from others.
func (r *run) Name() string { return filepath.Base(filepath.Clean(r.Run)) }

// Title says what was trained, on what, and how.
func (r *run) Title() string { return r.Model + " on " + r.Data() + ", " + r.Optimizer }

// Foreign is what of the run no command of privgrad has, but the program that trained.
func (r *run) Foreign() string { return plan.Foreign(&r.Config, r.Assumptions) }

// Label goes with the run where its ε is none.
func (r *run) Label() string { return plan.Label(&r.Config) }

// budget is ε and δ in a line.
func (r *run) budget() string {
	switch {
	case !r.Private():
		return "without privacy"
	case r.Epsilon == nil:
		return "ε infinite"
	}
	return fmt.Sprintf("ε = %s, δ = %s", r.StatedEpsilon(), number(*r.Delta))
}

// StatedEpsilon is the ε that was asked for, with the computed one beside it where that is another number.
func (r *run) StatedEpsilon() string { return r.Stated(number) }

// Budget says so where that is no guarantee.
func (r *run) Budget() string {
	if r.Epsilon != nil && !r.Guarantee {
		return r.budget() + " (no guarantee)"
	}
	return r.budget()
}

// Factor is e^ε: how much likelier a record can make any outcome. Empty where that says nothing.
func (r *run) Factor() string {
	if r.Epsilon == nil || *r.Epsilon > 50 {
		return ""
	}
	return strconv.FormatFloat(math.Exp(*r.Bound()), 'g', 3, 64)
}

// Neighbors says in words what is hard to tell apart.
func (r *run) Neighbors() string {
	if r.Neighbouring != nil && *r.Neighbouring == string(accountant.ReplaceOne) {
		return fmt.Sprintf("with any one %s as with any other in its place", r.Noun())
	}
	return fmt.Sprintf("with any one %s as without it", r.Noun())
}

// Relation says what the neighboring relation means.
func (r *run) Relation() string {
	switch {
	case r.Neighbouring == nil:
		return ""
	case *r.Neighbouring == string(accountant.ReplaceOne):
		return "replace-one: two neighboring data sets differ in the content of one " + r.Noun()
	}
	return fmt.Sprintf("add-remove: of two neighboring data sets, one has one %s more", r.Noun())
}

// accountants in words.
var accountants = map[string]string{
	accountant.PLD: "privacy loss distributions, the upper end of a certified interval", accountant.RDP: "Rényi divergences",
	accountant.PRV: "privacy random variables, a cross-check", accountant.ZCDP: "zero-concentrated differential privacy",
	accountant.GDP: "Gaussian differential privacy", accountant.CTCDP: "truncated concentrated differential privacy",
	accountant.Paper: "the arithmetic of published papers", accountant.Pure{}.Name(): "pure differential privacy",
}

// By says how ε was computed.
func (r *run) By() string {
	if words := accountants[*r.Accountant]; words != "" {
		return *r.Accountant + ": " + words
	}
	return *r.Accountant
}

// Weights says which ones the model has.
func (r *run) Weights() string {
	if r.ModelIs != nil {
		return *r.ModelIs
	}
	return "the parameters after the last step"
}

// Untuned is what the guarantee rests on of how settings were chosen.
func (r *run) Untuned() string {
	if r.Tuning != nil {
		return r.Tuning.RestsOn()
	}
	return "no setting was chosen by looking at the private data"
}

// ChosenOn is what the defaults were chosen on.
func (r *run) ChosenOn() string { return plan.ChosenOn(r.DefaultsFrom) }

// Batches says how they were drawn.
func (r *run) Batches() string {
	if r.SamplingRate == 1 {
		return fmt.Sprintf("all %ss at every step; their public number is %d", r.Noun(), r.PublicN)
	}
	drawn, each := batches.Words(r.Sampling)
	return fmt.Sprintf("%s: %s of %d %ss (the public number) %s", drawn, number(r.ExpectedBatch), r.PublicN, r.Noun(), each)
}

// Usable is the noisy count of usable records, in words; empty where none was made.
func (r *run) Usable() string {
	if r.Counted == nil {
		return ""
	}
	return fmt.Sprintf("about %.0f, by a noisy count that ε includes", max(*r.Counted, 0))
}

// StepsMade is that of the run, for the page.
func (r *run) StepsMade() string { return StepsMade(&r.Result) }

// StepsMade says how many updates there were, and how many were paid for.
func StepsMade(r *train.Result) string {
	switch {
	case r.Rounds != nil:
		return fmt.Sprintf("%d of %d rounds that were drawn; all of the %d that it might have been are paid for", r.Steps, *r.Rounds, *r.Committed)
	case r.Committed != nil && r.Steps == 0 && *r.Committed > 0:
		return fmt.Sprintf("none of %d: all were lost to interruptions, so that this is an untrained model; their privacy cost still counts", *r.Committed)
	case r.Committed != nil && r.Steps < *r.Committed:
		return fmt.Sprintf("%d of %d; the others were lost to interruptions, and their privacy cost still counts", r.Steps, *r.Committed)
	}
	return strconv.Itoa(r.Steps)
}

// RestsOn are the assumptions in words.
func (r *run) RestsOn() (all []string) {
	for _, a := range r.Assumptions {
		all = append(all, train.Assumption(a))
	}
	return all
}

// A RiskRow says which share of the members an attacker finds, at most, who wrongly accuses a share of the others.
type RiskRow struct{ FPR, TPR string }

// Risks are rows by rising false alarms.
func (r *run) Risks() (rows []RiskRow) {
	if r.Risk == nil {
		return nil
	}
	var rates []float64
	for key := range r.Risk.TPR {
		if x, err := strconv.ParseFloat(key, 64); err == nil {
			rates = append(rates, x)
		}
	}
	slices.Sort(rates)
	for _, x := range rates {
		rows = append(rows, RiskRow{percent(x), percent(r.Risk.TPR[strconv.FormatFloat(x, 'f', -1, 64)])})
	}
	return rows
}

// Advantage is the attacker's, in words; empty where it is not known.
func (r *run) Advantage() string {
	if r.Risk == nil {
		return ""
	}
	return percent(r.Risk.Advantage)
}

// Guesses is the share of right guesses that the advantage allows.
func (r *run) Guesses() string { return percent((1 + r.Risk.Advantage) / 2) }

// A Pair is a name with a value.
type Pair struct{ Name, Value string }

// Settings are those of config.yaml, in the order in which a person reads of them. Of paths
// they have the end, as Data has.
func (r *run) Settings() (rows []Pair) {
	c := r.Config
	c.Data, c.DataDir = named(c.Data), ""
	for _, path := range []*string{&c.Schema, &c.Init, &c.L2P.Protector} {
		if *path != "" {
			*path = filepath.Base(*path)
		}
	}
	for _, s := range config.Rows() {
		if v := reflect.Indirect(reflect.ValueOf(s.Field(&c))); v.Kind() == reflect.Pointer && !v.IsNil() || v.Kind() != reflect.Pointer && !v.IsZero() {
			rows = append(rows, Pair{s.Key, fmt.Sprint(reflect.Indirect(v))})
		}
	}
	return rows
}

// what the files of a run directory are.
var contents = map[string]string{
	rundir.Config:  "the configuration, to run it again",
	rundir.Metrics: "the evaluations, one per line", rundir.Model: "the model",
	rundir.Average: "the moving average of the parameters", rundir.Features: "the fixed features that the model reads",
	rundir.Network: "the operations of the network", rundir.Frozen: "the part of the network that was not trained",
}

// A File has the digest that result.json gives it.
type File struct{ Name, Content, Digest string }

// DigestedFiles are those with a digest.
func (r *run) DigestedFiles() (all []File) {
	for name, digest := range r.Digests {
		content := contents[name]
		if name == rundir.Model {
			content += ": " + r.Weights()
		}
		all = append(all, File{name, content, digest})
	}
	slices.SortFunc(all, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// number writes a figure for people: at most six digits, without an exponent where that is short.
func number(x float64) string {
	if x != 0 && math.Abs(x) < 1e-4 || math.Abs(x) >= 1e7 {
		return strconv.FormatFloat(x, 'g', 4, 64)
	}
	return strconv.FormatFloat(float64(float32(x)), 'g', 6, 32)
}

// percent writes a share.
func percent(x float64) string {
	return strconv.FormatFloat(100*x, 'f', 2, 64) + "%"
}
