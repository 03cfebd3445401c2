package reference

import (
	"math"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ir"
)

// activation computes an output from its input, and passes its gradient d back by the output y.
type activation struct {
	forward func(x float64) float64
	back    func(d, y float64) float64
}

var activations = map[ir.Kind]activation{
	ir.ReLU: {
		func(x float64) float64 {
			if x <= 0 {
				return 0
			}
			return x
		},
		func(d, y float64) float64 {
			if y > 0 {
				return d
			}
			return 0
		},
	},
	ir.Tanh: {
		math.Tanh,
		func(d, y float64) float64 { return d * (1 - y*y) },
	},
	ir.Sigmoid: {
		func(x float64) float64 { return 1 / (1 + math.Exp(-x)) },
		func(d, y float64) float64 { return d * y * (1 - y) },
	},
}

// activationOf is an op's row of activations; that of a leaky ReLU has its slope.
func activationOf(op *ir.Op) activation {
	if op.Kind != ir.LeakyReLU {
		return activations[op.Kind]
	}
	slope := float64(op.Slope)
	return activation{
		func(x float64) float64 {
			if x <= 0 {
				return slope * x
			}
			return x
		},
		func(d, y float64) float64 {
			if y > 0 {
				return d
			}
			return slope * d
		},
	}
}

// forward writes an op's output.
func forward(p device.Precision, op *ir.Op, values [][]float64, y, w, bias []float64) {
	x, w := factors(p, op, values[op.In[0]], w)
	clear(y)
	if op.Kind == ir.GroupNorm {
		groupNorm(op, x, y, w, bias)
		return
	}
	if bias != nil {
		for o := range y {
			y[o] = bias[o*len(bias)/len(y)]
		}
	}
	switch op.Kind {
	case ir.Conv:
		convolve(op, y, x, w)
	case ir.Dense:
		for o := range y {
			for i, v := range x {
				y[o] += w[o*len(x)+i] * v
			}
		}
	case ir.MaxPool:
		for o := range y {
			y[o] = x[argmax(op, x, o)]
		}
	case ir.AvgPool:
		area := float64(op.Window.H * op.Window.W)
		for o := range y {
			window(op, o, func(i int) { y[o] += x[i] / area })
		}
	case ir.Add:
		for i, v := range values[op.In[1]] {
			y[i] = x[i] + v
		}
	default:
		f := activationOf(op).forward
		for i, v := range x {
			y[i] = f(v)
		}
	}
}

// inputGrad adds an op's share to the gradient at its inputs.
func inputGrad(p device.Precision, op *ir.Op, e *example, y, dy, w []float64) {
	w, dy = factors(p, op, w, dy)
	x, dx := e.values[op.In[0]], e.deltas[op.In[0]]
	switch op.Kind {
	case ir.Conv:
		taps(op, func(o, i, k int) { dx[i] += w[k] * dy[o] })
	case ir.Dense:
		for o, d := range dy {
			for i := range dx {
				dx[i] += w[o*len(dx)+i] * d
			}
		}
	case ir.MaxPool:
		for o, d := range dy {
			dx[argmax(op, x, o)] += d
		}
	case ir.AvgPool:
		area := float64(op.Window.H * op.Window.W)
		for o, d := range dy {
			window(op, o, func(i int) { dx[i] += d / area })
		}
	case ir.Add:
		for _, v := range op.In {
			for i, d := range dy {
				e.deltas[v][i] += d
			}
		}
	case ir.GroupNorm:
		groupNormGrad(op, x, dy, dx, w)
	default:
		back := activationOf(op).back
		for i, d := range dy {
			dx[i] += back(d, y[i])
		}
	}
}

// paramGrad is one example's gradient of an op's weight, then of its bias.
func paramGrad(p *ir.Program, op *ir.Op, x, dy []float64) []float64 {
	nw := p.Params[op.Weight].Size()
	g := make([]float64, nw, nw+op.Out[0])
	switch op.Kind {
	case ir.Conv:
		taps(op, func(o, i, k int) { g[k] += dy[o] * x[i] })
	case ir.GroupNorm:
		normalized, _ := normalize(op, x)
		for i, d := range dy {
			g[i*nw/len(dy)] += d * normalized[i]
		}
	default:
		for o, d := range dy {
			for i, v := range x {
				g[o*len(x)+i] = d * v
			}
		}
	}
	if op.Bias == ir.None {
		return g
	}
	positions := len(dy) / op.Out[0]
	for c := range op.Out[0] {
		s := 0.0
		for _, d := range dy[c*positions : (c+1)*positions] {
			s += d
		}
		g = append(g, s)
	}
	return g
}

// taps visits every product of a convolution: output element o reads input
// element i through weight k. Padding is zero and visited by nobody.
func taps(op *ir.Op, f func(o, i, k int)) {
	win := op.Window
	c, h, w := op.Shape[0], op.Shape[1], op.Shape[2]
	o := 0
	for oc := range op.Out[0] {
		for oy := range op.Out[1] {
			for ox := range op.Out[2] {
				for ic := range c {
					for ky := range win.H {
						y := oy*win.StrideH - win.PadTop + ky*win.DilationH
						if y < 0 || y >= h {
							continue
						}
						row, k := (ic*h+y)*w, ((oc*c+ic)*win.H+ky)*win.W
						for kx := range win.W {
							if x := ox*win.StrideW - win.PadLeft + kx*win.DilationW; x >= 0 && x < w {
								f(o, row+x, k+kx)
							}
						}
					}
				}
				o++
			}
		}
	}
}

// window visits the input elements of pool output o in row-major order.
func window(op *ir.Op, o int, f func(i int)) {
	win := op.Window
	h, w := op.Shape[1], op.Shape[2]
	c, oy, ox := o/(op.Out[1]*op.Out[2]), o/op.Out[2]%op.Out[1], o%op.Out[2]
	for ky := range win.H {
		for kx := range win.W {
			y, x := oy*win.StrideH-win.PadTop+ky*win.DilationH, ox*win.StrideW-win.PadLeft+kx*win.DilationW
			if y >= 0 && y < h && x >= 0 && x < w {
				f((c*h+y)*w + x)
			}
		}
	}
}

// argmax is the first input element, in row-major order, that no other of its
// window exceeds.
func argmax(op *ir.Op, x []float64, o int) int {
	best := -1
	window(op, o, func(i int) {
		if best < 0 || x[i] > x[best] {
			best = i
		}
	})
	return best
}
