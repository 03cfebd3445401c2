package sums

import (
	"fmt"
	"math"
	"sync"
	"testing"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/dpoptim/mechanism"
	"github.com/privgrad/privgrad/internal/collective/local"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/devicetest"
	"github.com/privgrad/privgrad/internal/device/reference"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/stream"
	"github.com/privgrad/privgrad/perexample"
)

const (
	bound     = 1 + 0x1p-10
	coarse    = 0x1p-23 // the grid of noise for that bound
	almostNil = 0x1p-40 // a noise multiplier whose noise rounds to 0
)

// A shift is what a record in front of all others does to a released total of ranks, when the cuts between ranks follow the
// number of records. All coordinates of a record are equal.
type shift struct {
	open   func() (device.Device, error)
	ranks  int
	values int
	unit   float64 // of the coordinates of the records that are there before
	beyond string  // what moves by more than noise would cover that counts one part alone
}

// records are two a rank: the coordinates of the first and the second, of the third and the fourth … add up to a little less than
// half a unit, those of the second and the third, of the fourth and the fifth … to a little more. With the record in
// front these come together.
func (s *shift) records(more bool) (all []float64) {
	e := 0x1p-6 / float64(s.ranks)
	if more {
		all = append(all, math.Floor(bound*(1-0x1p-18)/math.Sqrt(float64(s.values))/coarse)*coarse)
	}
	for i := range s.ranks {
		v := 51.0/256 + 2*e*float64(i)
		all = append(all, v*s.unit, (0.5-e-v)*s.unit)
	}
	return all
}

// released is what leaves a rank, and what the noise covers for so many parts as a net says, and for one.
type released struct {
	sum           []float32
	norm          float32
	covers, alone [2]float64 // of the sum and of the norm
}

// rank makes one step on the records that a rank has of all.
func (s *shift) rank(d device.Device, coordinates []float64, most int) (out released, err error) {
	catch := func(e error) {
		if err == nil {
			err = e
		}
	}
	b := devicetest.NewBuilder("linear", ir.Huber, s.values)
	b.Dense(ir.Input, 1, false)
	schedule, err := perexample.Private(b.Program(), perexample.Options{Strategy: perexample.Ghost, Clipping: ir.Flat, Batch: float64(most)})
	if err != nil {
		return out, err
	}
	n, err := d.Compile(schedule, device.Options{Capacity: 8})
	if err != nil {
		return out, err
	}
	defer n.Close()
	in := &device.Inputs{Draw: 1}
	features, targets := make(device.Floats, 0, len(coordinates)*s.values), make([]float32, len(coordinates))
	for i, x := range coordinates {
		in.Rows, targets[i] = append(in.Rows, int32(i)), -1 // the loss has a slope of 1: the gradient is the row
		for range s.values {
			features = append(features, float32(x))
		}
	}
	data, e := d.Load(device.Rows{Count: len(coordinates), Width: s.values, Targets: targets}, features)
	catch(e)
	noise, e := stream.New(stream.ChaCha20, stream.KeyFromSeed(1, "moves"))
	catch(e)
	mechanisms := func(parts int, covers *[2]float64) (*mechanism.Gaussian, *mechanism.Scalar) {
		g, e := mechanism.NewGaussian(almostNil, bound, n.Rounding(most), s.values, parts, noise, 0)
		catch(e)
		norm, e := mechanism.NewNorm(almostNil, bound, n.Rounding(most), most, s.values, parts, noise, 1)
		catch(e)
		g.Set(in)
		norm.Set(in)
		*covers = [2]float64{float64(in.Scalars[device.NoiseStd]) / almostNil, float64(in.Scalars[device.NormStd]) / almostNil}
		return g, norm
	}
	mechanisms(1, &out.alone)
	g, norm := mechanisms(n.Parts(), &out.covers)
	if in.Scalars[device.NoiseStep] != coarse || in.Scalars[device.NormStep] != coarse {
		catch(fmt.Errorf("the noise is on grids of steps %v and %v", in.Scalars[device.NoiseStep], in.Scalars[device.NormStep]))
	}
	sum, e := n.NewSum()
	catch(e)
	v, e := n.NewVector(1)
	catch(e)
	length, e := n.NewScalarSum(1)
	catch(e)
	w, e := n.NewScalars(1)
	catch(e)
	if err != nil {
		return out, err
	}
	add, e := n.Record(func(q device.Queue) { q.ClippedSum(sum, data) })
	catch(e)
	release, e := n.Record(func(q device.Queue) {
		q.Norm(length, sum)
		norm.Release(q, w, length)
		g.Release(q, v, sum)
	})
	if catch(e); err != nil {
		return out, err
	}
	catch(add.Run(in))
	in.Rows = nil
	catch(release.Run(in))
	_, e = release.Wait()
	catch(e)
	out.sum = make([]float32, s.values)
	catch(n.Read(v, out.sum))
	one := make([]float32, 1)
	catch(n.Read(w, one))
	out.norm = one[0]
	return out, err
}

// total is what rank 0 releases.
func (s *shift) total(t *testing.T, more bool) released {
	t.Helper()
	all, most := s.records(more), 2*s.ranks+1
	out, errs := make([]released, s.ranks), make([]error, s.ranks)
	var w sync.WaitGroup
	for r, g := range local.New(s.ranks, local.Options{}) {
		w.Go(func() {
			d, err := s.open()
			if err == nil {
				defer d.Close()
				first, end := datasets.Rank{Rank: r, Of: s.ranks}.Range(len(all)) // as datasets.Set.Take
				out[r], err = s.rank(Wrap(d, g), all[first:end], most)
			}
			if errs[r] = err; err != nil {
				g.Abort(err)
			}
		})
	}
	w.Wait()
	for r, err := range errs {
		if err != nil {
			t.Fatalf("rank %d: %v", r, err)
		}
	}
	return out[0]
}

// A record in front of all others moves one record of every rank to the next. Noise covers what that does to the rounding of each
// rank's part, of sums and of norms.
func TestNoiseCoversRecordsThatMoveBetweenRanks(t *testing.T) {
	cpu, exactly := host, func() (device.Device, error) { return reference.Open(), nil }
	for _, s := range []shift{
		{exactly, 1, 1 << 12, coarse, ""}, {exactly, 2, 1 << 12, coarse, ""}, {exactly, 16, 1 << 12, coarse, "sum"}, {exactly, 64, 1 << 10, coarse, "sum"},
		{exactly, 16, 1 << 12, coarse / 4, "norm"}, {exactly, 64, 1 << 12, coarse / 4, "norm"},
		{cpu, 1, 1 << 16, coarse, ""}, {cpu, 8, 1 << 16, coarse, "sum"}, {cpu, 8, 1 << 16, coarse / 4, ""},
		{gpu, 4, 1 << 8, coarse, ""}, {gpu, 4, 1 << 8, coarse / 4, ""},
	} {
		before, after := s.total(t, false), s.total(t, true)
		squares := 0.0
		for i, x := range after.sum {
			x := float64(x) - float64(before.sum[i])
			squares += x * x
		}
		moved := [2]float64{math.Sqrt(squares), math.Abs(float64(after.norm) - float64(before.norm))}
		for i, what := range []string{"sum", "norm"} {
			if s.beyond == what && moved[i] <= after.alone[i] {
				t.Errorf("%d ranks, %d values, records of %v: the %s moves by %.9f alone: the example shows nothing", s.ranks, s.values, s.unit, what, moved[i])
			}
			if !(moved[i] <= after.covers[i]) {
				t.Errorf("%d ranks, %d values, records of %v: the %s moves by %.9f, and noise covers %.9f", s.ranks, s.values, s.unit, what, moved[i], after.covers[i])
			}
		}
	}
}
