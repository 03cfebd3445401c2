package kernels

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ir"
)

var pixelMaths = []Math{Math(device.TF32), Math(device.BF16)}

// lie gives, for every element of an example in pixels, the number of the element in planes, −1 for those that do not exist.
func lie(shape []int) []int {
	pixels, channels := area(shape)
	var at []int
	for p := range pixels {
		for c := range padded(channels) {
			if c < channels {
				at = append(at, c*pixels+p)
			} else {
				at = append(at, -1)
			}
		}
	}
	return at
}

// pixels puts examples of a shape, given in planes, into memory: rounded to nearest.
func (m *machine) pixels(k Math, shape []int, x []float32) Ptr {
	var b []byte
	at, size := lie(shape), ir.Size(shape)
	for e := 0; e < len(x); e += size {
		for _, i := range at {
			v := float32(0)
			if i >= 0 {
				v = k.nearest(x[e+i])
			}
			if k.ElementBytes(Pixels) == 2 {
				b = binary.LittleEndian.AppendUint16(b, uint16(math.Float32bits(v)>>16))
			} else {
				b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
			}
		}
	}
	return m.bytes(b)
}

// readPixels gives examples back in planes. Channels that do not exist have to be zero.
func (m *machine) readPixels(k Math, shape []int, p Ptr, examples int) []float32 {
	m.t.Helper()
	at, size := lie(shape), ir.Size(shape)
	width := k.ElementBytes(Pixels)
	b, x := m.copyOut(p, examples*len(at)*width), make([]float32, examples*size)
	for e := range examples {
		for j, i := range at {
			word := b[(e*len(at)+j)*width:]
			v := math.Float32frombits(uint32(binary.LittleEndian.Uint16(word)) << 16)
			if width == 4 {
				v = math.Float32frombits(binary.LittleEndian.Uint32(word))
			}
			switch {
			case i >= 0:
				if v == v && k.nearest(v) != v {
					m.t.Fatalf("element %d of example %d is %v, which is not of %s", j, e, v, k)
				}
				x[e*size+i] = v
			case v != 0 && v == v:
				m.t.Fatalf("element %d of example %d is %v, but there is no such channel", j, e, v)
			}
		}
	}
	return x
}

// half is how much of a number rounding to nearest changes at most.
func (m Math) half() float64 {
	if device.Precision(m) == device.BF16 {
		return 0x1p-8
	}
	return 0x1p-11
}

// nearly compares results that were rounded to a precision with true ones, of which each term went through so many roundings of
// float32 before.
func nearly(t *testing.T, what string, k Math, got []float32, want []truth, roundings int) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d values, want %d", what, len(got), len(want))
	}
	for i, g := range got {
		w := want[i]
		before := gamma(roundings, unit)*w.size + 0x1p-126
		limit := before + k.half()*(math.Abs(w.sum)+before)
		if d := math.Abs(float64(g) - w.sum); !(d <= limit) && !(g != g && w.sum != w.sum) {
			t.Fatalf("%s: value %d is %v, want %v within %.3g: off by %.3g", what, i, g, w.sum, limit, d)
		}
	}
}

// Every shape lies in whole units of 16 bytes, and each element once.
func TestPixelsLie(t *testing.T) {
	for _, shape := range [][]int{{3, 4, 5}, {8, 2, 2}, {17, 1, 3}, {10}, {1}} {
		at := lie(shape)
		for _, k := range pixelMaths {
			if n := Pixels.Elements(shape); n != len(at) || k.ValueBytes(Pixels, shape)%16 != 0 {
				t.Errorf("%v has %d elements in pixels of %s, want %d, in %d bytes", shape, n, k, len(at), k.ValueBytes(Pixels, shape))
			}
		}
		real := slices.DeleteFunc(slices.Clone(at), func(i int) bool { return i < 0 })
		slices.Sort(real)
		if real = slices.Compact(real); len(real) != ir.Size(shape) || real[0] != 0 || real[len(real)-1] != len(real)-1 {
			t.Errorf("%v lies at %v", shape, at)
		}
	}
}
