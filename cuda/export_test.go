package cuda

import (
	"github.com/privgrad/privgrad/internal/cuda/kernels"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ir"
)

// TensorProducts is how many products of a schedule's network tensor cores multiply, for a GPU whose blocks have so many bytes of shared memory.
func TensorProducts(s *ir.Schedule, o device.Options, shared int) (n int, err error) {
	var a arena
	if err := a.layOut(s, o, shared, false); err != nil {
		return 0, err
	}
	for i, on := range a.pixels {
		if on && kernels.Products(&s.Program.Ops[i]) {
			n++
		}
	}
	return n, nil
}
