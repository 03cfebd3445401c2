package tables

import (
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/host"
	"github.com/privgrad/privgrad/internal/half"
	"github.com/privgrad/privgrad/internal/pages"
)

// Canaries are made-up records behind all others, and columns behind the values of every record, one for each of them: there a
// canary has a value in the column of its own, and zeros elsewhere. All other records have zeros there.
type Canaries struct {
	Columns int
	Record  []float32 // what stands for the values of a record, the same of all canaries
	Value   float32
	Targets []float32 // of the canaries; nil: none is added, as to test records
}

// withCanaries is a table with the canaries and their columns. What values stand for stays the same.
func (r Reader) withCanaries(rows device.Rows, values device.Features) (device.Rows, device.Features, error) {
	c := r.Canaries
	if err := rows.Validate(values, "a table with canaries", host.Plain.Has); err != nil {
		return rows, nil, err
	}
	all := device.Rows{Count: rows.Count + len(c.Targets), Width: rows.Width + c.Columns}
	all.Targets = append(append(pages.Make[float32](all.Count)[:0], rows.Targets...), c.Targets...)
	own := func(canary int) int { return (rows.Count+canary)*all.Width + rows.Width + canary }
	if halves, ok := values.(device.Halves); ok && len(rows.Gather) == 0 {
		wide := device.Halves(pages.Make[uint16](all.Count * all.Width))
		for i := range rows.Count {
			copy(wide[i*all.Width:], halves[i*rows.Width:][:rows.Width])
		}
		for i := range c.Targets {
			row := wide[(rows.Count+i)*all.Width:]
			for k, x := range c.Record {
				row[k] = half.FromFloat32(x)
			}
			wide[own(i)] = half.FromFloat32(c.Value)
		}
		return all, wide, nil
	}
	wide := device.Floats(pages.Make[float32](all.Count * all.Width))
	for i := range rows.Count {
		host.Plain.Read(wide[i*all.Width:][:rows.Width], &rows, values, i)
	}
	for i := range c.Targets {
		copy(wide[(rows.Count+i)*all.Width:], c.Record)
		wide[own(i)] = c.Value
	}
	return all, wide, nil
}
