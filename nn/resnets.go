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
	groups func(channels int) int                                           // how many groups of so many channels
}

// block is the two 3×3 convolutions of a residual sum, the first with the stride. A block that changes the channels has a 1×1
// convolution on its shortcut.
type block struct{ out, stride int }

// groupSize are the channels in a group of resnet-small; wide networks have wideGroups, whatever their channels.
const groupSize, wideGroups = 8, 16

func (p preactivated) layers(act Layer, init Init) (all []Layer) {
	made := map[string]int{}
	named := func(kind string) string { made[kind]++; return fmt.Sprint(kind, made[kind]) }
	conv := func(out, kernel, stride int) Layer { return p.conv(named("conv"), out, kernel, stride, kernel/2, init) }
	norm := func(channels int) Layer { return GroupNorm(named("groupnorm"), p.groups(channels)) }
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

// former are the networks that names stood for in earlier versions of this project, the oldest first: version 1, version 2
// and so on of a name, of which the row in specs is the last. A network that has trained models is changed by a new row there, and
// its old front comes here, so that those models stay what they are.
var former = map[string][]front{
	"resnet-small": {residual{16, 32, 64, 64, 128}},
}

// version picks the network of a name that the options ask for.
func (s *spec) version(want int) error {
	old := former[s.Name]
	if want < 0 || want > len(old)+1 {
		return fmt.Errorf("model %s has the versions 1 to %d, not %d; leave the version out for the last", s.Name, len(old)+1, want)
	}
	if want > 0 && want <= len(old) {
		s.front = old[want-1]
	}
	return nil
}

// residual is a residual network by its channels: those of a convolution, then those of blocks of two. All windows are 3×3.
// A block that changes the channels halves the image, and its shortcut is a 1×1 convolution. Behind every
// convolution groups of groupSize channels are normalized; behind all of them stands the mean over the image.
type residual []int

func (channels residual) layers(act Layer, init Init) (all []Layer) {
	made := 0
	conv := func(out, kernel, stride int) Layer {
		made++
		c, norm := Conv(fmt.Sprint("conv", made), out, kernel, stride, kernel/2, init), GroupNorm(fmt.Sprint("groupnorm", made), out/groupSize)
		return func(x *G.Node) (*G.Node, error) { return Apply(x, c, norm) }
	}
	all = append(all, conv(channels[0], 3, 1), act)
	for i, out := range channels[1:] {
		stride := 1
		if out != channels[i] {
			stride = 2
		}
		body, shortcut := []Layer{conv(out, 3, stride), act, conv(out, 3, 1)}, Layer(nil)
		if stride > 1 {
			shortcut = conv(out, 1, stride)
		}
		all = append(all, Residual(shortcut, body...), act)
	}
	return append(all, GlobalAvgPool)
}
