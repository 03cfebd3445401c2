package kernels_test

import (
	"bytes"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/privgrad/privgrad/internal/cuda/kernels"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/host"
	"github.com/privgrad/privgrad/internal/ir"
)

// gridCase is gradients of every size and some that do not count.
func gridCase(rnd *rand.Rand, n, stride, capacity int) (kept, targets []float32) {
	for b := range capacity {
		g := normals32(rnd, stride, math.Pow(10, 8*rnd.Float64()-4)/math.Sqrt(float64(n)))
		switch b % 9 {
		case 2:
			for i := range g { // whole numbers, whose squares add up exactly
				g[i] = float32(rnd.IntN(7) - 3)
			}
		case 3:
			g[rnd.IntN(n)] = []float32{nan32, float32(math.Inf(1)), 3e38, 1e-40}[b/9%4]
		case 4:
			clear(g)
		}
		for i := n; i < stride; i++ {
			g[i] = nan32
		}
		kept = append(kept, g...)
		targets = append(targets, []float32{1, -1, 1, 1, 1, 0, 1, -1, nan32, 1, -1}[b%11])
	}
	return kept, targets
}

func TestGrid(t *testing.T) {
	rnd := rand.New(rand.NewPCG(9, 1))
	for _, n := range []int{1, 33, 1023, 1026, 3100} {
		for _, live := range []int{0, 1, 39} {
			for _, clip := range []float32{1, 0.3, math.Nextafter32(1, 0), 1e-9, 1e9, 1e-45, 3e38} {
				if n > 2000 && live == 1 || n > 700 && clip > 1 {
					continue
				}
				const capacity = 40
				stride := n + 2
				kept, targets := gridCase(rnd, n, stride, capacity)
				for e := live * stride; e < len(kept); e++ {
					kept[e] = nan32
				}
				m := newMachine(t)
				b := m.batch(live, capacity, clip)
				scalePtr, keptPtr := put(m, filled(capacity, math.NaN())), put(m, kept)
				m.run(kernels.GridScale(b, keptPtr, stride, n, ir.Logistic, 1, put(m, targets), scalePtr))
				scales := get[float64](m, scalePtr, capacity)
				g := device.NewGrid(clip)
				what := fmt.Sprintf("%d values of %d examples at %v", n, live, clip)
				want := make([]int64, n+1)
				for i := range want {
					want[i] = rnd.Int64N(1 << 40)
				}
				sum := put(m, want)
				for e := range capacity {
					gradient := kept[e*stride:][:n]
					scale, ok := host.Scale(g, gradient)
					if ok = ok && e < live && ir.Logistic.ValidTarget(targets[e], 1); !ok {
						scale = 0
					}
					if scales[e] != scale {
						t.Fatalf("%s: the scale of example %d is %v, want %v", what, e, scales[e], scale)
					}
					if !ok {
						continue
					}
					host.Accumulate(want, gradient, scales[e])
					within(t, what, clip, g, gradient, scales[e])
				}
				m.run(kernels.GridCombine(b, scalePtr, keptPtr, stride, n, sum))
				for i, k := range get[int64](m, sum, n+1) {
					if k != want[i] {
						t.Fatalf("%s: integer %d is %d, want %d", what, i, k, want[i])
					}
				}
			}
		}
	}
}

// The integers are checked whatever the scale is: where it aims beyond the clip
// norm, here by a change of the code, examples that are clipped count as zero.
func TestGridChecksIntegers(t *testing.T) {
	text, err := kernels.PTX("exact")
	if err != nil {
		t.Fatal(err)
	}
	inside := fmt.Appendf(nil, "0d%016X", math.Float64bits(1-0x1p-20))
	if bytes.Count(text, inside) != 1 {
		t.Fatalf("the aim %s is not in the code once", inside)
	}
	for _, aim := range []float64{1 - 0x1p-20, 1.001, 2, 1e6} {
		code := bytes.ReplaceAll(text, inside, fmt.Appendf(nil, "0d%016X", math.Float64bits(aim)))
		const n = 900
		kept := append(filled(n, float32(0x1p-6)), filled(n, float32(1))...) // of norms 0.47 and 30
		m := newMachine(t)
		b, scale := m.batch(2, 2, 1), put(m, filled(2, math.NaN()))
		m.execute(code, kernels.GridScale(b, put(m, kept), n, n, ir.Logistic, 1, put(m, filled(2, float32(1))), scale))
		got := get[float64](m, scale, 2)
		if got[0] != 0x1p20 || (got[1] > 0) != (aim < 1) {
			t.Errorf("aiming at %v, the scales are %v", aim, got)
		}
	}
}

// within fails unless an example's integers have a norm of at most C/γ.
func within(t *testing.T, what string, clip float32, g device.Grid, gradient []float32, scale float64) {
	t.Helper()
	sum := new(big.Int)
	for _, x := range gradient {
		k := big.NewInt(int64(float64(x) * scale))
		sum.Add(sum, k.Mul(k, k))
	}
	ratio := new(big.Rat).Quo(new(big.Rat).SetFloat64(float64(clip)), new(big.Rat).SetFloat64(g.Step))
	if new(big.Rat).SetInt(sum).Cmp(ratio.Mul(ratio, ratio)) > 0 {
		t.Fatalf("%s: Σk² = %v is above (C/γ)² = %v", what, sum, ratio.FloatString(3))
	}
}
