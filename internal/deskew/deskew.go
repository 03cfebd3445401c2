// Package deskew shears an image upright (LeCun, Bottou, Bengio and Haffner 1998, section III.A): every
// row of pixels moves sideways, in proportion to its height, until brightness has no
// covariance between height and place. Handwriting differs in its slant from one writer to
// the next; after deskewing it differs less. Bright pixels count, so that the ground must be dark.
package deskew

import (
	"math"

	"github.com/privgrad/privgrad/internal/ir"
)

// New gives a function for one goroutine that makes an image upright.
func New(shape [3]int) func(image []float32) {
	height, width := shape[1], shape[2]
	moved := make([]float32, width)
	return func(image []float32) {
		slant, middle := Slant(shape, image)
		for i := range shape[0] * height {
			line := image[i*width:][:width]
			by := float64(slant * (float64(i%height) - float64(height-1)/2 - middle)) // rounded, also where a processor could fuse this with the next line
			whole := math.Floor(by)
			share := float32(by - whole)
			from := int(whole)
			at := func(x int) float32 {
				if x < 0 || x >= width {
					return 0
				}
				return line[x]
			}
			for x := range moved {
				moved[x] = float32((1-share)*at(x+from)) + float32(share*at(x+from+1))
			}
			copy(line, moved)
		}
	}
}

// Slant is how far rows move for each pixel of height, and the height that stays, from the middle.
func Slant(shape [3]int, image []float32) (slant, middle float64) {
	height, width := shape[1], shape[2]
	var mass, first, across, square, product float64
	for i, v := range image {
		y, x := float64(i/width%height)-float64(height-1)/2, float64(i%width)-float64(width-1)/2
		b := float64(v)
		mass += b
		first += float64(b * y)
		across += float64(b * x)
		square += float64(float64(b*y) * y)
		product += float64(float64(b*y) * x)
	}
	mass = max(mass, ir.DeskewLeast)
	middle = first / mass
	slant = (product - float64(middle*across)) / (square - float64(middle*first) + float64(ir.DeskewFloor*mass))
	return slant, middle
}
