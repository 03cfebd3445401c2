package plan

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/features"
	"github.com/privgrad/privgrad/internal/ir"
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
		return usage.Errorf("whiten %s has no effect without features; give --features, or leave it out", c.Whiten)
	case c.Features == "" && c.Mirror:
		return usage.Errorf("mirror has no effect without features; give --features, or leave it out")
	case c.Features == "" && c.Deskew:
		return usage.Errorf("deskew has no effect without features; give --features, or leave it out")
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
		c.Features, c.Whiten, c.Mirror, c.Deskew = spec.Kind, string(spec.Whiten), spec.Mirror, spec.Deskew
		return nil
	case c.Features == "":
		return nil
	case p.Set.Train.Unit:
		return usage.Errorf("features %s: they are of images, and data set %s is a table; leave out --features", c.Features, c.Data)
	}
	if c.Whiten == "" {
		c.Whiten = string(features.Leaves)
	}
	if err = p.makeFront(c.FrontSpec(shape), o); err != nil && c.RecipeChosenOn != "" {
		return fmt.Errorf("%w, or leave out --recipe", err)
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

// FrontSpec names the front end for images of a shape.
func (c *Config) FrontSpec(shape [3]int) features.Spec {
	return features.Spec{Kind: c.Features, Whiten: features.Whitening(c.Whiten), Mirror: c.Mirror, Deskew: c.Deskew, Shape: shape}
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
	return tables.Reader{Front: p.Front, Norm: p.Config.Norm(), Loss: p.Network.Program.Loss, Classes: p.Set.Classes, Threads: p.Config.Threads}
}

// Norm is the most that the norm of a record's features is; 0: they are as they are.
func (c *Config) Norm() float64 {
	if c.FeatureNorm != nil {
		return *c.FeatureNorm
	}
	return 0
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
	n := set.PublicN
	if c.PublicN != nil {
		n = *c.PublicN
	}
	if n > 0 { // else the run is refused later, which says why
		// The noise beside a mean gradient grows as records get fewer; so must the steps shrink.
		r.LR *= min(float64(n)/float64(r.Records), 1)
	}

	initial, values := Default(), r.Keys()
	if others := c.others(&initial, values); len(others) > 0 {
		warnings = append(warnings, fmt.Sprintf("recipe %s: %s is not its own, so that its learning rate, clip norm, batch and epochs are left out, too", c.Recipe, strings.Join(others, ", ")))
		if maps.DeleteFunc(values, func(key string, _ any) bool {
			return !slices.Contains([]string{"features", "whiten", "mirror", "deskew"}, key)
		}); c.Features != "" {
			clear(values)
		}
	} else {
		c.RecipeChosenOn = r.From()
	}
	filled := false
	for _, s := range settings {
		if v, ok := values[s.Key]; ok && s.open(c, &initial) {
			s.put(c, v)
			filled = true
		}
	}
	if !filled {
		return nil, usage.Errorf("recipe %s: nothing is left open that it could fill in; leave it out, or leave settings out (those of a file by -c count as given)", c.Recipe)
	}
	return warnings, nil
}

// outgrown warns where settings are a recipe's of another ε than the one that was asked for since.
func (c *Config) outgrown(set *datasets.Set) (warnings []string) {
	if c.RecipeChosenOn == "" || c.recipeFor == nil || c.Epsilon == nil {
		return nil
	}
	was, _ := recipes.Find(c.Data, set.Train.Shape, *c.recipeFor)
	is, err := recipes.Find(c.Data, set.Train.Shape, *c.Epsilon)
	other := fmt.Sprintf("for %g others reached more: give --recipe %s in place of the file", *c.Epsilon, recipes.Best)
	switch {
	case err != nil:
		other = fmt.Sprintf("%g is too small for any recipe: expect less of them", *c.Epsilon)
	case is.Settings == was.Settings:
		return nil
	}
	return []string{fmt.Sprintf("the settings of this file were chosen for epsilon %g, and %s", *c.recipeFor, other)}
}

// others are the choices without which a recipe's learning rate means nothing, where the user
// made another one.
func (c *Config) others(initial *Config, values map[string]any) (all []string) {
	for _, key := range []string{"features", "model", "optimizer"} {
		s := Setting{Key: key}
		if v := s.value(c).Interface(); !s.open(c, initial) && v != values[key] {
			all = append(all, fmt.Sprintf("%s %v", key, v))
		}
	}
	return all
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
	return bytes
}
