package accountant

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// ParseEvents reads an events file: a JSON list of events. It is strict: an
// unknown or repeated key, a missing value or a value out of range is an error
// that names the key and the event, counted from 1.
func ParseEvents(r io.Reader) ([]Event, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("reading events: %w", err)
	}
	var list []json.RawMessage
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("events are not a JSON list: %w", located(err))
	}
	if len(list) == 0 {
		return nil, errors.New("events: the list is empty")
	}
	events := make([]Event, len(list))
	for i, raw := range list {
		if events[i], err = parseEvent(raw); err != nil {
			return nil, fmt.Errorf("event %d: %w", i+1, err)
		}
	}
	return events, nil
}

// located adds the position that encoding/json knows but does not print.
func located(err error) error {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return fmt.Errorf("byte %d: %w", syntax.Offset, err)
	}
	return err
}

// UnmarshalJSON reads one event as strictly as ParseEvents.
func (e *Event) UnmarshalJSON(data []byte) error {
	parsed, err := parseEvent(data)
	if err != nil {
		return err
	}
	*e = parsed
	return nil
}

func parseEvent(raw json.RawMessage) (Event, error) {
	o, err := parseObject(raw)
	if err != nil {
		return Event{}, err
	}
	count := 1
	if _, err := o.take("count", &count); err != nil {
		return Event{}, err
	}
	var neighbouring Neighbouring
	bound, err := o.take("neighbouring", &neighbouring)
	if err != nil {
		return Event{}, err
	}
	var e Event
	var batch json.RawMessage
	if batched, err := o.take("batch", &batch); err != nil {
		return Event{}, err
	} else if batched {
		if err := o.done("batch", "count", "neighbouring"); err != nil {
			return Event{}, err
		}
		if e, err = parseBatch(batch, count); err != nil {
			return Event{}, fmt.Errorf("batch: %w", err)
		}
	} else {
		m, err := parseMechanism(o, "count", "neighbouring")
		if err != nil {
			return Event{}, err
		}
		if e, err = OnFullData(count, m); err != nil {
			return Event{}, err
		}
	}
	if bound {
		return e.WithNeighbouring(neighbouring)
	}
	return e, nil
}

func parseBatch(raw json.RawMessage, count int) (Event, error) {
	o, err := parseObject(raw)
	if err != nil {
		return Event{}, err
	}
	var rate, fraction float64
	poisson, err := o.take("poisson", &rate)
	if err != nil {
		return Event{}, err
	}
	fixed, err := o.take("fixed_size", &fraction)
	if err != nil {
		return Event{}, err
	}
	if poisson == fixed {
		return Event{}, errors.New(`give exactly one of "poisson" and "fixed_size"`)
	}
	var list []json.RawMessage
	if _, err := o.take("mechanisms", &list); err != nil {
		return Event{}, err
	}
	if err := o.done("poisson", "fixed_size", "mechanisms"); err != nil {
		return Event{}, err
	}
	mechanisms := make([]Mechanism, len(list))
	for i, raw := range list {
		m, err := parseObject(raw)
		if err == nil {
			mechanisms[i], err = parseMechanism(m)
		}
		if err != nil {
			return Event{}, fmt.Errorf("mechanism %d: %w", i+1, err)
		}
	}
	if fixed {
		return OnFixedSizeBatch(fraction, count, mechanisms...)
	}
	return OnPoissonBatch(rate, count, mechanisms...)
}

// parseMechanism takes a mechanism's keys out of o, which may hold the already
// taken keys of the event around it.
func parseMechanism(o *object, around ...string) (Mechanism, error) {
	var name string
	if err := o.need("mechanism", &name); err != nil {
		return nil, err
	}
	switch name {
	case Gaussian{}.Name():
		var g Gaussian
		if err := o.need("noise_multiplier", &g.NoiseMultiplier); err != nil {
			return nil, err
		}
		return g, o.done(append(around, "mechanism", "noise_multiplier")...)
	case NoisyBTLS{Noise: GaussianNoise}.Name(), NoisyBTLS{Noise: LaplaceNoise}.Name():
		b := NoisyBTLS{Noise: Noise(strings.TrimPrefix(name, NoisyBTLS{}.Name())), Queries: GenericQueries}
		if err := o.need("threshold_scale", &b.ThresholdScale); err != nil {
			return nil, err
		}
		if err := o.need("query_scale", &b.QueryScale); err != nil {
			return nil, err
		}
		if _, err := o.take("max_trials", &b.MaxTrials); err != nil {
			return nil, err
		}
		if _, err := o.take("queries", &b.Queries); err != nil {
			return nil, err
		}
		return b, o.done(append(around, "mechanism", "threshold_scale", "query_scale", "max_trials", "queries")...)
	default:
		return nil, fmt.Errorf("mechanism %q is unknown: use %q, %q or %q", name,
			Gaussian{}.Name(), NoisyBTLS{Noise: GaussianNoise}.Name(), NoisyBTLS{Noise: LaplaceNoise}.Name())
	}
}

// object holds the keys of a JSON object that nobody has asked for yet. Unlike
// decoding into a struct it keeps repeated keys, keys in another case and null
// from passing unnoticed.
type object struct {
	fields map[string]json.RawMessage
}

func parseObject(raw json.RawMessage) (*object, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil {
		return nil, located(err)
	} else if t != json.Delim('{') {
		return nil, fmt.Errorf("expected a JSON object, found %s", abbreviate(raw))
	}
	o := &object{fields: map[string]json.RawMessage{}}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, located(err)
		}
		key := t.(string) // the decoder admits only strings here
		if _, twice := o.fields[key]; twice {
			return nil, fmt.Errorf("key %q appears twice", key)
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, fmt.Errorf("%s: %w", key, located(err))
		}
		o.fields[key] = value
	}
	return o, nil
}

// take decodes the value of key into dst and reports whether there was one.
func (o *object) take(key string, dst any) (bool, error) {
	raw, ok := o.fields[key]
	if !ok {
		return false, nil
	}
	delete(o.fields, key)
	if string(raw) == "null" {
		return false, fmt.Errorf("%s is null: give a value or leave the key out", key)
	}
	if err := json.Unmarshal(raw, dst); err != nil {
		return false, fmt.Errorf("%s is %s: it must be %s", key, abbreviate(raw), kindOf(dst))
	}
	return true, nil
}

func (o *object) need(key string, dst any) error {
	ok, err := o.take(key, dst)
	if err == nil && !ok {
		err = fmt.Errorf("key %q is missing", key)
	}
	return err
}

// done reports the keys that were never taken.
func (o *object) done(known ...string) error {
	if len(o.fields) == 0 {
		return nil
	}
	var unknown []string
	for key := range o.fields {
		unknown = append(unknown, fmt.Sprintf("%q", key))
	}
	slices.Sort(unknown)
	return fmt.Errorf("unknown key %s: the keys allowed here are %s",
		strings.Join(unknown, ", "), strings.Join(known, ", "))
}

func kindOf(dst any) string {
	switch dst.(type) {
	case *int:
		return "a whole number"
	case *float64:
		return "a finite number"
	case *[]json.RawMessage:
		return "a list"
	default:
		return "a string"
	}
}

func abbreviate(raw json.RawMessage) string {
	const most = 40
	if len(raw) > most {
		return string(raw[:most]) + "…"
	}
	return string(raw)
}

type mechanismJSON struct {
	Mechanism       string   `json:"mechanism,omitempty"`
	NoiseMultiplier *float64 `json:"noise_multiplier,omitempty"`
	ThresholdScale  *float64 `json:"threshold_scale,omitempty"`
	QueryScale      *float64 `json:"query_scale,omitempty"`
	MaxTrials       int      `json:"max_trials,omitempty"`
	Queries         Queries  `json:"queries,omitempty"`
}

type batchJSON struct {
	Poisson    *float64        `json:"poisson,omitempty"`
	FixedSize  *float64        `json:"fixed_size,omitempty"`
	Mechanisms []mechanismJSON `json:"mechanisms"`
}

type eventJSON struct {
	Batch *batchJSON `json:"batch,omitempty"`
	mechanismJSON
	Count        int          `json:"count"`
	Neighbouring Neighbouring `json:"neighbouring,omitempty"`
}

// MarshalJSON writes the event as it stands in an events file.
func (e Event) MarshalJSON() ([]byte, error) {
	if e.count == 0 {
		return nil, errors.New("the zero Event has no JSON form: build events with OnFullData, OnPoissonBatch or OnFixedSizeBatch")
	}
	out := eventJSON{Count: e.count, Neighbouring: e.neighbouring}
	if e.sampling == FullData {
		out.mechanismJSON = encodeMechanism(e.mechanisms[0])
		return json.Marshal(out)
	}
	out.Batch = &batchJSON{}
	for _, m := range e.mechanisms {
		out.Batch.Mechanisms = append(out.Batch.Mechanisms, encodeMechanism(m))
	}
	if e.sampling == Poisson {
		out.Batch.Poisson = &e.rate
	} else {
		out.Batch.FixedSize = &e.rate
	}
	return json.Marshal(out)
}

func encodeMechanism(m Mechanism) mechanismJSON {
	out := mechanismJSON{Mechanism: m.Name()}
	switch m := m.(type) {
	case Gaussian:
		out.NoiseMultiplier = &m.NoiseMultiplier
	case NoisyBTLS:
		out.ThresholdScale, out.QueryScale = &m.ThresholdScale, &m.QueryScale
		out.MaxTrials, out.Queries = m.MaxTrials, m.Queries
	}
	return out
}
