package cpu

import (
	"fmt"
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
		n := compile(s, device.Options{Capacity: 1}, 1).(*net)
		defer n.Close()
		const op = 1
		n.params = gaussians(n.program.NumParams())
		copy(n.value(1, 0), gaussians(lines*size))
		copy(n.delta(2, 0), gaussians(lines*size))
		weight, bias := n.params[n.program.Params[2].Offset:][:size], n.params[n.program.Params[3].Offset:][:size]
		forward, store, back := n.layerNorm(op), n.layerNormStore(op), n.layerNormGrad(op)
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

// BenchmarkStandardizeBack measures how an example's gradient goes back to the parameters, in both layouts.
func BenchmarkStandardizeBack(b *testing.B) {
	for _, size := range []struct{ out, in int }{{64, 64}, {16, 16}, {256, 256}, {640, 640}} {
		layers := devicetest.NewBuilder("standard", ir.Logistic, size.in, 3, 3)
		layers.StandardConv(ir.Input, size.out, ir.Square(3, 1, 1), true)
		op := &layers.Program().Ops[0]
		taps := 9 * size.in
		w := gaussians(size.out * taps)
		for _, turned := range []bool{false, true} {
			s := newStandardize(op, turned)
			s.set(make([]float32, len(w)), w, [][]float32{gaussians(size.out)})
			from := gaussians(size.out*taps + 2*size.out)
			g := make([]float32, len(from))
			copy(g, from)
			var own worker
			if !testing.Short() {
				b.Run(fmt.Sprintf("%dx%d/turned=%v/set", size.out, taps, turned), func(b *testing.B) {
					weight := make([]float32, len(w))
					gains := [][]float32{gaussians(size.out)}
					for b.Loop() {
						s.set(weight, w, gains)
					}
				})
			}
			b.Run(fmt.Sprintf("%dx%d/turned=%v", size.out, taps, turned), func(b *testing.B) {
				for i := 0; b.Loop(); i++ {
					if i%64 == 0 { // before it becomes subnormal
						copy(g, from)
					}
					s.back(g, &own)
				}
			})
		}
	}
}
