package audit

import (
	"cmp"
	"context"

	"github.com/privgrad/privgrad/internal/audit/learn"
	"github.com/privgrad/privgrad/internal/audit/verdict"
)

// learns reports whether a canary's statistic is learned from half of the runs, whose world the
// adversary knows. The other half is judged.
func (c *Config) learns() bool { return c.Canary == Coordinates || c.Canary == Order }

// learned is what came of it, of the canary's kind.
type learned struct {
	whitened []float32 // of Coordinates
	pattern  *learn.Pattern
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

func (p *pupil) run(world int) (float64, error) {
	p.lesson.world(world)
	return p.lane.run(world)
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
func (g *game) study(ctx context.Context, times int) (err error) {
	c := g.config
	first, width := learn.Coordinates(g.records.canaries[1], times*c.Steps)
	coordinates, orders := make([]*coordinatesLesson, lanes), make([]*orderLesson, lanes)
	_, err = playRuns(ctx, c, times, func(i int) (player, error) {
		l, err := g.newLane(lanes + i)
		if err != nil {
			return nil, err
		}
		p := &pupil{lane: l}
		if c.Canary == Order {
			orders[i] = &orderLesson{}
			p.lesson = orders[i]
		} else {
			coordinates[i] = &coordinatesLesson{records: g.records, covariance: learn.NewCovariance(first, width, lanes)}
			p.lesson = coordinates[i]
		}
		l.statistic = p.lesson
		return p, nil
	})
	if err != nil {
		return err
	}
	if c.Canary == Order {
		var runs [2][][]learn.Step
		for _, o := range orders {
			for w := range runs {
				runs[w] = append(runs[w], o.runs[w]...)
			}
		}
		g.learned.pattern = learn.Learn(runs[0], runs[1], c.SamplingRate, 1<<recordsBeside)
		return nil
	}
	all := learn.NewCovariance(first, width, lanes)
	for _, o := range coordinates {
		all.Merge(o.covariance)
	}
	sigma := c.NoiseMultiplier * c.Clip
	g.learned.whitened, err = all.Whiten(g.records.canaries[1], sigma*sigma, vanished*vanished*c.Clip*c.Clip)
	return err
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
