package plan

import (
	"cmp"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/internal/imported"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/recipes"
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/nn"
)

// openNetwork reads the network that a file gives: from what a run that goes on keeps of it, else from the file.
func openNetwork(c *config.Config, set *datasets.Set, o Options) (*imported.Network, error) {
	open := func() (*imported.Network, error) {
		return imported.Open(c, imported.Data{Shape: set.Train.Shape, Classes: set.Classes})
	}
	if imported.IsKept(o.Kept) {
		open = func() (*imported.Network, error) { return imported.Read(o.Kept, c, set.Train.Shape) }
	}
	n, err := open()
	if err == nil {
		c.NetworkDigest = cmp.Or(c.NetworkDigest, n.Source)
	}
	return n, err
}

// resolveImported takes the network of a file, if there is one.
func (p *Plan) resolveImported() (err error) {
	c := &p.Config
	if p.Imported == nil {
		return nil
	}
	g := p.Imported.Program
	if recipeOf(c) == recipes.Head && (len(g.Ops) > 1 || g.Ops[0].Kind != ir.Dense) {
		return usage.Errorf("recipe %s is for a last layer alone, and behind %s are %d operations: freeze the last node before that layer", recipes.Head, c.Freeze, len(g.Ops))
	}
	p.Front = p.Imported.Front
	c.Model = c.NetworkName()
	if p.Network, err = nn.OfProgram(g, p.Imported.Params); err != nil {
		return usage.Errorf("network %s: %w", c.Network, err)
	}
	own := p.Imported.Activation()
	if c.Activation != "" && c.Activation != own {
		return usage.Errorf("activation %s: the network of %s has its own; leave it out", c.Activation, c.Network)
	}
	c.Activation = own
	return nil
}

// Foundation identifies what stands before the parameters of a run: its front end, and of a network from a file all that is kept of it.
// It is empty where there is nothing.
func (p *Plan) Foundation() string {
	if p.Imported != nil {
		return p.networkDigest
	}
	return p.FrontDigest
}

// FoundationFile names what Foundation is of.
func (p *Plan) FoundationFile() string {
	if p.Imported != nil {
		return rundir.Network + " or " + rundir.Frozen
	}
	return rundir.Features
}

// reading is what an imported network reads of a value; nil of other networks.
func (p *Plan) reading() *ir.Reading {
	if p.Imported == nil || p.Front != nil {
		return nil
	}
	return &p.Imported.Reading
}
