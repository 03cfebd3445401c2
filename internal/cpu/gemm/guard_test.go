//go:build linux || darwin

package gemm

import (
	"math"
	"slices"
	"testing"

	"github.com/privgrad/privgrad/internal/cpu/squares"
	"github.com/privgrad/privgrad/internal/cpu/vec/guard"
)

// Every operand, the result and every packing buffer lie in turn directly before and after memory that faults.
func TestNothingOutsideIsTouched(t *testing.T) {
	const most = 128 * 700 // with the padding of panels
	var regions [7]guard.Region
	for i := range regions {
		regions[i] = guard.New(t, 4*most)
	}
	r := newRand(8)
	place := func(region int, x []float32) []float32 {
		y := regions[region].Floats(len(x), r.IntN(2) == 0)
		copy(y, x)
		return y
	}
	eachImplementation(t, func(t *testing.T) {
		for round := range 400 {
			m, n, k := 1+r.IntN(100), 1+r.IntN(100), 1+r.IntN(40) // often rows enough for packing
			switch round % 10 {
			case 0:
				k = 300 + r.IntN(400)
			case 1, 2, 3:
				n = TileN * (1 + r.IntN(3))
			}
			var free Workspace
			a, b := layouts[r.IntN(2)].build(r, m, k), layouts[r.IntN(2)].build(r, k, n)
			want := RowMajor(make([]float32, m*n), m, n)
			Mul(want, a, b, false, &free)

			a.Data, b.Data = place(0, a.Data), place(1, b.Data)
			c := RowMajor(place(2, want.Data), m, n)
			clear(c.Data)
			Mul(c, a, b, false, &Workspace{a: place(3, free.a), b: place(4, free.b)})
			if !slices.Equal(c.Data, want.Data) {
				t.Fatalf("%dx%dx%d: Mul gives other bits at other addresses", m, k, n)
			}
			sum := RowMajor(make([]float32, m*n), m, n)
			Sum(sum, a, b, 16, &free)
			clear(c.Data)
			Sum(c, a, b, 16, &Workspace{a: place(3, free.a), b: place(4, free.b)})
			if !slices.Equal(c.Data, sum.Data) {
				t.Fatalf("%dx%dx%d: Sum gives other bits at other addresses", m, k, n)
			}

			height, panels := split(m).panels, (n+TileN-1)/TileN
			pa := PackedA{data: place(5, make([]float32, height*k*TileM))}
			pb := PackedB{data: place(6, make([]float32, panels*k*TileN))}
			PackA(&pa, a)
			PackB(&pb, b)
			MulPacked(c, &pa, &pb, false)
			if !slices.Equal(c.Data, want.Data) {
				t.Fatalf("%dx%dx%d: MulPacked gives other bits at other addresses", m, k, n)
			}
			groups := []Matrix{a.Slice(0, m/2, 0, k), a.Slice(m-m/2, m, 0, k)}
			sums, excess := place(2, make([]float32, 4*n)), make([]float32, 4*n)
			AddExcess(excess, groups, &pb, 0.5, &free)
			AddExcess(sums, groups, &pb, 0.5, &Workspace{a: place(3, free.a), b: place(4, free.b), Left: PackedA{data: place(5, free.Left.data)}})
			if !sameFloats(sums, excess) {
				t.Fatalf("%dx%dx%d: AddExcess gives other bits at other addresses", m, k, n)
			}

			x, weights, bias := dense(r, m, k), dense(r, n, k), values(r, n)
			w := packed(weights)
			w.Mul(want, x, weights, bias, &free)
			x.Data, weights.Data, bias = place(0, x.Data), place(1, weights.Data), place(6, bias)
			clear(c.Data)
			w.Mul(c, x, weights, bias, &Workspace{a: place(3, free.a), b: place(4, free.b), Left: PackedA{data: place(5, free.Left.data)}})
			if !sameFloats(c.Data, want.Data) {
				t.Fatalf("%dx%dx%d: Weights give other bits at other addresses", m, k, n)
			}
		}
	})
}

// Nor does a gradient from picks touch more of the image than it says, nor anything beside δ and the result.
func TestNothingOutsidePicksIsTouched(t *testing.T) {
	var regions [3]guard.Region
	for i := range regions {
		regions[i] = guard.New(t, 1<<16)
	}
	r := newRand(35)
	place := func(region int, x []float32) []float32 {
		y := regions[region].Floats(len(x), r.IntN(2) == 0)
		copy(y, x)
		return y
	}
	eachImplementation(t, func(t *testing.T) {
		tried := 0
		for range 300 {
			g := geometry{1 + r.IntN(4), 1 + r.IntN(5), shortestRun + r.IntN(group-shortestRun+1), 3 + r.IntN(7), 3 + r.IntN(7), 1 + r.IntN(5)}
			windows := 1 + r.IntN(g.rows)
			p := NewPicker(g.taps(), g.out, windows)
			if p == nil {
				continue
			}
			tried++
			x := values(r, p.Reach())
			delta, at := g.pick(r, windows)
			at[0], at[len(at)-1] = 0, int32(g.out*g.rows*g.cols-1)
			want := make([]float32, g.out*g.k())
			p.Contract(want, x, delta, at)
			c := place(2, make([]float32, len(want)))
			p.Contract(c, place(0, x), place(1, delta), at)
			equalBits(t, c, want)
		}
		if tried < 100 {
			t.Errorf("only %d shapes have a picker", tried)
		}
	})
}

// Nor does a convolution by squares touch more than its operands, its results and its buffers, each as long as it must be.
// What the buffers hold before reaches no result.
func TestNothingOutsideSquaresIsTouched(t *testing.T) {
	const most = 1 << 17
	var regions [8]guard.Region
	for i := range regions {
		regions[i] = guard.New(t, 4*most)
	}
	r := newRand(34)
	place := func(region int, x []float32) []float32 {
		y := regions[region].Floats(len(x), r.IntN(2) == 0)
		copy(y, x)
		return y
	}
	buffer := func(region int, like []float32) []float32 {
		return place(region, slices.Repeat([]float32{float32(math.NaN())}, len(like)))
	}
	even := func() int { return 2 + 2*r.IntN(1+r.IntN(18)) } // often few
	eachImplementation(t, func(t *testing.T) {
		for range 150 {
			s := square{8 + r.IntN(33), 1 + r.IntN(40), even(), even()}
			plan, positions := s.plan(), s.rows*s.cols
			image, weights := s.image(r, plan), packWinograd(values(r, s.out*s.channels*squares.Taps), s.out, s.channels, false)
			accumulate, relu := r.IntN(2) == 0, r.IntN(2) == 0

			var free WinogradWork
			ld, bias := positions+r.IntN(3), []float32(nil)
			images := Images{N: 1 + r.IntN(plan.Together()), X: r.IntN(50), C: (s.out-1)*ld + positions + r.IntN(3)}
			x := slices.Concat(values(r, (images.N-1)*images.X), image)
			before := values(r, (images.N-1)*images.C+(s.out-1)*ld+positions)
			want := slices.Clone(before)
			if r.IntN(2) == 0 {
				bias = values(r, s.out)
			}
			plan.Correlate(want, ld, weights, x, images, accumulate, bias, relu, &free)
			x = place(0, x)
			y, v, m := place(1, before), buffer(3, free.v), buffer(4, free.m)
			if bias != nil {
				bias = place(7, bias)
			}
			w := &WinogradWork{v: v, m: m}
			plan.Correlate(y, ld, weights, x, images, accumulate, bias, relu, w)
			equalBits(t, y, want)
			if &w.v[0] != &v[0] || &w.m[0] != &m[0] {
				t.Fatalf("%v: Correlate uses other buffers", s)
			}

			x, free = place(0, image), WinogradWork{}
			delta, ld := dense(r, s.out, positions), s.out+r.IntN(3)
			gradient := func(data []float32) Matrix {
				return Matrix{Data: data, Rows: squares.Taps * s.channels, Cols: s.out, RS: ld, CS: 1}
			}
			before = values(r, (squares.Taps*s.channels-1)*ld+s.out)
			want = slices.Clone(before)
			plan.Contract(gradient(want), x, delta, accumulate, &free)
			delta.Data = place(2, delta.Data)
			c, v, m := place(1, before), buffer(3, free.v), buffer(4, free.m)
			d, packed := buffer(5, free.d), buffer(6, free.delta.data)
			w = &WinogradWork{v: v, m: m, d: d, delta: PackedB{data: packed}}
			plan.Contract(gradient(c), x, delta, accumulate, w)
			equalBits(t, c, want)
			if &w.v[0] != &v[0] || &w.m[0] != &m[0] || &w.d[0] != &d[0] || &w.delta.data[0] != &packed[0] {
				t.Fatalf("%v: Contract uses other buffers", s)
			}
		}
	})
}
