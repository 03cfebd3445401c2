package cpu_test

import (
	"testing"

	"github.com/privgrad/privgrad/internal/device/devicetest"
	"github.com/privgrad/privgrad/nn"
	"github.com/privgrad/privgrad/perexample"
)

// TestViewsAgree compares a wide residual network's gradients over views, and their clipped sum, with those that PyTorch found in float64.
//
// Roundings of 2⁻²⁴ reach 2.4e-5 of a tensor: that was the most with parameters moved at random by up to 3e-7 of theirs, ten times, for other
// orders of sums. 1e-4 is four times that. The records of the file keep units from the kinks of ReLU: one that falls on the other side
// makes some 1e-3.
func TestViewsAgree(t *testing.T) { viewsAgree(t, perexample.Auto) }

func TestLongViewsAgree(t *testing.T) {
	viewsAgree(t, perexample.Materialise, perexample.Ghost, perexample.Bookkeeping, perexample.Microbatch)
}

func viewsAgree(t *testing.T, strategies ...perexample.Strategy) {
	const name = "wrn-16-4"
	m, err := nn.Build(name, nn.Options{})
	check(t, err)
	net, err := m.Lower()
	check(t, err)
	g := devicetest.NewGoldenViews(t, name, net.Program)
	for _, s := range strategies {
		t.Run(string(s), func(t *testing.T) { g.On(t, open(t, 2), s, 1e-4) })
	}
}
