package devicetest

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ir"
)

// presentLosses asks again and again for losses at the parameters of one net, which may
// keep those that a gradient or a query has computed.
type presentLosses struct {
	*search
	d        device.Device
	schedule *ir.Schedule
	form     device.LossForm
	x        *lossSum
	other    device.Vector
}

func (s *search) present(t testing.TB, d device.Device, schedule *ir.Schedule, form device.LossForm) *presentLosses {
	t.Helper()
	p := &presentLosses{search: s, d: d, schedule: schedule, form: form, x: s.open(t, d, schedule, presentRows, form)}
	var err error
	p.other, err = p.x.Net.NewVector(1)
	must(t, err)
	must(t, p.x.Net.Write(p.other, scaled(s.dir, 0.7)))
	p.ask(t, p.x, s.All())
	return p
}

const (
	lossClip    = 3 // bounds few of the losses
	presentRows = 7 // most rows of a run
)

// ask gives the sums of rows, asked in as many runs as the capacity takes.
func (p *presentLosses) ask(t testing.TB, x *lossSum, rows []int32) []float32 {
	t.Helper()
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
	now := *p.search
	now.Case = &Case{Program: p.Program, Params: p.x.read(t, p.x.Net.Params()), Rows: p.Rows, Features: p.Features, precision: p.precision}
	return p.ask(t, now.open(t, p.d, p.schedule, presentRows, p.form), rows)
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

// testPresentLosses moves the parameters in every way between a gradient and a query, and asks for
// rows that the gradient went through and for others.
func testPresentLosses(t *testing.T, d device.Device) {
	for _, p := range some(d, []*ir.Program{program("thrice"), program("mlp-hinge"), program("linear-logistic")}) {
		c := newCase(t, d, p, 9, 28)
		s := &search{Case: c.with(3, float32(math.NaN())), dir: direction(t, c), steps: []float32{0.5, 0}}
		schedule := *strategies(t, p)[0].Schedule
		schedule.Chunk = 4
		for _, form := range some(d, lossForms) {
			t.Run(fmt.Sprintf("%s %s", p.Name, form), func(t *testing.T) {
				moved := s.present(t, d, &schedule, form)
				for _, move := range moved.moves(t) {
					moved.x.Add(t, s.All(), 0.4)
					before := moved.x.read(t, moved.x.Net.Params())
					move.step(t)
					if slices.Equal(before, moved.x.read(t, moved.x.Net.Params())) {
						t.Fatalf("%s: the parameters are the same as before", move.name)
					}
					moved.check(t, "parameters that were "+move.name, s.All())
					moved.x.Release(t, 0)
					must(t, moved.x.Net.Write(moved.x.Net.Params(), c.Params))
				}

				alone := s.present(t, d, &schedule, form)
				all := alone.fresh(t, s.All())
				known := map[string][]float32{} // what fresh nets say
				for _, gradient := range [][]int32{{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, {0, 1, 2}, {5, 1, 5, 5, 9}, nil} {
					for _, rows := range [][]int32{gradient, {3, 4}, {2, 1, 0}, {2, 2, 0, 2}, {0, 1, 2, 3}, {9}, nil, s.All()} {
						must(t, alone.x.Net.Write(alone.x.Net.Params(), c.Params)) // nothing is known any more
						alone.x.Add(t, gradient, 0.4)
						key := fmt.Sprint(rows)
						if known[key] == nil {
							known[key] = alone.fresh(t, rows)
						}
						alone.compare(t, fmt.Sprintf("rows %v after a gradient of %v", rows, gradient), rows, known[key])
						alone.compare(t, fmt.Sprintf("all rows after rows %v and a gradient of %v", rows, gradient), s.All(), all)
					}
				}
				alone.vectors(t)
				alone.tables(t)
			})
		}
	}
	t.Run("exact", func(t *testing.T) { testPresentExact(t, d) })
}

// testPresentExact releases into the parameters of an exact net.
func testPresentExact(t *testing.T, d device.Device) {
	c := newCase(t, d, program("thrice"), 6, 29)
	opened := func() *lossSum {
		x := openExact(t, d, whole(t, c.Program)[0].Schedule, c, 6)
		return x.losses(t, device.LossQuery{At: x.Net.Params(), K: 1})
	}
	ask := func(x *lossSum) float32 {
		x.draw++
		x.run(t, c.All(), lossClip)
		in := &device.Inputs{Draw: x.draw}
		in.Scalars[device.Clip] = lossClip
		must(t, x.free.Run(in))
		v := make([]float32, 1)
		must(t, x.Net.Read(x.out, v))
		return v[0]
	}
	x, fresh := opened(), opened()
	ask(x)
	x.Add(t, c.All(), 0.4)
	into := x.record(t, func(q device.Queue) { q.Release(x.Net.Params(), x.Sum, x.Noise) })
	x.draw++
	in := &device.Inputs{Draw: x.draw}
	in.Scalars[device.Clip] = 0.4
	must(t, into.Run(in))
	must(t, fresh.Net.Write(fresh.Net.Params(), x.read(t, x.Net.Params())))
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
			x.draw++
			in := &device.Inputs{Draw: x.draw}
			for _, slot := range []device.Slot{device.Scale, device.Rate, device.Momentum, device.Along, device.Blend, device.Clip} {
				in.Scalars[slot] = 0.5
			}
			must(t, step.Run(in))
			_, err := step.Wait()
			must(t, err)
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
	add("released into for an update", func(q device.Queue) {
		q.Release(params, x.Sum, x.Noise)
		q.Update(device.SGD, p.other, params)
	})
	return list
}

// vectors asks at another vector in between, and in one step around an update.
func (p *presentLosses) vectors(t *testing.T) {
	n, x, rows := p.x.Net, p.x, p.All()[:4]
	must(t, n.Write(n.Params(), p.Params))
	must(t, n.Write(p.other, scaled(p.Params, 0.8)))
	dir, err := n.NewVector(1)
	must(t, err)
	must(t, n.Write(dir, p.dir))
	elsewhere := x.losses(t, device.LossQuery{At: p.other, Dir: dir, K: len(p.steps), Form: p.form})
	there := *p.search
	there.Case = &Case{Program: p.Program, Params: scaled(p.Params, 0.8), Rows: p.Rows, Features: p.Features, precision: p.precision}
	want := p.ask(t, there.open(t, p.d, p.schedule, presentRows, p.form), rows)
	x.Add(t, rows, 0.4)
	Same(t, p.ask(t, elsewhere, rows), want)
	p.check(t, "after a query at another vector", rows)
	must(t, n.Write(n.Params(), scaled(p.Params, 0.8)))
	Same(t, p.ask(t, elsewhere, rows), want)
	must(t, n.Write(n.Params(), p.Params))
	p.check(t, "after a query at another vector alone", rows)

	k := len(p.steps)
	var sums [2]device.Sum
	var out [2]device.Vector
	for i := range sums {
		sums[i], err = n.NewScalarSum(k)
		must(t, err)
		out[i], err = n.NewScalars(k)
		must(t, err)
	}
	ask := device.LossQuery{At: n.Params(), Dir: dir, K: k, Form: p.form}
	step := x.record(t, func(q device.Queue) {
		q.ClippedSum(x.Sum, x.Data)
		q.Losses(sums[0], x.Data, ask)
		q.Update(device.Average, n.Params(), p.other)
		q.Losses(sums[1], x.Data, ask)
	})
	in := &device.Inputs{Rows: rows}
	in.Scalars[device.Clip], in.Scalars[device.Blend] = lossClip, 1
	copy(in.Candidates[:], p.steps)
	must(t, step.Run(in))
	got := make([]float32, k)
	for i := range sums {
		read := x.record(t, func(q device.Queue) { q.Release(out[i], sums[i], x.Noise) })
		x.draw++
		must(t, read.Run(&device.Inputs{Draw: x.draw}))
		must(t, n.Read(out[i], got))
		if i == 1 {
			Same(t, got, want)
		} else if slices.Equal(got, want) {
			t.Error("the case shows nothing: losses before an update are those after it")
		}
	}
	x.Release(t, 0)
}

// tables asks for rows of two tables in turn.
func (p *presentLosses) tables(t *testing.T) {
	n, x := p.x.Net, p.x
	must(t, n.Write(n.Params(), p.Params))
	other := *p.Case // its rows in another order
	other.Features, other.Rows.Targets = nil, nil
	for _, row := range []int{4, 3, 2, 1, 0, 8, 7, 6, 5, 9} {
		other.Features = append(other.Features, p.Features[row*p.Rows.Width:][:p.Rows.Width]...)
		other.Rows.Targets = append(other.Rows.Targets, p.Rows.Targets[row])
	}
	data, err := p.d.Load(other.Rows, other.Features)
	must(t, err)
	t.Cleanup(func() { must(t, data.Close()) })
	dir, err := n.NewVector(1)
	must(t, err)
	must(t, n.Write(dir, p.dir))
	private := x.Data
	x.Data = data
	asked := x.losses(t, device.LossQuery{At: n.Params(), Dir: dir, K: len(p.steps), Form: p.form})
	clipped := x.record(t, func(q device.Queue) { q.ClippedSum(x.Sum, data) })
	x.Data = private
	there := *p.search
	there.Case = &other
	rows := p.All()[:3]
	fresh := there.open(t, p.d, p.schedule, presentRows, p.form)
	want, all := p.ask(t, fresh, rows), p.ask(t, fresh, p.All())
	in := &device.Inputs{Rows: rows}
	in.Scalars[device.Clip] = 0.4
	for range 2 {
		x.Add(t, p.All(), 0.4)
		Same(t, p.ask(t, asked, rows), want)
		Same(t, p.ask(t, asked, p.All()), all)
		p.check(t, "after a query of another table", rows)
		must(t, clipped.Run(in))
		p.check(t, "after a gradient of another table", rows)
		Same(t, p.ask(t, asked, rows), want)
	}
}
