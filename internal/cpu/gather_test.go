package cpu

import (
	"math"
	"slices"
	"testing"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/half"
	"github.com/privgrad/privgrad/internal/ir"
)

// TestRead: every form reads as it is defined, here and in float64, and a void row as zeros.
func TestRead(t *testing.T) {
	const width, void = 11, 1
	nan := float32(math.NaN())
	r := device.Rows{Count: 3, Width: width, Targets: []float32{0, nan, 1}}
	bytes, floats, halves := make(device.Bytes, 3*width), make(device.Floats, 3*width), make(device.Halves, 3*width)
	for i := range bytes {
		bytes[i], floats[i] = uint8(7*i), float32(i)-0.1
		halves[i] = half.FromFloat32(floats[i])
	}
	floats[void*width], halves[void*width+3] = nan, 0x7c00
	for _, test := range []struct {
		values device.Features
		gather ir.Gather
		want   func(i int) float32
	}{
		{bytes, ir.Gather{ir.ScaledBy(0.5, -1)}, func(i int) float32 { return float32(7*i)/2 - 1 }},
		{bytes, nil, func(i int) float32 { return float32(7 * i) }},
		{floats, nil, func(i int) float32 { return floats[i] }},
		{halves, nil, func(i int) float32 { return half.ToFloat32(halves[i]) }},
	} {
		r.Gather = test.gather
		table, err := load(r, test.values)
		check(t, err)
		for row := range 3 {
			want, wide := make([]float32, width), make([]float64, width)
			for i := range want {
				if row != void {
					want[i] = test.want(row*width + i)
				}
				wide[i] = float64(want[i])
			}
			x := slices.Repeat([]float32{nan}, width)
			if read(x, table, int32(row)); !slices.Equal(x, want) {
				t.Errorf("%T, row %d: %v, want %v", test.values, row, x, want)
			}
			if y := table.Row(int32(row)); !slices.Equal(y, wide) {
				t.Errorf("%T, row %d in float64: %v, want %v", test.values, row, y, wide)
			}
		}
	}
}

func BenchmarkRead(b *testing.B) {
	const rows, width = 4096, 784
	for name, values := range map[string]device.Features{
		"bytes": make(device.Bytes, rows*width), "floats": make(device.Floats, rows*width), "halves": make(device.Halves, rows*width),
	} {
		b.Run(name, func(b *testing.B) {
			table, err := load(device.Rows{Count: rows, Width: width, Targets: make([]float32, rows)}, values)
			if err != nil {
				b.Fatal(err)
			}
			x, row := make([]float32, width), 0
			for b.Loop() {
				read(x, table, int32(row*1531%rows))
				row++
			}
			b.ReportMetric(width*float64(b.N)/b.Elapsed().Seconds()/1e9, "Gvalues/s")
		})
	}
}

// A list does the same to bytes whether its first map is done while they are read or after that.
func TestScaledBytes(t *testing.T) {
	all := make([]uint8, 256)
	for i := range all {
		all[i] = uint8(i)
	}
	for _, m := range []ir.Map{ir.ScaledBy(1, 0), ir.ScaledBy(1/127.5, -1), ir.ScaledBy(1./255, 0), ir.ScaledBy(3e38, 0.4), ir.ScaledBy(-0.3, 1e-3)} {
		together, apart := make([]float32, 256), make([]float32, 256)
		if rest := scaledBytes(together, all, ir.Gather{m, m}); len(rest) != 1 {
			t.Errorf("%v: %d maps are left of two", m, len(rest))
		}
		if rest := scaledBytes(apart, all, nil); len(rest) != 0 {
			t.Errorf("%d maps are left of none", len(rest))
		}
		if maps.Apply(apart, ir.Gather{m}); !slices.Equal(together, apart) {
			t.Errorf("%v: %v, want %v", m, together, apart)
		}
	}
}
