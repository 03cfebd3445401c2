package batches

import (
	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/internal/stream"
)

// Passes takes the public places one after the other, pass by pass. Each record answers for itself, so that a
// pass asks it once.
var Passes = &Kind{
	Name:  "passes",
	Drawn: "each in turn", Each: "per step", Called: "single records in turn",
	Fit:   single,
	Event: accountant.PoissonBatch,
	Span:  func(b Batching) int { return b.Units },
	open:  func(b Batching, held int) (drawing, error) { return turns{held, b.Units}, nil },
}

func single(n int, _ float64) (rate, expected float64, err error) {
	rate = 1 / float64(n)
	return rate, rate * float64(n), nil
}

// InTurn is the place, out of so many, of a step of passes.
func InTurn(step, places int) int { return step % places }

type turns struct{ held, places int }

func (turns) words(int) uint64 { return 0 }

// draw finds no record at a place that none takes.
func (t turns) draw(position uint64, _ *stream.Reader, dst []int32) []int32 {
	if i := InTurn(int(stepOf(position)), t.places); i < t.held {
		dst = append(dst, int32(i))
	}
	return dst
}
