// Package tuned is what a tuned run says of its tuning: in its result, and in the file by which its whole price can be
// computed again. All of it is public.
package tuned

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/internal/plan"
	"github.com/privgrad/privgrad/internal/price"
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/internal/usage"
)

// A Tuning is what result.json says of one.
type Tuning struct {
	Grid         string         `json:"grid"`
	Choices      int            `json:"choices"`         // of settings, in the grid
	Chosen       map[string]any `json:"chosen"`          // the released settings; null where no trial was made
	Score        string         `json:"score"`           // by which a trial was chosen: a key of the result
	Trials       string         `json:"trials"`          // distribution of their number, which is secret
	Expected     float64        `json:"expected_trials"` // its mean
	TrialEpsilon *float64       `json:"trial_epsilon"`   // for which the noise of a trial was computed; null where the grid has all noise
	Asked        float64        `json:"asked_epsilon"`   // for the whole
}

// A Record is the plan of a tuning, before its first trial.
type Record struct {
	Tuning
	Epsilon      float64                 `json:"epsilon"` // the whole price, at Delta
	Delta        float64                 `json:"delta"`
	Neighbouring accountant.Neighbouring `json:"neighbouring"`
	Assumptions  []string                `json:"assumptions"` // of all candidates
	Candidates   []Candidate             `json:"candidates"`
}

// A Candidate is one choice of settings.
type Candidate struct {
	Chosen          map[string]any     `json:"settings"`
	Settings        string             `json:"settings_sha256"` // of a trial: the digest of its checkpoint/config.yaml
	NoiseMultiplier float64            `json:"noise_multiplier"`
	Events          []accountant.Event `json:"events"` // that a trial releases
}

// Selection is what is priced.
func (r *Record) Selection() (s accountant.Selection, err error) {
	for _, c := range r.Candidates {
		s.Candidates = append(s.Candidates, c.Events)
	}
	s.Trials, err = accountant.ParseTrials(r.Trials)
	return s, err
}

// Priced has the plan of a trial say what it costs: the whole price, which is spent before the first trial.
func (r *Record) Priced() (func(*plan.Plan), error) {
	s, err := r.Selection()
	if err != nil {
		return nil, err
	}
	risk, err := s.Risk(r.Neighbouring)
	return func(p *plan.Plan) {
		p.Whole, p.Price.Epsilon = true, price.Finite(r.Epsilon)
		p.Guarantee.Epsilon, p.Guarantee.Asked, p.Guarantee.Risk = p.Price.Epsilon, &r.Asked, risk
	}, err
}

// Text is the record as its file has it.
func (r *Record) Text() ([]byte, error) {
	b, err := json.MarshalIndent(r, "", "  ")
	return append(b, '\n'), err
}

// Read is that of a run directory; nil where there is none.
func Read(dir rundir.Dir) (*Record, error) {
	if !dir.Has(rundir.Tuning) {
		return nil, nil
	}
	b, err := os.ReadFile(dir.Path(rundir.Tuning))
	var r Record
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err == nil && len(r.Candidates) == 0 {
		err = fmt.Errorf("it has no candidates")
	}
	if err != nil {
		return nil, usage.Errorf("%s cannot be read (%w): restore it", dir.Path(rundir.Tuning), usage.Cause(err))
	}
	return &r, nil
}

// Faults are what a result says otherwise than the record: its whole price is computed again. settings is the digest of the
// released trial's, and events are its releases.
func (r *Record) Faults(t *Tuning, epsilon float64, settings string, events []accountant.Event) (faults []string) {
	add := func(wrong bool, format string, a ...any) {
		if wrong {
			faults = append(faults, fmt.Sprintf(format, a...))
		}
	}
	stated := *t
	stated.Chosen = nil
	add(!alike(stated, r.Tuning), "the tuning is another one than that of %s", rundir.Tuning)
	add(len(r.Candidates) != r.Choices, "%s lists %d of %d choices", rundir.Tuning, len(r.Candidates), r.Choices)
	i := slices.IndexFunc(r.Candidates, func(c Candidate) bool { return c.Settings == settings })
	switch {
	case i < 0:
		add(true, "the released settings are none of the grid")
	default:
		add(t.Chosen != nil && !alike(t.Chosen, r.Candidates[i].Chosen), "the settings called chosen are not the released ones")
		add(!alike(events, r.Candidates[i].Events), "the releases of the trial are not those of its settings in %s", rundir.Tuning)
	}
	s, err := r.Selection()
	var got accountant.Result
	if err == nil {
		got, err = s.Epsilon(r.Neighbouring, r.Delta)
	}
	add(err != nil, "the whole price cannot be computed: %v", err)
	add(err == nil && (got.Epsilon > epsilon*(1+tolerance) || got.Epsilon < epsilon*(1-tolerance)), "the tuning costs %v, epsilon is %v", got.Epsilon, epsilon)
	add(r.Epsilon > r.Asked*(1+tolerance), "the tuning costs %v, and %v was asked for", r.Epsilon, r.Asked)
	return faults
}

// tolerance is how far figures may be apart that other processors compute.
const tolerance = 1e-6

// alike compares the JSON forms of values.
func alike(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// Settings are the chosen ones in a line, in the order of the grid.
func (t *Tuning) Settings() string {
	if t.Chosen == nil {
		return "the initial model, since no trial was made"
	}
	var all []string
	for axis := range strings.SplitSeq(t.Grid, ";") {
		key, _, _ := strings.Cut(axis, "=")
		all = append(all, fmt.Sprintf("%s=%v", key, t.Chosen[key]))
	}
	return strings.Join(all, ", ")
}

// Words say how the settings were chosen.
func (t *Tuning) Words() string {
	return fmt.Sprintf("the best by %s of a secret number of private trials (%.3g on average), with settings drawn from %d choices (%s). ε covers all trials and the choice among them",
		strings.ReplaceAll(t.Score, "_", " "), t.Expected, t.Choices, t.Grid)
}

// RestsOn is what the guarantee rests on of how settings were chosen.
func (t *Tuning) RestsOn() string {
	return "the grid, and all settings that are not in it, were chosen without looking at the private data"
}
