package canary

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/reference"
	"github.com/privgrad/privgrad/internal/ir"
)

// Products are sums over the steps of a run, two for each canary. They follow from released values and from what is public of the canaries,
// whether or not a canary takes part.
type Products struct {
	Signal []float64 // of the released sums with the canary's clipped gradient
	Energy []float64 // of this gradient with itself
}

// Silence is the products before the first step.
func Silence(canaries int) *Products {
	return &Products{make([]float64, canaries), make([]float64, canaries)}
}

// Bytes are the products in a checkpoint.
func (p *Products) Bytes() (b []byte) {
	for _, x := range slices.Concat(p.Signal, p.Energy) {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(x))
	}
	return b
}

// Read are the products of so many canaries from the bytes of a checkpoint; nil where they are none.
func Read(b []byte, canaries int) *Products {
	if len(b) != 16*canaries {
		return nil
	}
	p := Silence(canaries)
	for i, x := range []*[]float64{&p.Signal, &p.Energy} {
		for k := range *x {
			(*x)[k] = math.Float64frombits(binary.LittleEndian.Uint64(b[8*(i*canaries+k):]))
		}
	}
	return p
}

// Hear adds a step: parameters before it, and the noisy sum of clipped gradients that it released, both of the network with canaries.
// Only the parameters of the canaries' own inputs are looked at.
func (c *Canaries) Hear(p *Products, params, released []float32) {
	first := c.Network.NumParams()
	of := make([]float64, first)
	for i, x := range params[:first] {
		of[i] = float64(x)
	}
	// A canary is zero but for its own input.
	outputs := reference.Values(c.Network, of, make([]float64, ir.Size(c.Network.Shape)), device.Float32)[c.Network.Logits()]
	z := make([]float64, len(outputs))
	n := len(c.Classes)
	for i, class := range c.Classes {
		for o := range z {
			z[o] = outputs[o] + c.Value*float64(params[first+o*n+i])
		}
		slope(c.Network.Loss, z, class)
		length := 0.
		for o, s := range z {
			if c.Network.ClassWeights != nil {
				s *= float64(c.Network.ClassWeights[class])
			}
			z[o] = s * c.Value
			length += z[o] * z[o]
		}
		length = math.Sqrt(length)
		if !(length > 0) || math.IsInf(length, 1) {
			continue
		}
		scale := min(1, c.Clip/length)
		for o, g := range z {
			p.Signal[i] += scale * g * float64(released[first+o*n+i])
		}
		p.Energy[i] += scale * scale * length * length
	}
}

// slope replaces outputs by the derivatives of the loss.
func slope(l ir.Loss, z []float64, class int) {
	if l == ir.Logistic {
		t := float64(2*class - 1)
		z[0] = -t / (1 + math.Exp(t*z[0]))
		return
	}
	most, sum := math.Inf(-1), 0.
	for _, x := range z {
		most = max(most, x)
	}
	for o, x := range z {
		z[o] = math.Exp(x - most)
		sum += z[o]
	}
	for o := range z {
		z[o] /= sum
	}
	z[class]--
}

// Heard says whether canaries can be heard in a network with such a loss: else it may stop to move them.
func Heard(l ir.Loss) bool { return l == ir.SoftmaxCrossEntropy || l == ir.Logistic }
