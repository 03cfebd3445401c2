package host

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/privgrad/privgrad/internal/device"
)

// γ is a power of two with C/γ in [2²⁰, 2²¹), and the bounds are the exact ones.
func TestGrid(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	clips := []float32{1, 2, 0.5, 1.1, 3, math.Nextafter32(1, 0), math.Nextafter32(1, 2), 1e-20, 1e20, math.MaxFloat32, math.SmallestNonzeroFloat32, 0x1p-140}
	for range 1000 {
		clips = append(clips, float32(math.Exp(20*rnd.NormFloat64())))
	}
	for _, clip := range clips {
		g := device.NewGrid(clip)
		if fraction, _ := math.Frexp(g.Step); fraction != 0.5 {
			t.Errorf("clip norm %v: γ = %v is no power of two", clip, g.Step)
		}
		ratio := new(big.Rat).Quo(new(big.Rat).SetFloat64(float64(clip)), new(big.Rat).SetFloat64(g.Step))
		if f, _ := ratio.Float64(); f < 1<<20 || f >= 1<<21 {
			t.Errorf("clip norm %v: C/γ = %v", clip, f)
		}
		floor := func(r *big.Rat) *big.Int { return new(big.Int).Quo(r.Num(), r.Denom()) }
		if most2 := floor(ratio.Mul(ratio, ratio)); most2.Cmp(new(big.Int).SetUint64(g.Most2)) != 0 {
			t.Errorf("clip norm %v: ⌊(C/γ)²⌋ is %v, want %v", clip, g.Most2, most2)
		}
	}
}

// The exact check stands on its own: with another scale than that of Scale, too,
// what passes has Σk² ≤ (C/γ)².
func TestExactNormCheck(t *testing.T) {
	step := float32(0x1p-20)
	many := func(n int, x float32) []float32 { return slices.Repeat([]float32{x}, n) }
	for _, test := range []struct {
		what     string
		gradient []float32
		clip     float32
		want     bool
	}{
		{"nothing", many(5, 0), 1, true},
		{"exactly C", []float32{1, 0}, 1, true},
		{"exactly -C", []float32{-1, 0}, 1, true},
		{"one step more", []float32{1, step}, 1, false},
		{"less than a step more", []float32{1, step * 0.999}, 1, true},
		{"a step beyond in one coordinate", []float32{1 + step}, 1, false},
		{"3, 4, 5", []float32{-3 * 0x1p-3, 4 * 0x1p-3}, 0.625, true},
		{"3, 4, 5 and a step", []float32{-3 * 0x1p-3, 4*0x1p-3 + 0x1p-21}, 0.625, false},
		{"C no whole number of steps", []float32{1 + 0x1p-20}, 1 + 0x1.8p-20, true},
		{"beyond it", []float32{1 + 0x1p-20, 2 * step}, 1 + 0x1.8p-20, true},    // Σk² = (2²⁰+1)² + 4 ≤ (2²⁰+1.5)²
		{"far beyond it", []float32{1 + 0x1p-20, 0x1p-9}, 1 + 0x1.8p-20, false}, // (2²⁰+1)² + 2²²
		{"sums that wrap around", many(1<<24, 1), 1, false},
		{"many small ones", many(1<<20, 0x1p-10), 1, true},
		{"many small ones and one", append(many(1<<20, 0x1p-10), step), 1, false},
		{"twice C", []float32{0, 0, 0, 0, 0, -2}, 1, false},
	} {
		g := device.NewGrid(test.clip)
		if got := within(g, test.gradient, 1/g.Step); got != test.want {
			t.Errorf("%s: %v, want %v", test.what, got, test.want)
		}
	}
}

func TestScale(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	kept := 0
	for range 2000 {
		gradient := make([]float64, 1+rnd.IntN(300))
		size := math.Exp(30 * rnd.NormFloat64())
		for i := range gradient {
			gradient[i] = size * rnd.NormFloat64() * math.Exp(3*rnd.NormFloat64())
		}
		g := device.NewGrid(float32(math.Exp(10 * rnd.NormFloat64())))
		scale, ok := Scale(g, gradient)
		if !ok {
			continue
		}
		kept++
		k := make([]int64, len(gradient))
		Accumulate(k, gradient, scale)
		Accumulate(k, gradient, scale) // adds
		sum := new(big.Int)
		for _, x := range k {
			sum.Add(sum, new(big.Int).Mul(big.NewInt(x/2), big.NewInt(x/2)))
		}
		if sum.Cmp(new(big.Int).SetUint64(g.Most2)) > 0 {
			t.Fatalf("Σk² = %v is above %v", sum, g.Most2)
		}
	}
	if kept != 2000 {
		t.Errorf("%d of 2000 finite gradients were made zero, though the scale aims inside", 2000-kept)
	}
	for _, bad := range [][]float64{{math.NaN()}, {1, math.Inf(-1)}, {1e300, 1e300}} {
		if _, ok := Scale(device.NewGrid(1), bad); ok {
			t.Errorf("gradient %v counts", bad)
		}
	}
}

func TestLossesOnTheGrid(t *testing.T) {
	for _, clip := range []float32{1, 3, 0.7} {
		g := device.NewGrid(clip)
		q := Query[float32]{Step: g.Step}
		for _, loss := range []float64{0, 1e-9, 0.1, 0.6999, float64(clip)} {
			k := q.truncate(loss) / g.Step
			if k != math.Trunc(k) || k > float64(clip)/g.Step || k*g.Step > loss || loss-k*g.Step >= g.Step {
				t.Errorf("clip %v: loss %v becomes %v steps", clip, loss, k)
			}
		}
	}
}
