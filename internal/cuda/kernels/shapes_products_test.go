package kernels

import (
	"slices"

	"github.com/privgrad/privgrad/internal/ir"
)

// tap is the pixel that a window reads at an output position through a tap, −1 outside.
func tap(op *ir.Op, p, u, v int) int {
	w := op.Window
	i, j := p/op.Out[2]*w.StrideH+u*w.DilationH-w.PadTop, p%op.Out[2]*w.StrideW+v*w.DilationW-w.PadLeft
	if i < 0 || j < 0 || i >= op.Shape[1] || j >= op.Shape[2] {
		return -1
	}
	return i*op.Shape[2] + j
}

// column is what tap k of a filter reads at a position of example b.
func (o *wideOp) column(b, k, p int) float64 {
	w := o.op.Window
	at := tap(o.op, p, k/w.W%w.H, k%w.W)
	if at < 0 {
		return 0
	}
	return o.x.at(b*o.in + k/(w.H*w.W)*o.op.Shape[1]*o.op.Shape[2] + at)
}

// gradient is element e of example b's: weights, then the bias.
func (o *wideOp) gradient(b, e int) (t total) {
	for p := range o.positions {
		if e >= o.out*o.k {
			t.add(o.dy.at(b*o.values + (e-o.out*o.k)*o.positions + p))
		} else {
			t.add(o.dy.at(b*o.values+e/o.k*o.positions+p) * o.column(b, e%o.k, p))
		}
	}
	return t
}

func (o *wideOp) convForward() {
	o.check(ConvForward(o.b, o.op, o.x.Ptr, o.w.Ptr, o.bias.Ptr, o.y.Ptr), result{place: o.y, name: "y", row: o.values, bound: o.bound(o.k),
		want: func(b, e int) (t total) {
			f, p := e/o.positions, e%o.positions
			for k := range o.k {
				t.add(o.w.at(f*o.k+k) * o.column(b, k, p))
			}
			t.add(o.bias.at(f))
			return t
		}})
}

func (o *wideOp) convInputGrad() {
	w, pixels := o.op.Window, o.op.Shape[1]*o.op.Shape[2]
	taps := w.H * w.W
	o.check(ConvInputGrad(o.b, o.op, o.dy.Ptr, o.w.Ptr, o.dx.Ptr, false), result{place: o.dx, name: "dx", row: o.in, bound: o.bound(o.out * taps),
		want: func(b, e int) (t total) {
			for i := range taps * o.positions {
				if tap(o.op, i/taps, i%taps/w.W, i%w.W) != e%pixels {
					continue
				}
				for f := range o.out {
					t.add(o.w.at(f*o.k+e/pixels*taps+i%taps) * o.dy.at(b*o.values+f*o.positions+i/taps))
				}
			}
			return t
		}})
}

// convGradients keeps gradients where a row of them begins with those of other ops, or adds them up.
func (o *wideOp) convGradients(keptAt, stride int) {
	kept, norm2 := o.floats(o.b.Capacity*stride), o.zeros(2*o.b.Capacity*ConvNorms(o.op))
	o.check(ConvStore(o.b, o.op, o.x.Ptr, o.dy.Ptr, kept.Ptr+Ptr(4*keptAt), stride, norm2.Ptr),
		result{place: kept, name: "kept", row: stride, skip: keptAt, bound: o.bound(o.positions), want: o.gradient})

	n, size := ConvParts(o.op, o.b.Capacity), o.out*(o.k+1)
	examples := 1 // of a part
	for ConvParts(o.op, examples+1) == 1 {
		examples++
	}
	parts := o.floats(n * size)
	o.ends(ConvSum(o.b, o.op, o.x.Ptr, o.dy.Ptr, o.factors.Ptr, parts.Ptr, size),
		result{place: parts, name: "parts", row: size, bound: o.bound(o.positions + examples),
			want: func(g, e int) (t total) {
				for b := g * examples; b < min((g+1)*examples, o.b.Capacity); b++ {
					if f := o.factors.at(b); f > 0 {
						one := o.gradient(b, e)
						t.sum, t.size = t.sum+f*one.sum, t.size+f*one.size
					}
				}
				return t
			}})
	weights, bias := o.floats(2*o.out*o.k), o.floats(2*o.out)
	add := func(sum *place, first int) result {
		return result{place: sum, name: "sum", double: true, row: 1, bound: 0x1p-40, want: func(e, _ int) (t total) {
			t.add(sum.double(e))
			for g := range n {
				t.add(parts.at(g*size + first + e))
			}
			return t
		}}
	}
	o.check(SumParts(o.op, parts.Ptr, size, n, weights.Ptr, bias.Ptr), add(weights, 0), add(bias, o.out*o.k))
}

func (o *wideOp) denseForward() {
	o.check(DenseForward(o.b, o.op, o.x.Ptr, o.w.Ptr, o.bias.Ptr, o.y.Ptr), result{place: o.y, name: "y", row: o.out, bound: o.bound(o.k),
		want: func(b, e int) (t total) {
			for i := range o.k {
				t.add(o.x.at(b*o.k+i) * o.w.at(e*o.k+i))
			}
			t.add(o.bias.at(e))
			return t
		}})
}

func (o *wideOp) denseInputGrad() {
	o.check(DenseInputGrad(o.b, o.op, o.dy.Ptr, o.w.Ptr, o.dx.Ptr, false), result{place: o.dx, name: "dx", row: o.k, bound: o.bound(o.out),
		want: func(b, e int) (t total) {
			for f := range o.out {
				t.add(o.dy.at(b*o.out+f) * o.w.at(f*o.k+e))
			}
			return t
		}})
}

// denseSums adds up the clipped gradients of dense ops, of as many together as go.
func (s *wide) denseSums(ops []*wideOp) {
	var sums []Sum
	var results []result
	for i, o := range ops {
		w, bias := s.floats(2*o.out*o.k), s.floats(2*o.out)
		sums = append(sums, Sum{o.op, o.x.Ptr, o.dy.Ptr, o.factors.Ptr, w.Ptr, bias.Ptr})
		results = append(results,
			result{place: w, name: "weights", double: true, row: o.k, bound: s.bound(ExampleBlock), want: func(f, e int) total {
				return o.clipped(w.double(f*o.k+e), f, func(b int) float64 { return o.x.at(b*o.k + e) })
			}},
			result{place: bias, name: "bias", double: true, row: 1, bound: s.bound(ExampleBlock), want: func(f, _ int) total {
				return o.clipped(bias.double(f), f, func(int) float64 { return 1 })
			}})
		together := SumsTogether(o.op)
		if together && len(sums) < MostSums && i+1 < len(ops) && SumsTogether(ops[i+1].op) {
			continue
		}
		if together {
			s.sumsTogether(ops[i+1-len(sums):i+1], sums, results)
		} else {
			s.check(DenseSum(s.b, o.op, o.x.Ptr, o.dy.Ptr, o.factors.Ptr, w.Ptr, bias.Ptr), results...)
		}
		sums, results = nil, nil
	}
}

// sumsTogether checks a launch of a few ops, or two of them: one for parts, one that adds them.
func (s *wide) sumsTogether(ops []*wideOp, sums []Sum, results []result) {
	stride := 0
	var places []int
	for _, o := range ops {
		places = append(places, stride)
		stride += partStride(o.op)
	}
	if s.b.Capacity <= 2*SumPart {
		s.check(DenseSums(s.b, 0, sums...)[0], results...)
		return
	}
	count := ceil(s.b.Capacity, SumPart)
	parts := s.floats(count * stride)
	launches := DenseSums(s.b, parts.Ptr, sums...)
	s.check(launches[0], result{place: parts, name: "parts", row: stride, bound: s.bound(ExampleBlock), want: func(p, e int) (t total) {
		at, _ := slices.BinarySearch(places, e+1)
		o, e := ops[at-1], e-places[at-1]
		f, x := e/o.k, func(b int) float64 { return o.x.at(b*o.k + e%o.k) }
		if e >= o.out*o.k {
			f, x = e-o.out*o.k, func(int) float64 { return 1 }
		}
		return o.share(p*SumPart, min((p+1)*SumPart, s.b.Capacity), f, x)
	}})
	add := func(before float64, at int) (t total) {
		t.add(before)
		for p := range count {
			t.add(parts.at(p*stride + at))
		}
		return t
	}
	for i, o := range ops {
		w, bias := results[2*i].place, results[2*i+1].place
		results[2*i].want = func(f, e int) total { return add(w.double(f*o.k+e), places[i]+f*o.k+e) }
		results[2*i+1].want = func(f, _ int) total { return add(bias.double(f), places[i]+o.out*o.k+f) }
	}
	s.check(launches[1], results...)
}

// clipped is Σ_b f_b·dy[b][f]·x(b), added to what was there.
func (o *wideOp) clipped(before float64, f int, x func(b int) float64) (t total) {
	t = o.share(0, o.b.Capacity, f, x)
	t.add(before)
	return t
}

// share is that of some examples.
func (o *wideOp) share(first, end, f int, x func(b int) float64) (t total) {
	for b := first; b < end; b++ {
		if by := o.factors.at(b); by > 0 {
			t.add(by * o.dy.at(b*o.out+f) * x(b))
		}
	}
	return t
}
