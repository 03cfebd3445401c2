package plan

import (
	"strings"
	"testing"

	"github.com/privgrad/privgrad/datasets"
)

// A refusal of records that move others names what makes them.
func TestKeepPlaces(t *testing.T) {
	for _, x := range []struct {
		want   string
		config Config
		share  float64
	}{
		{"leave out --classes", Config{Classes: []int{0, 1}}, 0},
		{"leave out --folds", Config{Folds: 3}, 0},
		{"npz:PATH", Config{Data: "dir:images"}, 0},
		{"test_share", Config{Data: "csv:t.csv"}, 0.8},
		{"no column has `only`", Config{Data: "csv:t.csv"}, 1},
	} {
		p := &Plan{Config: x.config, Set: &datasets.Set{Share: x.share}}
		if got := p.keepPlaces(); !strings.Contains(got, x.want) {
			t.Errorf("want %s, got %q", x.want, got)
		}
	}
}
