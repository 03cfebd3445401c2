package plan

import (
	"github.com/privgrad/privgrad/internal/canary"
	"github.com/privgrad/privgrad/internal/fits"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/tables"
)

// Trained is what a device trains: the network, with inputs and parameters for canaries where there are some.
func (p *Plan) Trained() *ir.Program {
	if p.Config.Canaries == 0 {
		return p.Network.Program
	}
	return canary.Program(p.Network.Program, p.Config.Canaries)
}

// Canaries are those of the run, whose coins are secret; nil where it has none.
func (p *Plan) Canaries(coins []bool) *canary.Canaries {
	if p.Config.Canaries == 0 {
		return nil
	}
	return canary.New(p.Network.Program, p.Config.Clip, max(p.Set.Classes, 2), coins)
}

// columns are what records have for canaries behind their values; nil where there are none.
func (p *Plan) columns() *tables.Canaries {
	if p.Config.Canaries == 0 {
		return nil
	}
	return &tables.Canaries{Columns: p.Config.Canaries}
}

// FirstParams are those with which the run begins.
func (p *Plan) FirstParams() []float32 {
	return append(p.Network.Params(), make([]float32, p.Trained().NumParams()-p.Network.Program.NumParams())...)
}

// OfNetwork are the parameters of the network among those that were trained.
func (p *Plan) OfNetwork(trained []float32) []float32 { return trained[:p.Network.Program.NumParams()] }

// SetParams gives the network what was trained of it.
func (p *Plan) SetParams(trained []float32) error { return p.Network.SetParams(p.OfNetwork(trained)) }

// parts are what decides whether settings fit the run.
func (p *Plan) parts() *fits.Run {
	return &fits.Run{Config: &p.Config, Traits: p.Traits, Declaration: p.Declaration, Batches: p.Kind, Data: p.Set, Network: p.Network.Program, Imported: p.Imported != nil}
}

// Together says why several processes cannot make the run together; nil where they can.
func (p *Plan) Together() error { return p.parts().Together() }
