package kernels

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/privgrad/privgrad/internal/ir"
)

type denseCase struct {
	size
	in, out int
	bias    bool
}

// denseCases have tails in every direction, both tiles, and runs that leave whole tiles dead.
var denseCases = []denseCase{
	{size{3, 5}, 7, 5, true},
	{size{1, 1}, 1, 1, false},
	{size{0, 3}, 4, 4, true},
	{size{70, 150}, 20, 67, true},
	{size{4, 4}, 150, 33, true}, // terms for every group of threads, and more
	{size{70, 70}, 66, 16, true},
	{size{33, 64}, 65, 17, false},
	{size{5, 130}, 33, 129, false},
	{size{150, 170}, 3, 2, true}, // blocks of examples likewise
	{size{129, 140}, 17, 130, true},
}

// tilesOf calls f with every tile alone, and with those of which a launch chooses.
func tilesOf(all *[]tile, f func(name string)) {
	saved := *all
	defer func() { *all = saved }()
	f("any tile")
	for _, t := range saved {
		*all = []tile{t}
		f(fmt.Sprintf("%d×%d", t.rows, t.cols))
	}
}

// eachDense calls f with every case.
func eachDense(f func(name string, c denseCase)) {
	for _, c := range denseCases {
		f(fmt.Sprintf("%v, %d to %d", c.size, c.in, c.out), c)
	}
}

func TestDenseForwardAndInputGrad(t *testing.T) {
	tilesOf(&productTiles, func(name string) { testDense(t, name+", ") })
}

func testDense(t *testing.T, tile string) {
	rng := rand.New(rand.NewPCG(1, 1))
	eachDense(func(name string, c denseCase) {
		name = tile + name
		op := denseOp(c.in, c.out, c.bias)
		x, dy := spoil(normals(rng, c.capacity*c.in), c.live, c.capacity), spoil(normals(rng, c.capacity*c.out), c.live, c.capacity)
		w, bias := normals(rng, c.in*c.out), make([]float32, c.out)
		m := newMachine(t)
		at := Ptr(0)
		if c.bias {
			bias = normals(rng, c.out)
			at = m.floats(bias)
		}
		b := m.batch(c.size)
		y := m.floats(fill(c.capacity*c.out, untouched))
		dx, sum := m.floats(fill(c.capacity*c.in, untouched)), m.floats(fill(c.capacity*c.in, untouched))
		weights, gradient := m.floats(w), m.floats(dy)
		m.launch(DenseForward(b, op, m.floats(x), weights, at, y))
		m.launch(DenseInputGrad(b, op, gradient, weights, dx, false))
		m.launch(DenseInputGrad(b, op, gradient, weights, sum, true))

		wantY, wantX, wantSum := make([]truth, c.live*c.out), make([]truth, c.live*c.in), make([]truth, c.live*c.in)
		for e := range c.live {
			for o := range c.out {
				wantY[e*c.out+o].add(float64(bias[o]))
				for i := range c.in {
					weight := float64(w[o*c.in+i])
					wantY[e*c.out+o].add(float64(x[e*c.in+i]), weight)
					wantX[e*c.in+i].add(float64(dy[e*c.out+o]), weight)
				}
			}
			for i := e * c.in; i < (e+1)*c.in; i++ {
				wantSum[i] = wantX[i]
				wantSum[i].add(untouched)
			}
		}
		near(t, name+": y", m.read(y, c.live*c.out), wantY, c.in+1)
		near(t, name+": dx", m.read(dx, c.live*c.in), wantX, c.out)
		near(t, name+": dx added", m.read(sum, c.live*c.in), wantSum, c.out+1)
		for _, p := range []struct {
			at   Ptr
			each int
		}{{y, c.out}, {dx, c.in}, {sum, c.in}} {
			same(t, name+": dead rows", m.read(p.at, c.capacity*p.each)[c.live*p.each:], fill((c.capacity-c.live)*p.each, untouched))
		}
	})
}

// Bits follow from an op's shape: not from the tile, which follows from the capacity, nor from where operands lie.
func TestDenseTilesHaveTheSameBits(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 7))
	s, op := size{140, 150}, denseOp(72, 40, true)
	x, dy, w, bias := normals(rng, s.capacity*72), normals(rng, s.capacity*40), normals(rng, 72*40), normals(rng, 40)
	f := factorsFor(rng, s)
	var want []float32
	var wantSums []float64
	both := func(name string) {
		for _, odd := range []int{0, 1} {
			m := newMachine(t)
			put := func(v []float32) Ptr { return m.floats(append(make([]float32, odd), v...)) + Ptr(4*odd) }
			b, weights, gradient, values := m.batch(s), put(w), put(dy), put(x)
			y, dx, sums := m.floats(fill(s.capacity*40, untouched)), m.floats(fill(s.capacity*72, untouched)), m.doubles(fill64(73*40, 0.1))
			m.launch(DenseForward(b, op, values, weights, put(bias), y))
			m.launch(DenseInputGrad(b, op, gradient, weights, dx, false))
			m.launch(DenseSum(b, op, values, gradient, m.floats(f), sums, sums+8*72*40))
			got, gotSums := append(m.read(y, s.capacity*40), m.read(dx, s.capacity*72)...), m.readDoubles(sums, 73*40)
			if want == nil {
				want, wantSums = got, gotSums
			}
			same(t, name, got, want)
			if !slices.Equal(gotSums, wantSums) {
				t.Errorf("%s: sums differ from those of other tiles", name)
			}
		}
	}
	tilesOf(&productTiles, both)
	tilesOf(&sumTiles, both)
}

// factorsFor gives factors, NaN for dead examples; every seventh example is left out, and holds NaN.
func factorsFor(rng *rand.Rand, s size, x ...[]float32) []float32 {
	f := spoil(make([]float32, s.capacity), s.live, s.capacity)
	for e := range s.live {
		f[e] = rng.Float32() + 0.1
		if e%7 == 3 {
			f[e] = 0
			for _, v := range x {
				each := len(v) / s.capacity
				copy(v[e*each:(e+1)*each], fill(each, nan32))
			}
		}
	}
	return f
}

func TestDenseSum(t *testing.T) {
	tilesOf(&sumTiles, func(name string) { testDenseSum(t, name+", ") })
}

func testDenseSum(t *testing.T, tile string) {
	rng := rand.New(rand.NewPCG(2, 2))
	eachDense(func(name string, c denseCase) {
		name = tile + name
		op := denseOp(c.in, c.out, c.bias)
		x, dy := spoil(normals(rng, c.capacity*c.in), c.live, c.capacity), spoil(normals(rng, c.capacity*c.out), c.live, c.capacity)
		f := factorsFor(rng, c.size, x, dy)
		w, bias := fill64(c.in*c.out, 0.1), fill64(c.out, 0.1)
		m := newMachine(t)
		sumW, sumB := m.doubles(w), Ptr(0)
		if c.bias {
			sumB = m.doubles(bias)
		}
		m.launch(DenseSum(m.batch(c.size), op, m.floats(x), m.floats(dy), m.floats(f), sumW, sumB))
		wantW, wantB := make([]truth, c.in*c.out), make([]truth, c.out)
		for o := range c.out {
			wantB[o].add(bias[o])
			for i := range c.in {
				wantW[o*c.in+i].add(w[o*c.in+i])
			}
		}
		for e := range c.live {
			if f[e] == 0 {
				continue
			}
			for o := range c.out {
				d := float64(f[e]) * float64(dy[e*c.out+o])
				wantB[o].add(d)
				for i := range c.in {
					wantW[o*c.in+i].add(d, float64(x[e*c.in+i]))
				}
			}
		}
		const roundings = ExampleBlock + 1
		near64(t, name+": weights", m.readDoubles(sumW, len(wantW)), wantW, roundings)
		if c.bias {
			near64(t, name+": bias", m.readDoubles(sumB, len(wantB)), wantB, roundings)
		}
	})
}

// Sums of several ops have the bits of each alone.
func TestDenseSums(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 3))
	s := size{40, 45}
	m := newMachine(t)
	b, f := m.batch(s), m.floats(factorsFor(rng, s))
	var sums []Sum
	var sizes []int
	var places []Ptr
	for i, c := range [][2]int{{70, 33}, {5, 40}, {32, 32}, {1, 1}, {40, 3}} {
		op := denseOp(c[0], c[1], i%2 == 0)
		n := c[0]*c[1] + c[1]
		x, dy := m.floats(spoil(normals(rng, s.capacity*c[0]), s.live, s.capacity)), m.floats(spoil(normals(rng, s.capacity*c[1]), s.live, s.capacity))
		start := m.doubles(fill64(n, 0.5))
		want := m.doubles(fill64(n, 0.5))
		bias := func(p Ptr) Ptr {
			if op.Bias == ir.None {
				return 0
			}
			return p + Ptr(8*c[0]*c[1])
		}
		m.launch(DenseSum(b, op, x, dy, f, want, bias(want)))
		sums = append(sums, Sum{op, x, dy, f, start, bias(start)})
		sizes, places = append(sizes, n), append(places, want)
	}
	for some := range slices.Chunk(sums, MostSums) {
		m.launch(DenseSums(b, 0, some...)[0])
	}
	for i := range sums {
		got, want := m.readDoubles(sums[i].SumW, sizes[i]), m.readDoubles(places[i], sizes[i])
		for j := range got {
			if got[j] != want[j] {
				t.Fatalf("op %d: value %d is %v, alone %v", i, j, got[j], want[j])
			}
		}
	}
	if large := denseOp(1024, 1024, true); SumsTogether(large) {
		t.Error("a large op is summed with others")
	}
}

func TestDenseStore(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	for i, c := range slices.Concat(denseCases, denseCases, denseCases) {
		k := maths[i/len(denseCases)]
		name := fmt.Sprintf("%s, %v, %d to %d", k, c.size, c.in, c.out)
		op := denseOp(c.in, c.out, c.bias)
		x, dy := spoil(normals(rng, c.capacity*c.in), c.live, c.capacity), spoil(normals(rng, c.capacity*c.out), c.live, c.capacity)
		params := c.in * c.out
		if c.bias {
			params += c.out
		}
		stride := params + 3
		m := newMachine(t)
		kept, norm2 := m.floats(fill(c.capacity*stride, untouched)), m.doubles(make([]float64, c.capacity))
		if k.plain() {
			m.launch(DenseStore(m.batch(c.size), op, m.floats(x), m.floats(dy), kept, stride, norm2))
		} else {
			m.launch(k.DenseStore(m.batch(c.size), op, m.pixels(k, op.Shape, x), m.pixels(k, op.Out, dy), kept, stride, norm2))
		}
		want, squares := fill(c.capacity*stride, untouched), make([]float64, c.capacity)
		for e := range c.live {
			for o := range c.out {
				d := k.nearest(dy[e*c.out+o])
				for i := range c.in {
					want[e*stride+o*c.in+i] = d * k.nearest(x[e*c.in+i])
				}
				if c.bias {
					want[e*stride+c.in*c.out+o] = d
				}
			}
			for _, v := range want[e*stride : e*stride+params] {
				squares[e] += float64(v) * float64(v)
			}
		}
		same(t, name+": kept", m.read(kept, len(want)), want)
		for i, n := range m.readDoubles(norm2, len(squares)) {
			close64(t, fmt.Sprintf("%s: norm %d", name, i), n, squares[i], gamma(params, 0x1p-53))
		}
	}
}
