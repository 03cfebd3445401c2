package synthetic

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"slices"
	"testing"
)

var sources = []struct {
	name  string
	make  func([3]int) Source
	shape [3]int
	sum   string // of images 0 to 19 of seed 3, in little-endian order
}{
	{"leaves", Leaves, [3]int{1, 28, 28}, "e886440297c946e2"},
	{"leaves", Leaves, [3]int{3, 12, 20}, "43d14ee2206f21d3"},
	{"pink", Pink, [3]int{1, 28, 28}, "77a0519805735728"},
	{"pink", Pink, [3]int{3, 12, 20}, "da662176494ca39f"},
}

func draw(s Source, shape [3]int, seed, i uint64) []float32 {
	image := make([]float32, shape[0]*shape[1]*shape[2])
	s.Draw(image, seed, i)
	return image
}

// Dictionaries and whitening come from these bits, on every machine. GOAMD64=v3 go test checks that
// also a compiler which may fuse multiplications and additions does not.
func TestDigests(t *testing.T) {
	for _, c := range sources {
		s, h := c.make(c.shape), sha256.New()
		for i := range uint64(20) {
			for _, v := range draw(s, c.shape, 3, i) {
				h.Write(binary.LittleEndian.AppendUint32(nil, math.Float32bits(v)))
			}
		}
		if got := hex.EncodeToString(h.Sum(nil)[:8]); got != c.sum {
			t.Errorf("%s of %v have digest %s, want %s", c.name, c.shape, got, c.sum)
		}
	}
}

func TestAnImageDependsOnItsNumberAlone(t *testing.T) {
	for _, c := range sources {
		s := c.make(c.shape)
		first := draw(s, c.shape, 3, 0)
		other := draw(s, c.shape, 3, 1)
		if !slices.Equal(first, draw(s, c.shape, 3, 0)) || !slices.Equal(other, draw(c.make(c.shape), c.shape, 3, 1)) {
			t.Errorf("%s of %v depend on what was drawn before", c.name, c.shape)
		}
		if slices.Equal(first, other) || slices.Equal(first, draw(s, c.shape, 4, 0)) {
			t.Errorf("%s of %v repeat", c.name, c.shape)
		}
	}
}

// Values are of [0, 1] and use it, and neighbors resemble each other, as in photographs: their mean
// squared difference is far below twice the variance, which it is for noise without structure.
func TestImagesResembleNaturalOnes(t *testing.T) {
	for _, c := range sources {
		s := c.make(c.shape)
		var mean, square, steps, n, pairs float64
		for i := range uint64(200) {
			image := draw(s, c.shape, 5, i)
			for k, v := range image {
				if !(v >= 0 && v <= 1) {
					t.Fatalf("%s have a value %g", c.name, v)
				}
				mean += float64(v)
				square += float64(v) * float64(v)
				n++
				if k%c.shape[2] > 0 {
					d := float64(v - image[k-1])
					steps += d * d
					pairs++
				}
			}
		}
		mean /= n
		variance := square/n - mean*mean
		if math.Abs(mean-.5) > .1 || variance < .02 || steps/pairs > variance {
			t.Errorf("%s of %v: mean %.3f, variance %.3f, squared steps %.3f", c.name, c.shape, mean, variance, steps/pairs)
		}
	}
}

// The argument of the other functions is rounded: to 9e-16, at most, of nearly 2π.
func TestTurns(t *testing.T) {
	for n := 1; n < 130; n++ {
		cos, sin := turns(n)
		for k := range n {
			s, c := math.Sincos(2 * math.Pi * float64(k) / float64(n))
			if math.Abs(cos[k]-c) > 3e-15 || math.Abs(sin[k]-s) > 3e-15 {
				t.Fatalf("turn %d of %d: %g and %g, want %g and %g", k, n, cos[k], sin[k], c, s)
			}
		}
	}
}
