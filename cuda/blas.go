package cuda

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/privgrad/privgrad/internal/cuda/driver"
	"github.com/privgrad/privgrad/internal/cuda/kernels"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ir"
)

// CuBLAS is the version of the library that is installed.
func (d *Device) CuBLAS() (version string, err error) {
	return version, d.do(func() error {
		version, err = CuBLAS(d.driver)
		return err
	})
}

// CuBLAS is the version of the library that a driver finds. The error says what was
// looked for and what to do.
func CuBLAS(d driver.Driver) (string, error) {
	b, ok := d.(driver.BLAS)
	if !ok {
		return "", errors.New("this driver has no cuBLAS")
	}
	v, err := b.BLAS()
	if err != nil {
		return "", fmt.Errorf("cuBLAS was not found: %w: install it (libcublas of the CUDA toolkit, or Python's nvidia-cublas) "+
			"and put its directory into LD_LIBRARY_PATH, or use --gemm own", err)
	}
	return fmt.Sprintf("%d.%d.%d", v/10000, v/100%100, v%100), nil
}

func (d *Device) checkCuBLAS(o device.Options) error {
	if o.Exact {
		return errors.New("exact nets promise bits, and cuBLAS none: use --gemm own with exact noise")
	}
	if o.Precision != device.Float32 {
		return fmt.Errorf("cuBLAS is told to multiply in float32: use --gemm own for products in %s, or --precision float32", o.Precision)
	}
	_, err := d.CuBLAS()
	return err
}

// blas is the dense products of a net that cuBLAS multiplies, on the net's stream with
// a workspace of its own. The graph is frozen at the capacity, and so are the products: the
// library does not know which rows are live. What it makes of dead ones is not read.
type blas struct {
	products driver.Products
	own      map[product]bool // left to the project's kernels
}

// product is a dense product of whole rows: an op's forward product, or the gradient
// at its input.
type product struct {
	op        int
	grad, add bool
}

// takes says whether cuBLAS multiplies it.
func (b *blas) takes(p product) bool { return b != nil && !b.own[p] }

// products are where the examples of a weight's gradient are put together for cuBLAS, and
// what it makes of them.
type products struct {
	block, blocks  int         // examples of a product, products of a chunk
	deltas, inputs kernels.Ptr // [block·blocks][Line(out)] and [ProductLine]
	sums           kernels.Ptr // [groupBlocks][out][ProductLine]
}

// groupBlocks is how many blocks' gradients lie in memory at a time.
const groupBlocks = 8

// summed are the dense ops whose gradients are added without being kept, by a product over the examples.
func summed(s *ir.Schedule) (ops []int) {
	if s.Views() > 1 { // each record's is complete before it is added
		return nil
	}
	for _, st := range s.Steps {
		if st.Kind == ir.GradSum && s.Program.Ops[st.Op].Kind == ir.Dense {
			ops = append(ops, st.Op)
		}
	}
	return ops
}

func (o *products) layOut(a *arena, s *ir.Schedule) error {
	o.block = min(a.chunk, kernels.ProductBlock)
	o.blocks = (a.chunk + o.block - 1) / o.block
	rows := o.block * o.blocks
	var deltas, inputs, sums int
	for _, i := range summed(s) {
		op := &s.Program.Ops[i]
		out, _, _ := op.Columns()
		deltas, inputs, sums = max(deltas, kernels.Line(out)), max(inputs, kernels.ProductLine(op)), max(sums, out*kernels.ProductLine(op))
	}
	if max(deltas, inputs) > kernels.MaxElements/rows || sums > kernels.MaxElements {
		return fmt.Errorf("the dense products of network %s are more than cuBLAS takes at once: %s", s.Program.Name, lessMemory)
	}
	a.take(&o.deltas, 4*rows*deltas)
	a.take(&o.inputs, 4*rows*inputs)
	a.take(&o.sums, 4*min(o.blocks, groupBlocks)*sums)
	return nil
}

// rowsProduct is the forward product of whole buffers, or the gradient at the input.
func (a *arena) rowsProduct(op *ir.Op, p product, from, w, to kernels.Ptr) driver.Product {
	out, in, _ := op.Columns()
	rows := a.views.each * a.chunk
	if p.grad {
		return driver.Product{
			M: rows, N: in, K: out, A: driver.Ptr(from), RowA: out, B: driver.Ptr(w), RowB: in, C: driver.Ptr(to), RowC: in, Add: p.add,
		}
	}
	return driver.Product{M: rows, N: out, K: in, A: driver.Ptr(from), RowA: in, B: driver.Ptr(w), RowB: in, TransB: true, C: driver.Ptr(to), RowC: out}
}

// sumProducts are the gradients of the blocks of a chunk, a group at a time, which
// they overwrite.
func (a *arena) sumProducts(op *ir.Op) (all []driver.Product) {
	out, _, _ := op.Columns()
	o, line, inputs := &a.blas, kernels.Line(out), kernels.ProductLine(op)
	for first := 0; first < o.blocks; first += groupBlocks {
		at := first * o.block * 4
		all = append(all, driver.Product{
			M: out, N: inputs, K: o.block, Batch: min(groupBlocks, o.blocks-first), TransA: true,
			A: driver.Ptr(o.deltas) + driver.Ptr(at*line), RowA: line, NextA: int64(o.block * line),
			B: driver.Ptr(o.inputs) + driver.Ptr(at*inputs), RowB: inputs, NextB: int64(o.block * inputs),
			C: driver.Ptr(o.sums), RowC: inputs, NextC: int64(out * inputs),
		})
	}
	return all
}

func (l *list) product(p driver.Product) { l.put(work{product: &p}) }

func (l *list) denseForward(b kernels.Batch, i int, x, w, bias, y kernels.Ptr) {
	op, p := &l.net.Schedule.Program.Ops[i], product{op: i}
	if !l.net.blas.takes(p) {
		l.launch(kernels.DenseForward(b, op, x, w, bias, y))
		return
	}
	l.product(l.net.arena.rowsProduct(op, p, x, w, y))
	if bias != 0 {
		l.launch(kernels.ProductBias(b, op, bias, y))
	}
}

func (l *list) denseInputGrad(b kernels.Batch, i int, dy, w, dx kernels.Ptr, add bool) {
	op, p := &l.net.Schedule.Program.Ops[i], product{i, true, add}
	if !l.net.blas.takes(p) {
		l.launch(kernels.DenseInputGrad(b, op, dy, w, dx, add))
		return
	}
	l.product(l.net.arena.rowsProduct(op, p, dy, w, dx))
}

// denseSum puts the examples that count side by side, with zeros for all others on
// both sides: 0·NaN would be NaN.
func (l *list) denseSum(b kernels.Batch, i int, x, dy, factors, sumW, sumB kernels.Ptr) {
	op, a := &l.net.Schedule.Program.Ops[i], &l.net.arena
	if l.net.blas == nil {
		l.launch(kernels.DenseSum(b, op, x, dy, factors, sumW, sumB))
		return
	}
	o := &a.blas
	l.launch(kernels.ProductDeltas(b, op, o.block*o.blocks, dy, factors, o.deltas))
	l.launch(kernels.ProductInputs(b, op, o.block*o.blocks, x, factors, o.inputs))
	for _, p := range a.sumProducts(op) {
		l.product(p)
		l.launch(kernels.ProductSum(op, o.sums, p.Batch, sumW, sumB))
	}
}

// workspaceBytes is what the library's manual recommends for a generation.
func workspaceBytes(capability int) int64 {
	if capability >= 90 {
		return 32 << 20
	}
	return 4 << 20
}

// openBLAS makes the handle and tries every product that the net will record, which
// also loads its code before a capture.
func (n *net) openBLAS() error {
	what := "cuBLAS"
	bytes := workspaceBytes(n.device.info.Capability)
	workspace, err := n.alloc(bytes, "a workspace of cuBLAS", "use --gemm own")
	if err != nil {
		return err
	}
	c, ok := n.device.context.(driver.BLASContext)
	if !ok {
		return errors.New("this driver has no cuBLAS")
	}
	h, err := c.NewProducts(n.stream, workspace, bytes)
	if err != nil {
		return n.device.failed(what, err)
	}
	n.blas = &blas{h, map[product]bool{}}
	p := n.Schedule.Program
	for i := range p.Ops {
		op := &p.Ops[i]
		if op.Kind != ir.Dense {
			continue
		}
		x, w, y := n.arena.values[op.In[0]], n.arena.shifted+uint64(4*p.Params[op.Weight].Offset), n.arena.values[i+1]
		if err := n.tryRows(op, product{op: i}, x, w, y); err != nil {
			return err
		}
		if dx, dy := n.arena.deltas[op.In[0]], n.arena.deltas[i+1]; dx != 0 && dy != 0 {
			for _, add := range []bool{false, true} {
				if err := n.tryRows(op, product{i, true, add}, dy, w, dx); err != nil {
					return err
				}
			}
		}
	}
	for _, i := range summed(n.Schedule) {
		if err := n.trySums(&p.Ops[i]); err != nil {
			return err
		}
	}
	return nil
}

// errReduced is of a library that does not multiply in float32: an environment
// variable can make it.
var errReduced = errors.New("cuBLAS multiplies with fewer bits than float32 has, though it was told not to: " +
	"unset NVIDIA_TF32_OVERRIDE and CUBLAS_EMULATE_SINGLE_PRECISION, or use --gemm own")

// lastBit times itself loses its last bits in anything narrower than float32.
const lastBit = 1 + 0x1p-23

// tryRows multiplies equal rows of public numbers. A row's result must not depend on
// its place in the batch: that changes when another record joins or leaves, and with
// it would change what a record's gradient is before it is clipped, by more than any
// bound on rounding says (docs/proofs/rounding.md). The order in which a library adds follows
// from shapes and places, so that random rows show it. A product that treats rows differently is left
// to the project's kernels.
func (n *net) tryRows(op *ir.Op, p product, from, w, to kernels.Ptr) error {
	x := n.arena.rowsProduct(op, p, from, w, to)
	random := rand.New(rand.NewPCG(uint64(p.op), uint64(x.K)))
	for trial := range 1 + max(1, 64/x.N) {
		value := func() float32 { return float32(random.NormFloat64()) }
		if trial == 0 {
			value = func() float32 { return 0 }
		}
		row, weights := make([]float32, x.K), make([]float32, x.N*x.K)
		for i := range row {
			row[i] = value()
		}
		for i := range weights {
			weights[i] = value()
		}
		if trial == 0 {
			row[0] = lastBit
			weights[0] = lastBit // [0][0] in either layout
		}
		rows := make([]float32, x.M*x.K)
		for r := range x.M {
			copy(rows[r*x.K:], row)
		}
		got, err := n.try(x, rows, weights, make([]float32, x.M*x.N))
		if err != nil {
			return err
		}
		for i, y := range got {
			switch {
			case trial == 0 && i%x.N == 0 && y != lastBit*lastBit:
				return errReduced
			case math.Float32bits(y) != math.Float32bits(got[i%x.N]):
				n.blas.own[p] = true
			}
		}
	}
	return n.blank(x)
}

// trySums checks that no bit is lost; any order of the sum is covered.
func (n *net) trySums(op *ir.Op) error {
	for _, x := range n.arena.sumProducts(op) {
		a, b := make([]float32, x.Batch*int(x.NextA)), make([]float32, x.Batch*int(x.NextB))
		a[0], b[0] = lastBit, lastBit
		got, err := n.try(x, a, b, make([]float32, x.Batch*int(x.NextC)))
		if err != nil {
			return err
		}
		if got[0] != lastBit*lastBit {
			return errReduced
		}
		if err := n.blank(x); err != nil {
			return err
		}
	}
	return nil
}

// try multiplies numbers of the host.
func (n *net) try(x driver.Product, a, b, c []float32) ([]float32, error) {
	d := n.device
	err := errors.Join(d.context.CopyIn(x.A, bytesOf(a)), d.context.CopyIn(x.B, bytesOf(b)), d.context.CopyIn(x.C, bytesOf(c)))
	if err == nil {
		err = n.blas.products.Multiply(x)
	}
	if err == nil {
		err = n.stream.Sync()
	}
	if err == nil {
		err = d.context.CopyOut(bytesOf(c), x.C)
	}
	return c, d.failed("trying a product of cuBLAS", err)
}

// blank leaves no numbers behind that a fault could take for an example's.
func (n *net) blank(x driver.Product) error {
	const nan = 1<<32 - 1
	a, b, c := x.M*x.K, x.K*x.N, x.M*x.N
	if x.Batch > 0 {
		a, b, c = x.Batch*int(x.NextA), x.Batch*int(x.NextB), x.Batch*int(x.NextC)
	}
	return n.device.failed("trying a product of cuBLAS", errors.Join(
		n.stream.Set(x.A, nan, a), n.stream.Set(x.B, nan, b), n.stream.Set(x.C, nan, c), n.stream.Sync())) // copies do not wait for it
}
