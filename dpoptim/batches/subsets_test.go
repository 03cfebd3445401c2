package batches

import (
	"math"
	"slices"
	"testing"

	"github.com/privgrad/privgrad/internal/stream"
)

func subsetsOf(t *testing.T, n, size int) Sampler {
	t.Helper()
	return open(t, Subsets, n, float64(size)/float64(n), stream.KeyFromSeed(1, "subsets"), stream.ChaCha20)
}

// Every subset of a size is as probable as any other: Pearson's χ² over all 35 of 3 out
// of 7, and over records of many batches of 40 out of 130, where a record's hits in
// different batches are independent. Each rejects a right sampler with probability 1e-9.
func TestSubsetsAreUniform(t *testing.T) {
	const rounds = 200_000
	seen := map[[3]int32]int{}
	s := subsetsOf(t, 7, 3)
	var dst []int32
	for step := range uint64(rounds) {
		dst = s.Batch(step, dst)
		seen[[3]int32(dst)]++
	}
	if len(seen) != 35 {
		t.Fatalf("%d subsets of 3 out of 7 were drawn, there are 35", len(seen))
	}
	chi := 0.0
	for _, k := range seen {
		d := float64(k) - rounds/35.
		chi += d * d / (rounds / 35.)
	}
	if chi > 115.4 { // 34 degrees of freedom at 1e-9
		t.Errorf("χ² = %v over subsets", chi)
	}

	const n, size, batches = 130, 40, 20_000
	hits := make([]float64, n)
	s = subsetsOf(t, n, size)
	for step := range uint64(batches) {
		dst = s.Batch(step, dst)
		if len(dst) != size || !slices.IsSorted(dst) || len(slices.Compact(slices.Clone(dst))) != size || dst[0] < 0 || dst[size-1] >= n {
			t.Fatalf("batch %d is %v", step, dst)
		}
		for _, i := range dst {
			hits[i]++
		}
	}
	p := float64(size) / n
	for i, k := range hits {
		// Of 130 standard normals one exceeds 6.97 with probability 130·3e-12 < 1e-9.
		if z := (k - batches*p) / math.Sqrt(batches*p*(1-p)); math.Abs(z) > 6.97 {
			t.Errorf("record %d is in %v of %d batches, %v are expected", i, k, batches, batches*p)
		}
	}
}

// A batch is a function of the key and the step.
func TestSubsetsReplay(t *testing.T) {
	s := subsetsOf(t, 1000, 50)
	first := s.Batch(3, nil)
	if !slices.Equal(first, s.Batch(3, nil)) || slices.Equal(first, s.Batch(4, nil)) {
		t.Error("batches do not follow from the step")
	}
	if all := subsetsOf(t, 5, 5).Batch(0, nil); !slices.Equal(all, []int32{0, 1, 2, 3, 4}) {
		t.Errorf("a subset of all is %v", all)
	}
}

// The places that are drawn do not follow from how many records there are.
func TestSubsetsOfPlaces(t *testing.T) {
	const n, size = 100, 30
	all, b := subsetsOf(t, n, size), Batching{Kind: Subsets, Units: n, ExpectedBatch: size}
	for _, records := range []int{0, 1, 40, 99, 100, 170} {
		s, err := b.Sampler(records, stream.KeyFromSeed(1, "subsets"), stream.ChaCha20)
		check(t, err)
		for step := range uint64(20) {
			want := slices.DeleteFunc(all.Batch(step, nil), func(i int32) bool { return int(i) >= records })
			if got := s.Batch(step, nil); !slices.Equal(got, want) {
				t.Errorf("of %d records step %d draws %v, want %v", records, step, got, want)
			}
		}
	}
}

func TestSubsetsRefuse(t *testing.T) {
	for _, x := range [][2]int{{0, 0}, {5, 0}, {5, 6}, {5, -1}, {-1, 1}} {
		b := Batching{Kind: Subsets, Units: x[0], ExpectedBatch: float64(x[1])}
		if _, err := b.Sampler(x[0], stream.Key{}, stream.ChaCha20); err == nil {
			t.Errorf("subsets of %d out of %d are drawn", x[1], x[0])
		}
	}
}
