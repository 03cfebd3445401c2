package devicetest

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/reference"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/perexample"
)

// Of a table whose units have several rows, a batch names units. A unit's gradient is the mean over its rows.

const unitRows = 3

func ofUnits(t testing.TB, p *ir.Program, s perexample.Strategy, c ir.Clipping) *ir.Schedule {
	return made(perexample.Private(p, perexample.Options{Strategy: s, Clipping: c, UnitRows: unitRows}))(t)
}

// unitMean is a unit's gradient: the mean over its rows, which go through the reference one by one.
func unitMean(t testing.TB, c *Case, unit int32) []float64 {
	t.Helper()
	mean := make([]float64, len(c.Params))
	one := Open(t, reference.Open(), plain(t, c.Program).Schedule, c, 1)
	for k := range int32(unitRows) {
		for j, g := range one.Of(t, []int32{unit*unitRows + k}, 0) {
			mean[j] += float64(g) / unitRows
		}
	}
	return mean
}

func float32s(x []float64) []float32 {
	y := make([]float32, len(x))
	for i, v := range x {
		y[i] = float32(v)
	}
	return y
}

// unitOracles are the clipped sum by hand, in each of the precisions that a device may have.
func unitOracles(t testing.TB, c *Case, clipping ir.Clipping, units []int32, clip float64) (list [][]float32) {
	t.Helper()
	for _, c := range c.precisions() {
		total := make([]float32, len(c.Params))
		for _, u := range units {
			for i, v := range byHand(c.Program, clipping, float32s(unitMean(t, c, u)), clip) {
				total[i] += v
			}
		}
		list = append(list, total)
	}
	return list
}

// testUnits sums units in runs and chunks of several sizes, under every strategy, clipped and not.
func testUnits(t *testing.T, d device.Device) {
	units := []int32{2, 0, 3}
	for _, name := range some(d, viewProgramsIn(d)) {
		c := newCase(t, d, program(name), 4*unitRows, 131)
		least := math.Inf(1)
		for _, u := range units {
			least = min(least, norm64(unitMean(t, c, u)))
		}
		for _, clipping := range some(d, []ir.Clipping{ir.Flat, ir.PerLayer, ir.Automatic}) {
			for _, clip := range []float64{least / 2, 4 * least} {
				want := unitOracles(t, c, clipping, units, clip)
				for _, strategy := range some(d, perexample.Strategies()) {
					s := ofUnits(t, c.Program, strategy, clipping)
					for _, parts := range []struct{ capacity, chunk int }{{3, 0}, {1, 0}, {3, 2}} {
						s.Chunk = parts.chunk
						t.Run(fmt.Sprintf("%s %v %s C = %.3g in %v", name, clipping, strategy, clip, parts), func(t *testing.T) {
							nearOne(t, Open(t, d, s, c, parts.capacity).Of(t, units, clip), want, tolerance(d))
						})
					}
				}
			}
		}
	}
}

// testUnitTargets: a unit whose first row has no target counts as zero, and a later row without one adds nothing to the mean.
func testUnitTargets(t *testing.T, d device.Device) {
	for _, name := range some(d, []string{"wrn", "mnist-tf"}) {
		c := newCase(t, d, program(name), 3*unitRows, 132)
		c.Rows.Targets = slices.Clone(c.Rows.Targets)
		c.Rows.Targets[unitRows] = -1                      // the first row of unit 1
		c.Rows.Targets[2*unitRows+1] = float32(math.NaN()) // the second row of unit 2
		const clip = 1e-2
		want := unitOracles(t, c, ir.Flat, []int32{0, 2}, clip)
		for _, strategy := range some(d, perexample.Strategies()) {
			x := Open(t, d, ofUnits(t, c.Program, strategy, ir.Flat), c, 3)
			Same(t, x.Of(t, []int32{1}, clip), make([]float32, x.size))
			nearOne(t, x.Of(t, []int32{0, 1, 2}, clip), want, tolerance(d))
		}
	}
}

// testUnitRows: rows that are left behind the last whole unit are none.
func testUnitRows(t *testing.T, d device.Device) {
	c := newCase(t, d, program("wrn"), 2*unitRows+1, 133)
	x := Open(t, d, ofUnits(t, c.Program, perexample.Materialise, ir.Flat), c, 2)
	for _, unit := range []int32{-1, 2} {
		if err := x.Clipped.Run(clipAt(1, unit)); err == nil {
			t.Errorf("unit %d of a table with two was summed", unit)
		}
	}
}
