package accountant

import (
	"fmt"
	"sync"
)

// A memo keeps what short lists of events were found to cost: the evaluations of a run, and the
// runs of a figure, ask for the same again and again.
type memo[T any] struct {
	mu    sync.Mutex
	known map[string]T
}

const (
	mostKept = 1 << 10 // answers, before all are dropped
	mostLong = 16      // events of a list; longer ones take long to tell apart
)

var (
	solved memo[Result]
	risked memo[*Risk]
)

// of gives what find finds, which must follow from the events and the options.
func (m *memo[T]) of(events []Event, o Options, find func([]Event, Options) (T, error)) (T, error) {
	if len(events) > mostLong {
		return find(events, o)
	}
	epsilon := "none"
	if o.Epsilon != nil {
		epsilon = fmt.Sprint(*o.Epsilon)
	}
	key := fmt.Sprintf("%#v %s %s %v %s %v %d", events, o.Accountant, o.Neighbouring, o.Delta, epsilon, o.Order, o.records())
	m.mu.Lock()
	answer, ok := m.known[key]
	m.mu.Unlock()
	if ok {
		return answer, nil
	}
	answer, err := find(events, o)
	if err != nil {
		return answer, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known == nil || len(m.known) >= mostKept {
		m.known = map[string]T{}
	}
	m.known[key] = answer
	return answer, nil
}
