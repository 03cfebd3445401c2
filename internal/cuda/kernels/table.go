package kernels

// Form is how the values of a table lie in memory; gather.cuh numbers forms alike.
type Form int

const (
	Bytes  Form = iota // uint8
	Floats             // float32
	Halves             // IEEE half precision
)

// Bytes are those of a value.
func (f Form) Bytes() int { return [...]int{1, 4, 2}[f] }

// Table is a table in device memory: rows of Width values, and targets. Kernels read a row
// whose target is NaN as zeros.
type Table struct {
	Form            Form
	Values, Targets Ptr
	Width           int
	Maps            Maps
}

func (t *Table) args() []uint64 {
	return append([]uint64{t.Values, t.Targets, I(int(t.Form)), I(t.Width)}, t.Maps.args()...)
}
