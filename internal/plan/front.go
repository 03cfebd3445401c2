package plan

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/features"
	"github.com/privgrad/privgrad/internal/recipes"
	"github.com/privgrad/privgrad/internal/tables"
	"github.com/privgrad/privgrad/internal/usage"
)

// Words for what is left out.
const noRecipe, noFeatures = "none", "none"

// checkFront finds settings of a front end that do not go together.
func (c *Config) checkFront() error {
	if c.Features == noFeatures {
		c.Features = ""
	}
	switch {
	case c.Features == "" && c.Whiten != "":
		return usage.Errorf("whiten %s: it is for features; give --features, or leave it out", c.Whiten)
	case c.Features == "" && c.Mirror:
		return usage.Errorf("mirror true: it is for features; give --features, or leave it out")
	}
	return nil
}

// resolveFront makes the front end that is asked for.
func (p *Plan) resolveFront(o Options) (err error) {
	c, shape := &p.Config, p.Set.Train.Shape
	switch {
	case o.Front != nil:
		if p.Front = o.Front; p.Front.In() != shape {
			return usage.Errorf("the features read images of shape %v, the records of %s have %v", p.Front.In(), c.Data, shape)
		}
		spec := p.Front.Spec()
		c.Features, c.Whiten, c.Mirror = spec.Kind, string(spec.Whiten), spec.Mirror
		p.ownFront = !slices.Contains(features.Kinds(), spec.Kind)
		return nil
	case c.Features == "":
		return nil
	case p.Set.Train.Unit:
		return usage.Errorf("features %s: they are of images, and data set %s is a table; leave out --features", c.Features, c.Data)
	}
	if c.Whiten == "" {
		c.Whiten = string(features.Leaves)
	}
	p.Front, err = features.New(c.FrontSpec(shape), o.FrontProgress)
	return usage.Wrap(err)
}

// FrontSpec names the front end for images of a shape.
func (c *Config) FrontSpec(shape [3]int) features.Spec {
	return features.Spec{Kind: c.Features, Whiten: features.Whitening(c.Whiten), Mirror: c.Mirror, Shape: shape}
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
	return tables.Reader{Front: p.Front, Loss: p.Network.Program.Loss, Classes: p.Set.Classes, Threads: p.Config.Threads}
}

// checkRecipe finds settings that no recipe goes with.
func (c *Config) checkRecipe() error {
	if c.Epsilon == nil {
		return usage.Errorf("recipe %s: its settings depend on the budget; give --epsilon", c.Recipe)
	}
	return nil
}

// follow fills in what is left open by the recipe for a set, and says where that is another's.
func (c *Config) follow(set *datasets.Set) (warnings []string, err error) {
	if set.Train.Unit {
		return nil, usage.Errorf("recipe %s: it is for images, and data set %s is a table; leave out --recipe", c.Recipe, c.Data)
	}
	r, err := recipes.Find(c.Data, set.Train.Shape, *c.Epsilon)
	if err != nil {
		return nil, usage.Wrap(err)
	}
	if r.Data != c.Data {
		warnings = append(warnings, fmt.Sprintf("recipe %s: none was chosen on %s; this is that of %s, whose images have the nearest shape", c.Recipe, c.Data, r.Data))
	}
	c.RecipeChosenOn = r.From()
	initial := Default()
	values := r.Keys()
	for _, s := range settings {
		v, ok := values[s.Key]
		if !ok || !s.open(c, &initial) || s.with == "features" && c.Features == noFeatures {
			continue
		}
		s.put(c, v)
	}
	return warnings, nil
}

// open reports whether nobody chose the setting, nor the one whose place it takes.
func (s Setting) open(c, initial *Config) bool {
	untouched := func(key string) bool {
		t := Setting{Key: key}
		return !c.given[key] && reflect.DeepEqual(t.Field(c), t.Field(initial))
	}
	return untouched(s.Key) && (s.instead == "" || untouched(s.instead))
}

// put sets the setting to a value of its type, also where it may be left out.
func (s Setting) put(c *Config, value any) {
	field, v := s.value(c), reflect.ValueOf(value)
	if field.Kind() == reflect.Pointer {
		at := reflect.New(v.Type())
		at.Elem().Set(v)
		v = at
	}
	field.Set(v)
}

// DefaultsFrom names the data on which the settings were chosen that the user left open.
func (p *Plan) DefaultsFrom() string {
	switch {
	case p.Config.RecipeChosenOn != "":
		return p.Config.RecipeChosenOn
	case p.Notes.DefaultsFrom != "":
		return p.Notes.DefaultsFrom
	}
	return "Fashion-MNIST test set (public benchmark data)"
}
