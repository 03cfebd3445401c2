package reference_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/privgrad/privgrad/internal/device/devicetest"
	"github.com/privgrad/privgrad/internal/device/reference"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/onnx/file"
	"github.com/privgrad/privgrad/internal/onnx/lower"
	"github.com/privgrad/privgrad/perexample"
)

// TestExportedAgrees compares each record's gradient in a ResNet-18 with group norm, which PyTorch exported, with what PyTorch itself finds
// in float64 (scripts/onnx_golden.py). The roundings are those of TestNamedModelsAgree, 1e-10. The epsilon of 20 norms is half a unit of
// float32 off in the file, 2⁻²⁵ of 1e-5, where variances are above 1e-2: 20 · 2⁻²⁵ · 1e-3 = 6e-10 of a gradient.
func TestExportedAgrees(t *testing.T) { exportedAgrees(t, "../../onnx/lower/testdata", 3) }

// TestLongExportedAgrees has one record of a network of full width, where PRIVGRAD_ONNX_FILES says.
func TestLongExportedAgrees(t *testing.T) {
	dir := os.Getenv("PRIVGRAD_ONNX_FILES")
	if dir == "" {
		t.Skip("PRIVGRAD_ONNX_FILES names no folder with files of scripts/onnx_files.py --full and scripts/onnx_golden.py --full")
	}
	exportedAgrees(t, dir, 1)
}

func exportedAgrees(t *testing.T, dir string, records int) {
	g := devicetest.NewGoldenFile(t, dir, func(path string) (*ir.Program, []float32) {
		m, err := file.Read(path)
		check(t, err)
		n, err := lower.Lower(m, lower.Choices{Weights: lower.OfFile})
		check(t, err)
		return n.Program, n.Params
	})
	s, err := perexample.Plain(g.Program)
	check(t, err)
	table, err := reference.Load(g.Rows, g.Features)
	check(t, err)
	params := make([]float64, len(g.Params))
	for i, v := range g.Params {
		params[i] = float64(v)
	}
	for i := range records {
		t.Run(fmt.Sprintf("record %d", i), func(t *testing.T) {
			g.Record(t, i, reference.Gradient(s, params, table, int32(i)), 1e-9)
		})
	}
}
