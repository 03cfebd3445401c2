package team

import (
	"testing"

	"github.com/privgrad/privgrad/internal/collective"
	"github.com/privgrad/privgrad/internal/collective/local"
)

// ofGPUs is a group whose ranks have a GPU each.
type ofGPUs struct {
	collective.Group
	number int
}

func (g ofGPUs) GPU() int { return g.number }

func TestRanksOpenTheirOwnGPU(t *testing.T) {
	two := local.New(2, local.Options{})
	for _, c := range []struct {
		t          *Team
		configured string
		want       string
	}{
		{nil, "auto", ""}, {&Team{Group: two[0]}, "auto", ""}, {&Team{Group: ofGPUs{two[0], 3}}, "auto", "cuda:3"},
		{&Team{Group: ofGPUs{two[0], 0}}, "cuda", "cuda:0"}, {&Team{Group: ofGPUs{two[0], 3}}, "cuda:1", ""}, {&Team{Group: ofGPUs{two[0], 3}}, "cpu", ""},
	} {
		if got := c.t.Device(c.configured); got != c.want {
			t.Errorf("%+v opens %q in the place of %s, want %q", c.t, got, c.configured, c.want)
		}
	}
}
