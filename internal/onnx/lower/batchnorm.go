package lower

import (
	"math"

	"github.com/privgrad/privgrad/internal/ir"
)

// BatchNorm says what becomes of batch normalizations, in which records of a batch would see each other.
type BatchNorm uint8

// What may become of them.
const (
	NoBatchNorm BatchNorm = iota // they are refused
	Frozen                       // the file's statistics, folded into the layer right before; needs the file's weights
	Grouped                      // a group normalization in the place of each
)

func (b BatchNorm) String() string { return [...]string{"none", "frozen", "group"}[b] }

// groupsOf are the groups that take the place of a batch normalization: the largest of 32, 16, 8, 4 and 2 that divides the
// channels and leaves at least four in a group, else 1.
func groupsOf(channels int) int {
	for _, g := range []int{32, 16, 8, 4, 2} {
		if channels%g == 0 && channels/g >= 4 {
			return g
		}
	}
	return 1
}

func batchNormalization(c *call) (*value, *Refusal) {
	v, r := c.activation(0)
	if r != nil {
		return nil, r
	}
	through := &value{at: v.at, view: v.view, trained: v.trained} // for what is refused: the shape stays
	further := false
	for _, out := range c.node.Outputs[1:] {
		further = further || c.readers[out] > 0
	}
	if c.int("training_mode", 0) != 0 || further {
		return through, c.refuse(exportKept, "is in training mode and normalizes by the records of a batch: one record would see another")
	}
	if len(v.view.Shape) == 0 {
		return nil, c.refuse(exportAgain, "normalizes records without channels")
	}
	channels := v.view.Shape[0]
	for i := 1; i < 5; i++ {
		k, r := c.weights(i, 1, 1)
		if r != nil {
			return nil, r
		}
		if k.Size() != channels {
			return nil, c.refuse(exportAgain, "has %d numbers as input %d for %d channels", k.Size(), i+1, channels)
		}
	}
	switch {
	case c.role == fixed || c.choices.BatchNorm == Frozen:
		return c.statistics(v, through)
	case c.choices.BatchNorm == Grouped:
		out, r := c.grouped(v, 0, groupsOf(channels), float64(c.float("epsilon", 1e-5)))
		if r != nil || c.of(out).op.Kind != ir.GroupNorm {
			return out, r
		}
		return c.affinity(out, 1, 2)
	}
	return through, c.refuse("put group normalizations in their place (--batchnorm group), or keep the statistics of a public file (--batchnorm frozen --weights-are-public)",
		"normalizes by the records of a batch when it is trained: one record would see another")
}

// statistics multiplies and adds what the file's mean and variance make, in the layer right before.
func (c *call) statistics(v, through *value) (*value, *Refusal) {
	var of [4][]float32 // scale, shift, mean, variance
	for i := range of {
		var r *Refusal
		if of[i], r = c.floats(c.in[i+1].known); r != nil {
			return nil, r
		}
	}
	channels, epsilon := len(of[0]), float64(c.float("epsilon", 1e-5))
	factor, shift := make([]float32, channels), make([]float32, channels)
	for i := range factor {
		f := float64(of[0][i]) / math.Sqrt(float64(of[3][i])+epsilon)
		if factor[i], shift[i] = float32(f), float32(float64(of[1][i])-float64(of[2][i])*f); f-f != 0 {
			return through, c.refuse("train it on, or use another file", "has a variance below 0, or none that is a number")
		}
	}
	l := c.of(v)
	foldable := l != nil && v.alone && (l.op.Kind == ir.Conv || l.op.Kind == ir.Dense) && v.view.Outermost(0) && l.op.Out[0] == channels && l.weight.values != nil
	switch {
	case foldable:
	case c.role == fixed && v.view.Outermost(0):
		if c.stored(v)[0] == channels {
			return c.affine(v, factor, shift), nil
		}
		fallthrough
	case c.role == fixed:
		return c.elsewhereOf(v.view.Shape, "normalizes channels that do not lie one behind the other")
	default:
		return through, c.refuse("use --batchnorm group", "has statistics, which can be folded into a convolution or a dense layer right before it, and none is there")
	}
	l.fold(factor, shift)
	if l.bias != nil && l.bias.root == "" && len(c.in[2].known.Roots) > 0 {
		l.bias.root = c.in[2].known.Roots[0]
	}
	out := *v
	return &out, nil
}
