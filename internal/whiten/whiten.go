// Package whiten has the matrices that decorrelate values: of what they sum to, and how it is undone.
package whiten

import (
	"math"

	"gonum.org/v1/gonum/mat"
)

// SecondMoments is the mean of the outer products of rows with themselves.
func SecondMoments(rows []float64, n int) []float64 {
	m := make([]float64, n*n)
	for k := 0; k < len(rows); k += n {
		row := rows[k : k+n]
		for i, a := range row {
			line := m[i*n:][:i+1]
			for j := range line {
				line[j] += a * row[j]
			}
		}
	}
	count := float64(len(rows) / n)
	for i := range n {
		for j := range i + 1 {
			m[i*n+j] /= count
			m[j*n+i] = m[i*n+j]
		}
	}
	return m
}

// InverseFactor is L⁻¹ of a symmetric A = L·Lᵀ of n rows; nil if A is not positive.
func InverseFactor(a []float64, n int) *mat.TriDense {
	var c mat.Cholesky
	if !c.Factorize(mat.NewSymDense(n, a)) {
		return nil
	}
	var l, inverse mat.TriDense
	c.LTo(&l)
	if inverse.InverseTri(&l) != nil { // or it is nearly singular, which damping prevents
		return nil
	}
	return &inverse
}

// InverseRoot is (A + d)^−½ of a symmetric A of n rows, with d from its eigenvalues in
// ascending order; nil if these cannot be found.
func InverseRoot(a []float64, n int, damp func(eigenvalues []float64) float64) []float64 {
	var e mat.EigenSym
	if !e.Factorize(mat.NewSymDense(n, a), true) {
		return nil
	}
	values := e.Values(nil)
	d := damp(values)
	var vectors, scaled, root mat.Dense
	e.VectorsTo(&vectors)
	scaled.Apply(func(_, j int, v float64) float64 { return v / math.Sqrt(max(values[j], 0)+d) }, &vectors)
	root.Mul(&scaled, vectors.T())
	return root.RawMatrix().Data
}

// SymmetricMul sets dst = a·x.
func SymmetricMul(dst, a, x []float64) {
	n := len(x)
	for i := range dst {
		sum := 0.
		for j, v := range x {
			sum += a[i*n+j] * v
		}
		dst[i] = sum
	}
}
