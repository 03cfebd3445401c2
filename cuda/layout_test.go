package cuda

import (
	"slices"
	"testing"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ir"
)

// Dense layers are on tensor cores where these save more time than conversions take, by the shape and by how many examples may go together.
func TestDenseLayersOnTensorCores(t *testing.T) {
	for _, c := range []struct {
		model     string
		precision device.Precision
		examples  int
		want      []bool // by dense op
	}{
		{"cifar-paper", device.Float32, 4096, []bool{false, false, false}},
		{"cifar-paper", device.TF32, 63, []bool{false, false, false}},
		{"cifar-paper", device.TF32, 64, []bool{true, false, false}}, // 4096 inputs, 1024 outputs: 2²⁸ products
		{"cifar-paper", device.TF32, 511, []bool{true, false, false}},
		{"cifar-paper", device.TF32, 512, []bool{true, true, false}},
		{"cifar-paper", device.BF16, 15, []bool{false, false, false}},
		{"cifar-paper", device.BF16, 16, []bool{true, false, false}},
		{"cifar-paper", device.BF16, 128, []bool{true, true, false}},
		{"cifar-small", device.TF32, 1023, []bool{false, false}},
		{"cifar-small", device.TF32, 1024, []bool{true, false}}, // of so many, any but the last
		{"mlp-mnist", device.TF32, 300, []bool{false, false}},
		{"mlp-mnist", device.TF32, 512, []bool{true, false}},
		{"mlp-mnist", device.BF16, 250, []bool{true, false}},
		{"mlp-mnist", device.BF16, 1 << 20, []bool{true, false}},
	} {
		p := model(c.model)
		on := onPixels(p, c.precision, 0, c.examples)
		var got []bool
		for i := range p.Ops {
			if p.Ops[i].Kind == ir.Dense {
				got = append(got, on[i])
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s of %d examples in %s: dense layers on tensor cores are %v, want %v", c.model, c.examples, c.precision, got, c.want)
		}
	}
}
