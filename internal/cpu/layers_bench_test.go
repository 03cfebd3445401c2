package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/devicetest"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/perexample"
)

// gaussians are n values of a standard normal distribution.
func gaussians(n int) []float32 {
	r, x := rand.New(rand.NewPCG(91, 92)), make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

// BenchmarkLayerNorm measures what a layer normalization does for an example on one thread.
func BenchmarkLayerNorm(b *testing.B) {
	for _, shape := range [][2]int{{96, 64}, {1, 1024}} {
		lines, size := shape[0], shape[1]
		layers := devicetest.NewBuilder("norm", ir.Logistic, 1)
		x := layers.Reshape(layers.Dense(ir.Input, lines*size, true), lines, size)
		layers.Dense(layers.LayerNorm(x, true), 1, true)
		s, err := perexample.Private(layers.Program(), perexample.Options{Strategy: perexample.Auto, Clipping: ir.Flat})
		check(b, err)
		n := compile(s, device.Options{Capacity: 1}, 1)
		defer n.Close()
		const op = 1
		n.params = gaussians(n.program.NumParams())
		copy(n.value(1, 0), gaussians(lines*size))
		copy(n.delta(2, 0), gaussians(lines*size))
		weight, bias := n.params[n.program.Params[2].Offset:][:size], n.params[n.program.Params[3].Offset:][:size]
		forward, store, back := n.layerNorm(op), n.store(op), n.layerNormGrad(op)
		for _, part := range []struct {
			name string
			run  func()
		}{
			{"forward", func() { forward(0, weight, bias, &n.workers.own) }},
			{"store", func() { store(0, &n.workers.own) }},
			{"back", func() { back(0, &n.workers.own) }},
		} {
			b.Run(fmt.Sprintf("%dx%d/%s", lines, size, part.name), func(b *testing.B) {
				for b.Loop() {
					part.run()
				}
			})
		}
	}
}

// BenchmarkStandardize measures the weights of a step, and how an example's gradient goes back to the parameters, in both layouts.
func BenchmarkStandardize(b *testing.B) {
	for _, size := range []struct{ out, in int }{{16, 16}, {64, 64}, {256, 256}, {640, 640}} {
		layers := devicetest.NewBuilder("standard", ir.Logistic, size.in, 3, 3)
		layers.StandardConv(ir.Input, size.out, ir.Square(3, 1, 1), true)
		taps := 9 * size.in
		w, g, weight, gains := gaussians(size.out*taps), gaussians(size.out*taps+2*size.out), make([]float32, size.out*taps), make([]float32, size.out)
		for o := range gains { // a gradient that goes back many times does not vanish
			gains[o] = float32(math.Sqrt(float64(taps)))
		}
		for _, layout := range []struct {
			name   string
			turned bool
		}{{"by channel", false}, {"by tap", true}} {
			s := newStandardize(&layers.Program().Ops[0], layout.turned)
			var own worker
			for _, part := range []struct {
				name string
				run  func()
			}{
				{"set", func() { s.set(weight, w, [][]float32{gains}) }},
				{"back", func() { s.back(g, &own) }},
			} {
				b.Run(fmt.Sprintf("%dx%d/%s/%s", size.out, taps, layout.name, part.name), func(b *testing.B) {
					for b.Loop() {
						part.run()
					}
				})
			}
		}
	}
}
