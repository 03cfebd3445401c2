package accountant

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"

	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/internal/written"
)

// Neighbouring is the relation between data sets that must be hard to tell apart.
type Neighbouring string

const (
	AddRemove  Neighbouring = "add-remove"
	ReplaceOne Neighbouring = "replace-one"
)

func (n Neighbouring) validate() error {
	if n != AddRemove && n != ReplaceOne {
		return usage.Unknown("neighbouring relation", n, []Neighbouring{AddRemove, ReplaceOne})
	}
	return nil
}

// distance is how far apart neighbouring data sets are, in additions and
// removals of one record.
func (n Neighbouring) distance() float64 {
	if n == ReplaceOne {
		return 2
	}
	return 1
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
	Rate       float64 // of the sampling; 1 or 0 for FullData, which has none
	Mechanisms []Mechanism
	Count      int
	// Neighbouring overrides the list's relation; empty means the list's.
	Neighbouring Neighbouring
}

// PoissonBatch is count batches at rate q, each asked the mechanisms.
func PoissonBatch(q float64, count int, mechanisms ...Mechanism) Event {
	return Event{Sampling: Poisson, Rate: q, Mechanisms: slices.Clone(mechanisms), Count: count}
}

// SubsetBatch is count batches of a fixed size at rate q = n_B/N, each asked the mechanisms.
func SubsetBatch(q float64, count int, mechanisms ...Mechanism) Event {
	return Event{Sampling: FixedSize, Rate: q, Mechanisms: slices.Clone(mechanisms), Count: count}
}

// states says whether the event can be charged under a relation.
func (e Event) states(n Neighbouring) error {
	if e.Neighbouring != "" && e.Neighbouring != n {
		return fmt.Errorf("stated for %s, but the account is for %s, and such epsilons do not add up; give --neighbouring %[1]s or restate the event", e.Neighbouring, n)
	}
	// A fixed-size batch keeps its number of records, even if it holds all: an added record takes another's place.
	if e.Sampling == FixedSize && n == AddRemove {
		return errors.New("fixed-size sampling is priced under replace-one only: use --neighbouring replace-one, or Poisson sampling")
	}
	return nil
}

// bounds are those of what is asked of one batch, as if it held every record.
func (e Event) bounds(distance float64) ([]bound, error) {
	all := make([]bound, len(e.Mechanisms))
	for i, m := range e.Mechanisms {
		var err error
		if all[i], err = m.bound(distance); err != nil {
			return nil, fmt.Errorf("mechanism %s: %w", m.Name(), err)
		}
	}
	return all, nil
}

// rate is the probability that a record is in a batch.
func (e Event) rate() float64 {
	if e.Sampling == FullData {
		return 1
	}
	return e.Rate
}

// Validate checks an event's numbers.
func (e Event) Validate() error {
	switch e.Sampling {
	case FullData:
		if e.Rate != 0 && e.Rate != 1 {
			return fmt.Errorf("rate %v of an event on the full data: only sampling has a rate", e.Rate)
		}
	case Poisson, FixedSize:
		if !(e.Rate > 0 && e.Rate <= 1) {
			return fmt.Errorf("%s sampling rate %v: must be in (0, 1]", e.Sampling, e.Rate)
		}
	default:
		return fmt.Errorf("sampling %q: choose %s, %s, or none for the full data", e.Sampling, Poisson, FixedSize)
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
	var mechanisms [][]byte
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
		b = append(b, `{"batch":{`...)
		if e.Sampling != FullData {
			rate, _ := json.Marshal(e.Rate) // finite, as Validate says
			b = fmt.Appendf(b, `%q:%s,`, string(e.Sampling), rate)
		}
		b = fmt.Appendf(b, `"mechanisms":[%s]}`, bytes.Join(mechanisms, []byte(",")))
	}
	b = fmt.Appendf(b, `,"count":%d`, e.Count)
	if e.Neighbouring != "" {
		b = fmt.Appendf(b, `,"neighbouring":%q`, string(e.Neighbouring))
	}
	return append(b, '}'), nil
}

// UnmarshalJSON reads what MarshalJSON writes, as strictly as ParseEvents.
func (e *Event) UnmarshalJSON(raw []byte) error {
	read, err := parseEvent(raw)
	if err == nil {
		err = read.Validate()
	}
	if err == nil {
		*e = read
	}
	return err
}

// ParseEvents reads an events file: a JSON list. A key that is unknown, given
// twice or null is an error: none may silently change what is charged.
func ParseEvents(r io.Reader) ([]Event, error) {
	file, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("events cannot be read: %w", err)
	}
	text, err := written.Text(file)
	if err != nil {
		return nil, fmt.Errorf("events must be a JSON list: %w", err)
	}
	var list []json.RawMessage
	d := json.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(&list); err != nil {
		var kind *json.UnmarshalTypeError
		if errors.As(err, &kind) {
			return nil, errors.New("events must be a JSON list, and begin with [")
		}
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
	o, err := parseObject(raw)
	if err != nil {
		return Event{}, err
	}
	e := Event{Rate: 1, Count: 1}
	if err := cmp.Or(o.read("count", &e.Count), o.read("neighbouring", &e.Neighbouring)); err != nil {
		return Event{}, err
	}
	if o.has("neighbouring") {
		if err := e.Neighbouring.validate(); err != nil {
			return Event{}, err
		}
	}
	if !o.has("batch") {
		m, err := o.mechanism("count", "neighbouring")
		if err != nil {
			return Event{}, err
		}
		e.Mechanisms = []Mechanism{m}
		return e, nil
	}
	if err := o.only("batch", "count", "neighbouring"); err != nil {
		return Event{}, err
	}
	if err := e.parseBatch(o["batch"]); err != nil {
		return Event{}, fmt.Errorf("batch: %w", err)
	}
	return e, nil
}

func (e *Event) parseBatch(raw []byte) error {
	o, err := parseObject(raw)
	if err != nil {
		return err
	}
	if err := o.only(string(Poisson), string(FixedSize), "mechanisms"); err != nil {
		return err
	}
	for _, s := range []Sampling{Poisson, FixedSize} {
		if !o.has(string(s)) {
			continue
		}
		if e.Sampling != FullData {
			return fmt.Errorf("%q and %q exclude each other", Poisson, FixedSize)
		}
		e.Sampling = s
		if err := o.read(string(s), &e.Rate); err != nil {
			return err
		}
	}
	var mechanisms []json.RawMessage
	if err := o.read("mechanisms", &mechanisms); err != nil {
		return err
	}
	for _, raw := range mechanisms {
		o, err := parseObject(raw)
		if err != nil {
			return err
		}
		m, err := o.mechanism()
		if err != nil {
			return err
		}
		e.Mechanisms = append(e.Mechanisms, m)
	}
	return nil
}

// object is a JSON object, read key by key: encoding/json would match keys in
// any case and let the last of several win.
type object map[string]json.RawMessage

func parseObject(raw []byte) (object, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return nil, fmt.Errorf("%.40s: must be a JSON object", raw)
	}
	o := object{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return nil, err
		}
		key, _ := token.(string)
		if key == "neighboring" { // as Americans spell it
			key = "neighbouring"
		}
		if o.has(key) {
			return nil, fmt.Errorf("key %q is given twice", key)
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
		if string(value) == "null" {
			return nil, fmt.Errorf("key %q is null: give a value or leave it out", key)
		}
		o[key] = value
	}
	return o, nil
}

func (o object) has(key string) bool { _, ok := o[key]; return ok }

// read decodes a key's value; a key that is not there leaves into as it is.
func (o object) read(key string, into any) error {
	raw, ok := o[key]
	if !ok {
		return nil
	}
	if err := json.Unmarshal(raw, into); err != nil {
		var kind *json.UnmarshalTypeError
		if errors.As(err, &kind) {
			return fmt.Errorf("%s %.40s: must be %s", key, raw, plainly(kind.Type))
		}
		return fmt.Errorf("%s: %w", key, err)
	}
	return nil
}

// plainly is a type in words.
func plainly(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Float64:
		return "a number"
	case reflect.Int:
		return "a whole number"
	case reflect.String:
		return "a text"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "a list"
	}
	return "keys with values"
}

// only refuses keys that nobody reads.
func (o object) only(keys ...string) error {
	for _, k := range slices.Sorted(maps.Keys(o)) {
		if !slices.Contains(keys, k) {
			return usage.Unknown("key", k, keys)
		}
	}
	return nil
}
