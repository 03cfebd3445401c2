package reference

import (
	"math"

	"github.com/privgrad/privgrad/internal/ir"
)

var standardize = function{
	of: func(op *ir.Op, w []float64, given [][]float64) []float64 {
		made := make([]float64, 0, len(w))
		for o, gain := range given[0] {
			unit, _, _ := standard(channel(w, o, len(given[0])))
			for _, u := range unit {
				made = append(made, gain*u)
			}
		}
		return made
	},
	back: func(op *ir.Op, w []float64, given [][]float64, g []float64) ([]float64, [][]float64) {
		dw, gains := make([]float64, 0, len(w)), make([]float64, len(given[0]))
		for o, gain := range given[0] {
			unit, scale, floored := standard(channel(w, o, len(gains)))
			g := channel(g, o, len(gains))
			mean, slope := 0.0, 0.0
			for i, d := range g {
				mean += d / float64(len(g))
				slope += d * unit[i]
			}
			gains[o] = slope
			if floored {
				slope = 0
			}
			for i, d := range g {
				dw = append(dw, gain*scale*(d-mean-unit[i]*slope))
			}
		}
		return dw, [][]float64{gains}
	},
}

// channel is output channel o's stretch of weights, of so many.
func channel(w []float64, o, channels int) []float64 {
	return w[o*len(w)/channels : (o+1)*len(w)/channels]
}

// standard is (w − μ)·scale with the scale 1/√max(fan-in·variance, floor), and whether the floor was not exceeded.
func standard(w []float64) (unit []float64, scale float64, floored bool) {
	mean, squares := 0.0, 0.0
	for _, v := range w {
		mean += v / float64(len(w))
	}
	for _, v := range w {
		squares += (v - mean) * (v - mean)
	}
	scale = 1 / math.Sqrt(max(squares, ir.StandardFloor))
	for _, v := range w {
		unit = append(unit, (v-mean)*scale)
	}
	return unit, scale, squares <= ir.StandardFloor
}
