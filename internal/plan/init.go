package plan

import (
	"slices"

	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/internal/usage"
)

// Initial says which tensors of a network began with the values of a file.
type Initial = rundir.Initial

// initialise gives the network the weights of the file that is named, if there is one. Weights that no run could go
// on from are refused, also those of a user's own graph.
func (p *Plan) initialise() error {
	c, g := &p.Config, p.Network.Program
	params := p.Network.Params()
	if c.Init != "" {
		initial, facts, err := rundir.ReadInitial(c.Init, g, c.InitLayers, params)
		if err != nil {
			return err
		}
		of, ok := facts[rundir.FeaturesDigest]
		unknown := p.Front != nil && p.FrontDigest == "" // made up
		if ok != (p.Front != nil) || of != p.FrontDigest && !unknown {
			return usage.Errorf("init %s: that model reads other features, or none; start from one of the same --features, --whiten, --mirror and deskew", c.Init)
		}
		p.Initial = initial
	}
	for _, q := range g.Params {
		values := params[q.Offset:][:q.Size()]
		if i := slices.IndexFunc(values, func(x float32) bool { return x-x != 0 }); i >= 0 {
			return usage.Errorf("network %s begins with a value that is not finite: value %d of %s is %v in float32; give it finite weights", g.Name, i, q.Name, values[i])
		}
	}
	if p.Initial == nil {
		return nil
	}
	return p.Network.SetParams(params)
}
