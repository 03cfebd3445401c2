package kernels

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/ptx"
	"github.com/privgrad/privgrad/nn"
)

// Real shapes. Networks are run whole in other tests, and small ones. Here the products of every named model have the grids of
// real batches; of each a few blocks run, and what they write is compared with float64 sums of just these elements. Memory is
// sparse, and full of numbers that follow from their addresses, so that a wrong index gives wrong sums.

func contentAt(address uint64) float32 {
	h := address / 4 * 0x9e3779b97f4a7c15
	h = (h ^ h>>29) * 0xbf58476d1ce4e5b9
	return float32(int32(h^h>>32)) * 0x1p-31
}

func content(address uint64, b []byte) {
	for i := 0; i < len(b); i += 4 {
		binary.LittleEndian.PutUint32(b[i:], math.Float32bits(contentAt(address+uint64(i))))
	}
}

// wide is memory with one op's operands at a capacity.
type wide struct {
	t    *testing.T
	mem  *ptx.Memory
	math Math
	b    Batch
	op   *ir.Op

	x, y, dy, dx, w, bias, kept, norm2 Ptr
	stride                             int // of kept gradients
}

func newWide(t *testing.T, m Math, op *ir.Op, capacity, stride int) *wide {
	s := &wide{t: t, mem: ptx.NewSparseMemory(content), math: m, op: op, stride: stride}
	floats := func(n int) Ptr {
		p, err := s.mem.Alloc(4 * n)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	out, k, _ := op.Columns()
	in, values := ir.Size(op.Shape), ir.Size(op.Out)
	s.x, s.dx, s.y, s.dy = floats(capacity*in), floats(capacity*in), floats(capacity*values), floats(capacity*values)
	s.w, s.bias, s.kept, s.norm2 = floats(out*k), floats(out), floats(capacity*stride), floats(2*capacity*mostNorms)
	s.b = Batch{Run: floats(RunBytes/4 + capacity), Capacity: capacity}
	if err := s.mem.Write(s.b.Run+RunLive, binary.LittleEndian.AppendUint32(nil, uint32(capacity))); err != nil {
		t.Fatal(err)
	}
	return s
}

// at is an element that nobody has written.
func (s *wide) at(p Ptr, i int) float64 { return float64(contentAt(p + uint64(4*i))) }

// wideModules are parsed once.
var wideModules = map[string]*ptx.Module{}

// check runs the first block, the last and two others of a launch, and compares what they have written of the examples that they begin with:
// elements of rows of so many, a stride apart. example gives the one with which a block begins; want gives the sum for an element,
// and that of its terms' magnitudes.
func (s *wide) check(l Launch, to Ptr, row, stride, terms int, example func(x, y int) int, want func(b, e int) (sum, size float64)) {
	s.t.Helper()
	module := wideModules[l.Module]
	if module == nil {
		text, err := PTX(l.Module)
		if err != nil {
			s.t.Fatal(err)
		}
		if module, err = ptx.Parse(text); err != nil {
			s.t.Fatal(err)
		}
		wideModules[l.Module] = module
	}
	kernel, err := module.Kernel(l.Name)
	if err != nil {
		s.t.Fatal(err)
	}
	all := l.Grid[0] * l.Grid[1] * l.Grid[2]
	random := rand.New(rand.NewPCG(uint64(all), 5))
	blocks := []int{0, random.IntN(all), random.IntN(all), all - 1}
	slices.Sort(blocks)
	blocks = slices.Compact(blocks)
	if err := kernel.Launch(s.mem, l.Grid, l.Block, l.Shared, l.Args, ptx.Options{Blocks: slices.Values(blocks), NoRaces: true, SharedLimit: optIn}); err != nil {
		s.t.Fatalf("%s: %v", l.Name, err)
	}
	bound := float64(terms) * 0x1p-23
	if !s.math.plain() {
		bound = 0x1p-7 + float64(terms)*0x1p-20 // factors of 8 digits, and sums whose terms are cut off
	}
	got := make([]byte, 4*row)
	for _, n := range blocks {
		b := example(n%l.Grid[0], n/l.Grid[0])
		if b >= s.b.Capacity { // of a smaller phase
			continue
		}
		at := to + 4*uint64(b)*uint64(stride)
		if err := s.mem.Read(got, at); err != nil {
			s.t.Fatal(err)
		}
		var changed []int
		for e := range row {
			if math.Float32frombits(binary.LittleEndian.Uint32(got[4*e:])) != contentAt(at+uint64(4*e)) {
				changed = append(changed, e)
			}
		}
		if len(changed) == 0 {
			s.t.Errorf("%s: block %d of %v has written nothing of example %d", l.Name, n, l.Grid, b)
		}
		for i := 0; i < len(changed); i += 1 + len(changed)/16 {
			e := changed[i]
			x := float64(math.Float32frombits(binary.LittleEndian.Uint32(got[4*e:])))
			if sum, size := want(b, e); !(math.Abs(x-sum) <= bound*size) {
				s.t.Errorf("%s: grid %v, example %d, element %d is %v, want %v", l.Name, l.Grid, b, e, x, sum)
			}
		}
	}
}

// every is where blocks begin that have so many places of those that an example has.
func every(block, places int) func(x, y int) int {
	return func(x, _ int) int { return x * block / places }
}

// firstOf is the example with which a block begins: of a stencil, the first of the bundle that has its first row.
func firstOf(l Launch, rows int, others func(x, y int) int) func(x, y int) int {
	if l.Module != "stencil" {
		return others
	}
	bundle, down := int(l.Args[8]), int(l.Args[9])
	return func(x, _ int) int { return x * down / rows * bundle }
}

// tap is the pixel that a window reads at an output position through a tap, −1 outside.
func tap(op *ir.Op, p, u, v int) int {
	w := op.Window
	i, j := p/op.Out[2]*w.StrideH+u*w.DilationH-w.PadTop, p%op.Out[2]*w.StrideW+v*w.DilationW-w.PadLeft
	if i < 0 || j < 0 || i >= op.Shape[1] || j >= op.Shape[2] {
		return -1
	}
	return i*op.Shape[2] + j
}

// total adds products up.
type total struct{ sum, size float64 }

func (t *total) add(x float64) { t.sum, t.size = t.sum+x, t.size+math.Abs(x) }

func (s *wide) conv(inputGrad bool) {
	op := s.op
	out, k, positions := op.Columns()
	pixels, in, values := op.Shape[1]*op.Shape[2], ir.Size(op.Shape), ir.Size(op.Out)
	w := op.Window
	taps := w.H * w.W
	l := s.math.ConvForward(s.b, op, s.x, s.w, s.bias, s.y)
	s.check(l, s.y, values, values, k, firstOf(l, op.Out[1], every(64, positions)), func(b, e int) (float64, float64) {
		o, p := e/positions, e%positions
		var t total
		for i := range k {
			if at := tap(op, p, i%taps/w.W, i%w.W); at >= 0 {
				t.add(s.at(s.w, o*k+i) * s.at(s.x, b*in+i/taps*pixels+at))
			}
		}
		t.add(s.at(s.bias, o))
		return t.sum, t.size
	})
	s.check(s.math.ConvStore(s.b, op, s.x, s.dy, s.kept, s.stride, s.norm2), s.kept, out*(k+1), s.stride, positions, every(1, 1), func(b, e int) (float64, float64) {
		var t total
		for p := range positions {
			if e >= out*k {
				t.add(s.at(s.dy, b*values+(e-out*k)*positions+p))
			} else if i := e % k; tap(op, p, i%taps/w.W, i%w.W) >= 0 {
				t.add(s.at(s.dy, b*values+e/k*positions+p) * s.at(s.x, b*in+i/taps*pixels+tap(op, p, i%taps/w.W, i%w.W)))
			}
		}
		return t.sum, t.size
	})
	if !inputGrad {
		return
	}
	first := func(x, y int) int { // pixels that lie a stride apart are in blocks of their own
		phase := y % (w.StrideH * w.StrideW)
		return 64 * x / (ceil(op.Shape[1]-phase/w.StrideW, w.StrideH) * ceil(op.Shape[2]-phase%w.StrideW, w.StrideW))
	}
	l = s.math.ConvInputGrad(s.b, op, s.dy, s.w, s.dx, false)
	s.check(l, s.dx, in, in, out*taps, firstOf(l, op.Shape[1], first), func(b, e int) (float64, float64) {
		var t total
		c, at := e/pixels, e%pixels
		for p := range positions {
			for i := range taps {
				if tap(op, p, i/w.W, i%w.W) != at {
					continue
				}
				for o := range out {
					t.add(s.at(s.w, o*k+c*taps+i) * s.at(s.dy, b*values+o*positions+p))
				}
			}
		}
		return t.sum, t.size
	})
}

// tile is how many examples a block of a dense product has.
func (s *wide) tile(l Launch) int {
	var rows, cols int
	if _, err := fmt.Sscanf(l.Name[strings.LastIndex(l.Name, "_")+1:], "%dx%d", &rows, &cols); err != nil {
		return 64 // on tensor cores
	}
	return rows
}

func (s *wide) dense(inputGrad bool) {
	out, in, _ := s.op.Columns()
	l := s.math.DenseForward(s.b, s.op, s.x, s.w, s.bias, s.y)
	s.check(l, s.y, out, out, in, every(s.tile(l), 1), func(b, o int) (float64, float64) {
		var t total
		for i := range in {
			t.add(s.at(s.x, b*in+i) * s.at(s.w, o*in+i))
		}
		t.add(s.at(s.bias, o))
		return t.sum, t.size
	})
	if !inputGrad {
		return
	}
	l = s.math.DenseInputGrad(s.b, s.op, s.dy, s.w, s.dx, false)
	s.check(l, s.dx, in, in, out, every(s.tile(l), 1), func(b, i int) (float64, float64) {
		var t total
		for o := range out {
			t.add(s.at(s.dy, b*out+o) * s.at(s.w, o*in+i))
		}
		return t.sum, t.size
	})
}

func realShapes(t *testing.T, model string, m Math, capacity int) {
	t.Helper()
	built, err := nn.Build(model, nn.Options{Classes: 10, Activation: "relu"})
	if err != nil {
		t.Fatal(err)
	}
	network, err := built.Lower()
	if err != nil {
		t.Fatal(err)
	}
	p := network.Program
	for i := range p.Ops {
		op := &p.Ops[i]
		if op.Weight == ir.None || op.Kind != ir.Conv && op.Kind != ir.Dense {
			continue
		}
		s := newWide(t, m, op, capacity, p.NumParams())
		if op.Kind == ir.Conv {
			s.conv(i > 0)
		} else {
			s.dense(i > 0)
		}
	}
}

// TestRealShapes takes the largest batch of a small model; TestLongRealShapes all models and batches, in float32 and on tensor cores.
func TestRealShapes(t *testing.T) { realShapes(t, "cnn-mnist", Math(device.Float32), 4096) }

func TestLongRealShapes(t *testing.T) {
	for _, info := range nn.Names() {
		if info.Input == [3]int{} {
			continue // it takes any shape
		}
		small := 300
		if info.Input[0] == 3 {
			small = 250
		}
		for _, capacity := range []int{small, 4096} {
			for _, p := range []device.Precision{device.Float32, device.TF32, device.BF16} {
				t.Run(fmt.Sprint(info.Name, " ", capacity, " ", p), func(t *testing.T) { realShapes(t, info.Name, Math(p), capacity) })
			}
		}
	}
}
