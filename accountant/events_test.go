package accountant

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

const sample = `[{"batch":{"poisson":0.01,"mechanisms":[{"mechanism":"gaussian","noise_multiplier":1.0}]},"count":1000},
{"batch":{"poisson":0.005,"mechanisms":[{"mechanism":"noisy-btls-gaussian","threshold_scale":1.2,"query_scale":1.7,"max_trials":20,
"queries":"shared-baseline"}]},"count":100},
{"mechanism":"noisy-btls-laplace","threshold_scale":20,"query_scale":20,"queries":"shared-baseline","count":10},
{"mechanism":"gaussian","noise_multiplier":5,"count":3}]`

func parse(t testing.TB, s string) []Event {
	t.Helper()
	events, err := ParseEvents(strings.NewReader(s))
	if err != nil {
		t.Fatalf("%s: %v", s, err)
	}
	return events
}

func TestParseEventsSample(t *testing.T) {
	got := parse(t, sample)
	want := []Event{
		PoissonBatch(0.01, 1000, Gaussian{1}),
		PoissonBatch(0.005, 100, NoisyBTLS{BTLSGaussian, 1.2, 1.7, 20, "shared-baseline"}),
		{Rate: 1, Mechanisms: []Mechanism{NoisyBTLS{BTLSLaplace, 20, 20, 0, "shared-baseline"}}, Count: 10},
		{Rate: 1, Mechanisms: []Mechanism{Gaussian{5}}, Count: 3},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("events differ (-want +got):\n%s", d)
	}
	for _, name := range []string{PLD, RDP} {
		all := account(t, name, AddRemove, 1e-5, got...).Epsilon
		for i := range got {
			if part := account(t, name, AddRemove, 1e-5, got[i]).Epsilon; !(part > 0 && part < all) {
				t.Errorf("%s: event %d costs %v, all together %v", name, i+1, part, all)
			}
		}
	}
	near(t, "the others", account(t, RDP, AddRemove, 1e-5, got[0], got[3]).Epsilon,
		account(t, RDP, AddRemove, 1e-5, PoissonBatch(0.01, 1000, Gaussian{1}), PoissonBatch(1, 3, Gaussian{5})).Epsilon, 1e-15)
}

func TestParseEventsDefaults(t *testing.T) {
	got := parse(t, ` [ {"mechanism":"gaussian","noise_multiplier":0},
		{"batch":{"mechanisms":[{"mechanism":"gaussian","noise_multiplier":2},{"mechanism":"gaussian","noise_multiplier":3}]},"neighbouring":"replace-one"},
		{"batch":{"fixed_size":0.5,"mechanisms":[{"mechanism":"noisy-btls-laplace","threshold_scale":1,"query_scale":2}]}} ] `)
	want := []Event{
		{Rate: 1, Mechanisms: []Mechanism{Gaussian{0}}, Count: 1},
		{Rate: 1, Mechanisms: []Mechanism{Gaussian{2}, Gaussian{3}}, Count: 1, Neighbouring: ReplaceOne},
		{Sampling: FixedSize, Rate: 0.5, Mechanisms: []Mechanism{NoisyBTLS{BTLSLaplace, 1, 2, 0, "generic"}}, Count: 1},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("events differ (-want +got):\n%s", d)
	}
}

// A byte order mark is no part of the list.
func TestParseEventsMark(t *testing.T) {
	if d := cmp.Diff(parse(t, sample), parse(t, "\xef\xbb\xbf"+sample)); d != "" {
		t.Errorf("events differ:\n%s", d)
	}
}

func TestParseEventsErrors(t *testing.T) {
	for _, c := range []struct{ in, words string }{
		{``, "must be a JSON list"},
		{`{}`, "must be a JSON list, and begin with ["},
		{`[{"mechanism":`, "must be a JSON list"},
		{`[]`, "the list of events is empty"},
		{"\xff\xfe[\x00]\x00", "UTF-16: save it in UTF-8"},
		{`[{"mechanism":"gaussian","noise_multiplier":010}]`, "must be a JSON list"},
		{`[{"mechanism":"gaussian","noise_multiplier":0x10}]`, "must be a JSON list"},
		{`null`, "the list of events is empty"},
		{sample + `x`, "nothing after it"},
		{sample + `[]`, "nothing after it"},
		{sample + `]`, "nothing after it"},
		{`[5]`, "event 1: 5: must be a JSON object"},
		{`[null]`, "event 1: null: must be a JSON object"},
		{`[{}]`, `event 1: "mechanism" or "batch" is missing`},
		{`[{"noise_multiplier":1}]`, `"mechanism" or "batch" is missing`},
		{`[{"mechanism":"gaussian"}]`, `"noise_multiplier" is missing`},
		{`[{"mechanism":"gauss","noise_multiplier":1}]`, `unknown mechanism "gauss" (did you mean gaussian?): choose one of bounded-range, gaussian,`},
		{`[{"mechanism":7,"noise_multiplier":1}]`, "mechanism 7: must be a text"},
		{`[{"mechanism":"gaussian","noise_multiplier":1,"sigma":2}]`, `unknown key "sigma": choose one of`},
		{`[{"mechanism":"gaussian","Noise_Multiplier":1}]`, `unknown key "Noise_Multiplier"`},
		{`[{"mechanism":"gaussian","noise_multiplier":1,"noise_multiplier":9}]`, `key "noise_multiplier" is given twice`},
		{`[{"mechanism":"gaussian","noise_multiplier":null}]`, `key "noise_multiplier" is null`},
		{`[{"mechanism":"gaussian","noise_multiplier":"1"}]`, `noise_multiplier "1": must be a number`},
		{`[{"mechanism":"gaussian","noise_multiplier":1e999}]`, "noise_multiplier 1e999"},
		{`[{"mechanism":"gaussian","noise_multiplier":-1}]`, "noise_multiplier -1: must be"},
		{`[{"mechanism":"gaussian","noise_multiplier":1,"max_trials":2}]`, `unknown key "max_trials"`},
		{`[{"mechanism":"gaussian","noise_multiplier":1,"count":0}]`, "count 0: must be 1 or more"},
		{`[{"mechanism":"gaussian","noise_multiplier":1,"count":-3}]`, "count -3: must be 1 or more"},
		{`[{"mechanism":"gaussian","noise_multiplier":1,"count":1.5}]`, "count 1.5: must be a whole number"},
		{`[{"mechanism":"gaussian","noise_multiplier":1,"count":99999999999999999999}]`, "count 99999999999999999999: must be a whole number"},
		{`[{"mechanism":"gaussian","noise_multiplier":1,"count":null}]`, `key "count" is null`},
		{`[{"mechanism":"gaussian","noise_multiplier":1,"neighbouring":"swap"}]`, `neighbouring relation "swap": choose`},
		{`[{"mechanism":"gaussian","noise_multiplier":1,"neighbouring":""}]`, `neighbouring relation "": choose`},
		{`[{"mechanism":"gaussian","noise_multiplier":1,"neighbouring":3}]`, "neighbouring 3: must be a text"},
		{`[{"mechanism":"gaussian","noise_multiplier":1,"batch":{"poisson":0.1,"mechanisms":[]}}]`, `unknown key "mechanism": choose one of batch, count, neighbouring`},
		{`[{"batch":null}]`, `key "batch" is null`},
		{`[{"batch":3}]`, "batch: 3: must be a JSON object"},
		{`[{"batch":{"poisson":0.1}}]`, "at least one mechanism"},
		{`[{"batch":{"poisson":0.1,"mechanisms":[]}}]`, "at least one mechanism"},
		{`[{"batch":{"poisson":0.1,"mechanisms":{}}}]`, "batch: mechanisms {}: must be a list"},
		{`[{"batch":{"poisson":0.1,"mechanisms":[4]}}]`, "batch: 4: must be a JSON object"},
		{`[{"batch":{"poisson":0.1,"mechanisms":[null]}}]`, "batch: null: must be a JSON object"},
		{`[{"batch":{"poisson":0.1,"mechanisms":[{"mechanism":"gaussian","noise_multiplier":1,"count":4}]}}]`, `batch: unknown key "count"`},
		{`[{"batch":{"poisson":0.1,"fixed_size":0.1,"mechanisms":[{"mechanism":"gaussian","noise_multiplier":1}]}}]`, `batch: "poisson" and "fixed_size" exclude each other`},
		{`[{"batch":{"poisson":null,"mechanisms":[{"mechanism":"gaussian","noise_multiplier":1}]}}]`, `batch: key "poisson" is null`},
		{`[{"batch":{"poisson":0.1,"poisson":0.01,"mechanisms":[{"mechanism":"gaussian","noise_multiplier":1}]}}]`, `batch: key "poisson" is given twice`},
		{`[{"batch":{"Poisson":0.1,"mechanisms":[{"mechanism":"gaussian","noise_multiplier":1}]}}]`, `batch: unknown key "Poisson"`},
		{`[{"batch":{"poisson":0,"mechanisms":[{"mechanism":"gaussian","noise_multiplier":1}]}}]`, "poisson sampling rate 0: must be in (0, 1]"},
		{`[{"batch":{"poisson":"0.1","mechanisms":[{"mechanism":"gaussian","noise_multiplier":1}]}}]`, `batch: poisson "0.1": must be a number`},
		{`[{"batch":{"fixed_size":1.1,"mechanisms":[{"mechanism":"gaussian","noise_multiplier":1}]}}]`, "fixed_size sampling rate 1.1"},
		{`[{"mechanism":"noisy-btls-laplace","query_scale":1}]`, `"threshold_scale" is missing`},
		{`[{"mechanism":"noisy-btls-laplace","threshold_scale":1}]`, `"query_scale" is missing`},
		{`[{"mechanism":"noisy-btls-laplace","threshold_scale":0,"query_scale":1}]`, "threshold_scale 0: must be a finite number above 0"},
		{`[{"mechanism":"laplace","scale":-2}]`, "scale -2: must be a finite number above 0"},
		{`[{"mechanism":"laplace","noise_multiplier":2}]`, `unknown key "noise_multiplier"`},
		{`[{"mechanism":"pure"}]`, `"epsilon" is missing`},
		{`[{"mechanism":"noisy-btls-laplace","threshold_scale":1,"query_scale":1,"max_trials":-1}]`, "max_trials -1: must be"},
		{`[{"mechanism":"noisy-btls-laplace","threshold_scale":1,"query_scale":1,"queries":"some"}]`, `queries "some": choose`},
		{`[{"mechanism":"noisy-btls-laplace","threshold_scale":1,"query_scale":1,"noise_multiplier":1}]`, `unknown key "noise_multiplier"`},
		{`[{"mechanism":"gaussian","noise_multiplier":1},{"mechanism":"gaussian"}]`, "event 2: "},
	} {
		_, err := ParseEvents(strings.NewReader(c.in))
		if err == nil {
			t.Errorf("%s: no error, want %q", c.in, c.words)
			continue
		}
		if !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: error %q does not say %q", c.in, err, c.words)
		}
	}
}

func TestNeighbouringConflict(t *testing.T) {
	events := parse(t, `[{"mechanism":"gaussian","noise_multiplier":4},{"mechanism":"gaussian","noise_multiplier":4,"neighbouring":"replace-one"}]`)
	_, err := Account(events, Options{Accountant: RDP, Neighbouring: AddRemove, Delta: 1e-5})
	refused(t, err, "event 2: stated for replace-one, but the account is for add-remove")
	if _, err := Account(events, Options{Accountant: RDP, Neighbouring: ReplaceOne, Delta: 1e-5}); err != nil {
		t.Error(err)
	}
}

func drawEvent(t *rapid.T) Event {
	scale := rapid.Float64Range(1e-300, 1e300)
	mechanism := rapid.Custom(func(t *rapid.T) Mechanism {
		switch rapid.IntRange(0, 3).Draw(t, "mechanism") {
		case 0:
			return Gaussian{rapid.Float64Range(0, math.MaxFloat64).Draw(t, "multiplier")}
		case 1:
			return Laplace{scale.Draw(t, "scale")}
		case 2:
			return Pure{scale.Draw(t, "epsilon")}
		}
		return NoisyBTLS{
			Noise:          rapid.SampledFrom([]BTLSNoise{BTLSGaussian, BTLSLaplace}).Draw(t, "noise"),
			ThresholdScale: scale.Draw(t, "threshold"), QueryScale: scale.Draw(t, "query"),
			MaxTrials: rapid.IntRange(0, mostTrials).Draw(t, "trials"),
			Queries:   rapid.SampledFrom([]string{"generic", "shared-baseline"}).Draw(t, "queries"),
		}
	})
	e := Event{
		Sampling:     rapid.SampledFrom([]Sampling{FullData, Poisson, FixedSize}).Draw(t, "sampling"),
		Rate:         1,
		Mechanisms:   rapid.SliceOfN(mechanism, 1, 4).Draw(t, "mechanisms"),
		Count:        rapid.IntRange(1, math.MaxInt).Draw(t, "count"),
		Neighbouring: rapid.SampledFrom([]Neighbouring{"", AddRemove, ReplaceOne}).Draw(t, "neighbouring"),
	}
	if e.Sampling != FullData {
		e.Rate = rapid.Float64Range(math.SmallestNonzeroFloat64, 1).Draw(t, "rate")
	}
	return e
}

func TestEventsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOfN(rapid.Custom(drawEvent), 1, 5).Draw(t, "events")
		b, err := json.Marshal(want)
		must(t, err)
		got, err := ParseEvents(bytes.NewReader(b))
		if err != nil {
			t.Fatalf("%s: %v", b, err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: events differ (-want +got):\n%s", b, d)
		}
	})
}

func TestMarshalRefusesWhatParseWould(t *testing.T) {
	for _, e := range []Event{
		PoissonBatch(0.1, 0, Gaussian{1}),
		PoissonBatch(0.1, 1, Gaussian{math.Inf(1)}),
		PoissonBatch(0.1, 1, NoisyBTLS{Noise: "uniform", ThresholdScale: 1, QueryScale: 1, Queries: "generic"}),
		{Sampling: "shuffle", Rate: 0.1, Mechanisms: []Mechanism{Gaussian{1}}, Count: 1},
	} {
		if b, err := json.Marshal(e); err == nil {
			t.Errorf("%+v was written as %s", e, b)
		}
	}
}

func FuzzParseEvents(f *testing.F) {
	for _, s := range []string{
		sample,
		`[{"mechanism":"gaussian","noise_multiplier":1,"neighbouring":"replace-one"}]`,
		`[{"batch":{"fixed_size":1,"mechanisms":[{"mechanism":"gaussian","noise_multiplier":1e-9}]},"count":2}]`,
		`[{"mechanism":"gaussian","noise_multiplier":1,"noise_multiplier":2}]`,
		`[{"batch":null}]`, `[[]]`, `{}`, `[]]`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		events, err := ParseEvents(bytes.NewReader(b))
		if err != nil {
			return
		}
		for _, e := range events {
			if err := e.Validate(); err != nil {
				t.Fatalf("%q was read as an invalid event: %v", b, err)
			}
		}
		c, err := NewCurve(events, AddRemove, []float64{1.5, 4})
		if err == nil {
			for _, r := range c.RDP {
				if !(r >= 0) {
					t.Fatalf("%q costs %v", b, r)
				}
			}
		}
		again, err := json.Marshal(events)
		must(t, err)
		second, err := ParseEvents(bytes.NewReader(again))
		if err != nil || !reflect.DeepEqual(events, second) {
			t.Fatalf("%q became %q on the way back: %v", b, again, err)
		}
	})
}
