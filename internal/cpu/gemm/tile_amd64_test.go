//go:build !noasm

package gemm

import "testing"

// eachImplementation runs a test with the assembly, where the processor has it, and with the portable code.
func eachImplementation(t *testing.T, test func(t *testing.T)) {
	was := assembly
	defer func() { assembly = was }()
	if was {
		t.Run("assembly", test)
	}
	assembly = false
	t.Run("portable", test)
}
