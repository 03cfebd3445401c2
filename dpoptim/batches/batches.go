// Package batches has the ways to draw batches of records, one file each: how a batch is drawn, and as
// which event it is priced.
package batches

import (
	"slices"

	"github.com/privgrad/privgrad/accountant"
)

// kinds are all ways to draw batches.
var kinds = []*Kind{Poisson, Subsets, Shuffle, Passes, Full}

// A Kind is a way to draw batches.
type Kind struct {
	Name string // in configurations and in results
	// For people: how a batch is drawn, of how many records it is, and what such batches are called.
	Drawn, Each, Called string
	Offered             bool // users may choose it; the others follow from the method
	Ordered             bool // a batch is in a random order, in which solvers take its records

	// Relation is the only one under which its events have a price, and Why says why; empty: each has.
	Relation accountant.Neighbouring
	Why      string
	// Accountant is one that prices no other kind.
	Accountant string

	// Fit is the nearest rate and expected batch that it has, of n records; nil: it has any.
	Fit func(n int, rate float64) (fitted, expected float64, err error)
	// Event is the price of batches that are each asked the same.
	Event func(rate float64, count int, asked ...accountant.Mechanism) accountant.Event
	// Span is over how many steps an event stands: what they ask of a record is one question. nil: over one.
	// Steps must then be numbered by the schedule, as those of committed budgets are.
	Span func(Batching) int

	// open makes what draws from a table that holds so many records: a private number, which no error quotes.
	open func(b Batching, held int) (drawing, error)
}

// Unit is what is drawn, whole or not at all.
type Unit string

const (
	Record Unit = "record" // one row of a table
	User   Unit = "user"   // all rows of one
)

// Batching is how the batches of a run are drawn. All of it is public.
type Batching struct {
	*Kind
	Unit          Unit
	Units         int     // public number of them
	SamplingRate  float64 // probability that a record is in a batch
	ExpectedBatch float64 // records, on average
}

// Of draws from a public number of records, at a rate or as near to it as the kind can.
func (k *Kind) Of(n int, rate float64) (Batching, error) {
	b := Batching{Kind: k, Unit: Record, Units: n, SamplingRate: rate, ExpectedBatch: rate * float64(n)}
	var err error
	if k.Fit != nil {
		b.SamplingRate, b.ExpectedBatch, err = k.Fit(n, rate)
	}
	return b, err
}

// BatchEvent is the event of what is asked of one batch.
func (b Batching) BatchEvent(asked ...accountant.Mechanism) accountant.Event {
	return b.Event(b.SamplingRate, 1, asked...)
}

// span is over how many steps an event stands.
func (b Batching) span() int {
	if b.Span == nil {
		return 1
	}
	return b.Span(b)
}

// Uses is how often so many steps, of one question each, ask a record at most.
func (b Batching) Uses(steps int) int { return (steps + b.span() - 1) / b.span() }

// Named is the kind of a name; nil for an unknown one.
func Named(name string) *Kind { return find(func(k *Kind) bool { return k.Name == name }) }

// PricedBy is the kind that an accountant is for; nil for one that prices several.
func PricedBy(accountant string) *Kind {
	return find(func(k *Kind) bool { return k.Accountant != "" && k.Accountant == accountant })
}

func find(is func(*Kind) bool) *Kind {
	if i := slices.IndexFunc(kinds, is); i >= 0 {
		return kinds[i]
	}
	return nil
}

// Offered are the names among which users choose.
func Offered() (names []string) {
	for _, k := range kinds {
		if k.Offered {
			names = append(names, k.Name)
		}
	}
	return names
}

// Words are for people: how a result's batches were drawn, and of how many records each was.
func Words(name string) (drawn, each string) {
	if k := Named(name); k != nil {
		return k.Drawn, k.Each
	}
	return name, "per step"
}

// A Turn is which of a step's batches one is, in the order in which they are drawn.
type Turn uint64

const (
	First Turn = iota
	Second
	Third
	perStep
)

// Position is that of a step's batch, whatever the kind. The noise that goes with the batch has a position of the
// same number, further on by a constant.
func Position(step int, t Turn) uint64 { return uint64(perStep)*uint64(step) + uint64(t) }

// stepOf is the step of a position.
func stepOf(position uint64) uint64 { return position / uint64(perStep) }
