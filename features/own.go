package features

import (
	"crypto/sha256"
	"math"
	"slices"

	"github.com/privgrad/privgrad/internal/half"
	"github.com/privgrad/privgrad/internal/synthetic"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/internal/work"
)

// A Func is a map of a user's own. image has values of [0, 1], channel by channel; the
// function writes all of dst. It must be a pure function of
// image, must not write there, must start no goroutine, and is called from several.
//
// The privacy of a run rests on that: what one call leaves behind for the next would
// let one record see another. Own looks for such faults, but cannot prove that
// there are none.
type Func func(dst, image []float32)

const (
	ownSeed   = 21
	ownImages = 12 // half dead leaves, half pink noise
	maxOwn    = 1 << 20
)

// Own gives a front end of the function f, from images of shape in to values of shape out:
// channels, height, width. Its rows are what f writes, in half precision: give them a norm
// of about Scale.
//
// It is called on synthetic images, in two orders and on two goroutines, and is
// refused if its results differ, if it writes to an image, or if a result is not finite.
func Own(name string, in [3]int, out [3]int, f Func) (*Front, error) {
	for _, shape := range [][3]int{in, out} {
		if slices.Min(shape[:]) < 1 || slices.Max(shape[:]) > maxOwn || float64(shape[0])*float64(shape[1])*float64(shape[2]) > maxOwn {
			return nil, usage.Errorf("features %s: shapes have three sides of 1 or more and at most %d values, and one is %s", name, maxOwn, shapeText(shape))
		}
	}
	if f == nil {
		return nil, usage.Errorf("features %s need a function", name)
	}
	if name == "" || name == string(None) || slices.Contains(Kinds(), name) {
		return nil, usage.Errorf("features %q: a function needs a name of its own", name)
	}
	o := &Front{spec: Spec{Kind: name, Whiten: None, Shape: in}, own: f, out: out}
	if err := o.checkOwn(); err != nil {
		return nil, err
	}
	return o, nil
}

func (f *Front) checkOwn() error {
	images := probes(f.In())
	forth, err := f.probe(images, false, 1)
	if err != nil {
		return err
	}
	digest, blank := sha256.New(), true
	for i, row := range forth {
		halves := make([]uint16, len(row))
		if row == nil || !pack(halves, row) {
			return usage.Errorf("features %s of synthetic image %d are not finite; see that the function writes all of dst with values up to %d, and divides by nothing that may be zero", f.spec.Kind, i, half.Max)
		}
		for _, h := range halves {
			blank = blank && h&0x7fff == 0
			digest.Write([]byte{byte(h), byte(h >> 8)})
		}
	}
	if blank {
		return usage.Errorf("features %s of all synthetic images are zero in half precision; give rows a norm of about %d", f.spec.Kind, Scale)
	}
	f.probed = digest.Sum(nil)
	for _, again := range []struct {
		reverse bool
		threads int
	}{{true, 1}, {false, 2}} {
		other, err := f.probe(images, again.reverse, again.threads)
		if err != nil {
			return err
		}
		for i := range forth {
			if !slices.EqualFunc(forth[i], other[i], func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }) {
				return usage.Errorf("features %s of synthetic image %d differ from call to call; they must depend on that image alone, "+
					"or one record would see another: keep no state, and write all of dst", f.spec.Kind, i)
			}
		}
	}
	return nil
}

// probe calls the function on every image, with dst full of NaN.
func (f *Front) probe(images [][]float32, reverse bool, threads int) ([][]float32, error) {
	rows, wrote := make([][]float32, len(images)), make([]bool, len(images))
	err := work.Parallel(threads, len(images), func() func(int) {
		return func(i int) {
			if reverse {
				i = len(images) - 1 - i
			}
			row := make([]float32, f.Width())
			for k := range row {
				row[k] = float32(math.NaN())
			}
			image := slices.Clone(images[i])
			f.own(row, image)
			rows[i], wrote[i] = row, !slices.Equal(image, images[i])
		}
	})
	if err != nil {
		return nil, usage.Errorf("features %s: the function panics on a synthetic image: %w", f.spec.Kind, err)
	}
	if slices.Contains(wrote, true) {
		return nil, usage.Errorf("features %s: the function writes to its image; let it work on a copy", f.spec.Kind)
	}
	return rows, nil
}

// probes are images of a shape, for a function to be tried on. The last is blank.
func probes(shape [3]int) [][]float32 {
	sources := []synthetic.Source{synthetic.Leaves(shape)}
	if max(shape[1], shape[2]) <= maxSide { // pink noise takes long to draw where it is large
		sources = append(sources, synthetic.Pink(shape))
	}
	var images [][]float32
	for i := range ownImages {
		image := make([]float32, volume(shape))
		sources[i%len(sources)].Draw(image, ownSeed, uint64(i))
		images = append(images, image)
	}
	return append(images, make([]float32, volume(shape)))
}
