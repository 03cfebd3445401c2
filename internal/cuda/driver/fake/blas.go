package fake

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/privgrad/privgrad/internal/cuda/driver"
)

// BLAS says what the library of matrix products is like.
type BLAS struct {
	Absent   bool
	Reduced  bool // it multiplies in TF32 whatever it is told, as an environment variable can make it
	RowOrder bool // it adds up the rows of a product in orders of their own, as the library may
}

const blasVersion = 120401

// Statuses of the library that callers see.
const (
	statusInvalidValue    = 7
	statusExecutionFailed = 13
)

var statuses = map[int]string{
	1: "CUBLAS_STATUS_NOT_INITIALIZED", 3: "CUBLAS_STATUS_ALLOC_FAILED", statusInvalidValue: "CUBLAS_STATUS_INVALID_VALUE",
	statusExecutionFailed: "CUBLAS_STATUS_EXECUTION_FAILED", 14: "CUBLAS_STATUS_INTERNAL_ERROR",
}

func status(call string, code int, log string, args ...any) *driver.Error {
	return &driver.Error{Call: call, Code: code, Name: statuses[code], Log: fmt.Sprintf(log, args...)}
}

func (d *Driver) BLAS() (int, error) {
	if d.options.BLAS.Absent {
		return 0, fmt.Errorf("looked for libcublas.so.13, .12 and .11: this fake has none")
	}
	return blasVersion, d.enter("cublasGetProperty")
}

// The modes of a Handle that make products what driver.BLASContext promises.
const (
	PedanticMath = 2
	NoAtomics    = 0
)

// Handle is the library's own handle. It implements driver.Products once it
// has a stream and a workspace.
type Handle struct {
	context       *Context
	stream        *Stream
	workspace     driver.Ptr
	bytes         int64
	math, atomics int
	warm          map[shape]bool
}

// shape is what the library chooses code by.
type shape struct {
	m, n, k, batch int
	ta, tb, add    bool
}

// NewHandle is cublasCreate, which allocates.
func (c *Context) NewHandle() (*Handle, error) {
	if c.driver.options.BLAS.Absent {
		return nil, status("cublasCreate", 1, "there is no library")
	}
	if err := c.enterUncaptured("cublasCreate"); err != nil {
		return nil, err
	}
	h := &Handle{context: c, warm: map[shape]bool{}}
	c.held[h] = true
	return h, nil
}

func (h *Handle) enter(call string) error {
	if err := h.context.enter(call); err != nil {
		return err
	}
	if !h.context.held[h] {
		return status(call, 1, "the handle is destroyed")
	}
	return nil
}

// SetStream takes the workspace away, as the library does.
func (h *Handle) SetStream(s *Stream) error {
	if err := h.enter("cublasSetStream"); err != nil {
		return err
	}
	h.stream, h.workspace, h.bytes = s, 0, 0
	return nil
}

// SetWorkspace is the library's.
func (h *Handle) SetWorkspace(p driver.Ptr, bytes int64) error {
	const call = "cublasSetWorkspace"
	if err := h.enter(call); err != nil {
		return err
	}
	if _, err := h.context.memory.Written(uint64(p), int(bytes)); err != nil || p%256 != 0 {
		return status(call, statusInvalidValue, "%d bytes at %#x are not allocated or not aligned", bytes, uint64(p))
	}
	h.workspace, h.bytes = p, bytes
	return nil
}

// SetMath and SetAtomics are the library's modes.
func (h *Handle) SetMath(mode int) error    { return h.set("cublasSetMathMode", &h.math, mode) }
func (h *Handle) SetAtomics(mode int) error { return h.set("cublasSetAtomicsMode", &h.atomics, mode) }

func (h *Handle) set(call string, field *int, mode int) error {
	err := h.enter(call)
	if err == nil {
		*field = mode
	}
	return err
}

func (c *Context) NewProducts(on driver.Stream, workspace driver.Ptr, bytes int64) (driver.Products, error) {
	s, ok := on.(*Stream)
	if !ok || s.context != c || !c.held[s] {
		return nil, status("cublasSetStream", statusInvalidValue, "the stream is no live one of this context")
	}
	h, err := c.NewHandle()
	if err != nil {
		return nil, err
	}
	for _, call := range []func() error{
		func() error { return h.SetStream(s) },
		func() error { return h.SetWorkspace(workspace, bytes) },
		func() error { return h.SetMath(PedanticMath) },
		func() error { return h.SetAtomics(NoAtomics) },
	} {
		if err := call(); err != nil {
			_ = h.Close() // a context that is lost frees it
			return nil, err
		}
	}
	return h, nil
}

func (h *Handle) Close() error {
	if err := h.context.enterUncaptured("cublasDestroy"); err != nil {
		return err
	}
	if !h.context.held[h] {
		return status("cublasDestroy", 1, "destroyed before")
	}
	delete(h.context.held, h)
	if h.stream != nil && h.context.held[h.stream] {
		h.context.advance(func() bool { return len(h.stream.queue) == 0 }) // it waits for the device
	}
	return nil
}

// matrix is elements (i, j) at i·row + j·col.
type matrix struct {
	at             driver.Ptr
	row, col, next int64
}

func layout(at driver.Ptr, line int, turned bool, next int64) matrix {
	if turned {
		return matrix{at, 1, int64(line), next}
	}
	return matrix{at, int64(line), 1, next}
}

func (h *Handle) Multiply(p driver.Product) error {
	return h.gemm(p, layout(p.A, p.RowA, p.TransA, p.NextA), layout(p.B, p.RowB, p.TransB, p.NextB), layout(p.C, p.RowC, false, p.NextC))
}

// Gemm is the library's call, of matrices that are stored by columns: p.Row are
// leading dimensions.
func (h *Handle) Gemm(p driver.Product) error {
	return h.gemm(p, layout(p.A, p.RowA, !p.TransA, p.NextA), layout(p.B, p.RowB, !p.TransB, p.NextB), layout(p.C, p.RowC, true, p.NextC))
}

func (h *Handle) gemm(p driver.Product, a, b, c matrix) error {
	call := "cublasGemmEx"
	if p.Batch > 0 {
		call = "cublasGemmStridedBatchedEx"
	}
	if err := h.enter(call); err != nil {
		return err
	}
	if h.stream == nil {
		return status(call, statusInvalidValue, "no stream was set")
	}
	if err := h.stream.check(call); err != nil {
		return err
	}
	if p.M < 1 || p.N < 1 || p.K < 1 || (a.at|b.at|c.at)%4 != 0 {
		return status(call, statusInvalidValue, "%+v", p)
	}
	s := shape{p.M, p.N, p.K, p.Batch, p.TransA, p.TransB, p.Add}
	if h.stream.capture != nil {
		if h.workspace == 0 || !h.warm[s] {
			h.stream.capture.spoiled = true
			return status(call, statusExecutionFailed, "captured with a workspace of %d bytes; the shape was multiplied before: %v", h.bytes, h.warm[s])
		}
	} else {
		h.warm[s] = true
	}
	workspace, bytes := h.workspace, h.bytes
	options := h.context.driver.options.BLAS
	reduced := options.Reduced || h.math != PedanticMath
	h.stream.put(task{name: "gemm", do: func() (time.Duration, error) {
		memory := h.context.memory
		if workspace != 0 { // nobody else's
			if err := memory.Fill(uint64(workspace), poison*0x01010101, int(bytes/4)); err != nil {
				return 0, err
			}
		}
		first := h.context.driver.options.Seed % uint64(p.K)
		if h.atomics != NoAtomics {
			first = uint64(h.context.random.IntN(p.K))
		}
		for i := range int64(max(p.Batch, 1)) {
			if err := multiply(memory, p, a, b, c, i, int(first), reduced, options.RowOrder); err != nil {
				return 0, err
			}
		}
		return taskTime, nil
	}})
	return nil
}

// floats reads the stretch of memory that m×n elements of a matrix span.
func (x matrix) floats(memory *memory, m, n int, i int64) ([]byte, uint64, error) {
	at := uint64(x.at) + uint64(4*i*x.next)
	b := make([]byte, 4*(int64(m-1)*x.row+int64(n-1)*x.col+1))
	return b, at, memory.Read(b, at)
}

func get32(b []byte, i int64) float32 {
	return math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
}

// multiply adds the terms beginning with one in the middle, each product
// rounded: nobody may count on an order, or on fused operations.
func multiply(memory *memory, p driver.Product, a, b, c matrix, batch int64, first int, reduced, rowOrder bool) error {
	x, _, err := a.floats(memory, p.M, p.K, batch)
	if err != nil {
		return err
	}
	y, _, err := b.floats(memory, p.K, p.N, batch)
	if err != nil {
		return err
	}
	z, at, err := c.floats(memory, p.M, p.N, batch)
	if err != nil {
		return err
	}
	left, right := make([]float32, p.M*p.K), make([]float32, p.N*p.K)
	for i := range p.M {
		for l := range p.K {
			left[i*p.K+l] = narrow(get32(x, int64(i)*a.row+int64(l)*a.col), reduced)
		}
	}
	for j := range p.N {
		for l := range p.K {
			right[j*p.K+l] = narrow(get32(y, int64(l)*b.row+int64(j)*b.col), reduced)
		}
	}
	for i := range p.M {
		from := first
		if rowOrder {
			// By columns, rows of the caller's matrix are columns here: both places count.
			from = (first + i) % p.K
		}
		for j := range p.N {
			begin := from
			if rowOrder {
				begin = (from + j) % p.K
			}
			u, v := left[i*p.K:(i+1)*p.K], right[j*p.K:(j+1)*p.K]
			var sum float32
			for l := begin; l < p.K; l++ {
				sum += float32(u[l] * v[l])
			}
			for l := range begin {
				sum += float32(u[l] * v[l])
			}
			k := int64(i)*c.row + int64(j)*c.col
			if p.Add {
				sum += get32(z, k)
			}
			// Element by element, since what lies between rows is not the product's.
			binary.LittleEndian.PutUint32(z[4*k:], math.Float32bits(sum))
		}
	}
	return writeRows(memory, p, c, z, at)
}

// writeRows leaves alone what lies between the rows.
func writeRows(memory *memory, p driver.Product, c matrix, z []byte, at uint64) error {
	lines, length, step := p.M, p.N, c.row
	if c.col != 1 {
		lines, length, step = p.N, p.M, c.col
	}
	for i := range int64(lines) {
		if err := memory.Write(at+uint64(4*i*step), z[4*i*step:4*(i*step+int64(length))]); err != nil {
			return err
		}
	}
	return nil
}

// narrow rounds to the ten bits of TF32.
func narrow(x float32, reduced bool) float32 {
	if !reduced {
		return x
	}
	return math.Float32frombits(math.Float32bits(x) &^ (1<<13 - 1))
}
