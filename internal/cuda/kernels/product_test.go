package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// What is around a library's product: with the product done here in float64, the
// sum is that of DenseSum. Rows that are left out hold NaN, and so does all of the
// operands' memory before.
func TestProductSum(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	for _, c := range denseCases {
		name := fmt.Sprintf("%v, %d to %d", c.size, c.in, c.out)
		op := denseOp(c.in, c.out, c.bias)
		x, dy := spoil(normals(rng, c.capacity*c.in), c.live, c.capacity), spoil(normals(rng, c.capacity*c.out), c.live, c.capacity)
		f := factorsFor(rng, c.size, x, dy)
		m := newMachine(t)
		block := min(c.capacity, 40)
		blocks := ceil(c.capacity, block)
		rows, line, inLine := blocks*block, Line(c.out), ProductLine(op)
		deltas, inputs := m.floats(fill(rows*line, nan32)), m.floats(fill(rows*inLine, nan32))
		b, factors := m.batch(c.size), m.floats(f)
		m.launch(ProductDeltas(b, op, rows, m.floats(dy), factors, deltas))
		m.launch(ProductInputs(b, op, rows, m.floats(x), factors, inputs))
		d, u := m.read(deltas, rows*line), m.read(inputs, rows*inLine)
		for r := range rows {
			counts := r < c.live && f[r] > 0
			for o := range line {
				want := float32(0)
				if counts && o < c.out {
					want = f[r] * dy[r*c.out+o]
				}
				if got := d[r*line+o]; got != want {
					t.Fatalf("%s: δ of row %d, %d is %v, want %v", name, r, o, got, want)
				}
			}
			for i := range inLine {
				want := float32(0)
				switch {
				case counts && i < c.in:
					want = x[r*c.in+i]
				case counts && i == c.in && c.bias:
					want = 1
				}
				if got := u[r*inLine+i]; got != want {
					t.Fatalf("%s: input of row %d, %d is %v, want %v", name, r, i, got, want)
				}
			}
		}
		products, want := make([]float32, blocks*c.out*inLine), make([]float64, c.out*inLine)
		for k := range products {
			o, i := k/inLine%c.out, k%inLine
			products[k] = nan32 // what fills a row up
			if i < c.in || i == c.in && c.bias {
				products[k] = rng.Float32()
				want[o*inLine+i] += float64(products[k])
			}
		}
		w, bias := m.doubles(fill64(c.in*c.out, 0.1)), Ptr(0)
		if c.bias {
			bias = m.doubles(fill64(c.out, 0.1))
		}
		m.launch(ProductSum(op, m.floats(products), blocks, w, bias))
		sums := m.readDoubles(w, c.in*c.out)
		for o := range c.out {
			for i := range c.in {
				if got := sums[o*c.in+i]; got != 0.1+want[o*inLine+i] {
					t.Fatalf("%s: weight %d, %d is %v, want %v", name, o, i, got, 0.1+want[o*inLine+i])
				}
			}
			if !c.bias {
				continue
			}
			if got := m.readDoubles(bias, c.out)[o]; got != 0.1+want[o*inLine+c.in] {
				t.Fatalf("%s: bias %d is %v, want %v", name, o, got, 0.1+want[o*inLine+c.in])
			}
		}
	}
}

// A factor above one, of automatic clipping, may take δ beyond float32.
func TestProductDeltasLeavesOutOverflow(t *testing.T) {
	m := newMachine(t)
	op := denseOp(1, 2, false)
	to := m.floats(fill(4, nan32))
	m.launch(ProductDeltas(m.batch(size{1, 1}), op, 1, m.floats([]float32{3e38, -1}), m.floats([]float32{2}), to))
	same(t, "δ", m.read(to, 4), []float32{0, -2, 0, 0})
}

func TestProductBias(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	for _, c := range denseCases {
		op := denseOp(c.in, c.out, true)
		y, bias := spoil(normals(rng, c.capacity*c.out), c.live, c.capacity), normals(rng, c.out)
		m := newMachine(t)
		at := m.floats(y)
		m.launch(ProductBias(m.batch(c.size), op, m.floats(bias), at))
		for k := range c.live * c.out {
			y[k] += bias[k%c.out]
		}
		same(t, fmt.Sprint(c.size), m.read(at, len(y)), y)
	}
}

// The bound of ProductRoundings is that of the worst of all binary trees, and a chain
// reaches it.
func TestProductRoundings(t *testing.T) {
	// worst is the largest sum of squares over the leaves of trees of n, whose root lies so deep.
	var worst func(n, depth int) int
	known := map[[2]int]int{}
	worst = func(n, depth int) int {
		if n == 1 {
			return (depth + 1) * (depth + 1)
		}
		key := [2]int{n, depth}
		if w, ok := known[key]; ok {
			return w
		}
		most := 0
		for left := 1; left < n; left++ {
			most = max(most, worst(left, depth+1)+worst(n-left, depth+1))
		}
		known[key] = most
		return most
	}
	for n := 1; n <= ProductBlock; n++ {
		want := math.Sqrt(float64(worst(n, 0)) / float64(n))
		if got := ProductRoundings(n, -1); math.Abs(got-want) > 1e-12*want {
			t.Errorf("%d rows: %v, the worst tree has %v", n, got, want)
		}
	}
	if ProductRoundings(1000, 1000) <= SumRoundings(1000, 1000) {
		t.Error("an unknown order is no worse than the project's own")
	}
}
