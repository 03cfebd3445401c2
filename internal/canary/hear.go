package canary

import (
	"encoding/binary"
	"math"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/reference"
	"github.com/privgrad/privgrad/internal/ir"
)

// Heard is what a run releases about its canaries. It follows from released values and from what is public of the canaries, whether or not a canary
// takes part.
type Heard struct {
	Products []float64 // one for each canary: the sum over the steps of released sums with the direction of its gradient
	Signal   float64   // the sum over the steps of how long a canary's clipped gradient is there, in clip norms and on average
}

// Silence is what is heard of so many canaries before the first step.
func Silence(canaries int) *Heard { return &Heard{Products: make([]float64, canaries)} }

// Bytes are what a checkpoint has of it.
func (h *Heard) Bytes() (b []byte) {
	for _, x := range append(h.Products[:len(h.Products):len(h.Products)], h.Signal) {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(x))
	}
	return b
}

// Read is what was heard of so many canaries, from the bytes of a checkpoint; nil where they do not have that.
func Read(b []byte, canaries int) *Heard {
	if len(b) != 8*(canaries+1) {
		return nil
	}
	h := Silence(canaries)
	number := func(i int) float64 { return math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:])) }
	for i := range h.Products {
		h.Products[i] = number(i)
	}
	h.Signal = number(canaries)
	return h
}

// Hear adds a step: parameters before it, and the noisy sum of clipped gradients that it released, both of the network with canaries.
// Only the parameters of the canaries' own inputs are looked at.
func (c *Canaries) Hear(h *Heard, params, released []float32) {
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
		length = math.Sqrt(length)
		if product /= length; product-product != 0 { // no direction: any fixed one does
			length, product = 0, float64(released[first+i])
		}
		h.Products[i] += product
		if c.Network.ClassWeights != nil {
			length *= float64(c.Network.ClassWeights[class])
		}
		h.Signal += min(1, c.Value*length/c.Clip) / float64(n)
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

// Audible says whether canaries can be heard in a network with such a loss: else it may stop to move them.
func Audible(l ir.Loss) bool { return l == ir.SoftmaxCrossEntropy || l == ir.Logistic }
