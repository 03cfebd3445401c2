package batches

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/privgrad/privgrad/internal/stream"
)

// All orders of five places are as likely: χ² of 119 degrees of freedom exceeds the limit with a
// probability below e⁻²¹ (Laurent and Massart 2000, lemma 1).
func TestShuffle(t *testing.T) {
	const draws, orders = 24000, 120
	s := open(t, Shuffle, 5, 1, stream.KeyFromSeed(1, "shuffle"), stream.ChaCha20)
	seen := map[string]int{}
	var places []int32
	for step := range uint64(draws) {
		places = s.Batch(step, places)
		seen[fmt.Sprint(places)]++
	}
	sum := 0.0
	for _, n := range seen {
		sum += math.Pow(float64(n)-draws/orders, 2) / (draws / orders)
	}
	if limit := orders - 1 + 2*math.Sqrt((orders-1)*21) + 2*21; len(seen) != orders || sum > limit {
		t.Errorf("%d orders, χ² %.1f, limit %.1f", len(seen), sum, limit)
	}
	if again := s.Batch(draws-1, nil); !slices.Equal(again, places) {
		t.Errorf("a step has the orders %v and %v", places, again)
	}
	slices.Sort(places)
	if !slices.Equal(places, []int32{0, 1, 2, 3, 4}) {
		t.Errorf("the places are %v", places)
	}
	for _, n := range []int{0, -1, math.MaxInt32 + 1} {
		if _, err := (Batching{Kind: Shuffle, Units: n}).Sampler(n, stream.KeyFromSeed(1, "shuffle"), stream.ChaCha20); err == nil {
			t.Errorf("%d places were shuffled", n)
		}
	}
}
