package kernels_test

import (
	"encoding/binary"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/privgrad/privgrad/cuda/kernels"
	"github.com/privgrad/privgrad/internal/device"
)

// fma32 is a·b + c, rounded once, of finite numbers.
func fma32(a, b, c float32) float32 {
	x := func(v float32) *big.Float { return new(big.Float).SetPrec(600).SetFloat64(float64(v)) }
	y := x(a)
	y.Add(y.Mul(y, x(b)), x(c))
	f, _ := y.Float32()
	return f
}

func TestUpdate(t *testing.T) {
	rnd := rand.New(rand.NewPCG(8, 1))
	const n = 300
	for _, rule := range device.Rules() {
		p, want := normals32(rnd, n, 1), make([]float64, n)
		exact := slices.Clone(p)
		var m, v []float32
		memory := make([][]float64, n)
		for i := range memory {
			want[i], memory[i] = float64(p[i]), make([]float64, rule.States())
		}
		dev := newMachine(t)
		params := put(dev, append(slices.Clone(p), 7))
		var state []kernels.Ptr
		for range rule.States() {
			state = append(state, put(dev, make([]float32, n)))
		}
		m, v = make([]float32, n), make([]float32, n)
		for k := range 4 {
			in := inputs{}
			in.scalars = [28]float32{
				device.Scale: 1.0 / 300, device.Rate: 0.1 / float32(k+1), device.L2: 0.01, device.Momentum: 0.9,
				device.Beta1: 0.9, device.Beta2: 0.999, device.Epsilon: 1e-6,
				device.Bias1: float32(1 - math.Pow(0.9, float64(k+1))), device.Bias2: float32(1 - math.Pow(0.999, float64(k+1))),
			}
			if k > 1 { // subtracts from squares that are larger and smaller
				in.scalars[device.Variance], in.scalars[device.Floor] = 0.5, 0.05
			}
			in.scalars[device.Blend] = []float32{0.25, 0, 0.75, 1}[k]
			s := [device.Slots]float32(in.scalars[:device.Slots])
			g := normals32(rnd, n, 300)
			l, err := kernels.Update(dev.alloc(in.bytes()), rule, n, params, put(dev, g), state...)
			if err != nil {
				t.Fatal(err)
			}
			dev.run(l)
			got := get[float32](dev, params, n+1)
			for i := range n {
				want[i] = rule.Apply(&s, want[i], float64(g[i]), memory[i])
				// The operations that the comment of Update lists, each rounded once.
				d := fma32(s[device.Scale], g[i], s[device.L2]*exact[i])
				switch rule {
				case device.SGD:
					exact[i] = fma32(-s[device.Rate], d, exact[i])
				case device.HeavyBall:
					m[i] = fma32(s[device.Momentum], m[i], d)
					exact[i] = fma32(-s[device.Rate], m[i], exact[i])
				case device.Adam:
					m[i] = fma32(s[device.Beta1], m[i], (1-s[device.Beta1])*d)
					v[i] = fma32(s[device.Beta2], v[i], (1-s[device.Beta2])*float32(d*d))
					root := float32(math.Sqrt(float64(max(float32(1/s[device.Bias2]*v[i])-s[device.Variance], s[device.Floor]))))
					exact[i] -= float32(float32(s[device.Rate]/s[device.Bias1]) * m[i] / (root + s[device.Epsilon]))
				case device.Average:
					if exact[i] = fma32(s[device.Blend], g[i]-exact[i], exact[i]); s[device.Blend] == 1 {
						exact[i] = g[i]
					}
				}
				if got[i] != exact[i] {
					t.Fatalf("%s, update %d: parameter %d is %v, want %v", rule, k, i, got[i], exact[i])
				}
				if math.Abs(float64(got[i])-want[i]) > 2e-6*(1+math.Abs(want[i])) {
					t.Fatalf("%s, update %d: parameter %d is %v, the definition gives %v", rule, k, i, got[i], want[i])
				}
			}
			if got[n] != 7 {
				t.Errorf("%s: what lies behind was written", rule)
			}
			for j, ptr := range state {
				allSame(t, "state", get[float32](dev, ptr, n), [][]float32{m, v}[j])
			}
		}
	}
	if _, err := kernels.Update(0, device.Adam, 1, 0, 0, 0); err == nil {
		t.Error("Adam with one state is accepted")
	}
	if _, err := kernels.Update(0, device.Rule(len(device.Rules())), 1, 0, 0); err == nil {
		t.Error("an unknown rule is accepted")
	}
}

// TestAdvance takes one, two or three slots at a time; live counts lie out of range, too.
func TestAdvance(t *testing.T) {
	const slots, capacity, room = 5, 5, 3
	const stride, runStride = kernels.RunBytes + 4*capacity + 12, kernels.RunBytes + 4*capacity + 4
	live := []int32{2, 5, 0, 9, -1, 3, 4, 1, 2, 5, 3, 0}
	m := newMachine(t)
	runs, counters := m.alloc(make([]byte, room*runStride)), put(m, make([]uint64, kernels.MostSteps))
	var rows [room][capacity]int32
	ring := make([]byte, slots*stride)
	fill := func(k int) []byte { // the slot of a run
		in := inputs{live: live[k], draw: uint64(k) << 40, rows: make([]int32, capacity)}
		for i := range in.scalars {
			in.scalars[i] = float32(100*k + i)
		}
		for i := range in.rows {
			in.rows[i] = int32(1000*k + i)
		}
		slot := ring[k%slots*stride:][:stride]
		copy(slot, in.bytes())
		for i := range device.MaxCandidates {
			binary.LittleEndian.PutUint32(slot[kernels.RunCandidates+4*i:], math.Float32bits(float32(i-k)))
		}
		return slot
	}
	for k, steps := 0, 1; k < len(live); k, steps = k+steps, steps%room+1 {
		var want [room][]byte
		for j := range steps {
			want[j] = slices.Clone(fill(k + j)[:kernels.RunBytes])
		}
		m.run(kernels.Advance(m.alloc(ring), slots, stride, counters, runs, runStride, steps, capacity))
		for j := range steps {
			here := min(max(live[k+j], 0), capacity)
			binary.LittleEndian.PutUint32(want[j], uint32(here))
			run := runs + kernels.Ptr(j*runStride)
			if got := get[byte](m, run, kernels.RunBytes); !slices.Equal(got, want[j]) {
				t.Fatalf("run %d has %x, want %x", k+j, got, want[j])
			}
			for i := range here { // the others stay
				rows[j][i] = int32(1000*(k+j)) + i
			}
			if got := get[int32](m, run+kernels.RunRows, capacity); !slices.Equal(got, rows[j][:]) {
				t.Fatalf("run %d has the rows %v, want %v", k+j, got, rows[j])
			}
		}
		for _, got := range get[uint64](m, counters, kernels.MostSteps) {
			if got != uint64(k+steps) {
				t.Fatalf("a counter is %d after %d runs", got, k+steps)
			}
		}
	}
}
