package bench

import (
	"time"

	"github.com/privgrad/privgrad/dpoptim/batches"
	"github.com/privgrad/privgrad/internal/exact"
	"github.com/privgrad/privgrad/internal/stream"
	"github.com/privgrad/privgrad/internal/timing"
	"github.com/privgrad/privgrad/internal/usage"
)

// NoiseOptions says how to time Gaussian noise.
type NoiseOptions struct {
	Threads int     // 0 for all; one thread is measured in any case
	Seconds float64 // for each cipher and number of threads
}

// NoiseResult is what Gaussian noise costs.
type NoiseResult struct {
	Ciphers []CipherResult `json:"ciphers"`
}

// CipherResult is the noise of one cipher's stream on a number of threads. A
// draw is one normal, added to one number.
type CipherResult struct {
	// release rounds float32 numbers to a grid, adds exactly rounded normals and gives float32 numbers; exact adds such
	// normals to integers.
	Noise          string  `json:"noise"`
	Cipher         string  `json:"cipher"`
	Threads        int     `json:"threads"`
	SecondsPerDraw float64 `json:"seconds_per_draw_per_core"`
	DrawsPerSecond float64 `json:"draws_per_second"` // of all threads
}

const (
	noiseBlock  = 8192    // draws of a thread at a time, as the CPU device makes
	noiseRounds = 7       // how many times the ciphers take turns
	gridSteps   = 1 << 20 // deviation of the noise, about that of noise multiplier 1
)

// Noise times the draws of every cipher.
func Noise(o NoiseOptions) (*NoiseResult, error) {
	if err := timing.CheckSeconds(o.Seconds); err != nil {
		return nil, err
	}
	counts, err := threadCounts(o.Threads)
	if err != nil {
		return nil, err
	}
	var entries []CipherResult
	var drawers [][]drawer // by entry, by thread
	for _, n := range counts {
		for _, kind := range kinds {
			for _, cipher := range ciphers {
				s, err := stream.New(cipher, stream.KeyFromSeed(1, "bench noise"))
				if err != nil {
					return nil, err
				}
				all := make([]drawer, n)
				for t := range all {
					if all[t], err = kind.drawer(s, uint32(t)); err != nil {
						return nil, err
					}
				}
				drawers = append(drawers, all)
				entries = append(entries, CipherResult{Noise: kind.noise, Cipher: cipher.String(), Threads: n})
			}
		}
	}
	times := make([][]float64, len(entries)) // seconds a draw and core
	for range noiseRounds {
		for i := range entries {
			times[i] = append(times[i], drawTime(drawers[i], o.Seconds/noiseRounds))
		}
	}
	for i := range entries {
		e := &entries[i]
		e.SecondsPerDraw = timing.Median(times[i])
		e.DrawsPerSecond = float64(e.Threads) / e.SecondsPerDraw
	}
	return &NoiseResult{Ciphers: entries}, nil
}

// DrawsPerSecond is the speed of a private step's noise on so many threads, 0 for all.
func DrawsPerSecond(threads int) (most float64, err error) {
	r, err := Noise(NoiseOptions{Threads: threads, Seconds: 0.25})
	if err != nil {
		return 0, err
	}
	for _, c := range r.Ciphers {
		if c.Noise == kinds[0].noise { // the fastest is of all threads, by the cipher that a step takes
			most = max(most, c.DrawsPerSecond)
		}
	}
	return most, nil
}

// drawTime is the seconds that a draw takes a core while all of the drawers draw.
func drawTime(drawers []drawer, seconds float64) float64 {
	draw := func(blocks int) time.Duration {
		return together(len(drawers), func(t int) {
			for b := range blocks {
				drawers[t](uint64(b))
			}
		})
	}
	const few = 8
	draw(1)
	blocks := max(1, int(seconds/draw(few).Seconds()*few))
	return draw(blocks).Seconds() / float64(blocks*noiseBlock)
}

// A drawer adds noise to a block of its own, at a step of the stream.
type drawer func(step uint64)

var kinds = []struct {
	noise  string
	drawer func(s *stream.Stream, tensor uint32) (drawer, error)
}{{"release", onGrid}, {"exact", integers}}

var ciphers = []stream.Cipher{stream.AES256CTR, stream.ChaCha20}

func onGrid(s *stream.Stream, tensor uint32) (drawer, error) {
	return release(make([]float32, noiseBlock), s, tensor)
}

// release adds noise the way the CPU device's does.
func release(dst []float32, s *stream.Stream, tensor uint32) (drawer, error) {
	g, err := exact.New(gridSteps, s, tensor)
	if err != nil {
		return nil, err
	}
	return func(step uint64) { g.Release(dst, dst, 1./gridSteps, step, 0) }, nil
}

func integers(s *stream.Stream, tensor uint32) (drawer, error) {
	g, err := exact.New(gridSteps, s, tensor)
	if err != nil {
		return nil, err
	}
	dst := make([]int64, noiseBlock)
	return func(step uint64) {
		clear(dst)
		g.Add(dst, step, 0)
	}, nil
}

// SamplerOptions says which batches to draw.
type SamplerOptions struct {
	Records int     // to draw from
	Batch   float64 // expected
	Seconds float64 // for each sampler
}

// SamplerResult is what drawing batches costs on one thread.
type SamplerResult struct {
	Samplers []SamplerEntry `json:"samplers"`
}

// SamplerEntry is one way to draw batches. Rows are those that were sampled.
type SamplerEntry struct {
	Sampler       string  `json:"sampler"`
	Cipher        string  `json:"cipher"`
	Records       int     `json:"records"`
	Rate          float64 `json:"sampling_rate"`
	Batches       int     `json:"batches_timed"`
	BatchSeconds  float64 `json:"batch_seconds_median"`
	RowsPerSecond float64 `json:"rows_per_second"`
}

// Sampler times every sampler on every cipher.
func Sampler(o SamplerOptions) (*SamplerResult, error) {
	if err := timing.CheckSeconds(o.Seconds); err != nil {
		return nil, err
	}
	if err := timing.CheckRecords(o.Records); err != nil {
		return nil, err
	}
	if !(o.Batch > 0) || o.Batch > float64(o.Records) {
		return nil, usage.Errorf("batch %v: must be above 0 and at most the %d records", o.Batch, o.Records)
	}
	rate := o.Batch / float64(o.Records)
	r := &SamplerResult{}
	for _, c := range ciphers {
		b, err := batches.Poisson.Of(o.Records, rate)
		if err != nil {
			return nil, err
		}
		p, err := b.Sampler(o.Records, stream.KeyFromSeed(1, "bench sampler"), c)
		if err != nil {
			return nil, err
		}
		e := SamplerEntry{Sampler: b.Name, Cipher: c.String(), Records: o.Records, Rate: rate}
		e.measure(p, o.Seconds)
		r.Samplers = append(r.Samplers, e)
	}
	return r, nil
}

func (e *SamplerEntry) measure(s batches.Sampler, seconds float64) {
	var batch []int32
	var times []float64
	rows, total := 0, 0.0
	for step := uint64(0); total < seconds; step++ {
		began := time.Now()
		batch = s.Batch(step, batch)
		took := time.Since(began).Seconds()
		if step == 0 {
			continue // which grew the batch's memory
		}
		times = append(times, took)
		rows, total = rows+len(batch), total+took
	}
	e.Batches, e.BatchSeconds, e.RowsPerSecond = len(times), timing.Median(times), float64(rows)/total
}
