package audit

import "github.com/privgrad/privgrad/internal/audit/learn"

// hear reads what was released. Divisor reads it from how the parameters moved, and puts them back: a mean that is taken
// by a wrong number shows there alone. Nothing is lost, since a move is computed from the release.
func (l *lane) hear() error {
	g, values := l.game, l.release.values
	if g.config.Canary != Divisor {
		return l.engine.Released(values)
	}
	if err := l.engine.ReadParams(values); err != nil {
		return err
	}
	batch := float32(g.plan.ExpectedBatch / g.config.rate())
	for i, x := range values {
		values[i] = (g.params[i] - x) * batch
	}
	return l.engine.SetParams(g.params)
}

// lengths is the log-likelihood ratio of how long the noise of each step is, as it was learned.
type lengths struct {
	of  *learn.Lengths
	sum float64
}

func (l *lengths) reset()         { l.sum = 0 }
func (l *lengths) value() float64 { return l.sum }
func (l *lengths) see(r *release) { l.sum += l.of.Ratio(len(r.beside), r.values) }

// lengthsLesson counts how often the noise of a step is how long.
type lengthsLesson struct {
	lengths
	in int // the world
}

func (l *lengthsLesson) world(w int)    { l.in = w }
func (l *lengthsLesson) see(r *release) { l.of.Add(l.in, len(r.beside), r.values) }
