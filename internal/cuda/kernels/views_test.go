package kernels

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/privgrad/privgrad/internal/ir"
)

// runOf is a run of so many live rows with everything in its header, and the words behind its rows.
func (m *machine) runOf(rows []int32, words []uint32) []byte {
	b := make([]byte, RunBytes)
	for i := range b {
		b[i] = byte(7*i + 3)
	}
	binary.LittleEndian.PutUint32(b[RunLive:], uint32(len(rows)))
	for _, r := range rows {
		b = binary.LittleEndian.AppendUint32(b, uint32(r))
	}
	for _, w := range words {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	return b
}

func TestViewRun(t *testing.T) {
	for _, s := range []size{{3, 5}, {0, 2}, {200, 200}, {1, 1}} {
		for _, views := range []int{2, 3, 16} {
			for _, brings := range []bool{false, true} {
				for _, unit := range []int{1, views} {
					m := newMachine(t)
					var rows, each []int32
					var words []uint32
					for i := range s.live {
						rows = append(rows, int32(1000-i))
						for k := range views {
							each = append(each, int32((1000-i)*unit+k%unit))
							if brings {
								words = append(words, uint32(i*views+k)*0x9e3779b9)
							}
						}
					}
					examples := m.alloc(ViewRunBytes(s.capacity*views, 1))
					m.launch(ViewRun(m.bytes(m.runOf(rows, words)), s.capacity, views, unit, brings, examples))
					want := m.runOf(each, words)
					if got := m.copyOut(examples, len(want)); !slices.Equal(got, want) {
						t.Fatalf("%v, %d views, units of %d, words %t: the run of examples is %x, want %x", s, views, unit, brings, got, want)
					}
				}
			}
		}
	}
}

func TestViewTargets(t *testing.T) {
	for _, s := range []size{{3, 5}, {0, 2}, {300, 300}} {
		m := newMachine(t)
		const views = 3
		of, want := fill(views*s.capacity, nan32), spoil(fill(s.capacity, 0), s.live, s.capacity)
		for b := range s.live {
			want[b] = float32(b + 1)
			copy(of[views*b:], fill(views, want[b]))
		}
		targets := m.empty(s.capacity)
		m.launch(ViewTargets(m.batch(s), views, m.floats(of), targets))
		same(t, fmt.Sprint("targets of ", s), m.read(targets, s.capacity), want)
	}
}

// Elements fewer than threads, as many, and more; one view more than a power of two, and many.
func TestViewMean(t *testing.T) {
	rng := rand.New(rand.NewPCG(19, 1))
	for _, n := range []int{1, 255, 256, 257, 1000} {
		for _, views := range []int{2, 3, 17} {
			for _, s := range []size{{3, 4}, {0, 2}, {2, 2}} {
				t.Run(fmt.Sprintf("%d values, %d views, %v", n, views, s), func(t *testing.T) { viewMean(t, rng, n, views, s) })
			}
		}
	}
}

func viewMean(t *testing.T, rng *rand.Rand, n, views int, s size) {
	t.Helper()
	stride, keptStride := n+2, n+3
	of := spoil(normals(rng, s.capacity*views*stride), s.live, s.capacity)
	for i := range of { // what lies between gradients is nobody's
		if i%stride >= n {
			of[i] = nan32
		}
	}
	m := newMachine(t)
	b, from, norms := m.batch(s), m.floats(of), m.doubles(fill64(s.capacity, 3))
	kept, alone := m.floats(fill(s.capacity*keptStride, untouched)), m.floats(fill(s.capacity*keptStride, untouched))
	m.launch(ViewMean(b, views, n, from, stride, kept, keptStride, norms))
	m.launch(ViewMean(b, views, n, from, stride, alone, keptStride, 0))
	got, squares := m.read(kept, s.capacity*keptStride), m.readDoubles(norms, s.capacity)
	same(t, "without a norm", m.read(alone, s.capacity*keptStride), got)
	for r := range s.capacity {
		now := got[r*keptStride : (r+1)*keptStride]
		if r >= s.live {
			same(t, "dead gradient", now, fill(keptStride, untouched))
			close64(t, "dead norm", squares[r], 3, 0)
			continue
		}
		want, norm := make([]float64, n), 3.0
		for i := range n {
			for k := range views {
				want[i] += float64(of[(r*views+k)*stride+i])
			}
			want[i] /= float64(views)
			norm += float64(now[i]) * float64(now[i])
		}
		once(t, "mean", now, want, 0)
		same(t, "what is not written", now[n:], fill(3, untouched))
		close64(t, "norm of what is kept", squares[r], norm, gamma(n/256+9+n, 0x1p-53)) // the test's own sum has a rounding for each value
	}
}

// What is not finite in one view is not in the mean, and no other record has it.
func TestViewMeanNotFinite(t *testing.T) {
	inf := float32(math.Inf(1))
	for _, bad := range [][]float32{{nan32, 1, 1}, {1, 1, inf}, {inf, 0, -inf}} {
		m := newMachine(t)
		of := append(append(fill(3, 2), bad...), fill(3, 5)...)
		kept, norms := m.empty(3), m.doubles(make([]float64, 3))
		m.launch(ViewMean(m.batch(size{3, 3}), 3, 1, m.floats(of), 1, kept, 1, norms))
		got, squares := m.read(kept, 3), m.readDoubles(norms, 3)
		if got[0] != 2 || got[2] != 5 || squares[0] != 4 || squares[2] != 25 {
			t.Errorf("beside a record with views %v the means are %v, with squares %v", bad, got, squares)
		}
		if g := float64(got[1]); !math.IsNaN(g-g) || !math.IsNaN(squares[1]-squares[1]) {
			t.Errorf("the mean of %v is %v, its square %v", bad, got[1], squares[1])
		}
	}
}

// moved is a record's pixel in a view, by the maps' definitions one after the other.
func moved(x []float32, list ir.Gather, shape []int, word uint32) []float32 {
	for _, p := range list {
		y := make([]float32, 0, len(x))
		for c := range shape[0] {
			for row := range shape[1] {
				for column := range shape[2] {
					i, j := row, column
					switch p.Kind {
					case ir.Flip:
						if ir.Flips(word) {
							j = shape[2] - 1 - j
						}
					case ir.Crop:
						down, right := p.Shift(word)
						i, j = ir.Reflected(i+down, shape[1]), ir.Reflected(j+right, shape[2])
					}
					y = append(y, x[(c*shape[1]+i)*shape[2]+j])
				}
			}
		}
		x = y
	}
	return x
}

func TestGatherViews(t *testing.T) {
	flip, crop := ir.Map{Kind: ir.Flip}, func(margin int) ir.Map { return ir.Map{Kind: ir.Crop, Margin: margin} }
	for _, c := range []struct {
		shape []int
		maps  ir.Gather
	}{
		{[]int{1, 3, 4}, ir.Gather{flip}},
		{[]int{3, 5, 7}, ir.Gather{crop(4)}},
		{[]int{2, 12, 11}, ir.Gather{flip, crop(2)}},
		{[]int{2, 12, 12}, ir.Gather{crop(3), flip}}, // which do not commute
		{[]int{3, 70, 66}, ir.Gather{crop(64)}},
	} {
		for _, s := range []size{{6, 8}, {0, 2}, {5, 5}} {
			gatherViews(t, c.shape, c.maps, s)
		}
	}
}

func gatherViews(t *testing.T, shape []int, maps ir.Gather, s size) {
	t.Helper()
	const first, count, void = 2, 4, 2
	width, rng := ir.Size(shape), rand.New(rand.NewPCG(19, 2))
	values := make([]float32, width*count)
	for i := range values {
		values[i] = float32(rng.IntN(256))
	}
	values[width*void] = nan32 // of a row without a target, which no view passes on
	targets := []float32{0, 1, nan32, 3}
	rows, words := []int32{-1, -1}, []uint32{1 << 30, 1 << 31}
	for i := range s.live {
		rows = append(rows, []int32{3, 3, 0, void, 1, 3}[i])
		words = append(words, []uint32{0, ^uint32(0), 1 << 31, 5, 0x7fff, 0x7fff << 15}[i])
	}
	if s.live > 4 {
		words[6] = rng.Uint32()
	}
	m := newMachine(t)
	tables, read := m.tables(values, targets, width)
	for form, table := range tables {
		x, target := m.empty(s.capacity*width), m.empty(s.capacity)
		b := Batch{m.bytes(m.runOf(rows, words)), first, s.capacity}
		m.launch(GatherViews(b, table, DrawnOf(maps, shape), x, target))
		wantX, wantT := make([]float32, s.capacity*width), fill(s.capacity, nan32)
		for i, row := range rows[first:] {
			if wantT[i] = targets[row]; row != void {
				copy(wantX[i*width:], moved(read[form][int(row)*width:][:width], maps, shape, words[first+i]))
			}
		}
		name := fmt.Sprintf("%v by %v, %v, form %d", shape, maps, s, form)
		same(t, name+": features", m.read(x, len(wantX)), wantX)
		same(t, name+": targets", m.read(target, len(wantT)), wantT)
	}
}
