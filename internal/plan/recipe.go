package plan

import (
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/datasets/tabular"
	"github.com/privgrad/privgrad/features"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/recipes"
	"github.com/privgrad/privgrad/internal/usage"
)

// Which recipe fills in what is left open. A configuration without a word takes none: so does one that was resolved.
const (
	autoRecipe = "auto" // the best, where nothing else was chosen
	noRecipe   = "none"
)

// choosing are the settings that a recipe settles, and those that say something of other networks and rules alone. Who gives one
// has made a choice, beside which no recipe is taken that was not asked for. looking is none: it refines a recipe's features.
var choosing = []string{
	"model", "activation", "init", "features", "feature_norm",
	"optimizer", "lr", "lr_schedule", "momentum", "batch", "sampling_rate", "steps", "epochs", "clip", "clipping",
}

// bases are the choices without which a recipe's learning rate means nothing.
var bases = []string{"features", "model", "optimizer"}

// looking are a recipe's ways to look at an image.
var looking = []string{"whiten", "mirror", "deskew"}

// mostBytes bounds features that are kept in memory though nobody asked for them, whatever the machine has.
const mostBytes = 8 << 30

// Announce says at the start of a run what its user should know of the plan.
func (p *Plan) Announce(log *slog.Logger) {
	if p.Config.RecipeChosenOn != "" {
		log.Info("recipe: " + p.Recipe)
	}
	for _, w := range p.Warnings {
		log.Warn(w)
	}
}

// wanted says whether a recipe is to be taken where it fits the data, or else why not.
func (c *Config) wanted(o Options) (wanted bool, why string) {
	initial := Default()
	i := slices.IndexFunc(choosing, func(key string) bool { return !(Setting{Key: key}).untouched(c, &initial) })
	switch {
	case c.Recipe == recipes.Best:
		return true, ""
	case c.Recipe == noRecipe:
		return false, noRecipe + ", as asked"
	case c.Recipe == "" && c.RecipeChosenOn != "":
		return false, recipes.Best + ", as its configuration says"
	case c.leftRecipe != "":
		return false, noRecipe + " any more: --" + c.leftRecipe + " was given beside the file"
	case c.Recipe == "":
		return false, ""
	case o.Network != nil || o.Method != nil || o.Front != nil:
		return false, noRecipe + ": the program brings a network, a method or features"
	case i >= 0:
		why = noRecipe + ": --" + Setting{Key: choosing[i]}.Flag() + " was given"
		if !slices.Contains(bases, choosing[i]) {
			why += " (--recipe best keeps the rest of it)"
		}
		return false, why
	case c.Epsilon == nil:
		return false, noRecipe + ": it needs --epsilon"
	}
	return true, ""
}

// unfit says why no recipe is taken that nobody asked for; nothing where one is.
func (c *Config) unfit(set *datasets.Set) string {
	r, err := c.recipe(set, *c.Epsilon)
	if set.Train.Unit {
		if set.Train.Mapped && r.FeatureNorm > 0 {
			return "it scales rows in memory, and these lie on the disk"
		}
		return ""
	}
	spec := features.Spec{Kind: r.Features, Whiten: features.Whitening(r.Whiten), Shape: set.Train.Shape}
	switch {
	case err != nil:
		return err.Error()
	case spec.Check() != nil:
		return "its features take no images of size " + datasets.SizeText(spec.Shape)
	}
	front, err := features.Rehearse(spec)
	if err == nil && 2*float64(front.Width())*float64(c.records(set)) > mostBytes {
		return "the features of so many images may not fit into memory"
	}
	return ""
}

// records is the public number of records to train on; 0 where nobody gave it, and the run will be refused.
func (c *Config) records(set *datasets.Set) int {
	switch {
	case c.PublicN == nil:
		return set.PublicN
	case set.Share > 0:
		return tabular.Scaled(*c.PublicN, set.Share)
	}
	return *c.PublicN
}

// recipe is the best known one for a set and a budget.
func (c *Config) recipe(set *datasets.Set, epsilon float64) (recipes.Recipe, error) {
	if set.Train.Unit {
		return recipes.ForTable(recipes.Table{Records: c.records(set), Features: size(set), Classes: set.Classes}, epsilon), nil
	}
	r, err := recipes.Find(c.recordsOf(), set.Train.Shape, epsilon)
	if err == nil && c.ownImages(r) {
		r.Mirror = false // left and right may matter
	}
	if n := c.records(set); n > 0 { // else the run is refused later, which says why
		// The noise beside a mean gradient grows as records get fewer; so must the steps shrink.
		r.LR *= min(float64(n)/float64(r.Records), 1)
	}
	return r, err
}

// title says what a recipe was chosen for.
func (c *Config) title(set *datasets.Set, r recipes.Recipe) string {
	title := "images of " + r.Data
	switch {
	case set.Train.Unit && set.Classes == 0:
		title = fmt.Sprintf("tables of %d records and %d values, which predict a number,", c.records(set), size(set))
	case set.Train.Unit:
		title = fmt.Sprintf("tables of %d records, %d values and %d classes", c.records(set), size(set), set.Classes)
	case c.ownImages(r):
		title += ", the nearest in shape,"
	}
	return title
}

// size is how many values a record has.
func size(set *datasets.Set) int {
	shape := set.Train.Shape
	return ir.Size(shape[:])
}

// ownImages reports whether a recipe was chosen on other images than those of the run.
func (c *Config) ownImages(r recipes.Recipe) bool {
	return r.Shape != [3]int{} && r.Data != c.recordsOf()
}

// checkRecipe finds settings that no recipe goes with.
func (c *Config) checkRecipe() error {
	if c.Epsilon == nil {
		return usage.Errorf("recipe %s: its settings depend on the budget; give --epsilon", c.Recipe)
	}
	return nil
}

// fill takes a recipe that is wanted, where it fits the data, and says which, or why not.
func (c *Config) fill(set *datasets.Set, o Options) (which string, warnings []string, err error) {
	if c.Recipe == autoRecipe {
		if why := c.unfit(set); why != "" {
			why = noRecipe + ": " + why
			return why, nil, c.withoutRecipe(c.check(o.Network != nil), why)
		}
	}
	if which, warnings, err = c.follow(set); err == nil {
		err = c.check(o.Network != nil)
	}
	return which, warnings, err
}

// withoutRecipe adds to the error of settings that refine a recipe's features why there is no recipe.
func (c *Config) withoutRecipe(err error, why string) error {
	refines := c.Features == "" && (c.Whiten != "" || c.Mirror || c.Deskew)
	if err == nil || why == "" || !refines {
		return err
	}
	return usage.Errorf("%w (recipe %s)", err, why)
}

// follow fills in what is left open by the recipe for a set, and says which that is.
func (c *Config) follow(set *datasets.Set) (which string, warnings []string, err error) {
	r, err := c.recipe(set, *c.Epsilon)
	if err != nil {
		return "", nil, usage.Errorf("recipe %s: %w; raise --epsilon, or give --recipe %s", recipes.Best, err, noRecipe)
	}
	why := map[string]string{autoRecipe: "as nothing else was chosen", recipes.Best: "as asked"}[c.Recipe]
	which = fmt.Sprintf("%s for %s at ε = %.4g, %s", recipes.Best, c.title(set, r), *c.Epsilon, why)
	if !c.given["mirror"] && !c.Mirror && c.ownImages(r) {
		which += "; where a mirrored image is of the same class, add --mirror"
	}
	initial, values := Default(), r.Keys()
	if others := c.others(&initial, values); len(others) > 0 {
		which = "features alone, since " + strings.Join(others, " and ") + " was given"
		warnings = append(warnings, fmt.Sprintf("recipe %s: %s is not its own, so that its learning rate, clip norm, batch and epochs are left out, too", c.Recipe, strings.Join(others, ", ")))
		if maps.DeleteFunc(values, func(key string, _ any) bool {
			return key != "features" && !slices.Contains(looking, key)
		}); c.Features != "" {
			clear(values)
		}
	} else {
		c.RecipeChosenOn = r.From()
	}
	filled, kept := false, []string(nil)
	for _, s := range settings {
		switch v, ok := values[s.Key]; {
		case !ok:
		case s.open(c, &initial):
			s.put(c, v)
			filled = true
		case !slices.Contains(looking, s.Key):
			if s.untouched(c, &initial) {
				s = Setting{Key: s.instead}
			}
			kept = append(kept, "--"+s.Flag())
		}
	}
	which += exceptFor(kept)
	if !filled {
		return "", nil, usage.Errorf("recipe %s: nothing is left open that it could fill in; leave it out, or leave settings out (those of a file by -c count as given)", c.Recipe)
	}
	return which, warnings, nil
}

// renew takes a file's recipe anew where its settings are those of a recipe, and another ε was asked for since. What its user chose
// otherwise stays. It says which recipe that is.
func (c *Config) renew(set *datasets.Set) (which string, warnings []string) {
	if c.RecipeChosenOn == "" || c.file == nil || c.file.Epsilon == nil || c.Epsilon == nil {
		return "", nil
	}
	old := *c.file.Epsilon
	was, e1 := c.file.recipe(set, old)
	is, e2 := c.recipe(set, *c.Epsilon)
	if e1 != nil || e2 != nil {
		return fmt.Sprintf("%s for ε = %g: the settings are those of the file, for %g", noRecipe, *c.Epsilon, old), []string{fmt.Sprintf("the settings of this file were chosen for epsilon %g, and %g is too small for any recipe: expect less of them", old, min(old, *c.Epsilon))}
	}
	before, after := was.Keys(), is.Keys()
	var kept []string
	for _, s := range settings {
		if after[s.Key] == nil {
			continue
		}
		switch field := reflect.Indirect(s.value(c)); {
		case field.IsValid() && field.Interface() == before[s.Key] && !c.flags[s.Key]:
			s.put(c, after[s.Key])
		case !slices.Contains(looking, s.Key):
			if !field.IsValid() && s.instead != "" {
				s = Setting{Key: s.instead}
			}
			kept = append(kept, "--"+s.Flag())
		}
	}
	return fmt.Sprintf("%s for %s at ε = %.4g, as before at %.4g", recipes.Best, c.title(set, is), *c.Epsilon, old) + exceptFor(kept), nil
}

// exceptFor names the settings of a recipe whose place the user's own take.
func exceptFor(kept []string) string {
	if kept == nil {
		return ""
	}
	return ", except for " + strings.Join(kept, ", ")
}

// others are the bases of which the user chose another one.
func (c *Config) others(initial *Config, values map[string]any) (all []string) {
	for _, key := range bases {
		s := Setting{Key: key}
		if v := s.value(c).Interface(); !s.open(c, initial) && v != values[key] {
			all = append(all, fmt.Sprintf("%s %v", key, v))
		}
	}
	return all
}

// open reports whether nobody chose the setting, nor the one whose place it takes.
func (s Setting) open(c, initial *Config) bool {
	return s.untouched(c, initial) && (s.instead == "" || (Setting{Key: s.instead}).untouched(c, initial))
}

// untouched reports whether nobody gave the setting a value.
func (s Setting) untouched(c, initial *Config) bool {
	return !c.given[s.Key] && reflect.DeepEqual(s.Field(c), s.Field(initial))
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
