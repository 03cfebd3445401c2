package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/mmcloughlin/avo/ir"
)

// kernelsOf compiles a unit and gives its functions by name and a machine that knows its constants.
func kernelsOf(t *testing.T, dir, file string) (map[string]*ir.Function, *machine) {
	t.Helper()
	k, ok := compiled[[2]string{dir, file}]
	if !ok {
		k.functions, k.symbols = compileUnit(t, dir, file)
		compiled[[2]string{dir, file}] = k
	}
	m := &machine{symbols: map[string][]byte{}}
	for name, data := range k.symbols {
		m.symbols[name] = slices.Clone(data)
	}
	return k.functions, m
}

// compiled are the units that tests asked for: to compile one takes a second.
var compiled = map[[2]string]struct {
	functions map[string]*ir.Function
	symbols   map[string][]byte
}{}

func compileUnit(t *testing.T, dir, file string) (map[string]*ir.Function, map[string][]byte) {
	t.Helper()
	for _, u := range units {
		if u.dir != dir || u.file != file {
			continue
		}
		f, err := u.compile()
		if err != nil {
			t.Fatal(err)
		}
		symbols := map[string][]byte{}
		for _, s := range f.Sections {
			if g, ok := s.(*ir.Global); ok {
				for _, d := range g.Data {
					v := uint32(0)
					if _, err := fmt.Sscanf(strings.TrimPrefix(d.Value.Asm(), "$"), "0x%x", &v); err != nil {
						t.Fatal(err)
					}
					symbols[g.Symbol.Name] = binary.LittleEndian.AppendUint32(symbols[g.Symbol.Name], v)
				}
			}
		}
		functions := map[string]*ir.Function{}
		for _, fn := range f.Functions() {
			functions[fn.Name] = fn
		}
		return functions, symbols
	}
	t.Fatalf("no unit %s/%s", dir, file)
	return nil, nil
}

var nan = float32(math.NaN())

func random(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

func floatBytes(x []float32) []byte {
	var b []byte
	for _, v := range x {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}

func wordBytes(x ...int) []byte {
	var b []byte
	for _, v := range x {
		b = binary.LittleEndian.AppendUint32(b, uint32(int32(v)))
	}
	return b
}

// check compares memory that a kernel has written with floats, bit by bit; NaN equals NaN.
func check(t *testing.T, got []byte, want []float32) {
	t.Helper()
	for i, w := range want {
		g := math.Float32frombits(binary.LittleEndian.Uint32(got[4*i:]))
		if math.Float32bits(g) != math.Float32bits(w) && (g == g || w == w) {
			t.Fatalf("float %d is %v, want %v", i, g, w)
		}
	}
}

// run lends the machine the byte slices among args, calls the function and takes the memory back.
func (m *machine) run(t *testing.T, f *ir.Function, args ...any) {
	t.Helper()
	m.lent = nil
	for i, a := range args {
		if b, ok := a.([]byte); ok {
			args[i] = m.lend(b)
		}
	}
	if err := m.call(f, args...); err != nil {
		t.Fatal(err)
	}
}

// blocks is the sum of a chain for each block of step of kc, the first added to what was there with accumulate.
func blocks(kc, step int, a, b func(p int) float32, before float32, accumulate bool) float32 {
	for p := 0; p < kc; p += step {
		in := func(f func(int) float32) func(int) float32 { return func(q int) float32 { return f(p + q) } }
		before = element(min(step, kc-p), in(a), in(b), before, accumulate || p > 0)
	}
	return before
}

// element is one chain of multiply-adds from zero in the order of p, added to what was there.
func element(kc int, a, b func(p int) float32, before float32, accumulate bool) (sum float32) {
	for p := range kc {
		sum = fma(a(p), b(p), sum)
	}
	if accumulate {
		sum += before
	}
	return sum
}

// Each kernel, interpreted, gives the bits of the chains of multiply-adds that define it, and touches nothing else. What it
// must not use is NaN or not there.
func TestAVX512Tiles(t *testing.T) {
	functions, m := kernelsOf(t, "../gemm", "kernels512")
	r := rand.New(rand.NewPCG(1, 2))
	for h := 1; h <= avx512.m; h++ {
		for _, n := range []int{1, 7, 15, 16, 17, 30, 31, 32} {
			for _, rows := range [][2]int{{1, 1}, {2, 2}, {3, 8}, {6, 6}, {6, 2}, {5, 3}} {
				kc, step := rows[0], rows[1]
				for _, accumulate := range []bool{false, true} {
					reads := avx512.n
					if n <= avx512.lanes {
						reads = avx512.lanes
					}
					const tiles = 2
					lda, ldb, ldc := kc*avx512.m+r.IntN(5), reads+r.IntN(5), n+r.IntN(4)
					a, b, c := random(r, (tiles-1)*lda+(kc-1)*avx512.m+h), random(r, (kc-1)*ldb+reads), random(r, (tiles*h-1)*ldc+n)
					for p := range kc {
						for j := n; j < reads; j++ {
							b[p*ldb+j] = nan
						}
					}
					want := slices.Clone(c)
					for i := range tiles * h {
						for j := range n {
							want[i*ldc+j] = blocks(kc, step, func(p int) float32 { return a[i/h*lda+p*avx512.m+i%h] },
								func(p int) float32 { return b[p*ldb+j] }, c[i*ldc+j], accumulate)
						}
					}
					got := floatBytes(c)
					m.run(t, functions[fmt.Sprintf("tile%dAVX512", h)], tiles, kc, step, floatBytes(a), lda, floatBytes(b), ldb, got, ldc, n, accumulate, []byte{}, 0, 0)
					check(t, got, want)
				}
			}
		}
	}
}

func TestAVX512TilesThatPack(t *testing.T) {
	functions, m := kernelsOf(t, "../gemm", "kernels512")
	r := rand.New(rand.NewPCG(5, 6))
	for h := 1; h <= avx512.m; h++ {
		for _, rows := range [][2]int{{1, 1}, {2, 2}, {3, 8}, {6, 2}, {5, 3}} {
			kc, step := rows[0], rows[1]
			for _, accumulate := range []bool{false, true} {
				ldb, ldc := avx512.n+r.IntN(5), avx512.n+r.IntN(4)
				a, b, c := random(r, (kc-1)*avx512.m+h), random(r, (kc-1)*ldb+avx512.n), random(r, (h-1)*ldc+avx512.n)
				want, packed := slices.Clone(c), make([]float32, kc*avx512.n)
				for i := range h {
					for j := range avx512.n {
						want[i*ldc+j] = blocks(kc, step, func(p int) float32 { return a[p*avx512.m+i] },
							func(p int) float32 { return b[p*ldb+j] }, c[i*ldc+j], accumulate)
					}
				}
				for p := range kc {
					copy(packed[p*avx512.n:], b[p*ldb:][:avx512.n])
				}
				got, panel := floatBytes(c), floatBytes(make([]float32, len(packed)))
				m.run(t, functions[fmt.Sprintf("tilePack%dAVX512", h)], kc, step, floatBytes(a), floatBytes(b), ldb, panel, got, ldc, accumulate)
				check(t, got, want)
				check(t, panel, packed)
			}
		}
	}
}

func TestAVX512Excess(t *testing.T) {
	functions, m := kernelsOf(t, "../gemm", "kernels512")
	r := rand.New(rand.NewPCG(7, 8))
	const n, tiles = 32, 2
	for h := 1; h <= avx512.m; h++ {
		for _, kc := range []int{1, 2, 5} {
			lda, ld, less := kc*avx512.m+r.IntN(5), n+r.IntN(4), float32(-0.25)
			a, b := random(r, (tiles-1)*lda+(kc-1)*avx512.m+h), random(r, kc*n)
			above, below := random(r, (tiles-1)*ld+n), random(r, (tiles-1)*ld+n)
			if kc == 5 {
				a[0], b[n+3] = nan, float32(math.Inf(1))
			}
			want := [2][]float32{slices.Clone(above), slices.Clone(below)}
			for i := range tiles * h {
				for j := range n {
					x := element(kc, func(p int) float32 { return a[i/h*lda+p*avx512.m+i%h] }, func(p int) float32 { return b[p*n+j] }, 0, false)
					want[0][i/h*ld+j] += max(x+less, 0)
					want[1][i/h*ld+j] += max(less-x, 0)
				}
			}
			got := [2][]byte{floatBytes(above), floatBytes(below)}
			m.run(t, functions[fmt.Sprintf("excess%dAVX512", h)], tiles, kc, floatBytes(a), lda, floatBytes(b), got[0], got[1], ld, less)
			check(t, got[0], want[0])
			check(t, got[1], want[1])
		}
	}
}

func TestAVX512Correlate(t *testing.T) {
	functions, m := kernelsOf(t, "../gemm", "kernels512")
	r := rand.New(rand.NewPCG(3, 4))
	const image = 60
	for h := 1; h <= avx512.m; h++ {
		for pairs := 1; pairs <= 4; pairs++ {
			for _, kc := range []int{1, 5} {
				for option := range 8 {
					accumulate, biased, relu := option&1 > 0, option&2 > 0, option&4 > 0
					a, x, bias := random(r, (kc-1)*avx512.m+h), random(r, image+8), random(r, h)
					x[0] = nan
					var taps, list []int
					for range kc {
						taps = append(taps, 4*r.IntN(image/2))
					}
					type run struct{ x, c, n int }
					var runs []run
					end := 0
					for range 2 * pairs {
						n := r.IntN(9)
						runs = append(runs, run{r.IntN(image / 2), end, n})
						end += n + r.IntN(3)
					}
					// A pair lists places in x, places in c and lengths. The end of c is that of the last run.
					end = 1
					for i := 0; i < len(runs); i += 2 {
						p, q := runs[i], runs[i+1]
						list = append(list, 4*p.x, 4*q.x, 4*p.c, 4*q.c, p.n, q.n)
						end = max(end, p.c+p.n, q.c+q.n)
					}
					ldc := end + r.IntN(3)
					c := random(r, (h-1)*ldc+end)
					want := slices.Clone(c)
					for i := range h {
						for _, g := range runs {
							for j := range g.n {
								at := &want[i*ldc+g.c+j]
								*at = element(kc, func(p int) float32 { return a[p*avx512.m+i] },
									func(p int) float32 { return x[g.x+j+taps[p]/4] }, *at, accumulate)
								if biased {
									*at += bias[i]
								}
								if relu && *at < 0 {
									*at = 0
								}
							}
						}
					}
					got := floatBytes(c)
					var pointer any = uint64(0)
					if biased {
						pointer = floatBytes(bias)
					}
					m.run(t, functions[fmt.Sprintf("correlate%dAVX512", h)], kc, floatBytes(a), wordBytes(taps...), floatBytes(x),
						wordBytes(list...), pairs, got, ldc, accumulate, pointer, relu)
					check(t, got, want)
				}
			}
		}
	}
}

func TestAVX512Contract(t *testing.T) {
	functions, m := kernelsOf(t, "../gemm", "kernels512")
	r := rand.New(rand.NewPCG(5, 6))
	for h := 1; h <= narrowM; h++ {
		for n := 1; n <= avx512.n; n++ {
			for _, inner := range []int{1, 2, 5} {
				for option := range 4 {
					accumulate, rows := option&1 > 0, 1+option/2*2
					name, reads := "contract%dAVX512", avx512.n
					if n <= avx512.lanes {
						name, reads = "contractNarrow%dAVX512", avx512.lanes
					}
					jumps, positions := rowsOf(r, rows, inner)
					reach := positions[len(positions)-1] + 1
					var taps []int
					for range h {
						taps = append(taps, 4*r.IntN(9))
					}
					x := random(r, reach+slices.Max(taps)/4)
					k := rows * inner
					b, ldc := random(r, (k-1)*avx512.n+reads), n+r.IntN(4)
					c := random(r, (h-1)*ldc+n)
					for p := range k {
						for j := n; j < reads; j++ {
							b[p*avx512.n+j] = nan
						}
					}
					want := slices.Clone(c)
					for i := range h {
						for j := range n {
							want[i*ldc+j] = element(k, func(p int) float32 { return x[taps[i]/4+positions[p]] },
								func(p int) float32 { return b[p*avx512.n+j] }, c[i*ldc+j], accumulate)
						}
					}
					got := floatBytes(c)
					m.run(t, functions[fmt.Sprintf(name, h)], rows, inner, wordBytes(jumps...), floatBytes(x), wordBytes(taps...),
						floatBytes(b), got, ldc, n, accumulate)
					check(t, got, want)
				}
			}
		}
	}
}

// rowsOf makes rows of inner positions in an image, and the jumps between them in bytes.
func rowsOf(r *rand.Rand, rows, inner int) (jumps, positions []int) {
	at := 0
	for range rows {
		for range inner {
			positions = append(positions, at)
			at++
		}
		jumps = append(jumps, 4*r.IntN(4))
		at += jumps[len(jumps)-1] / 4
	}
	return jumps, positions
}

func TestAVX512ContractRuns(t *testing.T) {
	functions, m := kernelsOf(t, "../gemm", "kernels512")
	r := rand.New(rand.NewPCG(13, 14))
	for _, run := range tapRuns {
		for n := 1; n <= avx512.lanes; n++ {
			for _, inner := range []int{1, 2, 5} {
				for option := range 4 {
					accumulate, rows := option&1 > 0, 1+option/2*2
					jumps, positions := rowsOf(r, rows, inner)
					var starts []int
					for range run.count {
						starts = append(starts, 4*r.IntN(9))
					}
					k, h := rows*inner, run.count*run.taps
					x := random(r, positions[k-1]+slices.Max(starts)/4+run.taps)
					b, ldc := random(r, (k-1)*avx512.n+avx512.lanes), n+r.IntN(4)
					c := random(r, (h-1)*ldc+n)
					for p := range k {
						for j := n; j < avx512.lanes; j++ {
							b[p*avx512.n+j] = nan
						}
					}
					want := slices.Clone(c)
					for i := range h {
						for j := range n {
							want[i*ldc+j] = element(k, func(p int) float32 { return x[starts[i/run.taps]/4+i%run.taps+positions[p]] },
								func(p int) float32 { return b[p*avx512.n+j] }, c[i*ldc+j], accumulate)
						}
					}
					got := floatBytes(c)
					m.run(t, functions[fmt.Sprintf("contractRuns%dAVX512", run.taps)], rows, inner, wordBytes(jumps...), floatBytes(x),
						wordBytes(starts...), floatBytes(b), got, ldc, n, accumulate)
					check(t, got, want)
				}
			}
		}
	}
}

func TestAVX512ContractFew(t *testing.T) {
	functions, m := kernelsOf(t, "../gemm", "kernels512")
	r := rand.New(rand.NewPCG(15, 16))
	for h := 1; h <= fewM; h++ {
		for run := 1; run*fewRuns <= avx512.lanes; run++ {
			for runs := 1; runs <= 2*fewRuns; runs++ {
				for option := range 4 {
					accumulate, rows, inner := option&1 > 0, 1+option/2*2, 1+r.IntN(5)
					jumps, positions := rowsOf(r, rows, inner)
					k := rows * inner
					// A register's runs follow each other in its lanes; a run of no lanes touches nothing.
					var starts, places, words []int
					tap := make([]int, avx512.n) // of a lane; −1: none
					for lane := range tap {
						tap[lane] = -1
					}
					for i := range 2 * fewRuns {
						if i >= runs {
							places, words = append(places, 4*r.IntN(1000)), append(words, 0)
							continue
						}
						start, first := r.IntN(9), i%fewRuns*run
						starts = append(starts, start)
						places, words = append(places, 4*(start-first)), append(words, (1<<run-1)<<first)
						for j := range run {
							tap[i/fewRuns*avx512.lanes+first+j] = start + j
						}
					}
					x := random(r, positions[k-1]+slices.Max(starts)+run)
					ldd := k + r.IntN(4)
					d, c := random(r, (h-1)*ldd+k), random(r, h*avx512.n)
					want := slices.Clone(c)
					for i := range h {
						for lane, o := range tap {
							if o >= 0 {
								want[i*avx512.n+lane] = element(k, func(p int) float32 { return x[o+positions[p]] },
									func(p int) float32 { return d[i*ldd+p] }, c[i*avx512.n+lane], accumulate)
							}
						}
					}
					got := floatBytes(c)
					m.run(t, functions[fmt.Sprintf("contractFew%dAVX512", h)], rows, inner, wordBytes(jumps...), floatBytes(x),
						wordBytes(places...), wordBytes(words...), floatBytes(d), ldd, got, accumulate)
					for i := range h {
						for lane, o := range tap {
							if o >= 0 {
								at := i*avx512.n + lane
								check(t, got[4*at:][:4], want[at:at+1])
							}
						}
					}
				}
			}
		}
	}
}

func TestAVX512Turn(t *testing.T) {
	functions, m := kernelsOf(t, "../gemm", "kernels512")
	r := rand.New(rand.NewPCG(17, 18))
	for n := 1; n <= 50; n++ {
		const rows = 16
		ld := n + r.IntN(3)
		src, dst := random(r, (rows-1)*ld+n), random(r, (n-1)*avx512.n+rows)
		want := slices.Clone(dst)
		for p := range n {
			for i := range rows {
				want[p*avx512.n+i] = src[i*ld+p]
			}
		}
		got := floatBytes(dst)
		m.run(t, functions["turnBAVX512"], n, floatBytes(src), ld, got)
		check(t, got, want)
	}
}

func TestAVX512TurnToPanels(t *testing.T) {
	functions, m := kernelsOf(t, "../gemm", "kernels512")
	r := rand.New(rand.NewPCG(19, 20))
	for _, rows := range turnedRows {
		for n := 1; n <= 50; n++ {
			ld := n + r.IntN(3)
			src, want := random(r, (rows-1)*ld+n), make([]float32, n*avx512.m)
			for p := range n {
				for i := range rows {
					want[p*avx512.m+i] = src[i*ld+p]
				}
			}
			got := floatBytes(random(r, len(want)))
			m.run(t, functions[fmt.Sprintf("turnA%dAVX512", rows)], n, floatBytes(src), ld, got)
			check(t, got, want)
		}
	}
}

func TestAVX512Copies(t *testing.T) {
	functions, m := kernelsOf(t, "../gemm", "kernels512")
	r := rand.New(rand.NewPCG(7, 8))
	for rows := 1; rows <= avx512.m; rows++ {
		const n = 3
		ld := rows + r.IntN(3)
		src, dst := random(r, (n-1)*ld+rows), random(r, (n-1)*avx512.m+rows)
		want := slices.Clone(dst)
		for p := range n {
			copy(want[p*avx512.m:][:rows], src[p*ld:])
		}
		got := floatBytes(dst)
		m.run(t, functions["copyAAVX512"], n, floatBytes(src), ld, rows, got)
		check(t, got, want)
	}
	const rows, groups, ld = 3, 2, 2*32 + 5
	src := random(r, (rows-1)*ld+groups*avx512.n)
	stride := rows*avx512.n + 7
	want := make([]float32, (groups-1)*stride+rows*avx512.n)
	for p := range rows {
		for j := range groups {
			copy(want[j*stride+p*avx512.n:][:avx512.n], src[p*ld+j*avx512.n:])
		}
	}
	got := make([]byte, 4*len(want))
	m.run(t, functions["copyBAVX512"], rows, groups, floatBytes(src), ld, got, stride)
	check(t, got, want)
}

// After k steps of x ← x/2 + 1 from zero x is 2·(1−2⁻ᵏ).
func TestAVX512Chains(t *testing.T) {
	functions, m := kernelsOf(t, "../peak", "kernels")
	for rounds := 1; rounds <= 5; rounds++ {
		got := make([]byte, 4*avx512.lanes)
		m.run(t, functions["chainsAVX512"], rounds, got)
		x := float32(peakChains * 2 * (1 - math.Exp2(float64(-2*rounds))))
		check(t, got, slices.Repeat([]float32{x}, avx512.lanes))
		if bytes.Count(got, got[:4]) != avx512.lanes {
			t.Fatal("lanes differ")
		}
	}
}

// The kernels need no more than the instruction sets that their packages ask for before they run one; and what
// internal/cpu/gemm tests on processors without AVX-512 needs none of it.
func TestAVX512KernelsNeedWhatIsAskedFor(t *testing.T) {
	for file, known := range map[[2]string][]string{
		{"../gemm", "kernels512"}:  {"AVX512F", "AVX512DQ", "AVX512VL", "BMI2"},
		{"../peak", "kernels"}:     {"AVX512F", "AVX512DQ"},
		{"../vec", "kernels"}:      {"AVX512F", "AVX512BW", "AVX512DQ", "AVX512VL", "BMI2"},
		{"../../exact", "kernels"}: {"AVX512F", "AVX512DQ"},
	} {
		functions, _ := kernelsOf(t, file[0], file[1])
		for name, f := range functions {
			for _, isa := range f.ISA {
				wide := strings.HasPrefix(isa, "AVX512")
				before := []string{"AVX", "AVX2", "FMA3", "CMOV", "MMX+", "SSE"} // the last three on every processor
				if strings.HasSuffix(name, "AVX2") {
					before = append(before, "F16C", "POPCNT") // the first is asked for, and the second came before AVX2
				}
				if !slices.Contains(before, isa) && !slices.Contains(known, isa) || wide && strings.HasPrefix(name, "transpose") {
					t.Errorf("%s needs %s", name, isa)
				}
			}
		}
	}
}

func TestAVX512Halves(t *testing.T) {
	functions, m := kernelsOf(t, "../vec", "kernels")
	r := rand.New(rand.NewPCG(11, 12))
	for n := range 50 {
		var halves []byte
		want := make([]float32, n)
		for i := range want {
			h := uint16(r.Uint32())
			halves = binary.LittleEndian.AppendUint16(halves, h)
			want[i] = math.Float32frombits(fromHalf(h))
		}
		got := floatBytes(random(r, n))
		m.run(t, functions["halvesAVX512"], got, n, n, halves, n, n)
		check(t, got, want)
	}
}

// Lines go together that get as many rows of taps.
func TestAVX512AddLines(t *testing.T) {
	functions, m := kernelsOf(t, "../vec", "kernels")
	r := rand.New(rand.NewPCG(13, 14))
	for round := range 60 {
		kernel, longest := "addLinesAVX512", 16
		if round%2 == 1 {
			kernel, longest = "addShortLinesAVX512", 8
		}
		groups, taps, step, lanes := 1+r.IntN(3), 1+r.IntN(6), r.IntN(40)-20, 1+r.IntN(16)
		dst, src := random(r, 16*linesTogether*groups), random(r, 350)
		want := slices.Clone(dst)
		var list []byte
		put := func(values ...int) {
			for _, x := range values {
				list = binary.LittleEndian.AppendUint32(list, uint32(int32(x)))
			}
		}
		put(4*taps, step, 1<<lanes-1)
		places, firsts, lengths := make([]int, taps), make([]int, taps), make([]int, taps)
		for tap := range taps {
			n := 1 + r.IntN(min(lanes, longest))
			places[tap], lengths[tap], firsts[tap] = 100+r.IntN(100), n, r.IntN(lanes-n+1)
			put(places[tap], (1<<n-1)<<firsts[tap], 1<<n-1, firsts[tap])
		}
		for g := range groups {
			rows := 1 + r.IntN(5)
			put(rows)
			at, row := 0, 0
			for i := range linesTogether {
				if again := g == 0 && i == linesTogether-1; again { // a line may stand twice in a group
					put(at, row)
					continue
				}
				at, row = 16*(g*linesTogether+i), r.IntN(60)-20
				put(at, row)
				for y := range rows {
					for tap, place := range places {
						for j := range lengths[tap] {
							want[at+firsts[tap]+j] += src[row+y*step+place+j]
						}
					}
				}
			}
		}
		got := floatBytes(dst)
		m.run(t, functions[kernel], got, floatBytes(src), list, groups)
		check(t, got, want)
	}
}

// Nothing between the elements that stand two apart is touched, nor beside a run of any length.
func TestAVX512Apart2(t *testing.T) {
	functions, m := kernelsOf(t, "../vec", "kernels")
	r := rand.New(rand.NewPCG(15, 16))
	for range 20 {
		dense, sparse := random(r, 100), random(r, 200)
		gathered, scattered := slices.Clone(dense), slices.Clone(sparse)
		var out, in []byte
		runs := 1 + r.IntN(4)
		put := func(list []byte, values ...int) []byte {
			for _, x := range values {
				list = binary.LittleEndian.AppendUint32(list, uint32(x))
			}
			return list
		}
		for range runs {
			n := 1 + r.IntN(30)
			d, s := r.IntN(len(dense)-n+1), r.IntN(len(sparse)-2*n+2)
			out, in = put(out, d, s, n), put(in, s, d, n)
			for i := range n {
				gathered[d+i] = sparse[s+2*i]
				scattered[s+2*i] += dense[d+i]
			}
		}
		for _, c := range []struct {
			kernel   string
			dst, src []float32
			list     []byte
			want     []float32
		}{
			{"gather2AVX512", dense, sparse, out, gathered},
			{"scatter2AVX512", sparse, dense, in, scattered},
		} {
			got := floatBytes(c.dst)
			m.run(t, functions[c.kernel], got, len(c.dst), len(c.dst), floatBytes(c.src), len(c.src), len(c.src), c.list, 3*runs, 3*runs)
			check(t, got, c.want)
		}
	}
}
