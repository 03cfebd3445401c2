package nn

import (
	"fmt"

	G "gorgonia.org/gorgonia"
)

// former are the networks that names stood for in earlier versions of this project, the oldest first: version 1, version 2
// and so on of a name, of which the row in specs is the last. A network that has trained models is changed by a new row there, and
// its old front comes here, so that those models stay what they are.
var former = map[string][]front{
	"resnet-small": {residual{16, 32, 64, 64, 128}},
}

// version picks the network of a name that the options ask for.
func (s *spec) version(want int) error {
	old := former[s.Name]
	switch latest := 1 + len(old); {
	case want == 0 || want == latest:
		return nil
	case want > 0 && want < latest:
		s.front = old[want-1]
		return nil
	case latest == 1:
		return fmt.Errorf("model %s has one version, not %d: leave the version out", s.Name, want)
	default:
		return fmt.Errorf("model %s has the versions 1 to %d, not %d; leave the version out for the last", s.Name, latest, want)
	}
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
