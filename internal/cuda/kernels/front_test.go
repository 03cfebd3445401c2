package kernels

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/privgrad/privgrad/internal/half"
	"github.com/privgrad/privgrad/internal/ir"
)

// frontCase is an op of front ends, by its formula in float64 for an example.
type frontCase struct {
	name   string
	op     ir.Op
	inputs []int // elements of each value that it reads
	launch func(m *machine, b Batch, op *ir.Op, x []Ptr, y Ptr) []Launch
	want   func(op *ir.Op, x [][]float64) []float64
	// bound is how far a result may be from its true value. nil: it is that value.
	bound func(want float64, x [][]float64) float64
}

// rounded is a bound of so many roundings of the result.
func rounded(n int) func(want float64, x [][]float64) float64 {
	return func(want float64, _ [][]float64) float64 { return gamma(n, unit) * math.Abs(want) }
}

// largestOf is the largest magnitude of a value.
func largestOf(x []float64) (most float64) {
	for _, v := range x {
		most = max(most, math.Abs(v))
	}
	return most
}

func frontCases(rng *rand.Rand) []frontCase {
	picked := []int32{3, 3, 0, 7}
	weights, biases := normals(rng, 2*1*4), normals(rng, 3*1)
	one := func(f func(b Batch, op *ir.Op, x, y Ptr) Launch) func(*machine, Batch, *ir.Op, []Ptr, Ptr) []Launch {
		return func(_ *machine, b Batch, op *ir.Op, x []Ptr, y Ptr) []Launch { return []Launch{f(b, op, x[0], y)} }
	}
	return []frontCase{
		{"reflect", ir.Op{Shape: []int{2, 3, 4}, Out: []int{2, 6, 8}, Window: ir.Window{PadTop: 2, PadBottom: 1, PadLeft: 3, PadRight: 1}}, []int{24}, one(Reflect),
			func(op *ir.Op, x [][]float64) (y []float64) {
				rows, cols := []int{2, 1, 0, 1, 2, 1}, []int{3, 2, 1, 0, 1, 2, 3, 2}
				for c := range 2 {
					for _, row := range rows {
						for _, col := range cols {
							y = append(y, x[0][(c*3+row)*4+col])
						}
					}
				}
				return y
			}, nil},
		{"concat", ir.Op{Groups: 2, Shape: []int{18}, Out: []int{18}}, []int{4, 12, 2},
			func(_ *machine, b Batch, op *ir.Op, x []Ptr, y Ptr) []Launch {
				return []Launch{Concat(b, op, x[2], 2, 16, y), Concat(b, op, x[0], 4, 0, y), Concat(b, op, x[1], 12, 4, y)}
			},
			func(op *ir.Op, x [][]float64) []float64 {
				return slices.Concat(x[0][:2], x[1][:6], x[2][:1], x[0][2:], x[1][6:], x[2][1:])
			}, nil},
		{"pick", ir.Op{Shape: []int{8}, Out: []int{4}, Index: picked}, []int{8},
			func(m *machine, b Batch, op *ir.Op, x []Ptr, y Ptr) []Launch {
				var list []byte
				for _, i := range op.Index {
					list = binary.LittleEndian.AppendUint32(list, uint32(i))
				}
				return []Launch{Pick(b, op, x[0], m.bytes(list), y)}
			},
			func(op *ir.Op, x [][]float64) []float64 { return []float64{x[0][3], x[0][3], x[0][0], x[0][7]} }, nil},
		{"affine of planes and columns", ir.Op{Shape: []int{2, 3, 4}, Out: []int{2, 3, 4}}, []int{24},
			func(m *machine, b Batch, op *ir.Op, x []Ptr, y Ptr) []Launch {
				return []Launch{Affine(b, op, x[0], m.floats(weights), []int{2, 1, 4}, m.floats(biases), []int{3, 1}, y)}
			},
			func(op *ir.Op, x [][]float64) (y []float64) {
				for i, v := range x[0] {
					y = append(y, v*float64(weights[i/12*4+i%4])+float64(biases[i/4%3]))
				}
				return y
			}, rounded(1)},
		{"affine of a bias", ir.Op{Shape: []int{24}, Out: []int{24}}, []int{24},
			func(m *machine, b Batch, op *ir.Op, x []Ptr, y Ptr) []Launch {
				return []Launch{Affine(b, op, x[0], 0, nil, m.floats([]float32{.75}), []int{1}, y)}
			},
			func(op *ir.Op, x [][]float64) (y []float64) {
				for _, v := range x[0] {
					y = append(y, v+.75)
				}
				return y
			}, rounded(1)},
		{"divide", ir.Op{Shape: []int{3, 2, 2}, Out: []int{3, 2, 2}}, []int{12, 4},
			func(_ *machine, b Batch, op *ir.Op, x []Ptr, y Ptr) []Launch {
				return []Launch{Divide(b, op, x[0], x[1], y)}
			},
			func(op *ir.Op, x [][]float64) (y []float64) {
				for i, v := range x[0] {
					y = append(y, v/x[1][i%4])
				}
				return y
			}, rounded(1)},
		{"modulus", ir.Op{Groups: 3, Shape: []int{12, 2}, Out: []int{6, 2}}, []int{24}, one(Modulus),
			func(op *ir.Op, x [][]float64) (y []float64) {
				for g := range 3 {
					for i := range 4 {
						y = append(y, math.Hypot(x[0][8*g+i], x[0][8*g+4+i]))
					}
				}
				return y
			}, rounded(3)}, // the square and the sum, which a root halves, and the root
		{"contrast", ir.Op{Shape: []int{2, 5, 6}, Out: []int{1, 2, 3}, Window: ir.Window{H: 2, W: 3, StrideH: 2, StrideW: 1, DilationH: 1, DilationW: 1}, Epsilon: .01}, []int{60}, one(Contrast),
			func(op *ir.Op, x [][]float64) (y []float64) {
				for o := range 6 {
					sum, squares := 0.0, 0.0
					for i := range 12 {
						v := x[0][(i/6*5+o/3*2+i/3%2)*6+o%3+i%3]
						sum, squares = sum+v/12, squares+v*v/12
					}
					y = append(y, math.Sqrt(squares-sum*sum+.01))
				}
				return y
			}, rounded(2)}, // once, and float64
		{"deskew", ir.Op{Shape: []int{2, 5, 7}, Out: []int{2, 5, 7}}, []int{70}, one(Deskew), deskewed,
			// The share is rounded, also where it is taken from 1; products and their sum are.
			func(_ float64, x [][]float64) float64 { return gamma(4, unit) * 2 * largestOf(x[0]) }},
		{"unit", ir.Op{Shape: []int{300}, Out: []int{300}, Norm: 63}, []int{300}, one(Unit),
			func(op *ir.Op, x [][]float64) (y []float64) {
				square := 0.0
				for _, v := range x[0] {
					square += v * v
				}
				for _, v := range x[0] {
					y = append(y, v*63/math.Sqrt(square))
				}
				return y
			}, rounded(2)}, // once, and float64
	}
}

// deskewed is ir.Deskew by its comment.
func deskewed(op *ir.Op, x [][]float64) (y []float64) {
	const rows, cols = 5, 7
	var mass, up, across, square, product float64
	for i, b := range x[0] {
		v, u := float64(i/cols%rows)-2, float64(i%cols)-3
		mass, up, across, square, product = mass+b, up+b*v, across+b*u, square+b*v*v, product+b*v*u
	}
	mass = max(mass, 1e-6)
	slant := (product - up/mass*across) / (square - up/mass*up + .1*mass)
	for i := range x[0] {
		at, sum := float64(i%cols)+slant*(float64(i/cols%rows)-2-up/mass), 0.0
		for u := range cols {
			sum += x[0][i/cols*cols+u] * max(1-math.Abs(at-float64(u)), 0)
		}
		y = append(y, sum)
	}
	return y
}

func TestFrontOps(t *testing.T) {
	rng := rand.New(rand.NewPCG(58, 1))
	for _, c := range frontCases(rng) {
		for _, s := range []size{{5, 7}, {0, 2}, {3, 3}} {
			m := newMachine(t)
			b, size := m.batch(s), ir.Size(c.op.Out)
			var x [][]float32
			var at []Ptr
			for _, n := range c.inputs {
				values := normals(rng, s.capacity*n)
				for i := range values {
					if values[i] = float32(math.Abs(float64(values[i]))) + .01; i%3 == 0 && c.name != "deskew" { // which is of brightness
						values[i] *= -1
					}
				}
				x = append(x, spoil(values, s.live, s.capacity))
				at = append(at, m.floats(values))
			}
			y := m.floats(fill(s.capacity*size, untouched))
			for _, l := range c.launch(m, b, &c.op, at, y) {
				m.launch(l)
			}
			got := m.read(y, s.capacity*size)
			for k := range s.live {
				var one [][]float64
				for i, n := range c.inputs {
					var wide []float64
					for _, v := range x[i][k*n : (k+1)*n] {
						wide = append(wide, float64(v))
					}
					one = append(one, wide)
				}
				for i, want := range c.want(&c.op, one) {
					bound := 0.0
					if c.bound != nil {
						bound = c.bound(want, one)
					}
					within(t, c.name, got[k*size+i], want, bound)
				}
			}
			same(t, c.name+": dead", got[s.live*size:], fill((s.capacity-s.live)*size, untouched))
		}
	}
}

// What an image has that is blank, or that moves by more than a line.
func TestDeskewOfOddImages(t *testing.T) {
	const n = 35
	op := &ir.Op{Shape: []int{1, 5, 7}, Out: []int{1, 5, 7}}
	x := make([]float32, 3*n)
	x[n], x[n+1], x[2*n-1] = 1e20, -.999999e20, 1e20 // brightness near zero beside its moments
	x[2*n+3] = float32(math.Inf(1))
	m := newMachine(t)
	y := m.floats(fill(3*n, untouched))
	m.launch(Deskew(m.batch(size{3, 3}), op, m.floats(x), y))
	got := m.read(y, 3*n)
	same(t, "a blank image", got[:n], make([]float32, n))
	for i, v := range got[n : 2*n] {
		if v == untouched || math.IsInf(float64(v), 0) {
			t.Errorf("a wild image has %v at %d", v, i)
		}
	}
	if slices.ContainsFunc(got[2*n:], func(v float32) bool { return v == untouched }) {
		t.Error("an image that is not finite is left out")
	}
}

func TestUnitOfZeros(t *testing.T) {
	m := newMachine(t)
	op := &ir.Op{Shape: []int{3}, Out: []int{3}, Norm: 2}
	y := m.floats(fill(9, untouched))
	m.launch(Unit(m.batch(size{3, 3}), op, m.floats([]float32{0, 0, 0, 0, float32(math.Inf(1)), 1, 1e30, 0, 0}), y))
	got := m.read(y, 9)
	same(t, "zeros", got[:3], []float32{0, 0, 0})
	if got[4] == got[4] {
		t.Errorf("a value that is not finite becomes %v", got[4])
	}
	same(t, "large values", got[6:], []float32{2, 0, 0})
}

func TestRows(t *testing.T) {
	const n = 300
	rng := rand.New(rand.NewPCG(58, 2))
	for _, s := range []size{{5, 7}, {0, 2}, {6, 6}} {
		x := make([]float32, s.capacity*n)
		for i := range x {
			// Numbers of all sizes; ties and their neighbours; none that a half cannot hold.
			x[i] = float32(math.Ldexp(rng.Float64()-.5, rng.IntN(45)-28))
			switch i % 5 {
			case 0:
				x[i] = half.ToFloat32(uint16(rng.UintN(0x7bff))) + half.ToFloat32(uint16(i%7))/2
			case 1:
				x[i] = math.Float32frombits(math.Float32bits(x[i])&^0x1fff | 0x1000 + uint32(i%3) - 1)
			}
		}
		copy(x, []float32{65519.99, -65519.99, 0x1p-25, 0x1.000002p-25, float32(math.Copysign(0, -1)), 0x1p-149})
		targets := make([]float32, s.capacity)
		for b := range targets {
			targets[b] = float32(b)
		}
		bad := map[int]float32{1: 65520, 3: nan32, 4: float32(math.Inf(-1))} // the first rounds to 2¹⁶
		for b, v := range bad {
			if b < s.live {
				x[b*n+299-b] = v
			}
		}
		m := newMachine(t)
		y, to := m.bytes(slices.Repeat([]byte{0x5a}, 2*s.capacity*n)), m.floats(fill(s.capacity, untouched))
		m.launch(Rows(m.batch(s), n, m.floats(x), m.floats(targets), y, to))
		raw, gotTo := m.copyOut(y, 2*s.capacity*n), m.read(to, s.capacity)
		for i := range s.capacity * n {
			got, want := binary.LittleEndian.Uint16(raw[2*i:]), half.FromFloat32(x[i])
			if _, is := bad[i/n]; is {
				want = 0x7e00
			}
			if i/n >= s.live {
				want = 0x5a5a
			}
			if got != want {
				t.Fatalf("%v: row %d: %v becomes %#x, want %#x", s, i/n, x[i], got, want)
			}
		}
		for b := range targets {
			if _, is := bad[b]; is {
				targets[b] = nan32
			}
			if b >= s.live {
				targets[b] = untouched
			}
		}
		same(t, "targets", gotTo, targets)
	}
}

func TestCellMeans(t *testing.T) {
	rng := rand.New(rand.NewPCG(58, 3))
	of := [2]Excess{{1, -.25}, {-1.5, .125}}
	for _, c := range []struct {
		s                size
		atoms, rows, col int
	}{{size{2, 3}, 70, 6, 7}, {size{1, 2}, 3, 1, 5}, {size{0, 1}, 4, 2, 2}, {size{1, 1}, 5, 8, 4}} {
		places := c.rows * c.col
		op := &ir.Op{Shape: []int{c.atoms, c.rows, c.col}}
		x, by, share := spoil(normals(rng, c.s.capacity*c.atoms*places), c.s.live, c.s.capacity), normals(rng, c.s.capacity*places), normals(rng, Cells*places)
		for i := range by {
			by[i] = by[i]*by[i] + .1
		}
		spoil(by, c.s.live, c.s.capacity)
		m := newMachine(t)
		n := 2 * c.atoms * Cells
		y := m.floats(fill(c.s.capacity*n, untouched))
		m.launch(CellMeans(m.batch(c.s), op, m.floats(x), m.floats(by), m.floats(share), of, y))
		got := m.read(y, c.s.capacity*n)
		for o := range c.s.live * n {
			b, sign, atom, cell := o/n, o%n/(c.atoms*Cells), o/Cells%c.atoms, o%Cells
			sum, bound := 0.0, 0x1p-149
			for i := range places {
				v := float64(x[(b*c.atoms+atom)*places+i]) / float64(by[b*places+i]) * float64(of[sign].Weight)
				w, excess := float64(share[cell*places+i]), max(v+float64(of[sign].Bias), 0)
				sum += w * excess
				// Reciprocal, product and excess are rounded; then a lane's sums and those of five pairs.
				bound += math.Abs(w) * gamma(3, unit) * (math.Abs(v) + math.Abs(float64(of[sign].Bias)))
				bound += math.Abs(w) * gamma(places/32+6, unit) * excess
			}
			within(t, "a mean", got[o], sum, bound)
		}
		same(t, "dead", got[c.s.live*n:], fill((c.s.capacity-c.s.live)*n, untouched))
	}
	if HasCells(48<<10/20+1) || !HasCells(48<<10/20) {
		t.Error("cells are not refused where a block has no room for places")
	}
}
