package audit

import (
	"math"
	"testing"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim/mechanism"
	"github.com/privgrad/privgrad/internal/convex"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/reference"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/stream"
	"github.com/privgrad/privgrad/nn"
	"github.com/privgrad/privgrad/perexample"
)

// asking gives what a device computes of some rows before any noise: the values that a question is
// about, as functions of the rows alone.
type asking struct {
	step, read device.Step
	net        device.Net
	vector     device.Vector
	inputs     device.Inputs
	draw       uint64
	buffer     []float32
}

// ask records a question about extreme records, of a network under a clipping.
func ask(t *testing.T, network *nn.Network, clipping ir.Clipping, clip float64, record func(n device.Net, q device.Queue, data device.Data, dst device.Sum), values int) *asking {
	t.Helper()
	schedule, err := perexample.Plain(network.Program)
	if clipping != ir.Unclipped {
		schedule, err = perexample.Private(network.Program, perexample.Options{Strategy: perexample.Materialise, Clipping: clipping})
	}
	check(t, err)
	rows := device.Rows{Count: 4, Width: ir.Size(network.Program.Shape), Targets: []float32{0, 0, 1, 1}}
	features := make(device.Floats, rows.Count*rows.Width)
	for i := range features {
		features[i] = 1 - 2*float32(i*i%7%2) // extremes; rows 0 and 1 are the same, as are 2 and 3
		if i >= rows.Width {
			features[i] = features[i%rows.Width]
		}
	}
	d := reference.Open()
	data, err := d.Load(rows, features)
	check(t, err)
	a := &asking{}
	a.net, err = d.Compile(schedule, device.Options{Capacity: rows.Count})
	check(t, err)
	t.Cleanup(func() { a.net.Close() })
	check(t, a.net.Write(a.net.Params(), network.Params()))
	noise, err := stream.New(stream.ChaCha20, stream.KeyFromSeed(0, "never drawn from"))
	check(t, err)
	var private device.Sum
	if values == 0 {
		values = network.Program.NumParams()
		private, err = a.net.NewSum()
		check(t, err)
		a.vector, err = a.net.NewVector(1)
	} else {
		private, err = a.net.NewScalarSum(values)
		check(t, err)
		a.vector, err = a.net.NewScalars(values)
	}
	check(t, err)
	a.step, err = a.net.Record(func(q device.Queue) { record(a.net, q, data, private) })
	check(t, err)
	m := mechanism.NewUnprotected(clip, noise)
	m.Set(&a.inputs)
	a.read, err = a.net.Record(func(q device.Queue) { m.Release(q, a.vector, private) })
	check(t, err)
	a.buffer = make([]float32, values)
	return a
}

// of are the values of some rows.
func (a *asking) of(t *testing.T, rows ...int32) []float64 {
	t.Helper()
	a.draw++
	a.inputs.Rows, a.inputs.Draw = rows, 0
	if len(rows) > 0 {
		check(t, a.step.Run(&a.inputs))
	}
	a.inputs.Rows, a.inputs.Draw = nil, a.draw
	check(t, a.read.Run(&a.inputs))
	check(t, a.net.Read(a.vector, a.buffer))
	all := make([]float64, len(a.buffer))
	for i, x := range a.buffer {
		all[i] = float64(x)
	}
	return all
}

// moved is how far apart in L2 the values of two sets of rows are.
func moved(x, y []float64) float64 {
	square := 0.0
	for i := range x {
		square += (x[i] - y[i]) * (x[i] - y[i])
	}
	return math.Sqrt(square)
}

func gradients(_ device.Net, q device.Queue, data device.Data, dst device.Sum) {
	q.ClippedSum(dst, data)
}

// losses asks for those along the parameters themselves: one step multiplies them, the other
// turns them around.
func losses(form device.LossForm) func(device.Net, device.Queue, device.Data, device.Sum) {
	return func(n device.Net, q device.Queue, data device.Data, dst device.Sum) {
		q.Losses(dst, data, device.LossQuery{At: n.Params(), Dir: n.Params(), K: 2, Form: form})
	}
}

// A worst-case record moves what is released by as much as its mechanism counts on, and a control
// by more, which breaks the condition that is said. Both are what the reference device
// computes, so that the equalities hold up to a float32 of what is read.
func TestSensitivities(t *testing.T) {
	const clip, close = 0.01, 1e-5
	n := network(t, false)
	layers := 2.0
	at := func(clipping ir.Clipping, c float64) float64 {
		a := ask(t, n, clipping, c, gradients, 0)
		return moved(a.of(t, 1, 2), a.of(t, 1))
	}
	lossesMoved := func(form device.LossForm, c float64, etas ...float32) (l2, most float64) {
		a := ask(t, n, ir.Flat, c, losses(form), 2)
		copy(a.inputs.Candidates[:], etas)
		x, y := a.of(t, 1, 2), a.of(t, 1)
		return moved(x, y), max(math.Abs(x[0]-y[0]), math.Abs(x[1]-y[1]))
	}
	normOf := func() *asking {
		return ask(t, n, ir.Flat, clip, func(net device.Net, q device.Queue, data device.Data, dst device.Sum) {
			sum, err := net.NewSum()
			check(t, err)
			q.ClippedSum(sum, data)
			q.Norm(dst, sum)
		}, 1)
	}
	count := func(c float64) *asking {
		return ask(t, n, ir.Flat, c, func(net device.Net, q device.Queue, data device.Data, dst device.Sum) {
			sum, err := net.NewSum()
			check(t, err)
			q.CountedSum(sum, dst, data)
		}, 1)
	}
	one := func(x, _ float64) float64 { return x }
	other := func(_, x float64) float64 { return x }
	counts := func(labels ...uint8) []float64 {
		var all []float64
		for _, c := range device.NewCounting(device.CountLabels(labels, 3)) {
			all = append(all, float64(c))
		}
		return all
	}
	c := Default()
	c.Optimizer, c.Accountant, c.Device = "privgene", accountant.RDP, "cpu"
	linear, err := prepareHearing(c, stages[c.Optimizer])
	check(t, err)
	move := func(rows ...int32) []float64 {
		table, values, _ := linear.scene.Table(rows)
		private, err := convex.NewTable(linear.plan.Facts.Linear, table, values, 1, 1)
		check(t, err)
		return []float64{float64(private.Moves([]float64{0, 0}, 0.5, 0.5)[0]) / convex.MoveGrid}
	}
	plain := at(ir.Unclipped, clip)
	squared := math.Pow(normOf().of(t, 0, 1)[0], 2) - math.Pow(normOf().of(t, 0)[0], 2)
	for _, row := range []struct {
		name           string
		bound, reached float64
		control        float64
		broken         string
	}{
		{"gradient, flat", clip, at(ir.Flat, clip), plain, "no clipping"},
		{"gradient, per layer", clip, at(ir.PerLayer, clip), at(ir.PerLayer, clip*math.Sqrt(layers)), "each layer clipped to all of C"},
		{"gradient, automatic", clip * plain / (plain + ir.AutomaticGamma), at(ir.Automatic, clip), plain, "no clipping"},
		{"count of the clipped", mechanism.CountBound, math.Abs(count(clip).of(t, 1)[0]), math.Abs(count(100).of(t, 1)[0] - count(clip).of(t, 1)[0]), "a record that is replaced"},
		{"norm", clip, normOf().of(t, 0)[0], squared / clip, "the squared norm over C, beside a record that is alike"},
		{"losses, a value", clip, other(lossesMoved(device.LossSum, clip, -40, -20)), other(lossesMoved(device.LossSum, device.MostClip, -40, -20)), "no clipping"},
		{"losses, all", clip * math.Sqrt2, one(lossesMoved(device.LossSum, clip, -40, -20)), one(lossesMoved(device.LossSum, device.MostClip, -40, -20)), "no clipping"},
		{"decreases, a value", clip, other(lossesMoved(device.LossDecrease, clip, -40, -20)), other(lossesMoved(device.LossDecrease, device.MostClip, -40, -20)), "no clipping"},
		{"decreases, all", clip * math.Sqrt2, one(lossesMoved(device.LossDecrease, clip, -40, -20)), one(lossesMoved(device.LossDecrease, device.MostClip, -40, -20)), "no clipping"},
		{"curve of decreases", clip, one(lossesMoved(device.LossCurve, clip, -40, -20)), one(lossesMoved(device.LossDecrease, clip, -40, -20)), "each decrease clipped by itself"},
		{"choice, a move", 1, moved(move(1), move()), moved(move(1), move(0)), "a record that is replaced"},
		{"majority, a count", 1, moved(counts(0, 1, 1), counts(0, 1)), moved(counts(0, 1, 1), counts(0, 1, 2)), "a record that is replaced"},
	} {
		t.Logf("%-22s bound %.6g, reached %.6g; %s: %.6g", row.name, row.bound, row.reached, row.broken, row.control)
		if math.Abs(row.reached/row.bound-1) > close {
			t.Errorf("%s: a record moves it by %v, the bound is %v", row.name, row.reached, row.bound)
		}
		if !(row.control > row.bound*1.05) {
			t.Errorf("%s: %s moves it by %v, within the bound of %v, so that the condition is not needed", row.name, row.broken, row.control, row.bound)
		}
	}
}
