package bench

import (
	"time"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/internal/stream"
	"github.com/privgrad/privgrad/internal/usage"
)

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
	if err := checkSeconds(o.Seconds); err != nil {
		return nil, err
	}
	if o.Records < 1 || o.Records > mostRecords {
		return nil, usage.Errorf("records %d: must be in [1, %d]", o.Records, mostRecords)
	}
	if !(o.Batch > 0) || o.Batch > float64(o.Records) {
		return nil, usage.Errorf("batch %v: must be above 0 and at most the %d records", o.Batch, o.Records)
	}
	rate := o.Batch / float64(o.Records)
	r := &SamplerResult{}
	for _, c := range ciphers {
		p, err := datasets.NewPoisson(o.Records, rate, stream.KeyFromSeed(1, "bench sampler"), c)
		if err != nil {
			return nil, err
		}
		e := SamplerEntry{Sampler: "poisson", Cipher: c.String(), Records: o.Records, Rate: rate}
		e.measure(p, o.Seconds)
		r.Samplers = append(r.Samplers, e)
	}
	return r, nil
}

const mostRecords = 1<<31 - 1

func (e *SamplerEntry) measure(s *datasets.Poisson, seconds float64) {
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
	e.Batches, e.BatchSeconds, e.RowsPerSecond = len(times), median(times), float64(rows)/total
}
