package devicetest

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/reference"
	"github.com/privgrad/privgrad/internal/half"
	"github.com/privgrad/privgrad/internal/ir"
)

// mapperClaims are about a Mapper: what it makes of records by front ends.
var mapperClaims = claims[mapping]{
	{"rows", testMappedRows},
	{"a row sees its record alone", testMappedAlone},
	{"records that are not finite", testMappedEndless},
	{"targets", testMappedTargets},
	{"progress and stops", testMappedWork},
	{"refusals", testMappedRefusals},
}

// A mapping is a device that maps, and a front end.
type mapping struct {
	d device.Device
	device.Mapper
	front *front
}

func testMappers(t *testing.T, d device.Device) {
	m := device.MapperOf(d)
	if m == nil {
		t.Skip("the device maps nothing")
	}
	for _, f := range fronts() {
		t.Run(f.p.Name, func(t *testing.T) {
			must(t, f.p.ValidateMap())
			must(t, m.Maps(f))
			mapperClaims.run(t, mapping{d, m, f})
		})
	}
}

// front is a front end whose kernel on the host is the reference's.
type front struct {
	p         ir.Program
	constants []float32
}

func (f *front) In() [3]int                        { return [3]int(f.p.Shape) }
func (f *front) Width() int                        { return f.p.Outputs() }
func (f *front) Program() (*ir.Program, []float32) { return &f.p, f.constants }

func (f *front) Fill(rows []uint16, bytes []uint8, values []float32, threads int) {
	in, width := ir.Size(f.p.Shape), f.Width()
	for k := range len(rows) / width {
		x := make([]float64, in)
		for i := range x {
			if bytes != nil {
				x[i] = float64(bytes[k*in+i]) / 255
			} else {
				x[i] = float64(values[k*in+i])
			}
		}
		row := f.row(x)
		for i, v := range row {
			rows[k*width+i] = half.FromFloat32(float32(v))
		}
		if slices.ContainsFunc(append(row, x...), func(v float64) bool { return v-v != 0 }) {
			copy(rows[k*width:], slices.Repeat([]uint16{0x7e00}, width))
		}
	}
}

// row is what the front end makes of a record, by the reference.
func (f *front) row(x []float64) []float64 {
	return reference.Values(&f.p, widen(f.constants), x, device.Float32)[f.p.Logits()]
}

// add adds an op behind the last value, or behind others. Its weight and bias have these shapes; nil for none.
func (f *front) add(rnd *rand.Rand, op ir.Op, weight, bias []int) ir.Value {
	constant := func(shape []int) int {
		if shape == nil {
			return ir.None
		}
		f.p.Params = append(f.p.Params, ir.Param{Name: fmt.Sprint("constant", len(f.p.Params)), Shape: shape, Offset: len(f.constants)})
		f.constants = append(f.constants, normals(rnd, ir.Size(shape), .5)...)
		return len(f.p.Params) - 1
	}
	op.Weight, op.Bias = constant(weight), constant(bias)
	if op.In == nil {
		op.In = []ir.Value{f.p.Logits()}
	}
	if op.Shape == nil {
		op.Shape = f.p.Shape
		if last := op.In[0]; last > 0 {
			op.Shape = f.p.Ops[last-1].Out
		}
	}
	if op.Out == nil {
		op.Out = op.Shape
	}
	op.Name = fmt.Sprintf("%s%d", op.Kind, len(f.p.Ops))
	f.p.Ops = append(f.p.Ops, op)
	return f.p.Logits()
}

// fronts have every op that front ends have, in all its forms.
func fronts() []*front {
	rnd := rand.New(rand.NewPCG(71, 1))
	return []*front{wavesFront(rnd), atomsFront(rnd), cellsFront(rnd)}
}

// wavesFront is moduli of an upright image's coefficients, of two scales.
func wavesFront(rnd *rand.Rand) *front {
	waves := &front{p: ir.Program{Name: "waves", Shape: []int{2, 6, 8}}}
	add := func(op ir.Op, weight, bias []int) ir.Value { return waves.add(rnd, op, weight, bias) }
	image := add(ir.Op{Kind: ir.Deskew}, nil, nil)
	add(ir.Op{Kind: ir.Reflect, Out: []int{2, 8, 11}, Window: ir.Window{PadTop: 2, PadLeft: 1, PadRight: 2}}, nil, nil)
	add(ir.Op{Kind: ir.Planes, Out: []int{12, 6, 8}, Window: ir.Window{H: 3, W: 4, StrideH: 1, StrideW: 1, DilationH: 1, DilationW: 1}}, []int{6, 1, 3, 4}, nil)
	moduli := add(ir.Op{Kind: ir.Modulus, Groups: 2, Out: []int{6, 6, 8}}, nil, nil)
	full := add(ir.Op{Kind: ir.Concat, In: []ir.Value{image, moduli}, Groups: 2, Shape: []int{8, 6, 8}}, nil, nil)
	add(ir.Op{Kind: ir.Planes, Out: []int{16, 2, 3}, Window: ir.Window{H: 3, W: 3, StrideH: 3, StrideW: 2, DilationH: 1, DilationW: 1}}, []int{2, 1, 3, 3}, nil)
	coarse := add(ir.Op{Kind: ir.Modulus, Groups: 8, Out: []int{8, 2, 3}}, nil, nil)
	averages := add(ir.Op{Kind: ir.Planes, In: []ir.Value{full}, Out: []int{48, 1, 1}, Window: ir.Window{H: 6, W: 8, StrideH: 1, StrideW: 1, DilationH: 1, DilationW: 1}}, []int{6, 1, 6, 8}, nil)
	maps := add(ir.Op{Kind: ir.Concat, In: []ir.Value{averages, coarse}, Groups: 2, Shape: []int{16, 2, 3}}, nil, nil)
	var index []int32
	for i := range int32(16 * 2 * 2) {
		index = append(index, i/2*3+2-i%2)
	}
	add(ir.Op{Kind: ir.Pick, In: []ir.Value{maps}, Out: []int{16, 2, 2}, Index: index}, nil, nil)
	add(ir.Op{Kind: ir.Affine}, nil, []int{16, 1, 1})
	add(ir.Op{Kind: ir.Conv, Out: []int{16, 2, 2}, Window: ir.Square(1, 1, 0)}, []int{16, 16, 1, 1}, nil)
	add(ir.Op{Kind: ir.Affine}, []int{2}, []int{1})
	add(ir.Op{Kind: ir.Unit, Shape: []int{64}, Norm: 63}, nil, nil)
	return waves
}

// atomsFront is patches by their contrast, above thresholds of both signs.
func atomsFront(rnd *rand.Rand) *front {
	atoms := &front{p: ir.Program{Name: "atoms", Shape: []int{3, 7, 5}}}
	add := func(op ir.Op, weight, bias []int) ir.Value { return atoms.add(rnd, op, weight, bias) }
	deviation := add(ir.Op{Kind: ir.Contrast, Out: []int{1, 4, 2}, Window: ir.Square(4, 1, 0), Epsilon: .002}, nil, nil)
	products := add(ir.Op{Kind: ir.Conv, In: []ir.Value{ir.Input}, Out: []int{10, 4, 2}, Window: ir.Square(4, 1, 0)}, []int{10, 3, 4, 4}, nil)
	products = add(ir.Op{Kind: ir.Divide, In: []ir.Value{products, deviation}}, nil, nil)
	above := add(ir.Op{Kind: ir.ReLU}, nil, nil)
	add(ir.Op{Kind: ir.Affine, In: []ir.Value{products}}, []int{1}, []int{1})
	below := add(ir.Op{Kind: ir.ReLU}, nil, nil)
	both := add(ir.Op{Kind: ir.Concat, In: []ir.Value{above, below}, Groups: 1, Shape: []int{20, 4, 2}}, nil, nil)
	sum := add(ir.Op{Kind: ir.Add, In: []ir.Value{both, both}}, nil, nil)
	first := add(ir.Op{Kind: ir.Unit, In: []ir.Value{sum}, Norm: 40}, nil, nil)
	second := add(ir.Op{Kind: ir.Unit, In: []ir.Value{ir.Input}, Norm: 20}, nil, nil)
	add(ir.Op{Kind: ir.Concat, In: []ir.Value{first, second, deviation}, Groups: 1, Shape: []int{160 + 105 + 8}}, nil, nil)
	return atoms
}

// cellsFront is what such patches, of two sizes, have in common with atoms on an average over cells: devices may compute that in one step.
func cellsFront(rnd *rand.Rand) *front {
	cells := &front{p: ir.Program{Name: "cells", Shape: []int{2, 9, 8}}}
	add := func(op ir.Op, weight, bias []int) ir.Value { return cells.add(rnd, op, weight, bias) }
	var parts []ir.Value
	for _, side := range []int{3, 4} {
		rows, cols := 10-side, 9-side
		contrast := add(ir.Op{Kind: ir.Contrast, In: []ir.Value{ir.Input}, Shape: []int{2, 9, 8}, Out: []int{1, rows, cols}, Window: ir.Square(side, 1, 0), Epsilon: .002}, nil, nil)
		products := add(ir.Op{Kind: ir.Conv, In: []ir.Value{ir.Input}, Shape: []int{2, 9, 8}, Out: []int{5, rows, cols}, Window: ir.Square(side, 1, 0)}, []int{5, 2, side, side}, nil)
		quotient := add(ir.Op{Kind: ir.Divide, In: []ir.Value{products, contrast}}, nil, nil)
		add(ir.Op{Kind: ir.Affine}, nil, []int{1})
		more := add(ir.Op{Kind: ir.ReLU}, nil, nil)
		add(ir.Op{Kind: ir.Affine, In: []ir.Value{quotient}}, []int{1}, []int{1})
		less := add(ir.Op{Kind: ir.ReLU}, nil, nil)
		add(ir.Op{Kind: ir.Concat, In: []ir.Value{more, less}, Groups: 1, Shape: []int{10, rows, cols}}, nil, nil)
		parts = append(parts, add(ir.Op{Kind: ir.Planes, Out: []int{40, 1, 1}, Window: ir.Window{H: rows, W: cols, StrideH: 1, StrideW: 1, DilationH: 1, DilationW: 1}}, []int{4, 1, rows, cols}, nil))
	}
	add(ir.Op{Kind: ir.Concat, In: parts, Groups: 1, Shape: []int{80}}, nil, nil)
	return cells
}

// slope is a target at which a row's gradient, of Huber's loss of a linear model, is minus the row.
const slope = 1e6

// records are bytes, and the values that they stand for.
func (m mapping) records(n int, seed uint64) (device.Rows, device.Bytes, device.Floats) {
	rnd := rand.New(rand.NewPCG(seed, 1))
	r := device.Rows{Count: n, Width: ir.Size(m.front.p.Shape), Gather: device.Fractions, Targets: constant(n, slope)}
	var b device.Bytes
	var f device.Floats
	for range n * r.Width {
		v := uint8(rnd.UintN(256))
		b, f = append(b, v), append(f, float32(v)/255)
	}
	return r, b, f
}

// load puts records onto the device. Only bytes have a gather.
func (m mapping) load(t *testing.T, r device.Rows, f device.Features) device.Data {
	t.Helper()
	if _, ok := f.(device.Bytes); !ok {
		r.Gather = nil
	}
	return made(m.d.Load(r, f))(t)
}

// of maps a table, closes it, and reads the rows through a linear model's gradients: zeros of one that is void.
func (m mapping) of(t *testing.T, r device.Rows, f device.Features, o device.MapOptions) (rows [][]float32) {
	t.Helper()
	raw := m.load(t, r, f)
	data := made(m.Map(m.front, raw, o))(t)
	must(t, raw.Close())
	width := m.front.Width()
	p := linear("minus", ir.Huber, width, 1, false)
	c := &Case{Program: p, Params: make([]float32, width)}
	x := openOn(t, m.d, plain(t, p).Schedule, c, device.Options{Capacity: 2}, device.NewNoise(Stream(t, m.d), 7), data)
	for row := range r.Count {
		rows = append(rows, minus(make([]float32, width), x.Of(t, []int32{int32(row)}, 0)))
	}
	return rows
}

func testMappedRows(t *testing.T, m mapping) {
	r, b, f := m.records(5, 72)
	clear(b[:r.Width]) // a blank record is one, too
	clear(f[:r.Width])
	for name, values := range map[string]device.Features{"bytes": b, "floats": f} {
		rows := m.of(t, r, values, device.MapOptions{})
		for i, got := range rows {
			x := make([]float64, r.Width)
			for k := range x {
				x[k] = float64(b[i*r.Width+k]) / 255
			}
			want := make([]float32, m.front.Width())
			for k, v := range m.front.row(x) {
				want[k] = float32(v)
			}
			// Rounding to halves moves a value by 2⁻¹¹ of itself, float32 a row by less than 1e-5.
			if d := off(got, want); !(d <= 0x1p-11+1e-5) {
				t.Errorf("%s: row %d is off by %v of its norm", name, i, d)
			}
		}
	}
}

// testAlone compares bits: the same record elsewhere, among others, and by other options has the same row.
func testMappedAlone(t *testing.T, m mapping) {
	const n, kept = 9, 4
	r, _, f := m.records(n, 73)
	want := m.of(t, r, f, device.MapOptions{})
	w := r.Width
	var back device.Floats
	for i := range n {
		back = append(back, f[(n-1-i)*w:(n-i)*w]...)
	}
	for _, o := range []device.MapOptions{{Threads: 3, Parts: 2}, {Threads: 2, Parts: 1}} {
		rows := m.of(t, r, f, o)
		for i := range n {
			if Same(t, rows[i], want[i]); i > 0 && slices.Equal(want[i], want[i-1]) {
				t.Errorf("rows %d and %d are the same", i-1, i)
			}
		}
	}
	for i, row := range m.of(t, r, back, device.MapOptions{Parts: 3}) {
		Same(t, row, want[n-1-i])
	}
	one := device.Rows{Count: 1, Width: w, Targets: r.Targets[:1]}
	for i := range n {
		Same(t, m.of(t, one, f[i*w:(i+1)*w], device.MapOptions{})[0], want[i])
	}
	wild := slices.Clone(f)
	for i := range wild {
		if i/w != kept {
			wild[i] *= float32(1-2*(i%2)) * 1e30
		}
	}
	Same(t, m.of(t, r, wild, device.MapOptions{})[kept], want[kept])
}

// testEndless has rows that are void, and others that are none the worse.
func testMappedEndless(t *testing.T, m mapping) {
	r, _, f := m.records(6, 74)
	want, w := m.of(t, r, f, device.MapOptions{}), r.Width
	f[1*w], f[4*w-1], f[4*w] = float32(math.NaN()), float32(math.Inf(-1)), float32(math.Inf(1))
	for i, row := range m.of(t, r, f, device.MapOptions{Parts: 1}) {
		if i == 1 || i == 3 || i == 4 {
			Same(t, row, make([]float32, len(row)))
		} else {
			Same(t, row, want[i])
		}
	}
}

// testTargets has a row without a target that a loss accepts: it adds nothing.
func testMappedTargets(t *testing.T, m mapping) {
	r, b, _ := m.records(3, 75)
	want := m.of(t, r, b, device.MapOptions{})
	r.Targets[1] = float32(math.NaN())
	r.Targets[2] = -slope // on the other side of the loss
	rows := m.of(t, r, b, device.MapOptions{})
	Same(t, rows[0], want[0])
	Same(t, rows[1], make([]float32, len(rows[1])))
	Same(t, rows[2], minus(make([]float32, len(want[2])), want[2]))
}

func testMappedWork(t *testing.T, m mapping) {
	r, b, _ := m.records(7, 76)
	raw := made(m.d.Load(r, b))(t)
	defer raw.Close()
	var seen []int
	data := made(m.Map(m.front, raw, device.MapOptions{Parts: 4, Progress: func(p int) { seen = append(seen, p) }}))(t)
	must(t, data.Close())
	for i, p := range seen {
		if p != i+1 || len(seen) != 100 {
			t.Fatalf("report %d of %d is %d", i, len(seen), p)
		}
	}
	stop, asked := errors.New("stop"), 0
	_, err := m.Map(m.front, raw, device.MapOptions{Parts: 4, Stopped: func() error {
		if asked++; asked == 3 {
			return stop
		}
		return nil
	}})
	if !errors.Is(err, stop) || asked != 3 {
		t.Errorf("asked %d times, it ends with %v", asked, err)
	}
}

func testMappedRefusals(t *testing.T, m mapping) {
	r, b, f := m.records(2, 77)
	other := r
	other.Gather = ir.Gather{ir.ScaledBy(1/127.5, 0)}
	moved := r
	moved.Gather = ir.Gather{ir.ScaledBy(1.0/255, -1)}
	narrow := r
	narrow.Width, narrow.Count, narrow.Targets = 1, 2*r.Width, constant(2*r.Width, slope)
	for name, table := range map[string]struct {
		r device.Rows
		f device.Features
	}{"another scale": {other, b}, "an offset": {moved, b}, "another width": {narrow, b}, "halves": {r, halves(f)}} {
		raw := m.load(t, table.r, table.f)
		if _, err := m.Map(m.front, raw, device.MapOptions{}); err == nil {
			t.Errorf("%s: it was mapped", name)
		}
		must(t, raw.Close())
	}
	if _, err := m.Map(m.front, nil, device.MapOptions{}); err == nil {
		t.Error("no table was mapped")
	}
}
