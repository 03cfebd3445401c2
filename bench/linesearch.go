package bench

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/privgrad/privgrad/dpoptim/mechanism"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/train"
)

// LineSearchOptions says what line search to time. The step's mode is private,
// and the search has a batch of its own, of as many rows.
type LineSearchOptions struct {
	StepOptions
	Tried int // points that a search evaluates, the present parameters among them
}

// LineSearchResult is a DP-SGD step beside one with a line search.
type LineSearchResult struct {
	Device           string  `json:"device"`
	Model            string  `json:"model"`
	Activation       string  `json:"activation"`
	Data             string  `json:"data"`
	Batch            int     `json:"batch"`
	Threads          int     `json:"threads"`
	Tried            int     `json:"tried"`
	Steps            int     `json:"steps_timed"` // of each kind
	StepSeconds      float64 `json:"step_seconds_median"`
	DPSGDStepSeconds float64 `json:"dpsgd_step_seconds_median"`
	Ratio            float64 `json:"ratio"`
}

const (
	backtracking = 0.8 // from one step size to the next
	lossClip     = 3
)

// LineSearch times DP-SGD steps, and in turns with them DP-SGD steps followed by
// a line search: the clipped losses of a fresh batch at the parameters and at
// Tried − 1 backtracked step sizes along the released gradient, summed,
// noised and read.
func LineSearch(o LineSearchOptions) (*LineSearchResult, error) {
	o.Mode = "private"
	if err := o.check(); err != nil {
		return nil, err
	}
	if o.Tried < 2 || o.Tried > device.MaxCandidates {
		return nil, &train.UsageError{Err: fmt.Errorf("tried %d: must be in [2, %d], the present parameters counted", o.Tried, device.MaxCandidates)}
	}
	w, err := o.open()
	if err != nil {
		return nil, err
	}
	defer w.close()
	// Every loss has the sensitivity lossClip and all of them together √Tried
	// times that: this is a Gaussian of multiplier 1 on the whole vector.
	m := func(n device.Net) (mechanism.Mechanism, error) {
		return mechanism.NewGaussian(math.Sqrt(float64(o.Tried)), lossClip, n.Rounding(o.Batch), w.noise, 1)
	}
	search, err := w.engine.LossQuery(w.data, m, o.Tried)
	if err != nil {
		return nil, err
	}
	steps := make([]float32, o.Tried) // steps[0] is 0, the parameters
	for i := range steps[1:] {
		steps[i+1] = float32(stepRate * math.Pow(backtracking, float64(i)) / float64(o.Batch))
	}

	random := rand.New(rand.NewPCG(1, 2))
	rows := make([]int32, o.Batch)
	draw := func() []int32 {
		for i := range rows {
			rows[i] = random.Int32N(int32(len(w.set.Train.Labels)))
		}
		return rows
	}
	position := uint64(0)
	step := func(searches bool) (float64, error) {
		position += 2
		gradient := draw()
		began := time.Now()
		if err := w.engine.Step(gradient, position, int(position/2)); err != nil {
			return 0, err
		}
		if err := w.engine.Wait(); err != nil {
			return 0, err
		}
		took := time.Since(began)
		if searches {
			fresh := draw()
			began = time.Now()
			if _, err := search(fresh, position+1, steps...); err != nil {
				return 0, err
			}
			took += time.Since(began)
		}
		return took.Seconds(), nil
	}
	var alone, searching []float64
	budget := time.Duration(o.Seconds * float64(time.Second))
	start := time.Now()
	for turn := 0; len(alone) == 0 || time.Since(start) < budget; turn++ {
		a, err := step(false)
		if err != nil {
			return nil, err
		}
		s, err := step(true)
		if err != nil {
			return nil, err
		}
		if turn > 0 && time.Since(start) > budget/10 {
			alone, searching = append(alone, a), append(searching, s)
		}
	}
	slices.Sort(alone)
	slices.Sort(searching)
	info := w.device.Info()
	r := &LineSearchResult{
		Device: info.Name, Model: o.Model, Activation: o.Activation, Data: w.set.Name, Batch: o.Batch, Threads: info.Threads,
		Tried: o.Tried, Steps: len(alone), StepSeconds: searching[len(searching)/2], DPSGDStepSeconds: alone[len(alone)/2],
	}
	r.Ratio = r.StepSeconds / r.DPSGDStepSeconds
	return r, nil
}
