package train

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim/batches"
	"github.com/privgrad/privgrad/internal/cpu"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/plan"
)

// drawn is a device that notes what left it, and with which noise.
type drawn struct {
	device.Device
	silent bool // nothing is added, whatever noise was asked for
	all    []release
	wrote  [][]float32 // into parameters by the host: where a run begins, and what fits and choices released
}

// release is what left the device by one mechanism.
type release struct {
	kind  string        // gradient, curve or search
	in    device.Inputs // with the noise that was asked for
	rows  []int32       // that it was asked of
	at    []float32     // the parameters before
	value []float32     // of a gradient
	found int           // by a search, or −1
}

func (d *drawn) Compile(s *ir.Schedule, o device.Options) (device.Net, error) {
	n, err := d.Device.Compile(s, o)
	return &drawnNet{Net: n, d: d, params: s.Program.NumParams(), scalar: map[device.Sum]bool{}}, err
}

type drawnNet struct {
	device.Net
	d      *drawn
	params int
	scalar map[device.Sum]bool
	rows   []int32
}

func (n *drawnNet) NewScalarSum(size int) (device.Sum, error) {
	s, err := n.Net.NewScalarSum(size)
	n.scalar[s] = true
	return s, err
}

func (n *drawnNet) Write(v device.Vector, src []float32) error {
	if v == n.Params() {
		n.d.wrote = append(n.d.wrote, slices.Clone(src))
	}
	return n.Net.Write(v, src)
}

// hosted is how many releases the host made.
func (d *drawn) hosted() int { return max(len(d.wrote)-1, 0) }

type drawnQueue struct {
	device.Queue
	step *drawnStep
}

func (q *drawnQueue) Release(dst device.Vector, src device.Sum, n device.Noise) {
	q.step.kind, q.step.dst = "gradient", dst
	if q.step.net.scalar[src] {
		q.step.kind = "curve"
	}
	q.Queue.Release(dst, src, n)
}

func (q *drawnQueue) AboveThreshold(src device.Sum, s device.Search) {
	q.step.kind = "search"
	q.Queue.AboveThreshold(src, s)
}

func (q *drawnQueue) ArgMin(src device.Sum, m device.Minimum) {
	q.step.kind = "search"
	q.Queue.ArgMin(src, m)
}

// drawnStep releases something of a kind into a vector, or of kind "" nothing.
type drawnStep struct {
	device.Step
	net   *drawnNet
	kind  string
	dst   device.Vector
	first int // of the queries that the last run asked
}

func (n *drawnNet) Record(body func(device.Queue)) (device.Step, error) {
	s := &drawnStep{net: n}
	var err error
	s.Step, err = n.Net.Record(func(q device.Queue) { body(&drawnQueue{q, s}) })
	return s, err
}

func (s *drawnStep) Run(in *device.Inputs) error {
	n := s.net
	n.rows = append(n.rows, in.Rows...)
	if s.kind == "" {
		return s.Step.Run(in)
	}
	began := in.First == 0 || s.kind != "search" // a search may go on in further runs
	if began {
		r := release{kind: s.kind, in: *in, rows: n.rows, at: make([]float32, n.params)}
		if err := n.Read(n.Params(), r.at); err != nil {
			return err
		}
		n.d.all = append(n.d.all, r)
	}
	n.rows, s.first = nil, in.First
	if n.d.silent {
		silenced := *in
		for _, scale := range []device.Slot{device.NoiseStd, device.ThresholdStd, device.QueryStd} {
			silenced.Scalars[scale] = 0
		}
		in = &silenced
	}
	if err := s.Step.Run(in); err != nil || s.kind != "gradient" {
		return err
	}
	r := &n.d.all[len(n.d.all)-1]
	r.value = make([]float32, n.params)
	return n.Read(s.dst, r.value)
}

func (s *drawnStep) Wait() (device.Outputs, error) {
	out, err := s.Step.Wait()
	if s.kind == "search" && err == nil {
		r := &s.net.d.all[len(s.net.d.all)-1]
		if r.found = out.Found[0]; r.found >= 0 {
			r.found += s.first
		}
	}
	return out, err
}

// cost is what was drawn, in the accountant's terms: scales over the bound that went
// with them, and one event for all that was asked of the same rows. A device does not see the scale of what
// the host releases; it is the declared one.
func (d *drawn) cost(t *testing.T, p *plan.Plan) []accountant.Event {
	t.Helper()
	var events []accountant.Event
	count := map[string]int{}
	var batch []accountant.Mechanism
	flush := func() {
		if len(batch) == 0 {
			return
		}
		key := fmt.Sprint(batch)
		if i, ok := count[key]; ok {
			events[i].Count++
		} else {
			count[key] = len(events)
			draw := accountant.PoissonBatch
			if p.Kind == batches.Subsets {
				draw = accountant.SubsetBatch
			}
			events = append(events, draw(p.SamplingRate, 1, batch...))
		}
		batch = nil
	}
	var rows []int32
	for i, r := range d.all {
		if len(batch) == 0 || !slices.Equal(r.rows, rows) || p.SamplingRate == 1 {
			flush()
		}
		rows = r.rows
		clip := float64(r.in.Scalars[device.Clip])
		switch r.kind {
		case "gradient", "curve":
			batch = append(batch, accountant.Gaussian{NoiseMultiplier: float64(r.in.Scalars[device.NoiseStd]) / clip})
		case "search":
			c := p.Config.Search
			if c.Form == searchMinimum {
				batch = append(batch, accountant.Pure{Epsilon: clip / float64(r.in.Scalars[device.QueryStd])})
				break
			}
			queries := accountant.Generic
			if c.Form == searchLosses {
				queries = accountant.SharedBaseline
			}
			batch = append(batch, accountant.NoisyBTLS{
				Noise: accountant.BTLSNoise(c.Noise), MaxTrials: *c.Trials, Queries: queries,
				ThresholdScale: float64(r.in.Scalars[device.ThresholdStd]) / clip, QueryScale: float64(r.in.Scalars[device.QueryStd]) / clip,
			})
		}
		if i > 0 && !(r.in.Draw > d.all[i-1].in.Draw) {
			t.Fatalf("release %d is at noise position %d, the one before at %d", i, r.in.Draw, d.all[i-1].in.Draw)
		}
	}
	flush()
	if d.hosted() > 0 {
		r, err := p.Declaration.Asks[0].Release(p.Sigma)
		check(t, err)
		events = append(events, accountant.Event{Mechanisms: []accountant.Mechanism{r.Noise}, Count: d.hosted()})
	}
	return events
}

func noting(t *testing.T) *drawn {
	t.Helper()
	host, err := cpu.Open(1)
	check(t, err)
	return &drawn{Device: host}
}

// spentBy is what the releases of some processes cost, as a share of the filter's budget.
func spentBy(t *testing.T, p *plan.Plan, processes ...*drawn) float64 {
	t.Helper()
	b, err := p.NewBudget()
	check(t, err)
	f := b.(*accountant.Filter)
	cost := func(events []accountant.Event) float64 {
		if len(events) == 0 {
			return 0
		}
		c, err := accountant.NewCurve(events, accountant.Neighbouring(p.Config.Neighbouring), []float64{f.Order()})
		check(t, err)
		return c.RDP[0]
	}
	total := 0.0
	for _, d := range processes {
		total += cost(d.cost(t, p))
	}
	budget := *p.Epsilon - math.Log1p(-1/f.Order()) + math.Log(*p.Config.Delta*f.Order())/(f.Order()-1)
	return total / budget
}
