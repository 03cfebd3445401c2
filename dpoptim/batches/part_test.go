package batches

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/privgrad/privgrad/internal/stream"
)

// Whatever the parts, their batches together are the batch of one machine: Poisson samples and
// subsets record by record, a shuffle in each part's own order.
func TestPartsTogether(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		counts := rapid.SliceOfN(rapid.Int64Range(0, 60), 1, 8).Draw(t, "counts") // empty ones among them
		total := 0
		for _, n := range counts {
			total += int(n)
		}
		key := stream.KeyFromSeed(rapid.Uint64().Draw(t, "seed"), "parts")
		places := max(total+rapid.IntRange(-20, 20).Draw(t, "beyond"), 1) // the public N may be wrong
		size := rapid.IntRange(1, places).Draw(t, "size")
		for _, k := range kinds {
			name, sampler := k.Name, func() (Sampler, error) {
				b, err := k.Of(places, float64(size)/float64(places))
				if err != nil {
					return nil, err
				}
				return b.Sampler(total, key, stream.ChaCha20)
			}
			whole, err := sampler()
			check(t, err)
			for step := range uint64(3) {
				checkParts(t, name, whole, sampler, step, counts)
			}
		}
	})
}

func checkParts(t *rapid.T, name string, whole Sampler, open func() (Sampler, error), step uint64, counts []int64) {
	batch := whole.Batch(step, nil)
	first := int32(0)
	for i, n := range counts {
		own, err := open() // each process has one of its own
		check(t, err)
		got := Part(own, int(first), int(n)).Batch(step, make([]int32, 3))
		var want []int32
		for _, at := range batch {
			if at >= first && at < first+int32(n) {
				want = append(want, at-first)
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%s, step %d, parts %v: part %d has %v, its part of %v is %v", name, step, counts, i, got, batch, want)
		}
		first += int32(n)
	}
}

// counter counts what is asked of the sampler behind it.
type counter struct {
	Sampler
	calls, drawn int
}

func (c *counter) Batch(step uint64, dst []int32) []int32 {
	dst = c.Sampler.Batch(step, dst)
	c.calls, c.drawn = c.calls+1, c.drawn+len(dst)
	return dst
}

// A part draws the whole batch once and looks at nothing else: of two billion records it sees
// the 200 or so of the batch. The sampler of all records cannot draw 600 unless its stream is broken
// (P < 1e-100 for a mean of 215).
func TestPartCostsWhatTheBatchDoes(t *testing.T) {
	const n, q = 1<<31 - 1, 1e-7
	c := &counter{Sampler: open(t, Poisson, n, q, stream.KeyFromSeed(1, "large"), stream.ChaCha20)}
	s := Part(c, n/2, n/4)
	for step := range uint64(3) {
		s.Batch(step, nil)
	}
	if c.calls != 3 || c.drawn > 1800 || c.drawn == 0 {
		t.Errorf("3 batches took %d draws of %d records", c.calls, c.drawn)
	}
}
