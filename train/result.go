package train

import (
	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/internal/tuned"
)

// A Claim is what a run promises of every record that it was trained on.
type Claim = accountant.Guarantee

// Result is what a run reports; its JSON form is result.json. Undefined
// figures are null. Nothing in it was computed from training records without
// noise, unless the data were declared public.
type Result struct {
	Run             string   `json:"run"`
	Dataset         string   `json:"dataset"`
	DatasetSource   string   `json:"dataset_source,omitempty"` // the set that the data set is a copy of, by its public name
	Model           string   `json:"model"`
	ModelIs         *string  `json:"model_is,omitempty"` // where it is not the last iterate
	Parameters      int      `json:"parameters"`
	Optimizer       string   `json:"optimizer"`
	Device          string   `json:"device"`
	DeviceReason    string   `json:"device_reason,omitempty"` // why it is the CPU, and not the GPU that seems to be there
	Precision       string   `json:"precision"`               // of matrix products
	Threads         int      `json:"threads"`
	Steps           int      `json:"steps"`                // updates applied
	Iterations      *int     `json:"iterations,omitempty"` // of a solver in the one step, a public number
	Rounds          *int     `json:"rounds,omitempty"`     // updates that were drawn to be made, where a method draws them
	StepsNow        int      `json:"-"`                    // of these, by this process, to which seconds belong; 0 of a stored result
	Committed       *int     `json:"committed_schedule"`   // updates paid for; null where a filter ends the run
	Sampling        string   `json:"sampling"`
	SamplingRate    float64  `json:"sampling_rate"`
	ExpectedBatch   float64  `json:"expected_batch"` // q·N, the normaliser
	PublicN         int      `json:"public_n"`
	Canaries        int      `json:"canaries,omitempty"`        // made-up records beside them, which count in the expected batch
	Counted         *float64 `json:"counted_records,omitempty"` // usable ones, by a noisy count that was charged
	Clipping        *string  `json:"clipping"`
	Clip            *float64 `json:"clip"`             // the last one where it moves
	NoiseMultiplier *float64 `json:"noise_multiplier"` // σ/C
	Claim
	TuningCharged bool          `json:"tuning_charged"`
	Tuning        *tuned.Tuning `json:"tuning,omitempty"` // how the settings were chosen, where that was charged
	Recipe        string        `json:"recipe,omitempty"` // which one filled in what was left open, or why none did
	DefaultsFrom  string        `json:"defaults_chosen_on"`
	Released      []string      `json:"released"`
	Diagnostics   bool          `json:"private_diagnostics"`

	Initial *Initial `json:"init,omitempty"` // which tensors began with the values of a file; nil where none did

	// Events are the releases whose composition epsilon is; null where budgets adapt, and
	// where nothing was charged.
	Events []accountant.Event `json:"events"`
	// Digests are the SHA-256 of the files that the result goes with.
	Digests map[string]string `json:"digests"`

	// Gradients, and losses at a point, that a line search asked of a batch.
	GradientEvaluations  *int `json:"gradient_evaluations,omitempty"`
	ObjectiveEvaluations *int `json:"objective_evaluations,omitempty"`

	// Evaluations are the lines of metrics.jsonl, also of earlier processes of the run.
	Evaluations []Measurement `json:"-"`

	Classes      []string `json:"classes,omitempty"` // by number, as in the confusion matrix of an evaluation
	TrainLoss    *float64 `json:"train_loss"`
	TrainLossIs  *string  `json:"train_loss_is,omitempty"`
	TestLoss     *float64 `json:"test_loss"`
	TestAccuracy *float64 `json:"test_accuracy"`
	Figures
	AverageAccuracy   *float64 `json:"average_test_accuracy"` // of the average of the parameters, where one is kept
	Seconds           float64  `json:"seconds"`               // of this process, whole, at least 1
	ExamplesPerSecond float64  `json:"examples_per_second"`
	PeakRSS           int64    `json:"peak_rss_bytes"`
}

// Sound says whether a result that was read has what train always writes, so that it can be shown.
func (r *Result) Sound() bool {
	return r.Run != "" && (!r.Private() || r.Accountant != nil && r.Neighbouring != nil) && (!r.Guarantee || r.Private() && r.Epsilon != nil)
}
