package kernels

import "github.com/privgrad/privgrad/internal/device"

// ProbeTerms is how many products an instruction of tensor cores adds up in a precision.
func (m Math) ProbeTerms() int {
	if device.Precision(m) == device.TF32 {
		return 8
	}
	return 16
}

// Probe multiplies fragments of 16×ProbeTerms and ProbeTerms×8 values on tensor cores and adds sums c, one product for each of so many
// trials, into d. Operands are words as the 32 lanes' registers have them (PTX ISA, mma): of each lane four words of a, two of b, and
// four float32 of c and of d.
func (m Math) Probe(trials int, a, b, c, d Ptr) Launch {
	return line("probe", "probe_"+device.Precision(m).String(), trials, 32, a, b, c, d)
}
