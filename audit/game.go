package audit

import (
	"context"
	"fmt"

	"github.com/privgrad/privgrad/dpoptim/batches"
	"github.com/privgrad/privgrad/internal/audit/oracle"
	"github.com/privgrad/privgrad/internal/audit/play"
	"github.com/privgrad/privgrad/internal/audit/reach"
	"github.com/privgrad/privgrad/internal/audit/verdict"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/engine"
	"github.com/privgrad/privgrad/internal/plan"
	"github.com/privgrad/privgrad/internal/stream"
	"github.com/privgrad/privgrad/internal/tables"
)

// game is one canary in two worlds: without it and with it, or one of two. The
// plan is what runs, the claim what it is held to.
type game struct {
	config  Config
	plan    *plan.Plan
	claim   *verdict.Claim
	records *records
	params  []float32 // initial
	learned learned   // of a canary that is learned
	open    func() (device.Device, error)
	keys    func(lane int) (laneKeys, error)
	sampler func(records int, key stream.Key) (batches.Sampler, error)
}

// laneKeys are what a lane draws from.
type laneKeys struct {
	noise, views stream.Key
	sampling     [2]stream.Key // by world
}

func newKeys(int) (k laneKeys, err error) {
	for _, p := range []*stream.Key{&k.noise, &k.views, &k.sampling[0], &k.sampling[1]} {
		if *p, err = stream.NewKey(); err != nil {
			return k, err
		}
	}
	return k, nil
}

func keysFromSeed(seed uint64) func(int) (laneKeys, error) {
	return func(lane int) (laneKeys, error) {
		key := func(purpose string) stream.Key {
			return stream.KeyFromSeed(seed, fmt.Sprintf("audit lane %d %s", lane, purpose))
		}
		return laneKeys{key("noise"), key("views"), [2]stream.Key{key("sampling without"), key("sampling with")}}, nil
	}
}

// runs plays both worlds so many times, and gives the statistics of every run.
func (g *game) runs(ctx context.Context, times int) ([2][]float64, error) {
	return play.Runs(ctx, g.config.Threads, times, g.config.Progress, func(i int) (play.Player, error) { return g.newLane(i) })
}

// A trainer is an engine on a device of its own, which holds the records.
type trainer struct {
	device  device.Device
	data    device.Data
	engine  *engine.Engine
	supply  engine.Given  // of all runs: their step size stays, so that no step need know its place in a run
	scalars reach.Scalars // of the latest step with noise
}

func (g *game) newTrainer(p *plan.Plan, keys laneKeys) (*trainer, error) {
	noise, err := p.Stream(keys.noise)
	if err != nil {
		return nil, err
	}
	words, err := p.Words(keys.views, 0)
	if err != nil {
		return nil, err
	}
	d, err := g.open()
	if err != nil {
		return nil, err
	}
	t := &trainer{}
	t.device = reach.Listen(d, &t.scalars)
	if t.data, err = t.device.Load(oracle.Units(g.records.rows, g.records.features, g.plan.Config.UnitRows())); err == nil {
		t.engine, err = p.Engine(t.device, tables.Records{Data: t.data}, noise, words, &t.supply)
	}
	if err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

func (t *trainer) close() {
	if t.engine != nil {
		t.engine.Close()
	}
	if t.data != nil {
		t.data.Close()
	}
	t.device.Close()
}

// A lane trains on what it draws. No position of its streams serves twice, so its
// runs are independent.
type lane struct {
	*trainer
	game      *game
	number    int
	samplers  [2]batches.Sampler
	began     int // runs
	statistic statistic
	shadow    *shadow // of Digits alone
	gauge     gauge
	known     [][2]float64 // products of the other records' shares with the gauge
	rows      []int32
	release   release
}

func (g *game) newLane(i int) (l *lane, err error) {
	keys, err := g.keys(i)
	if err != nil {
		return nil, err
	}
	l = &lane{game: g, number: i, gauge: g.gauge(), release: release{values: make([]float32, len(g.params))}}
	for _, share := range g.records.shares {
		l.known = append(l.known, [2]float64{dot(share, l.gauge.along[0]), dot(share, l.gauge.along[1])})
	}
	if err := l.draw(keys); err != nil {
		return nil, err
	}
	if l.trainer, err = g.newTrainer(g.plan, keys); err != nil {
		return nil, err
	}
	l.statistic = l.newStatistic()
	if g.config.Canary == Digits {
		if l.shadow, err = g.newShadow(); err != nil {
			l.trainer.close()
			return nil, err
		}
	}
	return l, nil
}

func (l *lane) Close() {
	if l.shadow != nil {
		l.shadow.close()
	}
	l.trainer.close()
}

// draw sets the samplers of both worlds.
func (l *lane) draw(keys laneKeys) (err error) {
	for world := range l.samplers {
		n := recordsBeside
		if l.game.records.canary[world] >= 0 {
			n++
		}
		if l.samplers[world], err = l.game.sampler(n, keys.sampling[world]); err != nil {
			return err
		}
	}
	return nil
}

// begin makes ready for a run, from the initial parameters. Runs go on with the batches of those before them,
// but for Order, whose runs have a sampler of their own, as those of train have.
func (l *lane) begin() error {
	if a := l.engine.Adaptation; a != nil {
		a.Clip = l.game.config.Clip
	}
	l.statistic.reset()
	if err := l.engine.SetParams(l.game.params); err != nil || l.game.config.Canary != Order {
		return err
	}
	l.began++
	keys, err := l.game.keys(l.number + 2*play.Lanes*l.began) // which is no lane's
	if err != nil {
		return err
	}
	return l.draw(keys)
}

// take draws the batch of a step.
func (l *lane) take(world, step int) {
	at := uint64(l.supply.Done) + 1
	if l.game.config.Canary == Order {
		at = uint64(step)
	}
	l.rows = l.samplers[world].Batch(at, l.rows)
	l.release.beside = l.rows
	for i, row := range l.rows {
		if row == recordsBeside { // the canary, which comes last
			l.rows[i] = l.game.records.canary[world]
			l.release.beside = l.rows[:i]
			break
		}
	}
}

// Run is one training run in a world.
func (l *lane) Run(world int) (float64, error) {
	g, r := l.game, &l.release
	if err := l.begin(); err != nil {
		return 0, err
	}
	for step := range g.config.Steps {
		l.take(world, step)
		if l.shadow != nil {
			var err error
			if r.sums, err = l.shadow.sums(l.engine, r.beside); err != nil {
				return 0, err
			}
		}
		clip := g.config.Clip
		if a := l.engine.Adaptation; a != nil {
			clip = a.Clip
		}
		if err := l.supply.Step(l.engine, l.rows); err != nil {
			return 0, err
		}
		if err := l.engine.Wait(); err != nil {
			return 0, err
		}
		if err := l.hear(); err != nil {
			return 0, err
		}
		l.weigh(clip)
		l.statistic.see(r)
	}
	return l.statistic.value(), nil
}

// weigh holds a release against the gauge.
func (l *lane) weigh(clip float64) {
	g, r := l.game, &l.release
	var known [2]float64
	for _, row := range r.beside {
		share := g.share(g.records.norms[row], clip)
		known[0] += share * l.known[row][0]
		known[1] += share * l.known[row][1]
	}
	for w, along := range l.gauge.along {
		r.products[w] = dot(r.values, along) - known[w]
		r.logs[w] = l.gauge.log(w, r.products[w], g.share(g.records.lengths[w], clip), clip/g.config.Clip)
	}
	if a := l.engine.Adaptation; a != nil {
		g.hearCount(r, clip, a.Count)
	}
}

// A shadow follows a run without its noise, and so knows every sum that the run may
// have, to the last digit: what an adversary who knows the program, the parameters
// and all records works out at home.
type shadow struct {
	*trainer
	game   *game
	params []float32
	both   [2][]float32
	rows   []int32
}

func (g *game) newShadow() (*shadow, error) {
	keys, err := newKeys(0)
	if err != nil {
		return nil, err
	}
	p := *g.plan
	p.Sigma = 0 // no noise
	t, err := g.newTrainer(&p, keys)
	if err != nil {
		return nil, err
	}
	n := len(g.params)
	return &shadow{trainer: t, game: g, params: make([]float32, n), both: [2][]float32{make([]float32, n), make([]float32, n)}}, nil
}

// sums are those of a batch at a run's parameters, without the canary and with it.
func (s *shadow) sums(run *engine.Engine, beside []int32) ([2][]float32, error) {
	if err := run.ReadParams(s.params); err != nil {
		return s.both, err
	}
	s.rows = append(s.rows[:0], beside...)
	for w := range s.both {
		if w == 1 {
			s.rows = append(s.rows, s.game.records.canary[1])
		}
		if err := s.engine.SetParams(s.params); err != nil {
			return s.both, err
		}
		if err := s.supply.Step(s.engine, s.rows); err != nil {
			return s.both, err
		}
		if err := s.engine.Released(s.both[w]); err != nil {
			return s.both, err
		}
	}
	return s.both, nil
}
