package plan

import (
	"errors"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/internal/recipes"
	"github.com/privgrad/privgrad/internal/source"
	"github.com/privgrad/privgrad/internal/usage"
)

// head is the plan of recipe head for a set.
func head(set *datasets.Set, epsilon float64, change func(*config.Config)) (*Plan, error) {
	c := config.Default()
	c.Data, c.Recipe, c.Epsilon, c.Delta, c.Threads, c.Accountant = set.Name, recipes.Head, &epsilon, ptr(1e-6), 1, "rdp"
	if change != nil {
		change(&c)
	}
	return Resolve(c, Options{Sources: map[string]source.Source{set.Name: {BuiltIn: true, Open: func(string) (*datasets.Set, error) { return set, nil }}}})
}

func backboneRows(classes int) *datasets.Set {
	split := datasets.Split{Shape: [3]int{1, 1, 320}, Unit: true, Features: make([]uint8, 40*320), Labels: make([]uint8, 40)}
	return &datasets.Set{Name: "rows", Classes: classes, Train: split, Test: split, PublicN: 20000}
}

// Recipe head needs nothing but ε, follows its rule, is known again from the configuration that it left, and takes what was given.
func TestRecipeHead(t *testing.T) {
	p, err := head(backboneRows(10), 0.5, nil)
	check(t, err)
	want := recipes.ForHead(recipes.Table{Records: 20000, Features: 320, Classes: 10}, 0.5)
	c := p.Config
	if *c.LR != want.LR || *c.FeatureNorm != want.FeatureNorm || c.Model != "logistic" || p.Steps != 100 || *c.SamplingRate != 1 {
		t.Errorf("rate %g, norm %g, model %s, %d steps", *c.LR, *c.FeatureNorm, c.Model, p.Steps)
	}
	if !strings.HasPrefix(p.Recipe, "head for 20000 rows of 320 values and 10 classes at ε = 0.5") || recipes.Of(c.RecipeChosenOn) != recipes.Head {
		t.Errorf("%q, chosen on %q", p.Recipe, c.RecipeChosenOn)
	}
	p, err = head(backboneRows(10), 0.5, func(c *config.Config) { c.LR = ptr(0.25) })
	if check(t, err); *p.Config.LR != 0.25 || !strings.Contains(p.Recipe, "except for --lr") {
		t.Errorf("rate %g: %q", *p.Config.LR, p.Recipe)
	}
	more, err := head(backboneRows(10), 0.1, nil)
	if check(t, err); *more.Config.LR >= want.LR {
		t.Errorf("at a fifth of ε the rate is %g, not below %g", *more.Config.LR, want.LR)
	}
}

// Images and tables with numbers as labels are no rows of a backbone, and a larger ε would not help.
func TestRecipeHeadRefuses(t *testing.T) {
	photos := images("photos", [3]int{3, 32, 32})
	set, err := photos["photos"].Open("")
	check(t, err)
	for name, s := range map[string]*datasets.Set{"images": set, "a regression": backboneRows(0)} {
		_, err := head(s, 3, nil)
		var u *usage.Error
		if !errors.As(err, &u) || !strings.Contains(err.Error(), "--image-size D") || strings.Contains(err.Error(), "raise") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
