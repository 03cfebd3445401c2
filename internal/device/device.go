// Package device is the contract between the training loop and whatever runs
// it: a CPU, a GPU, or the slow float64 reference that defines the meaning.
// It holds no implementation.
//
// Data flows one way. A Net gathers rows of private data, adds their clipped
// gradients into a Sum, and releases the Sum plus noise into a Vector. No
// method reads a Sum: what leaves a device is released, or computed from data
// declared public.
package device

import (
	"errors"
	"fmt"
	"time"

	"github.com/privgrad/privgrad/internal/plan"
	"github.com/privgrad/privgrad/internal/stream"
)

// Device opens data and networks. Calls enqueue in order; only Step.Wait and
// Net.Read have to block. The first failure of a Net sticks to it.
type Device interface {
	Info() Info
	// Load puts a table on the device, once. Bytes stay bytes; the public
	// scaling happens on gather. A device in host memory keeps the slices, which
	// must not change while it does.
	Load(Rows, []uint8) (Data, error)
	Compile(*plan.Schedule, Options) (Net, error)
	// Close is idempotent and allowed after a failure.
	Close() error
}

// Info identifies a device to people.
type Info struct {
	Name    string // cpu, reference, …
	Detail  string // processor, instruction set
	Threads int
	Costs   plan.Costs // of one core
}

// Rows describes a table of examples: Count rows of Width bytes, each byte b
// standing for b·Scale + Offset, and one target a row (what plan.Loss says).
// A row whose target the loss does not accept adds nothing to any sum.
type Rows struct {
	Count, Width  int
	Scale, Offset float32
	Targets       []float32
}

// Validate checks a table against its bytes. Counts of rows are private, so
// no message names them.
func (r Rows) Validate(features []uint8) error {
	if r.Count < 0 || r.Width < 1 {
		return fmt.Errorf("a table needs rows of at least one byte, has width %d", r.Width)
	}
	if len(features) != r.Count*r.Width || len(r.Targets) != r.Count {
		return errors.New("a table's bytes, targets and row count do not agree")
	}
	return nil
}

// Data is a loaded table.
type Data interface {
	// Close frees the table's memory; no Net may use it afterwards.
	Close() error
}

// Options of a Net.
type Options struct {
	// Capacity is the most rows one Run may take. Larger batches run the
	// summing step again into the same Sum.
	Capacity int
}

// Vector holds public or already released values: Params has one value per
// parameter, others a whole number of values per parameter.
type Vector int32

// Sum holds private values, one per parameter or a few scalars.
type Sum int32

// Slot names a per-run scalar.
type Slot uint8

const (
	Clip     Slot = iota // clip norm C; a private schedule's runs need it finite and above 0
	NoiseStd             // standard deviation of the noise added to a sum; finite, 0 or more
	Scale                // what a released sum is multiplied by: one over the public normaliser
	Rate                 // step size
	L2                   // weight decay, added to the scaled gradient
	Momentum             // of SGD
	Beta1                // of Adam
	Beta2
	Bias1 // 1 − β₁ᵗ
	Bias2 // 1 − β₂ᵗ
	Epsilon
	Slots
)

// Inputs is everything that differs between runs of one Step.
type Inputs struct {
	Rows    []int32 // 0…Capacity rows of the gathered table; none is allowed
	Scalars [Slots]float32
	// Draw is the noise position of this run's releases, from 1 on. A Net
	// refuses a position that is not above every one it has used.
	Draw uint64
}

// Outputs of a run, in the order in which the step asked for them.
type Outputs struct{ Scores []Score }

// Score sums up a network over a public table. Rows with a target that the
// loss does not accept are left out.
type Score struct {
	Count   int
	Loss    float64 // sum of the rows' losses
	Correct int
	// Confusion[t][p] counts rows of class t taken for p; nil unless the
	// loss is over classes or margins.
	Confusion [][]int
}

// Net is one compiled schedule with its parameters and memory. One goroutine
// at a time.
type Net interface {
	Params() Vector
	NewVector(width int) (Vector, error) // width values per parameter, zero
	NewSum() (Sum, error)
	// NewScalars and NewScalarSum hold n values that belong to no parameter.
	NewScalars(n int) (Vector, error)
	NewScalarSum(n int) (Sum, error)
	// Record runs body once; the Step replays what it enqueued.
	Record(body func(Queue)) (Step, error)
	Write(Vector, []float32) error
	Read(Vector, []float32) error
	// Rounding bounds how far rounding lets one example move a clipped sum
	// beyond C: adding or removing it moves the sum by at most C·(1+Rounding),
	// as long as both batches have at most so many rows, summed in runs that
	// are full but for the last. docs/numerics.md derives it.
	Rounding(rows int) float64
	Close() error
}

// Profiler is a Net that can time the steps of its schedule. Such times depend
// on the examples of a batch: only package bench, whose examples are not
// private, asks for them (a test over the sources keeps it so).
type Profiler interface {
	// Profile begins to time. What it returns gives the time spent in every
	// step of the schedule since, summed over threads.
	Profile() func() []time.Duration
}

// Step is a recorded piece of work.
type Step interface {
	Run(*Inputs) error      // copies what it needs of Inputs
	Wait() (Outputs, error) // outputs of the latest Run
}

// Queue is what a Step may consist of.
type Queue interface {
	// ClippedSum gathers the run's rows of the private table and adds the
	// schedule's sum of their gradients.
	ClippedSum(dst Sum, from Data)
	// Losses gathers the run's rows of the private table and adds the sum of
	// their losses, each clipped to [0, Clip], to a sum of one value. A loss
	// that is not finite counts as Clip, a row with a target that the loss
	// does not accept as 0.
	Losses(dst Sum, from Data)
	// Release draws: dst = src + noise, then src = 0.
	Release(dst Vector, src Sum, noise Noise)
	// Update applies a rule to the parameters p with gradient g.
	Update(r Rule, p, g Vector, state ...Vector)
	// Score evaluates the parameters on a whole public table.
	Score(at Vector, public Data)
}

// Noise is the right to release a Sum. Only dpoptim/mechanism asks for one (a
// test over the sources keeps it so); the zero value is refused.
type Noise struct {
	stream *stream.Stream
	tensor uint32
}

// NewNoise makes the right to release with noise from s, in the counter range
// (Inputs.Draw, tensor). The standard deviation is the run's NoiseStd; 0 adds
// nothing.
func NewNoise(s *stream.Stream, tensor uint32) Noise { return Noise{s, tensor} }

// Stream and Tensor say where an implementation draws.
func (n Noise) Stream() *stream.Stream { return n.stream }
func (n Noise) Tensor() uint32         { return n.tensor }

// Errors that every device gives for the same misuse.
var (
	ErrNoNoise  = errors.New("a sum was to be released without a mechanism's noise")
	ErrDrawUsed = errors.New("a noise position was used before; no noise is ever drawn twice")
	ErrClosed   = errors.New("the network is closed")
)
