package scale

import (
	"sync/atomic"
	"time"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/datasets/shards"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/dpoptim/batches"
	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/devices"
	"github.com/privgrad/privgrad/internal/engine"
	"github.com/privgrad/privgrad/internal/plan"
	"github.com/privgrad/privgrad/internal/source"
	"github.com/privgrad/privgrad/internal/tables"
	"github.com/privgrad/privgrad/internal/timing"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/nn"
)

// Point says what one process measures: steps of a run as train would make them, on made-up records.
type Point struct {
	Model   string  `json:"model"`
	Records int     `json:"records"`
	Batch   int     `json:"expected_batch"`
	Shards  string  `json:"shards,omitempty"` // folder of the records; empty: they are made in memory
	Threads int     `json:"threads"`
	Seconds float64 `json:"seconds"`
}

// Measured is what came out.
type Measured struct {
	Point          Point   `json:"point"`
	Parameters     int     `json:"parameters"`
	RecordBytes    int     `json:"record_bytes"`
	Together       int     `json:"physical_batch"`
	Steps          int     `json:"steps_timed"`
	StepSeconds    float64 `json:"step_seconds_median"`   // without the sampler
	RecordSeconds  float64 `json:"record_seconds_median"` // of a step, over the records in its batch
	SamplerSeconds float64 `json:"sampler_seconds_median"`
	TableBytes     int64   `json:"table_bytes"`    // in this process's memory: on disk, labels alone
	PeakRSS        int64   `json:"peak_rss_bytes"` // with pages of files
	// Memory that stands for no file, less the table: the median behind a step, and the most, from the start on.
	// They are null where the system does not say.
	Beyond *int64 `json:"memory_beyond_table_bytes"`
	Most   *int64 `json:"most_beyond_table_bytes"`
}

const (
	mlpModel   = "mlp-100" // on records of 100 bytes
	mlpWidth   = 100
	mlpHidden  = 256
	activation = "relu"
	delta      = 1e-9
	leastTimed = 3 // steps
)

func (p Point) check() error {
	if err := timing.CheckBatch(p.Batch); err != nil {
		return err
	}
	if err := timing.CheckRecords(p.Records); err != nil {
		return err
	}
	if p.Batch > p.Records {
		return usage.Errorf("batch %d: must be at most the %d records", p.Batch, p.Records)
	}
	if _, err := p.shape(); err != nil {
		return err
	}
	return timing.CheckSeconds(p.Seconds)
}

// Measure measures a point in this process, whose memory it counts as the point's.
func Measure(p Point) (*Measured, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	r := &run{point: p}
	defer r.close()
	looking := r.memory.keepLooking()
	err := r.open()
	looking()
	if err != nil {
		return nil, err
	}
	defer devices.BoundGarbage(r.plan.Set.Bytes())()
	m, err := r.steps()
	if err != nil {
		return nil, err
	}
	m.Point, m.Parameters, m.Together = p, r.plan.Network.Program.NumParams(), r.plan.Schedule.Chunk
	m.RecordBytes = len(r.plan.Set.Train.Features) / p.Records
	m.TableBytes, m.PeakRSS = r.plan.Set.Bytes(), devices.PeakRSS()
	return m, nil
}

// run is what train has of a run, without a ledger and a run directory.
type run struct {
	point  Point
	plan   *plan.Plan
	device device.Device
	data   tables.Records
	engine *engine.Engine
	supply *drawnBatches
	memory memoryWatch
}

func (r *run) close() {
	if r.engine != nil {
		r.engine.Close()
	}
	if r.data.Data != nil {
		r.data.Data.Close()
	}
	if r.device != nil {
		r.device.Close()
	}
}

func (r *run) open() (err error) {
	p := r.point
	c := config.Default()
	c.Data, c.Device, c.Threads, c.Activation = syntheticName, "cpu", p.Threads, activation
	c.Batch, c.Steps, c.Delta, c.NoiseMultiplier = new(float64(p.Batch)), new(timing.Scheduled), new(delta), new(float64(timing.Noised))
	o := plan.Options{Sources: map[string]source.Source{syntheticName: {BuiltIn: true, Open: func(string) (*datasets.Set, error) { return p.open() }}}}
	if p.Model == mlpModel {
		if o.Network, err = mlpNetwork(); err != nil {
			return err
		}
	} else {
		c.Model = p.Model
	}
	if r.plan, r.device, err = plan.Open(c, o); err != nil {
		return err
	}
	if r.data, err = r.plan.Reader().Records(r.device, r.plan.Set.Train); err != nil {
		return err
	}
	keys, err := r.plan.Keys()
	if err != nil {
		return err
	}
	r.supply = &drawnBatches{}
	if r.supply.sampler, err = r.plan.Sampler(p.Records, keys.Sampling); err != nil {
		return err
	}
	noise, err := r.plan.Stream(keys.Noise)
	if err != nil {
		return err
	}
	if r.engine, err = r.plan.Engine(r.device, r.data, noise, nil, r.supply); err != nil {
		return err
	}
	return r.engine.SetParams(r.plan.Network.Params())
}

// steps times steps for some seconds, after a warm-up of a tenth of the time.
func (r *run) steps() (*Measured, error) {
	var took, perRecord, sampler, bytes []float64
	budget, start := time.Duration(r.point.Seconds*float64(time.Second)), time.Now()
	for t := 0; len(perRecord) < leastTimed || time.Since(start) < budget; t++ {
		began := time.Now()
		if _, err := r.engine.Steps.Step(); err != nil {
			return nil, err
		}
		if err := r.engine.Wait(); err != nil {
			return nil, err
		}
		seconds := (time.Since(began) - r.supply.took).Seconds()
		r.supply.Done++
		r.memory.look()
		if n := r.supply.Done; n&(n-1) == 0 { // as a run does
			devices.FreeGarbage(r.plan.Set.Bytes())
		}
		if r.supply.rows > 0 && t > 0 && time.Since(start) > budget/10 {
			bytes = append(bytes, float64(written()))
			took, sampler = append(took, seconds), append(sampler, r.supply.took.Seconds())
			perRecord = append(perRecord, seconds/float64(r.supply.rows))
		}
	}
	m := &Measured{Steps: len(took), StepSeconds: timing.Median(took), RecordSeconds: timing.Median(perRecord), SamplerSeconds: timing.Median(sampler)}
	if in := int64(timing.Median(bytes)); in > 0 {
		table := r.plan.Set.Bytes()
		m.Beyond, m.Most = new(in-table), new(r.memory.most.Load()-table)
	}
	return m, nil
}

// drawnBatches draws batches as a run does, and keeps the time.
type drawnBatches struct {
	engine.Given
	sampler batches.Sampler
	draws   uint64
	took    time.Duration // of the last batch
	rows    int           // in it
}

// Batch draws the next one.
func (d *drawnBatches) Batch(_ dpoptim.Question, skip bool, dst []int32) ([]int32, uint64) {
	d.draws++
	if skip {
		return dst, d.draws
	}
	began := time.Now()
	dst = d.sampler.Batch(d.draws, dst)
	d.took, d.rows = time.Since(began), len(dst)
	return dst, d.draws
}

// memoryWatch keeps the most memory that was seen.
type memoryWatch struct{ most atomic.Int64 }

func (w *memoryWatch) look() {
	now := written()
	for most := w.most.Load(); now > most && !w.most.CompareAndSwap(most, now); most = w.most.Load() {
	}
}

// keepLooking looks again and again until it is told to stop.
func (w *memoryWatch) keepLooking() (stop func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			w.look()
			select {
			case <-end:
				return
			case <-time.After(2 * time.Millisecond):
			}
		}
	}()
	return func() {
		close(end)
		<-ended
	}
}

// mlpNetwork is an MLP on records of 100 values.
func mlpNetwork() (*nn.Network, error) {
	x := G.NewTensor(G.NewGraph(), tensor.Float32, 4, G.WithShape(1, 1, 1, mlpWidth), G.WithName("input"))
	he := nn.He(1)
	logits, err := nn.Apply(x, nn.Flatten,
		nn.Dense("fc1", mlpHidden, he), nn.ReLU, nn.Dense("fc2", mlpHidden, he), nn.ReLU, nn.Dense("fc3", syntheticClasses, he))
	if err != nil {
		return nil, err
	}
	return nn.Lower(logits, nn.WithName(mlpModel), nn.WithInput(x))
}

// shape is that of the model's records.
func (p Point) shape() ([3]int, error) {
	if p.Model == mlpModel {
		return [3]int{1, 1, mlpWidth}, nil
	}
	m, err := plan.Model(p.Model)
	return m.Input, err
}

// open makes the records, or reads them where they lie.
func (p Point) open() (*datasets.Set, error) {
	if p.Shards != "" {
		return shards.Form.Open(p.Shards, datasets.Declared{})
	}
	shape, err := p.shape()
	if err != nil {
		return nil, err
	}
	set := syntheticSet(shape, p.Records)
	set.Train = syntheticRecords(shape, 0, p.Records)
	return set, nil
}
