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
	"slices"
	"time"

	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/stream"
	"github.com/privgrad/privgrad/internal/usage"
)

// Device opens data and networks. Calls enqueue in order; only Step.Wait and
// Net.Read have to block. The first failure of a Net sticks to it.
type Device interface {
	Info() Info
	// Load puts a table on the device, once. Values keep their form there and become float32 on
	// gather. A device in host memory keeps the slices, which must not change while it does.
	Load(Rows, Features) (Data, error)
	Compile(*ir.Schedule, Options) (Net, error)
	// Close is idempotent and allowed after a failure.
	Close() error
}

// Info identifies a device to people.
type Info struct {
	Name    string // cpu, reference, …
	Detail  string // processor, instruction set
	Threads int
	Costs   ir.Costs // of one core
	Memory  int64    // bytes of a memory of its own; 0 where it uses the machine's
	Room    int64    // of these, what nobody had when the device was opened
	// Instead is why this is the processor and no GPU, though one was looked for and seems to be here; "" elsewhere.
	Instead string
	// Cipher is what secure noise is drawn from here. Every device takes ChaCha20;
	// AES256CTR only one that names it.
	Cipher stream.Cipher
	// Precisions are those that nets may have beside Float32.
	Precisions []Precision
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
	// Exact sums gradients as integers: each coordinate of a clipped gradient is
	// truncated to a multiple of γ, the largest power of two that is at most
	// Clip·2⁻²⁰; an example whose integers have a norm above Clip/γ, computed
	// exactly, adds zero; the noise lies on the same grid. The schedule must clip
	// flat and keep every gradient.
	Exact bool
	// CuBLAS leaves dense products to NVIDIA's library, on a Device that has it (see
	// Library); another refuses, as does an exact net. Bits are not promised then.
	CuBLAS bool
	// Precision of the factors of matrix products. A device refuses those that it lacks, and an exact net all but Float32.
	Precision Precision
}

// Precision is what factors of matrix products are rounded to before they are multiplied; their products are exact and are
// added in float32 or better, and all else is computed as in Float32. The bound on an example's share holds in
// each: Net.Rounding covers what more is rounded.
type Precision uint8

const (
	Float32 Precision = iota // not rounded
	TF32                     // 11 binary digits
	BF16                     // 8
)

var precisions = []string{"float32", "tf32", "bf16"}

// Precisions lists the names of all.
func Precisions() []string { return slices.Clone(precisions) }

func (p Precision) String() string {
	if int(p) < len(precisions) {
		return precisions[p]
	}
	return fmt.Sprintf("precision %d", uint8(p))
}

// ParsePrecision is the inverse of String.
func ParsePrecision(name string) (Precision, error) {
	if i := slices.Index(precisions, name); i >= 0 {
		return Precision(i), nil
	}
	return 0, usage.Unknown("precision", name, precisions)
}

// Library is a Device that can leave dense products to cuBLAS.
type Library interface {
	// CuBLAS is the library's version. The error says what was looked for, where it is not
	// installed, and what to do.
	CuBLAS() (string, error)
}

// ErrNoLibrary is what other devices say to Options.CuBLAS.
var ErrNoLibrary = errors.New("only GPUs multiply by cuBLAS")

// Vector holds public or already released values: Params has one value per
// parameter, others a whole number of values per parameter.
type Vector int32

// Sum holds private values: one per parameter, in float32 or float64, or int64
// in an exact net; or a few scalars in float64.
type Sum int32

// Slot names a per-run scalar.
type Slot uint8

const (
	Clip      Slot = iota // clip norm C; a private schedule's runs need it above 0 and at most MostClip
	NoiseStd              // standard deviation of the noise added to a sum; finite, 0 or more
	NoiseStep             // step of the grid of that noise, a power of two; also of the losses that it hides; 0 only without noise
	Scale                 // what a released sum is multiplied by: one over the public normaliser
	Rate                  // step size
	L2                    // weight decay, added to the scaled gradient
	Momentum              // of SGD
	Beta1                 // of Adam
	Beta2
	Bias1 // 1 − β₁ᵗ
	Bias2 // 1 − β₂ᵗ
	Epsilon
	Variance // of the noise in a coordinate of the scaled gradient, which Adam subtracts; 0 subtracts nothing
	Floor    // least value under Adam's root, 0 or more
	Blend    // weight of the gradient in Average, in [0, 1]
	CountStd // NoiseStd and NoiseStep of the count of a CountedSum
	CountStep
	Along        // what Axpy multiplies a vector by; finite
	ThresholdStd // scale of the noise on a search's threshold; finite, 0 or more
	QueryStd     // scale of the noise on each of a search's queries, or of a minimum's values; finite, 0 or more
	NormStd      // NoiseStd and NoiseStep of a sum's norm
	NormStep
	Gain    // what Project multiplies a gradient by before its LSTM reads it
	Context // first of the public figures that an LSTM reads
	Slots   = Context + Contexts
)

// Contexts is how many public figures a run has for LSTMs.
const Contexts = 4

// MostClip is the largest clip norm: sums of so many shares as memory holds
// rows stay within float32.
const MostClip = 0x1p100

// MostTally is the most rows whose losses one sum takes before it is released or searched.
const MostTally = 1 << 28

// MaxCandidates is the most points that one LossQuery may name.
const MaxCandidates = 32

// Inputs is everything that differs between runs of one Step.
type Inputs struct {
	Rows []int32 // 0…Capacity rows of the gathered table; none is allowed
	// Words has a secret random word for each view of each row, a row's one after the other, where a schedule has random maps
	// (ir.Schedule.Augment). A row's words follow from nothing but a secret key, the step and the record: an adversary who
	// knows them knows more than the analysis allows for.
	Words   []uint32
	Scalars [Slots]float32
	// Candidates are the step sizes η_i of a LossQuery, which reads its first K;
	// they are public and finite.
	Candidates [MaxCandidates]float32
	// Biases are what each query of a search is asked to reach; public, and finite or
	// +Inf, which is never reached.
	Biases [MaxCandidates]float64
	// First is how many queries of its search earlier runs have asked; 0 begins a
	// search.
	First int
	// Draw is the noise position of this run's releases, from 1 on. A Net
	// refuses a position that is not above every one it has used, and every one that any
	// Net has used of the same stream: it claims the position of each stream
	// (stream.Stream.Claim) before it draws.
	Draw uint64
}

// Outputs of a run, in the order in which the step asked for them.
type Outputs struct {
	Scores []Score
	// Found is what AboveThreshold found, an index among this run's queries or −1, or
	// the number of ArgMin's value.
	Found []int
	Dots  []float64
}

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
	// are full but for the last. docs/proofs/rounding.md derives it.
	Rounding(rows int) float64
	// Parts is how many sums are each rounded to the grid of the noise before they are
	// added up and released: 1, or the number of processes that share one run.
	Parts() int
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
	// CountedSum is ClippedSum of a schedule that clips flat, and adds to a sum of
	// one value how many of the gradients were within the clip norm, centred:
	// ½ for each whose norm is at most Clip, −½ for each above it, and 0 for a
	// row that counts as zero in the sum. A row's share is at most ½ in
	// magnitude, so that adding or removing a record moves the count by at most
	// ½, and replacing one by at most 1.
	CountedSum(dst, count Sum, from Data)
	// Losses gathers the run's rows of the private table and adds the sum of
	// what q asks of each to a sum of q.K values. Clip bounds a row's share; a
	// row with a target that the loss does not accept adds 0.
	Losses(dst Sum, from Data, q LossQuery)
	// Release draws: dst = γ·(round(src/γ) + round(Z)), then src = 0. γ is the step of
	// the noise's grid and Z is normal with the noise's standard deviation over γ,
	// rounded with its exact probabilities (package exact). As round(src/γ) is an
	// integer, what leaves is round(round(src/γ) + Z), a function of the
	// continuous Gaussian mechanism's release; the rounding to float32 comes after it.
	// Rounding src moves it by at most γ/2 in each value. A deviation of 0 adds
	// nothing and rounds nothing.
	Release(dst Vector, src Sum, noise Noise)
	// AboveThreshold asks which query of a scalar sum that Losses filled is the first
	// above a noisy threshold, query_i + ν_i ≥ bias_i + λ, and then sets src = 0. Only
	// that index leaves. If the search has a baseline (filled by LossSum alone, with a step of 0
	// as the first candidate), query i of src is src[0] − src[1+i], else src[i].
	//
	// A search may go over several runs, of any sizes: λ is the same for all of them
	// and ν depends on the query's number in the search alone. A run with First = 0
	// begins one and claims the noise position as a Release does. A later run has the
	// same Draw and scales, and First as many queries as have been asked; where it does
	// not, or where the search has found its index, it is refused (ErrDrawUsed). A
	// step has at most one search, or ArgMin. The queries of a search must all be of one batch.
	AboveThreshold(src Sum, s Search)
	// ArgMin asks which value of a scalar sum that LossSum filled, with its bias added, is the
	// least, less noise from the exponential distribution of mean QueryStd, and then sets
	// src = 0. Only the value's number leaves. Its run has First = 0 and claims the noise
	// position as a Release does.
	ArgMin(src Sum, m Minimum)
	// Axpy adds a multiple of one vector to another, y += scalar[a]·x.
	Axpy(y Vector, a Slot, x Vector)
	// Dot appends the inner product of two vectors to Outputs.Dots, added up in float64
	// in an order that follows from their width.
	Dot(x, y Vector)
	// Norm adds the Euclidean norm of src, a sum of gradients, to a sum of one value; src
	// stays. By the triangle inequality a record moves it by no more than it moves src,
	// and by rounding, of at most 2⁻²³ of the norm. Exact nets refuse it.
	Norm(dst, src Sum)
	// Update applies a rule to the parameters p with gradient g.
	Update(r Rule, p, g Vector, state ...Vector)
	// Project applies a learned rule to the parameters p with gradient g: l.Apply with
	// l.Weights weights, made by NewScalars, and a state of width l.States.
	Project(l LSTM, p, g, weights, state Vector)
	// Score evaluates the parameters on a whole public table.
	Score(at Vector, public Data)
}

// LossQuery asks every row for K values, computed from its loss ℓ at the
// parameters At and at the candidates w_i = At − η_i·Dir, where the η_i are the
// run's Candidates. A step of 0 is At itself, whatever Dir holds. K = 1 with a
// step of 0 asks for the loss at At.
type LossQuery struct {
	At, Dir Vector
	K       int // 1…MaxCandidates
	Form    LossForm
}

// LossForm says what a row adds to the K values of a LossQuery, c being the
// run's Clip. A row's values are truncated to multiples of NoiseStep (nothing is
// for a step of 0), so that up to MostTally rows of shares of at most c·2²⁴ steps add
// up in float64 without rounding, in any order. The sensitivities are under add-remove; replacing a row is at
// most one removed and one added. A value of a row never depends on the other
// candidates, but for the common factor of LossCurve, nor on what was asked before: a
// device that keeps losses at the present parameters, from the pass of a gradient or an
// earlier query, keeps those that it would compute.
type LossForm uint8

const (
	// LossSum adds ℓ(w_i) clipped to [0, c]; a loss that is not finite counts
	// as c. Sensitivity: c in each value, c·√K in L2.
	LossSum LossForm = iota
	// LossDecrease adds ℓ(At) − ℓ(w_i) clipped to [−c, c]. A loss that is not
	// finite counts as infinite, and the difference of two of them as 0.
	// Sensitivity: c in each value, c·√K in L2.
	LossDecrease
	// LossCurve adds the vector d of all K decreases ℓ(At) − ℓ(w_i), scaled by
	// min(1, c(1−2⁻⁴⁰)/‖d‖), in which the margin is for the rounding of the norm. A
	// row with a loss that is not finite adds 0. Sensitivity: c in L2.
	LossCurve
)

func (f LossForm) String() string { return [...]string{"sum", "decrease", "curve"}[f] }

// Check validates what a device cannot take from the handles.
func (q LossQuery) Check() error {
	if q.K < 1 || q.K > MaxCandidates {
		return fmt.Errorf("a loss query of %d candidates: must be in [1, %d]", q.K, MaxCandidates)
	}
	if q.Form > LossCurve {
		return fmt.Errorf("unknown form %d of a loss query", q.Form)
	}
	return nil
}

// place is where the noise of a right is drawn: in the counter range (Inputs.Draw, tensor) of a stream.
type place struct {
	stream *stream.Stream
	tensor uint32
}

// Stream and Tensor say where an implementation draws.
func (p place) Stream() *stream.Stream { return p.stream }
func (p place) Tensor() uint32         { return p.tensor }

// Noise is the right to release a Sum. Only dpoptim/mechanism asks for one (a
// test over the sources keeps it so); the zero value is refused.
type Noise struct {
	place
	std, step Slot
	exact     bool
}

// NewNoise makes the right to release with noise from s, in the counter range
// (Inputs.Draw, tensor); tensors from 2³¹ on are refused. The noise is that of the
// run's NoiseStd and NoiseStep; a deviation of 0 adds nothing.
func NewNoise(s *stream.Stream, tensor uint32) Noise {
	return Noise{place{s, tensor}, NoiseStd, NoiseStep, false}
}

// NewExactNoise is NewNoise for exact nets alone.
func NewExactNoise(s *stream.Stream, tensor uint32) Noise {
	return Noise{place{s, tensor}, NoiseStd, NoiseStep, true}
}

// WithSlots is the same noise with its standard deviation and its step in other
// slots, for a step that releases two sums.
func (n Noise) WithSlots(std, step Slot) Noise {
	n.std, n.step = std, step
	return n
}

// Std and Step name the slots of the standard deviation and of the grid's step.
func (n Noise) Std() Slot  { return n.std }
func (n Noise) Step() Slot { return n.step }

// Exact says that the noise is for exact nets alone.
func (n Noise) Exact() bool { return n.exact }

// Errors that every device gives for the same misuse.
var (
	ErrNoNoise  = errors.New("a sum was to be released or searched without a mechanism's noise")
	ErrDrawUsed = errors.New("a noise position was used before; no noise is ever drawn twice")
	ErrClosed   = errors.New("the network is closed")
)
