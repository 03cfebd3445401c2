package train

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/internal/charge"
	"github.com/privgrad/privgrad/internal/rundir"
)

// own is a method of a user's own. It keeps the sums that it is given, and moves nothing.
type own struct {
	dpoptim.NoSettings
	traits dpoptim.Traits
	budget dpoptim.Budget
	fill   float32 // of its vector
	asks   int     // in a step
	asked  func() error

	engine dpoptim.Engine
	sum    dpoptim.Sum
	vector dpoptim.Vector
	held   []float32 // the vector's values in the first step
	sums   [][]float32
}

func (o *own) Traits() dpoptim.Traits { return o.traits }
func (o *own) Declare(dpoptim.Settings, dpoptim.Facts) (dpoptim.Declaration, error) {
	return dpoptim.Declaration{Budget: o.budget, Asks: []dpoptim.Ask{dpoptim.GaussianSum(1)}}, nil
}

func (o *own) Open(e dpoptim.Engine) (dpoptim.Steps, error) {
	var e1, e2 error
	o.engine, o.held = e, nil
	o.sum, e1 = e.Sum(dpoptim.SumQuery{})
	o.vector, e2 = e.NewVector(1)
	filled := slices.Repeat([]float32{o.fill}, e.Facts().Params)
	return o, errors.Join(e1, e2, e.Write(o.vector, filled))
}

func (o *own) State() []dpoptim.State { return []dpoptim.State{{Vector: o.vector, Width: 1}} }

func (o *own) Step() (int, error) {
	if o.held == nil {
		o.held = make([]float32, o.engine.Facts().Params)
		if err := o.engine.Read(o.vector, o.held); err != nil {
			return 0, err
		}
	}
	for range o.asks {
		if err := o.sum.Ask(dpoptim.SumAsk{}); err != nil {
			return 0, err
		}
		if o.asked != nil {
			if err := o.asked(); err != nil {
				return 0, err
			}
		}
	}
	released := make([]float32, o.engine.Facts().Params)
	err := o.engine.Read(o.engine.Gradient(), released)
	o.sums = append(o.sums, released)
	return 1, err
}

// lbfgsConfig is a search for the minimum on the made set.
func lbfgsConfig() Config {
	c := Default()
	c.Data, c.Classes, c.Model, c.Threads, c.Optimizer, c.L2 = "made", []int{0, 1}, "logistic", 1, lbfgs, 1e-2
	return c
}

// A search that begins at the minimum ends there.
func TestLBFGSBeginsAtTheMinimum(t *testing.T) {
	set := made(1, 400)
	clear(set.Train.Features)
	for i := range set.Train.Labels { // as many of each class, all of one kind
		set.Train.Labels[i] = uint8(i % 2)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	r, err := Run(ctx, lbfgsConfig(), Options{Sources: sources(set), Out: filepath.Join(t.TempDir(), "run")})
	if err != nil || r.Steps != 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

// A process that ended between its checkpoint and its result left a whole model.
func TestLBFGSWithoutResult(t *testing.T) {
	o := Options{Sources: sources(made(1, 400)), Out: filepath.Join(t.TempDir(), "run")}
	want := finished(t, lbfgsConfig(), o)
	check(t, os.Remove(filepath.Join(o.Out, rundir.Result)))
	model := read(t, o.Out, rundir.Model)
	o.Resume = ResumeRun
	r, err := Run(context.Background(), lbfgsConfig(), o)
	if err != nil || r.Steps != want.Steps || r.Steps == 0 || !slices.Equal(model, read(t, o.Out, rundir.Model)) {
		t.Errorf("%+v, %v, want %d steps", r, err, want.Steps)
	}
}

// A method that does not look whether it is to stop is stopped where it asks.
func TestOwnOnceIsStopped(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	asked := 0
	m := &own{traits: dpoptim.Traits{Name: "own", Once: true}, asks: 200, asked: func() error {
		if asked++; asked == 3 {
			cancel()
		}
		return nil
	}}
	c := small()
	c.NoiseMultiplier = nil
	_, err := Run(ctx, c, Options{Sources: sources(made(1, 400)), Out: filepath.Join(t.TempDir(), "run"), Method: m})
	if !errors.Is(err, ErrInterrupted) || asked != 3 {
		t.Errorf("%v, after %d questions", err, asked)
	}
}

// Interrupted within a step behind a checkpoint, a run saves what the step has spent, and
// gives back what it has reserved.
func TestInterruptedWithinAStep(t *testing.T) {
	c := small()
	c.NoiseMultiplier, c.Batch, c.Epsilon, c.Optimizer = nil, nil, ptr(5.0), "dp-blsgd-ac"
	d := noting(t)
	o := Options{Sources: sources(made(1, 400)), Out: filepath.Join(t.TempDir(), "run"), Device: d}
	p := resolved(t, c, o)
	ctx, cancelled := stopAt(t, o, 10, true)
	ends(ctx, t, c, cancelled, ErrInterrupted)
	s := charges(t, o.Out)
	if spent, charged := spentBy(t, p, d), float64(s.Reserved)/charge.Units; math.Abs(spent-charged) > 1e-6 {
		t.Errorf("%v of the budget was spent, the ledger charges %v", spent, charged)
	}
	var log strings.Builder
	o.Log, o.Resume, o.Device = slog.New(slog.NewTextHandler(&log, nil)), ResumeRun, nil
	ctx, o = stopAt(t, o, 11, true)
	if _, err := Run(ctx, c, o); !errors.Is(err, ErrInterrupted) || strings.Contains(log.String(), "without saving") {
		t.Errorf("%v; %s", err, &log)
	}
}

// Nothing of a planned schedule is refused for its price: a method that says so has failed.
func TestOwnCommittedHasNoBudget(t *testing.T) {
	m := &own{traits: dpoptim.Traits{Name: "own", Private: true}, asks: 1}
	m.asked = func() error {
		if len(m.sums) == 5 {
			return accountant.ErrBudget
		}
		return nil
	}
	_, err := Run(context.Background(), small(), Options{Sources: sources(made(1, 400)), Out: filepath.Join(t.TempDir(), "run"), Method: m})
	if !errors.Is(err, accountant.ErrBudget) {
		t.Errorf("%v, want %v", err, accountant.ErrBudget)
	}
}

// A method that keeps nothing goes on with its budget and its noise positions.
func TestOwnFilteredResumes(t *testing.T) {
	c := small()
	c.NoiseMultiplier, c.Epsilon, c.Accountant, c.Noise = nil, ptr(1.0), accountant.RDP, dpoptim.Seeded
	runs := map[string]*own{}
	epsilons := map[string]float64{}
	for _, name := range []string{"whole", "pieces"} {
		m := &own{traits: dpoptim.Traits{Name: "own", Private: true}, budget: dpoptim.Admitted, asks: 1}
		o := Options{Sources: sources(made(1, 400)), Out: filepath.Join(t.TempDir(), "run"), Method: m}
		if name == "pieces" {
			ctx, cancelled := stopAt(t, o, 12, true)
			if _, err := Run(ctx, c, cancelled); !errors.Is(err, ErrInterrupted) || len(m.sums) != 13 {
				t.Fatalf("%v, after %d steps", err, len(m.sums))
			}
			o.Resume = ResumeRun
		}
		r := finished(t, c, o)
		runs[name], epsilons[name] = m, *r.EpsilonSoFar
	}
	if epsilons["whole"] != epsilons["pieces"] {
		t.Errorf("ε so far: %v", epsilons)
	}
	if !slices.EqualFunc(runs["whole"].sums, runs["pieces"].sums, slices.Equal) {
		t.Errorf("%d sums of a whole run are not the %d in pieces", len(runs["whole"].sums), len(runs["pieces"].sums))
	}
}

// The first checkpoint has what a method began with.
func TestOwnStateOfOpen(t *testing.T) {
	m := &own{traits: dpoptim.Traits{Name: "own", Private: true}, fill: 7, asks: 1}
	c := small()
	o := Options{Sources: sources(made(1, 400)), Out: filepath.Join(t.TempDir(), "run"), Method: m, block: 5}
	for _, stop := range []int{0, 5} {
		_, crash := stopAt(t, o, stop, false)
		ends(context.Background(), t, c, crash, errCrash)
		if want := slices.Repeat([]float32{7}, len(m.held)); len(m.held) == 0 || !slices.Equal(m.held, want) {
			t.Errorf("stopped at %d: the vector was %v", stop, m.held)
		}
		o.Resume = ResumeRun
	}
}
