package datasets

import "fmt"

// Rank says which of a training set's shards a process has: those of one rank of several
// processes that train one model. The zero value stands for all of them.
type Rank struct{ Rank, Of int }

// Range is the rank's share of n things in their order, from first up to end. The shares of all
// ranks cover each thing once, and their sizes differ by one at most.
func (r Rank) Range(n int) (first, end int) {
	if r.Of < 2 {
		return 0, n
	}
	return r.Rank * n / r.Of, (r.Rank + 1) * n / r.Of
}

// Take is the set with the training records of one rank alone. It copies no record.
func (s *Set) Take(r Rank) (*Set, error) {
	if r.Of < 0 || r.Of > 0 && (r.Rank < 0 || r.Rank >= r.Of) {
		return nil, fmt.Errorf("datasets: no rank %d of %d", r.Rank, r.Of)
	}
	part, m := *s, s.Train
	first, end := r.Range(m.Units())
	first, end = first*max(m.UnitRows, 1), end*max(m.UnitRows, 1) // all rows of a user lie on one rank
	width := size(m.Shape)
	if m.Features != nil {
		m.Features = m.Features[first*width : end*width]
	}
	if m.Values != nil {
		m.Values = m.Values[first*width : end*width]
	}
	if m.Labels != nil {
		m.Labels = m.Labels[first:end]
	}
	if m.Targets != nil {
		m.Targets = m.Targets[first:end]
	}
	part.Train = m
	return &part, nil
}

// Shard is where the records of one rank stand among all records, which have numbers from 0 up to
// N in the order of the ranks. All three numbers are private.
type Shard struct{ First, Count, N int }

// ShardOf is the shard of a rank, of numbers of records by rank.
func ShardOf(rank int, counts []int64) Shard {
	var s Shard
	for i, n := range counts {
		if i < rank {
			s.First += int(n)
		}
		s.N += int(n)
	}
	s.Count = int(counts[rank])
	return s
}
