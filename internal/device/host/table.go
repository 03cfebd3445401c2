package host

import "github.com/privgrad/privgrad/internal/device"

// Table is data loaded into host memory.
type Table struct {
	device.Rows
	Features device.Features
}

// Load checks a table for a device with some maps and keeps its values, without a copy.
func Load[T Float](device string, maps Maps[T], r device.Rows, f device.Features) (*Table, error) {
	if err := r.Validate(f, "device "+device, maps.Has); err != nil {
		return nil, err
	}
	return &Table{r.Checked(f), f}, nil
}

// Close drops the table's memory.
func (t *Table) Close() error {
	t.Count, t.Features, t.Targets = 0, nil, nil
	return nil
}

// Span is where a row lies among the values.
func (t *Table) Span(row int32) (lo, hi int) {
	return int(row) * t.Width, (int(row) + 1) * t.Width
}

// Row is what a network reads of a row, as it is defined.
func (t *Table) Row(row int32) []float64 {
	x := make([]float64, t.Width)
	if !t.Void(row) {
		Defined.Read(x, &t.Rows, t.Features, int(row))
	}
	return x
}
