package features

import (
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/privgrad/privgrad/internal/half"
	"github.com/privgrad/privgrad/internal/synthetic"
	"github.com/privgrad/privgrad/internal/whiten"
	"github.com/privgrad/privgrad/internal/work"
)

// An origin says where a front end's constants come from.
type origin int

const (
	given  origin = iota // of a file, or a user's function in their place
	fitted               // made by this program, of synthetic images
	madeUp               // random numbers
)

// Rehearse gives a front end whose rows take as long as those of New's and are as wide. Constants that do not come with the
// package are random numbers, which are there at once: its rows mean nothing, and it has no digest.
func Rehearse(spec Spec) (*Front, error) {
	if err := spec.Check(); err != nil {
		return nil, err
	}
	if f, err := committed(spec); f != nil || err != nil {
		return f, err
	}
	random := rand.New(rand.NewPCG(1, 2))
	constants := map[string]map[string][]float32{}
	for _, k := range spec.kinds() {
		constants[k.name] = map[string][]float32{}
		for name, shape := range spec.shapes(k) {
			constants[k.name][name] = randoms(random, shape)
		}
	}
	f := assemble(spec, constants)
	f.origin = madeUp
	return f, nil
}

// randoms are halves of [0, 1), so that they can stand for every constant.
func randoms(random *rand.Rand, shape []int) []float32 {
	size := 1
	for _, n := range shape {
		size *= n
	}
	values := make([]float32, size)
	for i := range values {
		values[i] = half.ToFloat32(half.FromFloat32(random.Float32()))
	}
	return values
}

// FitTime is about how long Fit takes on this machine to make constants that Rehearse made up; 0 where it made up none. It does
// a small part of each kind of work.
func (f *Front) FitTime() time.Duration {
	if f.origin != madeUp {
		return 0
	}
	var all time.Duration
	for _, b := range f.blocks {
		if b.fitTime != nil {
			all += b.fitTime(f.spec.Shape)
		}
		if f.spec.Whiten != None {
			all += momentsTime(b.layer, f.spec.Whiten, f.spec.Shape, whitenImages) + factorTime(b.channels)
		}
	}
	return all
}

// momentsTime is about how long covarianceOf takes.
func momentsTime(l layer, from Whitening, shape [3]int, images int) time.Duration {
	const few = 32 // images for each goroutine
	threads := runtime.GOMAXPROCS(0)
	about := make([]float32, l.channels)
	together := stopwatch(func() {
		_ = work.Parallel(threads, threads, func() func(int) {
			source, maps := from.source(shape), l.worker()
			return func(i int) { l.moments(about, source, maps, volume(shape), i*few, (i+1)*few) }
		})
	})
	shards := (whitenShards + threads - 1) / threads // of the goroutine that has most
	return together / few * time.Duration(whitenFirst+shards*images/whitenShards)
}

// factorTime is about how long the root of a covariance takes.
func factorTime(channels int) time.Duration {
	n := min(channels, 512)
	identity := make([]float64, n*n)
	for i := range n {
		identity[i*n+i] = 1
	}
	ratio := float64(channels) / float64(n)
	return scaled(stopwatch(func() { whiten.InverseFactor(identity, n) }), ratio*ratio*ratio)
}

func stopwatch(work func()) time.Duration {
	start := time.Now()
	work()
	return time.Since(start)
}

func scaled(d time.Duration, by float64) time.Duration { return time.Duration(float64(d) * by) }

// source draws the synthetic images of a whitening.
func (w Whitening) source(shape [3]int) synthetic.Source {
	if w == Pink {
		return synthetic.Pink(shape)
	}
	return synthetic.Leaves(shape)
}
