package plan

import (
	"fmt"
	"strings"
	"time"

	"github.com/privgrad/privgrad/dpoptim/sgd"
	"github.com/privgrad/privgrad/features"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/tables"
	"github.com/privgrad/privgrad/internal/usage"
)

// resolveFront makes the front end that is asked for.
func (p *Plan) resolveFront(o Options) (err error) {
	c, shape := &p.Config, p.Set.Train.Shape
	switch {
	case o.Front != nil:
		if p.Front = o.Front; p.Front.In() != shape {
			return usage.Errorf("the features read images of shape %v, the records of %s have %v", p.Front.In(), c.Data, shape)
		}
		spec := p.Front.Spec()
		c.Features, c.Whiten, c.Mirror, c.Deskew = spec.Kind, string(spec.Whiten), spec.Mirror, spec.Deskew
		return nil
	case p.Imported != nil, c.Features == "":
		return nil
	case p.Set.Train.Unit:
		return usage.Errorf("features %s: they are of images, and data set %s is a table; leave out --features", c.Features, c.Data)
	}
	if c.Whiten == "" {
		c.Whiten = string(features.Leaves)
	}
	if err = p.makeFront(c.FrontSpec(shape), o); err != nil && c.RecipeChosenOn != "" {
		return fmt.Errorf("%w, or give --recipe none", err)
	}
	return err
}

// makeFront makes the front end of a spec. A plan of facts only needs one that takes as long.
func (p *Plan) makeFront(spec features.Spec, o Options) (err error) {
	if o.Facts {
		p.Front, err = features.Rehearse(spec)
		return err
	}
	start := time.Now()
	p.Front, err = features.New(spec, o.FrontProgress)
	p.FrontTime = time.Since(start)
	return err
}

// input is the shape of what the network reads.
func (p *Plan) input() [3]int {
	if p.Front != nil {
		return p.Front.Out()
	}
	return p.Set.Train.Shape
}

// Reader says how the network is given records.
func (p *Plan) Reader() tables.Reader {
	return tables.Reader{Front: p.Front, Reading: p.reading(), Norm: p.Config.Norm(), Loss: p.Network.Program.Loss, Classes: p.Set.Classes, Threads: p.Config.Threads, Canaries: p.columns()}
}

func (p *Plan) defaultsFrom() string {
	switch {
	case p.Config.RecipeChosenOn != "":
		return p.Config.RecipeChosenOn
	case p.Notes.DefaultsFrom != "":
		return p.Notes.DefaultsFrom
	case p.Set.Classes == 0 && p.Config.Private() && !sgd.Adapts(p.Config.Optimizer): // whose rate is the same for all losses
		return "held-out training records of wine (public benchmark data)"
	}
	return "Fashion-MNIST test set (public benchmark data)"
}

// ChosenOn is DefaultsFrom behind "chosen on".
func ChosenOn(defaultsFrom string) string {
	if strings.HasPrefix(defaultsFrom, "no data") {
		return defaultsFrom
	}
	return "the " + defaultsFrom
}

// RowBytes are those of a row that is made of a record; 0 where a network reads what was stored.
func (p *Plan) RowBytes() (bytes int) {
	input := p.input()
	if p.Front != nil {
		bytes = 2 * p.Front.Width() // halves
	}
	if p.Config.FeatureNorm != nil {
		bytes += 4 * ir.Size(input[:])
	}
	if k := p.Config.Canaries; k > 0 {
		bytes += 4 * (ir.Size(input[:]) + k)
	}
	return bytes
}
