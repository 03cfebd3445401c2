package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/features"
	"github.com/privgrad/privgrad/internal/cli/data"
	"github.com/privgrad/privgrad/internal/half"
	"github.com/privgrad/privgrad/internal/recipes"
	"github.com/privgrad/privgrad/train"
)

// heldOut is how many training images settings are compared on.
const heldOut = 10000

// tune makes the trials that are not yet in the file, one after the other: the head is trained on
// mapped images, without those held out.
func tune(ctx context.Context, o options) error {
	done, err := readTried()
	if err != nil {
		return err
	}
	for _, t := range trials {
		if !slices.Contains(o.sets, t.data) || o.note != "" && o.note != t.note {
			continue
		}
		all, err := t.settings(o.epsilons)
		if err != nil {
			return err
		}
		var set *datasets.Set // made when it is needed
		for _, r := range all {
			for seed := 1; seed <= o.seeds; seed++ {
				try := tried{note: t.note, Recipe: r, seed: seed}
				if slices.ContainsFunc(done, try.is) {
					continue
				}
				if set == nil {
					if set, err = mapped(o.data, r); err != nil {
						return err
					}
				}
				if try.accuracy, err = fit(ctx, set, r, seed); err != nil {
					return err
				}
				if err := add(triedFile, triedHead, try.fields()); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// opened is a data set of images, and the front end of a recipe for it.
func opened(dir string, r recipes.Recipe) (*datasets.Set, *features.Front, error) {
	source := data.Sources()[r.Data]
	if source.BuiltIn {
		dir = ""
	} else {
		dir = filepath.Join(dir, r.Data)
	}
	set, err := source.Open(dir)
	if err != nil {
		return nil, nil, err
	}
	front, err := features.New(features.Spec{Kind: r.Features, Whiten: features.Whitening(r.Whiten), Mirror: r.Mirror, Deskew: r.Deskew, Shape: set.Train.Shape}, nil)
	return set, front, err
}

// mapped is a data set without its test files: features of the training images, of which the last ones
// take the place of the test set.
func mapped(dir string, r recipes.Recipe) (*datasets.Set, error) {
	set, front, err := opened(dir, r)
	if err != nil {
		return nil, err
	}
	kept, all := set.Train.Len()-heldOut, rowsOf(front, set.Train)
	m := *set
	m.Train, m.Test, m.PublicN, m.PerClass = part(all, 0, kept), part(all, kept, kept+heldOut), kept, nil
	return &m, nil
}

// rowsOf is a split with features in place of images.
func rowsOf(front *features.Front, s datasets.Split) datasets.Split {
	rows := front.Rows(features.Images{Bytes: s.Features}, runtime.NumCPU(), nil)
	values := make([]float32, len(rows))
	for i, h := range rows {
		values[i] = half.ToFloat32(h)
	}
	return datasets.Split{Shape: [3]int{1, 1, front.Width()}, Values: values, Labels: s.Labels}
}

// fit trains the head and gives its accuracy on the held-out images. The noise is that of all
// training images, less by as much as there are fewer: settings are chosen for all of them.
func fit(ctx context.Context, set *datasets.Set, r recipes.Recipe, seed int) (float64, error) {
	c := train.Default()
	c.Seed = uint64(seed)
	sigma, err := noise(r.Settings, r.Epsilon, 1e-5)
	if err != nil {
		return 0, err
	}
	sigma *= float64(set.PublicN) / float64(set.PublicN+heldOut)
	c.NoiseMultiplier = &sigma
	result, err := trained(ctx, c, set, r.Settings)
	if err != nil {
		return 0, err
	}
	if result.TestAccuracy == nil {
		return 0, fmt.Errorf("%s at epsilon %g: no accuracy was measured", set.Name, r.Epsilon)
	}
	return *result.TestAccuracy, nil
}

// noise is the multiplier that settings need: 0 without a budget.
func noise(r recipes.Settings, epsilon, delta float64) (float64, error) {
	if math.IsInf(epsilon, 1) {
		return 0, nil
	}
	c := train.Default()
	sigma, _, err := accountant.Schedule{
		SamplingRate: r.SamplingRate, Steps: max(1, int(r.Epochs/r.SamplingRate*(1+1e-12))),
		Accountant: c.Accountant, Neighbouring: accountant.Neighbouring(c.Neighbouring), Delta: delta,
	}.Calibrate(epsilon)
	return sigma, err
}

// trained trains by settings on records that are at hand. c says how much noise there is.
func trained(ctx context.Context, c train.Config, set *datasets.Set, r recipes.Settings) (*train.Result, error) {
	out, err := os.MkdirTemp("", "accuracy")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(out)
	c.Data, c.EvalEvery = set.Name, 1<<30
	take(&c, r)
	return train.Run(ctx, c, train.Options{
		Out: filepath.Join(out, "run"),
		Sources: map[string]train.Source{set.Name: {
			BuiltIn: true, Open: func(string) (*datasets.Set, error) { return set, nil },
		}},
	})
}

// take puts the settings of a linear model or of a network for tables into a configuration.
func take(c *train.Config, r recipes.Settings) {
	c.Optimizer, c.Model, c.LR, c.Momentum, c.Clip, c.LRSchedule = r.Optimizer, r.Model, &r.LR, r.Momentum, r.Clip, r.LRSchedule
	c.SamplingRate, c.Epochs = &r.SamplingRate, &r.Epochs
	if r.FeatureNorm != 0 {
		c.FeatureNorm = &r.FeatureNorm
	}
}
