package vec

import (
	"slices"
	"testing"
)

// Every implementation copies and adds the portable one's bits, stretches of every length, and nothing beside them.
func TestRuns(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		r := newRand(11)
		for range 200 {
			size := 1 + r.IntN(300)
			src := values(r, size)
			dst := values(r, size)
			var runs Runs
			for range r.IntN(20) {
				n := r.IntN(min(size, 45) + 1)
				runs.Add(r.IntN(size-n+1), r.IntN(size-n+1), n)
			}
			want := slices.Clone(dst)
			portable.copyRuns(want, src, runs.list)
			CopyRuns(dst, src, &runs)
			if !slices.Equal(dst, want) {
				t.Fatal("CopyRuns differs from the portable one")
			}
			portable.addRuns(want, src, runs.list)
			AddRuns(dst, src, &runs)
			if !slices.Equal(dst, want) {
				t.Fatal("AddRuns differs from the portable one")
			}
		}
	})
}

func TestRunsCheckTheirVectors(t *testing.T) {
	var runs Runs
	runs.Add(5, 2, 10)
	for _, call := range []func(){
		func() { CopyRuns(make([]float32, 14), make([]float32, 12), &runs) },
		func() { CopyRuns(make([]float32, 15), make([]float32, 11), &runs) },
		func() { AddRuns(make([]float32, 14), make([]float32, 12), &runs) },
		func() { AddRuns(make([]float32, 15), make([]float32, 11), &runs) },
		func() { runs.Add(-1, 0, 3) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("a stretch beyond its vector was accepted")
				}
			}()
			call()
		}()
	}
	CopyRuns(make([]float32, 15), make([]float32, 12), &runs)
}
