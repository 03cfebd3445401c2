package oracle

import (
	"slices"

	"github.com/privgrad/privgrad/internal/device"
)

// Units are rows and their features, each n times: units whose records are alike.
func Units(rows device.Rows, features device.Bytes, n int) (device.Rows, device.Bytes) {
	of, all := rows, device.Bytes(nil)
	of.Count, of.Targets = n*rows.Count, nil
	for i, target := range rows.Targets {
		of.Targets = append(of.Targets, slices.Repeat([]float32{target}, n)...)
		all = append(all, slices.Repeat(features[i*rows.Width:(i+1)*rows.Width], n)...)
	}
	return of, all
}
