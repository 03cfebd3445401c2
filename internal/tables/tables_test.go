package tables

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/features"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/reference"
	"github.com/privgrad/privgrad/internal/half"
	"github.com/privgrad/privgrad/internal/ir"
)

// length is that of a row, with an error of at most len(row)·2⁻⁵³ of it.
func length(row []float32) float64 {
	sum := 0.0
	for _, v := range row {
		sum += float64(v) * float64(v)
	}
	return math.Sqrt(sum)
}

// bounded checks what a norm makes of rows: one that is longer gets at most that norm, and hardly less, in
// its own direction; any other one stays as it is.
func bounded(t *testing.T, what string, plain, got []float32, width int, norm float64) {
	t.Helper()
	if len(plain) != len(got) {
		t.Fatalf("%s: %d values became %d", what, len(plain), len(got))
	}
	slack := float64(width) * 0x1p-53
	for at := 0; at < len(plain); at += width {
		a, b := plain[at:][:width], got[at:][:width]
		long := length(a)
		switch {
		case math.IsNaN(long) || math.IsInf(long, 0):
			if l := length(b); !math.IsNaN(l) && !math.IsInf(l, 0) {
				t.Errorf("%s: %v became finite: %v", what, a, b)
			}
		case long <= norm:
			if !slices.Equal(a, b) {
				t.Errorf("%s: norm %v is within %v, and %v became %v", what, long, norm, a, b)
			}
		default:
			l, dot := length(b), 0.0
			for i := range a {
				dot += float64(a[i]) * float64(b[i])
			}
			// Rounding moves a value by 2⁻²⁴ of it, or by 2⁻¹⁵⁰ where it is tiny.
			if l > norm*(1+slack) || l < norm*(1-0x1p-21) || dot < l*long*(1-0x1p-40) {
				t.Errorf("%s: a row of norm %v has now %v of %v, and cosine %v", what, long, l, norm, dot/l/long)
			}
		}
	}
}

func floats(t *testing.T, rows device.Rows, f device.Features) []float32 {
	t.Helper()
	switch f := f.(type) {
	case device.Floats:
		return f
	case device.Halves:
		var all []float32
		for _, h := range f {
			all = append(all, half.ToFloat32(h))
		}
		return all
	case device.Bytes:
		var all []float32
		for _, b := range f {
			all = append(all, float32(b)*rows.Gather[0].Scale+rows.Gather[0].Offset)
		}
		return all
	}
	t.Fatalf("features are %T", f)
	return nil
}

// Rows of every form are bounded after rounding: bytes of images and of tables, values, and those of a front end.
func TestNorm(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	const n = 40
	bytes, values := make([]uint8, n*64), make([]float32, n*64)
	for i := range bytes {
		bytes[i] = uint8(random.Uint32() >> (i / 64 % 8)) // rows of all lengths
		values[i] = float32(random.NormFloat64() * math.Exp(random.NormFloat64()*4))
	}
	front, err := features.New(features.Spec{Kind: "scatter", Whiten: features.None, Shape: [3]int{1, 8, 8}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	image, table := [3]int{1, 8, 8}, [3]int{1, 1, 64}
	labels := make([]uint8, n)
	for name, c := range map[string]struct {
		m     datasets.Split
		front *features.Front
	}{
		"images":             {m: datasets.Split{Shape: image, Features: bytes, Labels: labels}},
		"a table of bytes":   {m: datasets.Split{Shape: table, Features: bytes, Unit: true, Labels: labels}},
		"a table":            {m: datasets.Split{Shape: table, Values: values, Unit: true, Labels: labels}},
		"a regression":       {m: datasets.Split{Shape: table, Values: values, Unit: true, Targets: make([]float32, n)}},
		"features of images": {datasets.Split{Shape: image, Features: bytes, Labels: labels}, front},
		"float images":       {m: datasets.Split{Shape: image, Values: values, Labels: labels}},
	} {
		r := Reader{Front: c.front, Loss: ir.Logistic, Classes: 2, Threads: 1}
		rows, plain, err := r.Table(c.m)
		if err != nil {
			t.Fatal(err)
		}
		before := floats(t, rows, plain)
		long := make([]float64, n)
		for i := range long {
			long[i] = length(before[i*rows.Width:][:rows.Width])
		}
		slices.Sort(long)
		for _, norm := range []float64{long[0] / 2, long[n/2], 1, 2 * long[n-1], 1e-20, 1e20} {
			r.Norm = norm
			scaled, got, err := r.Table(c.m)
			if err != nil {
				t.Fatal(err)
			}
			if scaled.Width != rows.Width || scaled.Count != n || !slices.Equal(scaled.Targets, rows.Targets) {
				t.Fatalf("%s: the rows are %+v", name, scaled)
			}
			bounded(t, name, before, floats(t, scaled, got), rows.Width, norm)
		}
		if again := floats(t, rows, plain); !slices.Equal(before, again) {
			t.Errorf("%s: the records themselves were scaled", name)
		}
	}
}

// Values that stand for files are said to, and those that were made of them are not: a device may move these alone.
func TestMapped(t *testing.T) {
	front, err := features.New(features.Spec{Kind: "scatter", Whiten: features.None, Shape: [3]int{1, 8, 8}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		mapped bool
		front  *features.Front
		norm   float64
		want   bool
	}{
		{mapped: true, want: true},
		{mapped: true, norm: 1},
		{mapped: true, front: front},
		{},
	} {
		m := datasets.Split{Shape: [3]int{1, 8, 8}, Features: make([]uint8, 128), Labels: make([]uint8, 2), Mapped: c.mapped}
		rows, _, err := Reader{Front: c.front, Norm: c.norm, Loss: ir.Logistic, Classes: 2, Threads: 1}.Table(m)
		if err != nil {
			t.Fatal(err)
		}
		if rows.Mapped != c.want {
			t.Errorf("mapped %v, front end %v, norm %v: values are mapped: %v", c.mapped, c.front != nil, c.norm, rows.Mapped)
		}
	}
}

// Whatever a record holds, its row is bounded, its neighbors are what they are without it, and a
// value that is not finite stays one.
func FuzzNorm(f *testing.F) {
	f.Add(uint32(0x7f7fffff), uint32(0x3f800000), uint32(1), uint32(0x80000000), 1.0)
	f.Add(uint32(0x7f800000), uint32(0x7fc00000), uint32(0x00000001), uint32(0xff7fffff), 1e-20)
	f.Add(uint32(0x3f800000), uint32(0), uint32(0), uint32(0), 1.0)
	f.Add(uint32(0x3f19999a), uint32(0x3f4ccccd), uint32(0), uint32(0), 1.0)
	f.Fuzz(func(t *testing.T, a, b, c, d uint32, norm float64) {
		if !(norm >= 1e-20 && norm <= 1e20) { // as the setting's limit says
			t.Skip()
		}
		m := datasets.Split{Shape: [3]int{1, 1, 4}, Unit: true, Labels: make([]uint8, 3), Values: []float32{3, 4, 0, 0, 0, 0, 0, 0, 0, 0, 3, 4}}
		for i, bits := range []uint32{a, b, c, d} {
			m.Values[4+i] = math.Float32frombits(bits)
		}
		rows, got, err := Reader{Norm: norm, Loss: ir.Logistic, Classes: 2}.Table(m)
		if err != nil {
			t.Fatal(err)
		}
		all := floats(t, rows, got)
		bounded(t, "fuzz", m.Values, all, 4, norm)
		m.Values = []float32{3, 4, 0, 0, 0, 0, 3, 4}
		m.Labels = m.Labels[:2]
		rows, got, err = Reader{Norm: norm, Loss: ir.Logistic, Classes: 2}.Table(m)
		if err != nil {
			t.Fatal(err)
		}
		if alone := floats(t, rows, got); !slices.Equal(alone[:4], all[:4]) || !slices.Equal(alone[4:], all[8:]) {
			t.Errorf("a record changed its neighbors: %v, %v", all, alone)
		}
	})
}

// A record is usable by what it holds alone: with a target, and with values that are finite.
func TestUsable(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(-1))
	split := datasets.Split{Shape: [3]int{1, 1, 2}, Unit: true, Labels: []uint8{0, 1, 2, 255, 1, 0, 1}, Values: []float32{0, 1, math.MaxFloat32, 0, 0, 0, 0, 0, nan, 0, 0, inf, 1, 1}}
	d := reference.Open()
	for name, c := range map[string]struct {
		reader Reader
		split  datasets.Split
		want   int64
	}{
		"two classes":   {Reader{Loss: ir.Logistic, Classes: 2}, split, 3},
		"three classes": {Reader{Loss: ir.SoftmaxCrossEntropy, Classes: 3}, split, 4},
		"norm":          {Reader{Loss: ir.Logistic, Classes: 2, Norm: 1}, split, 3},
		"bytes":         {Reader{Loss: ir.Logistic, Classes: 2}, datasets.Split{Shape: [3]int{1, 1, 1}, Labels: []uint8{0, 1, 7}, Features: []uint8{0, 255, 3}}, 2},
		"regression":    {Reader{Loss: ir.Huber}, datasets.Split{Shape: [3]int{1, 1, 1}, Targets: []float32{1, nan, inf, -3}, Values: []float32{1, 1, 1, 1}}, 2},
		"none":          {Reader{Loss: ir.Huber}, datasets.Split{Shape: [3]int{1, 1, 1}, Targets: []float32{}, Values: []float32{}}, 0},
	} {
		r, err := c.reader.Records(d, c.split)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := r.Usable(); got != c.want {
			t.Errorf("%s: %d records are usable, %d should be", name, got, c.want)
		}
		r.Data.Close()
	}
	front, err := features.New(features.Spec{Kind: "scatter", Whiten: features.None, Shape: [3]int{1, 8, 8}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	images := datasets.Split{Shape: [3]int{1, 8, 8}, Labels: []uint8{0, 1, 1}, Values: make([]float32, 192)}
	images.Values[70] = nan
	r, err := Reader{Front: front, Loss: ir.Logistic, Classes: 2, Threads: 1}.Records(d, images)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Data.Close()
	if got := r.Usable(); got != 2 {
		t.Errorf("with features %d images of 2 are usable", got)
	}
}
