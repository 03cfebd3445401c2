package reference

import (
	"math"

	"github.com/privgrad/privgrad/internal/ir"
)

var deskew = operation{forward: func(c *call) {
	height, width := c.op.Shape[1], c.op.Shape[2]
	var mass, up, across, square, product float64
	for i, b := range c.x[0] {
		y, x := float64(i/width%height)-float64(height-1)/2, float64(i%width)-float64(width-1)/2
		mass, up, across = mass+b, up+b*y, across+b*x
		square, product = square+b*y*y, product+b*y*x
	}
	mass = max(mass, ir.DeskewLeast)
	middle := up / mass
	slant := (product - middle*across) / (square - middle*up + ir.DeskewFloor*mass)
	for i := range c.y {
		line, at := c.x[0][i/width*width:][:width], float64(i%width)+slant*(float64(i/width%height)-float64(height-1)/2-middle)
		for x, v := range line {
			c.y[i] += v * max(1-math.Abs(at-float64(x)), 0)
		}
	}
}}
