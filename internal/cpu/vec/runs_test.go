package vec

import (
	"math"
	"math/bits"
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

// randomLines gives the stretches of a convolution's columns, back in lines of so many elements: every tap of every row of the
// kernel adds to a line the outputs of one row. Some lie partly or wholly on padding. It also gives the vectors that they need at least.
func randomLines(r *rand.Rand, width int) (runs Runs, dst, src int) {
	kernelW, kernelH, dilation, down := 1+r.IntN(6), 1+r.IntN(5), 1+r.IntN(2), 1+r.IntN(2)
	cols, rows, left, top := 1+r.IntN(width), 1+r.IntN(6), r.IntN(3), r.IntN(3)
	for channel := range 1 + r.IntN(3) {
		for tap := range kernelH * kernelW {
			y, x := tap/kernelW*dilation-top, tap%kernelW*dilation-left
			lo, hi := max(-x, 0), min(width-x, cols)
			for row := range rows {
				if line := y + row*down; line >= 0 && line < 10 && lo < hi {
					at := (channel*kernelH*kernelW+tap)*rows + row
					runs.Add((channel*10+line)*width+x+lo, at*cols+lo, hi-lo)
				}
			}
		}
	}
	return runs, runs.dst, runs.src
}

// addLines is what the kernel does.
func addLines(dst, src []float32, list []int32, groups int) {
	step, lanes, taps := list[1], list[2], list[3:3+list[0]]
	for list = list[3+list[0]:]; groups > 0; groups-- {
		lines := map[int32][]float32{} // written at the end: one may stand several times in a group
		for l := range linesTogether {
			at, row := list[1+2*l], list[2+2*l]
			sum := slices.Clone(dst[at:][:bits.Len32(uint32(lanes))])
			for n := list[0]; n > 0; n-- {
				for tap := range slices.Chunk(taps, 4) {
					for lane := range sum {
						if at := int32(lane) - tap[3]; tap[1]>>lane&1 == 1 && tap[2]>>at&1 == 1 {
							sum[lane] += src[row+tap[0]+at]
						}
					}
				}
				row += step
			}
			lines[at] = sum
		}
		for at, sum := range lines {
			copy(dst[at:], sum)
		}
		list = list[1+2*linesTogether:]
	}
}

// Where the destination has lines, AddRuns gives the same bits; a NaN stays one. So does the list where no kernel takes it.
func TestLines(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		r := newRand(13)
		for round := range 1200 {
			width := 1 + round%longestLine
			runs, to, from := randomLines(r, width)
			runs.Lines(width)
			if to == 0 {
				continue
			}
			if runs.lines == nil {
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
	for name, c := range map[string]struct {
		width int
		add   [][3]int
	}{
		"a stretch over two lines":                 {3, [][3]int{{2, 0, 2}}},
		"too long a line":                          {longestLine + 1, [][3]int{{2, 0, 2}}},
		"two taps in one line, one in the other":   {4, [][3]int{{0, 0, 2}, {1, 9, 2}, {4, 0, 2}}},
		"taps of other lanes":                      {4, [][3]int{{0, 0, 2}, {5, 0, 2}}},
		"taps elsewhere in the row":                {4, [][3]int{{0, 0, 2}, {1, 9, 2}, {4, 0, 2}, {5, 8, 2}}},
		"rows that do not lie at equal distances":  {4, [][3]int{{0, 0, 4}, {0, 9, 4}, {0, 20, 4}, {4, 0, 4}}},
		"the same taps, but in the opposite order": {4, [][3]int{{0, 0, 2}, {1, 9, 2}, {5, 9, 2}, {4, 0, 2}}},
		"a row and a half":                         {4, [][3]int{{0, 0, 2}, {1, 9, 2}, {0, 20, 2}, {1, 29, 2}, {4, 0, 2}, {5, 9, 2}, {4, 20, 2}}},
	} {
		var runs Runs
		for _, a := range c.add {
			runs.Add(a[0], a[1], a[2])
		}
		if runs.Lines(c.width); runs.lines != nil {
			t.Errorf("%s has lines", name)
		}
	}
	var runs Runs
	if runs.Lines(4); runs.lines != nil {
		t.Error("no stretches have lines")
	}
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
