package dpoptim

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim/batches"
	"github.com/privgrad/privgrad/internal/convex"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/perexample"
)

// A Method is a way to train. It declares what it asks of the private records, and asks
// it of an Engine. The declared value is what is priced, and what is drawn. What
// a method gets to see was released, or is public, so that nothing it does with it
// costs privacy.
type Method interface {
	Traits() Traits
	// Check finds faults of the settings that show without data and network. It returns them with those settled
	// that follow from the method alone.
	Check(Settings) (Settings, error)
	// Complete returns the settings with those filled in that were left open, for a network.
	Complete(Settings, Network) (Settings, Notes, error)
	// Declare lists everything that a step asks of the records. What the method needs of
	// the settings it keeps here. The facts have no planned noise yet.
	Declare(Settings, Facts) (Declaration, error)
	// Open records the method's work on an engine, once for a process of a run. The
	// parameters, and the vectors of Steps.State, are set behind it.
	Open(Engine) (Steps, error)
}

// Steps is a method at work.
type Steps interface {
	// Step makes one update, or more of a method that has traits Once, and says how many.
	// An error that is accountant.ErrBudget ends the run properly.
	Step() (updates int, err error)
	// State is what a checkpoint must hold beside the parameters.
	State() []State
}

// A Keeper is Steps with a state of its own beside vectors: released and public values
// only, which the checkpoint holds as JSON.
type Keeper interface {
	// Save encodes the state. It must hold spent, which is the engine's.
	Save(spent Spent) ([]byte, error)
	Restore(state []byte) (spent Spent, err error)
}

// DecodeState reads a state back that was saved as JSON; an unknown field is an error.
func DecodeState(state []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(state))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

// A Finisher is Steps that may end before their schedule, by public figures alone. The schedule is
// charged whole.
type Finisher interface{ Finished() bool }

// A Reporter is Steps with figures of its own for metrics and results.
type Reporter interface{ Figures() Figures }

// Figures are what a method adds to reports. All of it is public.
type Figures struct {
	Gradients, Losses *int    // how many were asked of a batch, where a method counts
	Rounds            *int    // how many it makes, where it draws that number
	Rate              float64 // the last step size over the scheduled one
	Clip              float64 // the clip norm over the first one, 0 where it stays
}

// Spent is where a run stands whose releases a filter admits.
type Spent struct {
	Draws uint64    `json:"draws,omitempty"` // batches and noise positions taken
	Spent []float64 `json:"spent,omitempty"` // of the budget
	Order float64   `json:"order,omitempty"` // at which a filter spends
}

// Traits are what is known of a method whatever its settings.
type Traits struct {
	Name    string
	Private bool // it bounds and hides a record's influence
	Pure    bool // it makes a single release of ε, without δ
	Once    bool // it is no sequence of updates: where it is private, it makes a single release
	Flat    bool // the outputs of its networks are zero at the start, whatever the record
	Local   bool // the records report one after the other, each with noise of its own
	// Batches are the ways to draw that it can be priced on, first that of where nobody chose; nil: what Draws says.
	Batches []*batches.Kind
	// Relation, Accountant and Clip are for where the user chose none; empty or 0: as for all.
	Relation   accountant.Neighbouring
	Accountant string
	Clip       float64
}

// Draws is how batches are drawn where nobody chose.
func (t Traits) Draws() *batches.Kind {
	switch {
	case len(t.Batches) > 0:
		return t.Batches[0]
	case t.Local:
		return batches.Passes
	case t.Once && t.Private:
		return batches.Full
	}
	return batches.Poisson
}

// CanDraw reports whether the method can be priced on such batches.
func (t Traits) CanDraw(k *batches.Kind) bool { return k == t.Draws() || slices.Contains(t.Batches, k) }

// Settings are those of a run that a method may read, and settle where they are nil or empty.
type Settings struct {
	Model      string `yaml:"model"`
	Activation string `yaml:"activation"`
	OwnNetwork bool   `yaml:"-"` // of a user's own graph
	Classes    []int  `yaml:"classes,omitempty,flow"`
	Seed       uint64 `yaml:"seed"`

	LR         *float64 `yaml:"lr,omitempty"`
	Momentum   float64  `yaml:"momentum"`
	L2         float64  `yaml:"l2"`
	LRSchedule string   `yaml:"lr_schedule"`
	Warmup     int      `yaml:"warmup,omitempty"`
	Average    float64  `yaml:"average,omitempty"`

	Batch        *float64 `yaml:"batch,omitempty"`
	SamplingRate *float64 `yaml:"sampling_rate,omitempty"`
	Epochs       *float64 `yaml:"epochs,omitempty"`
	Steps        *int     `yaml:"steps,omitempty"`

	Epsilon         *float64 `yaml:"epsilon,omitempty"`
	NoiseMultiplier *float64 `yaml:"noise_multiplier,omitempty"`
	Delta           *float64 `yaml:"delta,omitempty"`
	Clip            float64  `yaml:"clip"`
	Clipping        string   `yaml:"clipping"`
	Accountant      string   `yaml:"accountant"`
	Neighbouring    string   `yaml:"neighbouring"`
	Noise           string   `yaml:"noise"`
	TrainLossNoise  *float64 `yaml:"train_loss_noise,omitempty"`

	FeatureNorm *float64 `yaml:"feature_norm,omitempty"` // of a record's features, at most; nil: they are as they are
	Radius      *float64 `yaml:"radius,omitempty"`       // of the ball that weights stay in; nil: they are free
}

// FromBounds is for Notes.DefaultsFrom of methods whose defaults follow from public bounds.
const FromBounds = "no data: the defaults follow from public figures"

// CheckPlain refuses what has no meaning for plain descent on gradients that the norm of features bounds.
func (c Settings) CheckPlain(name string) error {
	switch {
	case c.Momentum != 0:
		return usage.Errorf("momentum %v: optimizer %s has none; leave it out", c.Momentum, name)
	case c.Clipping != string(perexample.Flat):
		return usage.Errorf("clipping %s: the gradients of optimizer %s are bounded by --feature-norm; leave it out", c.Clipping, name)
	}
	return nil
}

// BoundClip puts a bound on every record's gradient in the place of the clip norm, for a method
// that has it from the norm of features.
func (c *Settings) BoundClip(name string, bound float64) error {
	if c.Clip != 1 && c.Clip != bound { // 1: none was given
		return usage.Errorf("clip norm %v: optimizer %s bounds gradients by the norm of features, to %v here; leave --clip out, or set --feature-norm", c.Clip, name, bound)
	}
	c.Clip = bound
	return nil
}

// CheckOnce refuses what has no meaning for a method with traits Once.
func (c Settings) CheckOnce(name string) error {
	switch {
	case c.Batch != nil || c.SamplingRate != nil && *c.SamplingRate != 1 || c.Epochs != nil:
		return usage.Errorf("optimizer %s looks at all records: leave out --batch, --sampling-rate and --epochs", name)
	case c.LR != nil || c.Momentum != 0:
		return usage.Errorf("optimizer %s has no learning rate and no momentum: leave out --lr and --momentum", name)
	case c.LRSchedule != Constant || c.Warmup != 0 || c.Average != 0:
		return usage.Errorf("optimizer %s makes no updates to schedule or to average: leave out --lr-schedule, --warmup and --average", name)
	case c.Clipping != string(perexample.Flat) || c.TrainLossNoise != nil:
		return usage.Errorf("optimizer %s clips nothing and releases no loss: leave out --clipping and --train-loss-noise", name)
	}
	return nil
}

// CheckFit refuses what has no meaning for a private fit. The noise of a published one follows from ε.
func (c Settings) CheckFit(name string, published bool) error {
	switch {
	case c.Momentum != 0 || c.LRSchedule != Constant || c.Warmup != 0 || c.Average != 0:
		return usage.Errorf("optimizer %s makes plain steps and keeps no iterate: leave out --momentum, --lr-schedule, --warmup and --average", name)
	case c.Clipping != string(perexample.Flat) || c.TrainLossNoise != nil:
		return usage.Errorf("optimizer %s clips features and no gradients, and releases no loss: leave out --clipping and --train-loss-noise; --feature-norm is its bound", name)
	case c.Noise == Exact:
		return usage.Errorf("noise exact: optimizer %s releases no sum of gradients; use --noise secure, which is as exact here", name)
	case c.NoiseMultiplier != nil && (*c.NoiseMultiplier == 0 || published):
		return usage.Errorf("noise multiplier %v: the noise of optimizer %s follows from ε here; give --epsilon, or --optimizer lbfgs for a fit without privacy", *c.NoiseMultiplier, name)
	}
	return c.CheckUnclipped(name)
}

// NormOr1 is the bound on the norm of features, 1 where none was given.
func (c Settings) NormOr1() *float64 {
	if c.FeatureNorm == nil {
		return new(1.0)
	}
	return c.FeatureNorm
}

// CheckUnclipped refuses a clip norm, for a method that clips no gradients.
func (c Settings) CheckUnclipped(name string) error {
	if c.Clip != 0 && c.Clip != 1 { // none was given
		return usage.Errorf("clip norm %v: optimizer %s clips no gradients; leave --clip out", c.Clip, name)
	}
	return nil
}

// FitDoubts are why a fit has no guarantee. It takes the public number of records, those in front, so that
// a record that is added in front of as many pushes another one out: two moves, where add-remove prices one.
func (c Settings) FitDoubts() []string {
	if c.Neighbouring != string(accountant.AddRemove) {
		return nil
	}
	return []string{"a fit under add-remove: it takes the public number of records, so a record that is added pushes another one out of a full table; use --neighbouring replace-one"}
}

// The ways to draw noise, as Settings.Noise has them.
const (
	Secure = "secure"
	Exact  = "exact"
	Seeded = "seeded"
)

// Linear is a linear model with a convex, smooth loss, and the bounds that hold for its records.
type Linear = convex.Model

// Network is what a method may know of the network that it trains, and of its data.
type Network struct {
	Layers  int // with and without parameters; one is a linear model
	Params  int
	Records int    // public number of them
	Data    string // the data set whose records they are, as far as a configuration tells
	// StartLoss bounds the loss of a record before the first step, for traits Flat.
	StartLoss float64
	// Linear is the linear model with a convex, smooth loss that the network is; nil with Why it is none.
	Linear *Linear
	Why    error
}

// Notes are what a method has to say of a run.
type Notes struct {
	Warnings     []string
	NoGuarantee  []string // why its ε is none
	Assumes      []string // keys of assumptions that the guarantee rests on
	DefaultsFrom string   // the data on which defaults were chosen, where they are the method's own
}

// NeedLinear refuses what is no linear model with a convex, smooth loss, for a method by its name.
func (n Network) NeedLinear(name string) error {
	if n.Linear != nil {
		return nil
	}
	return usage.Errorf("optimizer %s is for linear models with a convex, smooth loss: %w; use --model logistic, huber-svm or huber-regression", name, n.Why)
}

// Facts are what is public of a run before its first step.
type Facts struct {
	Params        int     // of the network
	Records       int     // public number of them
	Outputs, Bias int     // of its last layer: how many there are, and where in the parameters their bias begins
	Steps         int     // of the schedule
	SamplingRate  float64 // of a record
	ExpectedBatch float64 // q·N, what a released sum is divided by
	Clip          float64 // bound on a record's share of a sum of gradients
	L2            float64 // λ of the penalty λ/2·‖w‖²
	FeatureNorm   float64 // of a record's features, at most; 0: they are as they are
	Linear        *Linear // what the network is; nil: no linear model with a convex, smooth loss
	Rate          Rate    // step sizes over the schedule
	// Noise multipliers of gradients, known from Open on: the planned one, 0 without noise, and of a
	// Scheduled budget the one with which a single step would spend it all.
	Planned, Least float64
}

// A Solving method computes, between two questions, what Iterations counts: a public number.
type Solving interface {
	Iterations(f Facts) int
}

// A Question is a kind of release.
type Question string

const (
	Gradients Question = "gradient" // the sum of clipped gradients
	Norms     Question = "norm"     // the norm of that sum
	Searches  Question = "search"   // which candidate is the first whose losses have fallen enough
	Minima    Question = "minimum"  // which candidate has the least loss
	Curves    Question = "curve"    // by how much losses fall at some candidates
	Losses    Question = "loss"     // the sum of clipped losses
	Majority  Question = "majority" // which class has most records
	Fits      Question = "fit"      // parameters that were computed of all records
	Choices   Question = "choice"   // which coordinate's move makes losses least
	Reports   Question = "report"   // one record's gradient, with noise of its own
)

// Turn is which of a step's batches is the question's, where it has one of its own.
func (q Question) Turn() batches.Turn {
	switch q {
	case Searches, Curves, Minima:
		return batches.Second
	case Losses:
		return batches.Third
	}
	return batches.First
}

// A Release is one question's noise, with the bound on a record's share that it hides. It is
// charged and drawn from this one value.
type Release struct {
	Noise accountant.Mechanism // nil: none, and no privacy
	Bound float64
	// Within is how far a solver may stay from the minimum that objective perturbation releases.
	Within float64
	// Radius is that of the sphere of which reports are points; 0: they are gradients with noise added.
	Radius float64
}

// Batch says of which records a question is asked.
type Batch uint8

const (
	Own      Batch = iota // a batch of its own
	OfSum                 // that of the step's sum of gradients: both are paid for together
	ByPapers              // likewise, priced by the arithmetic of the papers, which is no guarantee
)

// An Ask is a declared question.
type Ask struct {
	Question Question
	Batch    Batch
	Every    int // steps from one to the next, from the first on; 0 is 1
	Size     int // candidates, of questions about losses
	// Release gives the noise at a noise multiplier of gradients: none at 0, for which a
	// search has no scales. Of an Adaptive budget it is that of the first step, or none at 0.
	Release func(multiplier float64) (Release, error)
	// At gives the noise of a step of the schedule, from 0 on, in the place of Release: of a Planned budget.
	At func(step int) (Release, error)
	// Alike says that At gives the same at every step, so that a price need not walk over them.
	Alike bool
}

// Budget says when the noise of releases is decided.
type Budget uint8

const (
	// Committed plans every release before the run, whose ε is that of all.
	Committed Budget = iota
	// Planned is Committed to noise that the method fixes for every step: none is sought. What the
	// steps cost together is the run's ε.
	Planned
	// Admitted plans them too, and a filter admits one after the other.
	Admitted
	// Scheduled lets the method choose the noise of every step around a planned one; a
	// filter admits each.
	Scheduled
	// Adaptive lets it choose noise and questions; a filter admits each.
	Adaptive
)

// Filtered reports whether a filter admits every release.
func (b Budget) Filtered() bool { return b > Planned }

// Declaration is everything that a method asks of the records. A sum of gradients comes
// first, where there is one.
type Declaration struct {
	Budget Budget
	Asks   []Ask
	// Advice is what to change where an Adaptive budget does not pay for a first step, and
	// Unspent what to say where it was spent before a step was made.
	Advice, Unspent string
}

// LeastScale and MostScale bound clip norms and the like, so that a run stays within
// single precision.
const LeastScale, MostScale = 1e-20, 1e20

// GaussianSum declares a sum of gradients in every step, with Gaussian noise.
func GaussianSum(clip float64) Ask {
	return Ask{Question: Gradients, Release: func(multiplier float64) (Release, error) {
		if multiplier == 0 {
			return Release{Bound: clip}, nil
		}
		return Release{Noise: accountant.Gaussian{NoiseMultiplier: multiplier}, Bound: clip}, nil
	}}
}

// NoSettings is for a method that has none of its own, to be embedded.
type NoSettings struct{}

func (NoSettings) Check(c Settings) (Settings, error) { return c, nil }

func (NoSettings) Complete(c Settings, _ Network) (Settings, Notes, error) { return c, Notes{}, nil }
