package bench

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/dpoptim/mechanism"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/train"
)

// LineSearchOptions says what line search to time. The step's mode is private.
type LineSearchOptions struct {
	StepOptions
	Form    string // of SearchForms
	Batches string // fresh: the search has a batch of its own, of as many rows; shared: the gradient's
	Tried   int    // candidates that a search goes through
}

// LineSearchResult is a DP-SGD step beside a DP-BLSGD step.
type LineSearchResult struct {
	Device           string  `json:"device"`
	Model            string  `json:"model"`
	Activation       string  `json:"activation"`
	Data             string  `json:"data"`
	Batch            int     `json:"batch"`
	Threads          int     `json:"threads"`
	Form             string  `json:"form"`
	Batches          string  `json:"batches"`
	Tried            int     `json:"tried"`
	Evaluated        int     `json:"evaluated"`   // groups of candidates may go beyond what is needed
	Steps            int     `json:"steps_timed"` // of each kind
	StepSeconds      float64 `json:"step_seconds_median"`
	DPSGDStepSeconds float64 `json:"dpsgd_step_seconds_median"`
	Ratio            float64 `json:"ratio"`
	// Limit is the ratio that this project holds itself to: a search costs its
	// forward passes. One takes about a third of a DP-SGD step, the one at the
	// present parameters counts where the batch is fresh, and 15 % are for the rest.
	Limit float64 `json:"limit"`
}

// mostTried is that of settings of a run.
const mostTried = 1000

func (o *LineSearchOptions) check() error {
	o.Mode = "private"
	if err := o.StepOptions.check(); err != nil {
		return err
	}
	most := mostTried
	if o.Form == formCurve {
		most = device.MaxCandidates
	}
	switch {
	case !slices.Contains(SearchForms(), o.Form):
		return usage.Errorf("form %q: choose one of %s", o.Form, strings.Join(SearchForms(), ", "))
	case o.Batches != string(accountant.Fresh) && o.Batches != string(accountant.Shared):
		return usage.Errorf("batches %q: choose %s or %s", o.Batches, accountant.Fresh, accountant.Shared)
	case o.Tried < 1 || o.Tried > most:
		return usage.Errorf("tried %d: must be in [1, %d] for form %s", o.Tried, most, o.Form)
	}
	return nil
}

// The forms of dp-blsgd's searches, by train's names.
const (
	formDifferences = "differences"
	formCurve       = "curve"
	formLosses      = "losses"
)

// SearchForms lists what can be timed.
func SearchForms() []string { return []string{formDifferences, formCurve, formLosses} }

const (
	backtracking = 0.8 // from one step size to the next
	lossClip     = 0.1
)

func (o *LineSearchOptions) limit() float64 {
	passes := float64(o.Tried)
	if o.Batches == string(accountant.Fresh) {
		passes++
	}
	return 1.15 * (1 + 0.37*passes)
}

// LineSearch times DP-SGD steps and, in turns with them, DP-BLSGD steps: a released
// direction, a search along it that finds its candidate number Tried, or a released
// curve of so many, and the step. Drawing batches is not timed, and no accountant.
func LineSearch(o LineSearchOptions) (*LineSearchResult, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	w, err := o.open()
	if err != nil {
		return nil, err
	}
	defer w.close()
	e, search, err := o.descent(w)
	if err != nil {
		return nil, err
	}
	defer e.Close()

	random := rand.New(rand.NewPCG(1, 2))
	rows := make([]int32, o.Batch)
	draw := func() {
		for i := range rows {
			rows[i] = random.Int32N(int32(len(w.set.Train.Labels)))
		}
	}
	position := uint64(0) // both engines draw from one stream
	plain := func() (time.Duration, error) {
		position++
		draw()
		began := time.Now()
		if err := w.engine.Step(rows, position, int(position)); err != nil {
			return 0, err
		}
		err := w.engine.Wait()
		return time.Since(began), err
	}
	searching := func() (time.Duration, error) {
		position += 2
		draw()
		began := time.Now()
		if err := search.direct(rows, position-1); err != nil {
			return 0, err
		}
		took := time.Since(began)
		if o.Batches == string(accountant.Fresh) {
			draw()
		}
		began = time.Now()
		if err := search.find(rows, position); err != nil {
			return 0, err
		}
		if _, err := e.Move(stepRate, int(position)); err != nil {
			return 0, err
		}
		err := e.Wait()
		return took + time.Since(began), err
	}
	alone, with, err := inTurns(o.Seconds, 6, plain, searching) // the first turns find groups of candidates their size
	if err != nil {
		return nil, err
	}
	info := w.device.Info()
	r := &LineSearchResult{
		Device: info.Name, Model: o.Model, Activation: o.Activation, Data: w.set.Name, Batch: o.Batch, Threads: info.Threads,
		Form: o.Form, Batches: o.Batches, Tried: o.Tried, Evaluated: e.Tried(), Limit: o.limit(),
		Steps: len(alone), StepSeconds: median(with), DPSGDStepSeconds: median(alone),
	}
	r.Ratio = r.StepSeconds / r.DPSGDStepSeconds
	return r, nil
}

// lineSearch is the two releases of a DP-BLSGD step.
type lineSearch struct {
	direct func(rows []int32, draw uint64) error
	find   func(rows []int32, draw uint64) error
}

// descent is an engine as a run with a line search has it, on the workload's
// device, data and noise.
func (o *LineSearchOptions) descent(w *workload) (*train.Engine, *lineSearch, error) {
	var gradient mechanism.Mechanism
	e, err := train.NewDescent(w.device, w.schedule, device.Options{Capacity: o.Batch}, w.data,
		func(n device.Net) (m mechanism.Mechanism, err error) {
			gradient, err = mechanism.NewGaussian(1, 1, n.Rounding(o.Batch), w.program.NumParams(), w.noise, 0)
			return gradient, err
		},
		func(n device.Net) (dpoptim.Optimizer, error) {
			return dpoptim.NewSGD(n, dpoptim.Config{Rate: stepRate, Normaliser: float64(o.Batch)})
		}, float64(o.Batch), 0, false)
	if err != nil {
		return nil, nil, err
	}
	params := make([]float32, w.program.NumParams())
	err = w.engine.Params(params)
	if err == nil {
		err = e.SetParams(params)
	}
	s := &lineSearch{direct: func(rows []int32, draw uint64) error {
		_, err := e.Direction(rows, draw, gradient)
		return err
	}}
	if err == nil {
		s.find, err = o.finder(w, e)
	}
	if err != nil {
		e.Close()
		return nil, nil, err
	}
	return e, s, nil
}

// finder is the search: of up to 20 candidates, or as many as are to be tried, whose
// biases make the last to be tried the first that is found, whatever the noise.
func (o *LineSearchOptions) finder(w *workload, e *train.Engine) (func(rows []int32, draw uint64) error, error) {
	trials := max(o.Tried, 20)
	if o.Form == formCurve {
		trials = o.Tried
	}
	candidates, biases := make([]float64, trials), make([]float64, trials)
	for i := range candidates {
		candidates[i] = stepRate * math.Pow(backtracking, float64(i))
		if biases[i] = math.Inf(1); i == o.Tried-1 {
			biases[i] = -math.MaxFloat64
		}
	}
	if o.Form == formCurve {
		m, err := mechanism.NewGaussian(1, lossClip, 0, trials, w.noise, 1)
		if err != nil {
			return nil, err
		}
		return func(rows []int32, draw uint64) error {
			_, err := e.Decreases(rows, draw, m, candidates)
			return err
		}, e.RecordCurve(w.data, trials, m)
	}
	priced := accountant.NoisyBTLS{Noise: accountant.BTLSGaussian, ThresholdScale: 1, QueryScale: 1, MaxTrials: trials, Queries: accountant.Generic}
	if o.Form == formLosses {
		priced.Queries = accountant.SharedBaseline
	}
	m, err := mechanism.NewNoisyBTLS(priced, lossClip, w.noise, 1)
	if err != nil {
		return nil, err
	}
	return func(rows []int32, draw uint64) error {
		i, err := e.Search(rows, draw, m, candidates, biases)
		if err == nil && i != o.Tried-1 {
			err = fmt.Errorf("the search found candidate %d, not %d; please report this", i+1, o.Tried)
		}
		return err
	}, e.RecordSearch(w.data, m)
}
