// Package dryrun says what a run would cost before any record is opened: ε and noise by the
// run's plan, memory and time by some steps on random records.
package dryrun

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/internal/budget"
	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/devices"
	"github.com/privgrad/privgrad/internal/engine"
	"github.com/privgrad/privgrad/internal/fault"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/plan"
	"github.com/privgrad/privgrad/internal/source"
	"github.com/privgrad/privgrad/internal/stream"
	"github.com/privgrad/privgrad/internal/tables"
)

// Estimate is what a run would cost. Its ε is that of the whole schedule; memory and seconds
// hold for this machine, as it is busy now.
type Estimate struct {
	Dataset    string `json:"dataset"`
	Model      string `json:"model"`
	Parameters int    `json:"parameters"`
	Optimizer  string `json:"optimizer"`
	Recipe     string `json:"recipe,omitempty"` // which one filled in what was left open, or why none did
	Device     string `json:"device"`
	Why        string `json:"device_reason,omitempty"` // it is the CPU, and not the GPU that seems to be there
	Threads    int    `json:"threads"`

	Epsilon         *float64 `json:"epsilon"`
	Delta           *float64 `json:"delta"`
	NoiseMultiplier *float64 `json:"noise_multiplier"`
	Accountant      *string  `json:"accountant"`
	Neighbouring    *string  `json:"neighbouring"`
	Guarantee       bool     `json:"guarantee"`
	NoGuarantee     []string `json:"not_a_guarantee_because"`

	SamplingRate  float64  `json:"sampling_rate"`
	ExpectedBatch float64  `json:"expected_batch"`
	PublicN       int      `json:"public_n"`
	Count         bool     `json:"count_records"`        // a noisy count of usable records comes first
	Steps         int      `json:"steps"`                // at most, where a filter ends the run
	Iterations    *int     `json:"iterations,omitempty"` // of a solver in the one step
	Memory        int64    `json:"memory_bytes"`         // of the process, on the host
	Seconds       *float64 `json:"seconds_estimate"`     // null for an optimizer that is no sequence of steps

	Budget *budget.Cost `json:"budget,omitempty"` // what the run would take from the budget of several

	Initial *plan.Initial `json:"init,omitempty"` // which tensors begin with the values of a file

	Claim    accountant.Guarantee `json:"-"` // all of what stands above in its JSON form
	Rounded  int64                `json:"-"` // what a result would state of Memory
	Fitting  float64              `json:"-"` // of Seconds, for features of a new image size
	Warnings []string             `json:"-"`
}

// Run plans a run and tries some of its steps, before which it calls trying, unless nil. It opens no record, writes nothing,
// and charges nothing.
func Run(c config.Config, o plan.Options, trying func()) (_ *Estimate, err error) {
	defer fault.Recover(&err)
	o.Facts = true
	start := time.Now()
	p, d, err := plan.Open(c, o)
	if d != nil && o.Device == nil {
		defer d.Close()
	}
	if err != nil {
		return nil, err
	}
	cost, err := budget.Ask(p)
	if err != nil {
		return nil, err
	}
	if trying != nil {
		trying()
	}
	t := &trial{plan: p, device: d, seconds: time.Since(start).Seconds(), tests: testRecords(p.Set, p.PublicN)}
	defer t.close()
	if err := t.load(); err != nil {
		return nil, err
	}
	if err := t.run(); err != nil {
		return nil, err
	}
	e := t.estimate()
	e.Budget = cost
	if path := source.Absent(p.Config); path != "" {
		e.Warnings = append(e.Warnings, path+" does not exist: training needs it, and this estimate does not")
	}
	return e, nil
}

// testRecords is about how many public test records there are: nobody has counted them.
func testRecords(s *datasets.Set, n int) float64 {
	switch {
	case !s.TestIsPublic:
		return 0
	case s.Share > 0 && s.Share < 1:
		return float64(n) * (1 - s.Share) / s.Share
	}
	return float64(n) / 6 // as of MNIST
}

// trial is some of a run's steps on random records.
type trial struct {
	plan    *plan.Plan
	device  device.Device
	records datasets.Split
	mapped  bool // the run's own are, and these are not
	data    tables.Records
	engine  *engine.Engine
	tests   float64
	seconds float64
	fitting time.Duration // of seconds, for the front end's constants
	timed   bool
	// untouched is the memory of the records at a time that the trial leaves out.
	untouched int64
}

func (t *trial) close() {
	if t.engine != nil {
		t.engine.Close()
	}
	if t.data.Data != nil {
		t.data.Data.Close()
	}
}

// trained is how many rows the records to train on take at most.
func (t *trial) trained() float64 { return float64(t.plan.PublicN) * float64(t.plan.Config.UnitRows()) }

// mostRecords that a trial makes; larger batches repeat them.
const mostRecords = 2048

// load puts random records onto the device, and times what is made of them.
func (t *trial) load() (err error) {
	p := t.plan
	n := int(math.Min(math.Ceil(p.ExpectedBatch), mostRecords)) * p.Config.UnitRows()
	t.mapped, t.records = p.Set.Train.Mapped, random(p.Set, n)
	t.records.UnitRows = p.Config.UnitRows()
	p.Set.Train = t.records
	each, rows, values, err := t.table()
	if err != nil {
		return err
	}
	start := time.Now()
	data, err := t.device.Load(rows, values)
	if err != nil {
		return fmt.Errorf("loading made-up records onto device %s: %w", t.device.Info().Name, err)
	}
	t.data = tables.Records{Data: data, Rows: rows, Values: values}
	each += time.Since(start).Seconds() / float64(n)
	t.seconds += each * (t.trained() + t.tests)
	if p.Front != nil {
		t.fitting = p.Front.FitTime()
		t.seconds += t.fitting.Seconds()
	}
	return nil
}

// table is what a network reads of all records, and the seconds that one takes to get there. Features may take long: then only
// those of some records are made, where the run makes them, and the others have the same ones.
func (t *trial) table() (each float64, rows device.Rows, values device.Features, err error) {
	const fewest, enough = 16, time.Second / 2
	n, reader := t.records.Len(), t.plan.Reader()
	reader.Parts = 1 // as a part of all records is large
	some := n
	if t.plan.Front != nil {
		some = min(fewest, n)
	}
	for {
		start := time.Now()
		records, err := reader.Records(t.device, part(t.records, some))
		if err != nil {
			return 0, rows, nil, err
		}
		if err := records.Data.Close(); err != nil {
			return 0, rows, nil, err
		}
		rows, values = records.Rows, records.Values
		took := time.Since(start)
		each = took.Seconds() / float64(some)
		if some == n || took > enough {
			break
		}
		some = min(2*some, n)
	}
	if values == nil { // on the device alone, which may have made many while the host would make few
		if rows, values, err = reader.Table(part(t.records, min(some, fewest))); err != nil {
			return 0, rows, nil, err
		}
	}
	rows.Count = n
	rows.Targets, values = cycle(rows.Targets, n), cycled(values, n*rows.Width)
	return each, rows, values, nil
}

// part is the first of some records.
func part(s datasets.Split, n int) datasets.Split {
	size := n * ir.Size(s.Shape[:])
	s.Features, s.Values = first(s.Features, size), first(s.Values, size)
	s.Labels, s.Targets = first(s.Labels, n), first(s.Targets, n)
	return s
}

// first are n values, or none of none.
func first[T any](all []T, n int) []T { return all[:min(n, len(all))] }

// cycle repeats values up to n of them.
func cycle[S ~[]T, T any](some S, n int) S {
	if len(some) == n {
		return some
	}
	return slices.Repeat(some, n/len(some)+1)[:n]
}

func cycled(some device.Features, n int) device.Features {
	switch f := some.(type) {
	case device.Floats:
		return cycle(f, n)
	case device.Halves:
		return cycle(f, n)
	}
	return some
}

// random are records like those of a set.
func random(s *datasets.Set, n int) datasets.Split {
	source := rand.New(rand.NewPCG(1, 2))
	m := datasets.Split{Shape: s.Train.Shape, Unit: s.Train.Unit}
	size := n * ir.Size(m.Shape[:])
	if m.Unit {
		m.Values = make([]float32, size)
		for i := range m.Values {
			m.Values[i] = source.Float32()
		}
	} else {
		m.Features = make([]uint8, size)
		for i := range m.Features {
			m.Features[i] = uint8(source.Uint32())
		}
	}
	if s.Classes == 0 {
		m.Targets = make([]float32, n)
		for i := range m.Targets {
			m.Targets[i] = source.Float32()
		}
		return m
	}
	m.Labels = make([]uint8, n)
	for i := range m.Labels {
		m.Labels[i] = uint8(source.IntN(s.Classes))
	}
	return m
}

// run makes steps as the run would, but for batches, which are of the expected size.
func (t *trial) run() error {
	p := t.plan
	key, err := stream.NewKey()
	if err != nil {
		return err
	}
	noise, err := p.Stream(key)
	if err != nil {
		return err
	}
	if key, err = stream.NewKey(); err != nil {
		return err
	}
	words, err := p.Words(key, 0)
	if err != nil {
		return err
	}
	expected := max(int(math.Round(p.ExpectedBatch)), 1)
	of := t.cut(expected)
	// A batch that fills a chunk takes memory that smaller ones do not touch.
	s := &supply{expected: expected, steps: p.MostSteps}
	s.Rows = make([]int32, min(max(expected, p.Schedule.Chunk), p.Capacity))
	for i := range s.Rows {
		s.Rows[i] = int32(i % t.records.Units())
	}
	if of < expected {
		s.Rows, s.expected = s.Rows[:of], of
	}
	if t.engine, err = p.Engine(t.device, t.data, noise, words, s); err != nil {
		return err
	}
	if err := t.engine.SetParams(p.FirstParams()); err != nil {
		return err
	}
	if p.Traits.Once {
		return nil
	}
	step, err := t.timeSteps(s)
	if err != nil {
		return err
	}
	evaluation, err := t.timeEvaluation()
	if err != nil {
		return err
	}
	t.seconds += float64(p.MostSteps)*step*float64(expected)/float64(of) + evaluation
	t.timed = true
	return nil
}

// cut is how many records of a batch a step of the trial takes: all of them, unless that would take a minute or more. Then noise and
// update, which are counted as often as records are left out, take next to nothing of a step.
func (t *trial) cut(batch int) int {
	const most, timed = 60, 2 // seconds of a step, by the device's nominal speed
	info := t.device.Info()
	speed := info.Costs.GEMM * float64(max(info.Threads, 1))
	each := float64(t.plan.Schedule.Views()) * float64(t.plan.Network.Program.StepFLOPs()) / speed
	if float64(batch)*each <= most {
		return batch
	}
	of := min(max(int(timed/each), 1), batch)
	if info.Memory == 0 { // of its own, of which nothing is said here
		t.untouched = int64(max(t.plan.Schedule.Chunk-of, 0)) * t.plan.ExampleBytes()
	}
	return of
}

// timeSteps is how long a step takes on average: a line search is made every few steps.
func (t *trial) timeSteps(s *supply) (seconds float64, err error) {
	const fewest, enough, most = 5, 500 * time.Millisecond, 5 * time.Second
	start := time.Now()
	for made := 0; made < t.plan.MostSteps; made++ { // beyond its last step a method may have no noise
		if made == 1 { // the first warms up
			if err := t.engine.Wait(); err != nil {
				return 0, err
			}
			start = time.Now()
		}
		if took := time.Since(start); made > 1 && (took > most || made > fewest && took > enough) {
			break
		}
		if _, err := t.engine.Steps.Step(); err != nil {
			return 0, err
		}
		s.Done++
	}
	if err := t.engine.Wait(); err != nil {
		return 0, err
	}
	return time.Since(start).Seconds() / float64(max(s.Done-1, 1)), nil // a single step counts, warm or not
}

// timeEvaluation is how long all evaluations take, with the accounting for each.
func (t *trial) timeEvaluation() (float64, error) {
	p := t.plan
	evaluations := float64(p.Evaluations(p.MostSteps))
	start := time.Now()
	p.EpsilonAt(p.Steps / 2)
	account := time.Since(start).Seconds()
	if t.tests == 0 {
		return evaluations * account, nil
	}
	score, err := t.engine.Scorer(t.data.Data, false)
	if err != nil {
		return 0, err
	}
	start = time.Now()
	if _, err := score(); err != nil {
		return 0, err
	}
	return evaluations * (account + time.Since(start).Seconds()*t.tests/float64(t.records.Len())), nil
}

// estimate is what the plan and the trial say.
func (t *trial) estimate() *Estimate {
	p, c, g, info := t.plan, &t.plan.Config, t.plan.Guarantee, t.device.Info()
	e := &Estimate{
		Dataset: c.Data, Model: c.Model, Parameters: p.Network.Program.NumParams(), Optimizer: c.Optimizer, Recipe: p.Recipe, Device: info.Name, Why: info.Instead, Threads: info.Threads,
		Guarantee: g.Guarantee, NoGuarantee: g.NoGuarantee, Claim: g,
		Epsilon: g.Epsilon, Delta: g.Delta, Accountant: g.Accountant, Neighbouring: g.Neighbouring, NoiseMultiplier: p.NoiseMultiplier(),
		SamplingRate: p.SamplingRate, ExpectedBatch: p.ExpectedBatch, PublicN: p.PublicN, Count: p.Count != nil, Steps: p.MostSteps, Iterations: p.Iterations,
		Memory: devices.PeakRSS() + t.bytes() + t.untouched, Warnings: p.Warnings, Initial: p.Initial,
	}
	stated := e.Memory
	if !p.PublicRecords() {
		p.Set.Train.Mapped = t.mapped
		stated = p.PlannedMemory(t.tests, 1)
	}
	e.Rounded = devices.Coarse(stated, p.RowBytes())
	if t.timed {
		seconds := math.Max(math.Round(t.seconds), 1)
		e.Seconds, e.Fitting = &seconds, math.Round(t.fitting.Seconds())
	}
	return e
}

// bytes are those of the records that the trial does not hold, as files and as what a network reads.
func (t *trial) bytes() int64 {
	more := t.trained() + t.tests - float64(t.records.Len())
	return int64(math.Max(more, 0)) * t.plan.RecordBytes(t.mapped)
}

// supply gives the same expected rows at every step, at the first all of them, and charges nothing.
type supply struct {
	engine.Given
	expected, steps int
	draws           uint64
}

func (s *supply) Batch(_ dpoptim.Question, skip bool, dst []int32) ([]int32, uint64) {
	s.draws++
	if skip {
		return dst, s.draws
	}
	rows := s.Rows
	if s.Done > 0 {
		rows = rows[:s.expected]
	}
	return append(dst[:0], rows...), s.draws
}

func (s *supply) Left() float64 { return math.Max(1-float64(s.Update())/float64(s.steps), 0) }
