package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/privgrad/privgrad/internal/ir"
)

// normOp is a normalization of so many groups.
func normOp(groups int, bias bool, shape ...int) *ir.Op {
	op := &ir.Op{Kind: ir.GroupNorm, Shape: shape, Out: shape, Groups: groups, Epsilon: 1e-3, Bias: ir.None}
	if bias {
		op.Bias = 1
	}
	return op
}

// normalized is (x−μ)/√(v+ε) of an example, and 1/√(v+ε) of each element's group.
func normalized(op *ir.Op, x []float32) (y, scale []float64) {
	size := len(x) / op.Groups
	for first := 0; first < len(x); first += size {
		sum, squares := 0.0, 0.0
		for _, v := range x[first : first+size] {
			sum += float64(v)
		}
		mean := sum / float64(size)
		for _, v := range x[first : first+size] {
			squares += (float64(v) - mean) * (float64(v) - mean)
		}
		s := 1 / math.Sqrt(squares/float64(size)+op.Epsilon)
		for _, v := range x[first : first+size] {
			y, scale = append(y, (float64(v)-mean)*s), append(scale, s)
		}
	}
	return y, scale
}

// once compares with what was computed in float64 and rounded once, and perhaps added to before.
func once(t *testing.T, what string, got []float32, want []float64, before float32) {
	t.Helper()
	for i, w := range want {
		bound := 0x1.01p-24*math.Abs(w) + 1e-12
		if before != 0 {
			w += float64(before)
			bound += 0x1p-24 * math.Abs(w)
		}
		if !(math.Abs(float64(got[i])-w) <= bound) {
			t.Fatalf("%s: value %d is %v, want %v", what, i, got[i], w)
		}
	}
}

func TestGroupNorm(t *testing.T) {
	rng := rand.New(rand.NewPCG(15, 15))
	for _, op := range []*ir.Op{
		normOp(2, true, 4, 3, 5), normOp(1, false, 3, 2, 2), normOp(3, true, 3, 17, 16), // the last has more positions than lanes
		normOp(2, true, 6), normOp(4, false, 12), normOp(1, true, 300, 1, 2),
	} {
		for _, s := range []size{{3, 4}, {0, 2}, {2, 2}} {
			name := fmt.Sprintf("%v in %d groups, %v", op.Shape, op.Groups, s)
			n, channels := ir.Size(op.Shape), op.Shape[0]
			x, dy := normals(rng, s.capacity*n), spoil(normals(rng, s.capacity*n), s.live, s.capacity)
			for i := range x {
				x[i] += 3 // a mean far from zero
			}
			spoil(x, s.live, s.capacity)
			w, bias, at := normals(rng, channels), make([]float32, channels), Ptr(0)
			m := newMachine(t)
			if op.Bias != ir.None {
				bias = normals(rng, channels)
				at = m.floats(bias)
			}
			b, xAt, dyAt, wAt, moments := m.batch(s), m.floats(x), m.floats(dy), m.floats(w), m.alloc(s.capacity*MomentBytes(op))
			y, dx, sum := m.floats(fill(s.capacity*n, untouched)), m.floats(fill(s.capacity*n, untouched)), m.floats(fill(s.capacity*n, untouched))
			params := channels
			if op.Bias != ir.None {
				params *= 2
			}
			stride := params + 3
			kept, norms := m.floats(fill(s.capacity*stride, untouched)), m.doubles(fill64(s.capacity, 3))
			m.launch(GroupNorm(b, op, xAt, wAt, at, y, moments))
			m.launch(GroupNormGrad(b, op, xAt, dyAt, wAt, moments, dx, false))
			m.launch(GroupNormGrad(b, op, xAt, dyAt, wAt, moments, sum, true))
			m.launch(GroupNormStore(b, op, xAt, dyAt, moments, kept, stride, norms))

			positions, group := n/channels, n/op.Groups
			gotY, gotX, gotSum := m.read(y, s.capacity*n), m.read(dx, s.capacity*n), m.read(sum, s.capacity*n)
			stored, squares := m.read(kept, s.capacity*stride), m.readDoubles(norms, s.capacity)
			for e := range s.capacity {
				if e >= s.live {
					same(t, name+": dead gradient", stored[e*stride:(e+1)*stride], fill(stride, untouched))
					close64(t, name+": dead norm", squares[e], 3, 0)
					continue
				}
				hat, scale := normalized(op, x[e*n:(e+1)*n])
				wantY, wantX, wantG := make([]float64, n), make([]float64, n), make([]float64, params)
				mean, slope := make([]float64, op.Groups), make([]float64, op.Groups)
				for i := range n {
					c, d := i/positions, float64(dy[e*n+i])
					wantY[i] = hat[i]*float64(w[c]) + float64(bias[c])
					mean[i/group] += d * float64(w[c]) / float64(group)
					slope[i/group] += d * float64(w[c]) * hat[i] / float64(group)
					if wantG[c] += d * hat[i]; op.Bias != ir.None {
						wantG[channels+c] += d
					}
				}
				for i := range n {
					wantX[i] = scale[i] * (float64(dy[e*n+i])*float64(w[i/positions]) - mean[i/group] - hat[i]*slope[i/group])
				}
				once(t, name+": y", gotY[e*n:], wantY, 0)
				once(t, name+": dx", gotX[e*n:], wantX, 0)
				once(t, name+": dx added", gotSum[e*n:], wantX, untouched)
				g, norm := stored[e*stride:(e+1)*stride], 3.0
				once(t, name+": gradient", g, wantG, 0)
				for _, v := range g[:params] {
					norm += float64(v) * float64(v)
				}
				same(t, name+": what is not written", g[params:], fill(3, untouched))
				close64(t, name+": norm of what is kept", squares[e], norm, gamma(params+2, 0x1p-53))
			}
			dead := (s.capacity - s.live) * n
			same(t, name+": dead y", gotY[s.live*n:], fill(dead, untouched))
			same(t, name+": dead dx", gotX[s.live*n:], fill(dead, untouched))
		}
	}
}
