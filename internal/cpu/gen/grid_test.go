package main

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"
)

func doubleBytes(x []float64) (b []byte) {
	for _, v := range x {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
	}
	return b
}

// doubles are whole numbers.
func doubles(r *rand.Rand, n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = float64(r.IntN(1 << 20))
	}
	return x
}

// Interpreted, a chain of additions has the bits of its definition.
func TestAVX512SquareColumns(t *testing.T) {
	functions, m := kernelsOf(t, "../vec", "kernels")
	r := rand.New(rand.NewPCG(13, 14))
	for rows := range 12 {
		sum, d, x := doubles(r, 4*gridColumns), random(r, gridColumns), random(r, rows*gridColumns)
		got := doubleBytes(sum)
		for i, v := range x {
			p := float64(d[i%gridColumns] * v)
			at := &sum[i%len(sum)]
			*at = math.FMA(p, p, *at)
		}
		m.run(t, functions["squareColumnsAVX512"], got, floatBytes(d), floatBytes(x), rows)
		if !bytes.Equal(got, doubleBytes(sum)) {
			t.Fatalf("%d rows: other sums", rows)
		}
	}
}

// Interpreted, the kernel gives the integers of the definition, and reads and writes nothing else.
func TestAVX512GridSum(t *testing.T) {
	functions, m := kernelsOf(t, "../vec", "kernels")
	r := rand.New(rand.NewPCG(15, 16))
	for rows := 1; rows < 12; rows++ {
		stride := gridColumns + r.IntN(5)
		sum, squares, d, x, scale := doubles(r, gridColumns), doubles(r, 8*rows), random(r, rows), random(r, (rows-1)*stride+gridColumns), make([]float64, rows)
		for k := range scale {
			scale[k] = 0x1p18 * r.Float64()
		}
		gotSum, gotSquares := doubleBytes(sum), doubleBytes(squares)
		for k, s := range scale {
			for c := range gridColumns {
				v := math.Trunc(float64(d[k]*x[k*stride+c]) * s)
				sum[c] += v
				squares[8*k+c%8] += v * v
			}
		}
		m.run(t, functions["gridSumAVX512"], gotSum, gotSquares, floatBytes(d), floatBytes(x), stride, doubleBytes(scale), rows)
		if !bytes.Equal(gotSum, doubleBytes(sum)) || !bytes.Equal(gotSquares, doubleBytes(squares)) {
			t.Fatalf("%d rows: other sums", rows)
		}
	}
}
