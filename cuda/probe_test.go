package cuda_test

import (
	"strings"
	"testing"

	"github.com/privgrad/privgrad/internal/cuda/driver/fake"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ptx"
	"github.com/privgrad/privgrad/perexample"
)

// TestTensorCoresAreProbed: a net on tensor cores is refused where these add less precisely than the bound on rounding assumes, or not
// alike in every row. One that has nothing on them is not, and neither is one on the coarsest of known tensor cores, whatever the
// order of blocks.
func TestTensorCoresAreProbed(t *testing.T) {
	for core, want := range map[ptx.Core]string{
		ptx.Coarse:  "",
		ptx.Coarser: "do not add as precisely as the proof on rounding assumes (row 0, column 0 of a product is 1 instead of 1.0000001): use --precision float32",
		ptx.Uneven:  "of a product of equal rows and columns is",
	} {
		for _, p := range []device.Precision{device.Float32, device.TF32, device.BF16} {
			d := open(t, fake.Options{Kernels: ptx.Options{Core: core, Seed: 3}})
			for range 2 { // also when it was tried before
				net, err := d.Compile(private(t, program(t, "tensor-residual"), perexample.Auto), device.Options{Capacity: 2, Precision: p})
				if err == nil {
					must(t, net.Close())
				}
				if refused := want != "" && p != device.Float32; refused != (err != nil) || err != nil && !strings.Contains(err.Error(), want) {
					t.Errorf("core %d, %v: %v, want %q", core, p, err, want)
				}
			}
			net, err := d.Compile(private(t, program(t, "twice"), perexample.Auto), device.Options{Capacity: 2, Precision: device.TF32})
			must(t, err) // in which all of it is in float32
			must(t, net.Close())
		}
	}
}
