package pur

import (
	"math"
	"math/rand/v2"

	"github.com/privgrad/privgrad/dpoptim"
)

// Open records the updates, with the noise of pur-oracle beside them.
func (m *Method) Open(e dpoptim.Engine) (dpoptim.Steps, error) {
	p := dpoptim.Projected{Radius: m.problem.Radius, Rate: e.Facts().Rate.At}
	if m.name == Oracle {
		p.Replace = m.disturb
	}
	return p.Open(e)
}

// disturb reads a sum of gradients, and adds noise of k‖∇F‖/√d to each coordinate of their mean. It
// follows from the seed and the number of the update, so that a run resumes exactly.
func (m *Method) disturb(e dpoptim.Engine, sum, into dpoptim.Vector) error {
	f := e.Facts()
	w, g := make([]float32, f.Params), make([]float32, f.Params)
	if err := e.Read(e.Params(), w); err != nil {
		return err
	}
	if err := e.Read(sum, g); err != nil {
		return err
	}
	square := 0.0
	for i := range g {
		v := float64(g[i])/f.ExpectedBatch + f.L2*float64(w[i])
		square += v * v
	}
	sigma := m.balance() * math.Sqrt(square/float64(len(g))) * f.ExpectedBatch
	source := rand.New(rand.NewPCG(m.seed, uint64(e.Update())))
	for i := range g {
		g[i] += float32(sigma * source.NormFloat64())
	}
	return e.Write(into, g)
}
