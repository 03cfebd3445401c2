package reference

import (
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/host"
	"github.com/privgrad/privgrad/internal/ir"
)

// Gradient is a schedule's sum over one row, in float64 throughout.
func Gradient(s *ir.Schedule, params []float64, t *host.Table, row int32) []float64 {
	return Sum(s, params, t, host.Batch{Rows: []int32{row}}, 0)
}

// Sum is a schedule's sum over a batch, in float64 throughout.
func Sum(s *ir.Schedule, params []float64, t *host.Table, b host.Batch, clip float32) []float64 {
	g := make([]float64, len(params))
	(&backend{schedule: s, clipper: host.NewClipper(s)}).ClippedSum(g, params, t, b, clip)
	return g
}

// Loss is one row's loss.
func Loss(p *ir.Program, params []float64, t *host.Table, row int32) float64 {
	return host.Loss(p.Loss, Values(p, params, t.Row(row), device.Float32)[p.Logits()], t.Targets[row], nil)
}
