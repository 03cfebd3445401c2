package kernels_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/privgrad/privgrad/internal/cuda/kernels"
	"github.com/privgrad/privgrad/internal/device"
)

func TestAxpy(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 1))
	for _, n := range []int{1, 255, 256, 700} {
		m := newMachine(t)
		x, y := normals32(rnd, n, 1), normals32(rnd, n, 1)
		in := inputs{}
		in.scalars[device.Along], in.scalars[device.Rate] = -0.7, 3
		a, b := put(m, x), put(m, append(y, 7))
		m.run(kernels.Axpy(m.alloc(in.bytes()), device.Along, n, a, b))
		want := make([]float32, n+1)
		for i := range n {
			want[i] = fma32(-0.7, x[i], y[i])
		}
		want[n] = 7
		allSame(t, "sum", get[float32](m, b, n+1), want)
	}
}

func TestDot(t *testing.T) {
	rnd := rand.New(rand.NewPCG(6, 1))
	for _, n := range []int{1, 3, 256, 4096, 4097, 9000} {
		m := newMachine(t)
		x, y := normals32(rnd, n, 1), normals32(rnd, n, 1)
		// The order that is documented, and another one.
		sum, size := 0.0, 0.0
		var parts []float64
		for begin := 0; begin < n; begin += 4096 {
			lanes := make([]float64, 256)
			for i := begin; i < min(begin+4096, n); i++ {
				lanes[i%256] += float64(x[i]) * float64(y[i])
				sum += float64(x[i]) * float64(y[i])
				size += math.Abs(float64(x[i]) * float64(y[i]))
			}
			parts = append(parts, tree(lanes))
		}
		lanes := make([]float64, 256)
		for i, p := range parts {
			lanes[i%256] += p
		}
		count := kernels.Dots(n)
		to, scratch := put(m, []float64{-1, 5}), put(m, make([]float64, count))
		m.run(kernels.DotParts(n, put(m, x), put(m, y), scratch))
		m.run(kernels.DotSum(count, scratch, to))
		got := get[float64](m, to, 2)
		if want := tree(lanes); got[0] != want || math.Abs(got[0]-sum) > 1e-13*size || got[1] != 5 {
			t.Errorf("%d elements: %v, want %v (%v in order), and 5 behind", n, got, want, sum)
		}
	}
}

func TestNorm(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 1))
	for _, n := range []int{1, 3, 256, 4096, 4097, 9000} {
		m := newMachine(t)
		x := make([]float64, n)
		sum := 0.0
		var parts []float64
		for begin := 0; begin < n; begin += 4096 {
			lanes := make([]float64, 256)
			for i := begin; i < min(begin+4096, n); i++ {
				x[i] = rnd.NormFloat64() * math.Exp(20*rnd.Float64())
				square := x[i] * x[i]
				lanes[i%256] += square
				sum += square
			}
			parts = append(parts, tree(lanes))
		}
		lanes := make([]float64, 256)
		for i, p := range parts {
			lanes[i%256] += p
		}
		want := 0.5 + math.Sqrt(tree(lanes))
		count := kernels.Dots(n)
		from, to, scratch := put(m, x), put(m, []float64{0.5, 5}), put(m, append(filled(count, math.NaN()), 6))
		m.run(kernels.SquareParts(n, from, scratch))
		m.run(kernels.AddNorm(count, scratch, to))
		if got := get[float64](m, to, 2); got[0] != want || math.Abs(got[0]-0.5-math.Sqrt(sum)) > 1e-12*math.Sqrt(sum) || got[1] != 5 {
			t.Errorf("%d elements: %v, want %v (%v in order), and 5 behind", n, got, want, 0.5+math.Sqrt(sum))
		}
		allSame(t, "sum", get[float64](m, from, n), x)
		if behind := get[float64](m, scratch, count+1)[count]; behind != 6 {
			t.Errorf("%d elements: %v behind the parts", n, behind)
		}
	}
}

// tree adds the upper half to the lower one until one is left.
func tree(x []float64) float64 {
	for half := len(x) / 2; half > 0; half /= 2 {
		for i := range half {
			x[i] += x[i+half]
		}
	}
	return x[0]
}

func TestTake(t *testing.T) {
	for _, n := range []int{1, 2, 31, 32} {
		m := newMachine(t)
		x := make([]float64, n+1)
		for i := range x {
			x[i] = float64(i) - 2.5
		}
		sum, dst := put(m, x), put(m, filled(n+1, 7.0))
		m.run(kernels.Take(sum, n, dst))
		allSame(t, "values", get[float64](m, dst, n+1), append(x[:n:n], 7))
		allSame(t, "sum afterwards", get[float64](m, sum, n+1), append(make([]float64, n), x[n]))
	}
}
