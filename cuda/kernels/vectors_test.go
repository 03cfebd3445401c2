package kernels_test

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/privgrad/privgrad/cuda/kernels"
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

func TestFirstAbove(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	below := func(n int) []float64 { return filled(n, 1.0) }
	for _, test := range []struct {
		sum, thresholds []float64
		baseline        bool
		want            int32
	}{
		{[]float64{1}, []float64{1}, false, 0},
		{[]float64{math.Nextafter(1, 0)}, []float64{1}, false, -1},
		{[]float64{0, 2, 3}, []float64{1, 2, 3}, false, 1},
		{[]float64{0, 2, 3}, []float64{1, inf, 3}, false, 2},
		{[]float64{nan, 2}, []float64{-inf, 5}, false, -1},
		{[]float64{5, 5, 3}, []float64{1, 2}, true, 1},
		{[]float64{5, 4, 3}, []float64{1, 2}, true, 0},
		{[]float64{5, 4, 3}, []float64{1.0000001, 2.0000001}, true, -1},
		{[]float64{1e300, 0x1p-60}, []float64{1e300}, true, 0},
		{append(make([]float64, 31), 1), below(32), false, 31},
		{make([]float64, 32), below(32), false, -1},
		{append(make([]float64, 31), -1), below(31), true, 30},
		{append(filled(31, 0.5), -1), below(31), true, 30},
	} {
		queries := len(test.sum)
		if test.baseline {
			queries--
		}
		// Thresholds beyond a run's queries are another's, and would be reached.
		run := make([]byte, kernels.RunBytes)
		for i := range device.MaxCandidates {
			x := -1e300
			if i < queries {
				x = test.thresholds[i]
			}
			binary.LittleEndian.PutUint64(run[kernels.RunThresholds+8*i:], math.Float64bits(x))
		}
		m := newMachine(t)
		sum, first := put(m, append(test.sum, 7)), put(m, []int32{99, 98})
		m.run(kernels.FirstAbove(m.alloc(run), sum, queries, test.baseline, false, first))
		if got := get[int32](m, first, 2); got[0] != test.want || got[1] != 98 {
			t.Errorf("sum %v against %v: %v, want %d", test.sum, test.thresholds, got, test.want)
		}
		allSame(t, "sum afterwards", get[float64](m, sum, len(test.sum)+1), append(make([]float64, len(test.sum)), 7))
	}
}

// The least of the sums with their thresholds added, the first of equals; what lies
// beyond the queries counts for nothing.
func TestLeast(t *testing.T) {
	for _, test := range []struct {
		sum, added []float64
		want       int32
	}{
		{[]float64{3}, []float64{-1}, 0},
		{[]float64{3, 2, 4}, []float64{0, 0, 0}, 1},
		{[]float64{3, 2, 4}, []float64{0, 0, -2.5}, 2},
		{[]float64{3, 1, 1}, []float64{-2, 0, 0}, 0},
		{[]float64{3, 1, 1}, []float64{-1, 0, 0}, 1},
		{append(filled(31, 1.0), 0.5), make([]float64, 32), 31},
	} {
		run := make([]byte, kernels.RunBytes)
		for i := range device.MaxCandidates {
			x := -1e300
			if i < len(test.added) {
				x = test.added[i]
			}
			binary.LittleEndian.PutUint64(run[kernels.RunThresholds+8*i:], math.Float64bits(x))
		}
		m := newMachine(t)
		sum, first := put(m, append(test.sum, -7)), put(m, []int32{99, 98})
		m.run(kernels.FirstAbove(m.alloc(run), sum, len(test.sum), false, true, first))
		if got := get[int32](m, first, 2); got[0] != test.want || got[1] != 98 {
			t.Errorf("sum %v with %v: %v, want %d", test.sum, test.added, got, test.want)
		}
		allSame(t, "sum afterwards", get[float64](m, sum, len(test.sum)+1), append(make([]float64, len(test.sum)), -7))
	}
}
