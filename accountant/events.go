package accountant

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// Neighbouring is the relation between data sets that must be hard to tell apart.
type Neighbouring string

const (
	AddRemove  Neighbouring = "add-remove"
	ReplaceOne Neighbouring = "replace-one"
)

func (n Neighbouring) validate() error {
	if n != AddRemove && n != ReplaceOne {
		return fmt.Errorf("neighbouring relation %q: choose %s or %s", n, AddRemove, ReplaceOne)
	}
	return nil
}

// Mechanism is one noisy release. Values are immutable.
type Mechanism interface {
	// Name is the "mechanism" of the JSON form.
	Name() string
	validate() error
}

// Gaussian adds normal noise to a sum; a multiplier of 0 adds none.
type Gaussian struct {
	NoiseMultiplier float64 `json:"noise_multiplier"`
}

// Name is "gaussian".
func (Gaussian) Name() string { return "gaussian" }

func (g Gaussian) validate() error {
	if !(g.NoiseMultiplier >= 0) || math.IsInf(g.NoiseMultiplier, 0) {
		return fmt.Errorf("noise_multiplier %v: must be a finite number, 0 or more", g.NoiseMultiplier)
	}
	return nil
}

// BTLSNoise is the noise of a line search by sparse vector.
type BTLSNoise string

const (
	BTLSGaussian BTLSNoise = "gaussian"
	BTLSLaplace  BTLSNoise = "laplace"
)

// NoisyBTLS asks queries in turn and stops at the first above a noisy
// threshold (Chen and Lee 2020, algorithm 1). Scales are in units of one
// query's sensitivity: standard deviations for Gaussian noise, b for Laplace.
type NoisyBTLS struct {
	Noise          BTLSNoise `json:"-"`
	ThresholdScale float64   `json:"threshold_scale"`
	QueryScale     float64   `json:"query_scale"`
	MaxTrials      int       `json:"max_trials,omitempty"` // 0: no cap
	// Queries is "shared-baseline" if all queries share one private term, as a
	// line search's do, or "generic".
	Queries string `json:"queries"`
}

// Name is "noisy-btls-gaussian" or "noisy-btls-laplace".
func (m NoisyBTLS) Name() string { return "noisy-btls-" + string(m.Noise) }

func (m NoisyBTLS) validate() error {
	for what, v := range map[string]float64{"threshold_scale": m.ThresholdScale, "query_scale": m.QueryScale} {
		if !(v > 0) || math.IsInf(v, 0) {
			return fmt.Errorf("%s %v: must be a finite number above 0", what, v)
		}
	}
	if m.MaxTrials < 0 {
		return fmt.Errorf("max_trials %d: must be 1 or more", m.MaxTrials)
	}
	if m.Queries != "shared-baseline" && m.Queries != "generic" {
		return fmt.Errorf("queries %q: choose shared-baseline or generic", m.Queries)
	}
	return nil
}

// Sampling says how a batch was drawn.
type Sampling string

const (
	FullData  Sampling = ""           // every record, no amplification
	Poisson   Sampling = "poisson"    // each record independently
	FixedSize Sampling = "fixed_size" // a uniform subset of fixed size
)

// Event is Count repetitions of: draw a batch, ask its Mechanisms. Values are
// immutable.
type Event struct {
	Sampling   Sampling
	Rate       float64 // of the sampling; 1 for FullData
	Mechanisms []Mechanism
	Count      int
	// Neighbouring overrides the list's relation; empty means the list's.
	Neighbouring Neighbouring
}

// PoissonBatch is count batches at rate q, each asked the mechanisms.
func PoissonBatch(q float64, count int, mechanisms ...Mechanism) Event {
	return Event{Sampling: Poisson, Rate: q, Mechanisms: mechanisms, Count: count}
}

// Validate checks an event's numbers.
func (e Event) Validate() error {
	if e.Sampling != FullData && (!(e.Rate > 0) || e.Rate > 1) {
		return fmt.Errorf("%s sampling rate %v: must be in (0, 1]", e.Sampling, e.Rate)
	}
	if e.Count < 1 {
		return fmt.Errorf("count %d: must be 1 or more", e.Count)
	}
	if len(e.Mechanisms) == 0 {
		return errors.New("an event needs at least one mechanism")
	}
	for _, m := range e.Mechanisms {
		if m == nil {
			return errors.New("an event holds no mechanism where one is needed")
		}
		if err := m.validate(); err != nil {
			return fmt.Errorf("mechanism %s: %w", m.Name(), err)
		}
	}
	if e.Neighbouring != "" {
		return e.Neighbouring.validate()
	}
	return nil
}

// The JSON form: a mechanism's keys beside "mechanism", and either a batch or
// one mechanism of the full data beside "count" and "neighbouring".

// MarshalJSON writes the form that ParseEvents reads.
func (e Event) MarshalJSON() ([]byte, error) {
	if err := e.Validate(); err != nil {
		return nil, err
	}
	var mechanisms []json.RawMessage
	for _, m := range e.Mechanisms {
		b, err := json.Marshal(m)
		if err != nil {
			return nil, err
		}
		head := fmt.Appendf(nil, `{"mechanism":%q,`, m.Name())
		mechanisms = append(mechanisms, append(head, b[1:]...))
	}
	var b []byte
	if e.Sampling == FullData && len(mechanisms) == 1 {
		b = mechanisms[0][:len(mechanisms[0])-1]
	} else {
		list, err := json.Marshal(mechanisms)
		if err != nil {
			return nil, err
		}
		b = append(b, `{"batch":{`...)
		if e.Sampling != FullData {
			rate, err := json.Marshal(e.Rate)
			if err != nil {
				return nil, err
			}
			b = fmt.Appendf(b, `%q:%s,`, string(e.Sampling), rate)
		}
		b = fmt.Appendf(b, `"mechanisms":%s}`, list)
	}
	b = fmt.Appendf(b, `,"count":%d`, e.Count)
	if e.Neighbouring != "" {
		b = fmt.Appendf(b, `,"neighbouring":%q`, string(e.Neighbouring))
	}
	return append(b, '}'), nil
}

// ParseEvents reads an events file: a JSON list. Unknown keys are errors.
func ParseEvents(r io.Reader) ([]Event, error) {
	var list []json.RawMessage
	d := json.NewDecoder(r)
	if err := d.Decode(&list); err != nil {
		return nil, fmt.Errorf("events must be a JSON list: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("events must be one JSON list with nothing after it")
	}
	if len(list) == 0 {
		return nil, errors.New("the list of events is empty")
	}
	var events []Event
	for i, raw := range list {
		e, err := parseEvent(raw)
		if err == nil {
			err = e.Validate()
		}
		if err != nil {
			return nil, fmt.Errorf("event %d: %w", i+1, err)
		}
		events = append(events, e)
	}
	return events, nil
}

func parseEvent(raw []byte) (Event, error) {
	var head struct {
		Batch        json.RawMessage `json:"batch"`
		Count        *int            `json:"count"`
		Neighbouring *Neighbouring   `json:"neighbouring"`
	}
	if err := json.Unmarshal(raw, &head); err != nil {
		return Event{}, err
	}
	e := Event{Rate: 1, Count: 1}
	if head.Count != nil {
		e.Count = *head.Count
	}
	if head.Neighbouring != nil {
		e.Neighbouring = *head.Neighbouring
		if err := e.Neighbouring.validate(); err != nil {
			return Event{}, err
		}
	}
	if head.Batch == nil {
		m, err := parseMechanism(raw, "count", "neighbouring")
		e.Mechanisms = []Mechanism{m}
		return e, err
	}
	if err := known(raw, "batch", "count", "neighbouring"); err != nil {
		return Event{}, err
	}
	var batch struct {
		Poisson    *float64          `json:"poisson"`
		FixedSize  *float64          `json:"fixed_size"`
		Mechanisms []json.RawMessage `json:"mechanisms"`
	}
	if err := strict(head.Batch, &batch); err != nil {
		return Event{}, fmt.Errorf("batch: %w", err)
	}
	switch {
	case batch.Poisson != nil && batch.FixedSize != nil:
		return Event{}, errors.New(`batch: "poisson" and "fixed_size" exclude each other`)
	case batch.Poisson != nil:
		e.Sampling, e.Rate = Poisson, *batch.Poisson
	case batch.FixedSize != nil:
		e.Sampling, e.Rate = FixedSize, *batch.FixedSize
	}
	for _, raw := range batch.Mechanisms {
		m, err := parseMechanism(raw)
		if err != nil {
			return Event{}, fmt.Errorf("batch: %w", err)
		}
		e.Mechanisms = append(e.Mechanisms, m)
	}
	return e, nil
}

// parseMechanism reads one mechanism; the keys besides belong to the event.
func parseMechanism(raw []byte, besides ...string) (Mechanism, error) {
	var head struct {
		Mechanism *string `json:"mechanism"`
	}
	if err := json.Unmarshal(raw, &head); err != nil {
		return nil, err
	}
	if head.Mechanism == nil {
		return nil, errors.New(`"mechanism" or "batch" is missing`)
	}
	besides = append(besides, "mechanism")
	switch *head.Mechanism {
	case "gaussian":
		if err := known(raw, append(besides, "noise_multiplier")...); err != nil {
			return nil, err
		}
		var g struct {
			NoiseMultiplier *float64 `json:"noise_multiplier"`
		}
		if err := json.Unmarshal(raw, &g); err != nil {
			return nil, err
		}
		if g.NoiseMultiplier == nil {
			return nil, errors.New(`mechanism gaussian: "noise_multiplier" is missing`)
		}
		return Gaussian{*g.NoiseMultiplier}, nil
	case "noisy-btls-gaussian", "noisy-btls-laplace":
		if err := known(raw, append(besides, "threshold_scale", "query_scale", "max_trials", "queries")...); err != nil {
			return nil, err
		}
		m := NoisyBTLS{Noise: BTLSNoise(strings.TrimPrefix(*head.Mechanism, "noisy-btls-")), Queries: "generic"}
		err := json.Unmarshal(raw, &m)
		return m, err
	}
	return nil, fmt.Errorf("unknown mechanism %q: choose gaussian, noisy-btls-gaussian or noisy-btls-laplace", *head.Mechanism)
}

func strict(raw []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

// known refuses keys that nobody reads.
func known(raw []byte, keys ...string) error {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(raw, &all); err != nil {
		return err
	}
	for k := range all {
		if !slices.Contains(keys, k) {
			return fmt.Errorf("unknown key %q: known here are %s", k, strings.Join(keys, ", "))
		}
	}
	return nil
}
