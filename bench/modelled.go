package bench

import (
	"embed"
	"encoding/csv"
	"slices"
	"strconv"
)

// modelledTables are the committed figures of cmd/gpumodel.
//
//go:embed results/modelled/[ah][12]00.csv
var modelledTables embed.FS

// Modelled gives the seconds that the committed table of a modelled GPU says of a step, no measurement; nil where it says none.
func Modelled(machine, of string, batch int, mode, precision string) *float64 {
	f, err := modelledTables.Open("results/modelled/" + machine + ".csv")
	if err != nil {
		return nil
	}
	defer f.Close()
	r := csv.NewReader(f)
	r.Comment, r.FieldsPerRecord = '#', -1
	rows, err := r.ReadAll()
	if err != nil || len(rows) == 0 {
		return nil
	}
	field := func(row []string, name string) string {
		i := slices.Index(rows[0], name)
		if i < 0 || i >= len(row) {
			return ""
		}
		return row[i]
	}
	for _, row := range rows[1:] {
		if field(row, "model") == of && field(row, "batch") == strconv.Itoa(batch) && field(row, "mode") == mode && field(row, "precision") == precision {
			if ms, err := strconv.ParseFloat(field(row, "step_ms"), 64); err == nil {
				return new(ms / 1e3)
			}
		}
	}
	return nil
}
