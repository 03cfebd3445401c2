package vec

import (
	"math"
	"math/rand/v2"
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

// randomLines gives stretches that lie in lines, and the vectors that they need at least.
func randomLines(r *rand.Rand, width int) (runs Runs, dst, src int) {
	count := 1 + r.IntN(12)
	src = width + r.IntN(100)
	for range r.IntN(80) {
		n := r.IntN(width + 1)
		runs.Add(r.IntN(count)*width+r.IntN(width-n+1), r.IntN(src-n+1), n)
	}
	return runs, runs.dst, runs.src
}

// addLines is what the kernel does.
func addLines(dst, src []float32, list []int32, groups int) {
	for range groups {
		n, lines := int(list[0]), list[1:1+2*linesTogether]
		list = list[1+2*linesTogether:]
		for ; n > 0; n-- {
			for l := range linesTogether {
				at, lanes, place, mask := lines[2*l], lines[2*l+1], list[2*l], list[2*l+1]
				for lane := range int32(longestLine) {
					if mask>>lane&1 == 1 && lanes>>lane&1 == 1 {
						dst[at+lane] += src[place+lane]
					}
				}
			}
			list = list[2*linesTogether:]
		}
	}
}

// Where the destination has lines, AddRuns gives the same bits; a NaN stays one. So does the list where no kernel takes it.
func TestLines(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		r := newRand(13)
		for round := range 600 {
			width := 1 + round%longestLine
			runs, to, from := randomLines(r, width)
			runs.Lines(width)
			if to > 0 && runs.lines == nil {
				t.Fatalf("no lines of %d", width)
			}
			dst, src := values(r, to), values(r, from)
			for i := range dst {
				if i%5 == 0 {
					dst[i] = float32(math.Copysign(0, -1))
				}
			}
			if from > 3 {
				src[3], src[1] = float32(math.NaN()), float32(math.Inf(1))
			}
			want, listed := slices.Clone(dst), slices.Clone(dst)
			portable.addRuns(want, src, runs.list)
			AddRuns(dst, src, &runs)
			addLines(listed, src, runs.lines, runs.groups)
			for _, got := range [][]float32{dst, listed} {
				for i, x := range got {
					if math.Float32bits(x) != math.Float32bits(want[i]) && !(x != x && want[i] != want[i]) {
						t.Fatalf("element %d in lines of %d is %g, want %g", i, width, x, want[i])
					}
				}
			}
		}
	})
	for _, width := range []int{3, longestLine + 1} { // a stretch over two lines, and lines that are too long
		var runs Runs
		runs.Add(2, 0, 2)
		if runs.Lines(width); runs.lines != nil {
			t.Errorf("a stretch from 2 on has lines of %d", width)
		}
	}
	var runs Runs
	runs.Add(0, 0, 2)
	runs.Lines(4)
	if runs.Add(4, 0, 2); runs.lines != nil {
		t.Error("lines outlive a further stretch")
	}
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
