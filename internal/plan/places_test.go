package plan

import (
	"strings"
	"testing"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/internal/config"
)

// A refusal of records that move others names what makes them.
func TestKeepPlaces(t *testing.T) {
	for _, x := range []struct {
		want   string
		config config.Config
		share  float64
	}{
		{"leave out --classes", config.Config{Settings: dpoptim.Settings{Classes: []int{0, 1}}}, 0},
		{"leave out --folds", config.Config{Folds: 3}, 0},
		{"npz:PATH", config.Config{Data: "dir:images"}, 0},
		{"test_share", config.Config{Data: "csv:t.csv"}, 0.8},
		{"no column has `only`", config.Config{Data: "csv:t.csv"}, 1},
	} {
		p := &Plan{Config: x.config, Set: &datasets.Set{Share: x.share}}
		if got := p.keepPlaces(); !strings.Contains(got, x.want) {
			t.Errorf("want %s, got %q", x.want, got)
		}
	}
}
