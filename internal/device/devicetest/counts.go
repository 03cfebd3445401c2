package devicetest

import (
	"fmt"
	"math"
	"testing"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ir"
)

// counted adds to a sum and a count at once, and releases both in one step.
type counted struct {
	*Fixture
	count     device.Sum
	out       device.Vector
	add, free device.Step
}

func (s site) counted(t testing.TB) *counted {
	x := &counted{Fixture: s.open(t)}
	x.count, x.out = x.scalarSum(t, 1), x.scalars(t, 1)
	x.add = x.record(t, func(q device.Queue) { q.CountedSum(x.Sum, x.count, x.Data) })
	x.free = x.record(t, func(q device.Queue) {
		q.Release(x.Out, x.Sum, x.Noise)
		q.Release(x.out, x.count, x.noise())
	})
	return x
}

// noise is the count's.
func (x *counted) noise() device.Noise {
	return device.NewNoise(x.Noise.Stream(), x.Noise.Tensor()+1).WithSlots(device.CountStd, device.CountStep)
}

func (x *counted) release(t testing.TB, std, countStd float32) ([]float32, float64) {
	t.Helper()
	in := x.next()
	setNoise(in, x.Noise, float64(std))
	setNoise(in, x.noise(), float64(countStd))
	must(t, x.free.Run(in))
	return x.read(t, x.Out), float64(x.values(t, x.out, 1)[0])
}

func (x *counted) of(t testing.TB, rows []int32, clip float64) ([]float32, float64) {
	t.Helper()
	x.addBy(t, x.add, rows, clip)
	return x.release(t, 0, 0)
}

// counts fails unless rows count to a number.
func (x *counted) counts(t testing.TB, what string, rows []int32, clip, want float64) {
	t.Helper()
	if _, got := x.of(t, rows, clip); got != want {
		t.Errorf("C = %v: %s counts %v, want %v", clip, what, got, want)
	}
}

// countClaims are about the centred count of the gradients within the clip norm.
var countClaims = claims[site]{
	{"rows within C", testCountedRows},
	{"a norm next to C", func(t *testing.T, s site) {
		c := &Case{
			Program: linear("line", ir.Hinge, 2, 1, false), Params: []float32{0, 0},
			Rows: device.Rows{Count: 1, Width: 2, Targets: []float32{1}}, Features: []uint8{3, 4},
		}
		each(t, s.d, private(t, c.Program), func(t *testing.T, schedule named) {
			x := site{c, s.d, schedule.Schedule, 1}.counted(t)
			x.counts(t, "a row of a norm just within", c.All(), 5*(1+1e-6), 0.5)
			x.counts(t, "a row of a norm just beyond", c.All(), 5*(1-1e-6), -0.5)
		})
	}},
	{"each release has its own noise", testCountNoise},
	{"recordings that are refused", testCountRecordings},
	{"clippings without a count", func(t *testing.T, s site) {
		for _, schedule := range []named{plain(t, s.Program), clipped(t, s.Program, ir.PerLayer)[0], clipped(t, s.Program, ir.Automatic)[0]} {
			x := Open(t, s.d, schedule.Schedule, s.Case, s.capacity)
			count := x.scalarSum(t, 1)
			if _, err := x.Net.Record(func(q device.Queue) { q.CountedSum(x.Sum, count, x.Data) }); err == nil {
				t.Errorf("%s clipping has a count", schedule.Clipping)
			}
		}
	}},
	{"impossible standard deviations", func(t *testing.T, s site) {
		refuseStds(t, func(t *testing.T) (device.Step, device.Noise) { x := s.counted(t); return x.free, x.noise() })
	}},
	{"impossible clip norms", func(t *testing.T, s site) {
		refuseClips(t, func(t *testing.T) device.Step { return s.counted(t).add })
	}},
	{"a row beyond the table", func(t *testing.T, s site) {
		refuse(t, "it", s.counted(t).add.Run(clipAt(1, 6)))
	}},
}

func testCountedRows(t *testing.T, s site) {
	eachCase(t, s.d, programsIn(s.d), 9, 33, func(t *testing.T, c *Case) {
		grads := gradients(t, c)
		nan := c.with(77, float32(math.NaN()), float32(math.Inf(1)))
		each(t, s.d, private(t, c.Program), func(t *testing.T, n named) {
			x, plain := site{nan, s.d, n.Schedule, 4}.counted(t), Open(t, s.d, n.Schedule, c, 4)
			for _, clip := range clipNorms(t, c) {
				want := 0.0
				for row, g := range grads {
					share := 0.5
					if Norm(g) > clip.norm {
						share = -0.5
					}
					want += share
					x.counts(t, fmt.Sprintf("a row with the norm %v", Norm(g)), []int32{int32(row)}, clip.norm, share)
				}
				sum, count := x.of(t, c.All(), clip.norm)
				if count != want {
					t.Errorf("C = %v: the count is %v, want %v", clip.norm, count, want)
				}
				Same(t, sum, plain.Of(t, c.All(), clip.norm))
				// Rows that add nothing to the sum add nothing to the count.
				x.counts(t, "the batch with two rows that the loss does not accept", nan.All(), clip.norm, want)
			}
			x.counts(t, "a batch of no rows", nil, 1, 0)
			x.params(t, constant(x.size, float32(math.NaN())))
			x.counts(t, "a batch of rows that are not finite", c.All(), 1, 0)
		})
	})
}

func testCountNoise(t *testing.T, s site) {
	x := s.counted(t)
	sum, count := x.of(t, s.All(), 0.5)
	x.addBy(t, x.add, s.All(), 0.5)
	noisySum, noisyCount := x.release(t, 2, 16)
	addNoise(t, sum, x.Noise, x.draw, 2)
	Near(t, noisySum, sum, 1e-6)
	want := []float32{float32(count)}
	addNoise(t, want, x.noise(), x.draw, 16)
	Near(t, []float32{float32(noisyCount)}, want, 1e-6)
	if _, left := x.release(t, 0, 0); left != 0 {
		t.Errorf("a released count leaves %v behind", left)
	}
}

func testCountRecordings(t *testing.T, s site) {
	x := s.counted(t)
	two := x.scalarSum(t, 2)
	x.refuses(t, recordings{
		"a count of two values":      func(q device.Queue) { q.CountedSum(x.Sum, two, x.Data) },
		"a count into a gradient":    func(q device.Queue) { q.CountedSum(x.Sum, x.Sum, x.Data) },
		"a gradient into a count":    func(q device.Queue) { q.CountedSum(x.count, x.count, x.Data) },
		"a count of a foreign table": func(q device.Queue) { q.CountedSum(x.Sum, x.count, foreign{}) },
		"an unknown count":           func(q device.Queue) { q.CountedSum(x.Sum, 99, x.Data) },
		"a count without a mechanism": func(q device.Queue) {
			q.Release(x.out, x.count, device.Noise{}.WithSlots(device.CountStd, device.CountStep))
		},
		"one tensor for two deviations": func(q device.Queue) {
			q.Release(x.Out, x.Sum, x.Noise)
			q.Release(x.out, x.count, x.Noise.WithSlots(device.CountStd, device.CountStep))
		},
	})
}
