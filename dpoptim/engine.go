package dpoptim

import (
	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim/mechanism"
	"github.com/privgrad/privgrad/internal/convex"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/linesearch"
)

// Engine is a network on a device with the private records behind it. A method
// records its work when it is opened, and runs it in its steps.
type Engine interface {
	Facts() Facts
	// Slot is the step's place in the schedule, from 0; Update the number of the
	// update to come, from 1. They differ where a crash has lost steps.
	Slot() int
	Update() int

	Params() Vector
	// Gradient is where sums of gradients are released, unless another place is named.
	Gradient() Vector
	NewVector(width int) (Vector, error) // of so many values a parameter, zero
	NewScalars(n int) (Vector, error)    // of n values, zero
	Read(Vector, []float32) error
	Write(Vector, []float32) error

	// Record notes work on public vectors, to be run any number of times.
	Record(func(Queue)) (Work, error)

	// What can be asked of the records. Each must have been declared.
	Sum(SumQuery) (Sum, error)
	Search(along Vector) (Search, error)
	Minimum(along Vector) (Search, error)
	// Curve is for the sums of the decreases at all candidates.
	Curve(along Vector) (ask func(etas []float64) ([]float64, error), err error)
	// Loss is without noise and bound, for methods without privacy.
	Loss() (loss func() (float64, error), err error)
	Majority() (class int, err error)
	// Fit solves on the host, pays, and releases what was found as the parameters. Before it
	// pays, nothing was released, and a run that is stopped begins again.
	Fit(Solver) error
	// Choose gives the coordinate and the direction, −1 or 1, in which a step makes the losses of all records least.
	Choose(step float64) (coordinate, sign int, err error)

	// Report is that of the record at the slot's place, of its gradient at a point, with the record's own noise: what a
	// client of local privacy sends.
	Report(point []float64) ([]float64, error)

	// Filtered says that a filter admits every release, at the noise that is asked for.
	Filtered() bool
	// Left is the share of the budget that is left; of the steps, without noise.
	Left() float64
	// Stopped says why a method that works for long is to stop, nil otherwise.
	Stopped() error
}

// Work was recorded. Set fills in what it reads; Dots waits for the inner products of its last run.
type Work interface {
	Run(set func(*Scalars)) error
	Dots() ([]float64, error)
}

// SumQuery asks for the sum of a batch's clipped gradients.
type SumQuery struct {
	Into Vector // 0: Engine.Gradient
	Norm bool   // also for the norm of the sum
	// Then records what follows the release at once.
	Then func(Queue, Noisy) error
}

// Sum is a recorded SumQuery.
type Sum interface {
	// Ask pays, draws a batch, sums, releases, and does what follows.
	Ask(SumAsk) error
	// Dots waits for the inner products of the last Ask; Norm for the released norm.
	Dots() ([]float64, error)
	Norm() (float64, error)
}

// SumAsk is what differs between one Sum.Ask and the next.
type SumAsk struct {
	Release *Release // nil: the declared one
	// Besides is what will be asked of the batch behind the sum, where a filter
	// admits both together.
	Besides []accountant.Mechanism
	// Set fills in what the work behind the release reads; the mechanism has set its own.
	Set func(*Scalars)
}

// Candidates are points along a direction, at parameters − η/qN·direction.
type Candidates struct {
	Etas, Biases []float64
	Group        *Group // how many to evaluate together; of a Search
}

// Group is how many candidates a search evaluates together, by what the searches before needed.
type Group = linesearch.Group

// Search is a recorded question for one of some candidates.
type Search interface {
	// Ask gives the candidate's index, −1 where none is found. The noise is the declared
	// one where r is nil.
	Ask(r *Release, c Candidates) (int, error)
	// Deviation is the standard deviation of one comparison's noise.
	Deviation(r *Release) float64
	// Tried is how many candidates the last search evaluated, the present parameters not
	// counted. It follows from what was released.
	Tried() int
}

// What a method sees of a device: handles of public vectors, the work on them, and
// the numbers that the work reads.
type (
	Vector  = device.Vector
	Scalars = [device.Slots]float32
	Slot    = device.Slot
	Rule    = device.Rule
	LSTM    = device.LSTM
	Noisy   = mechanism.Noisy
)

// Solver finds parameters from private records, which it alone gets to see.
type Solver = convex.Solver

// The rules of updates. A gradient g enters as g·Scale + L2·p, but for Blending.
const (
	Descent   = device.SGD       // p −= Rate·g
	HeavyBall = device.HeavyBall // m = Momentum·m + g, p −= Rate·m; state: m
	Blending  = device.Average   // p = (1 − Blend)·p + Blend·g
)

// The numbers that the work of a step reads.
const (
	SlotRate     = device.Rate     // step size
	SlotScale    = device.Scale    // what a released sum is multiplied by: one over the expected batch
	SlotL2       = device.L2       // weight decay, added to the scaled gradient
	SlotMomentum = device.Momentum // of HeavyBall
	SlotAlong    = device.Along    // of Axpy
	SlotGain     = device.Gain     // of another Axpy
	SlotBlend    = device.Blend    // weight of the gradient in Blending
)

// Queue is work on public vectors.
type Queue interface {
	// Axpy adds a multiple of a vector to another, y += scalar[a]·x.
	Axpy(y Vector, a Slot, x Vector)
	// Dot asks for an inner product.
	Dot(x, y Vector)
	// Update applies a rule to the parameters p with gradient g.
	Update(r Rule, p, g Vector, state ...Vector)
	// Project applies a learned rule.
	Project(l LSTM, p, g, weights, state Vector)
}
