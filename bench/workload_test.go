package bench

import (
	"slices"
	"testing"

	"github.com/privgrad/privgrad/dpoptim"
)

// Engines of one stream share its positions, and the questions of a step have batches of
// their own, which were drawn before it.
func TestSupply(t *testing.T) {
	o := options()
	w, err := o.open()
	check(t, err)
	defer w.close()
	one, other := newSupply(w, 5), newSupply(w, 5)
	one.draw()
	first, p1 := one.Batch(dpoptim.Gradients, false, nil)
	second, p2 := one.Batch(dpoptim.Searches, false, nil)
	none, p3 := one.Batch(dpoptim.Searches, true, nil)
	_, p4 := other.Batch(dpoptim.Gradients, false, nil)
	if want := []uint64{1, 2, 3, 4}; !slices.Equal([]uint64{p1, p2, p3, p4}, want) {
		t.Errorf("noise positions %v, want %v", []uint64{p1, p2, p3, p4}, want)
	}
	if len(first) != 5 || len(second) != 5 || slices.Equal(first, second) || len(none) != 0 {
		t.Errorf("batches %v and %v, and %v where none is drawn", first, second, none)
	}
	one.draw()
	if again, _ := one.Batch(dpoptim.Gradients, false, nil); slices.Equal(first, again) || one.Update() != 3 {
		t.Errorf("the second step is number %d, on rows %v after %v", one.Update(), again, first)
	}
}
