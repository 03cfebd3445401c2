package kernels

import (
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/ptx"
	"github.com/privgrad/privgrad/nn"
)

// Real shapes. Networks are run whole in other tests, and small ones. Here the kernels of every named model have the grids of
// real batches; of each a few blocks run, and what they write is compared with float64 sums of just these elements. Memory is
// sparse, and full of numbers that follow from their addresses, so that a wrong index gives wrong sums. Nothing here knows
// which examples or elements a block has: that shows in what it has written.

// wide is sparse memory in which a batch lies.
type wide struct {
	t      *testing.T
	mem    *ptx.Memory
	math   Math
	shared int // bytes that a block may have
	places []*place
	b      Batch
}

// place is a buffer. Where nobody has written it holds what word says.
type place struct {
	Ptr
	words   int
	word    func(i int) uint32
	touched []int // the first words of what has come into being
}

// contentAt is a number in (−1, 1). Two words make a double that is smaller, or at most a 128th.
func contentAt(address uint64) float32 {
	h := address / 4 * 0x9e3779b97f4a7c15
	h = (h ^ h>>29) * 0xbf58476d1ce4e5b9
	return float32(int32(h^h>>32)) * 0x1p-31
}

// newWide is memory for a batch whose rows are all live.
func newWide(t *testing.T, m Math, capacity int) *wide {
	s := &wide{t: t, math: m, shared: optIn}
	s.mem = ptx.NewSparseMemory(s.fill)
	run := s.place(RunBytes/4+capacity, func(i int) uint32 {
		switch {
		case i == RunLive/4:
			return uint32(capacity)
		case i >= RunRows/4:
			return uint32(tableRow(i - RunRows/4))
		}
		return math.Float32bits(1) // every scalar
	})
	s.b = Batch{Run: run.Ptr, Capacity: capacity}
	return s
}

// tableRows is how many records a table has, of which row b of the batch is tableRow(b).
const tableRows = 60000

func tableRow(b int) int { return b * 7919 % tableRows }

// fill makes a part of memory come into being.
func (s *wide) fill(address uint64, b []byte) {
	at, found := slices.BinarySearchFunc(s.places, address, func(p *place, a uint64) int { return int(int64(p.Ptr) - int64(a)) })
	if !found {
		at--
	}
	p := s.places[at]
	first := int(address-p.Ptr) / 4
	p.touched = append(p.touched, first)
	for i := 0; i < len(b)/4 && first+i < p.words; i++ {
		binary.LittleEndian.PutUint32(b[4*i:], p.word(first+i))
	}
}

func (s *wide) place(words int, word func(i int) uint32) *place {
	s.t.Helper()
	at, err := s.mem.Alloc(4 * words)
	if err != nil {
		s.t.Fatal(err)
	}
	p := &place{Ptr: at, words: words, word: word}
	s.places = append(s.places, p)
	return p
}

// floats is room for numbers that nobody has written.
func (s *wide) floats(n int) *place {
	var p *place
	p = s.place(n, func(i int) uint32 { return math.Float32bits(contentAt(p.Ptr + uint64(4*i))) })
	return p
}

// zeros is room for n words that are 0.
func (s *wide) zeros(n int) *place { return s.place(n, func(int) uint32 { return 0 }) }

// at is an element as it was before any launch, double the same for places of float64.
func (p *place) at(i int) float64 { return float64(math.Float32frombits(p.word(i))) }

func (p *place) double(i int) float64 {
	return math.Float64frombits(uint64(p.word(2*i+1))<<32 | uint64(p.word(2*i)))
}

// now are n floats from the i-th on as they are.
func (s *wide) now(p *place, i, n int) []float32 {
	b, x := make([]byte, 4*n), make([]float32, n)
	s.read(b, p, i)
	for j := range x {
		x[j] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*j:]))
	}
	return x
}

func (s *wide) read(b []byte, p *place, word int) {
	s.t.Helper()
	if err := s.mem.Read(b, p.Ptr+uint64(4*word)); err != nil {
		s.t.Fatal(err)
	}
}

// wideModules are parsed once.
var wideModules = map[string]*ptx.Module{}

// run runs one block of a launch, or all of them.
func (s *wide) run(l Launch, blocks iter.Seq[int]) {
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
	o := ptx.Options{NoRaces: true, SharedLimit: s.shared, Blocks: blocks}
	if err := kernel.Launch(s.mem, l.Grid, l.Block, l.Shared, l.Args, o); err != nil {
		s.t.Fatalf("%s, grid %v: %v", l.Name, l.Grid, err)
	}
}

// result is what a launch writes to a place: rows of so many elements, in float32 or float64.
type result struct {
	*place
	name   string
	double bool
	row    int     // from one row's first element to the next's
	skip   int     // elements at the beginning of a row that are others'
	bound  float64 // of the error, beside the sum of what is added up
	want   func(b, e int) total
}

// total adds products up.
type total struct{ sum, size float64 }

func (t *total) add(x float64) { t.sum, t.size = t.sum+x, t.size+math.Abs(x) }

// change is an element that a block has written.
type change struct {
	element int
	value   float64
}

func (r *result) bytes() int {
	if r.double {
		return 8
	}
	return 4
}

// changes gives what has been written, in order.
func (s *wide) changes(r *result) (list []change) {
	size := r.bytes()
	for _, first := range r.touched {
		now, before := make([]byte, min(1<<14, 4*(r.words-first))), r.before(first)
		s.read(now, r.place, first)
		for i := 0; i < len(now); i += size {
			if slices.Equal(now[i:i+size], before[i:i+size]) {
				continue
			}
			c := change{element: (4*first + i) / size}
			if r.double {
				c.value = math.Float64frombits(binary.LittleEndian.Uint64(now[i:]))
			} else {
				c.value = float64(math.Float32frombits(binary.LittleEndian.Uint32(now[i:])))
			}
			list = append(list, c)
		}
	}
	slices.SortFunc(list, func(a, b change) int { return a.element - b.element })
	return list
}

// before is what was in a part that begins with a word.
func (p *place) before(first int) (b []byte) {
	for i := first; i < p.words && len(b) < 1<<14; i++ {
		b = binary.LittleEndian.AppendUint32(b, p.word(i))
	}
	return b
}

// undo makes a place what it was.
func (s *wide) undo(p *place) {
	s.t.Helper()
	for _, first := range p.touched {
		if err := s.mem.Write(p.Ptr+uint64(4*first), p.before(first)); err != nil {
			s.t.Fatal(err)
		}
	}
}

// tried is how many elements of what a block writes are compared.
const tried = 12

// wrote runs a block, compares some of what it writes, and reports whether there was anything, and whether any was of a last row.
func (s *wide) wrote(l Launch, block int, results []result) (any, last bool) {
	s.t.Helper()
	s.run(l, only(block))
	for k := range results {
		r := &results[k]
		list := s.changes(r)
		s.undo(r.place)
		for i := 0; i < len(list); {
			b, e := list[i].element/r.row, list[i].element%r.row-r.skip
			if w := r.want(b, e); !(math.Abs(list[i].value-w.sum) <= r.bound*w.size) {
				s.t.Fatalf("%s: block %d of %v, %s of row %d, element %d is %v, want %v", l.Name, block, l.Grid, r.name, b, e, list[i].value, w.sum)
			}
			any, last = true, last || b == 4*r.words/r.bytes()/r.row-1
			if next := i + 1 + len(list)/tried; i < len(list)-1 && next >= len(list) {
				i = len(list) - 1
			} else {
				i = next
			}
		}
	}
	return any, last
}

// check runs the first block of a launch, the last that writes anything, and two others.
func (s *wide) check(l Launch, results ...result) {
	s.t.Helper()
	s.ends(l, results...)
	all := l.Grid[0] * l.Grid[1] * l.Grid[2]
	random := rand.New(rand.NewPCG(uint64(all), 5))
	s.wrote(l, random.IntN(all), results)
	s.wrote(l, random.IntN(all), results)
}

// ends is check without the others, for blocks that have much to do.
func (s *wide) ends(l Launch, results ...result) {
	s.t.Helper()
	all := l.Grid[0] * l.Grid[1] * l.Grid[2]
	if any, _ := s.wrote(l, 0, results); !any {
		s.t.Errorf("%s: the first block of %v writes nothing", l.Name, l.Grid)
	}
	any, last := s.wrote(l, all-1, results)
	if !any { // blocks of the end may have nothing to do, as pixels a stride apart are not equally many
		sort.Search(all, func(i int) bool {
			wrote, end := s.wrote(l, all-1-i, results)
			last = last || end
			return wrote
		})
	}
	if !last {
		s.t.Errorf("%s: no block at the end of %v writes a last row", l.Name, l.Grid)
	}
}

func only(block int) iter.Seq[int] { return slices.Values([]int{block}) }

// bound is of sums of so many terms.
func (s *wide) bound(terms int) float64 { return float64(terms) * 0x1p-23 }

// wideOp is an op with places for what belongs to it.
type wideOp struct {
	*wide
	op                *ir.Op
	in, values        int // elements of an example
	x, y, dy, dx      *place
	w, bias, factors  *place
	out, k, positions int
}

func (s *wide) addOp(op *ir.Op) *wideOp {
	o := &wideOp{wide: s, op: op, in: ir.Size(op.Shape), values: ir.Size(op.Out)}
	n := s.b.Capacity
	o.x, o.y, o.dy, o.dx = s.floats(n*o.in), s.floats(n*o.values), s.floats(n*o.values), s.floats(n*o.in)
	o.factors = s.floats(n) // half of which leave an example out
	if op.Kind == ir.Conv || op.Kind == ir.Dense {
		o.out, o.k, o.positions = op.Columns()
		o.w, o.bias = s.floats(o.out*o.k), s.floats(o.out)
	}
	return o
}

func lowered(t *testing.T, model string) *ir.Program {
	t.Helper()
	built, err := nn.Build(model, nn.Options{Classes: 10, Activation: "relu"})
	if err != nil {
		t.Fatal(err)
	}
	network, err := built.Lower()
	if err != nil {
		t.Fatal(err)
	}
	return network.Program
}

// realShapes takes every kind of work that a model has through some blocks.
func realShapes(t *testing.T, model string, m Math, capacity int) {
	t.Helper()
	p := lowered(t, model)
	stored := 0 // values of a row of kept gradients
	for i, op := range p.Ops {
		if op.Kind == ir.Conv || op.Kind == ir.GroupNorm {
			stored += p.OpParams(i)
		}
	}
	s := newWide(t, m, capacity)
	var dense []*wideOp
	keptAt := 0
	seen := map[string]bool{} // of layers alike the first is enough
	for i := range p.Ops {
		op := &p.Ops[i]
		alike := fmt.Sprint(op.Kind, op.Shape, op.Out, op.Window, op.Groups, op.Bias == ir.None, i == 0)
		if seen[alike] && op.Kind != ir.Dense {
			keptAt += p.OpParams(i)
			continue
		}
		seen[alike] = true
		o := s.addOp(op)
		switch o.op.Kind {
		case ir.Conv:
			o.convForward()
			o.convGradients(keptAt, stored)
			if i > 0 {
				o.convInputGrad()
			}
			if o.positions <= 64 { // a sum over pairs of them
				o.gram()
			}
			keptAt += p.OpParams(i)
		case ir.Dense:
			o.denseForward()
			if i > 0 {
				o.denseInputGrad()
			}
			dense = append(dense, o)
		case ir.GroupNorm:
			o.groupNorm(keptAt, stored)
			keptAt += p.OpParams(i)
		case ir.MaxPool, ir.AvgPool:
			o.pool()
		}
	}
	s.denseSums(dense)
	if m.plain() { // what no precision changes
		s.norms(dense)
		s.combine(stored)
		s.release(p.NumParams())
		realTrunk(t, p, capacity, optIn)
	}
}

// TestRealShapes takes the largest batch of a small model; TestLongRealShapes all models and batches, in float32 and on tensor cores.
func TestRealShapes(t *testing.T) {
	realShapes(t, "cnn-mnist", Math(device.Float32), 4096)
}

func TestLongRealShapes(t *testing.T) {
	for _, info := range nn.Names() {
		if info.Input == [3]int{} {
			continue // it takes any shape
		}
		if info.Name == "wrn-40-4" {
			continue // its convolutions are those of wrn-16-4
		}
		small := 300
		if info.Input[0] == 3 {
			small = 250
		}
		for _, capacity := range []int{small, 4096} {
			for _, p := range []device.Precision{device.Float32, device.TF32, device.BF16} {
				if p == device.BF16 && capacity != small {
					continue // the kernels are those of tf32 but for their instructions
				}
				t.Run(fmt.Sprint(info.Name, " ", capacity, " ", p), func(t *testing.T) { realShapes(t, info.Name, Math(p), capacity) })
			}
		}
	}
}
