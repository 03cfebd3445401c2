package host

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ir"
)

// TestQueryAdd checks one row's share in every form, whichever of its losses
// is not finite.
func TestQueryAdd(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, test := range []struct {
		form   device.LossForm
		base   float64
		losses []float64
		want   []float64
	}{
		{device.LossSum, nan, []float64{0, 1, 2, 5, inf, nan}, []float64{0, 1, 2, 2, 2, 2}},
		{device.LossDecrease, 3, []float64{2, 0.5, 4.5, 9, inf, nan}, []float64{1, 2, -1.5, -2, -2, -2}},
		{device.LossDecrease, inf, []float64{0, 1e300, inf, nan}, []float64{2, 2, 0, 0}},
		{device.LossDecrease, nan, []float64{0, 1e300, inf, nan}, []float64{2, 2, 0, 0}},
		{device.LossCurve, 3, []float64{2, 2, 4}, []float64{1, 1, -1}},
		{device.LossCurve, 3, []float64{0, 7}, []float64{1.2, -1.6}},
		{device.LossCurve, 3, []float64{3, 3}, []float64{0, 0}},
		{device.LossCurve, 3, []float64{2, inf}, []float64{0, 0}},
		{device.LossCurve, 3, []float64{nan, 2}, []float64{0, 0}},
		{device.LossCurve, inf, []float64{2, 1}, []float64{0, 0}},
		{device.LossCurve, nan, []float64{2, 1}, []float64{0, 0}},
		{device.LossCurve, 0, []float64{1e300, 1e-300}, []float64{0, 0}}, // its norm overflows
	} {
		q := Query[float32]{Form: test.form, Clip: 2}
		sums := make([]float64, len(test.want))
		for n := range 3 { // shares add up
			q.Add(sums, test.base, test.losses)
			for i, want := range test.want {
				margin := 1e-15
				if test.form == device.LossCurve {
					margin += 0x1p-40 * math.Abs(want) // as the norm may be off
				}
				if got := sums[i]; !(math.Abs(got-float64(n+1)*want) < margin*float64(n+1)) {
					t.Errorf("%s of %v from %v: %v after %d rows, want %v each", test.form, test.losses, test.base, sums, n+1, test.want)
				}
			}
		}
		if slices.ContainsFunc(sums, math.IsNaN) {
			t.Errorf("%s of %v from %v: %v", test.form, test.losses, test.base, sums)
		}
	}
}

// TestLogistic compares the table with the formula, at every cell's ends and in between.
// Each has two functions of about an ulp in it and a few roundings, eight times 2⁻⁵³ in all.
func TestLogistic(t *testing.T) {
	at := []float64{0, math.Copysign(0, -1), 1e-300, 39.99, 40, 41, 700, 800, 1e300, math.Inf(1)}
	for i := range 50 * softplusCells * 8 {
		at = append(at, float64(i)/(softplusCells*8), math.Nextafter(float64(i)/(softplusCells*8), -1))
	}
	for _, x := range at {
		for _, m := range []float64{x, -x} {
			want := math.Max(-m, 0) + math.Log1p(math.Exp(-math.Abs(m)))
			if got := logistic(m); got != want && !(math.Abs(got-want) <= 1e-15*want) {
				t.Errorf("log(1+e^-(%v)) is %v, want %v", m, got, want)
			}
		}
	}
	if got := logistic(math.NaN()); !math.IsNaN(got) {
		t.Errorf("the loss at NaN is %v", got)
	}
}

func BenchmarkLogistic(b *testing.B) {
	z := make([]float64, 1024)
	for i := range z {
		z[i] = 3 * math.Sin(float64(i*i))
	}
	b.Run("table", func(b *testing.B) {
		s := 0.0
		for i := range b.N {
			s += logistic(z[i%1024])
		}
		sink = s
	})
	b.Run("formula", func(b *testing.B) {
		s := 0.0
		for i := range b.N {
			m := z[i%1024]
			s += math.Max(-m, 0) + math.Log1p(math.Exp(-math.Abs(m)))
		}
		sink = s
	})
}

var sink float64

// The softmax has the bits of its definition for any number of classes, and what is not finite spoils all of it.
func TestSoftmax(t *testing.T) {
	r := rand.New(rand.NewPCG(71, 72))
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, classes := range []int{1, 2, 10, 32, 33, 40} {
		z := make([]float32, classes)
		for i := range z {
			z[i] = float32(4 * r.NormFloat64())
		}
		top := float64(slices.Max(z))
		sum := 0.0
		for _, x := range z {
			sum += math.Exp(float64(x) - top)
		}
		for target := range z {
			delta := make([]float32, classes)
			loss := Loss(ir.SoftmaxCrossEntropy, z, float32(target), delta)
			if want := math.Log(sum) + top - float64(z[target]); loss != want || loss != Loss(ir.SoftmaxCrossEntropy, z, float32(target), nil) {
				t.Errorf("%d classes: loss %v, want %v", classes, loss, want)
			}
			rest := 0.0
			for i, x := range z {
				if i == target {
					continue
				}
				rest += math.Exp(float64(x) - top)
				if want := float32(math.Exp(float64(x)-top) / sum); delta[i] != want {
					t.Errorf("%d classes: gradient %v at %d, want %v", classes, delta[i], i, want)
				}
			}
			if want := float32(-rest / sum); delta[target] != want {
				t.Errorf("%d classes: gradient %v at the target, want %v", classes, delta[target], want)
			}
		}
		for _, spoilt := range [][]float32{{nan}, {inf}, {nan, inf}, {inf, nan}} {
			if len(spoilt) > classes {
				continue
			}
			copy(z[classes-len(spoilt):], spoilt)
			delta := make([]float32, classes)
			loss := Loss(ir.SoftmaxCrossEntropy, z, 0, delta)
			if !math.IsNaN(loss) || slices.ContainsFunc(delta, func(d float32) bool { return d == d }) {
				t.Errorf("%d classes, %v: loss %v, gradient %v", classes, spoilt, loss, delta)
			}
		}
	}
}
