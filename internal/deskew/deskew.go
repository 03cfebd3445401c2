// Package deskew shears an image upright (LeCun, Bottou, Bengio and Haffner 1998, section III.A): every
// row of pixels moves sideways, in proportion to its height, until brightness has no
// covariance between height and place. Handwriting differs in its slant from one writer to
// the next; after deskewing it differs less. Bright pixels count, so that the ground must be dark.
package deskew

import (
	"math"

	"github.com/privgrad/privgrad/internal/onnx"
)

const (
	floor = .1   // added to the variance of heights, in pixels²: one row of pixels has no slant
	least = 1e-6 // brightness of a blank image, which stays as it is
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
	mass = max(mass, least)
	middle = first / mass
	slant = (product - float64(middle*across)) / (square - float64(middle*first) + float64(floor*mass))
	return slant, middle
}

// Graph is New, as a graph.
func Graph(g *onnx.Graph, shape [3]int, image onnx.Value) onnx.Value {
	colors, height, width := shape[0], shape[1], shape[2]
	plane := height * width
	sums := make([]float32, colors*plane*5)                             // from pixels to the sums of Slant
	places, heights := make([]float32, 2*plane), make([]float32, plane) // of GridSample: from −1 to 1, across and down
	for i := range colors * plane {
		y, x := float64(i/width%height)-float64(height-1)/2, float64(i%width)-float64(width-1)/2
		for k, v := range []float64{1, y, x, y * y, y * x} {
			sums[5*i+k] = float32(v)
		}
		if i < plane {
			places[2*i], places[2*i+1] = float32(2*x/float64(width-1)), float32(2*y/float64(height-1))
			heights[i] = float32(y)
		}
	}
	op := func(kind string, inputs ...onnx.Value) onnx.Value { return g.Op(kind, inputs) }
	all := op("MatMul", g.Reshape(image, colors*plane), g.Floats("", []int{colors * plane, 5}, sums))
	sum := func(k int) onnx.Value { return g.Reshape(g.Gather(all, 1, k), 1, 1, 1) }
	mass := op("Max", sum(0), g.Scalar(least))
	middle := op("Div", sum(1), mass)
	covariance := op("Sub", sum(4), op("Mul", middle, sum(2)))
	variance := op("Add", op("Sub", sum(3), op("Mul", middle, sum(1))), op("Mul", mass, g.Scalar(floor)))
	by := op("Mul", op("Div", covariance, variance), op("Sub", g.Floats("", []int{height, width, 1}, heights), middle))
	grid := op("Add", g.Floats("", []int{height, width, 2}, places), op("Mul", by, g.Floats("", []int{2}, []float32{2 / float32(width-1), 0})))
	return g.Op("GridSample", []onnx.Value{image, grid}, onnx.Int("align_corners", 1))
}
