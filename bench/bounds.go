package bench

import (
	"embed"
	"encoding/csv"
	"slices"
	"strconv"
)

// modelledTables are the committed figures of cmd/gpumodel.
//
//go:embed results/modelled/h100.csv results/modelled/a100.csv
var modelledTables embed.FS

// Bounds gives, in seconds, what the products of a step alone would take on a modelled GPU, and what
// the committed table of modelled steps says of the step; nil for what it does not say. Neither is a measurement.
func Bounds(machine, of string, batch int, mode, precision string) (roofline, modelled *float64) {
	f, err := modelledTables.Open("results/modelled/" + machine + ".csv")
	if err != nil {
		return nil, nil
	}
	defer f.Close()
	r := csv.NewReader(f)
	r.Comment, r.FieldsPerRecord = '#', -1
	rows, err := r.ReadAll()
	if err != nil || len(rows) == 0 {
		return nil, nil
	}
	field := func(row []string, name string) string {
		i := slices.Index(rows[0], name)
		if i < 0 || i >= len(row) {
			return ""
		}
		return row[i]
	}
	ms := func(row []string, name string) *float64 {
		x, err := strconv.ParseFloat(field(row, name), 64)
		if err != nil {
			return nil
		}
		return new(x / 1e3)
	}
	for _, row := range rows[1:] {
		if field(row, "model") == of && field(row, "batch") == strconv.Itoa(batch) && field(row, "mode") == mode && field(row, "precision") == precision {
			return ms(row, "roofline_ms"), ms(row, "step_ms")
		}
	}
	return nil, nil
}
