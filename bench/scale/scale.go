// Package scale measures how time and memory of training steps grow with the batch and with the table.
package scale

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/privgrad/privgrad/bench"
	"github.com/privgrad/privgrad/internal/timing"
	"github.com/privgrad/privgrad/internal/usage"
)

// What grows in a sweep.
const (
	growBatch   = "batch"
	growRecords = "records"
	growDisk    = "disk" // records whose rows lie on disk
)

// Sweeps are the names of what can grow.
func Sweeps() []string { return []string{growBatch, growRecords, growDisk} }

// Where rows lie.
const (
	inMemory = "memory"
	onDisk   = "disk"
)

// Limit is what this project holds itself to: costs per record, and memory, within this share of each other.
const Limit = 0.05

// Options says what grows, and how far.
type Options struct {
	Sweeps  []string // of Sweeps; none: those in memory
	Model   string   // of the sweep over batches, which draws from as many records as its largest batch
	Batches []int    // expected
	Records []int    // numbers of records
	Batch   int      // expected, in sweeps over records
	Threads int      // 0 for all
	Seconds float64  // per measurement
	Rounds  int
	Program []string // runs this program's command line: each measurement is a process of its own
	Machine bench.Machine
	Version string

	// Progress is told what is measured next, the number done before it, and of how many.
	Progress func(done, total int, next string)
}

// Result is how time and memory grow.
type Result struct {
	Date    string        `json:"date"` // UTC, of the start
	Machine bench.Machine `json:"machine"`
	Version string        `json:"version"`
	Device  string        `json:"device"`
	Threads int           `json:"threads"`
	Seconds float64       `json:"seconds"`
	Rounds  int           `json:"rounds"`
	Limit   float64       `json:"limit"`
	Sweeps  []Sweep       `json:"sweeps"`
}

// Sweep is one kind of growth.
type Sweep struct {
	Sweep       string  `json:"sweep"`
	Model       string  `json:"model"`
	Activation  string  `json:"activation"`
	Parameters  int     `json:"parameters"`
	RecordBytes int     `json:"record_bytes"` // of its values
	Table       string  `json:"table"`
	Entries     []Entry `json:"entries"`
	// The spreads are the largest over the smallest of all entries, less 1.
	CostSpread   float64  `json:"cost_spread"`
	MemorySpread *float64 `json:"memory_spread"` // null where memory is not known
}

// Entry is one size. Seconds and bytes are medians of all rounds, but for the peak, which is the most of any.
type Entry struct {
	Records        int       `json:"records"`
	Batch          int       `json:"expected_batch"`
	Rate           float64   `json:"sampling_rate"`
	RecordSeconds  float64   `json:"record_seconds_median"` // of a step, without its sampler
	Rounds         []float64 `json:"record_seconds_rounds"`
	OverFirst      float64   `json:"over_first"` // median of the rounds' ratios to the first entry
	StepSeconds    float64   `json:"step_seconds_median"`
	SamplerSeconds float64   `json:"sampler_seconds_median"` // per step
	Together       int       `json:"physical_batch"`
	TableBytes     int64     `json:"table_bytes"`
	PeakRSS        int64     `json:"peak_rss_bytes"`
	// In the steps, and at most, from the start on; null where the system does not say.
	Beyond *int64 `json:"memory_beyond_table_bytes"`
	Most   *int64 `json:"most_beyond_table_bytes"`

	steps, samplers, beyond, most []float64 // of the rounds
}

// Run measures every size in a process of its own, in turns.
func Run(ctx context.Context, o Options) (*Result, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	s := &scaling{Options: o, result: &Result{
		Date: time.Now().UTC().Format(time.RFC3339), Machine: o.Machine, Version: o.Version, Device: "cpu",
		Threads: o.Threads, Seconds: o.Seconds, Rounds: o.Rounds, Limit: Limit,
	}}
	for _, name := range o.Sweeps {
		s.total += len(o.sizes(name)) * o.Rounds
	}
	for _, name := range o.Sweeps {
		if err := s.sweep(ctx, name); err != nil {
			return nil, err
		}
	}
	return s.result, nil
}

// check also completes the options.
func (o *Options) check() (err error) {
	if err := timing.CheckSeconds(o.Seconds); err != nil {
		return err
	}
	if o.Rounds < 1 || o.Rounds > 1000 {
		return usage.Errorf("rounds %d: must be in [1, 1000]", o.Rounds)
	}
	if o.Threads, err = timing.Threads(o.Threads); err != nil {
		return err
	}
	if len(o.Sweeps) == 0 {
		o.Sweeps = []string{growBatch, growRecords}
	}
	for i, name := range o.Sweeps {
		if !slices.Contains(Sweeps(), name) {
			return usage.Unknown("sweep", name, Sweeps())
		}
		if slices.Index(o.Sweeps, name) != i {
			return usage.Errorf("sweep %s: it is named twice", name)
		}
		for _, p := range o.sizes(name) {
			if err := p.check(); err != nil {
				return err
			}
		}
		if len(o.sizes(name)) == 0 {
			return usage.Errorf("sweep %s: there is no size to measure", name)
		}
	}
	return nil
}

func (o *Options) sizes(sweep string) (all []Point) {
	if sweep != growBatch {
		for _, n := range o.Records {
			all = append(all, Point{Model: mlpModel, Records: n, Batch: o.Batch, Threads: o.Threads, Seconds: o.Seconds})
		}
		return all
	}
	for _, b := range o.Batches {
		all = append(all, Point{Model: o.Model, Records: slices.Max(o.Batches), Batch: b, Threads: o.Threads, Seconds: o.Seconds})
	}
	return all
}

type scaling struct {
	Options
	result      *Result
	done, total int
}

func (s *scaling) sweep(ctx context.Context, name string) error {
	points, table := s.sizes(name), inMemory
	if name == growDisk {
		table = onDisk
		dir, err := os.MkdirTemp("", "privgrad-scale-")
		if err != nil {
			return usage.Errorf("%s: no folder for tables can be made there (%w): name another by the variable TMPDIR", os.TempDir(), usage.Cause(err))
		}
		defer os.RemoveAll(dir)
		for i := range points {
			s.Progress(s.done, s.total, fmt.Sprintf("writing %d records", points[i].Records))
			points[i].Shards = filepath.Join(dir, strconv.Itoa(i))
			if err := points[i].write(ctx); err != nil {
				return err
			}
		}
	}
	sweep := Sweep{Sweep: name, Model: points[0].Model, Activation: activation, Table: table, Entries: make([]Entry, len(points))}
	for round := range s.Rounds {
		for i, p := range points {
			s.Progress(s.done, s.total, fmt.Sprintf("%s, batch %d of %d records, round %d of %d", p.Model, p.Batch, p.Records, round+1, s.Rounds))
			s.done++
			m, err := s.measure(ctx, p)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				return fmt.Errorf("%s, batch %d of %d records: %w", p.Model, p.Batch, p.Records, err)
			}
			sweep.Parameters, sweep.RecordBytes = m.Parameters, m.RecordBytes
			sweep.Entries[i].add(p, m)
		}
	}
	sweep.judge()
	s.result.Sweeps = append(s.result.Sweeps, sweep)
	return nil
}

// measure has a process of its own measure a point.
func (s *scaling) measure(ctx context.Context, p Point) (*Measured, error) {
	text, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	out, err := timing.Process(ctx, s.Threads, append(slices.Clone(s.Program), "bench", "scale", "--json", "--point", string(text)))
	if err != nil {
		return nil, err
	}
	m := &Measured{}
	if err := json.Unmarshal(out, m); err != nil {
		return nil, fmt.Errorf("its output is not one JSON object: %w", err)
	}
	if m.Point != p || !(m.RecordSeconds > 0) {
		return nil, fmt.Errorf("it measured something else: %.200s", strings.TrimSpace(string(out)))
	}
	return m, nil
}

// add takes in what a round measured.
func (e *Entry) add(p Point, m *Measured) {
	e.Records, e.Batch, e.Rate = p.Records, p.Batch, float64(p.Batch)/float64(p.Records)
	e.Together, e.TableBytes = m.Together, m.TableBytes
	e.PeakRSS = max(e.PeakRSS, m.PeakRSS)
	if m.Beyond != nil && m.Most != nil {
		e.beyond, e.most = append(e.beyond, float64(*m.Beyond)), append(e.most, float64(*m.Most))
	}
	e.Rounds = append(e.Rounds, m.RecordSeconds)
	e.steps = append(e.steps, m.StepSeconds)
	e.samplers = append(e.samplers, m.SamplerSeconds)
}

// judge makes medians and spreads of all rounds.
func (s *Sweep) judge() {
	first := s.Entries[0].Rounds
	var costs, bytes []float64
	for i := range s.Entries {
		e := &s.Entries[i]
		e.RecordSeconds, e.StepSeconds, e.SamplerSeconds = timing.Median(e.Rounds), timing.Median(e.steps), timing.Median(e.samplers)
		ratios := make([]float64, len(first))
		for r, seconds := range e.Rounds {
			ratios[r] = seconds / first[r]
		}
		e.OverFirst = timing.Median(ratios)
		costs = append(costs, e.OverFirst)
		if len(e.beyond) == len(e.Rounds) {
			e.Beyond, e.Most = new(int64(timing.Median(e.beyond))), new(int64(timing.Median(e.most)))
			bytes = append(bytes, float64(*e.Beyond))
		}
	}
	s.CostSpread = spread(costs)
	if len(bytes) == len(s.Entries) && slices.Min(bytes) > 0 {
		s.MemorySpread = new(spread(bytes))
	}
}

func spread(v []float64) float64 { return slices.Max(v)/slices.Min(v) - 1 }
