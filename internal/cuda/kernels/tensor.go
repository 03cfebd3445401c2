package kernels

import "github.com/privgrad/privgrad/internal/device"

// Math is the precision of products on tensor cores, tf32 or bf16: products are exact, and PTX leaves open how they are added, fragment
// after fragment of 8 terms in tf32, 16 in bf16. Its methods are launches for values in pixels. Functions of the same names are those for values
// in planes, in float32. See docs/proofs/rounding.md.
type Math device.Precision

// plain says that no product is on tensor cores.
func (m Math) plain() bool { return device.Precision(m) == device.Float32 }

// tensorThreads is a block of kernels on tensor cores, in four warps.
const tensorThreads = 128
