package devicetest

import (
	"fmt"
	"math"
	"testing"

	"github.com/privgrad/privgrad/internal/device"
)

// impossible lists what no clip norm may be.
var impossible = []float64{0, -1, math.NaN(), math.Inf(1)}

// recordings are mistakes, by what is wrong with them.
type recordings map[string]func(device.Queue)

// refuses fails for each mistake that is recorded.
func (s *Fixture) refuses(t *testing.T, list recordings) {
	t.Helper()
	for what, body := range list {
		t.Run(what, func(t *testing.T) {
			if _, err := s.Net.Record(body); err == nil {
				t.Error("is recorded")
			}
		})
	}
}

// refuse fails without an error.
func refuse(t testing.TB, what string, err error) {
	t.Helper()
	if err == nil {
		t.Errorf("%s is accepted", what)
	}
}

// refuseClips fails for each impossible clip norm that a step accepts. open gives the step on a net of its own.
func refuseClips(t *testing.T, open func(*testing.T) device.Step) {
	t.Helper()
	for _, clip := range impossible {
		refuse(t, fmt.Sprintf("a clip norm of %v, which bounds no example,", clip), open(t).Run(clipAt(clip, 0)))
	}
}

// refuseStds fails for each impossible standard deviation with which a release of some noise leaves its net.
func refuseStds(t *testing.T, open func(*testing.T) (device.Step, device.Noise)) {
	t.Helper()
	for _, std := range []float64{-1, math.NaN(), math.Inf(1), math.Inf(-1)} {
		step, noise := open(t)
		in := &device.Inputs{Draw: 1}
		setNoise(in, noise, std)
		refuse(t, fmt.Sprintf("noise of standard deviation %v", std), step.Run(in))
	}
}
