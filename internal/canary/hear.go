package canary

import (
	"encoding/binary"
	"math"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/reference"
	"github.com/privgrad/privgrad/internal/ir"
)

// Products are sums over the steps of a run, one for each canary: of the released sums with the direction of its gradient. They follow from released
// values and from what is public of the canaries, whether or not a canary takes part.
type Products []float64

// Bytes are the products in a checkpoint.
func (p Products) Bytes() (b []byte) {
	for _, x := range p {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(x))
	}
	return b
}

// Read are the products of so many canaries from the bytes of a checkpoint; nil where they are none.
func Read(b []byte, canaries int) Products {
	if len(b) != 8*canaries {
		return nil
	}
	p := make(Products, canaries)
	for i := range p {
		p[i] = math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:]))
	}
	return p
}

// Hear adds a step: parameters before it, and the noisy sum of clipped gradients that it released, both of the network with canaries.
// Only the parameters of the canaries' own inputs are looked at.
func (c *Canaries) Hear(p Products, params, released []float32) {
	first, n := c.Network.NumParams(), len(c.Classes)
	of := make([]float64, first)
	for i, x := range params[:first] {
		of[i] = float64(x)
	}
	record := make([]float64, len(c.Record))
	for i, x := range c.Record {
		record[i] = float64(x)
	}
	outputs := reference.Values(c.Network, of, record, device.Float32)[c.Network.Logits()]
	direction := make([]float64, len(outputs))
	for i, class := range c.Classes {
		for o := range direction {
			direction[o] = outputs[o] + c.Value*float64(params[first+o*n+i])
		}
		slope(c.Network.Loss, direction, class)
		length, product := 0., 0.
		for o, g := range direction {
			length += g * g
			product += g * float64(released[first+o*n+i])
		}
		if product /= math.Sqrt(length); product-product == 0 {
			p[i] += product
		}
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
