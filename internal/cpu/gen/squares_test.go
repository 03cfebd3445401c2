package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// nans are floats that a kernel must not use, or must overwrite.
func nans(n int) []float32 { return slices.Repeat([]float32{nan}, n) }

// squareParts is how many values of a square there are, each in a matrix of its own.
const squareParts = 16

func TestAVX512ReadSquares(t *testing.T) {
	functions, m := kernelsOf(t, "../squares", "kernels")
	r := rand.New(rand.NewPCG(21, 22))
	const lanes, loaded = 16, 34 // floats of a row of the image
	for channels := 1; channels <= 3; channels++ {
		for rows := 1; rows <= 3; rows++ {
			for range 4 {
				pitch := loaded + r.IntN(3)
				plane := (2*rows+2)*pitch + r.IntN(3)
				step := rows*lanes + r.IntN(3)
				stride := channels*step + r.IntN(3)
				x := nans((channels-1)*plane + (2*rows+1)*pitch + loaded)
				want := random(r, (squareParts-1)*stride+(channels-1)*step+rows*lanes)
				got := floatBytes(want)
				for c := range channels {
					for i := range 2*rows + 2 {
						copy(x[c*plane+i*pitch:], random(r, loaded))
					}
					for row := range rows {
						for q := range lanes {
							from, to := x[c*plane+2*row*pitch+2*q:], want[c*step+row*lanes+q:]
							four := func(a, b, c, d float32) [4]float32 { return [4]float32{a - c, b + c, c - b, b - d} }
							var columns [4][4]float32
							for i := range columns {
								d := from[i*pitch:]
								columns[i] = four(d[0], d[1], d[2], d[3])
							}
							for j := range 4 {
								for i, y := range four(columns[0][j], columns[1][j], columns[2][j], columns[3][j]) {
									to[(4*i+j)*stride] = y
								}
							}
						}
					}
				}
				m.run(t, functions["read16AVX512"], channels, rows, floatBytes(x), plane, pitch, got, step, stride)
				check(t, got, want)
			}
		}
	}
}

// Some outputs are NaN, which relu keeps.
func TestAVX512WriteSquares(t *testing.T) {
	functions, m := kernelsOf(t, "../squares", "kernels")
	r := rand.New(rand.NewPCG(23, 24))
	const lanes = 16
	for channels := 1; channels <= 3; channels++ {
		for rows := 1; rows <= 3; rows++ {
			for squares := 1; squares <= lanes; squares++ {
				for option := range 8 {
					accumulate, biased, relu := option&1 > 0, option&2 > 0, option&4 > 0
					step := rows*lanes + r.IntN(3)
					stride := channels*step + r.IntN(3)
					pitch := 2*squares + r.IntN(3)
					ldy := 2*rows*pitch + r.IntN(3)
					products, bias := nans((squareParts-1)*stride+(channels-1)*step+rows*lanes), random(r, channels)
					want := random(r, (channels-1)*ldy+(2*rows-1)*pitch+2*squares)
					got := floatBytes(want)
					for c := range channels {
						for row := range rows {
							for part := range squareParts {
								copy(products[part*stride+c*step+row*lanes:], random(r, squares))
							}
							if r.IntN(4) == 0 {
								products[r.IntN(squareParts)*stride+c*step+row*lanes+r.IntN(squares)] = nan
							}
							for q := range squares {
								from, to := products[c*step+row*lanes+q:], want[c*ldy+2*row*pitch+2*q:]
								two := func(a, b, c, d float32) [2]float32 { return [2]float32{a + b + c, b - c - d} }
								var columns [4][2]float32
								for j := range columns {
									columns[j] = two(from[j*stride], from[(4+j)*stride], from[(8+j)*stride], from[(12+j)*stride])
								}
								for i := range 2 {
									for j, y := range two(columns[0][i], columns[1][i], columns[2][i], columns[3][i]) {
										if accumulate {
											y += to[i*pitch+j]
										}
										if biased {
											y += bias[c]
										}
										if relu && y < 0 {
											y = 0
										}
										to[i*pitch+j] = y
									}
								}
							}
						}
					}
					var pointer any = uint64(0)
					if biased {
						pointer = floatBytes(bias)
					}
					m.run(t, functions["write16AVX512"], channels, rows, squares, floatBytes(products), step, stride, got, ldy, pitch, accumulate, pointer, relu)
					check(t, got, want)
				}
			}
		}
	}
}

func TestAVX512SpreadSquares(t *testing.T) {
	functions, m := kernelsOf(t, "../squares", "kernels")
	r := rand.New(rand.NewPCG(25, 26))
	n := avx512.n
	for rows := 1; rows <= 3; rows++ {
		for inner := 1; inner <= 5; inner++ {
			pitch := 2 * inner * n
			stride := rows*inner*n + r.IntN(3)
			d := random(r, 2*rows*pitch)
			want := random(r, (squareParts-1)*stride+rows*inner*n)
			got := floatBytes(want)
			four := func(x, y float32) [4]float32 { return [4]float32{x, float32(0.5 * (x + y)), float32(0.5 * (x - y)), y} }
			for s := range rows * inner {
				for q := range n {
					from, to := d[2*(s/inner)*pitch+2*(s%inner)*n+q:], want[s*n+q:]
					upper, lower := four(from[0], from[n]), four(from[pitch], from[pitch+n])
					for j := range 4 {
						for i, y := range four(upper[j], lower[j]) {
							to[(4*i+j)*stride] = y
						}
					}
				}
			}
			m.run(t, functions["spreadAVX512"], rows, inner, floatBytes(d), got, stride)
			check(t, got, want)
		}
	}
}

func TestAVX512ContractSquares(t *testing.T) {
	functions, m := kernelsOf(t, "../squares", "kernels")
	r := rand.New(rand.NewPCG(27, 28))
	h := avx512.squareRows()
	for n := 1; n <= avx512.n; n++ {
		width := (n + avx512.lanes - 1) / avx512.lanes
		reads := width * avx512.lanes
		for option := range 8 {
			accumulate, more, last := option&1 > 0, option&2 > 0, option&4 > 0 // c is nil but for the last
			rows, inner, skip := 1+r.IntN(3), 1+(n+option)%5, (n+option)%h
			row := inner + r.IntN(3)
			channel := rows*row + r.IntN(3)
			strideV, strideB := h*channel+r.IntN(3), rows*inner*avx512.n+r.IntN(3)
			v := nans((squareParts-1)*strideV + (h-1)*channel + (rows-1)*row + inner)
			b := nans((squareParts-1)*strideB + (rows*inner-1)*avx512.n + reads)
			for part := range squareParts {
				for i := range h * rows {
					copy(v[part*strideV+i/rows*channel+i%rows*row:], random(r, inner))
				}
				for s := range rows * inner {
					copy(b[part*strideB+s*avx512.n:], random(r, n))
				}
			}
			ldc := n + r.IntN(4)
			sums, c := nans(squareParts*h*reads), random(r, ((h-skip)*9-1)*ldc+n)
			if more {
				copy(sums, random(r, len(sums)))
			}
			gotSums, got, want := floatBytes(sums), floatBytes(c), slices.Clone(c)
			for i := range squareParts * h {
				for q := range n {
					sum := float32(0)
					if more {
						sum = sums[i*reads+q]
					}
					for s := range rows * inner {
						sum = fma(v[i/h*strideV+i%h*channel+s/inner*row+s%inner], b[i/h*strideB+s*avx512.n+q], sum)
					}
					sums[i*reads+q] = sum
				}
			}
			three := func(a, b, c, d float32) [3]float32 { return [3]float32{b + c + a, b - c, b + c - d} }
			for i := skip; i < h && last; i++ {
				for q := range n {
					var columns [4][3]float32
					at := func(part int) float32 { return sums[(part*h+i)*reads+q] }
					for j := range columns {
						columns[j] = three(at(j), at(4+j), at(8+j), at(12+j))
					}
					for k := range 3 {
						for j, y := range three(columns[0][k], columns[1][k], columns[2][k], columns[3][k]) {
							to := &want[((i-skip)*9+3*k+j)*ldc+q]
							if accumulate {
								y += *to
							}
							*to = y
						}
					}
				}
			}
			var pointer any = uint64(0)
			if last {
				pointer = got
			}
			m.run(t, functions[fmt.Sprintf("contract%dAVX512", width)], rows, inner, floatBytes(v), channel, row, strideV,
				floatBytes(b), strideB, gotSums, more, pointer, ldc, n, skip, accumulate)
			check(t, got, want)
			for i := range squareParts * h {
				check(t, gotSums[4*i*reads:][:4*n], sums[i*reads:][:n])
			}
		}
	}
}
