package audit

import (
	"cmp"
	"context"

	"github.com/privgrad/privgrad/internal/audit/learn"
	"github.com/privgrad/privgrad/internal/audit/play"
	"github.com/privgrad/privgrad/internal/audit/verdict"
)

// lessonsAbout is what canaries look for whose statistic is learned from half of the runs, whose world the
// adversary knows. The other half is judged.
var lessonsAbout = map[string]string{
	Coordinates: "noise that coordinates of a release share",
	Order:       "batches that are not drawn afresh at every step",
	Divisor:     "a mean that is taken by a number that depends on a record",
}

func (c *Config) learns() bool { return lessonsAbout[c.Canary] != "" }

// learned is what came of it, of the canary's kind.
type learned struct {
	whitened []float32 // of Coordinates
	pattern  *learn.Pattern
	lengths  *learn.Lengths
}

// A pupil is a lane that learns.
type pupil struct {
	*lane
	lesson lesson
}

// A lesson is a statistic that keeps what it sees.
type lesson interface {
	statistic
	world(w int) // whose run is next
}

func (p *pupil) Run(world int) (float64, error) {
	p.lesson.world(world)
	return p.lane.Run(world)
}

// design plans the runs: so many as are judged, with the power that they have if that is known,
// and how many others are learned from.
func (g *game) design() (judged *verdict.Design, power *float64, learning int) {
	if c := &g.config; c.learns() {
		learning = cmp.Or(c.Runs, smallestDesign) / 4 * 2
		return verdict.NewDesign(cmp.Or(c.Runs, smallestDesign)-learning, g.claim), nil, learning
	}
	e, p := newIdeal(g, half).design(g.config.Runs, g.claim)
	return e, &p, 0
}

// learnAndPlay gives the statistics of the runs that are judged.
func (g *game) learnAndPlay(ctx context.Context, e *verdict.Design, learning int) ([2][]float64, error) {
	tell, total := g.config.Progress, e.Runs()+learning
	from := func(before int) {
		if tell != nil {
			g.config.Progress = func(done, _ int) { tell(before+done, total) }
		}
	}
	if learning > 0 {
		from(0)
		if err := g.study(ctx, learning/2); err != nil {
			return [2][]float64{}, err
		}
	}
	from(learning)
	return g.runs(ctx, e.Runs()/2)
}

// study plays both worlds so many times, and keeps what there is to learn. It draws from
// streams of its own.
func (g *game) study(ctx context.Context, times int) error {
	teach, conclude, err := g.subject(times)
	if err != nil {
		return err
	}
	lessons := make([]lesson, min(play.Lanes, times))
	_, err = play.Runs(ctx, g.config.Threads, times, g.config.Progress, func(i int) (play.Player, error) {
		l, err := g.newLane(play.Lanes + i)
		if err != nil {
			return nil, err
		}
		lessons[i] = teach()
		l.statistic = lessons[i]
		return &pupil{l, lessons[i]}, nil
	})
	if err != nil {
		return err
	}
	return conclude(lessons)
}

// subject is what the canary's lessons are about, and what follows from all of them.
func (g *game) subject(times int) (teach func() lesson, conclude func([]lesson) error, err error) {
	c := g.config
	switch c.Canary {
	case Order:
		return func() lesson { return &orderLesson{} }, func(all []lesson) error {
			var runs [2][][]learn.Step
			for _, l := range all {
				for w := range runs {
					runs[w] = append(runs[w], l.(*orderLesson).runs[w]...)
				}
			}
			g.learned.pattern = learn.Learn(runs[0], runs[1], c.SamplingRate, 1<<recordsBeside)
			return nil
		}, nil
	case Divisor:
		of, err := learn.NewLengths(append([][]float32{g.records.canaries[1]}, g.records.shares...))
		g.learned.lengths = of
		return func() lesson { return &lengthsLesson{lengths: lengths{of: of.Fresh()}} }, func(all []lesson) error {
			for _, l := range all {
				of.Merge(l.(*lengthsLesson).of)
			}
			return nil
		}, err
	}
	first, width := learn.Coordinates(g.records.canaries[1], times*c.Steps)
	covariance := func() *learn.Covariance { return learn.NewCovariance(first, width, play.Lanes) }
	return func() lesson { return &coordinatesLesson{records: g.records, covariance: covariance()} }, func(lessons []lesson) (err error) {
		all := covariance()
		for _, l := range lessons {
			all.Merge(l.(*coordinatesLesson).covariance)
		}
		sigma := c.NoiseMultiplier * c.Clip
		g.learned.whitened, err = all.Whiten(g.records.canaries[1], sigma*sigma, vanished*vanished*c.Clip*c.Clip)
		return err
	}, nil
}

// coordinatesLesson is about the noise, from runs without the canary.
type coordinatesLesson struct {
	records    *records
	covariance *learn.Covariance
	noise      []float64
	canary     bool
}

func (l *coordinatesLesson) world(w int)    { l.canary = w == 1 }
func (l *coordinatesLesson) reset()         {}
func (l *coordinatesLesson) value() float64 { return 0 }

func (l *coordinatesLesson) see(r *release) {
	if l.canary {
		return
	}
	l.noise = l.records.without(l.noise, r)
	l.covariance.Add(l.noise)
}

// heard are the steps of a run.
type heard []learn.Step

func (s *heard) reset() { *s = (*s)[:0] }

func (s *heard) see(r *release) {
	others := 0
	for _, row := range r.beside {
		others |= 1 << row
	}
	*s = append(*s, learn.Step{Ratio: r.logs[1], Others: others})
}

// orderLesson keeps all runs.
type orderLesson struct {
	heard
	runs [2][][]learn.Step
	of   int
}

func (l *orderLesson) world(w int) { l.of = w }

func (l *orderLesson) value() float64 {
	l.runs[l.of] = append(l.runs[l.of], append([]learn.Step(nil), l.heard...))
	return 0
}

// order is the log-likelihood ratio by the pattern that was learned.
type order struct {
	heard
	pattern *learn.Pattern
}

func (o *order) value() float64 { return o.pattern.Ratio(o.heard) }

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
