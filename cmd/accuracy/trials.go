package main

import (
	"maps"
	"math"
	"slices"

	"github.com/privgrad/privgrad/features"
	"github.com/privgrad/privgrad/internal/recipes"
)

// A trial is settings that are compared on held-out images: a front end with learning rates
// for each budget. All else is as in the present recipe.
type trial struct {
	note   string // recipes are made of those that say "recipe"
	data   string
	change func(*recipes.Settings) // nil: the recipe's own
	rates  map[float64][]float64   // ε → rates times 63
}

// Notes with a meaning.
const (
	recipe  = "recipe"   // of the trials that make the table
	noNoise = "no noise" // what the features allow
)

var trials = []trial{
	{recipe, "fmnist", nil, map[float64][]float64{0.5: {1, 1.5, 2}, 1: {1.5, 2, 3}, 2: {3, 4, 6}, 3: {4, 6, 8}, 4: {6, 8, 10}, 8: {8, 12, 16}}},
	{recipe, "mnist", deskew(true), map[float64][]float64{0.5: {1, 2, 3}, 1: {2, 3, 4}, 2: {4, 6, 8}, 3: {6, 8, 12}, 4: {6, 8, 12}, 8: {8, 12, 16}}},
	{recipe, "cifar10", withEncoder(0.164, 20), map[float64][]float64{0.5: {1, 1.5}, 1: {2, 3}, 2: {3, 4}, 3: {5, 7}}},
	{recipe, "cifar10", withEncoder(0.33, 40), map[float64][]float64{4: {7, 9}, 8: {10, 14}}},

	{noNoise, "fmnist", nil, without(12, 30, 100)},
	{noNoise, "mnist", nil, without(12, 30, 100)},
	{noNoise, "cifar10", nil, without(14, 30, 100)},
	{"without the encoder", "cifar10", withPairs(0.164, 20), map[float64][]float64{0.5: {0.7, 1, 1.5}, 1: {1.5, 2, 3}, 2: {2, 3, 4}, 3: {4, 5, 7}}},
	{"without the encoder", "cifar10", withPairs(0.33, 40), map[float64][]float64{4: {7, 9}, 8: {10, 14, 18}}},
	{"without the encoder and without noise", "cifar10", withPairs(0.33, 40), without(14, 30, 100)},
	{"without pairs and without noise", "cifar10", withoutPairs, without(14, 30, 100)},

	{"without the encoder, sampling rate 0.164, 20 epochs", "cifar10", withPairs(0.164, 20), map[float64][]float64{4: {5, 6}}},
	{"without the encoder, sampling rate 0.33, 40 epochs", "cifar10", withPairs(0.33, 40), map[float64][]float64{0.5: {1, 1.5, 2}, 1: {2, 2.5, 3}, 2: {3, 4}, 3: {5, 7}}},
	{"without pairs", "cifar10", withoutPairs, map[float64][]float64{0.5: {0.7, 1, 1.5}, 1: {1, 1.5, 2}, 2: {2, 3, 4}, 3: {4, 6, 8}, 4: {4, 6, 8}, 8: {6, 8, 10, 14}}},

	{"scattering alone", "cifar10", kind("scatter"), at3(6)},
	{"scattering alone", "fmnist", kind("scatter"), at3(8)},
	{"patches alone", "cifar10", kind("patches"), at3(6)},
	{"patches alone", "fmnist", kind("patches"), at3(8)},
	{"patches too", "mnist", kind("scatter+patches"), at3(8)},
	{"pairs too", "fmnist", kind("scatter+patches+pairs"), map[float64][]float64{1: {1.5, 2, 3}, 8: {8, 12, 16}}},
	{"sampling rate 0.33, 40 epochs", "fmnist", batches(0.33, 40), map[float64][]float64{1: {2, 3}, 8: {12, 18, 24}}},
	{"sampling rate 0.33, 40 epochs", "mnist", batches(0.33, 40), map[float64][]float64{1: {2, 3}, 3: {6, 9, 12}}},
	{"without the mirror image", "cifar10", mirror(false), at3(6)},
	{"without the mirror image", "fmnist", mirror(false), at3(8)},
	{"with the mirror image", "mnist", mirror(true), at3(8)},
	{"not deskewed", "mnist", deskew(false), map[float64][]float64{0.5: {1}, 1: {3}, 3: {8}, 8: {8}}},
	{"deskewed", "fmnist", deskew(true), at3(6)},
	{"whitened by pink noise", "cifar10", whiten("pink"), at3(6)},
	{"whitened by pink noise", "fmnist", whiten("pink"), at3(8)},
	{"whitened by pink noise", "mnist", whiten("pink"), at3(8)},
	{"not whitened", "cifar10", whiten("none"), at3(6, 20)},
	{"not whitened", "fmnist", whiten("none"), at3(8, 25)},
	{"not whitened", "mnist", whiten("none"), at3(8, 25)},
	{"40 epochs", "cifar10", epochs(40), at3(3, 6)},
	{"10 epochs", "cifar10", epochs(10), at3(6, 12)},
	{"rate falls as a cosine", "cifar10", cosine, map[float64][]float64{1: {2, 3}, 3: {9, 15}}},
	{"rate falls as a cosine", "mnist", cosine, map[float64][]float64{1: {4, 8}, 3: {12, 20}}},
	{"DP-Adam", "cifar10", adam, at3(0.03, 0.1)},
}

func at3(rates ...float64) map[float64][]float64 { return map[float64][]float64{3: rates} }

func batches(rate, epochs float64) func(*recipes.Settings) {
	return func(s *recipes.Settings) { s.SamplingRate, s.Epochs = rate, epochs }
}

// withEncoder is the front end of photographs in color.
func withEncoder(rate, epochs float64) func(*recipes.Settings) {
	return func(s *recipes.Settings) {
		s.Features, s.SamplingRate, s.Epochs = "scatter+patches+pairs+encoder", rate, epochs
	}
}

// withPairs is the recipe from before there was an encoder.
func withPairs(rate, epochs float64) func(*recipes.Settings) {
	return func(s *recipes.Settings) {
		s.Features, s.SamplingRate, s.Epochs = "scatter+patches+pairs", rate, epochs
	}
}

// withoutPairs is the one from before there were pairs.
func withoutPairs(s *recipes.Settings) {
	s.Features, s.SamplingRate, s.Epochs = "scatter+patches", 0.164, 20
}

func without(rates ...float64) map[float64][]float64 {
	return map[float64][]float64{math.Inf(1): rates}
}

func kind(name string) func(*recipes.Settings) {
	return func(s *recipes.Settings) { s.Features = name }
}
func mirror(on bool) func(*recipes.Settings)   { return func(s *recipes.Settings) { s.Mirror = on } }
func deskew(on bool) func(*recipes.Settings)   { return func(s *recipes.Settings) { s.Deskew = on } }
func whiten(by string) func(*recipes.Settings) { return func(s *recipes.Settings) { s.Whiten = by } }
func epochs(n float64) func(*recipes.Settings) { return func(s *recipes.Settings) { s.Epochs = n } }
func cosine(s *recipes.Settings)               { s.LRSchedule = "cosine" }
func adam(s *recipes.Settings)                 { s.Optimizer, s.Momentum = "dp-adam", 0 }

// settings are the trial's recipes, without those of other budgets than the given ones.
func (t trial) settings(epsilons []float64) (all []recipes.Recipe, err error) {
	for _, epsilon := range slices.Sorted(maps.Keys(t.rates)) {
		if !slices.Contains(epsilons, epsilon) && !math.IsInf(epsilon, 1) {
			continue
		}
		r, err := recipes.Find(recipes.Best, t.data, [3]int{}, epsilon)
		if err != nil {
			return nil, err
		}
		if r.Epsilon = epsilon; t.change != nil {
			t.change(&r.Settings)
		}
		for _, rate := range t.rates[epsilon] {
			r.LR = rate / features.Scale
			all = append(all, r)
		}
	}
	return all, nil
}
