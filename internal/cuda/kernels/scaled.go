package kernels

// Scaled is ir.Scaled of a table of bytes, in one rounding (scaled.cuh). Kernels do not read it for other forms.
type Scaled struct{ Scale, Offset float32 }

// unscaled leaves a byte as it is.
var unscaled = Scaled{1, 0}

func (s Scaled) args() []uint64 { return []uint64{F(s.Scale), F(s.Offset)} }
