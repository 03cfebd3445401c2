package devicetest

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ir"
)

// presentCase is what a net is asked for.
type presentCase struct {
	*search
	d        device.Device
	schedule *ir.Schedule
	form     device.LossForm
}

// presentLosses asks again and again for losses at the parameters of one net, which may
// keep those that a gradient or a query has computed.
type presentLosses struct {
	presentCase
	x     *lossSum
	other device.Vector
}

func (c presentCase) ready(t testing.TB) *presentLosses {
	p := &presentLosses{presentCase: c, x: c.open(t, c.d, c.schedule, presentRows, c.form)}
	p.other = p.x.written(t, scaled(c.dir, 0.7))
	p.ask(t, p.x, c.All())
	return p
}

const (
	lossClip    = 3 // bounds few of the losses
	presentRows = 7 // most rows of a run
)

// ask gives the sums of rows, asked in as many runs as the capacity takes.
func (p *presentLosses) ask(t testing.TB, x *lossSum, rows []int32) []float32 {
	for part := range slices.Chunk(rows, x.capacity) {
		x.run(t, part, lossClip, p.steps...)
	}
	return x.releaseAll(t, 0)
}

// check compares with a net of the same parameters that has computed nothing yet; of parameters
// in float64 that net has the next ones in float32.
func (p *presentLosses) check(t *testing.T, what string, rows []int32) {
	t.Helper()
	p.compare(t, what, rows, p.fresh(t, rows))
}

// fresh asks a net of the same parameters that has computed nothing yet.
func (p *presentLosses) fresh(t *testing.T, rows []int32) []float32 {
	t.Helper()
	return p.ask(t, p.at(t, p.x.read(t, p.x.Net.Params())), rows)
}

// at opens a net with other parameters.
func (p *presentLosses) at(t testing.TB, params []float32) *lossSum {
	there, c := *p.search, *p.Case
	there.Case, c.Params = &c, params
	return there.open(t, p.d, p.schedule, presentRows, p.form)
}

func (p *presentLosses) compare(t *testing.T, what string, rows []int32, want []float32) {
	t.Helper()
	got := p.ask(t, p.x, rows)
	for i := range want {
		if !(math.Abs(float64(got[i]-want[i])) <= 3*toleranceIn(p.precision)) {
			t.Errorf("%s: %v, want %v", what, got, want)
			return
		}
	}
}

// presentClaims are that no kept loss is one of other parameters, rows, vectors or tables.
var presentClaims = claims[presentCase]{
	{"moved parameters", testMoved},
	{"rows of a gradient and others", testPresentRows},
	{"another vector", testPresentVectors},
	{"around an update", testAroundUpdate},
	{"two tables", testPresentTables},
}

func testPresentLosses(t *testing.T, d device.Device) {
	for _, p := range some(d, []*ir.Program{program("thrice"), program("mlp-hinge"), program("linear-logistic")}) {
		c := newCase(t, d, p, 9, 28)
		s := &search{Case: c.with(3, float32(math.NaN())), dir: direction(t, c), steps: []float32{0.5, 0}}
		schedule := strategies(t, p)[0].Schedule
		schedule.Chunk = 4
		for _, form := range some(d, lossForms) {
			t.Run(fmt.Sprintf("%s %s", p.Name, form), func(t *testing.T) { presentClaims.run(t, presentCase{s, d, schedule, form}) })
		}
	}
	t.Run("exact", func(t *testing.T) { testPresentExact(t, d) })
}

// testMoved moves the parameters in every way between a gradient and a query.
func testMoved(t *testing.T, c presentCase) {
	p := c.ready(t)
	for _, move := range p.moves(t) {
		p.x.Add(t, p.All(), 0.4)
		before := p.x.read(t, p.x.Net.Params())
		move.step(t)
		if slices.Equal(before, p.x.read(t, p.x.Net.Params())) {
			t.Fatalf("%s: the parameters are the same as before", move.name)
		}
		p.check(t, "parameters that were "+move.name, p.All())
		p.x.Release(t, 0)
		p.x.params(t, p.Params)
	}
}

// testPresentRows asks for rows that a gradient went through and for others.
func testPresentRows(t *testing.T, c presentCase) {
	p := c.ready(t)
	all := p.fresh(t, p.All())
	known := map[string][]float32{} // what fresh nets say
	for _, gradient := range [][]int32{{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, {0, 1, 2}, {5, 1, 5, 5, 9}, nil} {
		for _, rows := range some(c.d, [][]int32{gradient, {3, 4}, {2, 1, 0}, {2, 2, 0, 2}, {0, 1, 2, 3}, {9}, nil, p.All()}) {
			p.x.params(t, p.Params) // nothing is known any more
			p.x.Add(t, gradient, 0.4)
			key := fmt.Sprint(rows)
			if known[key] == nil {
				known[key] = p.fresh(t, rows)
			}
			p.compare(t, fmt.Sprintf("rows %v after a gradient of %v", rows, gradient), rows, known[key])
			p.compare(t, fmt.Sprintf("all rows after rows %v and a gradient of %v", rows, gradient), p.All(), all)
		}
	}
}

// testPresentExact releases into the parameters of an exact net.
func testPresentExact(t *testing.T, d device.Device) {
	c := newCase(t, d, program("thrice"), 6, 29)
	opened := func() *lossSum { return openExact(t, d, whole(t, c.Program)[0].Schedule, c, 6).loss(t) }
	released := func(x *lossSum, step device.Step, clip float64) {
		x.draw++
		in := clipAt(clip)
		in.Draw = x.draw
		must(t, step.Run(in))
	}
	ask := func(x *lossSum) float32 {
		x.run(t, c.All(), lossClip)
		released(x, x.free, lossClip)
		return x.values(t, x.out, 1)[0]
	}
	x, fresh := opened(), opened()
	ask(x)
	x.Add(t, c.All(), 0.4)
	released(x, x.record(t, func(q device.Queue) { q.Release(x.Net.Params(), x.Sum, x.Noise) }), 0.4)
	fresh.params(t, x.read(t, x.Net.Params()))
	if got, want := ask(x), ask(fresh); math.Abs(float64(got-want)) > 1e-5 {
		t.Errorf("an exact net gives %v after a release into its parameters, want %v", got, want)
	}
}

type move struct {
	name string
	step func(*testing.T)
}

// moves are all ways to change the parameters.
func (p *presentLosses) moves(t *testing.T) []move {
	n, x := p.x.Net, p.x
	params := n.Params()
	list := []move{{"written", func(t *testing.T) { must(t, n.Write(params, scaled(p.Params, 0.9))) }}}
	add := func(name string, body func(device.Queue)) {
		step := x.record(t, body)
		list = append(list, move{name, func(t *testing.T) {
			in := x.next()
			for _, slot := range []device.Slot{device.Scale, device.Rate, device.Momentum, device.Along, device.Blend, device.Clip} {
				in.Scalars[slot] = 0.5
			}
			ran(t, step, in)
		}})
	}
	add("updated", func(q device.Queue) { q.Update(device.SGD, params, p.other) })
	add("averaged", func(q device.Queue) { q.Update(device.Average, params, p.other) })
	add("an update's state", func(q device.Queue) { q.Update(device.HeavyBall, x.Out, p.other, params) })
	add("added to", func(q device.Queue) { q.Axpy(params, device.Along, p.other) })
	add("released into", func(q device.Queue) { q.Release(params, x.Sum, x.Noise) })
	add("updated by what is released", func(q device.Queue) {
		q.Release(x.Out, x.Sum, x.Noise)
		q.Update(device.SGD, params, x.Out)
	})
	add("the state of an update by what is released", func(q device.Queue) {
		q.Release(x.Out, x.Sum, x.Noise)
		q.Update(device.HeavyBall, p.other, x.Out, params)
	})
	lstm := device.LSTM{Layers: 1, Hidden: 1}
	weights, state := x.scalars(t, lstm.Weights()), x.vector(t, lstm.States())
	must(t, n.Write(weights, constant(lstm.Weights(), 0.5)))
	add("updated by an LSTM", func(q device.Queue) { q.Project(lstm, params, p.other, weights, state) })
	add("released into for an update", func(q device.Queue) {
		q.Release(params, x.Sum, x.Noise)
		q.Update(device.SGD, p.other, params)
	})
	return list
}

// testPresentVectors asks at another vector in between.
func testPresentVectors(t *testing.T, c presentCase) {
	p, rows := c.ready(t), c.All()[:4]
	params := scaled(p.Params, 0.8)
	must(t, p.x.Net.Write(p.other, params))
	elsewhere := p.x.losses(t, device.LossQuery{At: p.other, Dir: p.x.written(t, p.dir), K: len(p.steps), Form: p.form})
	want := p.ask(t, p.at(t, params), rows)
	p.x.Add(t, rows, 0.4)
	Same(t, p.ask(t, elsewhere, rows), want)
	p.check(t, "after a query at another vector", rows)
	p.x.params(t, params)
	Same(t, p.ask(t, elsewhere, rows), want)
	p.x.params(t, p.Params)
	p.check(t, "after a query at another vector alone", rows)
}

// testAroundUpdate asks in one step before an update and after it.
func testAroundUpdate(t *testing.T, c presentCase) {
	p, rows, k := c.ready(t), c.All()[:4], len(c.steps)
	x, params := p.x, scaled(p.Params, 0.8)
	must(t, x.Net.Write(p.other, params))
	want := p.ask(t, p.at(t, params), rows)
	sums := [2]device.Sum{x.scalarSum(t, k), x.scalarSum(t, k)}
	ask := device.LossQuery{At: x.Net.Params(), Dir: x.written(t, p.dir), K: k, Form: p.form}
	step := x.record(t, func(q device.Queue) {
		q.ClippedSum(x.Sum, x.Data)
		q.Losses(sums[0], x.Data, ask)
		q.Update(device.Average, x.Net.Params(), p.other)
		q.Losses(sums[1], x.Data, ask)
	})
	in := clipAt(lossClip, rows...)
	in.Scalars[device.Blend] = 1
	copy(in.Candidates[:], p.steps)
	must(t, step.Run(in))
	for i, sum := range sums {
		read := x.record(t, func(q device.Queue) { q.Release(x.out, sum, x.Noise) })
		must(t, read.Run(x.next()))
		got := x.values(t, x.out, k)
		if i == 1 {
			Same(t, got, want)
		} else if slices.Equal(got, want) {
			t.Error("the case shows nothing: losses before an update are those after it")
		}
	}
}

// testPresentTables asks for rows of two tables in turn.
func testPresentTables(t *testing.T, c presentCase) {
	p := c.ready(t)
	x, other := p.x, *p.Case // its rows in another order
	other.Features, other.Rows.Targets = nil, nil
	for _, row := range []int{4, 3, 2, 1, 0, 8, 7, 6, 5, 9} {
		other.Features = append(other.Features, p.Features[row*p.Rows.Width:][:p.Rows.Width]...)
		other.Rows.Targets = append(other.Rows.Targets, p.Rows.Targets[row])
	}
	data, err := p.d.Load(other.Rows, other.Features)
	must(t, err)
	t.Cleanup(func() { must(t, data.Close()) })
	there, private := *p.search, x.Data
	there.Case, x.Data = &other, data
	asked := x.losses(t, device.LossQuery{At: x.Net.Params(), Dir: x.written(t, p.dir), K: len(p.steps), Form: p.form})
	clipped := x.record(t, func(q device.Queue) { q.ClippedSum(x.Sum, data) })
	x.Data = private
	rows := p.All()[:3]
	fresh := there.open(t, p.d, p.schedule, presentRows, p.form)
	want, all := p.ask(t, fresh, rows), p.ask(t, fresh, p.All())
	for range 2 {
		x.Add(t, p.All(), 0.4)
		Same(t, p.ask(t, asked, rows), want)
		Same(t, p.ask(t, asked, p.All()), all)
		p.check(t, "after a query of another table", rows)
		must(t, clipped.Run(clipAt(0.4, rows...)))
		p.check(t, "after a gradient of another table", rows)
		Same(t, p.ask(t, asked, rows), want)
	}
}
