package mechanism

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/internal/exact"
)

var perturbed = accountant.ObjectivePerturbation{NoiseMultiplier: 3, Curvature: 0.01, OutputMultiplier: 40}

func perturbation(t *testing.T, values int) *Perturbation {
	t.Helper()
	p, err := NewPerturbation(perturbed, 1.5, 1e-6, values, testStream(t), 6, 5)
	check(t, err)
	return p
}

// Both noises are those of the event: the tilt in units of L, the output's in units of twice the distance. The
// grids move neither by 1e-6.
func TestPerturbationLaw(t *testing.T) {
	const draws, d = 4000, 4
	p := perturbation(t, d)
	most, rounding := Tilts(3, 1.5)
	var tilts, outputs []float64
	for i := range uint64(draws) {
		b, err := p.Tilt(i + 1)
		check(t, err)
		for _, x := range b {
			if math.Abs(x) > most || p.Step > 2*rounding || math.Mod(x, p.Step) != 0 {
				t.Fatalf("a tilt of %v on a grid of %v: at most %v, moved by %v", x, p.Step, most, rounding)
			}
		}
		tilts = append(tilts, b[i%d]/1.5)
		x := []float64{7, -3, 0, math.NaN()}
		check(t, p.Release(x, i+1))
		center := []float64{7, -3, 0, 0}
		outputs = append(outputs, (x[i%d]-center[i%d])/2e-6)
	}
	within(t, "tilt", tilts, func(x float64) float64 { return phi(x / 3) })
	within(t, "output", outputs, func(x float64) float64 { return phi(x / 40) })
	if p.Event() != accountant.Mechanism(perturbed) {
		t.Errorf("the event is %v", p.Event())
	}
}

// The tilt's draws are those of package exact under a tensor of their own.
func TestPerturbationDraws(t *testing.T) {
	p := perturbation(t, 3)
	b, err := p.Tilt(9)
	check(t, err)
	g, err := exact.New(p.Deviation/p.Step, testStream(t), 6)
	check(t, err)
	want := make([]int64, 3)
	g.Add(want, 9, 0)
	for i := range b {
		if b[i] != float64(want[i])*p.Step {
			t.Errorf("tilt %d is %v, want %d steps of %v", i, b[i], want[i], p.Step)
		}
	}
}

// A position is drawn at once, and a tilt belongs to one release.
func TestPerturbationRefuses(t *testing.T) {
	p := perturbation(t, 2)
	refused := func(what string, err error, private []float64) {
		t.Helper()
		if err == nil || slices.ContainsFunc(private, func(x float64) bool { return x != 0 }) {
			t.Errorf("%s: %v, %v is left", what, err, private)
		}
	}
	x := []float64{1, 2}
	refused("a release without a tilt", p.Release(x, 3), x)
	if _, err := p.Tilt(3); err != nil {
		t.Fatal(err)
	}
	_, err := p.Tilt(3)
	refused("a second tilt of a position", err, nil)
	x = []float64{1, 2}
	refused("a release of another position", p.Release(x, 4), x)
	x = []float64{1, 2, 3}
	refused("a release of other values", p.Release(x, 3), x)
	x = []float64{1, 2}
	check(t, p.Release(x, 3))
	x = []float64{1, 2}
	refused("a second release of a tilt", p.Release(x, 3), x)

	for _, v := range []struct {
		noise         accountant.ObjectivePerturbation
		bound, within float64
		want          string
	}{
		{accountant.ObjectivePerturbation{NoiseMultiplier: 1, Curvature: 1}, 1, 1, "above 0"},
		{perturbed, 0, 1, "above 0"},
		{perturbed, 1, 0, "above 0"},
		{perturbed, math.Inf(1), 1, "above 0"},
		{perturbed, 1e-40, 1, "beyond what is drawn"},
	} {
		if _, err := NewPerturbation(v.noise, v.bound, v.within, 2, testStream(t), 6, 5); err == nil || !strings.Contains(err.Error(), v.want) {
			t.Errorf("%+v, bound %v, within %v: %v", v.noise, v.bound, v.within, err)
		}
	}
}
