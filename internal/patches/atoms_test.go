package patches

import (
	"math"
	"slices"
	"testing"
)

// Atoms have no mean, and products with patches of dead leaves the deviation 1.
func TestDictionary(t *testing.T) {
	shape := [3]int{1, 12, 12}
	const side, count = 6, 512
	atoms := Dictionary(shape, side, count)
	size := len(atoms) / count
	for k := range count {
		sum, square := 0., 0.
		for _, v := range atoms[k*size : (k+1)*size] {
			sum += float64(v)
			square += float64(v) * float64(v)
		}
		if math.Abs(sum) > 1e-6*math.Sqrt(square)*float64(size) || square == 0 {
			t.Errorf("atom %d has sum %g and norm %g", k, sum, math.Sqrt(square))
		}
		for l := range k {
			if slices.Equal(atoms[k*size:(k+1)*size], atoms[l*size:(l+1)*size]) {
				t.Errorf("atoms %d and %d are the same", k, l)
			}
		}
	}
	if d := spreadOf(shape, side, atoms, spreadImages); math.Abs(d-1) > 1e-5 {
		t.Errorf("products have deviation %g", d)
	}
	if !slices.Equal(atoms, Dictionary(shape, side, count)) {
		t.Error("it differs from time to time")
	}
}
