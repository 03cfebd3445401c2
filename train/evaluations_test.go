package train

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/privgrad/privgrad/internal/charge"
)

// A result has the lines of the metrics: of all of the run's processes, and of a run that
// had finished before.
func TestResultHasEvaluations(t *testing.T) {
	o := Options{Sources: sources(made(1, 400)), Out: filepath.Join(t.TempDir(), "run"), Resume: ResumeAuto, block: 3}
	ctx, stop := stopAt(t, o, 13, true)
	ends(ctx, t, small(), stop, ErrInterrupted)
	for _, when := range []string{"resumed", "asked again"} {
		r := finished(t, small(), o)
		if d := cmp.Diff(metricsOf(t, o.Out), r.Evaluations); d != "" || len(r.Evaluations) != 5 {
			t.Errorf("%s: %d evaluations: %s", when, len(r.Evaluations), d)
		}
	}
}

// A run counts what its searches ask for: the base and the candidates up to the
// one that was taken, or a whole curve.
func TestEvaluationsAreCounted(t *testing.T) {
	for _, c := range []struct {
		name   string
		search Search
		losses int // of 24 steps with a search every third
	}{
		{"one candidate", Search{Form: searchLosses, Trials: ptr(1)}, 8 * 2},
		{"no candidate is good enough", Search{Form: searchDifferences, Trials: ptr(7), Margin: ptr(100.0)}, 8 * 8},
		{"the first is good enough", Search{Form: searchDifferences, Trials: ptr(7), Margin: ptr(-100.0)}, 8 * 2},
		{"a curve", Search{Form: searchCurve, Points: ptr(5)}, 8 * 6},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := small()
			config.Optimizer, config.Search = "dp-blsgd", c.search
			config.Search.Budget, config.Search.Every = budgetFixed, ptr(3)
			r, _ := trainedOn(t, config, made(1, 400), Options{})
			if r.GradientEvaluations == nil || *r.GradientEvaluations != 24 || r.ObjectiveEvaluations == nil || *r.ObjectiveEvaluations != c.losses {
				t.Errorf("%v gradients and %v losses, want 24 and %d", *r.GradientEvaluations, *r.ObjectiveEvaluations, c.losses)
			}
		})
	}
	if r, _ := trainedOn(t, small(), made(1, 400), Options{}); r.GradientEvaluations != nil || r.ObjectiveEvaluations != nil {
		t.Error("dp-sgd counts a search's evaluations")
	}
}

// falling is a charge whose bounds cross.
type falling struct {
	charge.Charge
	epsilon float64
}

func (f falling) SoFar() *float64 { return &f.epsilon }

// What was said to be spent is never said to be less: a bound on more steps may be below one on
// fewer.
func TestEpsilonSoFarNeverFalls(t *testing.T) {
	r := &run{charge: falling{epsilon: 0.25}, evaluator: evaluator{last: &Measurement{EpsilonSoFar: ptr(0.5)}}}
	if got := r.epsilonSoFar(4); *got != 0.5 {
		t.Errorf("ε is %v after 0.5", *got)
	}
	r.charge = falling{epsilon: 1}
	if got := r.epsilonSoFar(1); *got != 1 {
		t.Errorf("ε is %v, want 1", *got)
	}
}
