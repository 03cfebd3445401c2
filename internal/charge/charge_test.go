package charge

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/accountant/ledger"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/internal/usage"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// process has the terms of one that opens the ledger of a directory; found is what releases find charged.
func process(t *testing.T, dir string, slots int, found *[]int) Terms {
	t.Helper()
	l, err := ledger.Open(filepath.Join(dir, "ledger.db"), ledger.Header{RunID: strings.Repeat("ab", 16), Fingerprint: "ab", Committed: slots})
	check(t, err)
	t.Cleanup(func() { l.Close() })
	return Terms{
		Ledger: l, Steps: 10, Most: 10, Stop: func() error { return nil }, SaveEvery: func() int { return 3 },
		Release: func(int) error {
			*found = append(*found, l.Charged())
			return nil
		},
	}
}

// steps makes some of one release each.
func steps(t *testing.T, c Charge, n int) {
	t.Helper()
	for range n {
		check(t, c.Begin())
		check(t, c.Admit(accountant.Gaussian{NoiseMultiplier: 4}))
		_, err := c.End(1, nil)
		check(t, err)
	}
}

// A block is charged before its first release, and what a crash loses stays charged.
func TestSlots(t *testing.T) {
	dir, saved := t.TempDir(), func() error { return nil }
	var found []int
	c := &Slots{Terms: process(t, dir, 10, &found), Block: 4, First: 1, Until: 10}
	for _, n := range []int{4, 1} {
		steps(t, c, n)
		check(t, c.Save(saved))
	}
	if l := c.Terms.Ledger; !slices.Equal(found, []int{4, 4, 4, 4, 8}) || l.Charged() != 5 || l.State().Settled != 5 {
		t.Errorf("releases found %v charged, and the checkpoint leaves %+v", found, l.State())
	}
	steps(t, c, 1)
	check(t, c.Terms.Ledger.Close())

	again := &Slots{Terms: process(t, dir, 10, &found), Block: 8, First: 1, Until: 10}
	if warning, err := again.Resume(5, 5, dpoptim.Spent{}); err != nil || !strings.Contains(warning, "4 charged steps") || again.Slot() != 9 || again.Update() != 6 {
		t.Errorf("slot %d, update %d: %q, %v", again.Slot(), again.Update(), warning, err)
	}
	if _, err := again.Resume(10, 10, dpoptim.Spent{}); !errors.As(err, new(*usage.Error)) {
		t.Errorf("a checkpoint ahead of the ledger: %v", err)
	}
	again.Terms.Seeded, found = true, nil
	if warning, err := again.Resume(5, 5, dpoptim.Spent{}); err != nil || warning != "" {
		t.Errorf("a seeded run: %q, %v", warning, err)
	}
	if steps(t, again, 5); !slices.Equal(found, []int{9, 9, 9, 9, 10}) || again.More() {
		t.Errorf("replayed, releases found %v charged", found)
	}
}

// What makes one release charges it when it is ready.
func TestLateSlots(t *testing.T) {
	var found []int
	c := &Slots{Terms: process(t, t.TempDir(), 1, &found), Block: 1, First: 1, Until: 1, Late: true}
	c.Terms.Steps = 1
	stop := errors.New("stop")
	c.Terms.Stop = func() error { return stop }
	if check(t, c.Begin()); !errors.Is(c.Admit(), stop) || c.Terms.Ledger.Charged() != 0 {
		t.Error("stopped before its release, a run is charged")
	}
	c.Terms.Stop = func() error { return nil }
	if steps(t, c, 1); !slices.Equal(found, []int{1}) || c.More() {
		t.Errorf("its release finds %v charged", found)
	}
}

// A share is charged before it is released. A checkpoint gives back what was reserved ahead, and a crash does not.
func TestShares(t *testing.T) {
	dir := t.TempDir()
	var found []int
	shares := func() *Shares {
		b, err := accountant.NewBudget(accountant.BudgetTerms{Epsilon: 3, Delta: 1e-5, Neighbouring: accountant.AddRemove, Accountant: accountant.RDP, Order: 8})
		check(t, err)
		return &Shares{Terms: process(t, dir, Units, &found), Budget: b, Event: func(asked ...accountant.Mechanism) accountant.Event {
			return accountant.Event{Mechanisms: asked, Count: 1}
		}}
	}
	c := shares()
	steps(t, c, 1)
	spent, used := c.Spent(), c.used()
	if check(t, c.Save(func() error { return nil })); found[0] != used+Ahead || c.Terms.Ledger.Charged() != used {
		t.Errorf("the release found %d units charged, and the checkpoint leaves %d; %d were spent", found[0], c.Terms.Ledger.Charged(), used)
	}
	steps(t, c, 1)
	lost := c.Terms.Ledger.Charged()
	check(t, c.Terms.Ledger.Close())

	again := shares()
	if warning, err := again.Resume(1, 1, spent); err != nil || warning == "" || again.used() < lost || again.used() > lost+1 {
		t.Errorf("%d units are spent of %d charged: %q, %v", again.used(), lost, warning, err)
	}
	stop := errors.New("stop")
	if again.Terms.Stop = func() error { return stop }; !errors.Is(again.Admit(), ErrStopped) {
		t.Error("a run that is to stop makes another release")
	}
}

// A part of a schedule ends where it does, also for a method that ends early: the rest is left to others.
func TestSlotsUntil(t *testing.T) {
	var found []int
	c := &Slots{Terms: process(t, t.TempDir(), 7, &found), Block: 4, First: 1, Until: 7}
	steps(t, c, 4)
	check(t, c.Save(func() error { return nil }))
	check(t, c.Begin())
	if done, of := c.Progress(); c.Terms.Ledger.Charged() != 7 || done != 4 || of != 7 || !c.More() {
		t.Errorf("%d slots are charged, at %d of %d", c.Terms.Ledger.Charged(), done, of)
	}
	if _, err := c.End(0, ended{}); err != nil || c.More() || c.Slot() != 7 || c.Left() != 0.5 {
		t.Errorf("an early end leaves slot %d, and %v of the schedule: %v", c.Slot(), c.Left(), err)
	}
}

type ended struct{}

func (ended) Finished() bool { return true }
