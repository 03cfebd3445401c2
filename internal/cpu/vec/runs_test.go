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

// The same for stretches whose elements stand apart on one side.
func TestStridedRuns(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		r := newRand(12)
		for round := range 300 {
			step := 1 + round%4
			size := 1 + r.IntN(300)
			dense, sparse := values(r, size), values(r, (size-1)*step+1)
			out, in := Gather(step), Scatter(step)
			want, sum := slices.Clone(dense), slices.Clone(sparse)
			src := slices.Clone(sparse)
			for range r.IntN(20) {
				n := r.IntN(min(size, 45) + 1)
				d, s := r.IntN(size-n+1), 0
				if n > 0 {
					s = r.IntN(len(sparse) - (n-1)*step)
				}
				out.Add(d, s, n)
				in.Add(s, d, n)
				for i := range n {
					want[d+i] = src[s+i*step]
				}
			}
			got := slices.Clone(dense)
			CopyRuns(got, src, &out)
			if !slices.Equal(got, want) {
				t.Fatalf("CopyRuns at step %d gives %v, want %v", step, got, want)
			}
			for at := 0; at < len(in.list); at += 3 {
				for i := range int(in.list[at+2]) {
					sum[int(in.list[at])+i*step] += dense[int(in.list[at+1])+i]
				}
			}
			AddRuns(sparse, dense, &in)
			if !slices.Equal(sparse, sum) {
				t.Fatalf("AddRuns at step %d gives %v, want %v", step, sparse, sum)
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
