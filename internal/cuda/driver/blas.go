package driver

import "fmt"

// BLAS is what a Driver has besides where it can look for cuBLAS, NVIDIA's library of matrix products.
type BLAS interface {
	// BLAS is the version of the library that is installed, 120401 for 12.4.1. The
	// error says what was looked for.
	BLAS() (int, error)
}

// BLASContext is what a Context of such a Driver has besides.
type BLASContext interface {
	// NewProducts makes a handle of the library for one stream, with a workspace
	// that stays the caller's and that nobody else may use: products in captures and
	// bits that repeat depend on it. Products are IEEE float32, without TF32 and without atomic additions.
	NewProducts(s Stream, workspace Ptr, bytes int64) (Products, error)
}

// Products puts matrix products on its stream. A shape must have been multiplied
// once outside captures before it is captured, since code is loaded with the
// first call.
type Products interface {
	Multiply(Product) error
	Close() error
}

// Product is C = A·B, or C += A·B, of float32 matrices of M×K, K×N and M×N values,
// stored by rows. What C holds before counts only under Add.
type Product struct {
	M, N, K             int
	A, B, C             Ptr
	RowA, RowB, RowC    int  // values from one row of storage to the next
	TransA, TransB      bool // A is stored as K×M, B as N×K
	Add                 bool
	Batch               int   // so many products, one after the other in memory; 0 is 1
	NextA, NextB, NextC int64 // values from one to the next
}

// ByColumns is the same product for a library that stores by columns: where Row is a
// leading dimension, it is op(A)·op(B) of M×K and K×N values. A matrix stored by rows is its transpose stored by columns, and
// Cᵀ = Bᵀ·Aᵀ: so the operands change places, and what is transposed stays so.
func (p Product) ByColumns() Product {
	q := p
	q.M, q.N = p.N, p.M
	q.A, q.RowA, q.TransA, q.NextA = p.B, p.RowB, p.TransB, p.NextB
	q.B, q.RowB, q.TransB, q.NextB = p.A, p.RowA, p.TransA, p.NextA
	return q
}

// Check finds sizes that no matrices have.
func (p Product) Check() error {
	widthA, widthB := p.K, p.N
	if p.TransA {
		widthA = p.M
	}
	if p.TransB {
		widthB = p.K
	}
	if p.M < 1 || p.N < 1 || p.K < 1 || p.RowA < widthA || p.RowB < widthB || p.RowC < p.N || p.Batch < 0 || p.A == 0 || p.B == 0 || p.C == 0 {
		return fmt.Errorf("%d products of %d×%d×%d with rows of %d, %d and %d values are none", max(p.Batch, 1), p.M, p.K, p.N, p.RowA, p.RowB, p.RowC)
	}
	return nil
}
