package nn

import (
	"fmt"

	G "gorgonia.org/gorgonia"
)

// preactivated is a residual network in which an activation and a group normalization, in this order, stand before every
// convolution but the first, on shortcuts too. De et al. 2022 have that order, and an independent replication of their results
// found it better under clipping and noise than others.
type preactivated struct {
	stem   int // channels of the first convolution
	blocks []block
	conv   func(name string, out, kernel, stride, pad int, init Init) Layer // Conv or StandardConv
	groups func(channels int) int                                           // that are normalized together
}

// block is the two 3×3 convolutions of a residual sum, the first with the stride. A block that changes the channels has a 1×1
// convolution on its shortcut.
type block struct{ out, stride int }

const (
	groupSize  = 8  // channels in a group of resnet-small
	wideGroups = 16 // groups of wide networks, whatever their channels
)

func (p preactivated) layers(act Layer, init Init) (all []Layer) {
	convs, norms := 0, 0
	conv := func(out, kernel, stride int) Layer {
		convs++
		return p.conv(fmt.Sprint("conv", convs), out, kernel, stride, kernel/2, init)
	}
	norm := func(channels int) Layer {
		norms++
		return GroupNorm(fmt.Sprint("groupnorm", norms), p.groups(channels))
	}
	channels := p.stem
	all = append(all, conv(channels, 3, 1))
	for _, b := range p.blocks {
		body, shortcut := []Layer{act, norm(channels), conv(b.out, 3, b.stride), act, norm(b.out), conv(b.out, 3, 1)}, Layer(nil)
		if b.out != channels {
			before, change := norm(channels), conv(b.out, 1, b.stride)
			shortcut = func(x *G.Node) (*G.Node, error) { return Apply(x, act, before, change) }
		}
		all = append(all, Residual(shortcut, body...))
		channels = b.out
	}
	return append(all, act, norm(channels), GlobalAvgPool)
}

// small has the blocks of resnet-small.
var small = preactivated{16, []block{{32, 2}, {64, 2}, {64, 1}, {128, 2}}, Conv, func(channels int) int { return channels / groupSize }}

// wideResidual is the wide residual network (Zagoruyko and Komodakis 2016) of so many layers, and of so many times the channels of a plain
// one, as De et al. 2022 train it: 16 groups in every normalization, standardized kernels with a gain and a bias, and
// on a shortcut a normalization of its own. Two things differ. Where a convolution has the stride 2, the image is padded by one row and column on
// every side, as in PyTorch, not below and on the right alone. And the first weights are uniform in place of a cut normal
// distribution, with the same variance.
type wideResidual struct{ depth, factor int }

func (w wideResidual) layers(act Layer, init Init) []Layer {
	p := preactivated{16, nil, StandardConv, func(int) int { return wideGroups }}
	for stage := range 3 {
		for i := range (w.depth - 4) / 6 {
			stride := 1
			if i == 0 && stage > 0 {
				stride = 2
			}
			p.blocks = append(p.blocks, block{w.factor * 16 << stage, stride})
		}
	}
	return p.layers(act, init)
}

// init gives weights the variance 1/fan-in. Standardized kernels do the same whatever their scale, but it decides how much
// steps and noise turn them.
func (wideResidual) init(seed uint64) Init {
	return func(name string, fanIn, _ int, w []float32) { uniform(seed, name, 3/float64(fanIn), w) }
}
