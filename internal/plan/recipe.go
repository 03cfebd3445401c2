package plan

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/datasets/tabular"
	"github.com/privgrad/privgrad/features"
	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/recipes"
	"github.com/privgrad/privgrad/internal/setting"
	"github.com/privgrad/privgrad/internal/source"
	"github.com/privgrad/privgrad/internal/usage"
)

// choosing are the settings that a recipe settles, and those that say something of other networks and rules alone. Who gives one
// has made a choice, beside which no recipe is taken that was not asked for. config.Looking is none: it refines a recipe's features.
var choosing = []string{
	"network", "model", "activation", "init", "views", "augment", "features", "feature_norm",
	"optimizer", "lr", "lr_schedule", "momentum", "batch", "sampling_rate", "steps", "epochs", "clip", "clipping",
}

// bases are the choices without which, or with which, a recipe's learning rate means nothing.
var bases = []string{"network", "features", "model", "optimizer", "views", "augment"}

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
func wanted(c *config.Config, o Options) (wanted bool, why string) {
	initial := config.Default()
	i := slices.IndexFunc(choosing, func(key string) bool { return !c.Untouched(key, &initial) })
	switch {
	case slices.Contains(recipes.Names(), c.Recipe):
		return true, ""
	case c.Recipe == config.NoRecipe:
		return false, config.NoRecipe + ", as asked"
	case c.Recipe == "" && c.RecipeChosenOn != "":
		return false, recipeOf(c) + ", as its configuration says"
	case c.LeftRecipe != "":
		return false, config.NoRecipe + " any more: --" + c.LeftRecipe + " was given beside the file"
	case c.Recipe == "":
		return false, ""
	case o.Network != nil || o.Method != nil || o.Front != nil:
		return false, config.NoRecipe + ": the program brings a network, a method or features"
	case i >= 0:
		why = config.NoRecipe + ": --" + setting.Row{Key: choosing[i]}.Flag() + " was given"
		if !slices.Contains(bases, choosing[i]) {
			why += " (--recipe best keeps the rest of it)"
		}
		return false, why
	case c.Epsilon == nil:
		return false, config.NoRecipe + ": it needs --epsilon"
	}
	return true, ""
}

// unfit says why no recipe is taken that nobody asked for; nothing where one is.
func unfit(c *config.Config, set *datasets.Set) string {
	r, err := recipe(c, set, *c.Epsilon)
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
	if err == nil && 2*float64(front.Width())*float64(records(c, set)) > mostBytes {
		return "the features of so many images may not fit into memory"
	}
	return ""
}

// records is the public number of records to train on; 0 where nobody gave it, and the run will be refused.
func records(c *config.Config, set *datasets.Set) int {
	switch {
	case c.PublicN == nil:
		return set.PublicN
	case set.Share > 0:
		return tabular.Scaled(*c.PublicN, set.Share)
	}
	return *c.PublicN
}

// recipeOf names the recipe that was asked for, or that a configuration followed; the best one where none was.
func recipeOf(c *config.Config) string {
	if slices.Contains(recipes.Names(), c.Recipe) {
		return c.Recipe
	}
	return recipes.Of(c.RecipeChosenOn)
}

// errNoRows refuses the recipe for heads where a backbone would have to come first.
var errNoRows = errors.New("it is for rows of a backbone, with a class each: save them as .npz, and declare their length by --image-size D")

// recipe is that for a set and a budget.
func recipe(c *config.Config, set *datasets.Set, epsilon float64) (recipes.Recipe, error) {
	name := recipeOf(c)
	table := recipes.Table{Records: records(c, set), Features: size(set), Classes: set.Classes}
	switch {
	case name == recipes.Head && (!set.Train.Unit || set.Classes == 0):
		return recipes.Recipe{}, errNoRows
	case name == recipes.Head:
		return recipes.ForHead(table, epsilon), nil
	case name == recipes.Best && set.Train.Unit:
		if r := recipes.NetworkForTable(table, epsilon); r.Model == c.Model {
			return r, nil
		}
		return recipes.ForTable(table, epsilon), nil
	}
	r, err := recipes.Find(name, source.RecordsOf(c), set.Train.Shape, epsilon)
	if err == nil && ownImages(c, r) { // left and right may matter
		r.Mirror, r.Augment = false, slices.DeleteFunc(slices.Clone(r.Augment), func(m string) bool { return m == ir.Flip.String() })
	}
	r.Features = features.Taking(r.Features, set.Train.Shape)
	if n := records(c, set); n > 0 { // else the run is refused later, which says why
		// The noise beside a mean gradient grows as records get fewer; so must the steps shrink.
		r.LR *= min(float64(n)/float64(r.Records), 1)
	}
	return r, err
}

// title says what a recipe was chosen for.
func title(c *config.Config, set *datasets.Set, r recipes.Recipe) string {
	title := "images of " + r.Data
	switch {
	case recipeOf(c) == recipes.Head:
		title = fmt.Sprintf("%d rows of %d values and %d classes", records(c, set), size(set), set.Classes)
	case set.Train.Unit && set.Classes == 0:
		title = fmt.Sprintf("tables of %d records and %d values, which predict a number,", records(c, set), size(set))
	case set.Train.Unit:
		title = fmt.Sprintf("tables of %d records, %d values and %d classes", records(c, set), size(set), set.Classes)
	case ownImages(c, r):
		title += ", the nearest in shape,"
	case r.Data != source.RecordsOf(c):
		title += ", since none was chosen on " + source.RecordsOf(c) + ","
	}
	return title
}

// size is how many values a record has.
func size(set *datasets.Set) int {
	shape := set.Train.Shape
	return ir.Size(shape[:])
}

// ownImages reports whether a recipe was chosen on images of another kind than those of the run.
func ownImages(c *config.Config, r recipes.Recipe) bool {
	return r.Shape != [3]int{} && !r.Holds(source.RecordsOf(c))
}

// checkRecipe finds settings that no recipe goes with.
func checkRecipe(c *config.Config) error {
	if c.Epsilon == nil {
		return usage.Errorf("recipe %s: its settings depend on the budget; give --epsilon", c.Recipe)
	}
	switch {
	case c.Network == "":
	case c.Recipe != recipes.Head:
		return usage.Errorf("recipe %s has a network of its own: leave out --network or --recipe", c.Recipe)
	case c.Freeze == "":
		return usage.Errorf("recipe %s trains a last layer behind a frozen network: add --freeze NODE and --weights-are-public, with the last node before that layer", c.Recipe)
	}
	return nil
}

// fill takes a recipe that is wanted, where it fits the data, and says which, or why not.
func fill(c *config.Config, set *datasets.Set, o Options) (which string, warnings []string, err error) {
	if c.Recipe == config.AutoRecipe {
		if why := unfit(c, set); why != "" {
			why = config.NoRecipe + ": " + why
			return why, nil, withoutRecipe(c, c.Check(), why)
		}
	}
	if which, warnings, err = follow(c, set); err == nil {
		err = c.Check()
	}
	return which, warnings, err
}

// withoutRecipe adds to the error of settings that refine a recipe's features why there is no recipe.
func withoutRecipe(c *config.Config, err error, why string) error {
	refines := c.Features == "" && (c.Whiten != "" || c.Mirror || c.Deskew)
	if err == nil || why == "" || !refines {
		return err
	}
	return usage.Errorf("%w (recipe %s)", err, why)
}

// follow fills in what is left open by the recipe for a set, and says which that is.
func follow(c *config.Config, set *datasets.Set) (which string, warnings []string, err error) {
	r, err := recipe(c, set, *c.Epsilon)
	if errors.Is(err, errNoRows) {
		return "", nil, usage.Errorf("recipe %s: %w", recipeOf(c), err)
	}
	if err != nil {
		return "", nil, usage.Errorf("recipe %s: %w; raise --epsilon, or give --recipe %s", recipeOf(c), err, config.NoRecipe)
	}
	why := "as asked"
	if c.Recipe == config.AutoRecipe {
		why = "as nothing else was chosen"
	}
	which = fmt.Sprintf("%s for %s at ε = %.4g, %s", recipeOf(c), title(c, set, r), *c.Epsilon, why)
	initial, values := config.Default(), r.Keys()
	if c.Network != "" { // whose last layer is the model
		delete(values, "model")
		values["network"] = c.Network
	}
	if others := others(c, &initial, values); len(others) > 0 {
		if r.Views > 0 { // it has no features that could stay
			return "", nil, usage.Errorf("recipe %s: %s is not its own, and the rest of it goes with its own alone; leave that out, or give --recipe %s", c.Recipe, strings.Join(others, ", "), config.NoRecipe)
		}
		which = "features alone, since " + strings.Join(others, " and ") + " was given"
		warnings = append(warnings, fmt.Sprintf("recipe %s: %s is not its own, so that its learning rate, clip norm, batch and epochs are left out, too", c.Recipe, strings.Join(others, ", ")))
		if maps.DeleteFunc(values, func(key string, _ any) bool {
			return key != "features" && !slices.Contains(config.Looking, key)
		}); c.Features != "" {
			clear(values)
		}
	} else {
		c.RecipeChosenOn = r.From()
	}
	delete(values, "network")
	filled, kept := false, []string(nil)
	for _, s := range config.Rows() {
		switch v, ok := values[s.Key]; {
		case !ok:
		case c.Open(s.Key, &initial):
			s.Put(c, v)
			filled = true
		case !slices.Contains(config.Looking, s.Key):
			if c.Untouched(s.Key, &initial) {
				s = setting.Row{Key: s.Instead}
			}
			kept = append(kept, "--"+s.Flag())
		}
	}
	which += exceptFor(kept) + mirrorHint(c, r)
	if !filled {
		return "", nil, usage.Errorf("recipe %s: nothing is left open that it could fill in; leave it out, or leave settings out (those of a file by -c count as given)", c.Recipe)
	}
	return which, warnings, nil
}

// mirrorHint says how to mirror images of one's own, which a recipe leaves as they are.
func mirrorHint(c *config.Config, r recipes.Recipe) string {
	const where = "; where a mirrored image is of the same class, add "
	switch {
	case !ownImages(c, r):
	case r.Features != "" && !c.Given["mirror"] && !c.Mirror:
		return where + "--mirror"
	case r.Views > 0 && !slices.Contains(c.Augment, ir.Flip.String()):
		return where + "--augment " + strings.Join(ir.Augmentations(), ",")
	}
	return ""
}

// renew takes a file's recipe anew where its settings are those of a recipe, and another ε was asked for since. What its user chose
// otherwise stays. It says which recipe that is.
func renew(c *config.Config, set *datasets.Set) (which string, warnings []string) {
	if c.RecipeChosenOn == "" || c.File == nil || c.File.Epsilon == nil || c.Epsilon == nil {
		return "", nil
	}
	old := *c.File.Epsilon
	was, e1 := recipe(c.File, set, old)
	is, e2 := recipe(c, set, *c.Epsilon)
	if e1 != nil || e2 != nil {
		return fmt.Sprintf("%s for ε = %g: the settings are those of the file, for %g", config.NoRecipe, *c.Epsilon, old), []string{fmt.Sprintf("the settings of this file were chosen for epsilon %g, and %g is too small for any recipe: expect less of them", old, min(old, *c.Epsilon))}
	}
	before, after := was.Keys(), is.Keys()
	var kept []string
	for _, s := range config.Rows() {
		if after[s.Key] == nil {
			continue
		}
		switch field := reflect.Indirect(s.Value(c)); {
		case field.IsValid() && reflect.DeepEqual(field.Interface(), before[s.Key]) && !c.Flags[s.Key]:
			s.Put(c, after[s.Key])
		case !slices.Contains(config.Looking, s.Key):
			if !field.IsValid() && s.Instead != "" {
				s = setting.Row{Key: s.Instead}
			}
			kept = append(kept, "--"+s.Flag())
		}
	}
	return fmt.Sprintf("%s for %s at ε = %.4g, as before at %.4g", recipeOf(c), title(c, set, is), *c.Epsilon, old) + exceptFor(kept), nil
}

// exceptFor names the settings of a recipe whose place the user's own take.
func exceptFor(kept []string) string {
	if kept == nil {
		return ""
	}
	return ", except for " + strings.Join(kept, ", ")
}

// others are the bases of which the user chose another one.
func others(c *config.Config, initial *config.Config, values map[string]any) (all []string) {
	for _, key := range bases {
		s := setting.Row{Key: key}
		if (key == "views" || key == "augment") && values[key] != nil {
			continue // more or fewer views leave a rate what it is
		}
		if v := s.Value(c).Interface(); !c.Open(key, initial) && !reflect.DeepEqual(v, values[key]) {
			all = append(all, fmt.Sprintf("%s %v", key, v))
		}
	}
	return all
}
