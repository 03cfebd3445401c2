package accountant

import (
	"errors"
	"reflect"
	"testing"
)

// The same question is answered once, any other one anew, and an error is not kept.
func TestMemo(t *testing.T) {
	var m memo[int]
	asked := 0
	ask := func(o Options, events ...Event) int {
		t.Helper()
		v, err := m.of(events, o, func([]Event, Options) (int, error) { asked++; return asked, nil })
		must(t, err)
		return v
	}
	a, b := PoissonBatch(0.1, 3, Gaussian{1}), PoissonBatch(0.1, 3, Laplace{1})
	o := Options{Accountant: PLD, Neighbouring: AddRemove, Delta: 1e-5}
	questions := []func() int{
		func() int { return ask(o, a) },
		func() int { return ask(o, b) },
		func() int { return ask(o, a, b) },
		func() int { return ask(o, SubsetBatch(0.1, 3, Gaussian{1})) },
		func() int { return ask(o, PoissonBatch(0.1, 3, Gaussian{1.0000000000000002})) },
		func() int { return ask(Options{Accountant: RDP, Neighbouring: AddRemove, Delta: 1e-5}, a) },
		func() int { return ask(Options{Accountant: PLD, Neighbouring: ReplaceOne, Delta: 1e-5}, a) },
		func() int { return ask(Options{Accountant: PLD, Neighbouring: AddRemove, Delta: 1e-6}, a) },
		func() int { return ask(Options{Accountant: PLD, Neighbouring: AddRemove, Epsilon: new(1.0)}, a) },
		func() int { return ask(Options{Accountant: PLD, Neighbouring: AddRemove, Epsilon: new(2.0)}, a) },
	}
	for range 2 {
		for i, q := range questions {
			if got := q(); got != i+1 {
				t.Errorf("question %d is answered as number %d was", i+1, got)
			}
		}
	}
	for range 2 {
		if _, err := m.of([]Event{a, a}, o, func([]Event, Options) (int, error) { asked++; return 0, errors.New("no") }); err == nil {
			t.Error("an error was forgotten")
		}
	}
	if asked != len(questions)+2 {
		t.Errorf("asked %d times", asked)
	}
	for i := range 2 * mostKept {
		ask(Options{Delta: float64(i)}, a)
	}
	if len(m.known) > mostKept {
		t.Errorf("%d answers are kept", len(m.known))
	}
}

// A mechanism's text says all of it: an address would stand for values that may change.
func TestMechanismsAreValues(t *testing.T) {
	for name, m := range kinds {
		for i := range reflect.TypeOf(m).NumField() {
			switch f := reflect.TypeOf(m).Field(i); f.Type.Kind() {
			case reflect.Float64, reflect.Int, reflect.Bool, reflect.String:
			default:
				t.Errorf("mechanism %s: field %s is a %s", name, f.Name, f.Type)
			}
		}
	}
}
