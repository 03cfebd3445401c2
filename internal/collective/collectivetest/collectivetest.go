// Package collectivetest is one conformance suite over collective.Group. Each rank calls Run with its own group, in
// a process or a goroutine of its own.
package collectivetest

import (
	"bytes"
	"fmt"
	"math"

	"github.com/privgrad/privgrad/internal/collective"
)

// Run makes every call, and says what is wrong with the answers.
func Run(g collective.Group) error {
	n, me := g.Size(), g.Rank()
	if n < 1 || me < 0 || me >= n {
		return fmt.Errorf("rank %d of %d", me, n)
	}
	for _, size := range []int{0, 1, 7, 1000, 1 << 20} {
		ints, floats := make([]int64, size), make([]float64, size)
		for i := range size {
			ints[i], floats[i] = int64(i)<<32-int64(me), math.Pi*float64(i+me)/7
		}
		if err := g.SumInt64(ints); err != nil {
			return fmt.Errorf("integers: %w", err)
		}
		for i, k := range ints {
			if want := int64(n)*(int64(i)<<32) - int64(n*(n-1)/2); k != want {
				return fmt.Errorf("of %d integers, %d is %d, want %d", size, i, k, want)
			}
		}
		if err := g.SumFloat64(floats); err != nil {
			return fmt.Errorf("floats: %w", err)
		}
		bits := make([]byte, 0, 8*size)
		for i, x := range floats {
			want := 0.0
			for r := range n {
				want += math.Pi * float64(i+r) / 7
			}
			if math.Abs(x-want) > 1e-12*math.Abs(want) {
				return fmt.Errorf("of %d floats, %d is %v, want %v", size, i, x, want)
			}
			for k := range 8 {
				bits = append(bits, byte(math.Float64bits(x)>>(8*k)))
			}
		}
		first := bytes.Clone(bits)
		if err := g.Broadcast(0, first); err != nil {
			return fmt.Errorf("broadcast: %w", err)
		}
		if !bytes.Equal(first, bits) {
			return fmt.Errorf("the sums of %d floats have other bits than on rank 0", size)
		}
	}
	for root := range n {
		data := bytes.Repeat([]byte{byte(me + 1)}, 1000+root)
		if err := g.Broadcast(root, data); err != nil {
			return fmt.Errorf("broadcast from %d: %w", root, err)
		}
		if !bytes.Equal(data, bytes.Repeat([]byte{byte(root + 1)}, 1000+root)) {
			return fmt.Errorf("a broadcast from %d gives %v …", root, data[:4])
		}
	}
	return g.Barrier()
}
