package vec

import (
	"math/bits"
	"slices"
	"testing"
)

// Of small whole numbers every sum is exact, so a transform has one result.
func TestHadamard(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		r := newRand(73)
		for power := range 4 {
			rows := 1 << (3 * power)
			for _, columns := range []int{0, 1, 7, 8, 9, 24, 37} {
				x := make([]float32, rows*columns)
				for i := range x {
					x[i] = float32(r.IntN(201) - 100)
				}
				want := make([]float32, len(x))
				for i := range rows {
					for j := range rows {
						sign := float32(1 - 2*(bits.OnesCount(uint(i&j))%2))
						for c := range columns {
							want[i*columns+c] += sign * x[j*columns+c]
						}
					}
				}
				Hadamard(x, power)
				if !slices.Equal(x, want) {
					t.Fatalf("%d rows of %d columns: the transform is wrong", rows, columns)
				}
			}
		}
	})
}
