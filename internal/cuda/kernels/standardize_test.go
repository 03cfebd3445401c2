package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/privgrad/privgrad/internal/ir"
)

const standardizeFloor = 1e-4

// channel is a filter's mean, its sum of squares about it, and what it is multiplied by.
func channel(w []float64) (mean, scale, squares float64) {
	for _, v := range w {
		mean += v
	}
	mean /= float64(len(w)) // exact for a constant filter
	for _, v := range w {
		squares += (v - mean) * (v - mean)
	}
	return mean, 1 / math.Sqrt(max(squares, standardizeFloor)), squares
}

func doubled(x []float32) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = float64(v)
	}
	return y
}

// filters are out×k weights. Of every four filters one is constant, and one has a sum of squares below the floor.
func filters(rng *rand.Rand, out, k int, scale float32) []float32 {
	w := normals(rng, out*k)
	for i := range w {
		switch i / k % 4 {
		case 2:
			w[i] = 0.25
		case 3:
			w[i] = 0.25 + w[i]*0x1p-13
		default:
			w[i] = (w[i] + 1) / 8 * scale
		}
	}
	return w
}

// shapesOfFilters have fewer taps than lanes, as many, and more than threads; and fewer filters than warps, as many, and more.
var shapesOfFilters = [][2]int{{1, 1}, {3, 27}, {17, 9}, {40, 300}, {5, 1000}, {16, 32}}

func TestStandardize(t *testing.T) {
	rng := rand.New(rand.NewPCG(18, 1))
	for _, l := range shapesOfFilters {
		for _, scale := range []float32{1, 1e38} {
			out, k := l[0], l[1]
			w, gain := filters(rng, out, k, scale), normals(rng, out)
			m := newMachine(t)
			made, moments := m.empty(out*k), m.alloc(StandardizeMomentBytes(out))
			m.launch(Standardize(out, k, m.floats(w), m.floats(gain), made, moments, 0))
			got, about := m.read(made, out*k), m.readDoubles(moments, 3*out)
			for o := range out {
				row := doubled(w[o*k : (o+1)*k])
				mean, s, squares := channel(row)
				want := make([]float64, k)
				for j, v := range row {
					want[j] = float64(gain[o]) * (v - mean) * s
				}
				name := fmt.Sprintf("filter %d of %v at %g", o, l, scale)
				once(t, name, got[o*k:(o+1)*k], want, 0)
				// Sums of k terms in another order; those of the mean are of one sign, more or less.
				within64(t, name+": mean", about[3*o], mean, 1e-13*float64(scale))
				close64(t, name+": scale", about[3*o+1], s, 1e-12)
				within64(t, name+": squares", about[3*o+2], squares, 1e-12*squares+1e-30)
			}
		}
	}
}

func within64(t *testing.T, what string, got, want, bound float64) {
	t.Helper()
	if d := math.Abs(got - want); !(d <= bound) {
		t.Fatalf("%s is %v, want %v within %.3g", what, got, want, bound)
	}
}

// A weight that is no number makes its own filter none, and no other.
func TestStandardizeNaN(t *testing.T) {
	m := newMachine(t)
	made, moments := m.empty(6), m.alloc(StandardizeMomentBytes(2))
	m.launch(Standardize(2, 3, m.floats([]float32{1, nan32, 2, 1, 2, 3}), m.floats([]float32{1, 1}), made, moments, 0))
	got := m.read(made, 6)
	same(t, "filter without numbers", got[:3], fill(3, nan32))
	if got[3] != -got[5] || got[4] != 0 {
		t.Errorf("the other filter is %v", got[3:])
	}
}

func TestStandardizeGrad(t *testing.T) {
	for i, l := range shapesOfFilters {
		for j, s := range []size{{3, 4}, {0, 2}, {2, 2}} {
			bias := 0
			if (i+j)%2 == 0 {
				bias = l[0]
			}
			t.Run(fmt.Sprintf("%d filters of %d taps, %d biases, %v", l[0], l[1], bias, s), func(t *testing.T) {
				standardizeGrad(t, rand.New(rand.NewPCG(18, uint64(i))), l[0], l[1], bias, s, []float32{1, 1e38}[j%2])
			})
		}
	}
}

// standardizeGrad turns gradients in place, with the norm and without.
func standardizeGrad(t *testing.T, rng *rand.Rand, out, k, bias int, s size, scale float32) {
	t.Helper()
	params := out*k + bias + out
	stride := params + 3
	w, gain, before := filters(rng, out, k, scale), normals(rng, out), normals(rng, s.capacity*stride)
	for i := range before {
		switch at := i % stride; {
		case at < out*k:
			before[i] = (before[i] + 1) * min(scale, 1e36)
		case at >= params:
			before[i] = untouched
		case at >= out*k+bias:
			before[i] = nan32 // only room
		}
	}
	spoil(before, s.live, s.capacity)
	m := newMachine(t)
	b, wAt, gainAt, moments := m.batch(s), m.floats(w), m.floats(gain), m.alloc(StandardizeMomentBytes(out))
	kept, alone, norms := m.floats(before), m.floats(before), m.doubles(fill64(s.capacity, 3))
	m.launch(Standardize(out, k, wAt, gainAt, m.empty(out*k), moments, 0))
	m.launch(StandardizeGrad(b, out, k, bias, wAt, gainAt, moments, kept, stride, norms))
	m.launch(StandardizeGrad(b, out, k, bias, wAt, gainAt, moments, alone, stride, 0))
	got, squares := m.read(kept, s.capacity*stride), m.readDoubles(norms, s.capacity)
	same(t, "without a norm", m.read(alone, s.capacity*stride), got)
	for e := range s.capacity {
		now, was := got[e*stride:(e+1)*stride], before[e*stride:(e+1)*stride]
		if e >= s.live {
			same(t, "dead gradient", now, was)
			close64(t, "dead norm", squares[e], 3, 0)
			continue
		}
		want, gains, norm := make([]float64, out*k), make([]float64, out), 3.0
		for o := range out {
			gains[o] = unstandardized(want[o*k:(o+1)*k], doubled(was[o*k:(o+1)*k]), doubled(w[o*k:(o+1)*k]), float64(gain[o]))
		}
		once(t, "dw", now, want, 0)
		same(t, "bias", now[out*k:out*k+bias], was[out*k:out*k+bias])
		once(t, "dgain", now[out*k+bias:], gains, 0)
		same(t, "what is not written", now[params:], fill(3, untouched))
		for _, v := range now[:params] {
			norm += float64(v) * float64(v)
		}
		// The test's own sum has a rounding for each value.
		close64(t, "norm of what is kept", squares[e], norm, gamma((k/32+2)*(out/16+1)+out/512+12+params+2, 0x1p-53))
	}
}

// unstandardized is the gradient at a filter's weights, from g at what it is run with; it gives that at the gain.
func unstandardized(dw, g, w []float64, gain float64) (slope float64) {
	mean, s, squares := channel(w)
	sum := 0.0
	for j := range g {
		sum += g[j] / float64(len(g))
		slope += g[j] * (w[j] - mean) * s
	}
	for j := range g {
		dw[j] = gain * s * (g[j] - sum)
		if squares > standardizeFloor {
			dw[j] -= gain * s * (w[j] - mean) * s * slope
		}
	}
	return slope
}

// At the floor the scale does not depend on the weights yet; just above it does.
func TestStandardizeGradAtFloor(t *testing.T) {
	w, g := []float32{0.004, 0.001, -0.007}, []float32{1, -2, 5}
	mean, s, _ := channel(doubled(w))
	for _, c := range []struct {
		squares float64
		depends bool
	}{{standardizeFloor, false}, {math.Nextafter(standardizeFloor, 1), true}} {
		m := newMachine(t)
		kept := m.floats(append(slices.Clone(g), untouched))
		m.launch(StandardizeGrad(m.batch(size{1, 1}), 1, 3, 0, m.floats(w), m.floats([]float32{1}), m.doubles([]float64{mean, s, c.squares}), kept, 4, 0))
		slope, want := 0.0, make([]float64, 3)
		for j := range g {
			slope += float64(g[j]) * (float64(w[j]) - mean) * s
		}
		for j := range g {
			want[j] = s * (float64(g[j]) - 4./3)
			if c.depends {
				want[j] -= s * (float64(w[j]) - mean) * s * slope
			}
		}
		once(t, fmt.Sprint("S = ", c.squares), m.read(kept, 3), want, 0)
	}
}

// What ConvStore keeps lies as StandardizeGrad takes it: the result is the derivative of Σ dy·(conv(x, W(w, gain)) + bias) by its parameters,
// as difference quotients of it say.
func TestStandardizedConvolution(t *testing.T) {
	rng := rand.New(rand.NewPCG(18, 3))
	op := imageOp(ir.Conv, 3, 6, 5, 4, ir.Square(3, 1, 1), true)
	out, k, positions := op.Columns()
	x, dy, w, gain := normals(rng, ir.Size(op.Shape)), normals(rng, ir.Size(op.Out)), filters(rng, out, k, 1), normals(rng, out)
	for _, list := range [][]float32{x, dy} { // of integers G is exact
		for i, v := range list {
			list[i] = float32(math.Round(2 * float64(v)))
		}
	}
	params := out*k + 2*out
	m := newMachine(t)
	b, wAt, gainAt, moments, kept := m.batch(size{1, 1}), m.floats(w), m.floats(gain), m.alloc(StandardizeMomentBytes(out)), m.empty(params)
	norms := m.doubles(make([]float64, ConvNorms(op)))
	m.launch(ConvStore(b, op, m.floats(x), m.floats(dy), kept, params, norms))
	m.launch(Standardize(out, k, wAt, gainAt, m.empty(out*k), moments, 0))
	m.launch(StandardizeGrad(b, out, k, out, wAt, gainAt, moments, kept, params, 0))
	got := m.read(kept, params)

	p := append(append(doubled(w), make([]float64, out)...), doubled(gain)...)
	loss := func() (sum float64) {
		made := make([]float64, 0, out*k)
		for o := range out {
			mean, s, _ := channel(p[o*k : (o+1)*k])
			for _, v := range p[o*k : (o+1)*k] {
				made = append(made, p[out*k+out+o]*(v-mean)*s)
			}
		}
		taps(op, func(o, i, k int) { sum += float64(dy[o]) * float64(x[i]) * made[k] })
		for o, d := range dy {
			sum += float64(d) * p[out*k+o/positions]
		}
		return sum
	}
	for i := range params {
		const h = 1e-4
		at := p[i]
		p[i] = at + h
		plus := loss()
		p[i] = at - h
		quotient := (plus - loss()) / (2 * h)
		p[i] = at
		// The loss, below 10⁴, loses less than a thousand roundings of 2⁻⁵³, which the division makes 10⁻⁵. Its third derivative is below G·s³ < 10³,
		// of which h²/6 stays; below the floor, where the step does not lead above it, there is none. One rounding is the result's.
		within(t, fmt.Sprint("derivative by parameter ", i), got[i], quotient, 1e-4+0x1p-23*math.Abs(quotient))
	}
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
