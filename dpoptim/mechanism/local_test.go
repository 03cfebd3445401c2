package mechanism

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/internal/device"
)

func local(t *testing.T, epsilon, bound, radius float64, values int) Local {
	t.Helper()
	l, err := NewLocal(accountant.Pure{Epsilon: epsilon / 2}, bound, radius, values, testStream(t), 5)
	check(t, err)
	return l
}

// Between gradients 2G apart, a report beyond them is e^ε times as likely from one as from the other: no more, and no
// less by 1e-5. Of noise on a line that is the Laplace law of the numbers that are drawn, and of the sphere the
// number of times that the bit is wrong.
func TestLocalAttainsEpsilon(t *testing.T) {
	for _, epsilon := range []float64{0.01, 0.5, 1, 4, 20} {
		for _, bound := range []float64{1e-3, 1, 30} {
			v := local(t, epsilon, bound, 0, 1).(*gamma)
			apart := 2 * math.RoundToEven(bound/v.Step) * v.Step
			if loss := apart / v.Scale; loss > epsilon || loss < epsilon*(1-1e-5) {
				t.Errorf("noise: a loss of %v at ε = %v", loss, epsilon)
			}
		}
		h := local(t, epsilon, 1, 1, 3).(*hemisphere)
		wrong, _ := new(big.Float).SetMantExp(new(big.Float).SetUint64(h.flip), -64).Float64()
		if loss := math.Log1p(-wrong) - math.Log(wrong); loss > epsilon+1e-15*epsilon || loss < epsilon*(1-1e-9)-1e-9 {
			t.Errorf("a sphere: a loss of %v at ε = %v", loss, epsilon)
		}
	}
	if h := local(t, 1e4, 1, 1, 3).(*hemisphere); h.flip != 1 { // the bit is wrong now and then, however large ε is
		t.Errorf("at ε = 10⁴ the bit is wrong %d times out of 2⁶⁴", h.flip)
	}
}

// What is drawn has those odds: of 5,000 reports of either gradient at ε = 1, the number beyond +G, or in the half of
// +G, is within six deviations of what it must be, which a right one leaves less than once in 10⁸ runs a figure.
func TestLocalOdds(t *testing.T) {
	const n, epsilon = 5000, 1.0
	right := math.Exp(epsilon) / (1 + math.Exp(epsilon))
	for name, c := range map[string]struct {
		local      Local
		d          int
		above      float64
		near, away float64 // how often a report is above, of +G and of −G
	}{
		"noise":    {local(t, epsilon, 1, 0, 1), 1, 1, 0.5, math.Exp(-epsilon) / 2},
		"a sphere": {local(t, epsilon, 1, 5, 3), 3, 0, right, 1 - right},
	} {
		draw := uint64(0)
		for sign, want := range map[float64]float64{1: c.near, -1: c.away} {
			count := 0
			for range n {
				draw++
				g := make([]float64, c.d)
				g[0] = sign
				check(t, c.local.Report(g, draw))
				if g[0] > c.above {
					count++
				}
			}
			if off := math.Abs(float64(count) - n*want); off > 6*math.Sqrt(n*want*(1-want)) {
				t.Errorf("%s: of %v·G, %d of %d reports are above %v, want %v", name, sign, count, n, c.above, n*want)
			}
		}
	}
}

// All that a record changes in a report on a sphere is its sign: the direction is a number of the stream's.
func TestHemisphereTellsOneBit(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const d, radius = 6, 7.0
	a, b := local(t, 1, 2, radius, d), local(t, 1, 2, radius, d)
	differ := 0
	for draw := range uint64(200) {
		x, y := make([]float64, d), make([]float64, d)
		for i := range x {
			x[i], y[i] = r.NormFloat64(), 1e3*r.NormFloat64()
		}
		if a.Report(x, draw+1) != nil || b.Report(y, draw+1) != nil {
			t.Fatal("no report")
		}
		if x[0] != y[0] {
			differ++
			for i := range y {
				y[i] = -y[i]
			}
		}
		if !slices.Equal(x, y) {
			t.Fatalf("reports are %v and %v", x, y)
		}
		if norm := math.Sqrt(square(x)); math.Abs(norm-radius) > 1e-12 {
			t.Fatalf("a report of norm %v", norm)
		}
	}
	if differ == 0 {
		t.Error("no gradient turns a report round")
	}
}

func square(v []float64) (sum float64) {
	for _, x := range v {
		sum += x * x
	}
	return sum
}

// Clipped vectors are no longer than the bound in rational arithmetic, and hardly shorter; others stay as they are;
// and what is not finite becomes zero.
func TestLocalClip(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, size := range []float64{1e-300, 1e-3, 1, 1.0000001, 1e5, 1e300} {
		for _, d := range []int{1, 7, 300} {
			v, sum := make([]float64, d), 0.0
			for i := range v {
				v[i] = r.NormFloat64()
				sum += v[i] * v[i]
			}
			for i := range v {
				v[i] *= size / math.Sqrt(sum)
			}
			before := slices.Clone(v)
			norm := clip(v, 1)
			exact := new(big.Rat)
			for _, x := range v {
				exact.Add(exact, new(big.Rat).Mul(rat(x), rat(x)))
			}
			if exact.Cmp(big.NewRat(1, 1)) > 0 {
				t.Errorf("%v, d = %d: longer than the bound by %v", size, d, new(big.Rat).Sub(exact, big.NewRat(1, 1)).FloatString(20))
			}
			want := min(size, 1)
			if got, _ := exact.Float64(); size > 1e-100 && math.Abs(math.Sqrt(got)-want) > 1e-12*want {
				t.Errorf("%v, d = %d: a norm of %v", size, d, math.Sqrt(got))
			}
			if math.Abs(norm-want) > 1e-12*want || size < 1 && !slices.Equal(v, before) {
				t.Errorf("%v, d = %d: clipped to %v, said to be of norm %v", size, d, v, norm)
			}
		}
	}
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		for _, radius := range []float64{0, 3} {
			zero, v := make([]float64, 2), []float64{1, bad}
			if local(t, 1, 1, radius, 2).Report(zero, 1) != nil || local(t, 1, 1, radius, 2).Report(v, 1) != nil || !slices.Equal(zero, v) {
				t.Errorf("a gradient with %v is reported as %v, zero as %v", bad, v, zero)
			}
		}
	}
}

func TestLocalRefuses(t *testing.T) {
	for want, c := range map[string]struct {
		epsilon, bound, radius float64
		values                 int
	}{
		"at ε = 0":    {0, 1, 1, 1},
		"up to 0":     {1, 0, 1, 1},
		"up to 2.5":   {1, 2 * device.MostClip, 1, 1},
		"radius -1":   {1, 1, -1, 1},
		"radius NaN":  {1, 1, math.NaN(), 1},
		"radius +Inf": {1, 1, math.Inf(1), 1},
		"on 0 values": {1, 1, 1, 0},
		"above 0":     {-1, 1, 0, 1},
	} {
		if _, err := NewLocal(accountant.Pure{Epsilon: c.epsilon / 2}, c.bound, c.radius, c.values, testStream(t), 0); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	for _, radius := range []float64{0, 3} {
		l := local(t, 1, 1, radius, 2)
		if err := l.Report([]float64{3, 4}, 5); err != nil || l.Event() != accountant.Mechanism(accountant.Pure{Epsilon: 0.5}) {
			t.Errorf("%v, at %v", err, l.Event())
		}
		for _, draw := range []uint64{5, 4} {
			g := []float64{3, 4}
			if err := l.Report(g, draw); err == nil || !strings.Contains(err.Error(), "used before") || square(g) != 0 {
				t.Errorf("position %d after 5: %v, %v", draw, g, err)
			}
		}
		g := []float64{3}
		if err := l.Report(g, 6); err == nil || g[0] != 0 {
			t.Errorf("one value for two: %v, %v", g, err)
		}
	}
}
