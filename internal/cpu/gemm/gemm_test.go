package gemm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 7)) }

func values(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

func dense(r *rand.Rand, rows, cols int) Matrix { return RowMajor(values(r, rows*cols), rows, cols) }

// layouts are the ways in which an operand may lie in memory.
var layouts = []struct {
	name  string
	build func(r *rand.Rand, rows, cols int) Matrix
}{
	{"rows", dense},
	{"columns", func(r *rand.Rand, rows, cols int) Matrix { return dense(r, cols, rows).T() }},
	{"rows with gaps", func(r *rand.Rand, rows, cols int) Matrix {
		return dense(r, rows+2, cols+3).Slice(1, rows+1, 2, cols+2)
	}},
	{"columns with gaps", func(r *rand.Rand, rows, cols int) Matrix {
		return dense(r, cols+2, rows+3).T().Slice(3, rows+3, 0, cols)
	}},
	{"strided", func(r *rand.Rand, rows, cols int) Matrix {
		return Matrix{Data: values(r, rows*cols*6+1), Rows: rows, Cols: cols, RS: 2, CS: 2*rows + 1}
	}},
}

func (m Matrix) at(i, j int) float32 { return m.Data[i*m.RS+j*m.CS] }

// size draws a length that is often 0, 1 or near a tile.
func size(r *rand.Rand, most int) int {
	switch r.IntN(4) {
	case 0:
		return r.IntN(3)
	case 1:
		return r.IntN(20)
	}
	return r.IntN(most)
}

// checkProduct compares c with before + a·b in float64 within the bound that the package states.
func checkProduct(t *testing.T, c, before, a, b Matrix, accumulate bool) {
	t.Helper()
	const u = 1.0 / (1 << 24)
	for i := range c.Rows {
		for j := range c.Cols {
			var want, weight float64
			if accumulate {
				want = float64(before.at(i, j))
				weight = math.Abs(want)
			}
			for p := range a.Cols {
				x := float64(a.at(i, p)) * float64(b.at(p, j))
				want += x
				weight += math.Abs(x)
			}
			terms := float64(min(a.Cols, blockK) + (a.Cols+blockK-1)/blockK + 2)
			bound := 1.01 * terms * u * weight
			if got := float64(c.at(i, j)); !(math.Abs(got-want) <= bound) {
				t.Fatalf("element (%d,%d) is %g, want %g within %g", i, j, got, want, bound)
			}
		}
	}
}

// A product in blocks of K has the bits of the blocks' products, added one after the other, and writes nothing else.
func TestBlocksAreAddedInOrder(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		r := newRand(11)
		for range 200 {
			m, n, k, most := 1+r.IntN(70), 1+r.IntN(70), 1+r.IntN(400), 8*(1+r.IntN(12))
			la, lb := layouts[r.IntN(len(layouts))], layouts[r.IntN(len(layouts))]
			a, b, got := la.build(r, m, k), lb.build(r, k, n), dense(r, m+2, n+3)
			want := RowMajor(slices.Clone(got.Data), m+2, n+3)
			inner := func(f Matrix) Matrix { return f.Slice(1, m+1, 2, n+2) }
			accumulate, step := r.IntN(2) == 0, blockLen(k, most)
			var ws Workspace
			for p := 0; p < k; p += step {
				end := min(p+step, k)
				Mul(inner(want), a.Slice(0, m, p, end), b.Slice(p, end, 0, n), accumulate || p > 0, &ws)
			}
			mul(inner(got), a, b, accumulate, step, &ws)
			if !slices.Equal(got.Data, want.Data) {
				t.Fatalf("%dx%dx%d, %s by %s, blocks of %d, accumulate %t: other bits", m, k, n, la.name, lb.name, step, accumulate)
			}
		}
	})
}

func TestProducts(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		r := newRand(1)
		var ws Workspace
		var pa PackedA
		var pb PackedB
		depths := []int{0, 1, 2, 3, 7, 8, 9, 319, 320, 321, 641, 2000}
		for round := range 240 {
			m, n, k := size(r, 70), size(r, 70), size(r, 200)
			if round < len(depths) {
				k = depths[round]
			}
			if round%40 == 39 {
				m = blockM + 1 + r.IntN(blockM) // more than one block of A
			}
			if round%60 == 59 {
				m, n, k = []int{3, 60}[r.IntN(2)], blockN+r.IntN(40), 5
			}
			la, lb := layouts[r.IntN(len(layouts))], layouts[r.IntN(len(layouts))]
			accumulate := r.IntN(2) == 0
			t.Run(fmt.Sprintf("%dx%dx%d %s by %s, accumulate %t", m, k, n, la.name, lb.name, accumulate), func(t *testing.T) {
				a, b := la.build(r, m, k), lb.build(r, k, n)
				frame := dense(r, m+2, n+3)
				before := RowMajor(slices.Clone(frame.Data), m+2, n+3)
				inner := func(f Matrix) Matrix { return f.Slice(1, m+1, 2, n+2) }
				Mul(inner(frame), a, b, accumulate, &ws)
				checkProduct(t, inner(frame), inner(before), a, b, accumulate)
				for i := range frame.Rows {
					for j := range frame.Cols {
						outside := i < 1 || i > m || j < 2 || j > n+1
						if outside && frame.at(i, j) != before.at(i, j) {
							t.Fatalf("wrote (%d,%d) outside of the result", i-1, j-2)
						}
					}
				}
				PackA(&pa, a)
				cut := r.IntN(k + 1)
				for what, pack := range map[string]func(){
					"at once": func() { PackB(&pb, b) },
					"by rows": func() {
						pb.Resize(k, n)
						pb.PackRows(cut, b.Slice(cut, k, 0, n))
						pb.PackRows(0, b.Slice(0, cut, 0, n))
					},
				} {
					pack()
					packed := RowMajor(slices.Clone(before.Data), m+2, n+3)
					MulPacked(inner(packed), &pa, &pb, accumulate)
					if !slices.Equal(packed.Data, frame.Data) {
						t.Fatalf("MulPacked, packed %s, and Mul differ in bits", what)
					}
				}
			})
		}
	})
}

// What is below the diagonal is left out, and missed by nothing but a NaN or an infinity, which reaches its own column still.
func TestMulPackedUpper(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		r := newRand(45)
		var ws Workspace
		var pa PackedA
		var pb PackedB
		for round := range 60 {
			m, n, k := 1+r.IntN(40), 1+r.IntN(900), 1+r.IntN(900)
			if round%2 == 0 {
				n = k
			}
			a, b := dense(r, m, k), layouts[r.IntN(len(layouts))].build(r, k, n)
			for i := range k {
				for j := range min(i, n) {
					b.Data[i*b.RS+j*b.CS] = 0
				}
			}
			PackA(&pa, a)
			PackUpper(&pb, b)
			for _, accumulate := range []bool{false, true} {
				want := dense(r, m, n)
				got := RowMajor(slices.Clone(want.Data), m, n)
				Mul(want, a, b, accumulate, &ws)
				MulPacked(got, &pa, &pb, accumulate)
				if !slices.Equal(got.Data, want.Data) { // zeros of either sign are equal
					t.Fatalf("%dx%dx%d, accumulate %t: other bits than Mul", m, k, n, accumulate)
				}
			}
			if n < k {
				continue
			}
			at := r.IntN(k)
			b.Data[at*b.RS+at*b.CS] = 1
			PackUpper(&pb, b)
			a.Data[at] = float32(math.NaN())
			PackA(&pa, a)
			got := RowMajor(make([]float32, m*n), m, n)
			MulPacked(got, &pa, &pb, false)
			if v := got.at(0, at); v == v {
				t.Fatalf("%dx%dx%d: a NaN of column %d is lost", m, k, n, at)
			}
			for i := 1; i < m; i++ {
				for j := range n {
					if v := got.at(i, j); v != v {
						t.Fatalf("%dx%dx%d: a NaN of row 0 reaches (%d, %d)", m, k, n, i, j)
					}
				}
			}
		}
	})
}

// Cutting M and N anywhere, at any layout of the operands, leaves every bit as it is.
func TestCutsKeepBits(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		r := newRand(2)
		var ws Workspace
		for range 20 {
			m, n, k := 1+size(r, 60), 1+size(r, 60), 1+size(r, 700)
			a, b := dense(r, m, k), dense(r, k, n)
			whole := RowMajor(make([]float32, m*n), m, n)
			Mul(whole, a, b, false, &ws)
			parts := RowMajor(make([]float32, m*n), m, n)
			at := RowMajor(make([]float32, k*m), k, m)
			bt := RowMajor(make([]float32, k*n), n, k)
			transpose(at, a)
			transpose(bt, b)
			for i := 0; i < m; {
				ni := min(m, i+1+r.IntN(m))
				for j := 0; j < n; {
					nj := min(n, j+1+r.IntN(n))
					x, y := a, b
					if r.IntN(2) == 0 {
						x = at.T()
					}
					if r.IntN(2) == 0 {
						y = bt.T()
					}
					Mul(parts.Slice(i, ni, j, nj), x.Slice(i, ni, 0, k), y.Slice(0, k, j, nj), false, &ws)
					j = nj
				}
				i = ni
			}
			if !slices.Equal(whole.Data, parts.Data) {
				t.Fatalf("%dx%dx%d: the parts differ from the whole", m, k, n)
			}
		}
	})
}

func transpose(dst, src Matrix) {
	for i := range src.Rows {
		for j := range src.Cols {
			dst.Data[j*dst.RS+i*dst.CS] = src.at(i, j)
		}
	}
}

func TestNonFiniteStaysInItsRowAndColumn(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		const m, k, n = 45, 330, 41
		var ws Workspace
		for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))} {
			for _, at := range []int{0, 5, 17, 44} {
				r := newRand(3)
				a, b := dense(r, m, k), dense(r, k, n)
				clean, dirty := RowMajor(make([]float32, m*n), m, n), RowMajor(make([]float32, m*n), m, n)
				Mul(clean, a, b, false, &ws)
				row, column := at, at*n/m
				a.Data[row*k+k/2] = bad
				b.Data[k/3*n+column] = bad
				Mul(dirty, a, b, false, &ws)
				for i := range m {
					for j := range n {
						x, y := clean.at(i, j), dirty.at(i, j)
						touched := i == row || j == column
						finite := !math.IsNaN(float64(y)) && !math.IsInf(float64(y), 0)
						if touched == finite || !touched && x != y {
							t.Fatalf("%g in row %d and column %d makes element (%d,%d) %g, was %g", bad, row, column, i, j, y, x)
						}
					}
				}
			}
		}
	})
}

// What a kernel reads beyond the last column is zero.
func TestPackBPadsWithZero(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		r := newRand(5)
		for _, l := range layouts {
			for n := 1; n <= 2*TileN; n++ {
				const k = 11
				b := l.build(r, k, n)
				p := PackedB{data: values(r, 4*k*TileN)}
				PackB(&p, b)
				for j := range (n + 7) / 8 * 8 {
					for i := range k {
						var want float32
						if j < n {
							want = b.at(i, j)
						}
						if got := p.panel(j / TileN)[i*TileN+j%TileN]; got != want {
							t.Fatalf("%s, n = %d: packed (%d,%d) is %g, want %g", l.name, n, i, j, got, want)
						}
					}
				}
			}
		}
	})
}

// A warm workspace is enough: no product allocates.
func TestWarmProductsDoNotAllocate(t *testing.T) {
	r := newRand(6)
	a, b, c := dense(r, 40, 400), dense(r, 400, 50), dense(r, 40, 50)
	var ws Workspace
	var pa PackedA
	var pb PackedB
	weights := dense(r, 50, 400)
	w := packed(weights)
	sums, groups := values(r, 256), []Matrix{dense(r, 20, 30), dense(r, 20, 30)}
	var whole, cut PackedB // tiles
	PackB(&whole, dense(r, 30, 64))
	PackB(&cut, dense(r, 30, 50))
	run := func() {
		Mul(c, a, b, true, &ws)
		w.Mul(c, a, weights, nil, &ws)
		PackA(&pa, a)
		PackB(&pb, b)
		MulPacked(c, &pa, &pb, false)
		AddExcess(sums, groups, &whole, 0.25, &ws)
		AddExcess(sums, groups, &cut, 0.25, &ws)
	}
	run()
	if n := testing.AllocsPerRun(10, run); n != 0 {
		t.Errorf("%g allocations", n)
	}
}

// A mistake of the caller fails before the result is touched.
func TestMistakesFailFirst(t *testing.T) {
	r := newRand(7)
	var ws Workspace
	var pa PackedA
	var pb PackedB
	PackA(&pa, dense(r, 4, 5))
	PackB(&pb, dense(r, 5, 6))
	for name, f := range map[string]func(c Matrix){
		"inner sizes differ": func(c Matrix) { Mul(c, dense(r, 4, 5), dense(r, 6, 6), false, &ws) },
		"rows differ":        func(c Matrix) { Mul(c, dense(r, 3, 5), dense(r, 5, 6), false, &ws) },
		"columns differ":     func(c Matrix) { Mul(c, dense(r, 4, 5), dense(r, 5, 7), false, &ws) },
		"A too short":        func(c Matrix) { Mul(c, RowMajor(values(r, 19), 4, 5), dense(r, 5, 6), false, &ws) },
		"B too short":        func(c Matrix) { Mul(c, dense(r, 4, 5), RowMajor(values(r, 29), 5, 6), false, &ws) },
		"C too short":        func(c Matrix) { c.Data = c.Data[:23]; Mul(c, dense(r, 4, 5), dense(r, 5, 6), false, &ws) },
		"C transposed":       func(c Matrix) { c.RS, c.CS = 1, 4; Mul(c, dense(r, 4, 5), dense(r, 5, 6), false, &ws) },
		"negative size":      func(c Matrix) { Mul(c, RowMajor(nil, 4, -1), RowMajor(nil, -1, 6), false, &ws) },
		"packed sizes":       func(c Matrix) { MulPacked(c.Slice(0, 4, 0, 5), &pa, &pb, false) },
		"weights' inputs":    func(c Matrix) { m := dense(r, 6, 6); packed(m).Mul(c, dense(r, 4, 5), m, nil, &ws) },
		"weights' outputs":   func(c Matrix) { m := dense(r, 7, 5); packed(m).Mul(c, dense(r, 4, 5), m, nil, &ws) },
		"bias too short":     func(c Matrix) { m := dense(r, 6, 5); packed(m).Mul(c, dense(r, 4, 5), m, values(r, 5), &ws) },
		"sums too short":     func(c Matrix) { AddExcess(c.Data[:11], []Matrix{dense(r, 4, 5)}, &pb, 0, &ws) },
		"groups differ": func(c Matrix) {
			AddExcess(c.Data, []Matrix{dense(r, 4, 5), dense(r, 3, 5)}, &pb, 0, &ws)
		},
		"a group's columns": func(c Matrix) { AddExcess(c.Data, []Matrix{dense(r, 4, 6)}, &pb, 0, &ws) },
		"slice outside":     func(c Matrix) { c.Slice(0, 5, 0, 6) },
		"slice reversed":    func(c Matrix) { c.Slice(2, 1, 0, 6) },
	} {
		t.Run(name, func(t *testing.T) {
			c := dense(r, 4, 6)
			before := slices.Clone(c.Data)
			defer func() {
				if recover() == nil {
					t.Error("accepted")
				}
				if !slices.Equal(before, c.Data) {
					t.Error("the result was written")
				}
			}()
			f(c)
		})
	}
}
