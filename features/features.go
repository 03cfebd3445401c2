// Package features turns images into fixed features that cost no privacy. A network or a linear
// model is then trained on them with privacy.
//
//	front, err := features.New(features.Spec{Kind: "scatter", Whiten: features.Leaves, Mirror: true, Shape: [3]int{1, 28, 28}}, nil)
//	rows := front.Rows(features.Images{Bytes: images}, 2, nil)
//
// A row depends on its image and on constants from a seed, and on no training data. See
// docs/guides/features.md.
package features

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/privgrad/privgrad/internal/fixed"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/usage"
)

// Whitening names what the covariance of a block's channels comes from.
type Whitening string

// The whitenings. Any but None subtracts the channels' means, too.
const (
	None   Whitening = "none"
	Leaves Whitening = "leaves" // dead leaves
	Pink   Whitening = "pink"   // pink noise
)

// Whitenings lists them.
func Whitenings() []string { return []string{string(None), string(Leaves), string(Pink)} }

// Scale is the norm of a row. The linear layer behind it has a bias, whose input is 1:
// the bias then has 1/63 of the weight that a row has in a clipped gradient.
const Scale = 63

// Spec names a front end.
type Spec struct {
	Kind   string    // "scatter", "patches", "pairs", "encoder", or some of them joined by +; see Kinds
	Whiten Whitening // what the channels' covariance comes from
	Mirror bool      // average each image's features with those of its mirror image
	Deskew bool      // shear each image upright first; constants do not depend on it
	Shape  [3]int    // channels, height, width of an image
}

// The largest images. Constants and memory grow with the square of their size.
const (
	maxChannels = 8
	maxSide     = 96
)

// A kind is one way to make features: one file, and a line in kinds.
type kind struct {
	name   string
	weight float64 // of its part of a row's squared norm, beside other kinds
	damp   float64 // what is added to the covariance, in units of its mean diagonal
	// halves reports which constants are rounded to half precision, as there is much of them; nil: none.
	halves func(constant string) bool
	// check says in words what shape it needs, or nothing if that is met.
	check func(shape [3]int) string
	depth func(shape [3]int) int // number of channels
	// shapes lists the constants that it needs, beside those of whitening.
	shapes func(shape [3]int) map[string][]int
	// fit makes these constants, and says how far it is.
	fit func(shape [3]int, progress func(share float64)) (map[string][]float32, error)
	// fitTime is about how long that takes on this machine; nil: no time.
	fitTime func(shape [3]int) time.Duration
	// open gives the map that the constants make.
	open func(shape [3]int, mirror bool, constants map[string][]float32) layer
	// program is what open gives, as ops: from images to channels on a grid, of which only the columns are left that are kept.
	program func(b *fixed.Builder, shape [3]int, mirror bool, constants map[string][]float32, image ir.Value) ir.Value
}

// half reports whether a constant is kept in half precision.
func (k kind) half(constant string) bool { return k.halves != nil && k.halves(constant) }

var kinds = []kind{scatterKind, patchesKind, pairsKind, encoderKind}

// A layer maps images to channels on a grid.
type layer struct {
	channels, rows, cols int
	// keep is the number of columns that are kept, from the left; the others are the
	// same numbers in another order, where an image is averaged with its mirror image.
	keep int
	// worker gives a function for one goroutine. It writes an image's channels, all of
	// a position together, position by position.
	worker func() func(dst, image []float32)
}

// Names lists the kinds.
func Names() (all []string) {
	for _, k := range kinds {
		all = append(all, k.name)
	}
	return all
}

// Kinds lists what Spec.Kind may be: Names, and some of them joined by + in their order.
func Kinds() (all []string) {
	single := Names()
	for n := 1; n < 1<<len(single); n++ {
		var names []string
		for i, name := range single {
			if n>>i&1 == 1 {
				names = append(names, name)
			}
		}
		all = append(all, strings.Join(names, "+"))
	}
	slices.SortStableFunc(all, func(a, b string) int { return strings.Count(a, "+") - strings.Count(b, "+") })
	return all
}

// Taking leaves out of joined kinds what takes no images of a shape, as long as one is left.
func Taking(kind string, shape [3]int) string {
	var left []string
	for _, k := range (Spec{Kind: kind}).kinds() {
		if k.check(shape) == "" {
			left = append(left, k.name)
		}
	}
	if len(left) == 0 {
		return kind
	}
	return strings.Join(left, "+")
}

// kinds are those that the spec joins, in the order of the registry.
func (s Spec) kinds() []kind {
	var list []kind
	for _, k := range kinds {
		if slices.Contains(strings.Split(s.Kind, "+"), k.name) {
			list = append(list, k)
		}
	}
	return list
}

// Check says what is wrong with a spec, and what to do.
func (s Spec) Check() error {
	if !slices.Contains(Kinds(), s.Kind) {
		return usage.Errorf("there are no features %q; use one of %s", s.Kind, strings.Join(Kinds(), ", "))
	}
	if !slices.Contains(Whitenings(), string(s.Whiten)) {
		return usage.Errorf("there is no whitening %q; use one of %s", s.Whiten, strings.Join(Whitenings(), ", "))
	}
	shape := shapeText(s.Shape)
	if s.Shape[0] < 1 || s.Shape[0] > maxChannels || s.Shape[1] < 1 || s.Shape[1] > maxSide || s.Shape[2] < 1 || s.Shape[2] > maxSide {
		return usage.Errorf("features %s are for images of at most %d channels and %d×%d pixels, and these are %s; use smaller images", s.Kind, maxChannels, maxSide, maxSide, shape)
	}
	for _, k := range s.kinds() {
		if needs := k.check(s.Shape); needs != "" {
			return usage.Errorf("features %s need images %s, and these are %s; use other features or other images", k.name, needs, shape)
		}
	}
	return nil
}

// name is that of a file of constants.
func (s Spec) name() string {
	parts := []string{s.Kind, shapeText(s.Shape), string(s.Whiten)}
	if s.Mirror {
		parts = append(parts, "mirror")
	}
	if s.Deskew {
		parts = append(parts, "deskew")
	}
	return strings.Join(parts, "-")
}

func shapeText(shape [3]int) string { return fmt.Sprintf("%dx%dx%d", shape[0], shape[1], shape[2]) }

func volume(shape [3]int) int { return shape[0] * shape[1] * shape[2] }
