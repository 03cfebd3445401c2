package datasets

import (
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/privgrad/privgrad/internal/stream"
)

// Whatever the shards, their batches together are the batch of one machine: Poisson samples and
// subsets record by record, a shuffle in each shard's own order.
func TestShardsTogether(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		counts := rapid.SliceOfN(rapid.Int64Range(0, 60), 1, 8).Draw(t, "counts") // empty ones among them
		total := 0
		for _, n := range counts {
			total += int(n)
		}
		key := stream.KeyFromSeed(rapid.Uint64().Draw(t, "seed"), "shards")
		places := max(total+rapid.IntRange(-20, 20).Draw(t, "beyond"), 1) // the public N may be wrong
		rate := rapid.Float64Range(0.001, 1).Draw(t, "rate")
		size := rapid.IntRange(1, places).Draw(t, "size")
		open := map[string]func() (Sampler, error){
			"poisson": func() (Sampler, error) { return NewPoisson(total, rate, key, stream.ChaCha20) },
			"subsets": func() (Sampler, error) { return NewSubsets(total, places, size, key, stream.ChaCha20) },
			"shuffle": func() (Sampler, error) { return NewShuffle(places, key, stream.ChaCha20) },
		}
		for name, sampler := range open {
			whole, err := sampler()
			if err != nil {
				t.Fatal(err)
			}
			for step := range uint64(3) {
				checkShards(t, name, whole, sampler, step, counts)
			}
		}
	})
}

func checkShards(t *rapid.T, name string, whole Sampler, open func() (Sampler, error), step uint64, counts []int64) {
	batch := whole.Batch(step, nil)
	first := int32(0)
	for rank, n := range counts {
		own, err := open() // each process has one of its own
		if err != nil {
			t.Fatal(err)
		}
		got := ShardOf(rank, counts).Sampler(own).Batch(step, make([]int32, 3))
		var want []int32
		for _, i := range batch {
			if i >= first && i < first+int32(n) {
				want = append(want, i-first)
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%s, step %d, shards %v: rank %d has %v, its part of %v is %v", name, step, counts, rank, got, batch, want)
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

// A shard draws the whole batch once and looks at nothing else: of two billion records it sees
// the 200 or so of the batch. The sampler of all records cannot draw 600 unless its stream is broken
// (P < 1e-100 for a mean of 215).
func TestShardCostFollowsTheBatch(t *testing.T) {
	const n, q = 1<<31 - 1, 1e-7
	whole, err := NewPoisson(n, q, stream.KeyFromSeed(1, "large"), stream.ChaCha20)
	if err != nil {
		t.Fatal(err)
	}
	c := &counter{Sampler: whole}
	s := Shard{First: n / 2, Count: n / 4, N: n}.Sampler(c)
	for step := range uint64(3) {
		s.Batch(step, nil)
	}
	if c.calls != 3 || c.drawn > 1800 || c.drawn == 0 {
		t.Errorf("3 batches took %d draws of %d records", c.calls, c.drawn)
	}
}

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
				if err != nil {
					t.Fatal(err)
				}
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
