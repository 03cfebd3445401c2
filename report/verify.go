package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/accountant/ledger"
	"github.com/privgrad/privgrad/internal/budget"
	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/internal/plan"
	"github.com/privgrad/privgrad/internal/price"
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/internal/source"
	"github.com/privgrad/privgrad/internal/tuned"
)

// A Verification says whether the files of a run go together.
type Verification struct {
	Run string `json:"run"`
	OK  bool   `json:"ok"`
	// Epsilon is what every accountant that can makes of the releases; null is infinite.
	Epsilon   map[string]*float64 `json:"epsilon"`
	Checks    []Check             `json:"checks"`
	Statement string              `json:"statement"` // what the run claims
	Shows     string              `json:"shows"`     // what a verification does and does not
}

// A Check is one of them.
type Check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
}

const shows = "This shows that the files go together. It does not show that training happened as they say."

// Verify checks the files of a run that has finished against each other. It needs no data.
func Verify(dir string) (*Verification, error) {
	r, err := open(dir)
	if err != nil {
		return nil, err
	}
	return verify(r, dir), nil
}

// Verifications say whether the files of several runs go together, each run's with each other, and whether steps of one were run
// twice.
type Verifications struct {
	OK     bool            `json:"ok"`
	Runs   []*Verification `json:"runs"`
	Copies []Twin          `json:"copies"`
	Forks  []Twin          `json:"forks"` // each is a check that failed, too, of both of its runs
}

// VerifyAll checks several runs.
func VerifyAll(dirs ...string) (*Verifications, error) {
	runs, err := openAll(dirs)
	if err != nil {
		return nil, err
	}
	_, copies, forks := twins(runs)
	all := &Verifications{OK: true, Copies: append([]Twin{}, copies...), Forks: append([]Twin{}, forks...)}
	for _, r := range runs {
		v := verify(r, r.path)
		c := Check{Name: "forks", OK: true, Detail: "no other of these runs is a copy that went on"}
		for _, t := range forks {
			if t.run == r || t.of == r {
				c.OK, c.Detail = false, t.other(r)
			}
		}
		v.Checks = append(v.Checks, c)
		v.OK = v.OK && c.OK
		all.OK = all.OK && v.OK
		all.Runs = append(all.Runs, v)
	}
	return all, nil
}

func verify(r *run, dir string) *Verification {
	v := &verification{run: r, dir: rundir.Dir(dir), Verification: Verification{Run: dir, Epsilon: map[string]*float64{}, Shows: shows}}
	v.Statement = r.statement()
	v.digests()
	p, err := v.replan()
	v.readTuning(p)
	v.settings(p)
	v.guarantee(p)
	v.schedule(p, err)
	v.epsilon()
	v.ledger()
	v.budget()
	v.metrics()
	v.model()
	v.OK = !slices.ContainsFunc(v.Checks, func(c Check) bool { return !c.OK })
	return &v.Verification
}

// statement is the run's claim in a line.
func (r *run) statement() string {
	if !r.Guarantee {
		return "The run claims no guarantee: " + strings.Join(r.NoGuarantee, "; ") + "."
	}
	return fmt.Sprintf("The run claims %s for %s, %s neighbors, by %s.", r.budget(), r.PrivacyUnit, *r.Neighbouring, *r.Accountant)
}

// A verification is one that goes on.
type verification struct {
	Verification
	*run
	dir    rundir.Dir
	record *tuned.Record // nil: the run is none of a tuning
	unread error         // why it cannot be read
}

// check notes a check that found faults, or else what it saw.
func (v *verification) check(name, saw string, faults []string) {
	c := Check{Name: name, OK: len(faults) == 0, Detail: saw}
	if !c.OK {
		c.Detail = strings.Join(faults, "; ")
	}
	v.Checks = append(v.Checks, c)
}

// faults collects what differs.
type faults []string

// add notes a fault where there is one.
func (f *faults) add(wrong bool, format string, a ...any) {
	if wrong {
		*f = append(*f, fmt.Sprintf(format, a...))
	}
}

// budget compares the receipt of a budget over several runs with its file, where both are at hand.
func (v *verification) budget() {
	receipt, err := budget.ReadReceipt(v.dir)
	if receipt == nil && err == nil {
		return
	}
	var c config.Config
	if err == nil {
		err = config.Read(v.dir.Path(rundir.Config), &c)
	}
	var f faults
	saw := "the budget that paid for the run has its entry, and has lost nothing since"
	file, gone := budget.Read(c.Budget)
	switch {
	case err != nil:
		f.add(true, "%v", err)
	case gone != nil && !budget.There(c.Budget):
		saw = "not checked, as the budget is not here: `privgrad budget show FILE RUN` checks it"
	case gone != nil:
		f.add(true, "%v", gone)
	default:
		if err := file.CheckRun(c.Budget, v.dir); err != nil {
			f.add(true, "%v", err)
		}
	}
	v.check("budget", saw, f)
}

// digests compares those of the files with those that the result has.
func (v *verification) digests() {
	for _, name := range []string{rundir.Config, rundir.Metrics, rundir.Model, rundir.Average, rundir.Features, rundir.Network, rundir.Frozen, rundir.Tuning} {
		want, told := v.run.Digests[name]
		there := v.dir.Has(name)
		optional := slices.Contains([]string{rundir.Average, rundir.Features, rundir.Network, rundir.Frozen, rundir.Tuning}, name)
		if optional && !told && !there {
			continue
		}
		var f faults
		switch {
		case !there:
			f.add(true, "the file is gone")
		case !told:
			f.add(true, "%s has no digest of it", rundir.Result)
		default:
			got, err := v.dir.Digest(name)
			f.add(err != nil, "cannot be read: %v", err)
			f.add(err == nil && got != want, "the file has SHA-256 %s, %s says %s", got, rundir.Result, want)
		}
		v.check("digest of "+name, want, f)
	}
}

// differs compares values of result and configuration, where both have one.
func differs[T comparable](result, config *T) bool {
	return result != nil && config != nil && *result != *config
}

// settings compares the result with the configuration, and with what is planned of it, if that can be.
func (v *verification) settings(p *plan.Plan) {
	r, c := v.run, &v.run.Config
	var f faults
	for _, x := range []struct {
		key            string
		result, config string
	}{{"data", r.Dataset, c.Data}, {"model", r.Model, c.Model}, {"optimizer", r.Optimizer, c.Optimizer}, {"precision", r.Precision, c.Precision}, {"privacy_unit", r.PrivacyUnit, plan.PrivacyUnit(c)}} {
		f.add(x.result != x.config, "%s is %s in %s, %s in %s", x.key, x.result, rundir.Result, x.config, rundir.Config)
	}
	delta, by := c.Delta, &c.Accountant
	if p != nil {
		delta, by = p.Guarantee.Delta, p.Guarantee.Accountant
	} else if r.Pure() {
		delta, by = r.Delta, r.Accountant
	}
	f.add(differs(r.Delta, delta), "delta differs from %s", rundir.Config)
	f.add(differs(r.Accountant, by), "accountant differs from %s", rundir.Config)
	f.add(differs(r.Neighbouring, &c.Neighbouring), "neighbouring differs from %s", rundir.Config)
	f.add(differs(r.Clipping, &c.Clipping), "clipping differs from %s", rundir.Config)
	f.add(c.PrivateDiagnostics && !r.Diagnostics, "private_diagnostics is false, true in %s", rundir.Config)
	f.add(r.TuningCharged != (r.Tuning != nil) || r.TuningCharged != v.dir.Has(rundir.Tuning), "tuning_charged is %v, which the run's tuning and %s do not say", r.TuningCharged, rundir.Tuning)
	f.add(r.Epsilon != nil && c.Epsilon != nil && *r.Epsilon > *c.Epsilon*(1+tolerance), "epsilon is %v, the budget in %s is %v", show(r.Epsilon), rundir.Config, show(c.Epsilon))
	v.check("settings", rundir.Result+" says what "+rundir.Config+" does", f)
}

// replan plans the run anew, from its configuration; nil, and why, where that cannot be.
func (r *run) replan() (*plan.Plan, error) {
	records, err := source.StatedN(r.Config)
	if err == nil && records > 0 && r.PublicN != records {
		err = fmt.Errorf("public_n is %d, the data of %s have %d", r.PublicN, rundir.Config, records)
	}
	if n := r.Config.PublicN; err == nil && n != nil && r.PublicN > *n { // a part of a table may be held out
		err = fmt.Errorf("public_n is %d, %s declares %d", r.PublicN, rundir.Config, *n)
	}
	if err != nil {
		return nil, err
	}
	return plan.Reprice(r.Config, r.PublicN, r.Parameters, len(r.Classes))
}

// guarantee checks that a run is not said to have one that cannot, and that what speaks against it, or what it rests on,
// is not left out.
func (v *verification) guarantee(p *plan.Plan) {
	r := v.run
	var f faults
	f.add(r.Guarantee != (len(r.NoGuarantee) == 0), "guarantee is %v, with %d reasons against it", r.Guarantee, len(r.NoGuarantee))
	f.add(r.Guarantee && r.Epsilon == nil, "a guarantee without an epsilon")
	if p != nil {
		for _, why := range p.Guarantee.NoGuarantee {
			f.add(r.Guarantee, "a guarantee is claimed, in spite of %s: %s", rundir.Config, why)
			f.add(!r.Guarantee && !slices.Contains(r.NoGuarantee, why), "the reasons against it leave out: %s", why)
		}
		for _, a := range p.Guarantee.Assumptions {
			f.add(!slices.Contains(r.Assumptions, a), "the assumptions leave out %s", a)
		}
	}
	saw := "the settings do not exclude the guarantee"
	if !r.Guarantee {
		saw = "none is claimed"
	}
	v.check("guarantee", saw, f)
}

// schedule compares steps, noise, releases and their price with those that are planned anew. A
// result chooses the last digits of a calibrated noise alone, and the number of a table's
// records, which its schema says.
func (v *verification) schedule(p *plan.Plan, unplanned error) {
	r := v.run
	var f faults
	if own := r.Config.Optimizer; unplanned != nil && !slices.Contains(config.Optimizers(), own) {
		f.add(true, "this program has no optimizer %q, so the run cannot be planned anew: verify it by the program that trained it", own)
		v.check("schedule", "", f)
		return
	}
	if unplanned != nil {
		f.add(true, "%s cannot be planned anew: %v", rundir.Config, unplanned)
		v.check("schedule", "", f)
		return
	}
	f.add(r.Sampling != p.Kind.Name || !near(r.SamplingRate, p.SamplingRate), "sampling is %s at rate %v, planned is %s at %v", r.Sampling, r.SamplingRate, p.Kind.Name, p.SamplingRate)
	f.add(!near(r.ExpectedBatch, p.ExpectedBatch), "expected_batch is %v, planned is %v", r.ExpectedBatch, p.ExpectedBatch)
	if r.Committed != nil {
		f.add(r.Private() && *r.Committed != p.Steps, "committed_schedule is %d, planned are %d steps", *r.Committed, p.Steps)
	} else {
		f.add(!p.Filtered(), "committed_schedule is none, planned are %d steps", p.Steps)
	}
	if r.NoiseMultiplier != nil {
		same := about
		if r.Config.NoiseMultiplier != nil { // which was not calibrated
			same = near
		}
		f.add(!same(*r.NoiseMultiplier, p.Sigma), "noise_multiplier is %v, planned is %v", *r.NoiseMultiplier, p.Sigma)
		p.Sigma = *r.NoiseMultiplier // to the last digit
	}
	same := about
	if len(r.Events) == 0 { // from which it is not computed again
		same = near
	}
	f.add((r.Epsilon == nil) != (p.Epsilon == nil) || r.Epsilon != nil && !same(*r.Epsilon, *p.Epsilon), "epsilon is %v, planned is %v", show(r.Epsilon), show(p.Epsilon))
	f.add(!covers(r.Risk, p.Guarantee.Risk), "risk is not what epsilon means")
	listed, err := lists(r.Events, p)
	f.add(err != nil, "releases cannot be planned anew: %v", err)
	f.add(err == nil && !listed, "events are not the releases of %s", rundir.Config)
	saw := fmt.Sprintf("%d steps at sampling rate %s, planned anew from %s", p.Steps, number(p.SamplingRate), rundir.Config)
	if p.Filtered() {
		saw = "releases were not planned: a filter admitted each"
	}
	v.check("schedule", saw, f)
}

// lists says whether events are the releases of a plan.
func lists(events []accountant.Event, p *plan.Plan) (bool, error) {
	planned, err := p.Events()
	if err != nil {
		return false, err
	}
	a, err := json.Marshal(planned)
	if err != nil {
		return false, err
	}
	b, err := json.Marshal(events)
	return bytes.Equal(a, b), err
}

// covers says whether a stated risk is the planned one; stating none claims nothing.
func covers(stated, planned *accountant.Risk) bool {
	if stated == nil || planned == nil {
		return stated == nil
	}
	for rate, tpr := range planned.TPR {
		if got, ok := stated.TPR[rate]; ok && !about(got, tpr) {
			return false
		}
	}
	return about(stated.Advantage, planned.Advantage)
}

// tolerance is how far figures may be apart that other processors compute.
const tolerance = 1e-6

func near(a, b float64) bool { return math.Abs(a-b) <= tolerance*math.Max(math.Abs(a), math.Abs(b)) }

// about is for what was calibrated: another version may end its search a little earlier.
func about(a, b float64) bool { return math.Abs(a-b) <= 1e-3*math.Max(math.Abs(a), math.Abs(b)) }

// show writes a figure that may not be there.
func show[T any](x *T) string {
	if x == nil {
		return "none"
	}
	return fmt.Sprint(*x)
}

// epsilon computes it again, by every accountant that can.
func (v *verification) epsilon() {
	r := v.run
	var f faults
	f.add(r.Epsilon != nil && r.EpsilonSoFar != nil && *r.EpsilonSoFar > *r.Epsilon*(1+tolerance), "epsilon_so_far %v is above epsilon %v", show(r.EpsilonSoFar), show(r.Epsilon))
	switch {
	case r.Tuning != nil:
		v.tuning()
	case r.Delta == nil:
		f.add(r.Epsilon != nil, "an epsilon without a delta")
		v.check("epsilon", "none is claimed", f)
	case len(r.Events) == 0:
		v.check("epsilon", "it is that of the schedule, which lists no releases", f)
	case *r.Delta == 0:
		v.pure(f)
	default:
		v.recompute(f)
	}
}

// pure adds up releases whose δ is 0.
func (v *verification) pure(f faults) {
	total := 0.0
	for _, e := range v.run.Events {
		for _, m := range e.Mechanisms {
			p, ok := m.(accountant.Pure)
			f.add(!ok, "a release %s is not pure", m.Name())
			total += float64(e.Count) * p.Epsilon
		}
	}
	if *v.Neighbouring == string(accountant.ReplaceOne) {
		total *= 2
	}
	v.Verification.Epsilon[accountant.Pure{}.Name()] = &total
	f.add(v.run.Epsilon == nil || total > *v.run.Epsilon*(1+tolerance), "the releases cost %v, epsilon is %v", total, show(v.run.Epsilon))
	v.check("epsilon", "the sum of what the releases cost", f)
}

func (v *verification) recompute(f faults) {
	r := v.run
	for _, name := range accountant.Names() {
		got, err := accountant.Account(r.Events, accountant.Options{Accountant: name, Neighbouring: accountant.Neighbouring(*r.Neighbouring), Delta: *r.Delta})
		f.add(err != nil && name == *r.Accountant, "accountant %s refuses the releases: %v", name, err)
		if err != nil {
			continue
		}
		v.Verification.Epsilon[name] = price.Finite(got.Epsilon)
		stated := math.Inf(1)
		if r.Epsilon != nil {
			stated = *r.Epsilon
		}
		if name == *r.Accountant {
			f.add(stated != got.Epsilon && !near(stated, got.Epsilon), "the releases cost %v by %s, epsilon is %v", got.Epsilon, name, stated)
		}
		if name == accountant.PRV && got.Interval != nil { // it shares no code with the others
			f.add(*r.Accountant == accountant.PLD && got.Interval.Lower > stated*(1+tolerance), "by %s, the releases cost %v at least, epsilon is %v", name, got.Interval.Lower, stated)
		}
	}
	v.check("epsilon", "the releases cost what "+rundir.Result+" says, by "+*r.Accountant, f)
}

// ledger compares its counts with the result.
func (v *verification) ledger() {
	r := v.run
	state, header, err := ledger.Read(v.dir.Path(rundir.Ledger))
	if err != nil {
		v.check("ledger", "", []string{err.Error()})
		return
	}
	var f faults
	f.add(state.Reserved > state.Committed, "%d of %d slots were charged", state.Reserved, state.Committed)
	saw := fmt.Sprintf("%.3g%% of the budget were charged", 100*float64(state.Reserved)/float64(max(header.Committed, 1)))
	if len(r.Events) > 0 && r.Committed != nil {
		f.add(header.Committed != *r.Committed, "it was made for %d steps, %s says %d", header.Committed, rundir.Result, *r.Committed)
		f.add(r.Steps > state.Reserved, "%d steps were made, %d charged", r.Steps, state.Reserved)
		saw = fmt.Sprintf("%d of %d steps were charged", state.Reserved, header.Committed)
	}
	v.check("ledger", saw, f)
}

// metrics compares the last evaluation with the result.
func (v *verification) metrics() {
	r := v.run
	var f faults
	if len(r.Evaluations) == 0 {
		f.add(r.Tuning == nil || r.Steps > 0, "there is none")
		v.check("evaluations", "there is none, as no trial was made", f)
		return
	}
	last := r.Evaluations[len(r.Evaluations)-1]
	f.add(last.Step != r.Steps, "the last is after step %d, the run made %d", last.Step, r.Steps)
	f.add(show(last.TestAccuracy) != show(r.TestAccuracy), "test_accuracy is %v, the last evaluation's %v", show(r.TestAccuracy), show(last.TestAccuracy))
	f.add(show(last.TestLoss) != show(r.TestLoss), "test_loss is %v, the last evaluation's %v", show(r.TestLoss), show(last.TestLoss))
	for _, x := range []struct {
		name         string
		claimed, had *float64
	}{{"test_rmse", r.RMSE, last.RMSE}, {"test_mae", r.MAE, last.MAE}, {"test_r2", r.R2, last.R2}, {"test_auc", r.AUC, last.AUC}, {"test_balanced_accuracy", r.BalancedAccuracy, last.BalancedAccuracy}} {
		f.add(show(x.had) != show(x.claimed), "%s is %v, the last evaluation's %v", x.name, show(x.claimed), show(x.had))
	}
	for _, m := range r.Evaluations {
		f.add(m.EpsilonSoFar != nil && r.Epsilon != nil && *m.EpsilonSoFar > *r.Epsilon*(1+tolerance), "after step %d epsilon_so_far is above epsilon", m.Step)
	}
	v.check("evaluations", fmt.Sprintf("the last of %d has the result's figures", len(r.Evaluations)), f)
}

// model compares what the model's file says of itself with the result: it tells another run's model apart, unless
// that run claims the same.
func (v *verification) model() {
	if !v.dir.Has(rundir.Model) {
		return // its digest has said so
	}
	facts, err := rundir.ReadFacts(v.dir.Path(rundir.Model))
	if err != nil {
		v.check("model", "", []string{err.Error()})
		return
	}
	r := v.run
	want := r.Facts()
	if want["model"] = r.Model; r.Guarantee {
		delete(want, "epsilon")
	}
	var f faults
	for _, key := range slices.Sorted(maps.Keys(want)) {
		got, said := facts[key]
		f.add(said && got != want[key], "its %s is %.64q, that of %s is %q", key, got, rundir.Result, want[key])
	}
	if got, said := facts["epsilon"]; r.Guarantee && said {
		epsilon, err := strconv.ParseFloat(got, 64)
		f.add(err != nil || !near(epsilon, *r.Epsilon), "its epsilon is %.64q, that of %s is %v", got, rundir.Result, *r.Epsilon)
	}
	v.check("model", rundir.Model+" claims what "+rundir.Result+" does", f)
}
