package kernels

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/privgrad/privgrad/internal/cuda/gputest"
	"github.com/privgrad/privgrad/internal/ir"
)

var nan32 = float32(math.NaN())

// machine is a device that runs the shipped PTX. The interpreter checks every access: every buffer of a test has exactly the
// length that a kernel may touch, so that it finds what goes beyond; what no kernel may read is not written, or NaN.
type machine struct {
	t   *testing.T
	mem gputest.Machine
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	return &machine{t, gputest.New(t)}
}

func (m *machine) alloc(n int) Ptr {
	p, err := m.mem.Alloc(max(n, 1))
	if err != nil {
		m.t.Fatal(err)
	}
	return p
}

func (m *machine) bytes(x []byte) Ptr {
	p := m.alloc(len(x))
	if err := m.mem.Write(p, x); err != nil {
		m.t.Fatal(err)
	}
	return p
}

func (m *machine) floats(x []float32) Ptr {
	b := make([]byte, 0, 4*len(x))
	for _, v := range x {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return m.bytes(b)
}

func (m *machine) doubles(x []float64) Ptr {
	b := make([]byte, 0, 8*len(x))
	for _, v := range x {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
	}
	return m.bytes(b)
}

// empty is room for n float32 values that nobody has written.
func (m *machine) empty(n int) Ptr { return m.alloc(4 * n) }

// copyOut wants all of it to be written.
func (m *machine) copyOut(p Ptr, n int) []byte {
	m.t.Helper()
	b := make([]byte, n)
	if n == 0 {
		return b
	}
	if ok, err := m.mem.Written(p, n); err != nil || !ok {
		m.t.Fatalf("a result was not written (%v)", err)
	}
	if err := m.mem.Read(b, p); err != nil {
		m.t.Fatal(err)
	}
	return b
}

func (m *machine) read(p Ptr, n int) []float32 {
	m.t.Helper()
	b, x := m.copyOut(p, 4*n), make([]float32, n)
	for i := range x {
		x[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return x
}

func (m *machine) readDoubles(p Ptr, n int) []float64 {
	m.t.Helper()
	b, x := m.copyOut(p, 8*n), make([]float64, n)
	for i := range x {
		x[i] = math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:]))
	}
	return x
}

// batch is the end of a run: there are rows before it, which it must not read, and only those of it that are live after them.
func (m *machine) batch(s size, rows ...int32) Batch {
	const first = 3
	b := make([]byte, RunBytes)
	live := first + s.live
	if s.live == 0 {
		live-- // all dead, and one before
	}
	binary.LittleEndian.PutUint32(b[RunLive:], uint32(live))
	for _, r := range append([]int32{-1, -1, -1}, rows...) {
		b = binary.LittleEndian.AppendUint32(b, uint32(r))
	}
	return Batch{m.bytes(b), first, s.capacity}
}

func (m *machine) launch(l Launch) {
	m.t.Helper()
	image, err := m.mem.Image(func(capability, version int) ([][]byte, error) { return Images(l.Module, capability, version) })
	if errors.Is(err, ErrNoCubin) {
		m.t.Skip(err)
	}
	if err != nil {
		m.t.Fatal(err)
	}
	if err := m.mem.Launch(l.Module, image, l.Name, l.Grid, l.Block, l.Shared, l.Args); err != nil {
		m.t.Fatal(err)
	}
}

// normals gives n numbers of either sign.
func normals(rng *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
}

// spoil makes all but the first live of capacity rows NaN.
func spoil(x []float32, live, capacity int) []float32 {
	for i := len(x) / capacity * live; i < len(x); i++ {
		x[i] = nan32
	}
	return x
}

func fill(n int, v float32) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = v
	}
	return x
}

// untouched is what tests find where a kernel must not write.
const untouched = 1234.5

// truth is a sum in float64, with what bounds the rounding of another order: the sum of magnitudes.
type truth struct{ sum, size float64 }

func (e *truth) add(terms ...float64) {
	p := 1.0
	for _, t := range terms {
		p *= t
	}
	e.sum += p
	e.size += math.Abs(p)
}

// near compares float32 results with true ones, of which each term went through so many roundings, and the
// result through one more. NaN is as it should be where both are.
func near(t *testing.T, what string, got []float32, want []truth, roundings int) {
	t.Helper()
	wide := make([]float64, len(got))
	for i, g := range got {
		wide[i] = float64(g)
	}
	near64(t, what, wide, want, roundings+1)
}

func near64(t *testing.T, what string, got []float64, want []truth, roundings int) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d values, want %d", what, len(got), len(want))
	}
	for i, g := range got {
		w := want[i]
		limit := gamma(roundings, unit)*w.size + 0x1p-149
		if d := math.Abs(g - w.sum); !(d <= limit) && !(g != g && w.sum != w.sum) {
			t.Fatalf("%s: value %d is %v, want %v within %.3g: off by %.3g", what, i, g, w.sum, limit, d)
		}
	}
}

// same compares bits, all NaNs being one.
func same(t *testing.T, what string, got, want []float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d values, want %d", what, len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] && (got[i] == got[i] || want[i] == want[i]) {
			t.Fatalf("%s: value %d is %v, want %v", what, i, got[i], want[i])
		}
	}
}

// close64 compares float64 results.
func close64(t *testing.T, what string, got, want, relative float64) {
	t.Helper()
	if d := math.Abs(got - want); !(d <= relative*math.Abs(want)) {
		t.Fatalf("%s is %v, want %v: off by %.3g of it", what, got, want, d/want)
	}
}

// size is a run of a capacity with fewer live rows.
type size struct{ live, capacity int }

func (s size) String() string { return fmt.Sprintf("%d of %d", s.live, s.capacity) }

func denseOp(in, out int, bias bool) *ir.Op {
	op := &ir.Op{Kind: ir.Dense, Shape: []int{in}, Out: []int{out}, Weight: 0, Bias: ir.None}
	if bias {
		op.Bias = 1
	}
	return op
}

func imageOp(kind ir.Kind, channels, h, w, out int, win ir.Window, bias bool) *ir.Op {
	oh, ow := win.Out(h, w)
	op := &ir.Op{Kind: kind, Shape: []int{channels, h, w}, Out: []int{out, oh, ow}, Weight: ir.None, Bias: ir.None, Window: win}
	if kind == ir.Conv {
		op.Weight = 0
		if bias {
			op.Bias = 1
		}
	}
	return op
}

// taps visits every product of a convolution or a pool over one channel: output o, input i, weight k.
func taps(op *ir.Op, f func(o, i, k int)) {
	win := op.Window
	channels, h, w := op.Shape[0], op.Shape[1], op.Shape[2]
	filters := op.Out[0]
	for n := range filters * op.Out[1] * op.Out[2] {
		oc, oy, ox := n/(op.Out[1]*op.Out[2]), n/op.Out[2]%op.Out[1], n%op.Out[2]
		for k := range channels * win.H * win.W {
			c, ky, kx := k/(win.H*win.W), k/win.W%win.H, k%win.W
			if op.Kind != ir.Conv && c != oc {
				continue
			}
			y, x := oy*win.StrideH-win.PadTop+ky*win.DilationH, ox*win.StrideW-win.PadLeft+kx*win.DilationW
			if y >= 0 && y < h && x >= 0 && x < w {
				f(n, (c*h+y)*w+x, oc*channels*win.H*win.W+k)
			}
		}
	}
}

// Dense sums round no more than SumRoundings says, however many rows there are: blocks of sumBlock, of which a part's are added in float32.
func TestDenseSumRoundings(t *testing.T) {
	for rows := 1; rows <= 3*SumPart; rows++ {
		squares := 0.0
		for b := range rows {
			part := min(SumPart, rows-b/SumPart*SumPart) // examples of it
			at := b % SumPart
			block, blocks := at/sumBlock, ceil(part, sumBlock)
			chain := min(sumBlock, part-block*sumBlock) - at%sumBlock
			added := blocks - max(block, 1) // the first is added to zero
			squares += float64((chain + added) * (chain + added))
		}
		if w := math.Sqrt(squares / float64(rows)); w > SumRoundings(rows, 1) {
			t.Errorf("%d rows: %v, %v is promised", rows, w, SumRoundings(rows, 1))
		}
	}
}

func sumOfSquares(from, to int) (sum float64) {
	for i := from; i <= to; i++ {
		sum += float64(i * i)
	}
	return sum
}

func TestSumRoundings(t *testing.T) {
	full := math.Sqrt(33 * 65 / 6.)
	tf32, bf16 := pixelMaths[0].DenseSumRoundings, pixelMaths[1].DenseSumRoundings
	for _, c := range []struct {
		name         string
		of           func(rows, blocks int) float64
		rows, blocks int
		want         float64
	}{
		{"float32", SumRoundings, 1, 1, 1},
		{"float32", SumRoundings, 3, 1, math.Sqrt(14. / 3)},      // 1, 2 and 3
		{"float32", SumRoundings, 17, 1, math.Sqrt(105 + 3/17.)}, // 2 to 17, and 2
		{"float32", SumRoundings, 32, 1, full},
		{"float32", SumRoundings, 500, 16, full},
		{"float32", SumRoundings, 500, 1 << 29, full + 1}, // so many float64 additions are one of float32
		{"tf32", tf32, 1, 1, 32},                          // a product of 8 terms
		{"tf32", tf32, 9, 1, math.Sqrt((8*64*64 + 32*32) / 9.)},
		{"tf32", tf32, 500, 1, math.Sqrt((8*64*64 + 32*32) / 9.)}, // parts of more have less
		{"bf16", bf16, 1, 1, 64},
		{"bf16", bf16, 32, 1, 65},
		{"bf16", bf16, 500, 1, math.Sqrt((16*(79*79+sumOfSquares(66, 79)) + 65*65) / 241.)}, // 15 blocks and one more example
	} {
		if got := c.of(c.rows, c.blocks); math.Abs(got-c.want) > 1e-7 {
			t.Errorf("%s, %d rows, %d blocks: %v, want %v", c.name, c.rows, c.blocks, got, c.want)
		}
	}
}
