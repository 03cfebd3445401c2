package cpu

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/reference"
	"github.com/privgrad/privgrad/internal/fixed"
	"github.com/privgrad/privgrad/internal/ir"
)

// residual is a map with every kind of op that a frozen part has here.
func residual(r *rand.Rand) *fixed.Builder {
	b := fixed.New("residual", []int{3, 12, 10})
	random := func(name string, shape ...int) int {
		values := make([]float32, ir.Size(shape))
		for i := range values {
			values[i] = float32(r.NormFloat64() / math.Sqrt(float64(len(values)/shape[0])))
		}
		return b.Constant(name, shape, values)
	}
	x := b.Affine(ir.Input, []int{3, 12, 10}, random("scale", 3, 1, 1), random("shift", 10))
	conv := func(x ir.Value, name string, in, out []int, w ir.Window) ir.Value {
		return b.Add(ir.Op{Kind: ir.Conv, In: []ir.Value{x}, Shape: in, Out: out, Window: w}, random(name, out[0], in[0], w.H, w.W))
	}
	y := conv(x, "a", []int{3, 12, 10}, []int{8, 12, 10}, ir.Square(3, 1, 1))
	y = b.Add(ir.Op{Kind: ir.ReLU, In: []ir.Value{y}, Shape: []int{8, 12, 10}, Out: []int{8, 12, 10}})
	z := conv(y, "c", []int{8, 12, 10}, []int{8, 12, 10}, ir.Square(5, 1, 2)) // whose outputs live until the pool alone
	z = b.Add(ir.Op{Kind: ir.ReLU, In: []ir.Value{z}, Shape: []int{8, 12, 10}, Out: []int{8, 12, 10}})
	y = b.Add(ir.Op{Kind: ir.MaxPool, In: []ir.Value{z}, Shape: []int{8, 12, 10}, Out: []int{8, 12, 10}, Window: ir.Square(3, 1, 1)})
	z = conv(y, "b", []int{8, 12, 10}, []int{8, 12, 10}, ir.Square(3, 1, 1))
	z = b.Affine(z, []int{8, 12, 10}, ir.None, random("norm", 8, 1, 1))
	z = b.Add(ir.Op{Kind: ir.Add, In: []ir.Value{y, z}, Shape: []int{8, 12, 10}, Out: []int{8, 12, 10}})
	z = b.Add(ir.Op{Kind: ir.GELU, In: []ir.Value{z}, Shape: []int{8, 12, 10}, Out: []int{8, 12, 10}})
	z = b.Add(ir.Op{Kind: ir.MaxPool, In: []ir.Value{z}, Shape: []int{8, 12, 10}, Out: []int{8, 6, 5}, Window: ir.Square(2, 2, 0)})
	b.Add(ir.Op{Kind: ir.Dense, In: []ir.Value{z}, Shape: []int{240}, Out: []int{33}}, random("dense", 33, 240))
	return b
}

// Outputs are the reference's, and those of a record have the same bits alone, among others, at any place and on any threads.
func TestOutputs(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	b := residual(r)
	const n, in, out = outputsTogether + 37, 360, 33
	records := make([]float32, n*in)
	for i := range records {
		records[i] = r.Float32()
	}
	var first []float32
	for _, threads := range []int{1, 3} {
		o, err := NewOutputs(b.Program, b.Constants, threads)
		if err != nil {
			t.Fatal(err)
		}
		defer o.Close()
		all := make([]float32, n*out)
		if err := o.Of(all, records); err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = all
		}
		same(t, "on other threads", all, first)
		for i := range n {
			alone := make([]float32, out)
			if err := o.Of(alone, records[i*in:(i+1)*in]); err != nil {
				t.Fatal(err)
			}
			same(t, "alone", alone, all[i*out:(i+1)*out])
		}
		for _, skip := range []int{1, 5, 8, 100} { // at other places
			moved := make([]float32, (n-skip)*out)
			if err := o.Of(moved, records[skip*in:]); err != nil {
				t.Fatal(err)
			}
			same(t, "moved", moved, all[skip*out:])
		}
	}
	params := make([]float64, len(b.Constants))
	for i, v := range b.Constants {
		params[i] = float64(v)
	}
	for i := range 5 {
		x := make([]float64, in)
		for k := range x {
			x[k] = float64(records[i*in+k])
		}
		// Sums of some hundred products of float32, through five layers.
		for k, want := range reference.Values(b.Program, params, x, device.Float32)[b.Program.Logits()] {
			if got := float64(first[i*out+k]); !(math.Abs(got-want) <= 1e-5*(1+math.Abs(want))) {
				t.Errorf("output %d of record %d is %v, want %v", k, i, got, want)
			}
		}
	}
}

func same(t *testing.T, what string, got, want []float32) {
	t.Helper()
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Fatalf("%s value %d is %v, was %v", what, i, got[i], want[i])
		}
	}
}

func TestOutputsRefuse(t *testing.T) {
	b := fixed.New("upright", []int{1, 4, 4})
	b.Add(ir.Op{Kind: ir.Deskew, In: []ir.Value{ir.Input}, Shape: []int{1, 4, 4}, Out: []int{1, 4, 4}})
	if _, err := NewOutputs(b.Program, b.Constants, 1); err == nil {
		t.Error("an op that there is not was taken")
	}
}
