package reference_test

import (
	"fmt"
	"testing"

	"github.com/privgrad/privgrad/internal/device/devicetest"
	"github.com/privgrad/privgrad/internal/device/host"
	"github.com/privgrad/privgrad/internal/device/reference"
	"github.com/privgrad/privgrad/nn"
	"github.com/privgrad/privgrad/perexample"
)

// TestViewsAgree compares the mean gradient of a record's views, its length, and a clipped sum with those that PyTorch found in
// float64 (scripts/views_golden.py). The roundings are those of TestNamedModelsAgree, and a factor of the clipping is 2⁻⁴⁰ too small:
// 1e-10 of a tensor's length is a hundred times that.
func TestViewsAgree(t *testing.T) { viewsAgree(t, "resnet-small", 3) }

// TestLongWideViewsAgree takes records together alone: a view is many seconds here, and internal/cpu compares each record.
func TestLongWideViewsAgree(t *testing.T) { viewsAgree(t, "wrn-16-4", 0) }

// viewsAgree compares so many records by themselves, and the sum of all.
func viewsAgree(t *testing.T, name string, records int) {
	m, err := nn.Build(name, nn.Options{})
	check(t, err)
	net, err := m.Lower()
	check(t, err)
	g := devicetest.NewGoldenViews(t, name, net.Program)
	s, params := g.Schedule(t, perexample.Materialise), patternParams(net.Program)
	table, err := reference.Load(g.Rows, g.Features)
	check(t, err)
	for i := range records {
		t.Run(fmt.Sprintf("record %d", i), func(t *testing.T) {
			t.Parallel() // each takes seconds
			b := host.Batch{Rows: []int32{int32(i)}, Words: g.WordsOf(i)}
			g.Record(t, i, reference.Sum(s, params, table, b, float32(g.Long())), 1e-10)
		})
	}
	t.Run("sum", func(t *testing.T) {
		t.Parallel()
		g.Sum(t, reference.Sum(s, params, table, host.Batch{Rows: g.All(), Words: g.Words}, float32(g.Clip)), 1e-10)
	})
}
