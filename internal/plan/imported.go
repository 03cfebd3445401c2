package plan

import (
	"github.com/privgrad/privgrad/internal/imported"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/internal/tables"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/nn"
)

// resolveImported reads the network that a file gives: from what a run that goes on keeps of it, else from the file.
func (p *Plan) resolveImported(o Options) (err error) {
	c, train := &p.Config, p.Set.Train
	if c.Network == "" {
		return nil
	}
	if o.Kept != "" && o.Kept.Has(rundir.Network) && o.Kept.Has(rundir.StateFile) {
		p.Imported, err = imported.Read(o.Kept, c, train.Shape)
	} else {
		p.Imported, err = imported.Open(c, imported.Data{Shape: train.Shape, Classes: p.Set.Classes})
	}
	if err != nil {
		return err
	}
	p.Front = p.Imported.Front
	c.Model = c.NetworkName()
	p.Network, err = nn.OfProgram(p.Imported.Program, p.Imported.Params)
	if err != nil {
		return usage.Errorf("network %s: %w", c.Network, err)
	}
	own := activation(p.Imported.Program)
	if c.Activation != "" && c.Activation != own {
		return usage.Errorf("activation %s: the network of %s has its own; leave it out", c.Activation, c.Network)
	}
	c.Activation = own
	return nil
}

// activation is the first one of a network by its name among those of named models: learning rates follow from it. It is empty where
// it is none of these.
func activation(p *ir.Program) string {
	for i := range p.Ops {
		if kind := p.Ops[i].Kind; kind.Activation() || kind == ir.GELU {
			for _, name := range nn.Activations() {
				if name == kind.String() {
					return name
				}
			}
		}
	}
	return ""
}

// reading is what an imported network reads of a value; nil of other networks.
func (p *Plan) reading() *tables.Reading {
	if p.Imported == nil || p.Front != nil {
		return nil
	}
	return (*tables.Reading)(&p.Imported.Reading)
}
