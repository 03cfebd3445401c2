package kernels

import (
	"encoding/binary"
	"math"
	"testing"
)

func TestShift(t *testing.T) {
	m := newMachine(t)
	const n = 300
	at, dir := make([]float32, n), make([]float32, n)
	for i := range at {
		at[i], dir[i] = float32(i)/7, 1/float32(i+1)
	}
	dir[5] = nan32
	run := make([]byte, RunBytes)
	for i, eta := range []float32{0.3, 0, -2} {
		binary.LittleEndian.PutUint32(run[RunCandidates+4*i:], math.Float32bits(eta))
	}
	r, a, d := m.bytes(run), m.floats(at), m.floats(dir)
	for i, eta := range []float64{float64(float32(0.3)), 0, -2} {
		to := m.empty(n)
		m.launch(Shift(r, i, a, d, n, to))
		for j, got := range m.read(to, n) {
			want := float32(float64(at[j]) - eta*float64(dir[j])) // exact in float64 but for the last bits
			if eta == 0 {
				want = at[j]
			}
			if j == 5 && eta != 0 {
				if got == got {
					t.Errorf("step size %v: the direction's NaN is gone", eta)
				}
			} else if math.Abs(float64(got-want)) > 1e-7*math.Abs(float64(want)) {
				t.Errorf("step size %v: value %d is %v, want %v", eta, j, got, want)
			}
		}
	}
}
