// Package recipes holds settings for a data set and an ε: those that reached the best accuracy on images held out from public
// training files, and published ones.
package recipes

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
)

// Best is the name of the recipe that reached the best accuracy here.
const Best = "best"

// Names lists all recipes.
func Names() []string { return []string{Best, WRN, Head} }

// rows are those of a name.
func rows(name string) []Recipe {
	if name == WRN {
		return wrn
	}
	return table
}

// Of names the recipe that was chosen where a text of Recipe.From says.
func Of(from string) string {
	switch {
	case from == headFrom:
		return Head
	case slices.ContainsFunc(wrn, func(r Recipe) bool { return r.From() == from }):
		return WRN
	}
	return Best
}

// A Recipe is a row of the table.
type Recipe struct {
	Data    string // the set on which it was chosen, or the sets
	Shape   [3]int // of its images: channels, height, width
	Records int    // of its training images; where there are fewer, LR wants to be smaller by as much
	Epsilon float64
	By      string // where it was chosen, and by whom, where it was published; empty: here
	Settings
}

// Settings are what a recipe settles. SamplingRate and Epochs do not depend on the number
// of records; steps and batch follow from them.
type Settings struct {
	Features, Whiten     string
	Mirror, Deskew       bool
	Optimizer, Model     string
	LR, Momentum, Clip   float64
	LRSchedule           string
	SamplingRate, Epochs float64
	FeatureNorm          float64 // 0: none
	Views                int     // of a record; 0: one
	Augment              []string
	Average              float64 // 0: none
}

// Keys are the settings by their names in a configuration. A recipe of a table has none of a front end's.
func (s Settings) Keys() map[string]any {
	keys := map[string]any{
		"optimizer": s.Optimizer, "model": s.Model,
		"lr": s.LR, "momentum": s.Momentum, "clip": s.Clip, "lr_schedule": s.LRSchedule,
		"sampling_rate": s.SamplingRate, "epochs": s.Epochs,
	}
	if s.Features != "" {
		keys["features"], keys["whiten"], keys["mirror"], keys["deskew"] = s.Features, s.Whiten, s.Mirror, s.Deskew
	}
	if s.FeatureNorm != 0 {
		keys["feature_norm"] = s.FeatureNorm
	}
	if s.Views != 0 {
		keys["views"], keys["augment"], keys["average"] = s.Views, s.Augment, s.Average
	}
	return keys
}

// Keys are all settings that a recipe of a name may have, of images or of tables.
func Keys(name string) []string {
	most := Settings{Features: "scatter", FeatureNorm: 1}
	switch name {
	case WRN:
		most = wrn[0].Settings
	case Head:
		most = ForHead(Table{}, 1).Settings
	}
	return slices.Sorted(maps.Keys(most.Keys()))
}

// From says where a recipe was chosen.
func (r Recipe) From() string {
	if r.By != "" {
		return r.By
	}
	if r.Data == tablesData {
		return fmt.Sprintf("held-out training records of %s (public benchmark data)", r.Data)
	}
	return fmt.Sprintf("held-out training images of %s, after prototypes on its test set (public benchmark data)", r.Data)
}

// alike are the published sets for which nothing was chosen, and those whose recipes they take: both are photographs of the same size,
// and in both a mirrored image is of the same class.
var alike = map[string]string{"cifar100": "cifar10"}

// Holds says whether all that a recipe settles holds for the images of a data set, whether they are flipped, too. It does for the set on
// which it was chosen and for sets that are alike, and not for images of a user's own.
func (r Recipe) Holds(data string) bool {
	return data == r.Data || alike[data] == r.Data
}

// Find gives the row of a recipe for the largest ε that is not above the given one: of the data set or the one it is like,
// or else of the one with images of the nearest shape.
func Find(name, data string, shape [3]int, epsilon float64) (Recipe, error) {
	all := rows(name)
	if other, ok := alike[data]; ok {
		data = other
	}
	rows := slices.DeleteFunc(slices.Clone(all), func(r Recipe) bool { return r.Data != data })
	if len(rows) == 0 {
		rows = slices.Clone(all)
		near := slices.MinFunc(rows, func(a, b Recipe) int { return cmp.Compare(distance(a.Shape, shape), distance(b.Shape, shape)) })
		rows = slices.DeleteFunc(rows, func(r Recipe) bool { return r.Data != near.Data })
	}
	least := math.Inf(1)
	var found Recipe
	for _, r := range rows {
		least = min(least, r.Epsilon)
		if r.Epsilon <= epsilon && r.Epsilon > found.Epsilon {
			found = r
		}
	}
	if found.Data == "" {
		return found, fmt.Errorf("it begins at epsilon %g, not at %g", least, epsilon)
	}
	return found, nil
}

// distance compares colours first, and then numbers of pixels.
func distance(a, b [3]int) float64 {
	d := math.Abs(math.Log(float64(a[1]*a[2]) / float64(b[1]*b[2])))
	if a[0] != b[0] {
		d += 100
	}
	return d
}
