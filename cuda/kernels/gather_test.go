package kernels

import (
	"math"
	"testing"
)

func TestGather(t *testing.T) {
	const width, count = 300, 7
	table := make([]byte, width*count)
	for i := range table {
		table[i] = byte(i * 37)
	}
	targets := []float32{0, 1, 2, nan32, 4, 5, 6}
	const scale, offset = float32(1.0 / 255), float32(-0.5)
	for _, s := range []size{{5, 5}, {3, 5}, {0, 2}} {
		rows := []int32{6, 0, 3, 3, 1}[:s.live]
		m := newMachine(t)
		x, target := m.empty(s.capacity*width), m.empty(s.capacity)
		m.launch(Gather(m.batch(s, rows...), m.bytes(table), m.floats(targets), width, scale, offset, x, target))
		wantX, wantT := make([]float32, s.capacity*width), spoil(make([]float32, s.capacity), 0, s.capacity)
		for b, row := range rows {
			wantT[b] = targets[row]
			for j := range width {
				wantX[b*width+j] = float32(math.FMA(float64(table[int(row)*width+j]), float64(scale), float64(offset)))
			}
		}
		same(t, s.String()+": features", m.read(x, len(wantX)), wantX)
		same(t, s.String()+": targets", m.read(target, len(wantT)), wantT)
	}
}
