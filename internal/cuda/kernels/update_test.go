package kernels_test

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/privgrad/privgrad/internal/cuda/kernels"
	"github.com/privgrad/privgrad/internal/device"
)

func fma32(a, b, c float32) float32 { return kernels.Fused(a, b, c) }

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
				case device.Adam, device.AdamW:
					if rule == device.AdamW {
						d, exact[i] = s[device.Scale]*g[i], fma32(-float32(s[device.Rate]*s[device.L2]), exact[i], exact[i])
					}
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

// A graph of several steps takes as many slots, in turn.
func TestAdvance(t *testing.T) {
	live := []int32{2, 5, 0, 3000, -1, 3, 4, 2900, 5, 2, 0, 5}
	for _, steps := range []int{1, 2, 3} {
		for _, capacity := range []int{5, 8, 2900} { // the last in two rounds of loads
			for _, each := range []int{1, 4} { // values of a row: its number, and words
				testAdvance(t, live, steps, capacity, each)
			}
		}
	}
}

func testAdvance(t *testing.T, live []int32, steps, capacity, each int) {
	const slots = 3
	stride, runStride := (kernels.RunBytes+4*capacity*each+15)/16*16, (kernels.RunBytes+4*capacity*each+15)/16*16+32
	m := newMachine(t)
	before := make([]byte, steps*runStride)
	for i := range before {
		before[i] = byte(i)
	}
	run, counter := m.alloc(before), put(m, []uint64{0})
	for k := 0; k < len(live); k += steps {
		ring := make([]byte, slots*stride)
		want := get[byte](m, run, len(before))
		for step := range steps {
			n := live[k+step]
			in := inputs{live: n, draw: uint64(k+step) << 40, rows: make([]int32, capacity*each)}
			for i := range in.scalars {
				in.scalars[i] = float32(100*(k+step) + i)
			}
			for i := range in.rows {
				in.rows[i] = int32(10000*(k+step) + i)
			}
			slot := ring[(k+step)%slots*stride:][:stride]
			copy(slot, in.bytes())
			for i := range device.MaxCandidates {
				binary.LittleEndian.PutUint32(slot[kernels.RunCandidates+4*i:], math.Float32bits(float32(i-k)))
			}
			here := min(max(int(n), 0), capacity)
			copy(want[step*runStride:], slot[:kernels.RunBytes+4*here*each]) // all else stays
			binary.LittleEndian.PutUint32(want[step*runStride:], uint32(here))
		}
		m.run(kernels.Advance(m.alloc(ring), slots, stride, counter, run, runStride, steps, capacity, each))
		if got := get[byte](m, run, len(want)); !slices.Equal(got, want) {
			t.Fatalf("capacity %d by %d, run %d has %x, want %x", capacity, each, k, got, want)
		}
		if got, want := get[uint64](m, counter, 1)[0], uint64((k+steps)%slots); got != want {
			t.Fatalf("the counter is %d after run %d of %d steps, want %d", got, k, steps, want)
		}
	}
}
