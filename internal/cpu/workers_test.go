package cpu

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/privgrad/privgrad/internal/fault"
)

// A fault on any worker is an error of whoever called, says nothing of the batch, and
// leaves the workers whole. Were it not caught, this test's process would end.
func TestFaultOfAWorker(t *testing.T) {
	ws := startWorkers(4, func(*worker) {})
	defer ws.stop()
	do := func(tiles int, f func(int, *worker)) (err error) {
		defer fault.Recover(&err)
		ws.do(tiles, f)
		return nil
	}
	rows := make([]int, 3)
	for round := range 100 {
		var once sync.Once
		faulted := make(chan struct{})
		callers := round%2 == 0
		err := do(40, func(tile int, w *worker) {
			if (w == &ws.own) != callers {
				<-faulted // so that the other kind of worker gets a tile
				return
			}
			once.Do(func() { close(faulted) })
			rows[tile+len(rows)]++
		})
		var e *fault.Error
		if !errors.As(err, &e) || !strings.HasPrefix(e.Place, "cpu/workers_test.go:") || strings.Contains(err.Error(), "range") {
			t.Fatalf("round %d: %v", round, err)
		}
		var done atomic.Int64
		if err := do(100, func(int, *worker) { done.Add(1) }); err != nil || done.Load() != 100 {
			t.Fatalf("round %d: %d of 100 tiles were done after a fault, %v", round, done.Load(), err)
		}
	}
}

// Patience grows where work came while a worker looked, shrinks where none came, and has bounds.
func TestPatience(t *testing.T) {
	after := func(looks int) func() bool {
		return func() bool { looks--; return looks < 0 }
	}
	p := patience(leastLooks)
	for _, c := range []struct {
		came int // after so many looks
		over bool
		want patience
	}{
		{0, true, 2 * leastLooks},
		{2*leastLooks - 1, true, 4 * leastLooks},
		{4 * leastLooks, false, 2 * leastLooks},
		{mostLooks, false, leastLooks},
		{mostLooks, false, leastLooks},
	} {
		if over := p.look(after(c.came)); over != c.over || p != c.want {
			t.Errorf("after %d looks: %v with patience for %d, want %v with %d", c.came, over, p, c.over, c.want)
		}
	}
	for range 20 {
		p.look(after(1))
	}
	if p != mostLooks {
		t.Errorf("patience grows to %d, want %d", p, mostLooks)
	}
}
