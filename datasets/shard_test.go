package datasets

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// The parts of a set hold each record once, in their order, and share its memory.
func TestTake(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{0, 1, 5, 17} {
		m := Split{Shape: [3]int{1, 2, 1}}
		if n%2 == 0 {
			m.Values, m.Targets = make([]float32, 2*n), make([]float32, n)
		} else {
			m.Features, m.Labels = make([]uint8, 2*n), make([]uint8, n)
		}
		for i := range n {
			if n%2 == 0 {
				m.Targets[i], m.Values[2*i] = r.Float32(), r.Float32()
			} else {
				m.Labels[i], m.Features[2*i] = uint8(r.Uint32()), uint8(r.Uint32())
			}
		}
		for ranks := range 9 {
			var joined Split
			for rank := range max(ranks, 1) {
				part, err := (&Set{Train: m}).Take(Rank{rank, ranks})
				check(t, err)
				p := part.Train
				if first, end := (Rank{rank, ranks}).Range(n); p.Len() != end-first || len(p.Features)+len(p.Values) != 2*p.Len() {
					t.Fatalf("rank %d of %d has %d records and %d values", rank, ranks, p.Len(), len(p.Features)+len(p.Values))
				}
				joined.Features, joined.Values = append(joined.Features, p.Features...), append(joined.Values, p.Values...)
				joined.Labels, joined.Targets = append(joined.Labels, p.Labels...), append(joined.Targets, p.Targets...)
			}
			if !slices.Equal(joined.Features, m.Features) || !slices.Equal(joined.Values, m.Values) ||
				!slices.Equal(joined.Labels, m.Labels) || !slices.Equal(joined.Targets, m.Targets) {
				t.Errorf("%d ranks do not have the %d records once each", ranks, n)
			}
		}
	}
	for _, p := range []Rank{{-1, 2}, {2, 2}, {0, -1}} {
		if _, err := (&Set{}).Take(p); err == nil {
			t.Errorf("a set has %+v", p)
		}
	}
}
