package kernels_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/privgrad/privgrad/internal/cuda/kernels"
	"github.com/privgrad/privgrad/internal/ir"
)

// sumOf is the sum that DenseSums documents, of numbers of every live example that counts.
func sumOf(start float64, live int, counts func(b int) bool, add func(b int, sum float32) float32) float64 {
	const block = 16
	for first := 0; first < live; first += kernels.SumPart {
		part, end := float32(0), min(first+kernels.SumPart, live)
		for lo := first; lo < end; lo += block {
			sum := float32(0)
			for b := lo; b < min(lo+block, end); b++ {
				if counts(b) {
					sum = add(b, sum)
				}
			}
			part += sum
		}
		start += float64(part)
	}
	return start
}

// Sums have the bits of the documented order: in one launch and in parts, whatever is live of the capacity, and whichever ops go together.
func TestDenseSumsOrder(t *testing.T) {
	rnd := rand.New(rand.NewPCG(2, 5))
	const capacity, live = 700, 531
	for _, apart := range []bool{false, true} {
		m := newMachine(t)
		factors := make([]float32, capacity)
		for b := range factors {
			if factors[b] = rnd.Float32() + 0.1; b%7 == 3 || b >= live {
				factors[b] = 0
			}
		}
		at := put(m, factors)
		var sums []kernels.Sum
		var ops []*ir.Op
		var wants [][]float64
		for _, c := range [][2]int{{37, 40}, {4, 3}, {8, 33}, {1, 1}} {
			in, out := c[0], c[1]
			op := &ir.Op{Kind: ir.Dense, In: []ir.Value{0}, Shape: []int{in}, Out: []int{out}, Weight: 0, Bias: 1}
			x, dy := normals32(rnd, capacity*in, 1), normals32(rnd, capacity*out, 1)
			for b := range capacity {
				if factors[b] == 0 {
					x[b*in], dy[b*out] = nan32, nan32
				}
			}
			n := in*out + out
			want := make([]float64, n)
			for i := range want {
				want[i] = rnd.NormFloat64()
			}
			start := put(m, want)
			counts := func(b int) bool { return factors[b] > 0 }
			for o := range out {
				scaled := func(b int) float32 { return factors[b] * dy[b*out+o] }
				for i := range in {
					want[o*in+i] = sumOf(want[o*in+i], live, counts, func(b int, sum float32) float32 { return fma32(scaled(b), x[b*in+i], sum) })
				}
				want[in*out+o] = sumOf(want[in*out+o], live, counts, func(b int, sum float32) float32 { return sum + scaled(b) })
			}
			sums = append(sums, kernels.Sum{Op: op, X: put(m, x), Dy: put(m, dy), Factors: at, SumW: start, SumB: start + kernels.Ptr(8*in*out)})
			ops, wants = append(ops, op), append(wants, want)
		}
		parts := kernels.Ptr(0)
		if apart {
			parts = put(m, make([]float32, kernels.PartBytes(capacity, ops...)/4))
		}
		for _, l := range kernels.DenseSums(m.batch(live, capacity, 1), parts, sums...) {
			m.run(l)
		}
		for i, want := range wants {
			allSame(t, fmt.Sprintf("op %d, in parts at once: %v", i, apart), get[float64](m, sums[i].SumW, len(want)), want)
		}
	}
	if few := kernels.PartBytes(2*kernels.SumPart, &ir.Op{Kind: ir.Dense, Shape: []int{9}, Out: []int{9}, Bias: ir.None}); few != 0 {
		t.Errorf("few examples need %d bytes for parts", few)
	}
}
