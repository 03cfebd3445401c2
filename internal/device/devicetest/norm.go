package devicetest

import (
	"math"
	"testing"

	"github.com/privgrad/privgrad/internal/device"
)

// normed is a fixture whose sums have their norm released.
type normed struct {
	*Fixture
	norm       device.Sum
	out        device.Vector
	take, free device.Step
}

func (x *normed) noise() device.Noise {
	return device.NewNoise(x.Noise.Stream(), x.Noise.Tensor()+1).WithSlots(device.NormStd, device.NormStep)
}

func (s site) normed(t testing.TB) *normed {
	x := &normed{Fixture: s.open(t)}
	x.norm, x.out = x.scalarSum(t, 1), x.scalars(t, 1)
	x.take = x.record(t, func(q device.Queue) { q.Norm(x.norm, x.Sum) })
	x.free = x.record(t, func(q device.Queue) { q.Release(x.out, x.norm, x.noise()) })
	return x
}

// release reads the norm's sum out with noise of a standard deviation, and ends it.
func (x *normed) release(t testing.TB, std float64) float32 {
	t.Helper()
	in := x.next()
	setNoise(in, x.Noise, 1e6) // of the sum, not of this
	setNoise(in, x.noise(), std)
	must(t, x.free.Run(in))
	return x.values(t, x.out, 1)[0]
}

// normClaims are about the norm of a sum, which is released beside it.
var normClaims = claims[site]{
	{"of a batch", testBatchNorms},
	{"norms add up", testNormsAddUp},
	{"noise of its own", testNormNoise},
	{"one step", testNormInStep},
	{"recordings that are refused", func(t *testing.T, s site) {
		x := s.normed(t)
		two, list := x.scalarSum(t, 2), recordings{}
		for what, sums := range map[string][2]device.Sum{
			"into a sum of two": {two, x.Sum}, "into a sum of gradients": {x.Sum, x.Sum}, "of a scalar": {x.norm, x.norm}, "of two scalars": {x.norm, two},
			"into no sum": {-1, x.Sum}, "into an unknown sum": {99, x.Sum}, "of no sum": {x.norm, -1}, "of an unknown sum": {x.norm, 99},
		} {
			list[what] = func(q device.Queue) { q.Norm(sums[0], sums[1]) }
		}
		x.refuses(t, list)
	}},
	{"an exact net", func(t *testing.T, s site) {
		x := openExact(t, s.d, whole(t, s.Program)[0].Schedule, s.Case, 1)
		norm := x.scalarSum(t, 1)
		x.refuses(t, recordings{"the norm of a sum": func(q device.Queue) { q.Norm(norm, x.Sum) }})
	}},
}

func testBatchNorms(t *testing.T, s site) {
	for _, c := range some(s.d, []*Case{NewCase(t, program("thrice"), 9, 63), NewCase(t, program("conv-deep"), 9, 64), NewCase(t, program("dense-wide"), 9, 65)}) {
		t.Run(c.Program.Name, func(t *testing.T) {
			s := c.on(t, s.d, 4)
			x := s.normed(t)
			// A batch beyond the capacity first, then none, then one row.
			for _, rows := range [][]int32{c.All(), nil, {3}} {
				want := s.open(t).Of(t, rows, 0.7)
				x.Add(t, rows, 0.7)
				must(t, x.take.Run(&device.Inputs{}))
				got, norm := float64(x.release(t, 0)), Norm(want)
				// 2⁻²³ is the contract's; what leaves, and what a sum in float64 is compared with, is rounded as well.
				if !(math.Abs(got-norm) <= 0x1p-22*norm) {
					t.Errorf("the norm of %d rows is %v, want %v", len(rows), got, norm)
				}
				Same(t, x.Release(t, 0), want) // the sum is what it was
			}
		})
	}
}

func testNormsAddUp(t *testing.T, s site) {
	x := s.normed(t)
	x.Add(t, s.All(), 0.7)
	must(t, x.take.Run(&device.Inputs{}))
	one := x.release(t, 0)
	must(t, x.take.Run(&device.Inputs{}))
	must(t, x.take.Run(&device.Inputs{}))
	if two := x.release(t, 0); !(math.Abs(float64(two)-2*float64(one)) <= 1e-6*float64(two)) || one == 0 {
		t.Errorf("a norm of %v twice is %v", one, two)
	}
	if none := x.release(t, 0); none != 0 {
		t.Errorf("after its release the norm's sum holds %v", none)
	}
}

func testNormNoise(t *testing.T, s site) {
	x := s.normed(t)
	x.Add(t, s.All(), 0.7)
	must(t, x.take.Run(&device.Inputs{}))
	one := x.release(t, 0)
	must(t, x.take.Run(&device.Inputs{}))
	got := x.release(t, 3)
	want := []float32{one}
	addNoise(t, want, x.noise(), x.draw, 3)
	if !(math.Abs(float64(got-want[0])) <= 1e-5) { // noise of up to 9 deviations is off by 4e-7 of itself
		t.Errorf("the norm was released as %v, want %v", got, want[0])
	}
	if math.Abs(float64(got-one)) < 1e-3 {
		t.Errorf("noise of deviation 3 moved the norm from %v to %v", one, got)
	}
}

// testNormInStep has all of it in one step, as a run records it.
func testNormInStep(t *testing.T, s site) {
	x := s.normed(t)
	both := x.record(t, func(q device.Queue) {
		q.Norm(x.norm, x.Sum)
		q.Release(x.Out, x.Sum, x.Noise)
		q.Release(x.out, x.norm, x.noise())
	})
	x.Add(t, s.All(), 0.7)
	must(t, both.Run(&device.Inputs{Draw: 1}))
	n, norm := Norm(x.read(t, x.Out)), float64(x.values(t, x.out, 1)[0])
	if n == 0 || !(math.Abs(n-norm) <= (0x1p-22+0x1p-23)*n) {
		t.Errorf("the norm is %v, that of what was released %v", norm, n)
	}
}
