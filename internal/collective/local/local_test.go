package local

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/privgrad/privgrad/internal/collective"
	"github.com/privgrad/privgrad/internal/collective/collectivetest"
)

// each runs f on every rank and gives their errors.
func each(all []collective.Group, f func(collective.Group) error) []error {
	errs := make([]error, len(all))
	var w sync.WaitGroup
	for i, g := range all {
		w.Go(func() { errs[i] = f(g) })
	}
	w.Wait()
	return errs
}

func TestConformance(t *testing.T) {
	for _, n := range []int{1, 2, 5} {
		for i, err := range each(New(n, Options{}), collectivetest.Run) {
			if err != nil {
				t.Errorf("rank %d of %d: %v", i, n, err)
			}
		}
	}
}

// A rank that dies ends all, a rank that stalls ends them after the time limit, and the first error sticks.
func TestFaults(t *testing.T) {
	died := errors.New("no power")
	for name, fault := range map[string]func(rank, call int) error{
		"dies": func(rank, call int) error {
			if rank == 1 && call == 3 {
				return died
			}
			return nil
		},
		"stalls": func(rank, call int) error {
			if rank == 1 && call == 3 {
				time.Sleep(200 * time.Millisecond)
			}
			return nil
		},
	} {
		all := New(3, Options{Limit: 20 * time.Millisecond, Fault: fault})
		done := make([]int, 3)
		for i, err := range each(all, func(g collective.Group) error {
			for k := range 10 {
				if err := g.SumInt64([]int64{int64(k)}); err != nil {
					return err
				}
				done[g.Rank()]++
			}
			return nil
		}) {
			if err == nil || done[i] > 3 || name == "dies" && !errors.Is(err, died) {
				t.Errorf("%s: rank %d ends after %d calls with %v", name, i, done[i], err)
			}
			if again := all[i].Barrier(); again == nil {
				t.Errorf("%s: rank %d goes on", name, i)
			}
		}
	}
}

// Ranks that do different things are told, and a closed group is no group.
func TestMisuse(t *testing.T) {
	all := New(2, Options{})
	for i, err := range each(all, func(g collective.Group) error {
		if g.Rank() == 0 {
			return g.Barrier()
		}
		return g.SumInt64(nil)
	}) {
		if err == nil {
			t.Errorf("rank %d has not noticed", i)
		}
	}
	g := New(1, Options{})[0]
	if err := errors.Join(g.Close(), g.Close()); err != nil || g.Barrier() == nil {
		t.Errorf("a closed group goes on, or %v", err)
	}
	if g := New(1, Options{})[0]; g.Broadcast(1, nil) == nil {
		t.Error("a broadcast from nowhere")
	}
}
