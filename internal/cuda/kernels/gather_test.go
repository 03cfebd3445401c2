package kernels

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"github.com/privgrad/privgrad/internal/half"
	"github.com/privgrad/privgrad/internal/ir"
)

// tables gives values to tables of each form, and what kernels read there.
func (m *machine) tables(values []float32, targets []float32, width int) (tables []*Table, want [][]float32) {
	const scale, offset = float32(1.0 / 255), float32(-0.5)
	var bytes, halves []byte
	want = [][]float32{nil, values, nil}
	for _, v := range values {
		b, h := byte(math.Abs(float64(v))), half.FromFloat32(v)
		bytes, halves = append(bytes, b), binary.LittleEndian.AppendUint16(halves, h)
		want[Bytes] = append(want[Bytes], float32(math.FMA(float64(b), float64(scale), float64(offset))))
		want[Halves] = append(want[Halves], half.ToFloat32(h))
	}
	for form, p := range []Ptr{Bytes: m.bytes(bytes), Floats: m.floats(values), Halves: m.bytes(halves)} {
		tables = append(tables, &Table{Form(form), p, m.floats(targets), width, MapsOf(ir.Gather{ir.ScaledBy(scale, offset)})})
	}
	return tables, want
}

func TestGather(t *testing.T) {
	for _, width := range []int{1, 7, 300, 1030, 2052} {
		testGather(t, width)
	}
}

func testGather(t *testing.T, width int) {
	const count = 7
	values := make([]float32, width*count)
	for i := range values {
		values[i] = float32(i*37%256) * float32(1-i%3) * float32(math.Exp2(float64(-i%29)))
	}
	void := int32(3) // whose values no kernel passes on
	targets := []float32{0, 1, 2, nan32, 4, 5, 6}
	values[width*int(void)+width/2] = nan32
	for _, s := range []size{{5, 5}, {3, 5}, {0, 2}} {
		rows := []int32{6, 0, void, void, 1}[:s.live]
		m := newMachine(t)
		tables, read := m.tables(values, targets, width)
		for form, table := range tables {
			x, target := m.empty(s.capacity*width), m.empty(s.capacity)
			m.launch(Gather(m.batch(s, rows...), table, x, target))
			wantX, wantT := make([]float32, s.capacity*width), spoil(make([]float32, s.capacity), 0, s.capacity)
			for b, row := range rows {
				if wantT[b] = targets[row]; row != void {
					copy(wantX[b*width:], read[form][int(row)*width:][:width])
				}
			}
			same(t, fmt.Sprintf("%d wide, %v, form %d: features", width, s, form), m.read(x, len(wantX)), wantX)
			same(t, fmt.Sprintf("%d wide, %v, form %d: targets", width, s, form), m.read(target, len(wantT)), wantT)
		}
	}
}
