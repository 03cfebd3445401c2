package cpu_test

import (
	"os"
	"testing"

	"github.com/privgrad/privgrad/internal/device/devicetest"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/onnx/file"
	"github.com/privgrad/privgrad/internal/onnx/lower"
	"github.com/privgrad/privgrad/perexample"
)

// TestExportedAgrees compares each record's gradient in a ResNet-18 with group norm, which PyTorch exported, with what PyTorch itself finds
// in float64, under every strategy. The tolerance is that of TestViewsAgree, whose network has as many layers.
func TestExportedAgrees(t *testing.T) {
	exportedAgrees(t, "../onnx/lower/testdata", perexample.Strategies()...)
}

// TestLongExportedAgrees has a network of full width, where PRIVGRAD_ONNX_FILES says.
func TestLongExportedAgrees(t *testing.T) {
	dir := os.Getenv("PRIVGRAD_ONNX_FILES")
	if dir == "" {
		t.Skip("PRIVGRAD_ONNX_FILES names no folder with files of scripts/onnx_files.py --full and scripts/onnx_golden.py --full")
	}
	exportedAgrees(t, dir, perexample.Auto)
}

func exportedAgrees(t *testing.T, dir string, strategies ...perexample.Strategy) {
	g := devicetest.NewGoldenFile(t, dir, func(path string) (*ir.Program, []float32) {
		m, err := file.Read(path)
		check(t, err)
		n, err := lower.Lower(m, lower.Choices{Weights: lower.OfFile})
		check(t, err)
		return n.Program, n.Params
	})
	for _, s := range strategies {
		t.Run(string(s), func(t *testing.T) { g.On(t, open(t, 2), s, 1e-4) })
	}
}
